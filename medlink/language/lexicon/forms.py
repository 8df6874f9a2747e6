"""The forms of a lexicon as one trie: from a form to the meanings that have it, without reading the tables.

A *meaning* is a number: that of a family, and of the terms and affixes that say the same
(:attr:`medlink.language.lexicon.lexicon.Lexicon.meanings`). An encoder and a bundle hold the forms that they were made
with, so that what they know stays theirs whatever happens to the tables.
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

import marisa_trie
import numpy as np

from medlink.errors import EncoderError
from medlink.files.folders import StrPath
from medlink.files.json import json_text, read_json
from medlink.language.exact import normalise_all
from medlink.language.lexicon.lexicon import SHIPPED, Lexicon
from medlink.language.lexicon.tables import FIRST, KINDS, LAST, WHOLE, Abbreviation, Member
from medlink.language.text import Inflector, normalise

TRIE, MEANINGS = "families.marisa", "families.json"
"""The files of a folder that :meth:`Forms.save` writes."""
WORD, STEM, PREFIX, SUFFIX, PHRASE, FUNCTION, SENSE, INFLECTED_SENSE = "wsflpxmi"
"""Kinds of forms: a word, its inflected form, a first and a last part of words, several words, a function word, an
ambiguous word alone and with another one beside it, the same of inflected forms."""
AMBIGUOUS, AFFIX, SHORT, OTHER, NOTHING = 1, 2, 4, 8, 16
"""Marks of a form: of several meanings, of no word's root, an abbreviation, neither noun nor adjective, none of its
meanings."""
OWN = "o"
"""Kind of a word that names are made of and the lexicon lacks."""
_RECORD = ">IB"  # the greatest byte first: values come sorted
_LETTERS = {kind: chr(ord("a") + number) for number, kind in enumerate(KINDS)} | {"": "-"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_PLACES = {FIRST: PREFIX, LAST: SUFFIX, WHOLE: WORD}

_MOST = 65_536  # entries of the trie that are kept as they were read
_PRIME, _PLACE, _MIX = 0x9E3779B97F4A7C15, 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
_64 = (1 << 64) - 1
_BITS = 24
_MASK = (1 << _BITS) - 1
_FIRST, _SECOND = 64 - _BITS, 64 - 2 * _BITS


class Form(NamedTuple):
    """A meaning that a form has, with its marks."""

    meaning: int
    marks: int


class Misspelt:
    """Tells what a word may be that differs from a form by one typing error: the few errors that are worth a search.

    Of two words with one letter more, less or another, one is the other without a letter, or both are one word where
    each lacks the letter at the same place (Garbe 2012, SymSpell). All forms, whole and without each of their letters,
    are marked with the place of that letter in a Bloom filter (Bloom 1970) of two hash functions. It takes 2 MB, and is
    made in less than 0.1 s for 50,000 forms.
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
            # hashes[0]: of the whole word, hashes[i + 1]: of the letters behind letter i, in the end of all but that
            hashes = np.zeros((length + 1, letters.shape[1]), np.uint64)
            for at in range(length - 1, -1, -1):
                hashes[at] = hashes[at + 1] + letters[at] * powers[length - 1 - at]
            before = np.zeros(letters.shape[1], np.uint64)
            for at in range(length):
                hashes[at + 1] += before
                before += letters[at] * powers[length - 2 - at]
            hashes += np.arange(length + 1, dtype=np.uint64)[:, None] * np.uint64(_PLACE)
            hashes *= mix
            # as signed numbers they are places without a copy
            marked[(hashes >> np.uint64(_FIRST)).view(np.int64)] = True
            marked[((hashes >> np.uint64(_SECOND)) & mask).view(np.int64)] = True
        self._bits = np.packbits(marked, bitorder="little").tobytes()

    def candidates(self, word: str) -> Iterator[str]:
        """All forms that differ from a word by a letter more, less or another, or by two changed, and few other words.

        Of the letters that no word of the alphabet has, those in the first half of the form are not looked for.
        """
        letters, length, half = word.encode("ascii", "replace"), len(word), len(word) // 2
        powers, behind = [_PRIME], [0]
        for letter in reversed(letters):
            behind.append(behind[-1] + letter * powers[-1])
            powers.append(powers[-1] * _PRIME & _64)
        whole, before = behind[length], 0
        for at in range(length + 1):
            head, tail = word[:at], word[at:]
            others = ascii_lowercase if at < half else self._letters
            if self._is_marked(whole, at + 1):
                yield from (f"{head}{other}{tail}" for other in others)
            if at == length:
                return
            without, tail, letter = before + behind[length - 1 - at], tail[1:], letters[at]
            if self._is_marked(without, 0):
                yield head + tail
            if self._is_marked(without, at + 1):
                yield from (f"{head}{other}{tail}" for other in others if other != word[at])
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


class Forms:
    """All forms of a lexicon: a trie of meanings by kind, language and form, and the names of the meanings.

    ``keys`` are the names as 32-bit numbers, the same in every lexicon that has the name. ``opposites`` are pairs of
    meanings that exclude each other in one place of a name; ``kinds`` those of :data:`KINDS`, or empty. ``table`` has
    all forms of a kind that has few, and a language: quicker than :meth:`find`.
    """

    def __init__(
        self,
        trie: marisa_trie.RecordTrie,
        names: list[str],
        languages: list[str],
        opposites: Sequence[tuple[int, int]] = (),
        kinds: Sequence[str] = (),
    ) -> None:
        self._trie, self.names, self.languages, self.opposites = trie, names, languages, list(opposites)
        self.kinds = list(kinds) or [""] * len(names)
        self.keys = [zlib.crc32(name.encode()) for name in names]
        self._met: dict[str, tuple[Form, ...]] = {}  # entries of the trie: what is none is not kept
        self.table = cache(partial(self.continuations, beginning=""))
        self._misspelt = cache(self._find_misspelt)

    def __reduce__(self) -> tuple[Any, ...]:
        return Forms, (self._trie, self.names, self.languages, self.opposites, self.kinds)

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What others made of these forms for as long as the process has them."""
        return {}

    @cached_property
    def digest(self) -> str:
        """Hash of everything that decides what a name means."""
        digest = hashlib.sha256(self._trie.tobytes())
        digest.update("\n".join([*self.languages, *self.names, *map(str, self.opposites)]).encode())
        return digest.hexdigest()[:32]

    def find(self, kind: str, language: str, form: str) -> tuple[Form, ...]:
        """The meanings of a form, in the order of the lexicon."""
        key = f"{kind}{language} {form}"
        met = self._met.get(key)
        if met is None:
            met = tuple([Form(*one) for one in self._trie.get(key) or ()])
            if met:
                if len(self._met) >= _MOST:
                    self._met.clear()
                self._met[key] = met
        return met

    def continuations(self, kind: str, language: str, beginning: str) -> dict[str, tuple[Form, ...]]:
        """How the forms go on that begin so, with their meanings."""
        key = f"{kind}{language} {beginning}"
        found: dict[str, tuple[Form, ...]] = {}
        for form, record in self._trie.items(key):
            rest = form[len(key) :]
            found[rest] = (*found.get(rest, ()), Form(*record))
        return found

    def lengths(self, kind: str, language: str, text: str) -> list[int]:
        """Letters of every form that a text begins with."""
        head = len(kind) + len(language) + 1
        return [len(key) - head for key in self._trie.prefixes(f"{kind}{language} {text}")]

    def spelt_like(self, kind: str, language: str, word: str) -> Iterator[str]:
        """The forms that differ from a word by one typing error: a letter more, less or another, or two changed."""
        head = f"{kind}{language} "
        return (form for form in self._misspelt(head).candidates(word) if head + form in self._trie)

    def _find_misspelt(self, head: str) -> Misspelt:
        return Misspelt([key[len(head) :] for key in self._trie.keys(head)])

    def with_words(self, words: Iterable[str]) -> Forms:
        """The same forms and further words that mean themselves: names are made of them."""
        own = ((f"{OWN} {word}", Form(0, 0)) for word in words)
        trie = marisa_trie.RecordTrie(_RECORD, sorted({*self._trie.iteritems(), *own}))
        return Forms(trie, self.names, self.languages, self.opposites, self.kinds)

    def is_own(self, word: str) -> bool:
        """Whether a word is one of :meth:`with_words`."""
        return f"{OWN} {word}" in self._trie

    def goes_on(self, kind: str, language: str, beginning: str) -> bool:
        """Whether a form begins so: a phrase with a word and a blank."""
        return next(iter(self._trie.iterkeys(f"{kind}{language} {beginning}")), None) is not None

    def is_function_word(self, language: str, form: str) -> bool:
        """Whether a word is an article, preposition or the like, and no negation."""
        return form in self.table(FUNCTION, language)

    @classmethod
    def of(cls, lexicon: Lexicon) -> Forms:
        """Compile a lexicon; takes seconds, and memory with the number of its members."""
        meanings, names = lexicon.meanings
        languages = sorted({member.language for entry in lexicon.entries for member in entry.members})
        inflectors = {tag: Inflector(tag) for tag in languages}
        # the stems of words that many members share are found once
        stems: dict[str, Callable[[str], str]] = {tag: cache(one.word) for tag, one in inflectors.items()}
        rows: dict[str, set[Form]] = defaultdict(set)
        members = (member for entry in lexicon.entries for member in entry.members)
        written = list(dict.fromkeys(text for member in members for text in (member.form, *member.plurals)))
        exact = dict(zip(written, normalise_all(written), strict=True))
        for entry, meaning in zip(lexicon.entries, meanings, strict=True):
            for member in entry.members if meaning is not None else ():
                one = Form(meaning or 0, _marks(member) | AFFIX * (entry.table == "affix"))
                for key in _keys(member, exact, stems[member.language]):
                    rows[key].add(one)
        pairs = zip(lexicon.entries, meanings, strict=True)
        of_families = {meaning for entry, meaning in pairs if entry.table == "family"}
        more: list[tuple[str, list[Form]]] = []
        for language, lemmas in lexicon.inflected.items():
            for form, lemma in lemmas.items():
                found = [one for one in _found(lemma, language, rows, stems) if not one.marks & (AFFIX | SHORT)]
                more.append((f"{WORD}{language} {form}", [one for one in found if one.meaning in of_families]))
        for short in lexicon.abbreviations:
            meant = [Form(meaning, SHORT) for meaning in _meant(short, rows, stems)]
            more += [(key, meant) for key in _letters(short)]
        for language, kinds in lexicon.function_words.items():
            said = (normalise(word) for word, kind in kinds.items() if kind != "negation")
            more += [(f"{FUNCTION}{language} {word}", [Form(0, 0)]) for word in said]
        numbers = {entry.name: meaning for entry, meaning in zip(lexicon.entries, meanings, strict=True)}
        for sense in lexicon.senses:
            meant = [Form(numbers.get(sense.family) or 0, NOTHING * (sense.family == "-"))]
            stem = inflectors[sense.language].form if sense.language in inflectors else normalise
            for kind, said_as in ((SENSE, normalise), (INFLECTED_SENSE, stem)):
                words = [f"{said_as(sense.word)} {said_as(other)}" for other in sense.beside] or [said_as(sense.word)]
                more += [(f"{kind}{sense.language} {word}", meant) for word in words]
        for key, added in more:
            rows[key].update(added)
        opposed = {(numbers[one], numbers[other]) for _, one, other in lexicon.opposites}
        opposites = sorted((a, b) for a, b in opposed if a is not None and b is not None and a != b)
        trie = marisa_trie.RecordTrie(_RECORD, sorted((key, one) for key, found in rows.items() for one in found))
        return cls(trie, names, languages, opposites, lexicon.kinds)

    def save(self, folder: Path) -> None:
        """Write two files into a folder."""
        # the trie's own save names no error of the disk
        (folder / TRIE).write_bytes(self._trie.tobytes())
        kinds = "".join(_LETTERS[kind] for kind in self.kinds)
        told = {"languages": self.languages, "names": self.names, "opposites": self.opposites, "kinds": kinds}
        (folder / MEANINGS).write_text(json_text(told), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Forms:
        """Open what :meth:`save` wrote; the trie is memory-mapped.

        Raises:
            EncoderError: a file is missing or damaged.
        """
        try:
            raw = read_json(folder / MEANINGS)
            trie = marisa_trie.RecordTrie(_RECORD).mmap(str(folder / TRIE))
            kinds = [_KINDS[letter] for letter in raw.get("kinds", "")]
            opposites = [(a, b) for a, b in raw["opposites"]]
            return cls(trie, list(raw["names"]), list(raw["languages"]), opposites, kinds)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            remedy = "copy the folder anew from where it came"
            raise EncoderError(f"the word families cannot be read: {error}", path=folder, remedy=remedy) from error


def forms_of(folders: Sequence[StrPath]) -> Forms:
    """The forms of the lexicon that ships, together with those of folders of a house."""
    return Forms.of(Lexicon(folders)) if folders else shipped_forms()


def shipped_forms() -> Forms:
    """The forms of the lexicon that ships, compiled; a test holds them to its tables."""
    return Forms.load(SHIPPED)


def _marks(member: Member) -> int:
    return (
        AMBIGUOUS * ("amb" in member.marks)
        | SHORT * (member.form.isupper() or "abbr" in member.marks)
        | OTHER * (member.part in ("v", "d"))
    )


def _keys(member: Member, exact: Mapping[str, str], stem: Callable[[str], str]) -> Iterator[str]:
    """Under which forms a member is found: to the letter, and as a whole word or phrase in its inflected form.

    ``exact`` has the exact form of each of its spellings.
    """
    kind, language = _PLACES[member.place], member.language
    for text in (member.form, *member.plurals):
        form = exact[text]
        if form and " " not in form:
            yield f"{kind}{language} {form}"
        # GOT is not the stem of gotas
        if member.place == WHOLE and form and (" " in form or not member.form.isupper()):
            stems = " ".join(map(stem, form.split()))
            yield f"{PHRASE if ' ' in stems else STEM}{language} {stems}"


def _found(
    text: str, language: str, rows: Mapping[str, set[Form]], stems: Mapping[str, Callable[[str], str]]
) -> Iterable[Form]:
    form = normalise(text)
    if language not in stems or not form:
        return ()
    inflected = " ".join(map(stems[language], form.split()))
    kind = PHRASE if " " in inflected else STEM
    return rows.get(f"{WORD}{language} {form}") or rows.get(f"{kind}{language} {inflected}") or ()


def _meant(one: Abbreviation, rows: Mapping[str, set[Form]], stems: Mapping[str, Callable[[str], str]]) -> list[int]:
    if not one.safe:
        return []
    found = _found(one.long, one.language, rows, stems) or _found(one.english or one.long, "en", rows, stems)
    return sorted({form.meaning for form in found if not form.marks & AMBIGUOUS})


def _letters(one: Abbreviation) -> Iterator[str]:
    for form in map(normalise, one.forms):
        yield f"{PHRASE if ' ' in form else WORD}{one.language} {form}"
