"""What clinicians write, to be looked up: word families, terms, abbreviations, affixes and opposites."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import resources
from pathlib import Path
from weakref import WeakValueDictionary

from medlink.files.folders import StrPath
from medlink.language.exact import normalise_all
from medlink.language.lexicon.tables import (
    OF_TERMS,
    ROUNDING,
    WHOLE,
    Abbreviation,
    Entry,
    Member,
    Opposite,
    Tables,
    read_folder,
    shortened,
)
from medlink.language.tags import base
from medlink.language.text import Inflector, normalise

SHIPPED = Path(str(resources.files("medlink"))) / "resources" / "lexicon"
_Found = tuple[int, Member]
_read: WeakValueDictionary[Path, Tables] = WeakValueDictionary()
"""The tables that ship, for as long as a lexicon has them: another one shares them."""
_GRAMMAR = ("adjective", "noun")  # kinds of affixes that make words of others and mean nothing themselves


class Lexicon:
    """The shipped tables and those of further folders, all read.

    Reading takes time and memory with the number of members: 1 s and 100 MB for the 150,000 that ship.

    Tables of further ``folders`` stand behind those that ship. ``function_words`` are kinds of articles, prepositions
    and the like, by language and word; ``inflected`` lemmas of irregular forms, by language and exact form; ``same``
    pairs of families that say the same; ``names`` says ``person`` or ``place`` by names that terminologies hold.

    Raises:
        InputError: a folder or a column is missing, or a row cannot be read.
    """

    def __init__(self, folders: Iterable[StrPath] = ()) -> None:
        # the user's own tables first: their errors are reported before the slow reading of those that ship
        own = [read_folder(Path(folder)) for folder in folders]
        self._shipped = _read.get(SHIPPED) or read_folder(SHIPPED)
        _read[SHIPPED] = self._shipped
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
        self.function_words: dict[str, dict[str, str]] = defaultdict(dict)
        self.inflected: dict[str, dict[str, str]] = defaultdict(dict)
        for language, word, kind in every.function_words:
            self.function_words[language][word] = kind
        for language, form, lemma in every.inflected:
            self.inflected[language][form] = lemma
        self._stems: dict[str, dict[str, list[_Found]]] = {}

    def find(self, word: str, language: str | None = None) -> list[tuple[Entry, Member]]:
        """Entries that have a word or an expression, with the member that it is, in the order of the tables.

        The region of a language (``de-at``) does not count. The word is compared in its exact form; where nothing has
        it, in its inflected form, or as an irregular form of its lemma (*befand*, *requirió*).
        """
        form = normalise(word)
        if not form:
            return []  # no letter and no digit
        asked = [tag for tag in self._languages if language is None or base(tag) == base(language)]
        found = [one for one in self._by_form.get(form, ()) if one[1].language in asked]
        if not found:
            for tag in asked:
                stem = Inflector(tag).form(self.inflected[tag].get(form, word))
                found += self._by_stem(tag).get(stem, ())
        chosen = {(number, member.language): member for number, member in reversed(found)}
        return [(self.entries[number], chosen[number, tag]) for number, tag in sorted(chosen)]

    @cached_property
    def _languages(self) -> list[str]:
        return sorted({member.language for entry in self.entries for member in entry.members})

    @cached_property
    def _by_form(self) -> dict[str, list[_Found]]:
        found: dict[str, list[_Found]] = defaultdict(list)
        for place, _, form in self._forms():
            found[form].append(place)
        return found

    def _by_stem(self, language: str) -> dict[str, list[_Found]]:
        if language not in self._stems:
            found = self._stems[language] = defaultdict(list)
            inflector = Inflector(language)
            for place, written, form in self._forms(language):
                # GOT is not the stem of gotas
                if place[1].place == WHOLE and not written.isupper():
                    found[inflector.form(form) if " " in form else inflector.word(form)].append(place)
        return self._stems[language]

    def _forms(self, language: str | None = None) -> Iterator[tuple[_Found, str, str]]:
        every = [
            ((number, member), written)
            for number, entry in enumerate(self.entries)
            for member in entry.members
            if language is None or member.language == language
            for written in (member.form, *member.plurals)
        ]
        exact = normalise_all([written for _, written in every])
        return ((place, written, form) for (place, written), form in zip(every, exact, strict=True))

    @cached_property
    def meanings(self) -> tuple[list[int | None], list[str]]:
        """The meaning of each entry, ``None`` where it has none of its own, and the names of the meanings.

        Entries of one name have one meaning, and those of which the tables say so (``same.tsv``). A term or an affix is
        also of the meaning of the first family with which it shares two members that are marked ambiguous in neither,
        or the usual member of both in a language.
        """
        stands: dict[str, str] = {}
        for one, other in self.same:
            stands[other] = stands.get(one, one)
        forms = list({member.form for entry in self.entries for member in entry.members})
        exact = dict(zip(forms, normalise_all(forms), strict=True))
        # language, exact form and place of the members that are not ambiguous
        plain = ([m for m in entry.members if "amb" not in m.marks] for entry in self.entries)
        shown = [list(dict.fromkeys((m.language, exact[m.form], m.place) for m in members)) for members in plain]
        usual = [{language: form for language, form, _ in reversed(members)} for members in shown]
        where: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        meanings: list[int | None] = []
        names: list[str] = []
        places: dict[str, int] = {}
        for number, (entry, members) in enumerate(zip(self.entries, shown, strict=True)):
            shared: Counter[int] = Counter()
            for member in members:
                if entry.table == "family":
                    where[member].append(number)
                for family in where[member] if entry.table != "family" else ():
                    both = usual[number][member[0]] == member[1] == usual[family][member[0]]
                    shared[family] += 2 if both else 1
            same = min((family for family, count in shared.items() if count > 1), default=None)
            name = stands.get(entry.name, entry.name)
            if name in places:
                meanings.append(places[name])
            elif same is not None:
                meanings.append(meanings[same])
            elif entry.table == "affix" and entry.kind in _GRAMMAR:
                meanings.append(None)
            else:
                places[name] = len(names)
                meanings.append(len(names))
                names.append(entry.name)
        return meanings, names

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each of the :attr:`meanings`, empty where no table says it: that of the first family or term."""
        meanings, names = self.meanings
        kinds = [""] * len(names)
        for entry, meaning in zip(self.entries, meanings, strict=True):
            if meaning is not None and entry.table != "affix":
                kinds[meaning] = kinds[meaning] or OF_TERMS.get(entry.kind, entry.kind)
        return kinds

    def expand(self, text: str, language: str | None = None) -> list[Abbreviation]:
        """The meanings of an abbreviation, the likeliest first; dots and blanks do not count, capitals do.

        Where no meaning has these capitals, they do not count either.
        """
        asked = shortened(text)
        alike = self._by_letters.get(asked.casefold(), [])
        if language is not None:
            alike = [one for one in alike if base(one.language) == base(language)]
        found = [one for one in alike if asked in one.short_forms] or alike
        return sorted(found, key=lambda one: (one.language, -one.weight))

    @cached_property
    def _by_letters(self) -> dict[str, list[Abbreviation]]:
        found: dict[str, list[Abbreviation]] = defaultdict(list)
        for one in self.abbreviations:
            for letters in dict.fromkeys(map(str.casefold, one.short_forms)):
                found[letters].append(one)
        return found

    def opposed(self, name: str) -> list[Opposite]:
        """The opposites of an entry."""
        return [one for one in self.opposites if name in one[1:]]

    def counts(self) -> dict[str, dict[str, int]]:
        """Entries of each table, and members (abbreviations: distinct ones) of each language."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for entry in self.entries:
            counts[entry.table]["entries"] += 1
            counts[entry.table].update(member.language for member in entry.members)
        distinct = {(one.language, form) for one in self.abbreviations for form in one.short_forms}
        counts["abbreviation"].update(language for language, _ in distinct)
        counts["abbreviation"]["entries"] = len(self.abbreviations)
        counts["opposite"]["entries"] = len(self.opposites)
        return {table: dict(found) for table, found in counts.items()}

    def collisions(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Forms that stand in several families without the mark of an ambiguous one: language and form."""
        where: dict[tuple[str, str], list[str]] = defaultdict(list)
        for entry in self.entries:
            if entry.table == "family":
                plain = (m for m in entry.members if "amb" not in m.marks)
                # a noun and a verb of one form are two members
                for language, shown in dict.fromkeys((m.language, m.hyphened) for m in plain):
                    where[language, shown].append(entry.name)
        return {form: tuple(names) for form, names in where.items() if len(names) > 1}

    def overweight(self, folder: StrPath) -> Iterator[tuple[str, str, float, float]]:
        """Abbreviations of one of the folders, with language, that weigh more than 1 together with those of others.

        Their weights in the folder and in the others follow.
        """
        own, every = _weights(read_folder(Path(folder)).abbreviations), _weights(self.abbreviations)
        for (form, language), weight in sorted(own.items()):
            others = every[form, language] - weight
            if others > ROUNDING and weight + others > 1 + ROUNDING:
                yield form, language, weight, others


def _weights(meanings: Iterable[Abbreviation]) -> dict[tuple[str, str], float]:
    weights: dict[tuple[str, str], float] = defaultdict(float)
    for one in meanings:
        for form in one.short_forms:
            weights[form, one.language] += one.weight
    return weights
