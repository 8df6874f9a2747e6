"""The code of an executor without Spark: from frames of bytes to frames of rows."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medlink.errors import BundleError, MedlinkError
from medlink.index import Bundle
from medlink.notes.pipeline import NotePipeline
from medlink.spark import BundleLocation, link_partition

pytestmark = pytest.mark.slow  # pandas and Spark take seconds to import
MARKER = "Quartermainitis"


def linked(demo: Bundle, notes: list[tuple[Any, ...]], columns: str = "note text", versions: str = "") -> pd.DataFrame:
    """The rows of notes in two frames."""
    frame = pd.DataFrame(notes, columns=columns.split(), dtype=object)
    frames = [frame[:1], frame[1:]]
    versions = versions or json.dumps(demo.versions)
    found = list(link_partition(BundleLocation(str(demo.folder), shipped=False), (), versions, frames))
    return pd.concat(found) if found else pd.DataFrame()


def test_an_unreadable_note_is_a_row(demo: Bundle) -> None:
    notes = [
        (b"1", b"Kein Fieber.", b"de"), (b"2", None, None), (None, b"Fieb\xff", None), (b"4", b"fever", b"Deutsch!"),
        (b"5", bytearray(b"Fieber"), None), (b"\xff6", b"", None),
    ]  # fmt: skip
    rows = linked(demo, notes, "note text language")
    assert rows["note"].tolist() == [b"1", b"2", None, b"4", b"5"]
    assert rows["problem"].tolist() == [None, "no text", "not UTF-8 at byte 4", "unknown language 'Deutsch!'", None]
    unread = rows[rows["problem"].notna()]
    assert unread["remedy"].notna().all()
    assert unread.drop(columns=["note", "problem", "remedy"]).isna().all(axis=None)
    assert rows["presence"].tolist() == ["absent", None, None, None, "present"]
    assert linked(demo, []).empty


def test_another_bundle_than_on_the_driver(demo: Bundle) -> None:
    with pytest.raises(BundleError, match=r"is another one than on the driver\. Remedy: give all executors"):
        linked(demo, [(b"1", b"Fieber")], versions="{}")


def test_an_unforeseen_error_contains_no_text_of_a_note(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: NotePipeline, notes: Any) -> None:
        raise KeyError(notes[0].text)

    monkeypatch.setattr(NotePipeline, "link", fail)
    with pytest.raises(MedlinkError, match=f"unexpected KeyError at {Path(__file__).name}:") as caught:
        linked(demo, [(b"1", MARKER.encode())])
    assert MARKER not in "".join(traceback.format_exception(caught.value))
