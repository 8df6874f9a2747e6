"""What a house teaches: mentions of notes that were read, with what they were there, and how often.

A stretch of a note that is such a mention in the same words is taken for what it was most often there, in its section
if it was seen in such often enough, else in all: a mention with that concept, one without a concept, or none.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from medlink.errors import InputError
from medlink.files.problems import counted
from medlink.index import Bundle
from medlink.language.scan import Place, ScannedText
from medlink.language.text import Token
from medlink.reading.candidates import NO_CONCEPT, NO_MENTION, LearnedSpan
from medlink.reading.status import status_reader

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
    seen: defaultdict[str, Seen] = dataclasses.field(default_factory=lambda: defaultdict(Counter))

    def add(self, other: Entry) -> None:
        self.notes += other.notes
        for section, seen in other.seen.items():
            self.seen[section].update(seen)

    @property
    def everywhere(self) -> Seen:
        """What it was in all sections."""
        return sum(self.seen.values(), Counter())


Entries = dict[tuple[str, str], Entry]
"""Entries by mention and language."""


def decided(seen: Seen, least: float) -> LearnedSpan | None:
    """What something is by what it was most often, ``None`` where that has less than a share.

    One is added to right and to wrong (Laplace): what was seen twice and always right is right in three of four.
    """
    (what, most), (_, second) = (seen + Counter()).most_common(2) if len(seen) > 1 else [*seen.items(), ("", 0)]
    share = (most + 1) / (seen.total() + 2)
    if what == NO_MENTION:
        least = max(least, _SILENT)
    return LearnedSpan(what, share) if share >= least and most > second else None


class Head(BaseModel, frozen=True, strict=True, extra="forbid"):
    """What the file says of itself: knowledge base and sources, notes, and what a mention needs."""

    medlink: Literal["learned mentions"] = "learned mentions"
    version: Literal[1] = 1
    kb: str
    sources: dict[str, Any]
    notes: int
    least_seen: int
    least_share: Annotated[float, Field(ge=0, le=1)]


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
    """The mentions of the file that ``medlink learn`` wrote, for the notes of one bundle.

    Links depend on the ``hash`` of the file's content; ``path`` is for messages.

    Raises:
        InputError: the bundle has none of the concepts.
    """

    def __init__(self, path: Path, hash: str, head: Head, entries: Entries, bundle: Bundle) -> None:
        self.path, self.hash, self._head = path, hash, head
        named = {what for entry in entries.values() for what in entry.everywhere} - {NO_CONCEPT, NO_MENTION}
        unknown = named - bundle.kb.sources_of(named).keys()
        if named and named == unknown:
            raise InputError(
                f"the bundle has none of its {counted(len(named), 'concept')}",
                path=path,
                remedy="learn from the notes again, with this bundle",
            )
        self._learned: dict[str, dict[tuple[str, str | None], LearnedSpan]] = defaultdict(dict)
        self._left_out = set[tuple[str, str]]()
        for (mention, language), entry in entries.items():
            ways: list[tuple[str | None, Seen]] = [(None, entry.everywhere), *entry.seen.items()]
            for section, seen in ways:
                learned = decided(seen, head.least_share)
                if learned is None or (section is not None and seen.total() < head.least_seen):
                    continue
                if learned.what in unknown:
                    self._left_out.add((mention, language))
                else:
                    self._learned[language][mention, section] = learned
        self._forms = {la: Forms({mention for mention, _ in learned}) for la, learned in self._learned.items()}

    def gaps(self) -> Iterator[str]:
        """What of the file does not count, a sentence each."""
        if self._left_out:
            sources = ", ".join(f"{name} {version}".rstrip() for name, version in sorted(self._head.sources.items()))
            yield (
                f"{self.path}: {counted(len(self._left_out), 'learned mention')} left out, of concepts that the bundle "
                f"does not have; learned with {sources or 'another bundle'}"
            )

    def places(self, text: ScannedText, language: str) -> dict[Place, LearnedSpan]:
        """What the spans of a text were, by their words; of those that lie in each other the longest."""
        if language not in self._forms:
            return {}
        learned = self._learned[language]
        words = [Token(word.start, word.end, word.entry.exact) for word in text.words]
        found = list(self._forms[language].places(text.text, words))
        sections = [""] * len(found)
        if found and any(section for _, section in learned) and (reader := status_reader(language)) is not None:
            sections = reader.read_once(text).sections([(start, end) for _, start, end in found])
        places: dict[Place, LearnedSpan] = {}
        reach = 0
        # the longest of those with one start first
        ordered = sorted(zip(found, sections, strict=True), key=lambda one: (one[0][1], -one[0][2]))
        for (mention, start, end), section in ordered:
            what = learned.get((mention, section)) or learned.get((mention, None))
            if what is not None and end > reach:
                reach = end
                places[text.place(start, end)] = what
        return places
