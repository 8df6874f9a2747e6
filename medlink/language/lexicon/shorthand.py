"""What words of one language are short for in notes: abbreviations in capitals, and words that leave something out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from medlink.errors import InputError
from medlink.language.cues.absences import absences
from medlink.language.cues.tables import rows
from medlink.language.languages import language_data
from medlink.language.lexicon.entries import Abbreviation
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.tables import ABBREVIATIONS, read_abbreviations, shortened
from medlink.language.tags import base
from medlink.language.text import Inflector, is_inflection, is_short

LACONIC = "laconic"
"""Kind of a word that leaves something out, or that denies what it is read as: *afebrile*."""
_COLUMNS = ("word", "long", "english", "weight")
_DENIES = 0.9  # share of the uses of a word such as "afebrile" in which it denies fever
_MOST = 3  # words of the longest expression


class Shorthand:
    """The shorthand of one language (BCP 47); none where there are no tables of it.

    ``abbreviations_XX.tsv`` of the lexicon has the abbreviations; ``laconic.tsv`` of the language the words that leave
    something out: *Hypertonie* in a note is arterial hypertension; ``absences.tsv`` words that deny a finding, which
    are read as that finding.

    >>> shorthand = Shorthand("de")
    >>> shorthand.abbreviation("TVT").long, shorthand.abbreviation("tvt"), shorthand.abbreviation("Tumor")
    ('tiefe Venenthrombose', None, None)
    >>> [(start, end, one.long) for start, end, one in shorthand.laconic("Bekannte Hypertonie")]
    [(9, 19, 'arterielle Hypertonie')]
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._abbreviations, self._laconic = _abbreviations(base(language)), _laconic(base(language))

    def abbreviation(self, word: str) -> Abbreviation | None:
        """What a word with two capitals or more is short for most often."""
        return self._abbreviations.get(shortened(word)) if is_short(word) else None

    def laconic(self, text: str) -> Iterator[tuple[int, int, Abbreviation]]:
        """The words and expressions of a running text that leave something out, by their characters, and what."""
        for start, end, term in absences(self._language).find(text):
            yield start, end, Abbreviation((text[start:end],), self._language, term, term, LACONIC, _DENIES, (), False)
        if not self._laconic:
            return
        tokens = Inflector(self._language).tokens(text)  # it remembers words of the text
        for at in range(len(tokens)):
            for count in range(min(_MOST, len(tokens) - at), 0, -1):
                found = self._laconic.get(" ".join(token.text for token in tokens[at : at + count]))
                start, end = tokens[at].start, tokens[at + count - 1].end
                if found is not None and is_inflection(text[start:end], found.forms[0], self._language):
                    yield start, end, found


@cache
def _abbreviations(language: str) -> dict[str, Abbreviation]:
    path = SHIPPED / ABBREVIATIONS.format(language)
    found: dict[str, Abbreviation] = {}
    for one in read_abbreviations(path, language) if path.exists() else ():
        for form in map(shortened, one.forms):
            if form not in found or found[form].weight < one.weight:
                found[form] = one
    return found


@cache
def _laconic(language: str) -> dict[str, Abbreviation]:
    """Rows of the table by the inflected form of the word."""
    path = language_data(language).table(LACONIC)
    if path is None:
        return {}
    inflector, found = Inflector(language), dict[str, Abbreviation]()
    for line, row in rows(path, _COLUMNS):
        try:
            weight = float(row["weight"])
        except ValueError:
            weight = 0.0
        if not all(row[column] for column in _COLUMNS) or not 0 < weight <= 1:
            message = "a word, what it is short for in both languages, and a share of its uses above 0 are expected"
            raise InputError(message, path=path, line=line, remedy="mend the row as docs/lexicon.md says")
        short = Abbreviation((row["word"],), language, row["long"], row["english"], LACONIC, weight, (), False)
        found.setdefault(inflector.form(row["word"]), short)
    return found
