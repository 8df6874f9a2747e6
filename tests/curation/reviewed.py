"""Notes in three languages with their links, and codes, for the tests of the review."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medlink import link_notes
from medlink.curation.review import Review
from medlink.index import Bundle
from medlink.kb.decision_table import COLUMNS, LOCATION_COLUMNS

TEXTS = {
    "de": "\U0001f493\r\nDiagnosen:\r\nZ. n. Herzinfarkt, jetzt Fieber.\r\n"
    "Kein Husten. Wasser in den Beinen links.\r\n",
    "en": "He has a fever and MS.\nDenies cough. Wheezy at night.\n",
    "es": "Refiere fiebre y tos desde ayer.\nSin disnea. Bajada de azúcar.\n",
}
CODES = (
    ("=L1", "Herzinfarkt", "de", 70, "DEMO:0016", "linked"),
    ("L2", "fever of <b>unknown</b> origin", "en", 500, "DEMO:0209", "linked"),
    ("L3", "desconocido", "es", 3, None, "nil"),
)


@dataclass(frozen=True)
class Linked:
    """A folder with notes, and the file with their links."""

    notes: Path
    links: Path

    def review(self, bundle: Bundle, out: Path | None = None) -> Review:
        return Review(bundle, self.links, notes=[str(self.notes)], decisions=out)

    def item(self, language: str) -> str:
        return str(self.notes / f"{language}.txt")


def linked(folder: Path, bundle: Bundle) -> Linked:
    (folder / "notes").mkdir()
    for language, text in TEXTS.items():
        (folder / "notes" / f"{language}.txt").write_bytes(text.encode())
    link_notes(bundle, [folder / "notes"], out=folder / "links.jsonl")
    return Linked(folder / "notes", folder / "links.jsonl")


def codes(folder: Path) -> Path:
    """A list of codes, as the mapping of code lists writes it."""
    path = folder / "codes.jsonl"
    path.write_text("".join(json.dumps(code(*one)) + "\n" for one in CODES), "utf-8")
    return path


def code(name: str, text: str, language: str, frequency: int, concept: str | None, status: str) -> dict[str, Any]:
    near = {"concept_id": concept or "DEMO:0001", "preferred_name": "nearest", "score": 0.9 if concept else 0.2}
    return {
        "kind": "code", "id": name, "text": text, "language": language, "frequency": frequency, "concept_id": concept,
        "preferred_name": concept and "nearest", "score": near["score"], "status": status, "candidates": [near],
    }  # fmt: skip


def row(kind: str, item: str, term: str, decision: str, **more: object) -> str:
    """A line of a decision table with all columns."""
    cells = {"name": term, "type": "synonym", "decision": decision, "kind": kind, "item": item, **more}
    return "\t".join(str(cells.get(column, "")) for column in (*COLUMNS, *LOCATION_COLUMNS)) + "\n"
