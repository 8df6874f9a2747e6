"""What a name says, word by word: the meanings of each word, of its parts, and of phrases.

How a compound is parted is said in :mod:`medlink.language.lexicon.compound_splitting`. Many names are read at once by
:class:`medlink.language.lexicon.batch_analysis.BulkReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from medlink.language.lexicon.compound_splitting import LONGEST, SHORTEST, SURE, Parting, chosen
from medlink.language.lexicon.forms import INFLECTED_SENSE, NOTHING, OWN, PHRASE, SENSE, STEM, WORD, Form, Forms
from medlink.language.tags import base
from medlink.language.text import Inflector, normalise

_MOST = 65_536  # words that a reader remembers at a time, the ones met last
_LONGEST = 64  # letters of the longest word that is remembered: an encoded file in a note may be one word
_SENSES = 3  # meanings of one ambiguous form that are looked at
_PHRASE = 6  # words of the longest phrase
_LEARNT = "en"  # which words are read in texts of other languages
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a name in its exact form.

    It has several ``meanings`` as a whole where it is ambiguous, none where it is unknown. ``parts`` are the meanings
    of each part of a compound, empty for a rest that nothing knows, ``lengths`` its letters with what links it to the
    next. A ``function`` word is an article, preposition or the like.
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


class Phrase(NamedTuple):
    """A phrase by the word behind its last, and its meanings."""

    stop: int
    meanings: tuple[int, ...]


class _Senses(NamedTuple):
    """What is known of an ambiguous word: the senses that words beside it tell, and the sense that it has alone.

    ``beside`` is by words to the letter, ``stem_beside`` by words in any inflection.
    """

    beside: dict[str, Form]
    stem_beside: dict[str, Form]
    alone: Form | None


class _Phrases(NamedTuple):
    meanings: dict[str, tuple[int, ...]]
    longest: int


class FamilyReader:
    """Reads names with the forms of a lexicon; remembers the words, and pairs of words, that it met last.

    A process shares one (:func:`shared_reader`), also among threads.
    """

    def __init__(self, forms: Forms, *, mend: bool = True) -> None:
        self.forms, self._mends = forms, mend
        self._inflectors = {language: Inflector(language) for language in forms.languages}
        self._more_inflectors = dict[str, Inflector]()
        self._stem = _remembering(self._find_stem)
        self._parting = Parting(forms, self._stem)
        self.word = _remembering(self._find_word)
        self._whole = _remembering(self._find_whole)
        self.knowing = _remembering(self._find_knowing)
        self.opens = _remembering(self._find_opens)
        self._phrases_of = _remembering(self._find_phrases)
        self._senses = _remembering(self._find_senses)

    def read(self, text: str, language: str | None = None) -> Said:
        """Read a name; without a language, in those that know most of its words."""
        tokens, tag = normalise(text).split(), base(language or "")
        asked = (tag,) if tag in self._inflectors else self.guess(tokens)
        words = [self.word(token, asked) for token in tokens]
        words = [self.meant(word, tokens, asked) if len(word.meanings) > 1 else word for word in words]
        return Said(tuple(words), tuple(self.phrases(tokens, asked)))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the forms, in the order in which they are asked."""
        return tuple(self._inflectors)

    def inflector(self, language: str) -> Inflector:
        """The inflector of any language, which all share that read with this reader."""
        found = self._inflectors.get(language) or self._more_inflectors.get(language)
        if found is None:
            found = self._more_inflectors[language] = Inflector(language)
        return found

    def depends(self, word: Word, asked: Sequence[str]) -> bool:
        """Whether the words beside an ambiguous word may tell its sense."""
        return len(word.meanings) > 1 and any(
            senses.beside or senses.stem_beside for senses in (self._senses(word.text, tag) for tag in asked)
        )

    def meant(self, word: Word, tokens: Sequence[str], asked: Sequence[str]) -> Word:
        """An ambiguous word in the sense that it has beside the others, or by default."""
        for tag in asked:
            senses = self._senses(word.text, tag)
            found = _beside(senses.beside, word.text, tokens) if senses.beside else None
            if found is None and senses.stem_beside:
                stems = [self._stem(token, tag) for token in tokens]
                found = _beside(senses.stem_beside, self._stem(word.text, tag), stems)
            found = found or senses.alone
            if found is not None:
                meanings = () if found.marks & NOTHING else (found.meaning,)
                return Word(word.text, meanings, word.parts, word.lengths, word.function)
        return word

    def _find_senses(self, word: str, language: str) -> _Senses:
        alone, beside = None, []
        for kind, form in ((SENSE, word), (INFLECTED_SENSE, self._stem(word, language))):
            found = self.forms.find(kind, language, form)
            alone = alone or (found[0] if len(found) == 1 else None)
            told = self.forms.continuations(kind, language, f"{form} ")
            beside.append({other: senses[0] for other, senses in told.items() if len(senses) == 1})
        return _Senses(beside[0], beside[1], alone)

    def guess(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """The languages that know most of some words as a whole."""
        counts = [0] * len(self._inflectors)
        for token in tokens:
            for at, known in enumerate(self.knowing(token)):
                counts[at] += known
        most = max(counts, default=0)
        return tuple([tag for tag, count in zip(self._inflectors, counts, strict=True) if count == most])

    def _find_knowing(self, token: str) -> tuple[bool, ...]:
        """Which of :attr:`languages` know a word as a whole: ``knowing``, which remembers it."""
        return tuple([self._whole(token, tag) is not None for tag in self._inflectors])

    def _find_word(self, token: str, asked: tuple[str, ...]) -> Word:
        """A word in its exact form, in the languages asked, whatever stands beside it: ``word``, which remembers it."""
        wholes = [(tag, found) for tag in asked if (found := self._whole(token, tag)) is not None]
        if wholes:
            return self._known(token, wholes)
        ways = [way for tag in asked if (way := self._parting.parted(token, tag))]
        if ways:
            best = min(ways, key=attrgetter("cost"))
            return Word(token, (), best.parts, best.lengths)
        if _LEARNT not in asked and len(token) > SURE and _LEARNT in self._inflectors:
            learnt = self._whole(token, _LEARNT)
            if learnt:
                return Word(token, learnt)
        if self._mends and SHORTEST <= len(token) <= LONGEST and token.isalpha() and not self.forms.is_own(token):
            meant = self._mended(token, asked)
            if meant is not None:
                return meant
        ended = (self._parting.ended(token, tag) for tag in asked)
        way = next(filter(None, ended), None)
        return Word(token, (), way.parts, way.lengths) if way else Word(token)

    def _known(self, token: str, wholes: Sequence[tuple[str, tuple[int, ...]]]) -> Word:
        if not all(meanings for _, meanings in wholes):
            return Word(token, function=True)
        meanings = tuple(dict.fromkeys(m for _, found in wholes for m in found))[:_SENSES]
        ways = (self._parting.surely_parted(token, tag) for tag, _ in wholes)
        way = next(filter(None, ways), None)
        return Word(token, meanings, way.parts, way.lengths) if way else Word(token, meanings)

    def _mended(self, token: str, asked: tuple[str, ...]) -> Word | None:
        """The word that an unknown one is with one typing error: of the languages asked, else of the names."""
        for tag in asked:
            for form in sorted(set(self.forms.spelt_like(WORD, tag, token))):
                if self._whole(form, tag):
                    return self.word(form, (tag,))
        own = min(self.forms.spelt_like(OWN, "", token), default=None)
        return None if own is None else Word(own)

    def _find_whole(self, token: str, language: str) -> tuple[int, ...] | None:
        if self.forms.is_function_word(language, token):
            return ()
        found = self.forms.find(WORD, language, token)
        found = found or self.forms.find(STEM, language, self._stem(token, language))
        return chosen(found) if found else None

    def _find_stem(self, token: str, language: str) -> str:
        return self._inflectors[language].word(token)

    def phrases(self, tokens: Sequence[str], asked: Iterable[str]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        """The longest phrases from left to right, in the first language that has one there."""
        at = 0
        while at < len(tokens) - 1:
            opened = [tag for tag in asked if self.opens(tokens[at], tag)]
            found = self.phrase(tokens, at, opened)
            if found is None:
                at += 1
            else:
                yield at, found.stop, found.meanings
                at = found.stop

    def phrase(self, tokens: Sequence[str], at: int, asked: Iterable[str]) -> Phrase | None:
        """The longest phrase that begins at a word, in the first language that has one; the word is not the last."""
        for tag in asked:
            phrases = self._phrases_of(tokens[at], tokens[at + 1], tag)
            if phrases is None:
                continue
            rest, stop = "", at + 2
            found = phrases.meanings.get(rest)
            for behind, token in enumerate(tokens[at + 2 : at + min(_PHRASE, phrases.longest)], at + 3):
                rest += f" {self._stem(token, tag)}"
                if rest in phrases.meanings:
                    found, stop = phrases.meanings[rest], behind
            if found:
                return Phrase(stop, found)
        return None

    def _find_opens(self, token: str, language: str) -> bool:
        """Whether phrases begin with a word: ``opens``, which remembers it."""
        return self.forms.goes_on(PHRASE, language, f"{self._stem(token, language)} ")

    def opens_two(self, one: str, other: str, language: str) -> bool:
        """Whether phrases begin with two words."""
        return self._phrases_of(one, other, language) is not None

    def _find_phrases(self, one: str, other: str, language: str) -> _Phrases | None:
        stems = f"{self._stem(one, language)} {self._stem(other, language)}"
        rests = self.forms.continuations(PHRASE, language, stems)
        meanings = {rest: chosen(forms) for rest, forms in rests.items() if not rest or rest[0] == " "}
        return _Phrases(meanings, 2 + max(rest.count(" ") for rest in meanings)) if meanings else None


def _remembering(find: Callable[..., _R]) -> Callable[..., _R]:
    kept = lru_cache(_MOST)(find)

    def found(word: str, *more: Any) -> _R:
        return kept(word, *more) if len(word) <= _LONGEST else find(word, *more)

    return found


def _beside(told: dict[str, Form], word: str, words: Iterable[str]) -> Form | None:
    return next((told[other] for other in words if other != word and other in told), None)


def with_own_words(forms: Forms, texts: Iterable[str]) -> Forms:
    """Forms with the words of some texts that the lexicon lacks: an encoder that is trained on them knows these too."""
    reader = FamilyReader(forms, mend=False)
    return forms.with_words({word.text for text in texts for word in reader.read(text).words if not word.known})


def shared_reader(forms: Forms) -> FamilyReader:
    """The reader of some forms that a process shares; what it remembers of words is bounded."""
    reader: FamilyReader = forms.memo.setdefault("reader", None) or FamilyReader(forms)
    forms.memo["reader"] = reader
    return reader
