"""A language model beside the notes: what went wrong is said at the end, by however many processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink import link_notes
from medlink.index import Bundle
from medlink.notes.reading import Note
from tests.linking.rankers.server import says, serving

BATCH = 32


@pytest.mark.parametrize("processes", [1, 2])
def test_all_processes_are_counted(demo: Bundle, processes: int, tmp_path: Path) -> None:
    words = ["kidney failure", "diabetes"]
    notes = [Note(str(n), f"He has {words[n // BATCH]}.", "en") for n in range(len(words) * BATCH)]
    told: list[str] = []
    with serving(says("none of your business")) as server:
        link_notes(demo, notes, out=tmp_path / "o.jsonl", ranker=server.url, processes=processes, say=told.append)
    assert len(server.asked) == len(words)
    assert told == ["the ranker gave no valid answer for 2 mentions: not one of the candidates (2)"]
