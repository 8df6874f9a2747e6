"""Learned mentions: spans of annotated notes with the concepts that they had there.

A span of a note with the same words gets the label that was most frequent: in its section if there are enough
occurrences, else in all sections. A label is a concept, a mention without a concept, or no mention.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from medlink.errors import InputError
from medlink.files.problems import pluralize
from medlink.index import Bundle
from medlink.language.scan import Place, ScannedText
from medlink.language.text import Token
from medlink.reading.candidates import NO_CONCEPT, NO_MENTION, LearnedSpan
from medlink.reading.qualifiers import qualifier_reader

_MIN_NO_MENTION = 0.7  # least share for no mention; higher than for concepts, because annotators overlook mentions
_CASE_SENSITIVE = 6  # characters up to which capitals count: "RA" is not "Ra"

Seen = Counter[str]
"""Number of occurrences by label: a concept id, :data:`NO_CONCEPT` or :data:`NO_MENTION`."""


def key(words: Sequence[str], text: str) -> str:
    """Return the lookup key of a mention: its words in exact form, in capitals if it is short and written so.

    >>> key(["ra"], "RA"), key(["fieber"], "FIEBER"), key(["beidseitige", "odeme"], "beidseitige Ödeme")
    ('RA', 'FIEBER', 'beidseitige odeme')
    """
    joined = " ".join(words)
    return joined.upper() if len(joined) <= _CASE_SENSITIVE and text.isupper() else joined


@dataclass(slots=True)
class Entry:
    """A mention: the number of ``notes`` that have it, and its labels by kind of section."""

    notes: int = 0
    seen: defaultdict[str, Seen] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, other: Entry) -> None:
        self.notes += other.notes
        for section, seen in other.seen.items():
            self.seen[section].update(seen)

    @property
    def everywhere(self) -> Seen:
        """Counts of its labels over all sections."""
        return sum(self.seen.values(), Counter())


Entries = dict[tuple[str, str], Entry]
"""Entries by mention and language."""


def decided(seen: Seen, least: float) -> LearnedSpan | None:
    """Return the most frequent label, ``None`` if its share is below ``least`` or another label is as frequent.

    The share is smoothed by adding one occurrence with the label and one without it (Laplace): two of two count as
    three of four.
    """
    (label, most), (_, second) = (seen + Counter()).most_common(2) if len(seen) > 1 else [*seen.items(), ("", 0)]
    share = (most + 1) / (seen.total() + 2)
    if label == NO_MENTION:
        least = max(least, _MIN_NO_MENTION)
    return LearnedSpan(label, share) if share >= least and most > second else None


class CodeWeights(BaseModel, frozen=True, strict=True, extra="forbid", allow_inf_nan=False):
    """Logistic regression of the codes of a note (:mod:`medlink.notes.coding`).

    ``columns`` has the weight, the lowest and the highest value of each column, and ``least`` is the lowest probability
    of a code.
    """

    offset: float
    least: float
    columns: dict[str, Annotated[list[float], Field(min_length=3, max_length=3)]]


class Head(BaseModel, frozen=True, strict=True, extra="forbid"):
    """First line of the file: knowledge base and sources, number of notes, and the minimal counts of a mention.

    ``codes`` is ``None`` if too few notes were annotated.
    """

    medlink: Literal["learned mentions"] = "learned mentions"
    version: Literal[1] = 1
    kb: str
    sources: dict[str, Any]
    notes: int
    least_seen: int
    least_share: Annotated[float, Field(ge=0, le=1)]
    codes: CodeWeights | None = None


class Forms:
    """Finds mentions of a language in texts by their words."""

    def __init__(self, mentions: Iterable[str]) -> None:
        self._mentions = frozenset(mentions)
        self._longest: dict[str, int] = {}  # words of the longest mention, by its first word
        for mention in self._mentions:
            first, *more = mention.lower().split()
            self._longest[first] = max(self._longest.get(first, 0), 1 + len(more))

    def places(self, text: str, words: Sequence[Token]) -> Iterator[tuple[str, int, int]]:
        """Yield the mentions in a text with their character spans; they may overlap."""
        for first, word in enumerate(words):
            for stop in range(first + 1, min(first + self._longest.get(word.text, 0), len(words)) + 1):
                start, end = word.start, words[stop - 1].end
                mention = key([token.text for token in words[first:stop]], text[start:end])
                if mention in self._mentions:
                    yield mention, start, end


class Learned:
    """The learned mentions of a file, for the notes of one bundle.

    Links depend on the ``hash`` of the content; ``path`` is for messages.

    Raises:
        InputError: the bundle has none of the concepts.
    """

    def __init__(self, path: Path, hash: str, head: Head, entries: Entries, bundle: Bundle) -> None:
        self.path, self.hash, self.head, self.entries = path, hash, head, entries
        named = {label for entry in entries.values() for label in entry.everywhere} - {NO_CONCEPT, NO_MENTION}
        unknown = named - bundle.kb.sources_of(named).keys()
        if named and named == unknown:
            raise InputError(
                f"the bundle has none of its {pluralize(len(named), 'concept')}",
                path=path,
                remedy="learn from the notes again, with this bundle",
            )
        self.unknown = unknown
        self._learned: dict[str, dict[tuple[str, str | None], LearnedSpan]] = defaultdict(dict)
        self._left_out = set[tuple[str, str]]()
        for (mention, language), entry in entries.items():
            sections: list[tuple[str | None, Seen]] = [(None, entry.everywhere), *entry.seen.items()]
            for section, seen in sections:
                learned = decided(seen, head.least_share)
                if learned is None or (section is not None and seen.total() < head.least_seen):
                    continue
                if learned.label in unknown:
                    self._left_out.add((mention, language))
                else:
                    self._learned[language][mention, section] = learned
        self._forms = {la: Forms({mention for mention, _ in learned}) for la, learned in self._learned.items()}

    def gaps(self) -> Iterator[str]:
        """Yield messages about mentions of the file that are ignored."""
        if self._left_out:
            sources = ", ".join(f"{name} {version}".rstrip() for name, version in sorted(self.head.sources.items()))
            yield (
                f"{self.path}: {pluralize(len(self._left_out), 'learned mention')} left out, of concepts that the "
                f"bundle does not have; learned with {sources or 'another bundle'}"
            )

    def places(self, text: ScannedText, language: str) -> dict[Place, LearnedSpan]:
        """Return the learned labels of the spans of a text; the longest of nested spans counts."""
        if language not in self._forms:
            return {}
        learned = self._learned[language]
        words = [Token(word.start, word.end, word.entry.exact) for word in text.words]
        matches = list(self._forms[language].places(text.text, words))
        sections = [""] * len(matches)
        if matches and any(section for _, section in learned) and (reader := qualifier_reader(language)) is not None:
            sections = reader.read_once(text).sections([(start, end) for _, start, end in matches])
        places, end_of_last = dict[Place, LearnedSpan](), 0
        # the longest first among spans with the same start
        ordered = sorted(zip(matches, sections, strict=True), key=lambda pair: (pair[0][1], -pair[0][2]))
        for (mention, start, end), section in ordered:
            label = learned.get((mention, section)) or learned.get((mention, None))
            if label is not None and end > end_of_last:
                end_of_last = end
                places[text.place(start, end)] = label
        return places
