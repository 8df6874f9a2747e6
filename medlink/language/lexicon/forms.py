"""The forms of a lexicon in one trie, which gives the meanings of a form without reading the tables.

A *meaning* is the number of a word family; terms and affixes with the same meaning have the same number
(:attr:`medlink.language.lexicon.lexicon.Lexicon.meanings`). An encoder and a bundle store a copy of the forms, so a
later change of the tables does not affect them.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import groupby
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import marisa_trie
import numpy as np

from medlink.errors import EncoderError
from medlink.files.folders import StrPath
from medlink.files.json import json_text, read_json
from medlink.language.exact import normalise_all
from medlink.language.lexicon.lexicon import SHIPPED, Lexicon
from medlink.language.lexicon.tables import FIRST, KINDS, LAST, WHOLE, Member
from medlink.language.text import Inflector, normalise
from medlink.processes import gc_disabled

TRIE, MEANINGS = "families.marisa", "families.json"
"""The files of a folder that :meth:`LexiconForms.save` writes."""
WORD, STEM, PREFIX, SUFFIX, PHRASE, FUNCTION, SENSE, INFLECTED_SENSE = "wsflpxmi"
"""Kinds of forms: a word, a stem, a first and a last part of words, a phrase of stems, and a function word. The last
three are for ambiguous words: alone, and beside another word in exact or in inflected form.
"""
AMBIGUOUS, AFFIX, SHORT, OTHER, NOTHING = 1, 2, 4, 8, 16
"""Marks of a form: several meanings, affix, abbreviation, neither noun nor adjective, none of its meanings."""
OWN = "o"
"""Kind of a word that occurs in names but not in the lexicon."""
_RECORD = ">IB"  # big-endian: values sort as numbers
_LETTERS = {kind: chr(ord("a") + number) for number, kind in enumerate(KINDS)} | {"": "-"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_PLACES = {FIRST: PREFIX, LAST: SUFFIX, WHOLE: WORD}

_CACHED = 65_536  # entries of the trie
_PRIME, _PLACE, _MIX = 0x9E3779B97F4A7C15, 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
_64 = (1 << 64) - 1
_BITS = 24
_MASK = (1 << _BITS) - 1
_FIRST, _SECOND = 64 - _BITS, 64 - 2 * _BITS


class Form(NamedTuple):
    """One meaning of a form, with its marks."""

    meaning: int
    marks: int


class SpellingFilter:
    """A filter over all forms that finds the forms one typing error away from a word.

    Two words with one added, missing or changed letter become equal if that letter is deleted from one or both of them
    (Garbe 2012, SymSpell). A Bloom filter (Bloom 1970) with two hash functions contains each form as a whole, and each
    form without one letter together with the position of that letter. For 50,000 forms it takes 2 MB and 0.1 s.
    """

    def __init__(self, forms: Sequence[str]) -> None:
        joined = "\n".join(forms)
        self._letters = "".join(sorted({*joined, *ascii_lowercase} - {"\n"}))
        marked = np.zeros(1 << _BITS, dtype=bool)
        prime, mix, mask = np.uint64(_PRIME), np.uint64(_MIX), np.uint64(_MASK)
        lines = sorted(filter(None, joined.encode("ascii", "replace").split(b"\n")), key=len)
        for length, alike in groupby(lines, key=len):
            letters = np.frombuffer(b"".join(alike), np.uint8).reshape(-1, length).T.astype(np.uint64)
            powers = np.cumprod(np.full(length + 1, prime))
            # hashes[0]: the whole word; hashes[i + 1]: first the letters behind letter i, in the end all but letter i
            hashes = np.zeros((length + 1, letters.shape[1]), np.uint64)
            for at in range(length - 1, -1, -1):
                hashes[at] = hashes[at + 1] + letters[at] * powers[length - 1 - at]
            before = np.zeros(letters.shape[1], np.uint64)
            for at in range(length):
                hashes[at + 1] += before
                before += letters[at] * powers[length - 2 - at]
            hashes += np.arange(length + 1, dtype=np.uint64)[:, None] * np.uint64(_PLACE)
            hashes *= mix
            # signed numbers index without a copy
            marked[(hashes >> np.uint64(_FIRST)).view(np.int64)] = True
            marked[((hashes >> np.uint64(_SECOND)) & mask).view(np.int64)] = True
        self._bits = np.packbits(marked, bitorder="little").tobytes()

    def candidates(self, word: str) -> Iterator[str]:
        """Yield all forms that :meth:`LexiconForms.spelt_like` yields, and a few words that are not forms.

        In the first half of a form it tries only the letters a to z.
        """
        letters, length, half = word.encode("ascii", "replace"), len(word), len(word) // 2
        powers, behind = [_PRIME], [0]
        for letter in reversed(letters):
            behind.append(behind[-1] + letter * powers[-1])
            powers.append(powers[-1] * _PRIME & _64)
        whole, before = behind[length], 0
        for at in range(length + 1):
            head, tail = word[:at], word[at:]
            alphabet = ascii_lowercase if at < half else self._letters
            if self._is_marked(whole, at + 1):
                yield from (f"{head}{new}{tail}" for new in alphabet)
            if at == length:
                return
            without, tail, letter = before + behind[length - 1 - at], tail[1:], letters[at]
            if self._is_marked(without, 0):
                yield head + tail
            if self._is_marked(without, at + 1):
                yield from (f"{head}{new}{tail}" for new in alphabet if new != word[at])
            if tail and tail[0] != word[at]:
                moved = (letters[at + 1] - letter) * (powers[length - 1 - at] - powers[length - 2 - at])
                if self._is_marked(whole + moved, 0):
                    yield f"{head}{tail[0]}{word[at]}{tail[1:]}"
            before += letter * powers[length - 2 - at]

    def _is_marked(self, value: int, place: int) -> bool:
        mixed = (value + place * _PLACE) * _MIX & _64
        first, second = mixed >> _FIRST, mixed >> _SECOND & _MASK
        bits = self._bits
        return bool(bits[first >> 3] >> (first & 7) & 1 and bits[second >> 3] >> (second & 7) & 1)


class LexiconForms:
    """All forms of a lexicon: a trie that maps kind, language and form to meanings, and the names of the meanings.

    ``keys`` are 32-bit hashes of the names, the same in all lexicons. ``opposites`` are pairs of meanings that exclude
    each other in the same place of a name. ``kinds`` has a kind from :data:`KINDS`, or an empty text, for each meaning.
    ``table`` returns all forms of a small kind in a language; it is faster than :meth:`find`. ``compositions`` has the
    meanings that a meaning consists of: *nephrectomy* consists of *excision* and *kidney*.
    """

    def __init__(
        self,
        trie: marisa_trie.RecordTrie,
        names: list[str],
        languages: list[str],
        opposites: Sequence[tuple[int, int]] = (),
        kinds: Sequence[str] = (),
        compositions: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        self._trie, self.names, self.languages, self.opposites = trie, names, languages, list(opposites)
        self.compositions = dict(compositions or {})
        self.kinds = list(kinds) or [""] * len(names)
        self.keys = [zlib.crc32(name.encode()) for name in names]
        self.memo: dict[str, Any] = {}  # objects that other modules derive from these forms and share in this process
        self._cached: dict[str, tuple[Form, ...]] = {}  # without misses
        self.table = cache(partial(self.continuations, beginning=""))
        self._spelling_filter = cache(lambda head: SpellingFilter([key[len(head) :] for key in self._trie.keys(head)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(LexiconForms, self._trie), self._tables

    @property
    def _tables(self) -> tuple[Any, ...]:
        return self.names, self.languages, self.opposites, self.kinds, self.compositions

    @cached_property
    def digest(self) -> str:
        """Hash of all data that determine the meanings of a name."""
        digest = hashlib.sha256(self._trie.tobytes())
        digest.update("\n".join([*self.languages, *self.names, *map(str, self.opposites)]).encode())
        digest.update(str(sorted(self.compositions.items())).encode() if self.compositions else b"")
        return digest.hexdigest()[:32]

    def find(self, kind: str, language: str, form: str) -> tuple[Form, ...]:
        """Return the meanings of a form, in the order of the lexicon."""
        key = f"{kind}{language} {form}"
        meanings = self._cached.get(key)
        if meanings is None:
            meanings = tuple([Form(*record) for record in self._trie.get(key) or ()])
            if meanings:
                if len(self._cached) >= _CACHED:
                    self._cached.clear()
                self._cached[key] = meanings
        return meanings

    def continuations(self, kind: str, language: str, beginning: str) -> dict[str, tuple[Form, ...]]:
        """Return the remaining letters of all forms with this prefix, with their meanings."""
        key = f"{kind}{language} {beginning}"
        rests: dict[str, tuple[Form, ...]] = {}
        for form, record in self._trie.items(key):
            rest = form[len(key) :]
            rests[rest] = (*rests.get(rest, ()), Form(*record))
        return rests

    def lengths(self, kind: str, language: str, text: str) -> list[int]:
        """Return the length of each form with which a text begins."""
        head = len(kind) + len(language) + 1
        return [len(key) - head for key in self._trie.prefixes(f"{kind}{language} {text}")]

    def spelt_like(self, kind: str, language: str, word: str) -> Iterator[str]:
        """Yield forms one typing error from a word: an added, missing or changed letter, or two swapped letters."""
        head = f"{kind}{language} "
        return (form for form in self._spelling_filter(head).candidates(word) if head + form in self._trie)

    def with_words(self, words: Iterable[str]) -> LexiconForms:
        """Return a copy of these forms with further words, each with a new meaning."""
        own = ((f"{OWN} {word}", Form(0, 0)) for word in words)
        return LexiconForms(marisa_trie.RecordTrie(_RECORD, sorted({*self._trie.iteritems(), *own})), *self._tables)

    def is_own(self, word: str) -> bool:
        """Whether :meth:`with_words` added a word."""
        return f"{OWN} {word}" in self._trie

    def goes_on(self, kind: str, language: str, beginning: str) -> bool:
        """Whether any form begins with this text."""
        return next(iter(self._trie.iterkeys(f"{kind}{language} {beginning}")), None) is not None

    def is_function_word(self, language: str, form: str) -> bool:
        """Whether a word is an article, preposition or the like, but not a negation."""
        return form in self.table(FUNCTION, language)

    @classmethod
    @gc_disabled()
    def compile(cls, lexicon: Lexicon) -> LexiconForms:
        """Compile a lexicon in seconds; memory grows with the number of its members."""
        return _Compiler(lexicon).compile()

    def save(self, folder: Path) -> None:
        # the trie's own save hides errors of the disk
        (folder / TRIE).write_bytes(self._trie.tobytes())
        kinds = "".join(_LETTERS[kind] for kind in self.kinds)
        content = {"languages": self.languages, "names": self.names, "opposites": self.opposites, "kinds": kinds}
        content["compositions"] = [[meaning, *parts] for meaning, parts in sorted(self.compositions.items())]
        (folder / MEANINGS).write_text(json_text(content), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> LexiconForms:
        """Open the files that :meth:`save` wrote, the trie memory-mapped; raises EncoderError if one is damaged."""
        try:
            raw = read_json(folder / MEANINGS)
            trie = marisa_trie.RecordTrie(_RECORD).mmap(str(folder / TRIE))
            kinds = [_KINDS[letter] for letter in raw.get("kinds", "")]
            opposites = [(a, b) for a, b in raw["opposites"]]
            compositions = {meaning: tuple(parts) for meaning, *parts in raw.get("compositions", ())}
            return cls(trie, list(raw["names"]), list(raw["languages"]), opposites, kinds, compositions)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            remedy = "copy the folder again from its origin"
            raise EncoderError(f"the word families cannot be read: {error}", path=folder, remedy=remedy) from error


def load_forms(folders: Sequence[StrPath]) -> LexiconForms:
    """Return the forms of the shipped lexicon and of a site's own folders."""
    return LexiconForms.compile(Lexicon(folders)) if folders else shipped_forms()


def shipped_forms() -> LexiconForms:
    """Return the compiled forms of the shipped lexicon; a test compares them with its tables."""
    return load_shared_forms(SHIPPED)


_open_forms: WeakValueDictionary[str, LexiconForms] = WeakValueDictionary()


def load_shared_forms(folder: Path) -> LexiconForms:
    """Open lexicon forms like :meth:`LexiconForms.load`; if equal forms are already open, return these.

    An encoder, the index of its bundle, and other bundles have copies of the same files. Sharing saves memory, and half
    a second for building the filters of misspelt words.
    """
    try:
        contents = [(folder / name).read_bytes() for name in (TRIE, MEANINGS)]
    except OSError:
        return LexiconForms.load(folder)  # raises the error
    key = "".join(hashlib.sha256(content).hexdigest() for content in contents)
    found = _open_forms.get(key)
    if found is None:
        found = _open_forms[key] = LexiconForms.load(folder)
    return found


class _Compiler:
    """Collect the forms of a lexicon; ``rows`` maps keys of the trie to their meanings."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        meanings, self.names = lexicon.meanings
        self.entries = list(zip(lexicon.entries, meanings, strict=True))
        self.numbers = {entry.name: meaning for entry, meaning in self.entries}
        self.languages = sorted({member.language for entry in lexicon.entries for member in entry.members})
        self.inflectors = {tag: Inflector(tag) for tag in self.languages}
        # many members share words
        self.stems: dict[str, Callable[[str], str]] = {tag: cache(own.word) for tag, own in self.inflectors.items()}
        self.rows: dict[str, set[Form]] = defaultdict(set)

    def compile(self) -> LexiconForms:
        self._add_members()
        # looked up among the members before any of them is added
        added = [*self._inflected(), *self._abbreviations(), *self._function_words(), *self._senses()]
        for key, forms in added:
            self.rows[key].update(forms)
        numbers = self.numbers
        opposed = {(numbers[first], numbers[second]) for _, first, second in self.lexicon.opposites}
        opposites = sorted((a, b) for a, b in opposed if a is not None and b is not None and a != b)
        rows = sorted((key, form) for key, forms in self.rows.items() for form in forms)
        trie = marisa_trie.RecordTrie(_RECORD, rows)
        compositions = {
            whole: tuple(part for name in parts if (part := numbers[name]) is not None)
            for family, parts in self.lexicon.compositions.items()
            if (whole := numbers[family]) is not None
        }
        return LexiconForms(trie, self.names, self.languages, opposites, self.lexicon.kinds, compositions)

    def _add_members(self) -> None:
        members = (member for entry, _ in self.entries for member in entry.members)
        written = list(dict.fromkeys(text for member in members for text in (member.form, *member.plurals)))
        exact = dict(zip(written, normalise_all(written), strict=True))
        for entry, meaning in self.entries:
            for member in entry.members if meaning is not None else ():
                marks = AMBIGUOUS * ("amb" in member.marks) | SHORT * (member.form.isupper() or "abbr" in member.marks)
                marks |= OTHER * (member.part in ("v", "d")) | AFFIX * (entry.table == "affix")
                form = Form(meaning or 0, marks)
                for text in (member.form, *member.plurals):
                    for key in self._keys(member, exact[text]):
                        self.rows[key].add(form)

    def _keys(self, member: Member, form: str) -> Iterator[str]:
        """The keys of a spelling of a member: its exact form, and for a whole word or phrase its stems."""
        language = member.language
        if form and " " not in form:
            yield f"{_PLACES[member.place]}{language} {form}"
        # GOT is not the stem of gotas
        if member.place == WHOLE and form and (" " in form or not member.form.isupper()):
            yield _stem_key(language, map(self.stems[language], form.split()))

    def _find(self, text: str, language: str) -> Iterable[Form]:
        form = normalise(text)
        if language not in self.stems or not form:
            return ()
        stems = _stem_key(language, map(self.stems[language], form.split()))
        return self.rows.get(f"{WORD}{language} {form}") or self.rows.get(stems) or ()

    def _inflected(self) -> Iterator[tuple[str, list[Form]]]:
        of_families = {meaning for entry, meaning in self.entries if entry.table == "family"}
        for language, lemmas in self.lexicon.inflected.items():
            for form, lemma in lemmas.items():
                forms = [own for own in self._find(lemma, language) if not own.marks & (AFFIX | SHORT)]
                yield f"{WORD}{language} {form}", [own for own in forms if own.meaning in of_families]

    def _abbreviations(self) -> Iterator[tuple[str, list[Form]]]:
        for short in self.lexicon.abbreviations:
            long: Iterable[Form] = ()
            if short.safe:
                long = self._find(short.long, short.language) or self._find(short.english or short.long, "en")
            forms = [Form(form.meaning, SHORT) for form in long if not form.marks & AMBIGUOUS]
            for form in map(normalise, short.forms):
                yield f"{PHRASE if ' ' in form else WORD}{short.language} {form}", forms

    def _function_words(self) -> Iterator[tuple[str, list[Form]]]:
        for language, kinds in self.lexicon.function_words.items():
            for word, kind in kinds.items():
                if kind != "negation":
                    yield f"{FUNCTION}{language} {normalise(word)}", [Form(0, 0)]

    def _senses(self) -> Iterator[tuple[str, list[Form]]]:
        for sense in self.lexicon.senses:
            forms = [Form(self.numbers.get(sense.family) or 0, NOTHING * (sense.family == "-"))]
            stem = self.inflectors[sense.language].form if sense.language in self.inflectors else normalise
            for kind, form_of in ((SENSE, normalise), (INFLECTED_SENSE, stem)):
                word = form_of(sense.word)
                for form in [f"{word} {form_of(near)}" for near in sense.beside] or [word]:
                    yield f"{kind}{sense.language} {form}", forms


def _stem_key(language: str, stems: Iterable[str]) -> str:
    form = " ".join(stems)
    return f"{PHRASE if ' ' in form else STEM}{language} {form}"
