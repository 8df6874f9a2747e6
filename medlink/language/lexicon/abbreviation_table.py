"""What words of one language are short for in notes: abbreviations in capitals, and words that leave something out.

*Abdomen: weich, kein DS* says of the belly what *DS* leaves out: of which organ a line speaks is found here, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from typing import NamedTuple, TypeVar

from medlink.language.cues import absences
from medlink.language.languages import Language, language_data, per_language, rows
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.tables import ABBREVIATIONS, Abbreviation, read_abbreviations, share, shortened
from medlink.language.scan import Place, ScannedText, WordEntry
from medlink.language.tags import base
from medlink.language.text import Inflector, is_inflection, is_short

ORGANS = frozenset((
    "head", "brain", "eye", "ear", "nose", "throat", "neck", "thyroid", "chest", "heart", "coronary", "breast",
    "abdomen", "liver", "urinary", "male", "female", "rectum", "back", "limb", "joint", "skin", "lymph", "vessel",
    "neuro", "psych", "blood", "general",
))  # fmt: skip
"""Organs and systems that a table may name."""
_MOST = 3  # words of the longest expression
# What ends a sentence: a dot, question mark or semicolon with a blank behind it, or an empty line.
_ENDS = re.compile(r"[.!?;]\s|\n\s*\n")
_CLAUSE = re.compile(r"[,;:.!?\n]")
# Some words and a colon, or a line of a few words, begin what is said of them.
_LABEL = re.compile(r"(?:^|[.;,(\-•*])[^\S\n]*+([^\s.:;,][^\n.:;,]{0,47}):", re.MULTILINE)
_HEADING = re.compile(r"^[^\S\n]*+([^\s.:;,][^\n.:;,]{0,39})$", re.MULTILINE)
_REACH = 500  # characters that a label speaks of, at most
_BEHIND = 60  # characters before a word that speaks of them
_KEPT = 1 << 15  # pairs of words of which is kept whether they are the same
_BEFORE = 250  # characters behind one, in its sentence
_V = TypeVar("_V")
LACONIC = "laconic"
"""Kind of a word that leaves something out, or that denies what it is read as: *afebrile*."""
_COLUMNS = ("word", "organ", "long", "english", "weight")
_DENIES = 0.9  # share of the uses of a word such as "afebrile" in which it denies fever


class Cue(NamedTuple):
    """A word of a text, by its characters, that says which organ is spoken of; ``near`` in one sentence with it."""

    start: int
    end: int
    organ: str
    near: bool = True


class Organs:
    """The organs that a text of one language speaks of."""

    def __init__(self, language: str, scanned: ScannedText) -> None:
        self._text = text = scanned.text
        self._cues = _cues(scanned, language)
        self._starts = [cue.start for cue in self._cues]
        self._ends = [found.start() for found in _ENDS.finditer(text)]
        labels = [(found.span(1), self._within(*found.span(1))) for found in _LABEL.finditer(text)]
        headings = [(found.span(1), self._within(*found.span(1))) for found in _HEADING.finditer(text)]
        self._labels = sorted([*labels, *(one for one in headings if one[1])], key=lambda label: label[0])
        self._begin = [span[0] for span, _ in self._labels]

    def beside(self, start: int, end: int) -> Cue | None:
        """What says of which organ a stretch of characters speaks: a word of its clause, its sentence, its label."""
        at = bisect_left(self._starts, start)
        before = self._cues[at - 1] if at else None
        while at < len(self._cues) and self._cues[at].start < end:
            at += 1
        behind = self._cues[at] if at < len(self._cues) else None
        near = behind is not None and behind.start - end <= _BEHIND
        if behind is not None and near and not _CLAUSE.search(self._text, end, behind.start):
            return behind
        near = before is not None and start - before.end <= _BEFORE
        if before is not None and near and self._sentence(before.start) == self._sentence(start):
            return before
        label = bisect_right(self._begin, start) - 1
        if label < 0 or start - self._labels[label][0][1] > _REACH:
            return None
        cue = self._labels[label][1]
        return cue and cue._replace(near=False)

    def _sentence(self, at: int) -> int:
        return bisect_left(self._ends, at)

    def _within(self, start: int, end: int) -> Cue | None:
        at = bisect_left(self._starts, end) - 1
        return self._cues[at] if at >= 0 and self._cues[at].start >= start else None


def _cues(text: ScannedText, language: str) -> list[Cue]:
    found, behind = list[Cue](), 0
    for place, known in _table(language).found(text, "organ"):
        if place[0] >= behind:
            organ = next((organ for name, organ in known if says(text.written(place), name, language)), None)
            if organ is not None:
                found.append(Cue(*text.span(place), organ))
                behind = place[1]
    return found


class Expressions(dict[str, list[_V]]):
    """What words and expressions of a language say, by their inflected form."""

    @cached_property
    def _firsts(self) -> frozenset[str]:
        return frozenset(key.partition(" ")[0] for key in self)

    def found(self, text: ScannedText, name: str) -> Iterator[tuple[Place, list[_V]]]:
        """The expressions of a text with what each says, the longest of each first word first.

        The ``name`` is that of the column of the text's table that says which words begin one.
        """
        if not self:
            return
        inflector, firsts = text.table.inflector, self._firsts
        begins = text.table.column(name, lambda entry: _form(entry, inflector).partition(" ")[0] in firsts, bool)
        for at in text.where(begins):
            forms = [_form(word.entry, inflector) for word in text.words[at : at + _MOST]]
            for count in range(len(forms), 0, -1):
                known = self.get(" ".join(forms[:count]))
                if known is not None:
                    yield (at, at + count), known


def _form(entry: WordEntry, inflector: Inflector) -> str:
    form: str | None = entry.memo.get("form")
    if form is None:
        form = entry.memo["form"] = inflector.form(entry.written)
    return form


@lru_cache(maxsize=_KEPT)
def says(written: str, word: str, language: str) -> bool:
    """Whether words of a text are those of a table: an abbreviation in its capitals, a noun or name with its first."""
    if word.isupper() and len(word) > 1:
        return written.isupper()
    if word[0].isupper():
        return not written[0].islower() and is_inflection(written, word, language)
    # "Pupillen eng" says of the pupils what "enge Verhältnisse" does not
    predicate = language_data(language).forms.bare_predicates and " " not in word
    return written.casefold() == word.casefold() if predicate else is_inflection(written, word, language)


@per_language
def _table(data: Language) -> Expressions[tuple[str, str]]:
    inflector, found = Inflector(data.tag), Expressions[tuple[str, str]]()
    for row in rows(data.table("organs"), "word", "organ"):
        if not row["word"] or row["organ"] not in ORGANS:
            message = f"a word and one of the organs {', '.join(sorted(ORGANS))} are expected"
            raise row.error(message, "mend the row as docs/reference/language.md says")
        found.setdefault(inflector.form(row["word"]), []).append((row["word"], row["organ"]))
    return found


class Shorthand:
    """The shorthand of one language (BCP 47); none where there are no tables of it.

    ``abbreviations_XX.tsv`` of the lexicon has the abbreviations; ``laconic.tsv`` of the language the words that leave
    something out: *Hypertonie* in a note is arterial hypertension, *Resistenz* beside the belly an abdominal mass;
    ``absences.tsv`` words that deny a finding, which are read as that finding.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._abbreviations, self._laconic = _abbreviations(base(language)), _laconic(language)

    def abbreviation(self, word: str) -> Abbreviation | None:
        """What a word with two capitals or more is short for most often."""
        return self._abbreviations.get(shortened(word)) if is_short(word) else None

    def abbreviations(self, text: ScannedText) -> Iterator[tuple[int, Abbreviation]]:
        """The words of a text that are abbreviations, with what each is short for most often."""
        known = text.table.column("abbreviation", lambda entry: self.abbreviation(entry.written) is not None, bool)
        for at in text.where(known):
            found = self.abbreviation(text.words[at].entry.written)
            if found is not None:
                yield at, found

    def laconic(self, text: ScannedText) -> Iterator[tuple[Place, Abbreviation, Cue | None]]:
        """The words and expressions of a text that leave something out, and what.

        Where they leave out the organ that is spoken of (*Abdomen: kein Druckschmerz*), last comes the word that names
        it. The same words may come several times, with what they leave out otherwise.
        """
        for start, end, term in absences(self._language).find(text.indexed):
            place = text.place(start, end)
            yield (place, _short(text.written(place), self._language, term, term, _DENIES, safe=True), None)
        organs: Organs | None = None
        for place, known in self._laconic.found(text, "laconic"):
            written = text.written(place)
            found = {organ: one for organ, one in known if says(written, one.forms[0], self._language)}
            if found.keys() - {""}:
                organs = organs or Organs(self._language, text)
                cue = organs.beside(*text.span(place))
                if cue is not None and cue.organ in found:
                    yield place, found[cue.organ], cue
            if "" in found:
                yield place, found[""], None


@cache
def _abbreviations(language: str) -> dict[str, Abbreviation]:
    path = SHIPPED / ABBREVIATIONS.format(language)
    found: dict[str, Abbreviation] = {}
    for one in read_abbreviations(path, language):
        for form in one.short_forms:
            if form not in found or found[form].weight < one.weight:
                found[form] = one
    return found


@per_language
def _laconic(data: Language) -> Expressions[tuple[str, Abbreviation]]:
    inflector, found = Inflector(data.tag), Expressions[tuple[str, Abbreviation]]()
    for row in rows(data.table(LACONIC), *_COLUMNS):
        weight = share(row["weight"])
        filled = weight and all(row[column] for column in _COLUMNS if column != "organ")
        if not filled or row["organ"] not in {"", *ORGANS}:
            message = (
                "a word, what it is short for in both languages, a share of its uses above 0, and an organ or nothing "
                "are expected"
            )
            raise row.error(message, "mend the row as docs/reference/language.md says")
        short = _short(row["word"], data.tag, row["long"], row["english"], weight)
        found.setdefault(inflector.form(row["word"]), []).append((row["organ"], short))
    return found


def _short(word: str, language: str, long: str, english: str, weight: float, *, safe: bool = False) -> Abbreviation:
    return Abbreviation((word,), language, long, english, LACONIC, weight, (), safe)
