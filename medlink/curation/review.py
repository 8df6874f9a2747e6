"""``Review``: show links of notes, codes or clusters on a page, and store decisions about them in a table.

Decisions can be exported as training pairs, and as annotated notes for the evaluation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.curation.concepts import concept_row
from medlink.curation.decisions import HEADER, DecisionStore, check_offsets
from medlink.curation.page import iter_page, write_page
from medlink.curation.review_items import CLUSTER, read_review_items
from medlink.curation.review_page import PAGE_FILES, review_data
from medlink.errors import ConfigError, InputError
from medlink.files.atomic import atomic_text_writer, check_output_paths
from medlink.files.folders import StrPath
from medlink.files.json import json_line
from medlink.files.problems import pluralize
from medlink.index import Bundle
from medlink.kb.decision_table import ACCEPT, CODE, MENTION, NONE, NOTE, REJECT, Decision, collapse_whitespace
from medlink.linking import Linker
from medlink.notes.reading import Fields

if TYPE_CHECKING:  # exports need no server
    from medlink.curation.server import ReviewServer

PAIR_COLUMNS = ("text_1", "text_2", "score", "id_1", "id_2")
"""Columns of rated pairs, as trainers read them."""
_REMEDY = "decide about mentions first"


class Review:
    """A review of one file, with the decisions so far.

    Args:
        bundle: an opened bundle, or its folder: the concepts to show and search.
        links: links, codes or clusters as JSON lines.
        notes, fields, encoding: the notes of the links, as given to :func:`medlink.link_notes`.
        decisions: the table of decisions, which may not exist yet.

    Raises:
        BundleError: the bundle cannot be used.
        ConfigError: the table cannot be written.
        InputError: see :func:`~medlink.curation.review_items.read_review_items`; or the table cannot be read, or
            belongs to other notes.
    """

    def __init__(
        self, bundle: Bundle | StrPath, links: StrPath, *, notes: Sequence[str] = (), decisions: StrPath | None = None,
        fields: Fields | None = None, encoding: str = "utf-8",
    ) -> None:  # fmt: skip
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(Path(bundle))
        self._reads = [links, *notes, self.bundle.folder]
        check_output_paths({"the decisions": decisions}, self._reads)
        self.store = None if decisions is None else DecisionStore(decisions)
        self.items = read_review_items(links, notes, fields, encoding)
        if self.store is not None:
            texts = {item: note.text for item, note in self.items.notes_by_id.items()}
            check_offsets(self.store.rows, self.store.path, texts)

    def warnings(self) -> Iterator[str]:
        """Yield warnings on concepts of the file and of the decisions that the bundle lacks."""
        yield from self.items.warnings(self.bundle.kb)
        if lost := len(self._lost_decisions()):
            yield f"{pluralize(lost, 'decision')} for a concept that the bundle does not have; pairs and gold lack them"

    def _lost_decisions(self) -> set[Decision]:
        """Return accepted decisions whose concept is not in the bundle, for example because a release retired it."""
        accepted = {row for row in (self.store.rows if self.store else ()) if row.decision == ACCEPT and row.kind}
        known = self.bundle.kb.sources_of({row.concept_id for row in accepted})
        return {row for row in accepted if row.concept_id not in known}

    def _known_rows(self, path: StrPath, what: str) -> list[Decision]:
        store, lost = self._require_store(path, what), self._lost_decisions()
        return [row for row in store.rows if row not in lost]

    def write_page(self, path: StrPath) -> None:
        """Write the page as one file, with the decisions so far; new ones stay in the browser until the user saves."""
        saved = None if self.store is None else self.store.path
        check_output_paths({"the page": path, "the decisions": saved}, self._reads)
        decisions = "" if self.store is None else self.store.read()[0].decode()
        concepts = filter(None, (concept_row(self.bundle.kb, *concept) for concept in self.items.concepts()))
        data = self._data(concepts=concepts, decisions="" if decisions == HEADER else decisions)
        write_page(path, PAGE_FILES, self._title(), data)

    def write_pairs(self, path: StrPath) -> int:
        """Write pairs of a reviewed name and the name of a concept; return their number.

        A pair with the accepted concept has the score 1, and a pair with another candidate has the score 0. A candidate
        that is the same concept in another source gives no pair. ``id_1`` is the concept of the name, empty for none.

        Raises:
            InputError: no decision gives a pair.
        """
        rows = self._known_rows(path, "the pairs")
        candidates: dict[tuple[str, str, int, int, str], dict[str, list[str]]] = {}
        for _, item in self.items.rows if self.items.kind != CLUSTER else ():
            term = collapse_whitespace(item["text"]) if self.items.kind == CODE else ""
            location = (self.items.kind, item["item"], item.get("start", 0), item.get("end", 0), term)
            candidates[location] = {near["concept_id"]: near["same_as"] for near in item["candidates"]}
        pairs: dict[tuple[str, str, int, str, str], None] = {}
        for row in rows:
            if row.decision not in (ACCEPT, NONE):
                continue
            offered = candidates.get(row.location, {})
            same = {"", row.concept_id, *offered.get(row.concept_id, ())}
            wrong = [concept for concept in dict.fromkeys([row.proposed, *offered]) if concept not in same]
            right = [row.concept_id] if row.decision == ACCEPT else []
            names = self.bundle.kb.preferred_names([*right, *wrong], row.language or None)
            for concept in (*right, *wrong):
                name = names.get(concept, "")
                if name and (concept in right or name != row.term):
                    pairs[row.term, " ".join(name.split()), int(concept in right), row.concept_id, concept] = None
        if not pairs:
            raise InputError("no decision gives a training pair", path=self.items.path, remedy=_REMEDY)
        with atomic_text_writer(path, "the pairs", private=True) as file:
            file.write("\t".join(PAIR_COLUMNS) + "\n")
            file.writelines("\t".join(map(str, pair)) + "\n" for pair in pairs)
        return len(pairs)

    def write_gold(self, path: StrPath) -> int:
        """Write the notes that have decisions, with their findings, a JSON line each; return their number.

        A note is ``complete`` if the reviewer marked it as fully annotated. The lines do not say whether a finding is
        present, because reviewers do not decide it.

        Raises:
            InputError: the file has no notes, or there is no decision about a mention of them.
        """
        rows, items = self._known_rows(path, "the gold"), self.items
        if items.kind != MENTION:
            remedy = "give links of notes, and the notes"
            raise InputError(f"{items.kind}s give no annotated notes", path=items.path, remedy=remedy)
        by_note: defaultdict[str, list[Decision]] = defaultdict(list)
        for row in rows:
            if row.kind in (MENTION, NOTE):
                by_note[row.item].append(row)
        notes, languages = items.notes_by_id, items.languages
        lines = [
            {
                "id": notes[item].note_id, "text": notes[item].text,
                "language": languages.get(item) or notes[item].language or "",
                "complete": any(row.kind == NOTE for row in found),
                "findings": [
                    {"pieces": [[row.start, row.end]], "concepts": [row.concept_id] * (row.decision == ACCEPT)}
                    for row in sorted(found, key=lambda row: row.location)
                    if row.kind == MENTION and row.decision != REJECT
                ],
            }
            for item, found in by_note.items() if item in notes
        ]  # fmt: skip
        if not any(line["findings"] for line in lines):
            raise InputError("there is no decision about a mention of these notes", path=items.path, remedy=_REMEDY)
        with atomic_text_writer(path, "the gold", private=True) as file:
            file.writelines(map(json_line, lines))
        return len(lines)

    def server(self, port: int = 0) -> ReviewServer:
        """Return the listening server of the page; ``serve_forever`` answers until it is shut down."""
        from medlink.curation.server import ReviewServer

        store = self._require_store(None, "")
        page = "".join(iter_page(PAGE_FILES, self._title(), self._data(served=True), served=True))
        return ReviewServer(page.encode("utf-8", "replace"), store, Linker(self.bundle), port)

    def _data(self, **more: Any) -> Iterator[str]:
        rows, notes = self.items.page_rows(self.bundle.kb), self.items.note_rows()
        return review_data(self.items.kind, self.items.fields, rows, self._summary(), notes=notes, **more)

    def _require_store(self, path: StrPath | None, what: str) -> DecisionStore:
        if self.store is None:
            raise ConfigError("there is no table of decisions", remedy="name one")
        if path is not None:
            check_output_paths({what: path, "the decisions": self.store.path}, self._reads)
        return self.store

    def _title(self) -> str:
        return Path(self.items.path).name

    def _summary(self) -> dict[str, int | str]:
        sources = ", ".join(source.release for source in self.bundle.kb.sources())
        notes = {} if not self.items.notes else {"notes": len(self.items.notes)}
        return {**notes, f"{self.items.kind}s": len(self.items.rows), "sources": sources}
