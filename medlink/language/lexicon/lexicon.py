"""Read and search the tables of the lexicon: word families, terms, abbreviations, affixes and opposites."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from weakref import WeakValueDictionary

from medlink.files.folders import StrPath
from medlink.files.resources import RESOURCES
from medlink.language.exact import normalise_all
from medlink.language.lexicon.tables import (
    OF_TERMS,
    ROUNDING,
    WHOLE,
    Abbreviation,
    LexiconEntry,
    Member,
    Opposite,
    Tables,
    read_folder,
    shortened,
)
from medlink.language.tags import base
from medlink.language.text import Inflector, normalise
from medlink.processes import gc_disabled

SHIPPED = RESOURCES / "lexicon"
_Found = tuple[int, Member]
_cache: WeakValueDictionary[Path, Tables] = WeakValueDictionary()
"""The shipped tables; all lexicons share them."""
_GRAMMAR = ("adjective", "noun")  # kinds of affixes that only change the part of speech


class Lexicon:
    """The shipped tables, followed by those of further ``folders``.

    Time and memory of reading grow with the number of members: 1 s and 100 MB for the 150,000 members that ship.
    ``function_words`` has the kinds of articles, prepositions and the like, by language and word; ``inflected`` has the
    lemmas of irregular forms. ``same`` has pairs of families that mean the same, and ``compositions`` the families that
    the meaning of a family consists of. ``names`` tells for each proper name whether it is a ``person`` or ``place``.

    Raises:
        InputError: a folder or a column is missing, or a row cannot be read.
    """

    @gc_disabled()
    def __init__(self, folders: Iterable[StrPath] = ()) -> None:
        # the user's tables first: their errors precede the slow reading of the shipped tables
        own = [read_folder(Path(folder)) for folder in folders]
        self._shipped = _cache.get(SHIPPED) or read_folder(SHIPPED)
        _cache[SHIPPED] = self._shipped
        every = Tables()
        for tables in (self._shipped, *own):
            for column, rows in vars(tables).items():
                getattr(every, column).extend(rows)
            known = {entry.name for entry in every.entries}
            for row, name in tables.named:
                if name not in known:
                    remedy = "write a name of the first column of families.tsv, terms.tsv or affixes.tsv"
                    raise row.error(f"no family, term or affix {name!r}", remedy)
        self.entries, self.abbreviations, self.opposites = every.entries, every.abbreviations, every.opposites
        self.same, self.senses, self.names = every.same, every.senses, dict(every.names)
        self.compositions = dict(every.compositions)
        self.function_words: dict[str, dict[str, str]] = defaultdict(dict)
        self.inflected: dict[str, dict[str, str]] = defaultdict(dict)
        for language, word, kind in every.function_words:
            self.function_words[language][word] = kind
        for language, form, lemma in every.inflected:
            self.inflected[language][form] = lemma
        self._by_stem = cache(self._find_stems)

    def find(self, word: str, language: str | None = None) -> list[tuple[LexiconEntry, Member]]:
        """Return the entries of a word or an expression, each with the matching member, in the order of the tables.

        Exact forms count; without a match, stemmed and irregular forms do (*befand*, *requirió*). The region of a
        language (``de-at``) is ignored.
        """
        form = normalise(word)
        if not form:
            return []  # no letter and no digit
        tags = [tag for tag in self._languages if language is None or base(tag) == base(language)]
        matches = [(number, member) for number, member in self._by_form.get(form, ()) if member.language in tags]
        if not matches:
            for tag in tags:
                stem = Inflector(tag).form(self.inflected[tag].get(form, word))
                matches += self._by_stem(tag).get(stem, ())
        members = {(number, member.language): member for number, member in reversed(matches)}
        return [(self.entries[number], members[number, tag]) for number, tag in sorted(members)]

    @cached_property
    def _languages(self) -> list[str]:
        return sorted({member.language for entry in self.entries for member in entry.members})

    @cached_property
    @gc_disabled()
    def _by_form(self) -> dict[str, list[_Found]]:
        by_form: dict[str, list[_Found]] = defaultdict(list)
        for match, _, form in self._forms():
            by_form[form].append(match)
        return by_form

    @gc_disabled()
    def _find_stems(self, language: str) -> dict[str, list[_Found]]:
        by_stem, inflector = defaultdict[str, list[_Found]](list), Inflector(language)
        for match, written, form in self._forms(language):
            if match[1].place == WHOLE and not written.isupper():  # GOT is not the stem of gotas
                by_stem[inflector.form(form) if " " in form else inflector.word(form)].append(match)
        return by_stem

    def _forms(self, language: str | None = None) -> Iterator[tuple[_Found, str, str]]:
        spellings = [
            ((number, member), written)
            for number, entry in enumerate(self.entries)
            for member in entry.members
            if language is None or member.language == language
            for written in (member.form, *member.plurals)
        ]
        exact = normalise_all([written for _, written in spellings])
        return ((match, written, form) for (match, written), form in zip(spellings, exact, strict=True))

    @cached_property
    @gc_disabled()
    def meanings(self) -> tuple[list[int | None], list[str]]:
        """The meaning of each entry, ``None`` for an ending without a meaning, and the names of the meanings.

        Entries with the same name, or paired in ``same.tsv``, share a meaning. A term or an affix has the meaning of
        the first family that shares two unambiguous members with it, or the first unambiguous member of a language.
        """
        synonyms: dict[str, str] = {}
        for canonical, synonym in self.same:
            synonyms[synonym] = synonyms.get(canonical, canonical)
        meanings, names, numbers = list[int | None](), list[str](), dict[str, int]()
        for entry, family in zip(self.entries, self._same_families(), strict=True):
            name = synonyms.get(entry.name, entry.name)
            if name in numbers:
                meanings.append(numbers[name])
            elif family is not None:
                meanings.append(meanings[family])
            elif entry.table == "affix" and entry.kind in _GRAMMAR:
                meanings.append(None)
            else:
                numbers[name] = len(names)
                meanings.append(len(names))
                names.append(entry.name)
        return meanings, names

    def _same_families(self) -> list[int | None]:
        """For each term or affix, the first preceding family that shares enough members with it."""
        forms = list({member.form for entry in self.entries for member in entry.members})
        exact = dict(zip(forms, normalise_all(forms), strict=True))
        plain = ([m for m in entry.members if "amb" not in m.marks] for entry in self.entries)
        members = [list(dict.fromkeys((m.language, exact[m.form], m.place) for m in own)) for own in plain]
        usual = [{language: form for language, form, _ in reversed(own)} for own in members]
        families_of, same = defaultdict[tuple[str, str, str], list[int]](list), list[int | None]()
        for number, (entry, own) in enumerate(zip(self.entries, members, strict=True)):
            shared: Counter[int] = Counter()
            for member in own:
                if entry.table == "family":
                    families_of[member].append(number)
                    continue
                for family in families_of[member]:
                    both = usual[number][member[0]] == member[1] == usual[family][member[0]]
                    shared[family] += 2 if both else 1
            same.append(min((family for family, count in shared.items() if count > 1), default=None))
        return same

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each of the :attr:`meanings`, from its first family or term; empty if no table has a kind."""
        meanings, names = self.meanings
        kinds = [""] * len(names)
        for entry, meaning in zip(self.entries, meanings, strict=True):
            if meaning is not None and entry.table != "affix":
                kinds[meaning] = kinds[meaning] or OF_TERMS.get(entry.kind, entry.kind)
        return kinds

    def expand(self, text: str, language: str | None = None) -> list[Abbreviation]:
        """Return the meanings of an abbreviation without its dots and blanks, by language, the likeliest first.

        Case is ignored only if no meaning has the same capitals.
        """
        form = shortened(text)
        alike = self._by_letters.get(form.casefold(), [])
        if language is not None:
            alike = [short for short in alike if base(short.language) == base(language)]
        same_case = [short for short in alike if form in short.short_forms] or alike
        return sorted(same_case, key=lambda short: (short.language, -short.weight))

    @cached_property
    def _by_letters(self) -> dict[str, list[Abbreviation]]:
        by_letters: dict[str, list[Abbreviation]] = defaultdict(list)
        for short in self.abbreviations:
            for letters in dict.fromkeys(map(str.casefold, short.short_forms)):
                by_letters[letters].append(short)
        return by_letters

    def opposed(self, name: str) -> list[Opposite]:
        return [opposite for opposite in self.opposites if name in (opposite.one, opposite.other)]

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the entries of each table, and the members (distinct abbreviations) of each language."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for entry in self.entries:
            counts[entry.table]["entries"] += 1
            counts[entry.table].update(member.language for member in entry.members)
        distinct = {(short.language, form) for short in self.abbreviations for form in short.short_forms}
        counts["abbreviation"].update(language for language, _ in distinct)
        counts["abbreviation"]["entries"] = len(self.abbreviations)
        counts["opposite"]["entries"] = len(self.opposites)
        return {table: dict(of_table) for table, of_table in counts.items()}

    def collisions(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Return the forms, by language, that are in several families without the mark of an ambiguous form."""
        families: dict[tuple[str, str], list[str]] = defaultdict(list)
        for entry in self.entries:
            if entry.table == "family":
                plain = (m for m in entry.members if "amb" not in m.marks)
                # a noun and a verb of one form are two members
                for form in dict.fromkeys((m.language, m.hyphened) for m in plain):
                    families[form].append(entry.name)
        return {form: tuple(names) for form, names in families.items() if len(names) > 1}

    def overweight(self, folder: StrPath) -> Iterator[tuple[str, str, float, float]]:
        """Yield the abbreviations of a folder whose weights, added to those of the other tables, exceed 1.

        Each has its form, its language, its weight in the folder, and its weight elsewhere.
        """
        own, every = _weights(read_folder(Path(folder)).abbreviations), _weights(self.abbreviations)
        for (form, language), weight in sorted(own.items()):
            others = every[form, language] - weight
            if others > ROUNDING and weight + others > 1 + ROUNDING:
                yield form, language, weight, others


def _weights(meanings: Iterable[Abbreviation]) -> dict[tuple[str, str], float]:
    weights: dict[tuple[str, str], float] = defaultdict(float)
    for short in meanings:
        for form in short.short_forms:
            weights[form, short.language] += short.weight
    return weights
