"""Cues (words that qualify mentions): their tables, and a phrase matcher over words and punctuation marks.

The readers of tables (``cues.tsv`` and others) return an empty table for a language without the file. They raise
:class:`medlink.errors.InputError` for a missing column or an unreadable row.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args

from medlink.files.json import read_json
from medlink.language import languages
from medlink.language.languages import Language, Row, alternatives, per_language, rows
from medlink.language.scope_rules import ScopeRules
from medlink.language.text import APOSTROPHE, INVISIBLE

RULE = 8
"""Length from which a run of the same mark is a single token, as in ``--------``."""
LETTERS = rf"[^\W_]+(?:[\u0300-\u036f{INVISIBLE}]+[^\W_]*)*"
DECIMAL = r"(?<!\d[.,])\d++[.,]\d++(?![.,]\d)"  # not in a date such as 12.03.2010
_PLAIN = re.compile(rf"{DECIMAL}|{LETTERS}(?:[{APOSTROPHE}]{LETTERS})*|[^\w\s]|_")
_TOKEN = re.compile(rf"([^\w\s]|_)\1{{{RULE - 1},}}|{_PLAIN.pattern}")
_RUN = re.compile(rf"([^\w\s]|_)\1{{{RULE - 1}}}")
_APOSTROPHE, _INVISIBLE = re.compile(f"[{APOSTROPHE}]"), re.compile(f"[{INVISIBLE}]")
_SEGMENT = re.compile(r"(?:\[[^\]]*\]|[^\s\[])+")
_CHOICE = re.compile(r"\[([^\]]*)\]")

_V = TypeVar("_V")
_Value = Literal[
    "absent", "uncertain", "sought", "present", "historical", "past", "gone", "stopped", "hypothetical", "planned",
    "avoided", "declined", "family", "other", "patient", "allergy", "taken",
]  # fmt: skip
Reads = Literal[_Value, "pseudo", "end", "cause", "means"]
"""Effect of a cue on the mentions in its scope.

``sought`` is *uncertain*, except for a finding that was seen (:attr:`ScopeRules.observed`), as in *investigate anemia*.
``past`` is *historical* for a transient finding (:attr:`ScopeRules.passing`), and has no effect on a lasting finding.
``stopped`` and ``planned`` are *historical* and *hypothetical* only for their object, a drug or an act. ``avoided`` is
*hypothetical* for its object, and also *absent* if the object is a drug or an act, as in *avoid NSAIDs*. ``declined``
is *absent* for its object if that is a drug or an act. ``allergy`` marks a substance that the patient is allergic to;
``taken`` marks a drug that the patient takes, even beside allergies. ``pseudo`` only looks like a cue, ``end`` ends
scopes, and ``cause`` ends all scopes except temporal scopes. ``means`` names a method by which something was found,
such as *by CT*: cues of presence have no effect on a mention inside it or right after it.
"""
Side = Literal["before", "after", "both", "around", "beside", ""]
"""Position of a cue: before the mention, after it, on either side, around it as two halves, or beside it.

Check boxes are ``beside`` their mentions: before them in a line that begins with a box, otherwise after them.
"""
_INERT = ("pseudo", "end", "cause", "means")
BETWEEN = " … "
"""Between the two halves of a cue."""
SYSTEM = "system"
"""Kind of a heading that names a part of the body: it belongs to an open review of systems, else to the findings."""


class Token(NamedTuple):
    """A word or punctuation mark of a text with its character offsets; ``low`` is ``text`` in lower case."""

    start: int
    end: int
    text: str
    low: str

    @property
    def is_mark(self) -> bool:
        """Whether the token has neither letters nor digits."""
        return not self.low[:1].isalnum()


def parts(text: str) -> list[str]:
    """Split a text into words and punctuation marks, without blanks.

    Hyphens, slashes and dots separate words, but an apostrophe inside a word does not. A number with one decimal comma
    or dot is a word, and so is a run of at least :data:`RULE` equal marks.
    """
    return [match[0] for match in _TOKEN.finditer(text)] if _RUN.search(text) else _PLAIN.findall(text)


def words(text: str) -> list[Token]:
    """Return the :class:`Token` of each part that :func:`parts` finds."""
    tokens, end, new = list[Token](), 0, tuple.__new__  # faster than the constructor of a NamedTuple
    split = parts(text)
    known = {part: (part if part.isascii() else spelling(part)) for part in set(split)}
    lower = {part: plain.lower() for part, plain in known.items()}
    for part in split:
        start = text.find(part, end)
        end = start + len(part)
        tokens.append(new(Token, (start, end, known[part], lower[part])))
    return tokens


def spelling(token: str) -> str:
    """Return a spelling for comparison: Unicode composed, with straight apostrophes, without invisible characters."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", _APOSTROPHE.sub("'", token))) or token


def is_number(low: str) -> bool:
    """Return whether a word is a whole or decimal number without letters: ``7`` or ``7,5``, not ``7h``."""
    return low[:1].isdecimal() and (low.isdecimal() or low.replace(",", "").replace(".", "").isdecimal())


class Text:
    """The tokens of a text, and their positions by their lower case."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.words = tokens
        self.places = defaultdict[str, list[int]](list)
        for at, token in enumerate(tokens):
            self.places[token.low].append(at)

    def places_of(self, lows: Collection[str]) -> list[int]:
        """Return the positions of all tokens with one of these lower-case spellings, in ascending order."""
        return sorted([at for low in self.places.keys() & lows for at in self.places[low]])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the character offsets of the tokens from ``start`` up to ``end``."""
        return self.words[start].start, self.words[end - 1].end


def any_within(places: Sequence[int], start: int, end: int) -> bool:
    """Return whether one of the ascending positions is in ``range(start, end)``."""
    at = bisect_left(places, start)
    return at < len(places) and places[at] < end


def variants(text: str) -> list[str]:
    """Return all spellings of a phrase with alternatives in brackets.

    >>> variants("kein[e|er|]")
    ['keine', 'keiner', 'kein']
    """
    expanded = [""]
    for number, part in enumerate(_CHOICE.split(text)):
        choices = part.split("|") if number % 2 else (part,)
        expanded = [beginning + choice for beginning in expanded for choice in choices]
    return expanded


class PhraseMatch(NamedTuple, Generic[_V]):
    """A phrase in a text: its first token, the token after its last token, and its values."""

    start: int
    end: int
    values: list[_V]


class Phrases(Generic[_V]):
    """A prefix tree of phrases with values.

    A word with a capital letter matches only the same spelling; any other word matches in any case. ``#`` matches any
    number. A word that begins with a value of ``cuts`` also matches the key of this value with a full stop.
    """

    def __init__(self, cuts: Mapping[str, Collection[str]] | None = None) -> None:
        self._root: dict[str, Any] = {}
        self._cuts, self._shortened = cuts or {}, dict[str, list[str]]()

    def add(self, phrase: str, value: _V) -> None:
        """Add a phrase; it may have alternatives in brackets, see :func:`variants`."""
        nodes = [self._root]
        for segment in _SEGMENT.findall(phrase):
            reached = dict[int, dict[str, Any]]()
            for variant in variants(segment):
                ends = nodes
                for word in words(variant):
                    whole = [end.setdefault(word.text, {}) for end in ends]
                    ends = whole + [
                        end.setdefault(cut, {}).setdefault(".", {}) for end in ends for cut in self._cut(word)
                    ]
                reached.update((id(end), end) for end in ends)
            nodes = list(reached.values())
        for node in nodes:
            node.setdefault("", []).append(value)
        self.__dict__.pop("_followers", None)

    def _cut(self, word: Token) -> list[str]:
        """The short forms of a word, without their full stops: *ausgeschl* for *ausgeschlossen*."""
        if word.text not in self._shortened:
            cuts = [cut for cut, begins in self._cuts.items() if word.low.startswith(tuple(begins))]
            self._shortened[word.text] = [cut if word.text == word.low else cut.title() for cut in cuts]
        return self._shortened[word.text]

    def found(self, text: Text) -> list[PhraseMatch[_V]]:
        """Find all phrases in a text, ordered by first token and length."""
        words, starts, last = text.words, list[int](), len(text.words) - 1
        of_number = self._followers.get("#", set())
        numbers = set(filter(is_number, text.places)) if of_number else set()
        for low in {*(text.places.keys() & self._followers.keys()), *numbers}:
            follow = self._followers.get(low, set())
            follow = follow | of_number if low in numbers else follow
            starts += [
                at
                for at in text.places[low]
                if "" in follow
                or (at < last and (words[at + 1].low in follow or ("#" in follow and is_number(words[at + 1].low))))
            ]
        return [PhraseMatch(start, end, values) for start in sorted(starts) for end, values in self.at(words, start)]

    @property
    def first_words(self) -> Collection[str]:
        """The first words of all phrases, in lower case."""
        return self._followers.keys()

    @cached_property
    def _followers(self) -> dict[str, set[str]]:
        followers = dict[str, set[str]]()
        for first, node in self._root.items():
            followers.setdefault(first.lower(), set()).update(map(str.lower, node))
        return followers

    def at(self, words: Sequence[Token], start: int) -> Iterator[tuple[int, list[_V]]]:
        """Yield the end and the values of each phrase that begins at a token."""
        nodes = [self._root]
        for place in range(start, len(words)):
            _, _, text, low = words[place]
            reached = []
            for node in nodes:
                if low in node:
                    reached.append(node[low])
                if text != low and text in node:
                    reached.append(node[text])
                if "#" in node and is_number(low):
                    reached.append(node["#"])
            for node in reached:
                if "" in node:
                    yield place + 1, node[""]
            if not reached:
                return
            nodes = reached


class Cue(NamedTuple):
    """One row of ``cues.tsv``; ``scope_limit`` is the maximum distance to a mention in words, ``None`` for no limit."""

    reads: Reads
    side: Side
    scope_limit: int | None
    name: str


class Frame(NamedTuple):
    """The first half of a two-part cue; ``number`` identifies the second half in :attr:`Cues.seconds`."""

    number: int
    cue: Cue


class Cues(NamedTuple):
    """The cues of a language: cues in one part, and the first and second halves of two-part cues."""

    whole: Phrases[Cue]
    firsts: Phrases[Frame]
    seconds: Phrases[int]


class Effect(NamedTuple):
    """Qualifiers that a kind of section gives to mentions without a cue, or empty texts."""

    temporality: str
    experiencer: str
    allergy: str


_Denial = Literal["absent", "uncertain"]


class Absent(NamedTuple):
    """A row of ``absences.tsv``: findings that a word negates or doubts, and whether a noun after it is a body site."""

    terms: tuple[str, ...]
    of_place: bool
    reads: _Denial = "absent"


_FRONT = "<>"
"""In ``absences.tsv``, the beginning of a compound whose ending negates or doubts it."""
_LEAST_FRONT = 4  # letters of such a beginning


class Absences(Phrases[Absent]):
    """The words of one language that negate or doubt a finding without a cue, such as *afebrile* (``absences.tsv``).

    ``<>frei`` stands for all words with this ending; the beginning of the word names the finding. ``endings`` tells
    what each ending does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.endings = dict[str, _Denial]()

    def found(self, text: Text) -> list[PhraseMatch[Absent]]:
        matches = super().found(text)
        known = {match.start for match in matches}
        endings = tuple(self.endings)
        for low in [low for low in text.places if low.endswith(endings)] if endings else ():
            ending = min((ending for ending in endings if low.endswith(ending)), key=len)
            front = low.removesuffix(ending)
            value = Absent((front.removesuffix("s"),), of_place=False, reads=self.endings[ending])  # anfalls-frei
            if len(front) >= _LEAST_FRONT:
                matches += [PhraseMatch(at, at + 1, [value]) for at in text.places[low] if at not in known]
        return sorted(matches, key=lambda match: match[:2])

    def find(self, text: Text) -> list[tuple[int, int, str]]:
        """Return start and end, in characters, of each such word in a text, and the finding that it is about."""
        matches = self.found(text)
        longest = {start: end for start, end, _ in matches}  # the last match of a start is the longest
        return [
            (*text.span(start, end), term)
            for start, end, values in matches
            if longest[start] == end
            for term in values[0].terms
        ]

    def is_derived(self, word: str) -> bool:
        """Whether a word is known only by its ending, so that it may not concern a finding: *gebührenfrei*."""
        low = word.casefold()
        return low.endswith(tuple(self.endings)) and low not in self._root


def has_cues(language: str) -> bool:
    return languages.language_data(language).table("cues") is not None


@per_language
def cues(data: Language) -> Cues:
    cuts = data.read("scopes", ScopeRules).cut
    table = Cues(Phrases(cuts), Phrases(cuts), Phrases(cuts))
    for row in rows(data.table("cues"), "cue", "reads", "side", "reach", "source", "example"):
        _check_cue(row)
        limit = int(row["reach"]) if row["reach"] else None
        cue = Cue(cast(Reads, row["reads"]), cast(Side, row["side"]), limit, row["cue"])
        first, _, second = row["cue"].partition(BETWEEN)
        if second:
            table.firsts.add(first, Frame(row.line, cue))
            table.seconds.add(second, row.line)
        else:
            table.whole.add(first, cue)
    return table


def _check_cue(row: Row) -> None:
    halves = row["cue"].count(BETWEEN)
    inert = row["reads"] in _INERT
    _one_of(row, "reads", get_args(Reads))
    _one_of(row, "side", ("",) if inert else [side for side in get_args(Side) if side])
    is_half = (halves and inert and row["reads"] != "pseudo") or (row["side"] == "around" and not halves)
    if not row["cue"] or halves > 1 or is_half:
        raise row.error(f"{row['cue']!r} is not a cue of that side", languages.ROW_REMEDY)
    if row["reach"] and not row["reach"].isdecimal():
        raise row.error(f"the reach is {row['reach']!r}, a number of words or nothing expected", languages.ROW_REMEDY)


@per_language
def headings(data: Language) -> Phrases[str]:
    """Return the headings of a language with their kinds of section."""
    phrases: Phrases[str] = Phrases()
    for row in rows(data.table("sections"), "heading", "kind", "source"):
        _one_of(row, "kind", [*effects(), SYSTEM])
        for heading in alternatives(row["heading"]):
            phrases.add(heading, row["kind"])
    return phrases


@per_language
def absences(data: Language) -> Absences:
    table = Absences()
    for row in rows(data.table("absences"), "word", "finding", "reads", "before", "source"):
        _one_of(row, "reads", get_args(_Denial))
        words, terms = alternatives(row["word"]), alternatives(row["finding"])
        if not all(words + terms):
            raise row.error("a word and a finding expected", "fill both cells")
        reads = cast(_Denial, row["reads"])
        for word in words:
            if word.startswith(_FRONT):
                table.endings |= dict.fromkeys(variants(word.removeprefix(_FRONT)), reads)
            else:
                table.add(word, Absent(tuple(terms), row["before"] == "place", reads))
    return table


@cache
def effects() -> dict[str, Effect]:
    """Return the effect on qualifiers of each kind of section."""
    return {
        kind: Effect(*(entry.get(field, "") for field in Effect._fields))
        for kind, entry in read_json(languages.SHIPPED / "sections.json").items()
    }


def _one_of(row: Row, column: str, known: Collection[str]) -> None:
    if row[column] not in known:
        expected = f"is {row[column]!r}, one of {', '.join(known) or 'nothing'} expected"
        raise row.error(f"{column} {expected if row[column] else 'is empty'}", languages.ROW_REMEDY)
