"""What a house teaches: mentions of notes that were read, with what they were there, and how often.

A file of JSON lines, written by :mod:`medlink.notes.learning`: what it was made with, then a line for each mention.
A stretch of a note that is such a mention in the same words is taken for what it was most often there, in its section
if it was seen in such often enough, else in all: a mention with that concept, one without a concept, or none.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc

from medlink.errors import InputError
from medlink.files.json import json_line, read_json_lines
from medlink.files.problems import Problems, counted
from medlink.files.streams import LineFile
from medlink.files.whole import whole_text
from medlink.index import Bundle
from medlink.index.dictionary import Match
from medlink.language.text import Token, exact_words
from medlink.notes.abbreviations import Place
from medlink.notes.choice import Found
from medlink.notes.status import status_reader

NO_CONCEPT, NO_MENTION = "no concept", "no mention"
"""What a mention may have been beside a concept; no id has a blank."""
_HEAD = {"medlink": "learned mentions", "version": 1}
_FIELDS = {"mention", "language", "notes", "seen"}
_REMEDY = "write it anew with medlink learn"
_SILENT = 0.7  # share from which on what was no mention is none: who annotates may overlook some
_CAPITALS = 6  # characters of words whose capitals count: "RA" is no "Ra"

Seen = Counter[str]
"""How often a mention was which concept, :data:`NO_CONCEPT` or :data:`NO_MENTION`."""


def key(words: Sequence[str], text: str) -> str:
    """How a mention is looked up: its words in their exact form, a short one that is in capitals in capitals.

    >>> key(["ra"], "RA"), key(["fieber"], "FIEBER"), key(["beidseitige", "odeme"], "beidseitige Ödeme")
    ('RA', 'FIEBER', 'beidseitige odeme')
    """
    joined = " ".join(words)
    return joined.upper() if len(joined) <= _CAPITALS and text.isupper() else joined


@dataclass(slots=True)
class Entry:
    """A mention: what it was in how many ``notes``, by the kind of its section."""

    notes: int = 0
    seen: defaultdict[str, Seen] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, other: Entry) -> None:
        """Take in what was seen elsewhere."""
        self.notes += other.notes
        for section, seen in other.seen.items():
            self.seen[section].update(seen)

    @property
    def everywhere(self) -> Seen:
        """What it was in all sections."""
        return sum(self.seen.values(), Counter())


Entries = dict[tuple[str, str], Entry]
"""Entries by mention and language."""


class Taught(NamedTuple):
    """What a stretch of a note was most often, and the share of that, smoothed."""

    what: str
    share: float

    def found(self, match: Match | None) -> Found | None:
        """What is known of the stretch, ``None`` for no mention; ``match`` are the names that it is."""
        if self.what == NO_MENTION:
            return None
        if self.what == NO_CONCEPT:
            return Found(match, likely=0.0, taught="")
        return Found(match, likely=self.share, taught=self.what)


def decided(seen: Seen, least: float) -> Taught | None:
    """What something is by what it was most often, ``None`` where that has less than a share.

    One is added to right and to wrong (Laplace): what was seen twice and always right is right in three of four.

    >>> decided(Counter({"X:1": 3, NO_MENTION: 1}), 0.5), decided(Counter({"X:1": 1, "X:2": 1}), 0.5)
    (Taught(what='X:1', share=0.6666666666666666), None)
    """
    (what, most), (_, second) = (seen + Counter()).most_common(2) if len(seen) > 1 else [*seen.items(), ("", 0)]
    share = (most + 1) / (seen.total() + 2)
    if what == NO_MENTION:
        least = max(least, _SILENT)
    return Taught(what, share) if share >= least and most > second else None


@dataclass(frozen=True, slots=True)
class Head:
    """What the file says of itself: knowledge base and sources, notes, and what a mention needs."""

    kb: str
    sources: dict[str, str]
    notes: int
    least_seen: int
    least_share: float


def write_learned(path: str | PathLike[str], head: Head, entries: Entries) -> None:
    """Write the file, which appears whole; its lines are sorted, and the same entries give the same bytes."""
    with whole_text(path, "the learned mentions") as file:
        about = {"kb": head.kb, "sources": head.sources, "notes": head.notes}
        file.write(json_line({**_HEAD, **about, "least_seen": head.least_seen, "least_share": head.least_share}))
        for (mention, language), entry in sorted(entries.items()):
            seen = {kind: dict(sorted(counts.items())) for kind, counts in sorted(entry.seen.items())}
            file.write(json_line({"mention": mention, "language": language, "notes": entry.notes, "seen": seen}))


def read_learned(path: str | PathLike[str]) -> tuple[Head, Entries]:
    """Read the file, plain or ``.gz``.

    Raises:
        InputError: it cannot be read, is none that medlink wrote, or a line of it is none.
    """
    lines = LineFile(path, Problems(0, adjustable=False), ended=True)
    rows = read_json_lines(lines)
    number, first = next(rows, (1, {}))
    head = _head(first)
    if head is None:
        raise InputError("is no file of learned mentions", path=lines.path, line=number, remedy=_REMEDY)
    entries: Entries = {}
    for number, row in rows:
        if not _is_entry(row) or (row["mention"], row["language"]) in entries:
            raise InputError("is no learned mention, or there twice", path=lines.path, line=number, remedy=_REMEDY)
        seen = defaultdict(Counter, {kind: Counter(counts) for kind, counts in row["seen"].items()})
        entries[row["mention"], row["language"]] = Entry(row["notes"], seen)
    return head, entries


def is_learned(row: Mapping[str, Any]) -> bool:
    """Whether the first line of a file is that of learned mentions."""
    return row.get("medlink") == _HEAD["medlink"]


def _head(row: dict[str, Any]) -> Head | None:
    values = {name: value for name, value in row.items() if name not in _HEAD}
    kinds = {"kb": str, "sources": dict, "notes": int, "least_seen": int, "least_share": float | int}
    if {name: row.get(name) for name in _HEAD} != _HEAD or values.keys() != kinds.keys():
        return None
    right = all(isinstance(values[name], kind) for name, kind in kinds.items()) and 0 <= values["least_share"] <= 1
    return Head(**values) if right else None


def _is_entry(row: dict[str, Any]) -> bool:
    if row.keys() != _FIELDS or not isinstance(row["seen"], dict) or not _is_count(row["notes"]):
        return False
    return (
        all(isinstance(row[name], str) for name in ("mention", "language"))
        and row["mention"].strip() != ""
        and all(isinstance(counts, dict) and all(map(_is_count, counts.values())) for counts in row["seen"].values())
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Forms:
    """Mentions of a language, looked for in texts by their words."""

    def __init__(self, mentions: Iterable[str]) -> None:
        self._mentions = frozenset(mentions)
        self._longest: dict[str, int] = {}  # words of the longest that begins with a word
        for mention in self._mentions:
            first, *more = mention.lower().split()
            self._longest[first] = max(self._longest.get(first, 0), 1 + len(more))

    def places(self, text: str, words: Sequence[Token]) -> Iterator[tuple[str, int, int]]:
        """Mentions in a text with their characters; they may overlap."""
        for first, word in enumerate(words):
            for stop in range(first + 1, min(first + self._longest.get(word.text, 0), len(words)) + 1):
                start, end = word.start, words[stop - 1].end
                mention = key([one.text for one in words[first:stop]], text[start:end])
                if mention in self._mentions:
                    yield mention, start, end


class Learned:
    """Learned mentions for the notes of one bundle.

    Args:
        path: a file that ``medlink learn`` wrote.
        bundle: whose concepts count.

    Attributes:
        hash: of the file's content: links depend on it.

    Raises:
        InputError: the file cannot be read, or the bundle has none of its concepts.
    """

    def __init__(self, path: str | Path, bundle: Bundle) -> None:
        self.path = Path(path)
        self._head, entries = read_learned(path)
        with open(LineFile(path, Problems()).path, "rb") as file:
            self.hash = hashlib.file_digest(file, "sha256").hexdigest()
        named = {what for entry in entries.values() for what in entry.everywhere} - {NO_CONCEPT, NO_MENTION}
        self._unknown = named - bundle.kb.identities(named).keys()
        if named and named == self._unknown:
            raise InputError(
                f"the bundle has none of its {counted(len(named), 'concept')}",
                path=path,
                remedy="learn from the notes again, with this bundle",
            )
        self._taught: dict[str, dict[tuple[str, str | None], Taught]] = {}
        self._left_out = set[tuple[str, str]]()
        for (mention, language), entry in entries.items():
            self._add(mention, language, entry)
        self._forms = {la: Forms({mention for mention, _ in taught}) for la, taught in self._taught.items()}

    def _add(self, mention: str, language: str, entry: Entry) -> None:
        ways: list[tuple[str | None, Seen]] = [(None, entry.everywhere), *entry.seen.items()]
        for section, seen in ways:
            taught = decided(seen, self._head.least_share)
            if taught is None or (section is not None and seen.total() < self._head.least_seen):
                continue
            if taught.what in self._unknown:
                self._left_out.add((mention, language))
            else:
                self._taught.setdefault(language, {})[mention, section] = taught

    def gaps(self) -> Iterator[str]:
        """What of the file does not count, a sentence each."""
        if self._left_out:
            sources = ", ".join(f"{name} {version}".rstrip() for name, version in sorted(self._head.sources.items()))
            yield (
                f"{self.path}: {counted(len(self._left_out), 'learned mention')} left out, of concepts that the bundle "
                f"does not have; learned with {sources or 'another bundle'}"
            )

    def places(self, doc: Doc, text: str, language: str) -> dict[Place, Taught]:
        """What the stretches of a note were, by their tokens; of those that lie in each other the longest."""
        taught, forms = self._taught.get(language), self._forms.get(language)
        if taught is None or forms is None:
            return {}
        found = list(forms.places(text, exact_words(text, language)))
        reader = status_reader(language) if found and any(section for _, section in taught) else None
        sections = [""] * len(found)
        if reader is not None:
            sections = reader.read(text).sections([(start, end) for _, start, end in found])
        places: dict[Place, Taught] = {}
        reach = 0
        # the longest of those with one start first
        for (mention, start, end), section in sorted(
            zip(found, sections, strict=True), key=lambda one: (one[0][1], -one[0][2])
        ):
            span = doc.char_span(start, end, alignment_mode="expand")
            what = taught.get((mention, section)) or taught.get((mention, None))
            if what is None or end <= reach or span is None or _letters(span.text) != _letters(text[start:end]):
                continue
            reach = end
            places[span.start, span.end] = what
        return places


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))
