"""Words that say by themselves that a finding is absent, as *afebrile* does: ``absences.tsv`` of a language."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from medlink.errors import InputError
from medlink.language.cues.matcher import Phrases, Text, words
from medlink.language.cues.tables import alternatives, rows
from medlink.language.languages import language_data


class Absent(NamedTuple):
    """One row of ``absences.tsv``: ``terms`` of what is absent, and whether a noun behind it is only the place."""

    terms: tuple[str, ...]
    of_place: bool


class Absences:
    """The words of one language that deny a finding, each with the terms of what it denies."""

    def __init__(self, phrases: Phrases[Absent]) -> None:
        self.phrases = phrases

    def find(self, text: str | Text) -> list[tuple[int, int, str]]:
        """Start and end of such words in a text, by characters, with a term of what is absent, in order.

        What denies several findings is given once for each of them.

        >>> absences("en").find("Afebrile, abdomen nontender.")
        [(0, 8, 'fever'), (18, 27, 'tenderness')]
        """
        read = Text(words(text)) if isinstance(text, str) else text
        found = self.phrases.found(read)
        longest = {start: end for start, end, _ in found}  # the ends of one start come in order
        return [
            (read.words[start].start, read.words[end - 1].end, term)
            for start, end, values in found
            if longest[start] == end
            for term in values[0].terms
        ]


def absences(language: str) -> Absences:
    """The words of a language that deny a finding, read once in a process; none where it has no table.

    Raises:
        InputError: a row of the table cannot be read.
    """
    return _absences(language_data(language).table("absences"))


@lru_cache(maxsize=8)
def _absences(path: Path | None) -> Absences:
    phrases: Phrases[Absent] = Phrases()
    for line, row in rows(path, ("word", "finding", "before", "source")) if path else ():
        terms = tuple(alternatives(row["finding"]))
        for word in alternatives(row["word"]):
            if not word or not all(terms):
                raise InputError("a word and a finding expected", path=path, line=line, remedy="fill both cells")
            phrases.add(word, Absent(terms, row["before"] == "place"))
    return Absences(phrases)
