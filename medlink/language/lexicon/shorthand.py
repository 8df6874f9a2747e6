"""What words of one language are short for in notes: abbreviations in capitals, and words that leave something out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from medlink.errors import InputError
from medlink.language.cues.absences import absences
from medlink.language.cues.tables import rows
from medlink.language.languages import language_data
from medlink.language.lexicon.entries import Abbreviation
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.organs import MOST, ORGANS, Cue, Organs, says
from medlink.language.lexicon.tables import ABBREVIATIONS, read_abbreviations, shortened
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

    >>> shorthand = Shorthand("de")
    >>> shorthand.abbreviation("TVT").long, shorthand.abbreviation("tvt"), shorthand.abbreviation("Tumor")
    ('tiefe Venenthrombose', None, None)
    >>> [(start, end, one.long) for start, end, one, _ in shorthand.laconic("Bekannte Hypertonie")]
    [(9, 19, 'arterielle Hypertonie')]
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._abbreviations, self._laconic = _abbreviations(base(language)), _laconic(base(language))
        self._firsts = frozenset(key.partition(" ")[0] for key in self._laconic)

    def abbreviation(self, word: str) -> Abbreviation | None:
        """What a word with two capitals or more is short for most often."""
        return self._abbreviations.get(shortened(word)) if is_short(word) else None

    def laconic(
        self, text: str, inflector: Callable[[str], Inflector] = Inflector
    ) -> Iterator[tuple[int, int, Abbreviation, Cue | None]]:
        """The words and expressions of a running text that leave something out, by their characters, and what.

        Where they leave out the organ that is spoken of (*Abdomen: kein Druckschmerz*), last comes what says which. The
        same words may come again with what they leave out otherwise. ``inflector`` gives that of the language: it
        remembers words of the text.
        """
        for start, end, term in absences(self._language).find(text):
            yield start, end, _short(text[start:end], self._language, term, term, _DENIES), None
        if not self._laconic:
            return
        tokens = inflector(self._language).tokens(text)
        organs: Organs | None = None
        for at in [at for at, token in enumerate(tokens) if token.text in self._firsts]:
            for count in range(min(MOST, len(tokens) - at), 0, -1):
                known = self._laconic.get(" ".join(token.text for token in tokens[at : at + count]))
                if known is None:
                    continue
                start, end = tokens[at].start, tokens[at + count - 1].end
                said = {organ: one for organ, one in known if says(text[start:end], one.forms[0], self._language)}
                if said.keys() - {""}:
                    organs = organs or Organs(self._language, text, tokens)
                    cue = organs.beside(start, end)
                    if cue is not None and cue.organ in said:
                        yield start, end, said[cue.organ], cue
                if "" in said:
                    yield start, end, said[""], None


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
def _laconic(language: str) -> dict[str, list[tuple[str, Abbreviation]]]:
    """Rows of the table, each with its organ, by the inflected form of the word."""
    path = language_data(language).table(LACONIC)
    inflector, found = Inflector(language), dict[str, list[tuple[str, Abbreviation]]]()
    for line, row in rows(path, _COLUMNS) if path else ():
        try:
            weight = float(row["weight"])
        except ValueError:
            weight = 0.0
        filled = all(row[column] for column in _COLUMNS if column != "organ")
        if not filled or not 0 < weight <= 1 or row["organ"] not in {"", *ORGANS}:
            message = (
                "a word, what it is short for in both languages, a share of its uses above 0, and an organ or nothing "
                "are expected"
            )
            raise InputError(message, path=path, line=line, remedy="mend the row as docs/lexicon.md says")
        short = _short(row["word"], language, row["long"], row["english"], weight)
        found.setdefault(inflector.form(row["word"]), []).append((row["organ"], short))
    return found


def _short(word: str, language: str, long: str, english: str, weight: float) -> Abbreviation:
    return Abbreviation((word,), language, long, english, LACONIC, weight, (), False)
