"""Analyse names: the meanings of each word, of the parts of compounds, and of phrases.

:mod:`medlink.language.lexicon.compound_splitting` splits compounds;
:class:`medlink.language.lexicon.batch_analysis.BatchAnalyser` analyses many names at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from medlink.language.languages import languages
from medlink.language.lexicon.compound_splitting import LONGEST, SHORTEST, SURE, CompoundSplitter, chosen_meanings
from medlink.language.lexicon.forms import INFLECTED_SENSE, NOTHING, OWN, PHRASE, SENSE, STEM, WORD, Form, LexiconForms
from medlink.language.tags import base
from medlink.language.text import Inflector, normalise

_CACHED = 65_536  # words, the most recent
_DOUBTFUL = 3.1  # cost from which on a split is likelier a typing error: Myokard-in-fakt
_LONGEST = 64  # letters of the longest word that is cached: an encoded file in a note may be one word
_SENSES = 3  # meanings of an ambiguous form that count
_PHRASE = 6  # words of the longest phrase
_SECOND_LANGUAGE = "en"  # its words count in texts of other languages
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class AnalysedWord:
    """A word of a name in its exact form."""

    text: str
    meanings: tuple[int, ...] = ()  # of the whole word; several if it is ambiguous, none if it is unknown
    # meanings of each part of a compound, empty for an unknown part; else the meanings that its meaning consists of
    parts: tuple[tuple[int, ...], ...] = ()
    lengths: tuple[int, ...] = ()  # letters of each part of a compound, its linking letters included
    function: bool = False  # whether it is an article, preposition or the like

    @property
    def pieces(self) -> list[str]:
        """The letters of each part of a compound; a word that is not a compound is one piece."""
        ends = list(accumulate(self.lengths))
        return [self.text[start:end] for start, end in pairwise([0, *ends])] if ends else [self.text]

    @property
    def known(self) -> bool:
        """Whether the lexicon has the word, or all its parts."""
        return self.function or bool(self.meanings) or (bool(self.parts) and all(self.parts))


@dataclass(frozen=True, slots=True)
class AnalysedName:
    """The words of a name, and its phrases: first word, position after the last word, and meanings."""

    words: tuple[AnalysedWord, ...]
    phrases: tuple[tuple[int, int, tuple[int, ...]], ...] = ()


class Phrase(NamedTuple):
    """A phrase of a name: the position after its last word, and its meanings."""

    stop: int
    meanings: tuple[int, ...]


_Senses = tuple[dict[str, Form], dict[str, Form], Form | None]
"""The senses of an ambiguous word: beside other words in exact form, beside their stems, and alone."""
_Phrases = tuple[dict[str, tuple[int, ...]], int]
"""The phrases that begin with two given words: meanings by the rest, and the length of the longest."""


class LexicalAnalyser:
    """Analyse names with the forms of a lexicon; caches words and pairs of words.

    Threads may share an analyser; see :func:`shared_analyser`. Typing errors are corrected only with ``mend``.
    """

    def __init__(self, forms: LexiconForms, *, mend: bool = True) -> None:
        self.forms, self._mends = forms, mend
        self._inflectors = {language: Inflector(language) for language in forms.languages}
        self._more_inflectors = dict[str, Inflector]()
        self.languages = tuple(self._inflectors)
        self._stem = _cached(lambda token, language: self._inflectors[language].word(token))
        self._splitter = CompoundSplitter(forms, self._stem)
        self.word = _cached(self._find_word)
        self._whole = _cached(self._find_whole)
        # which of the languages know a word as a whole
        self.knowing = _cached(lambda token: tuple([self._whole(token, tag) is not None for tag in self.languages]))
        # whether any phrase of a language begins with a word
        self.opens = _cached(lambda token, tag: forms.goes_on(PHRASE, tag, f"{self._stem(token, tag)} "))
        self._phrases_of = _cached(self._find_phrases)
        self._senses = _cached(self._find_senses)

    def read(self, text: str, language: str | None = None) -> AnalysedName:
        """Analyse a name; without a language, in the languages that have most of its words."""
        tokens, tag = normalise(text).split(), base(language or "")
        tags = (tag,) if tag in self._inflectors else self.guess(tokens)
        words = [self.word(token, tags) for token in tokens]
        words = [self.disambiguate(word, tokens, tags) if len(word.meanings) > 1 else word for word in words]
        return AnalysedName(tuple(words), tuple(self.phrases(tokens, tags)))

    def inflector(self, language: str) -> Inflector:
        """Return the shared inflector of any language."""
        inflector = self._inflectors.get(language) or self._more_inflectors.get(language)
        if inflector is None:
            inflector = self._more_inflectors[language] = Inflector(language)
        return inflector

    def depends(self, word: AnalysedWord, tags: Sequence[str]) -> bool:
        """Whether the sense of an ambiguous word may depend on other words of the name."""
        return len(word.meanings) > 1 and any(any(self._senses(word.text, tag)[:2]) for tag in tags)

    def disambiguate(self, word: AnalysedWord, tokens: Sequence[str], tags: Sequence[str]) -> AnalysedWord:
        """Give an ambiguous word the sense that it has beside the other words of a name, or its default sense."""
        for tag in tags:
            beside, beside_stems, alone = self._senses(word.text, tag)
            sense = _sense_beside(beside, word.text, tokens) if beside else None
            if sense is None and beside_stems:
                stems = [self._stem(token, tag) for token in tokens]
                sense = _sense_beside(beside_stems, self._stem(word.text, tag), stems)
            sense = sense or alone
            if sense is not None:
                meanings = () if sense.marks & NOTHING else (sense.meaning,)
                return AnalysedWord(word.text, meanings, word.parts, word.lengths, word.function)
        return word

    def _find_senses(self, word: str, language: str) -> _Senses:
        alone, beside = None, []
        for kind, form in ((SENSE, word), (INFLECTED_SENSE, self._stem(word, language))):
            single = self.forms.find(kind, language, form)
            alone = alone or (single[0] if len(single) == 1 else None)
            pairs = self.forms.continuations(kind, language, f"{form} ")
            beside.append({near: senses[0] for near, senses in pairs.items() if len(senses) == 1})
        return beside[0], beside[1], alone

    def guess(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """Return the languages that have most of these words as whole words."""
        counts = [sum(known) for known in zip(*map(self.knowing, tokens), strict=True)] or [0] * len(self.languages)
        return tuple([tag for tag, count in zip(self.languages, counts, strict=True) if count == max(counts)])

    def _find_word(self, token: str, tags: tuple[str, ...]) -> AnalysedWord:
        wholes = [(tag, whole) for tag in tags if (whole := self._whole(token, tag)) is not None]
        if wholes:
            return self._known_word(token, wholes)
        splits = [split for tag in tags if (split := self._splitter.split(token, tag))]
        best = min(splits, key=attrgetter("cost"), default=None)
        if best is not None:
            mended = self._mend(token, tags) if self._mends and best.cost >= _DOUBTFUL else None
            return mended or AnalysedWord(token, (), best.parts, best.lengths)
        if _SECOND_LANGUAGE not in tags and len(token) > SURE and _SECOND_LANGUAGE in self._inflectors:
            meanings = self._whole(token, _SECOND_LANGUAGE)
            if meanings:
                return AnalysedWord(token, meanings)
        if self._mends and SHORTEST <= len(token) <= LONGEST and token.isalpha() and not self.forms.is_own(token):
            mended = self._mend(token, tags)
            if mended is not None:
                return mended
        split = next(filter(None, (self._splitter.split_end(token, tag) for tag in tags)), None)
        return AnalysedWord(token, (), split.parts, split.lengths) if split else AnalysedWord(token)

    def _known_word(self, token: str, wholes: Sequence[tuple[str, tuple[int, ...]]]) -> AnalysedWord:
        if not all(meanings for _, meanings in wholes):
            return AnalysedWord(token, function=True)
        meanings = tuple(dict.fromkeys(m for _, whole in wholes for m in whole))[:_SENSES]
        split = next(filter(None, (self._splitter.split_known(token, tag) for tag, _ in wholes)), None)
        if split:
            return AnalysedWord(token, meanings, split.parts, split.lengths)
        return AnalysedWord(token, meanings, tuple((part,) for part in self.forms.compositions.get(meanings[0], ())))

    def _mend(self, token: str, tags: tuple[str, ...]) -> AnalysedWord | None:
        """Correct one typing error in an unknown word, to a word of the lexicon, else to a word of the names."""
        for tag in tags:
            for form in sorted(set(self.forms.spelt_like(WORD, tag, token))):
                if self._whole(form, tag):
                    return self.word(form, (tag,))
        own = min(self.forms.spelt_like(OWN, "", token), default=None)
        return None if own is None else AnalysedWord(own)

    def _find_whole(self, token: str, language: str) -> tuple[int, ...] | None:
        """The meanings of a word as a whole, empty for a function word, ``None`` for an unknown word."""
        if self.forms.is_function_word(language, token):
            return ()
        forms = self.forms.find(WORD, language, token)
        forms = forms or self.forms.find(STEM, language, self._stem(token, language))
        return chosen_meanings(forms) if forms else None

    def phrases(self, tokens: Sequence[str], tags: Iterable[str]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        """Find phrases from left to right: at each word, the longest phrase in the first language that has any."""
        at = 0
        while at < len(tokens) - 1:
            opened = [tag for tag in tags if self.opens(tokens[at], tag)]
            phrase = self.phrase(tokens, at, opened)
            if phrase is None:
                at += 1
            else:
                yield at, phrase.stop, phrase.meanings
                at = phrase.stop

    def phrase(self, tokens: Sequence[str], at: int, tags: Iterable[str]) -> Phrase | None:
        """Return the longest phrase of two or more words from a word on, in the first language that has any."""
        for tag in tags:
            phrases, longest = self._phrases_of(tokens[at], tokens[at + 1], tag) or ({}, 0)
            rest, stop, meanings = "", at + 2, phrases.get("")
            for behind, token in enumerate(tokens[at + 2 : at + min(_PHRASE, longest)], at + 3):
                rest += f" {self._stem(token, tag)}"
                if rest in phrases:
                    meanings, stop = phrases[rest], behind
            if meanings:
                return Phrase(stop, meanings)
        return None

    def opens_two(self, first: str, second: str, language: str) -> bool:
        """Whether any phrase begins with these two words."""
        return self._phrases_of(first, second, language) is not None

    def _find_phrases(self, first: str, second: str, language: str) -> _Phrases | None:
        stems = f"{self._stem(first, language)} {self._stem(second, language)}"
        rests = self.forms.continuations(PHRASE, language, stems)
        meanings = {rest: chosen_meanings(forms) for rest, forms in rests.items() if not rest or rest[0] == " "}
        return (meanings, 2 + max(rest.count(" ") for rest in meanings)) if meanings else None


def _cached(find: Callable[..., _R]) -> Callable[..., _R]:
    cached = lru_cache(_CACHED)(find)

    def lookup(word: str, *more: Any) -> _R:
        return cached(word, *more) if len(word) <= _LONGEST else find(word, *more)

    return lookup


def _sense_beside(senses: dict[str, Form], word: str, words: Iterable[str]) -> Form | None:
    return next((senses[other] for other in words if other != word and other in senses), None)


def with_own_words(forms: LexiconForms, texts: Iterable[str]) -> LexiconForms:
    """Extend forms by words of the texts that the lexicon lacks; the texts are the training data of an encoder."""
    analyser = LexicalAnalyser(forms, mend=False)
    return forms.with_words({word.text for text in texts for word in analyser.read(text).words if not word.known})


def shared_analyser(forms: LexiconForms) -> LexicalAnalyser:
    """Return the analyser of these forms that all modules of this process share."""
    key = f"analyser {languages()}"  # of languages that are added later it has no inflector
    analyser: LexicalAnalyser = forms.memo.get(key) or LexicalAnalyser(forms)
    forms.memo[key] = analyser
    return analyser
