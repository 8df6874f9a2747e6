"""``Review``: links of notes, codes or clusters on one page, and what a reader decides about them in one table.

Decisions are also training pairs, and annotated notes that the evaluation of notes reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medlink.curation.decisions import HEADER, Kept, check_places
from medlink.curation.page import page_parts, write_page
from medlink.curation.review_items import CLUSTER, Work, gaps, read_work
from medlink.curation.review_page import SCRIPTS, concept_row, review_data
from medlink.curation.server import ReviewServer
from medlink.errors import ConfigError, InputError
from medlink.files.atomic import check_targets, whole_text
from medlink.files.escapes import visible
from medlink.files.folders import StrPath
from medlink.files.json import json_line
from medlink.index import Bundle
from medlink.kb import KnowledgeBase
from medlink.kb.decision_table import ACCEPT, MENTION, NONE, NOTE, REJECT, Decision
from medlink.linking import Linker
from medlink.notes.reading import Fields

_FOLDER = "review"
PAIRS = ("text_1", "text_2", "score", "id_1", "id_2")
"""Columns of rated pairs as ``medlink train`` reads them."""
_AGAIN = "decide about mentions first"


class Review:
    """A review of one file, with the decisions so far.

    Args:
        bundle: an opened bundle, or its folder: whose concepts are shown and searched.
        links: links of ``medlink link``, codes, or clusters of ``medlink cluster --format jsonl``.
        notes: the notes of links, as they were given to ``medlink link``.
        decisions: the table of decisions; it need not be there.
        fields: names of the JSONL fields of notes.
        encoding: that of the notes.

    Raises:
        BundleError: the bundle cannot be used.
        ConfigError: the table cannot be written.
        InputError: see :func:`~medlink.curation.review_items.read_work`; the table cannot be read, or is of other
            notes.
    """

    def __init__(
        self,
        bundle: Bundle | StrPath,
        links: StrPath,
        *,
        notes: Sequence[str] = (),
        decisions: StrPath | None = None,
        fields: Fields | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(Path(bundle))
        self._reads = [links, *notes, self.bundle.folder]
        check_targets({"the decisions": decisions}, self._reads)
        self.kept = None if decisions is None else Kept(decisions)
        self.work = read_work(links, notes, fields, encoding)
        if self.kept is not None:
            texts = {item: note.text for item, note in self.work.items.items()}
            check_places(self.kept.rows, self.kept.path, texts)

    def gaps(self) -> Iterator[str]:
        """Sentences on what the file has and the bundle lacks."""
        yield from gaps(self.work, self.bundle.kb)

    def write_report(self, path: StrPath) -> None:
        """Write the page as one file, with the decisions so far; what is decided there is kept in it until it is saved.

        Raises:
            ConfigError: the file cannot be written.
        """
        check_targets({"the page": path, "the decisions": None if self.kept is None else self.kept.path}, self._reads)
        decided = "" if self.kept is None else self.kept.content()[0].decode()
        rows = (concept_row(self.bundle.kb, *one) for one in self.work.concepts())
        decisions = "" if decided == HEADER else decided
        data = self._data(concepts=(row for row in rows if row is not None), decisions=decisions)
        write_page(path, _FOLDER, SCRIPTS, self._title(), data)

    def write_pairs(self, path: StrPath) -> int:
        """Write training pairs, see :func:`~medlink.curation.review.write_pairs`."""
        kept = self._needed(path, "the pairs")
        return write_pairs(path, kept.rows, self.work, self.bundle.kb)

    def write_gold(self, path: StrPath) -> int:
        """Write annotated notes, see :func:`~medlink.curation.review.write_gold`."""
        kept = self._needed(path, "the gold")
        return write_gold(path, kept.rows, self.work)

    def server(self, port: int = 0) -> ReviewServer:
        """The server of the page, which listens; ``serve_forever`` answers until it is shut down.

        Raises:
            ConfigError: there is no table for the decisions, or the port cannot be used.
        """
        kept = self._needed(None, "")
        page = "".join(page_parts(_FOLDER, SCRIPTS, self._title(), self._data(served=True), served=True))
        return ReviewServer(page.encode("utf-8", "replace"), kept, Linker(self.bundle), port)

    def _data(self, **more: Any) -> Iterator[str]:
        rows, notes = self.work.page_rows(self.bundle.kb), self.work.note_rows()
        return review_data(self.work.kind, self.work.fields, rows, self._summary(), notes=notes, **more)

    def _needed(self, path: StrPath | None, what: str) -> Kept:
        if self.kept is None:
            raise ConfigError("there is no table of decisions", remedy="name one")
        if path is not None:
            check_targets({what: path, "the decisions": self.kept.path}, self._reads)
        return self.kept

    def _title(self) -> str:
        return Path(self.work.path).name

    def _summary(self) -> dict[str, int | str]:
        sources = ", ".join(source.release for source in self.bundle.kb.sources())
        notes = {} if not self.work.notes else {"notes": len(self.work.notes)}
        return {**notes, f"{self.work.kind}s": len(self.work.rows), "sources": sources}


def write_pairs(path: StrPath, rows: Iterable[Decision], work: Work, kb: KnowledgeBase) -> int:
    """Write pairs of a reviewed name and the name of a concept; returns their number.

    A pair with the accepted concept has the score 1. One with a concept that was offered and not taken has 0, unless
    it is the same in another source. ``id_1`` is the concept of the name, empty where it has none.

    Raises:
        InputError: nothing was decided that gives a pair.
        ConfigError: the file cannot be written.
    """
    offered = _offered(work)
    pairs: dict[tuple[str, str, int, str, str], None] = {}
    for row in rows:
        if row.decision not in (ACCEPT, NONE):
            continue
        others = [row.proposed] * bool(row.proposed) + [one for one, _ in offered.get(row.place, ())]
        same = {twin for one, twins in offered.get(row.place, ()) if one == row.concept_id for twin in twins}
        wrong = [one for one in dict.fromkeys(others) if one != row.concept_id and one not in same]
        right = [row.concept_id] if row.decision == ACCEPT else []
        names = kb.preferred_names([*right, *wrong], row.language or None)
        for concept in (*right, *wrong):
            name = names.get(concept, "")
            if name and (concept in right or name != row.term):
                pairs[row.term, " ".join(name.split()), int(concept in right), row.concept_id, concept] = None
    if not pairs:
        raise InputError("no decision gives a training pair", path=work.path, remedy=_AGAIN)
    with whole_text(path, "the pairs", private=True) as file:
        file.write("\t".join(PAIRS) + "\n")
        file.writelines("\t".join(map(str, pair)) + "\n" for pair in pairs)
    return len(pairs)


def write_gold(path: StrPath, rows: Iterable[Decision], work: Work) -> int:
    """Write the notes with what was decided in them, a line for each; returns their number.

    Notes about which nothing was decided are left out. A note is ``complete`` where a reader said that all of it is
    annotated. Whether a finding is present was not decided, and is not said.

    Raises:
        InputError: the work has no notes, nothing was decided about a mention of them, or other words stand there.
        ConfigError: the file cannot be written.
    """
    if work.kind != MENTION:
        remedy = "give links of notes, and the notes"
        raise InputError(f"{work.kind}s are no gold for notes", path=work.path, remedy=remedy)
    by_note: defaultdict[str, list[Decision]] = defaultdict(list)
    for row in rows:
        if row.kind in (MENTION, NOTE):
            by_note[row.item].append(row)
    items, languages = work.items, work.languages
    decided = [(items[item], found) for item, found in by_note.items() if item in items]
    if not any(_findings(found) for _, found in decided):
        raise InputError("nothing was decided about a mention of these notes", path=work.path, remedy=_AGAIN)
    with whole_text(path, "the gold", private=True) as file:
        for note, found in decided:
            line = {
                "id": note.note_id,
                "text": note.text,
                "language": languages.get(found[0].item) or note.language or "",
                "complete": any(row.kind == NOTE for row in found),
                "findings": _findings(found),
            }
            file.write(visible(json_line(line).rstrip("\n")) + "\n")
    return len(decided)


def _findings(rows: Sequence[Decision]) -> list[dict[str, list[list[int]] | list[str]]]:
    found = sorted((row for row in rows if row.kind == MENTION and row.decision != REJECT), key=lambda row: row.place)
    return [
        {"pieces": [[row.start, row.end]], "concepts": [row.concept_id] if row.decision == ACCEPT else []}
        for row in found
    ]


def _offered(work: Work) -> Mapping[tuple[str, str, int, int], list[tuple[str, list[str]]]]:
    if work.kind == CLUSTER:
        return {}
    return {
        (work.kind, row["item"], row.get("start", 0), row.get("end", 0)): [
            (one["concept_id"], one["same_as"]) for one in row["candidates"]
        ]
        for _, row in work.rows
    }
