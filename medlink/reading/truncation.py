"""Words shortened with a full stop: *chron. Bronch.*, *insuf. renal crón.*, *pleural eff.*

A cut word stands for every word of the lexicon and of the index that begins with its letters. Its neighbours decide:
the span stands for the shortest names of the index that have one of these words and the neighbours, if these names are
of one concept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, product
from typing import Literal

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from medlink.index import ConceptIndex
from medlink.index.names import Selections
from medlink.index.word_features import UNKNOWN, features_of_word
from medlink.language.lexicon.forms import AFFIX, PHRASE, SHORT, WORD
from medlink.language.scan import FINDING_KINDS, Place, ScannedText, ScannedWord, Scanner, WordEntry
from medlink.language.scope_rules import scopes
from medlink.language.tags import base
from medlink.language.text import normalise

_MIN_LETTERS = 3  # of a cut word
_LONGEST_CUT = 10  # most letters of a word of the lexicon that may be cut before a capital letter
_ALONE = 7  # least letters of a cut word without neighbours
_MAX_WORDS = 4
_MAX_WORDS_READ = 100  # words of names with one beginning, beside those of the lexicon
_MAX_WHOLE, _MAX_WORDINGS = 6, 36  # words that a cut word may be, and wordings of a span, that are looked up
_MAX_NAMES = 2_000  # names of the index whose first word is taken
_SPELLINGS = (("ph", "f"), ("th", "t"), ("rh", "r"), ("y", "i"), ("k", "c"), ("z", "c"), ("ae", "e"), ("oe", "e"))
_WHOLE = 0.999  # share of a feature that covers a word
_CACHE_SIZE = 1 << 12  # spans, and beginnings of words
_NUMERAL = re.compile(r"[ivx]+|[1-9]", re.IGNORECASE)  # of a type or degree
_GAP = re.compile(r"\.?(?: |\n| \n)?")

Written = tuple[tuple[str, bool], ...]
"""The words of a span, and whether each is cut."""


class TruncationReader:
    """Finds names of the index that a text in the language of a scanner writes with shortened words."""

    def __init__(self, scanner: Scanner, index: ConceptIndex, selection: Selections | None) -> None:
        self._base, self._scanner, self._index, self._selection = base(scanner.language), scanner, index, selection
        rules, self._forms = scopes(scanner.language), index.forms
        self._abbreviated, self._denials = rules.abbreviated, rules.answers | rules.without
        self._finds = np.zeros(len(self._forms.names) + UNKNOWN, dtype=bool)
        self._finds[: len(self._forms.names)] = [kind in FINDING_KINDS for kind in self._forms.kinds]
        self._names: LRUCache[Written, tuple[str | None, bool]] = LRUCache(_CACHE_SIZE)
        self._completed = lru_cache(_CACHE_SIZE)(self._complete)
        self._phrases_of = lru_cache(_CACHE_SIZE)(self._phrases_beginning)

    def read(self, text: ScannedText) -> Iterator[tuple[Place, str]]:
        """Yield the spans that contain a shortened word, each with the name that it stands for."""
        if "." not in text.text:
            return
        stops = [self._stop(text, word) for word in text.words]
        for start in range(len(stops)):
            if text.words[start].function:
                continue
            for end in range(start + 1, min(start + _MAX_WORDS, len(stops)) + 1):
                words, own = text.words[start:end], stops[start:end]
                if len(words) > 1 and not _GAP.fullmatch(text.text, words[-2].end, words[-1].start):
                    break
                if len(words) > 1 and own[-2] and self._begins_sentence(words[-1].entry.written, words[-2], own[-2]):
                    break
                if words[-1].function or not (any(own) and _may_be_cut(words, own)):
                    continue
                name, goes_on = self._name(words, own)
                if name is not None:
                    yield (start, end), name
                if not goes_on:
                    break

    def _begins_sentence(self, written: str, before: ScannedWord, stop: str) -> bool:
        """Whether a word behind a full stop is in title case, and a denial or behind a finding that may be whole.

        Examples are "hat erbrochen. Kein Durchfall" and "Keine Zirrhose. Portale Entzündung".
        """
        return written.istitle() and (written.casefold() in self._denials or (stop == "end" and before.finds))

    def _stop(self, text: ScannedText, word: ScannedWord) -> Literal["", "cut", "inside", "end"]:
        """Whether the full stop after a word marks a cut; behind a known word it may also end the sentence."""
        written = text.text[word.start : word.end]
        stop, following = text.text[word.end : word.end + 1], text.text[word.end + 1 : word.end + 2]
        if stop != "." or following.isalnum() or len(written) < _MIN_LETTERS or not written.isalpha():
            return ""
        if written.casefold() in self._abbreviated or not word.entry.word.known:
            return "cut"
        if following == " " and text.text[word.end + 2 : word.end + 3].islower():
            return "inside"
        return "end" if len(written) <= _LONGEST_CUT else ""  # "Mammakarzinom. Patient hat Kopfschmerzen."

    def _name(self, words: Sequence[ScannedWord], stops: Sequence[str]) -> tuple[str | None, bool]:
        """The name that words stand for, if any, and whether longer names have all of them."""
        content = [(word.entry, bool(stop)) for word, stop in zip(words, stops, strict=True) if not word.function]
        written = tuple((entry.exact, is_cut) for entry, is_cut in content)
        if written not in self._names:
            self._names[written] = self._find(content)
        return self._names[written]

    def _find(self, content: Sequence[tuple[WordEntry, bool]]) -> tuple[str | None, bool]:
        cut = [entry.exact for entry, is_cut in content if is_cut]
        completions = [self._completed(letters) for letters in cut]
        # names without a word of a finding are too many: "Prof. Dr. med."
        finds = any(self._finds[features].any() for features in completions)
        finds = finds or any(FINDING_KINDS & entry.kinds for entry, _ in content)
        if not finds or not all(map(len, completions)):
            return None, not finds
        phrases = self._phrases([entry.exact for entry, _ in content])
        features = chain.from_iterable(self._features(entry, is_cut=is_cut) for entry, is_cut in content)
        words = [np.union1d(own, phrases) for own in features]
        names = self._index.completed_names(words, self._selection)
        short = (name for name, length in names if length <= len(words) + 1)
        entries = chain.from_iterable(self._index.entries_of(name, self._selection) for name in short)
        alike = [entry for entry in entries if _has_words(entry.text, cut)]
        if len({entry.concept_id for entry in alike}) != 1:
            return self._by_phrase(phrases) or self._by_family(content), bool(names)
        own = [entry for entry in alike if base(entry.language) == self._base]
        return min((entry.text for entry in own or alike), key=lambda text: (len(text), text)), bool(names)

    def _by_phrase(self, phrases: NDArray[np.int64]) -> str | None:
        """The headword of the one phrase of the lexicon that a span shortens: *chron. Niereninsuffizienz*."""
        known = np.unique(phrases)
        name = self._forms.names[known[0]] if len(known) == 1 else None
        return name if name and self._index.lookup(name, self._scanner.language, self._selection) else None

    def _by_family(self, content: Sequence[tuple[WordEntry, bool]]) -> str | None:
        """The span with whole words of the lexicon, the shortest first, that is a name by word families."""
        if len(content) == 1 or not any(FINDING_KINDS & entry.kinds for entry, _ in content):
            return None
        choices = [self._whole_words(entry.exact) if is_cut else [entry.written] for entry, is_cut in content]
        wordings = sorted(map(" ".join, islice(product(*choices), _MAX_WORDINGS)), key=len)
        texts = self._scanner.scan_all(wordings)
        found = zip(texts, self._index.match_families(texts, self._selection) if texts else (), strict=True)
        return next((text.text for text, places in found if (0, len(text.words)) in places), None)

    def _whole_words(self, letters: str) -> list[str]:
        known = self._forms.continuations(WORD, self._base, letters)
        own = (letters + rest for rest, forms in known.items() if any(not f.marks & (AFFIX | SHORT) for f in forms))
        return sorted(own, key=lambda word: (len(word), word))[:_MAX_WHOLE]

    def _features(self, entry: WordEntry, *, is_cut: bool) -> list[NDArray[np.int64]]:
        """The features that a word may have; of a whole compound those of each part."""
        if is_cut:
            return [self._completed(entry.exact)]
        if entry.word.parts and not entry.word.meanings:
            return [np.array(part, np.int64) for part in entry.word.parts]
        return [np.array(sorted(_whole_features(entry, len(self._forms.names))), np.int64)]

    def _complete(self, letters: str) -> NDArray[np.int64]:
        """The features of words of the lexicon, and of first words of names of the index, that begin with letters."""
        known = self._forms.continuations(WORD, self._base, letters)
        found = {form.meaning for forms in known.values() for form in forms if not form.marks & (AFFIX | SHORT)}
        names = self._index.names_beginning(letters, _MAX_NAMES)
        words = {name.partition(" ")[0] for name in names} - {letters + rest for rest in known}
        if not found and not words:
            words = set(self._complete_part(letters))
        for text in self._scanner.scan_all(sorted(words)[:_MAX_WORDS_READ]):
            for word in text.words:
                found |= _whole_features(word.entry, len(self._forms.names))
        return np.array(sorted(found), np.int64)

    def _phrases(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Meanings of the phrases of the lexicon whose words begin with the letters of the given words."""
        if len(words) == 1:
            return np.zeros(0, np.int64)
        phrases = (phrase for phrase in self._phrases_of(words[0][:_MIN_LETTERS]) if len(phrase[0]) == len(words))
        return np.array([meaning for stems, meaning in phrases if all(map(_begins_alike, stems, words))], np.int64)

    def _phrases_beginning(self, letters: str) -> list[tuple[list[str], int]]:
        found = self._forms.continuations(PHRASE, self._base, letters)
        split = (((letters + rest).split(), forms) for rest, forms in found.items())
        return [(stems, form.meaning) for stems, forms in split if len(stems) <= _MAX_WORDS for form in forms]

    def _complete_part(self, letters: str) -> list[str]:
        """The compounds that a word with a cut last part may be: *makuladeg*."""
        for length in reversed(self._forms.lengths(WORD, self._base, letters)):
            rest = letters[length:]
            if length >= _MIN_LETTERS and _MIN_LETTERS <= len(rest) < _ALONE:
                forms = self._forms.continuations(WORD, self._base, rest)
                is_whole = any(not form.marks & SHORT for form in forms.get("", ()))
                return [] if is_whole else [letters + more for more in forms if more]
        return []


def _whole_features(entry: WordEntry, unknown: int) -> set[int]:
    """The features that cover a word, else those of its parts."""
    features = dict(features_of_word(entry.word, unknown))
    return {feature for feature, share in features.items() if share >= _WHOLE} or set(features)


def _may_be_cut(words: Sequence[ScannedWord], stops: Sequence[str]) -> bool:
    """A word alone must be long and unknown, and the last word of a sentence is cut only beside another cut one.

    If it has only a few letters, as in *Tib. anterior*, words beside it must show that a finding is meant.
    """
    if len(words) == 1:
        return stops[0] == "cut" and words[0].end - words[0].start >= _ALONE
    whole = [word for word, stop in zip(words, stops, strict=True) if not (stop or word.function)]
    if any(
        word.end - word.start < _MIN_LETTERS and not word.finds and not _NUMERAL.fullmatch(word.entry.exact)
        for word in whole
    ):
        return False
    cut = (word.end - word.start for word, stop in zip(words, stops, strict=True) if stop)
    is_clear = max(cut) > _MIN_LETTERS or any(word.finds for word in whole)
    return is_clear and ("cut" in stops or "inside" in stops or stops.count("end") > 1)


def _begins_alike(stem: str, word: str) -> bool:
    return stem.startswith(word) or (len(stem) >= _MIN_LETTERS and word.startswith(stem))


def _has_words(name: str, beginnings: Sequence[str]) -> bool:
    """Whether a name has words with these beginnings, spelt as in any of the languages."""
    words = _folded(name).split()
    return all(any(word.startswith(_folded(letters)) for word in words) for letters in beginnings)


def _folded(text: str) -> str:
    """A text in the spelling that Latin and Greek words of German, English and Spanish share.

    >>> _folded("hypertrophy"), _folded("Hypertrophie"), _folded("hipertrofia")
    ('hipertrofi', 'hipertrofie', 'hipertrofia')
    """
    text = normalise(text)
    for written, shared in _SPELLINGS:
        text = text.replace(written, shared)
    return text
