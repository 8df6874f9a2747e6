"""List the links of notes that a new release would change, and why: a report, a table and a page.

Each mention is linked again with the new bundle, without its context. If the result differs from the file, it is also
linked with the old bundle, so that the missing context does not count as a change. No note is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.curation.page import json_object, round_score, write_page
from medlink.errors import ConfigError, InputError
from medlink.files.atomic import check_output_paths, rows_format
from medlink.files.folders import StrPath
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import row_writer
from medlink.index import Bundle
from medlink.kb import KnowledgeBase
from medlink.kb.changes import MERGED_AWAY, classify_retirement
from medlink.language.text import normalise
from medlink.linking import Linker, Mention
from medlink.linking.options import parse_language
from medlink.records import AMBIGUOUS, LINKED, Link, Result

SAME, ANOTHER, NOW_AMBIGUOUS, NOW_NIL, RENAMED = "same", "another", "ambiguous", "nil", "renamed"
RESULTS = ("retired", "merged", ANOTHER, NOW_AMBIGUOUS, NOW_NIL, RENAMED, SAME)
"""Results for a link. ``renamed`` is the same concept with another preferred name."""
_PAGE_FILES = ("impact/body.html", "impact/style.css", "impact/page.js")
_BATCH = 1_000
_REMEDY = "give the JSON lines that link_notes(format=jsonl) writes"
_EXAMPLES = 12  # texts and notes of a change on the page
_FIELDS = (
    "result", "reason", "concept_id", "preferred_name", "score", "new_concept_id", "new_preferred_name", "new_score",
    "replaced_by", "how", "links", "notes", "texts", "more_texts", "some_notes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LinkChange:
    """The result of linking one mention again, one of :data:`RESULTS`, beside the link in the file.

    ``new_preferred_name`` and ``new_score`` are those of the first candidate; ``new_concept_id`` is empty if nothing is
    linked. ``reason`` is ``concept retired``, ``concept merged``, ``name removed``, ``name added to another concept``,
    ``concept added``, ``preferred name``, or ``scores`` if only the ranking changed. ``replaced_by`` and ``how`` are
    the replacement of a removed concept, and the relation to it in the source.
    """

    note: str
    start: int
    end: int
    text: str
    language: str
    result: str
    concept_id: str
    preferred_name: str
    score: float
    new_concept_id: str = ""
    new_preferred_name: str = ""
    new_score: float | None = None
    reason: str = ""
    replaced_by: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class ImpactReport(Result):
    """Counts of links, of checked links (those with a concept) and of their results, and of the notes of checked links:
    all, and those that would be coded differently."""

    links: int
    checked: int
    results: dict[str, int]
    reasons: dict[str, int]
    notes: int
    changed_notes: int

    def lines(self) -> Iterator[str]:
        yield f"{self.links:,} links, {self.checked:,} with a concept"
        for result, count in self.results.items():
            yield f"{result:10} {count:>10,}"
        for reason, count in self.reasons.items():
            yield f"  {reason}: {count:,}"
        yield f"{self.changed_notes:,} of {self.notes:,} notes would be coded differently"


def check_links(
    old: str | Path, new: str | Path, links: StrPath, *, out: StrPath | None = None, report: StrPath | None = None,
    progress: Callable[[int], object] | None = None, **options: Any,
) -> ImpactReport:  # fmt: skip
    """Compare the links of notes with the links that another bundle would make.

    Memory grows with the number of different changes, not with the links.

    Args:
        old, new: the bundle that made the links, and the bundle with the new release.
        links: JSON lines of :func:`medlink.link_notes`.
        out, report: file for each link that is not ``same`` (``.tsv`` or ``.jsonl``), and for the page.
        progress: called with the number of links done.
        options: fields of :class:`~medlink.linking.options.LinkOptions`, as when the links were made.

    Raises:
        BundleError: a bundle cannot be used.
        ConfigError: an option is unknown, or an output cannot be written.
        InputError: the links cannot be read, or another bundle made them.
    """
    check_output_paths({"the output": out, "the page": report}, [links, old, new])
    rows_format(out)  # fails before the work
    compare = _Comparison(Linker(Bundle(old), **options), Linker(Bundle(new), **options))
    results, reasons, groups = Counter[str](), Counter[str](), ChangeGroups()
    number, notes, changed = 0, _NoteCounter(), _NoteCounter()
    with row_writer(out, LinkChange, private=True) as write:
        rows = _rows(links, compare.old.bundle)
        while batch := list(islice(rows, _BATCH)):
            number += len(batch)
            for change in compare([row for row in batch if row["concept_id"] is not None]):
                results[change.result] += 1
                notes.add(change.note)
                if change.result == SAME:
                    continue
                reasons[change.reason] += 1
                groups.add(change)
                write(change)
                if change.result != RENAMED:
                    changed.add(change.note)
            if progress:
                progress(number)
        by_result, by_reason = {result: results[result] for result in RESULTS}, dict(sorted(reasons.items()))
        impact = ImpactReport(number, results.total(), by_result, by_reason, notes.count, changed.count)
        if report is not None:
            kbs = compare.old.kb, compare.new.kb
            releases = [", ".join(source.release for source in kb.sources()) for kb in kbs]
            write_impact(report, groups, impact.to_dict(), releases)
    return impact


class _NoteCounter:
    def __init__(self) -> None:
        self.count, self._last = 0, ""

    def add(self, note: str) -> bool:
        """Count a note, and return whether it differs from the last note."""
        is_new = note != self._last or not self.count
        self.count += is_new
        self._last = note
        return is_new


class _Comparison:
    def __init__(self, old: Linker, new: Linker) -> None:
        self.old, self.new = old, new

    def __call__(self, rows: list[dict[str, Any]]) -> Iterator[LinkChange]:
        mentions = [Mention(row["text"], row["language"] or None, row.get("expanded") or None) for row in rows]
        now = self.new.link(mentions)
        differ = [at for at, row in enumerate(rows) if now[at].concept_id != row["concept_id"]]
        before = dict(zip(differ, self.old.link([mentions[at] for at in differ]), strict=True))
        for at, row in enumerate(rows):
            yield self._compare(row, now[at], before.get(at))

    def _compare(self, row: dict[str, Any], now: Link, before: Link | None) -> LinkChange:
        concept_id, first = row["concept_id"], now.candidates[0] if now.candidates else None
        result, reason, replaced_by, how = SAME, "", "", ""
        if concept_id not in self.new.kb:
            gone = classify_retirement(concept_id, self.new.kb)
            result, replaced_by, how = gone.change, gone.after, gone.how
            reason = "concept merged" if gone.change == MERGED_AWAY else "concept retired"
        elif before is not None and (before.status, before.concept_id) != (now.status, now.concept_id):
            result = {LINKED: ANOTHER, AMBIGUOUS: NOW_AMBIGUOUS}.get(now.status, NOW_NIL)
            reason = self._reason(row, now)
        elif before is None and first is not None and first.preferred_name != row["preferred_name"]:
            result, reason = RENAMED, "preferred name"
        return LinkChange(
            row["note"], row["start"], row["end"], row["text"], row["language"], result, concept_id,
            row["preferred_name"], row["score"], now.concept_id or "", first.preferred_name if first else "",
            first.score if first else None, reason, replaced_by, how,
        )  # fmt: skip

    def _reason(self, row: dict[str, Any], now: Link) -> str:
        concept_id, matched = row["concept_id"], row["candidates"][0]["name"]
        if not _has(self.new.kb, concept_id, matched):
            return "name removed"
        other = next((candidate for candidate in now.candidates if candidate.concept_id != concept_id), None)
        if other is not None and other.concept_id not in self.old.kb:
            return "concept added"
        is_named = other is None or _has(self.old.kb, other.concept_id, other.name)
        return "scores" if is_named else "name added to another concept"


def _has(kb: KnowledgeBase, concept_id: str, name: str) -> bool:
    return normalise(name) in {normalise(own.text) for own in kb.names(concept_id)}


def _rows(path: StrPath, bundle: Bundle) -> Iterator[dict[str, Any]]:
    made_with = {key: bundle.versions[key] for key in ("kb", "encoder")}
    for line, row in read_json_lines(LineFile(path, Problems(0.0, adjustable=False, remedy=_REMEDY), allow_empty=True)):
        match row:
            case {
                "note": str(), "start": int() as start, "end": int() as end, "text": str(), "language": str() as tag,
                "concept_id": None | str(), "versions": {"kb": str() as kb, "encoder": str() as encoder},
            } if isinstance(row.get("expanded"), str | None) and not {bool} & {type(start), type(end)}:  # fmt: skip
                pass
            case _:
                raise InputError("not a link of a note", path=path, line=line, remedy=_REMEDY)
        try:
            parse_language(tag)
        except ConfigError as error:
            raise InputError(error.message, path=path, line=line, remedy=error.remedy) from error
        match row:
            case {"concept_id": None}:
                pass
            case {
                "preferred_name": str(), "score": float() | int() as score, "candidates": [{"name": str()}, *_],
            } if isfinite(score) and not isinstance(score, bool):  # fmt: skip
                pass
            case _:
                raise InputError("the link has no score, or no names", path=path, line=line, remedy=_REMEDY)
        if {"kb": kb, "encoder": encoder} != made_with:
            message = f"the link was made with another bundle than {bundle.folder}"
            remedy = "name the bundle that linked the notes, or link them again with this one"
            raise InputError(message, path=path, line=line, remedy=remedy)
        yield row


@dataclass(slots=True)
class _Group:
    """Links with the same change: the first, their number, and examples."""

    first: LinkChange
    links: int = 0
    score: float = 0.0
    new_score: float = 0.0
    texts: Counter[str] = field(default_factory=Counter)
    other_texts: int = 0
    notes: list[str] = field(default_factory=list)
    counter: _NoteCounter = field(default_factory=_NoteCounter)


class ChangeGroups:
    """Links grouped by their change; memory grows with the number of different changes."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _Group] = {}

    def add(self, change: LinkChange) -> None:
        """Add a link; the links of a note must be consecutive."""
        key = (change.result, change.reason, change.concept_id, change.new_concept_id or change.new_preferred_name)
        group = self._groups.setdefault(key, _Group(change))
        group.links += 1
        group.score += change.score
        group.new_score += change.new_score or 0.0
        if change.text in group.texts or len(group.texts) < _EXAMPLES:
            group.texts[change.text] += 1
        else:
            group.other_texts += 1
        if group.counter.add(change.note) and len(group.notes) < _EXAMPLES:
            group.notes.append(change.note)

    def rows(self) -> Iterator[list[Any]]:
        """Yield a row for each change, the most frequent first; scores are means."""
        for group in sorted(self._groups.values(), key=lambda group: (-group.links, group.first.concept_id)):
            first = group.first
            yield [
                first.result, first.reason, first.concept_id, first.preferred_name,
                round_score(group.score / group.links), first.new_concept_id, first.new_preferred_name,
                None if first.new_score is None else round_score(group.new_score / group.links),
                first.replaced_by, first.how, group.links, group.counter.count,
                [text for text, _ in group.texts.most_common()], group.other_texts, group.notes,
            ]  # fmt: skip


def write_impact(
    path: str | PathLike[str], groups: ChangeGroups, report: dict[str, Any], releases: Sequence[str]
) -> None:
    """Write the page of :class:`ImpactReport` as plain data, with the releases of the old and the new bundle."""
    head = {"fields": _FIELDS, "report": report, "releases": list(releases)}
    write_page(path, _PAGE_FILES, "Changes by the new release", json_object(head, changes=groups.rows()))
