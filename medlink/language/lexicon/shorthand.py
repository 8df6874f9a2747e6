"""What words of one language are short for in notes: abbreviations in capitals, and words that leave something out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from medlink.language.cues.tables import absences
from medlink.language.languages import Language, per_language
from medlink.language.lexicon.entries import Abbreviation, shortened
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.organs import ORGANS, Cue, Expressions, Organs, says
from medlink.language.lexicon.tables import ABBREVIATIONS, read_abbreviations, share
from medlink.language.rows import rows
from medlink.language.scan import Place, ScannedText
from medlink.language.tags import base
from medlink.language.text import Inflector, is_short

LACONIC = "laconic"
"""Kind of a word that leaves something out, or that denies what it is read as: *afebrile*."""
_COLUMNS = ("word", "organ", "long", "english", "weight")
_DENIES = 0.9  # share of the uses of a word such as "afebrile" in which it denies fever


class Shorthand:
    """The shorthand of one language (BCP 47); none where there are no tables of it.

    ``abbreviations_XX.tsv`` of the lexicon has the abbreviations; ``laconic.tsv`` of the language the words that leave
    something out: *Hypertonie* in a note is arterial hypertension, *Resistenz* beside the belly an abdominal mass
    (:mod:`medlink.language.lexicon.organs`); ``absences.tsv`` words that deny a finding, which are read as that
    finding.
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
            raise row.error(message, "mend the row as docs/lexicon.md says")
        short = _short(row["word"], data.tag, row["long"], row["english"], weight)
        found.setdefault(inflector.form(row["word"]), []).append((row["organ"], short))
    return found


def _short(word: str, language: str, long: str, english: str, weight: float, *, safe: bool = False) -> Abbreviation:
    return Abbreviation((word,), language, long, english, LACONIC, weight, (), safe)
