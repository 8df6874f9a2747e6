"""What a name says, word by word: the meanings of each word, of its parts, and of phrases.

How a compound is parted is said in :mod:`medlink.language.lexicon.parting`. Many names are read at once by
:class:`medlink.language.lexicon.bulk.BulkReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from medlink.language.lexicon.forms import (
    INFLECTED_SENSE,
    NOTHING,
    OWN,
    PHRASE,
    SENSE,
    STEM,
    WORD,
    Form,
    Forms,
)
from medlink.language.lexicon.parting import LONGEST, SHORTEST, SURE, Parting, chosen
from medlink.language.text import Inflector, normalise

_MOST = 262_144  # words that a reader remembers at a time
_SENSES = 3  # meanings of one ambiguous form that are looked at
_PHRASE = 6  # words of the longest phrase
_LEARNT = "en"  # which words are read in texts of other languages


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a name.

    Attributes:
        text: its exact form.
        meanings: that the whole word has; several where it is ambiguous, none where it is unknown.
        parts: meanings of each part of a compound, first to last; an empty one is a rest that nothing knows.
        lengths: letters of each part, with what links it to the next.
        function: whether it is an article, preposition or the like.
    """

    text: str
    meanings: tuple[int, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()
    lengths: tuple[int, ...] = ()
    function: bool = False

    @property
    def pieces(self) -> list[str]:
        """The letters of each part of a compound, of any other word all."""
        ends = list(accumulate(self.lengths))
        return [self.text[start:end] for start, end in pairwise([0, *ends])] if ends else [self.text]

    @property
    def known(self) -> bool:
        """Whether the lexicon has it, or all parts of it."""
        return self.function or bool(self.meanings) or (bool(self.parts) and all(self.parts))


@dataclass(frozen=True, slots=True)
class Said:
    """A name, read: its words, and phrases as the numbers of their first word and behind their last, with meanings."""

    words: tuple[Word, ...]
    phrases: tuple[tuple[int, int, tuple[int, ...]], ...] = ()


class _Senses(NamedTuple):
    """What is known of an ambiguous word: whether words beside it may tell its sense, and the sense that it has alone.

    ``beside`` is of words to the letter, ``stem_beside`` of words in any inflection.
    """

    beside: bool
    stem_beside: bool
    alone: Form | None


class FamilyReader:
    """Reads names with the forms of a lexicon; remembers words for as long as it lives, as an :class:`Inflector` does.

    >>> from medlink.language.lexicon import Lexicon
    >>> forms = Forms.of(Lexicon())
    >>> word = FamilyReader(forms).read("Unterschenkelödeme", "de").words[0]
    >>> [[forms.names[meaning] for meaning in part] for part in word.parts]
    [['lower leg'], ['edema']]
    """

    def __init__(self, forms: Forms, *, mend: bool = True) -> None:
        self.forms, self._mends = forms, mend
        self._inflectors = {language: Inflector(language) for language in forms.languages}
        self._parting = Parting(forms, self._stem)
        self._words: dict[tuple[str, tuple[str, ...]], Word] = {}
        self._wholes: dict[tuple[str, str], Word | None] = {}
        self._stems: dict[tuple[str, str], str] = {}
        self._knowing: dict[str, tuple[bool, ...]] = {}
        self._opening: dict[tuple[str, str], bool] = {}
        self._opening_two: dict[tuple[str, str, str], bool] = {}
        self._senses: dict[tuple[str, str], _Senses] = {}

    def read(self, text: str, language: str | None = None) -> Said:
        """Read a name; without a language, in those that know most of its words."""
        return self.read_words(normalise(text).split(), language)

    def read_words(self, tokens: Sequence[str], language: str | None = None, *, senses: bool = True) -> Said:
        """Read words in their exact form, one after the other, as :meth:`read` does.

        Without ``senses`` an ambiguous word keeps all its meanings: in a whole sentence many words are beside it.
        """
        self.bound()
        base = (language or "").partition("-")[0]
        asked = (base,) if base in self._inflectors else self._guess(tokens)
        words = [self.word(token, asked) for token in tokens]
        if senses:
            words = [self.meant(word, tokens, asked) if len(word.meanings) > 1 else word for word in words]
        return Said(tuple(words), tuple(self.phrases(tokens, asked)))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the forms, in the order in which they are asked."""
        return tuple(self._inflectors)

    def bound(self) -> None:
        """Forget all words where there are too many; who asks for words one by one calls it from time to time."""
        if max(len(self._words), len(self._wholes), len(self._stems), len(self._opening_two)) >= _MOST:
            for known in (
                self._words,
                self._wholes,
                self._stems,
                self._knowing,
                self._opening,
                self._opening_two,
                self._senses,
            ):
                known.clear()

    def word(self, token: str, asked: tuple[str, ...]) -> Word:
        """A word in its exact form, in the languages asked, whatever stands beside it."""
        word = self._words.get((token, asked))
        if word is None:
            word = self._words[token, asked] = self.forms.kept((token, asked)) or self._word(token, asked)
        return word

    def depends(self, word: Word, asked: Sequence[str]) -> bool:
        """Whether the words beside an ambiguous word may tell its sense."""
        senses = (self._known_senses(word.text, tag) for tag in asked)
        return len(word.meanings) > 1 and any(one.beside or one.stem_beside for one in senses)

    def meant(self, word: Word, tokens: Sequence[str], asked: Sequence[str]) -> Word:
        """An ambiguous word in the sense that it has beside the others, or by default."""
        for tag in asked:
            senses = self._known_senses(word.text, tag)
            found = self._beside(SENSE, tag, word.text, tokens) if senses.beside else None
            if found is None and senses.stem_beside:
                stems = [self._stem(token, tag) for token in tokens]
                found = self._beside(INFLECTED_SENSE, tag, self._stem(word.text, tag), stems)
            found = found or senses.alone
            if found is not None:
                return replace(word, meanings=() if found.marks & NOTHING else (found.meaning,))
        return word

    def _known_senses(self, word: str, language: str) -> _Senses:
        """What is said of an ambiguous word whatever stands beside it."""
        senses = self._senses.get((word, language))
        if senses is None:
            senses = self._senses[word, language] = self._senses_of(word, language)
        return senses

    def _senses_of(self, word: str, language: str) -> _Senses:
        stem = self._stem(word, language)
        alone = self._alone(SENSE, language, word) or self._alone(INFLECTED_SENSE, language, stem)
        plain = self.forms.goes_on(SENSE, language, f"{word} ")
        return _Senses(plain, self.forms.goes_on(INFLECTED_SENSE, language, f"{stem} "), alone)

    def _beside(self, kind: str, language: str, word: str, words: Iterable[str]) -> Form | None:
        """The sense that a word has beside others."""
        found = (self.forms.find(kind, language, f"{word} {other}") for other in words if other != word)
        return next((senses[0] for senses in found if len(senses) == 1), None)

    def _alone(self, kind: str, language: str, word: str) -> Form | None:
        """The sense that a word has by itself."""
        found = self.forms.find(kind, language, word)
        return found[0] if len(found) == 1 else None

    def _guess(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """The languages that know most of some words as a whole."""
        counts = [0] * len(self._inflectors)
        for token in tokens:
            for at, known in enumerate(self.knowing(token)):
                counts[at] += known
        most = max(counts, default=0)
        return tuple([tag for tag, count in zip(self._inflectors, counts, strict=True) if count == most])

    def knowing(self, token: str) -> tuple[bool, ...]:
        """Which of :attr:`languages` know a word as a whole."""
        knowing = self._knowing.get(token)
        if knowing is None:
            knowing = self.forms.kept((token, ""))
            if knowing is None:
                knowing = tuple([self._whole(token, tag) is not None for tag in self._inflectors])
                self.forms.keep((token, ""), knowing, self._inflectors)
            self._knowing[token] = knowing
        return knowing

    def _word(self, token: str, asked: tuple[str, ...]) -> Word:
        """A word in the languages asked, in another where they do not know it."""
        whole = [(tag, word) for tag in asked if (word := self._whole(token, tag)) is not None]
        if whole:
            word = self._known(token, whole)
            self.forms.keep((token, asked), word, asked)
            return word
        ways = [way for tag in asked if (way := self._parting.parted(token, tag))]
        if ways:
            return Word(token, (), *min(ways, key=lambda way: way[0])[1:])
        if _LEARNT not in asked and len(token) > SURE and _LEARNT in self._inflectors:
            found = self._whole(token, _LEARNT)
            if found is not None and not found.function:
                return found
        if self._mends and SHORTEST <= len(token) <= LONGEST and token.isalpha() and not self.forms.is_own(token):
            meant = self._mended(token, asked)
            if meant is not None:
                return meant
        ended = (self._parting.ended(token, tag) for tag in asked)
        return Word(token, (), *next(filter(None, ended), ()))

    def _known(self, token: str, whole: Sequence[tuple[str, Word]]) -> Word:
        """A word that some languages know as a whole."""
        if any(word.function for _, word in whole):
            return Word(token, function=True)
        meanings = tuple(dict.fromkeys(m for _, word in whole for m in word.meanings))[:_SENSES]
        # a word that is known is parted only into parts that are no accident
        parted = (self._parting.parted(token, tag, known=True) for tag, _ in whole) if len(token) >= 2 * SURE else ()
        way = next((way for way in parted if way and min(way[2]) >= SURE), None)
        return Word(token, meanings, *(way[1:] if way else ()))

    def _mended(self, token: str, asked: tuple[str, ...]) -> Word | None:
        """The word that an unknown one is with one typing error: of the languages asked, else of the names."""
        for tag in asked:
            for form in sorted(set(self.forms.spelt_like(WORD, tag, token))):
                word = self._whole(form, tag)
                if word is not None and word.meanings:
                    return self._word(form, (tag,))
        own = min(self.forms.spelt_like(OWN, "", token), default=None)
        return None if own is None else Word(own)

    def _whole(self, token: str, language: str) -> Word | None:
        """A word as one language knows it, to the letter or else by its stem."""
        key = (token, language)
        if key not in self._wholes:
            word: Word | None = None
            if self.forms.is_function_word(language, token):
                word = Word(token, function=True)
            else:
                found = self.forms.find(WORD, language, token)
                found = found or self.forms.find(STEM, language, self._stem(token, language))
                word = Word(token, chosen(found)) if found else None
            self._wholes[key] = word
        return self._wholes[key]

    def _stem(self, token: str, language: str) -> str:
        stem = self._stems.get((token, language))
        if stem is None:
            stem = self._stems[token, language] = self._inflectors[language].word(token)
        return stem

    def phrases(self, tokens: Sequence[str], asked: Iterable[str]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        """The longest phrases from left to right, in the first language that has one there."""
        at = 0
        while at < len(tokens) - 1:
            opened = [tag for tag in asked if self.opens(tokens[at], tag)]
            found = next(filter(None, (self._phrase(tokens, at, tag) for tag in opened)), None) if opened else None
            if found is None:
                at += 1
            else:
                yield at, found[0], found[1]
                at = found[0]

    def opens(self, token: str, language: str) -> bool:
        """Whether phrases begin with a word."""
        opens = self._opening.get((token, language))
        if opens is None:
            opens = self.forms.goes_on(PHRASE, language, f"{self._stem(token, language)} ")
            self._opening[token, language] = opens
        return opens

    def opens_two(self, one: str, other: str, language: str) -> bool:
        """Whether phrases may begin with two words."""
        opens = self._opening_two.get((one, other, language))
        if opens is None:
            stems = f"{self._stem(one, language)} {self._stem(other, language)}"
            opens = self._opening_two[one, other, language] = self.forms.goes_on(PHRASE, language, stems)
        return opens

    def _phrase(self, tokens: Sequence[str], at: int, language: str) -> tuple[int, tuple[int, ...]] | None:
        """Where the longest phrase ends that begins at a word, and what it means."""
        if not self.opens_two(tokens[at], tokens[at + 1], language):
            return None
        stems = [self._stem(token, language) for token in tokens[at : at + _PHRASE]]
        for count in range(len(stems), 1, -1):
            found = self.forms.find(PHRASE, language, " ".join(stems[:count]))
            if found:
                return at + count, chosen(found)
        return None


def with_own_words(forms: Forms, texts: Iterable[str]) -> Forms:
    """Forms with the words of some texts that the lexicon lacks: an encoder that is trained on them knows these too."""
    reader = FamilyReader(forms, mend=False)
    return forms.with_words({word.text for text in texts for word in reader.read(text).words if not word.known})
