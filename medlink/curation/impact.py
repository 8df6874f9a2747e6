"""Which links of notes a new release would code differently, and why; as a report, a table and a page.

Only what ``medlink link`` wrote is read, and no note. Each mention is linked again with the new bundle, without the
text around it. Where that gives another concept than the file has, the old bundle is asked in the same way, so that
what the text decided then is not taken for a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from medlink.curation.page import json_list, short, to_json, write_page
from medlink.errors import ConfigError, InputError
from medlink.files.atomic import check_targets, whole_text
from medlink.files.escapes import as_cell, visible
from medlink.files.folders import StrPath
from medlink.files.json import json_line, read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.index import Bundle
from medlink.kb import KnowledgeBase
from medlink.kb.changes import MERGED_AWAY, what_became_of
from medlink.language.text import normalise
from medlink.linking import Linker, Mention
from medlink.linking.options import known_tag
from medlink.records import AMBIGUOUS, LINKED, Link

SAME, ANOTHER, NOW_AMBIGUOUS, NOW_NIL, RENAMED = "same", "another", "ambiguous", "nil", "renamed"
RESULTS = ("retired", "merged", ANOTHER, NOW_AMBIGUOUS, NOW_NIL, RENAMED, SAME)
"""What becomes of a link. ``renamed`` is the same concept with another preferred name."""
_AS_BEFORE = (SAME, RENAMED)
_BATCH = 1_000
_AGAIN = "give a file that link_notes() wrote"
_SHOWN = 12  # texts, and as many notes, of a change that the page shows
_FIELDS = (
    "result", "reason", "concept_id", "preferred_name", "score", "new_concept_id", "new_preferred_name", "new_score",
    "replaced_by", "how", "links", "notes", "texts", "more_texts", "some_notes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Impact:
    """What becomes of one link.

    Attributes:
        note, start, end, text, language: the mention, as the file of links has it.
        result: one of :data:`RESULTS`.
        concept_id, preferred_name, score: the link in the file.
        new_concept_id, new_preferred_name, new_score: the first candidate now; the id is empty where none is linked.
        reason: what changed: ``concept retired``, ``concept merged``, ``name removed``, ``name added to another
            concept``, ``concept added``, ``preferred name``, or ``scores`` where other names are likelier now.
        replaced_by, how: of a concept that is gone what stands for it, and what the source says of it.
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
class ImpactReport:
    """How many links there are, how many of them have a concept and were checked, and what becomes of these.

    ``notes`` are the notes with links that were checked, ``changed_notes`` those that would be coded differently.
    """

    links: int
    checked: int
    results: dict[str, int]
    reasons: dict[str, int]
    notes: int
    changed_notes: int

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.links:,} links, {self.checked:,} with a concept"
        for result, count in self.results.items():
            yield f"{result:10} {count:>10,}"
        for reason, count in self.reasons.items():
            yield f"  {reason}: {count:,}"
        yield f"{self.changed_notes:,} of {self.notes:,} notes would be coded differently"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def check_links(
    old: str | Path,
    new: str | Path,
    links: StrPath,
    *,
    out: StrPath | None = None,
    report: StrPath | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> ImpactReport:
    """Check the links of notes against another bundle.

    Memory grows with the different changes, not with the links.

    Args:
        old: the bundle with which the links were made.
        new: the bundle with the new release.
        links: JSON lines that ``medlink link`` wrote.
        out: where to write each link that is not ``same``: JSON lines where its name ends in ``.jsonl``, else TSV.
        report: where to write the page.
        progress: called with the number of links that are done.
        options: those of :class:`~medlink.linking.options.LinkOptions` with which the links were made.

    Raises:
        BundleError: a bundle cannot be used.
        ConfigError: an option is unknown, or an output cannot be written.
        InputError: the links cannot be read, are no links, or were made with another bundle.
    """
    check_targets({"the output": out, "the page": report}, [links, old, new])
    check = _Check(Linker(Bundle(old), **options), Linker(Bundle(new), **options))
    results, reasons, groups = Counter[str](), Counter[str](), Groups()
    number, notes, changed = 0, _Runs(), _Runs()
    with ExitStack() as stack:
        file = None if out is None else stack.enter_context(whole_text(out, private=True))
        write = _writer(file, is_json=out is not None and Path(out).suffix == ".jsonl")
        rows = _rows(links, check.old.bundle)
        while batch := list(islice(rows, _BATCH)):
            number += len(batch)
            for one in check([row for row in batch if row["concept_id"] is not None]):
                results[one.result] += 1
                notes.add(one.note)
                if one.result == SAME:
                    continue
                reasons[one.reason] += 1
                groups.add(one)
                write(one)
                if one.result not in _AS_BEFORE:
                    changed.add(one.note)
            if progress:
                progress(number)
        found = ImpactReport(
            number,
            results.total(),
            {result: results[result] for result in RESULTS},
            dict(sorted(reasons.items())),
            notes.count,
            changed.count,
        )
        if report is not None:
            releases = [
                ", ".join(source.release for source in linker.kb.sources()) for linker in (check.old, check.new)
            ]
            write_impact(report, groups, found.to_dict(), releases)
    return found


class _Runs:
    """Counts notes, whose links stand together."""

    def __init__(self) -> None:
        self.count, self._last = 0, ""

    def add(self, note: str) -> None:
        self.count += note != self._last or not self.count
        self._last = note


class _Check:
    """Links again what was linked, and says what differs."""

    def __init__(self, old: Linker, new: Linker) -> None:
        self.old, self.new = old, new

    def __call__(self, rows: list[dict[str, Any]]) -> Iterator[Impact]:
        mentions = [Mention(row["text"], row["language"] or None, row.get("expanded") or None) for row in rows]
        now = self.new.link(mentions)
        other = [place for place, row in enumerate(rows) if now[place].concept_id != row["concept_id"]]
        before = dict(zip(other, self.old.link([mentions[place] for place in other]), strict=True))
        for place, row in enumerate(rows):
            yield self._one(row, now[place], before.get(place))

    def _one(self, row: dict[str, Any], now: Link, before: Link | None) -> Impact:
        concept_id, first = row["concept_id"], now.candidates[0] if now.candidates else None
        result, reason, replaced_by, how = SAME, "", "", ""
        if concept_id not in self.new.kb:
            gone = what_became_of(concept_id, self.new.kb)
            result, replaced_by, how = gone.change, gone.after, gone.how
            reason = "concept merged" if gone.change == MERGED_AWAY else "concept retired"
        elif before is not None and (before.status, before.concept_id) != (now.status, now.concept_id):
            result = {LINKED: ANOTHER, AMBIGUOUS: NOW_AMBIGUOUS}.get(now.status, NOW_NIL)
            reason = self._reason(row, now)
        elif before is None and first is not None and first.preferred_name != row["preferred_name"]:
            result, reason = RENAMED, "preferred name"
        return Impact(
            row["note"],
            row["start"],
            row["end"],
            row["text"],
            row["language"],
            result,
            concept_id,
            row["preferred_name"],
            row["score"],
            now.concept_id or "",
            first.preferred_name if first else "",
            first.score if first else None,
            reason,
            replaced_by,
            how,
        )

    def _reason(self, row: dict[str, Any], now: Link) -> str:
        """What changed in the names of two concepts, so that a mention is linked to another one or to none."""
        concept_id, matched = row["concept_id"], row["candidates"][0]["name"]
        if not _has(self.new.kb, concept_id, matched):
            return "name removed"
        for one in now.candidates:
            if one.concept_id != concept_id:
                if one.concept_id not in self.old.kb:
                    return "concept added"
                if not _has(self.old.kb, one.concept_id, one.name):
                    return "name added to another concept"
                break
        return "scores"


def _has(kb: KnowledgeBase, concept_id: str, name: str) -> bool:
    return normalise(name) in {normalise(one.text) for one in kb.names(concept_id)}


def _rows(path: StrPath, bundle: Bundle) -> Iterator[dict[str, Any]]:
    made_with = {key: bundle.versions[key] for key in ("kb", "encoder")}
    for line, row in read_json_lines(LineFile(path, Problems(0.0), may_be_empty=True)):
        match row:
            case {
                "note": str(), "start": int() as start, "end": int() as end, "text": str(), "language": str() as tag,
                "concept_id": None | str(), "versions": {"kb": str() as kb, "encoder": str() as encoder},
            } if isinstance(row.get("expanded"), str | None) and not {bool} & {type(start), type(end)}:  # fmt: skip
                pass
            case _:
                raise InputError("is no link of a note", path=path, line=line, remedy=_AGAIN)
        try:
            known_tag(tag)
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
                raise InputError("is a link without its score, or its names", path=path, line=line, remedy=_AGAIN)
        if {"kb": kb, "encoder": encoder} != made_with:
            raise InputError(
                f"was linked with another bundle than {bundle.folder}",
                path=path,
                line=line,
                remedy="name the bundle with which the notes were linked, or link them again with it",
            )
        yield row


def _writer(file: TextIO | None, *, is_json: bool) -> Callable[[Impact], object]:
    if file is None:
        return lambda one: None
    if is_json:
        return lambda one: file.write(visible(json_line(asdict(one)).rstrip("\n")) + "\n")
    file.write("\t".join(Impact.__slots__) + "\n")

    def write(one: Impact) -> None:
        cells = ("" if value is None else as_cell(visible(str(value))) for value in asdict(one).values())
        file.write("\t".join(cells) + "\n")

    return write


@dataclass(slots=True)
class _Group:
    """Links that change in one way: the first of them, how many there are, and what some of them are."""

    first: Impact
    links: int = 0
    score: float = 0.0
    new_score: float = 0.0
    texts: Counter[str] = field(default_factory=Counter)
    other_texts: int = 0
    notes: list[str] = field(default_factory=list)
    note_count: int = 0
    last_note: str = ""


class Groups:
    """Links by what becomes of them: memory grows with the different changes."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _Group] = {}

    def add(self, one: Impact) -> None:
        """Take in a link; those of one note stand together."""
        key = (one.result, one.reason, one.concept_id, one.new_concept_id or one.new_preferred_name)
        group = self._groups.setdefault(key, _Group(one))
        group.links += 1
        group.score += one.score
        group.new_score += one.new_score or 0.0
        if one.text in group.texts or len(group.texts) < _SHOWN:
            group.texts[one.text] += 1
        else:
            group.other_texts += 1
        if not group.note_count or one.note != group.last_note:
            group.note_count += 1
            group.last_note = one.note
            if len(group.notes) < _SHOWN:
                group.notes.append(one.note)

    def rows(self) -> Iterator[list[Any]]:
        """A row for each change, the most frequent first; scores are means."""
        for group in sorted(self._groups.values(), key=lambda one: (-one.links, one.first.concept_id)):
            first = group.first
            yield [
                *(first.result, first.reason, first.concept_id, first.preferred_name, short(group.score / group.links)),
                *(first.new_concept_id, first.new_preferred_name),
                None if first.new_score is None else short(group.new_score / group.links),
                *(first.replaced_by, first.how, group.links, group.note_count),
                [text for text, _ in group.texts.most_common()],
                *(group.other_texts, group.notes),
            ]


def write_impact(path: str | PathLike[str], groups: Groups, report: dict[str, Any], releases: Sequence[str]) -> None:
    """Write the page; it appears under its name when it is complete.

    ``report`` is plain data of :class:`ImpactReport`, ``releases`` are what the old and the new bundle hold.

    Raises:
        ConfigError: the file cannot be written.
    """

    def data() -> Iterator[str]:
        yield to_json({"fields": _FIELDS, "report": report, "releases": list(releases)})[:-1] + ',"changes":'
        yield from json_list(groups.rows())
        yield "}"

    write_page(path, "impact", ("page.js",), "What the new release changes", data())
