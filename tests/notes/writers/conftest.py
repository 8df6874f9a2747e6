"""Tricky notes, linked once, and runs that reuse these links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from medlink import LinkedNote, Note, NotePipeline, Report, link_notes
from medlink.index import Bundle
from medlink.kb import KnowledgeBase
from medlink.records import Mapping, Value
from tests.notes import tricky

TEXTS = {one: text for one, text, _ in tricky.NOTES}
Run = Callable[..., Report]


VALUE = Value("temperature", 39.2, "°C", "high", "limit", 38.0, 'a source, with "quotes"')


def mapped(kb: KnowledgeBase, concept_id: str) -> list[Mapping]:
    """A mapping for each concept of the demo, which has none."""
    return [
        Mapping(concept_id, "ICD10CM", f"R{concept_id[-2:]}", "exact", "DEMO"),
        Mapping(concept_id, "Ward", "W1", "related", "DEMO"),
    ]


@pytest.fixture(scope="session")
def linked(demo: Bundle) -> dict[str, LinkedNote]:
    """The tricky notes with their links and codes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnowledgeBase, "mappings", mapped)
        notes = NotePipeline(demo, map=("ICD-10-CM",)).link([Note(*one) for one in tricky.NOTES])
    # one of them is a measured value
    first = replace(notes[0].mentions[0], value=VALUE)
    notes[0] = replace(notes[0], mentions=(first, *notes[0].mentions[1:]))
    return {one.note.note_id: one for one in notes}


@pytest.fixture
def run(demo: Bundle, linked: dict[str, LinkedNote], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``link_notes`` on the tricky notes in a file, with known links."""

    def lookup(note: Note) -> LinkedNote:
        if note.problem:
            return LinkedNote(note)
        return replace(linked[note.note_id[-1]], note=note)

    def link_known(pipeline: NotePipeline, notes: Iterable[Note], processes: int = 1) -> Iterator[list[LinkedNote]]:
        source = iter(notes)
        for batch in iter(lambda: list(islice(source, 32)), []):
            yield [lookup(note) for note in batch]

    monkeypatch.setattr("medlink.notes.link.link_all", link_known)
    tricky.write_csv(tmp_path / "notes.csv")

    def link(out: Any, inputs: Any = None, **options: Any) -> Report:
        return link_notes(demo, inputs or tmp_path / "notes.csv", out=out, **options)

    return link
