"""Names in German, Spanish and English that are made from English ones, word by word, by the lexicon.

An English name is read as phrases of nouns and adjectives with words between them that connect (*of*, *with*, *and*).
Each word becomes a member of its meaning in the other language: an adjective an adjective that agrees, a noun before
a noun a part of a German compound or a Spanish *de*. What the lexicon lacks is spelt as the language spells Greek and
Latin words, a proper name stays. The rules of a language are data: ``resources/synthesis``.

A name that was made so need not be what a clinician would write. It teaches an encoder which words mean the same.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from medlink.files.json import read_json
from medlink.language.lexicon.forms import Forms
from medlink.language.lexicon.lexicon import Lexicon
from medlink.language.lexicon.reading import FamilyReader, Said
from medlink.language.lexicon.tables import FIRST, WHOLE, Member
from medlink.language.tags import base
from medlink.language.text import ROMAN, normalise
from medlink.records import Name

_RULES = Path(str(resources.files("medlink"))) / "resources" / "synthesis"
_NOUN, _ADJECTIVE, _NAME, _CONNECTOR = "", "a", "name", "connector"  # the first two are parts of speech of members
_LEAST = 0.6  # share of the words with a meaning, or spelt by rule, that a name must have
_MOST = 12  # words of the longest name
_USUAL = 0.6  # how often the usual member of a meaning is taken
_PIECES = re.compile(r"[,;()\[\]]|\s[-/]\s")
_KIND = re.compile(r"\s*\((?:disease|disorder|finding|morphologic abnormality|procedure)\)")
_NUMBERED = frozenset(("type", "stage", "grade", "group", "subtype", "class", "form", "variant", "phase", "level"))
_FORMS = 2  # forms of an abbreviation that are names
LEXICON = "LEXICON"
"""Source of the names that are the lexicon's own."""
_SKIPPED = frozenset(("old", "lay", "abbr", "tm", "af", "lat"))


@dataclass(frozen=True, slots=True)
class _Unit:
    """A word or a phrase of an English name: what it means, its part of speech, whether it is plural, its letters."""

    meaning: int | None
    part: str
    plural: bool
    text: str

    @property
    def numbering(self) -> bool:
        text = self.text.lower()
        roman = text in ROMAN or (text[-1:] in "abc" and text[:-1] in ROMAN)
        return len(text) == 1 or roman or any(letter.isdigit() for letter in text)


def lexicon_names(lexicon: Lexicon) -> Iterator[Name]:
    """Each meaning as a concept ``LEX:number``, its unambiguous words, expressions and safe abbreviations as names.

    Verbs and combining forms are left out; of irregular plurals the first counts.
    """
    rows: set[tuple[str, str, str]] = set()
    known: dict[str, str] = {}
    for entry, meaning in zip(lexicon.entries, lexicon.meanings[0], strict=True):
        if meaning is None or entry.table == "affix":
            continue
        concept = f"LEX:{meaning}"
        known.setdefault(entry.name, concept)
        for member in entry.members:
            if "amb" not in member.marks and member.place == WHOLE and member.part != "v":
                rows.update((concept, form, member.language) for form in (member.form, *member.plurals[:1]))
    for one in lexicon.abbreviations:
        if one.safe:
            found = lexicon.find(one.long, one.language) or lexicon.find(one.english or one.long, "en")
            meant = [known[e.name] for e, member in found if e.name in known and "amb" not in member.marks]
            concept = meant[0] if meant else f"LEX:{normalise(one.english or one.long).replace(' ', '_')}"
            rows.add((concept, one.long, one.language))
            rows.update((concept, form, one.language) for form in one.forms[:_FORMS])
            if one.english:
                rows.add((concept, one.english, "en"))
    for concept, text, language in sorted(rows):
        yield Name(concept, text, language=language, source=LEXICON)


class Synthesiser:
    """Makes names in a ``language``, ``de``, ``es`` or ``en``, of the words of a lexicon."""

    def __init__(self, lexicon: Lexicon, language: str, seed: int = 1, forms: Forms | None = None) -> None:
        self.language = language
        self._reader = FamilyReader(forms or Forms.of(lexicon))
        self._random = random.Random(seed)
        self._rules: dict[str, Any] = {} if language == "en" else read_json(_RULES / f"{language}.json")
        self._words: dict[tuple[int, str], list[Member]] = defaultdict(list)
        self._first: dict[int, list[Member]] = defaultdict(list)
        self._parts: dict[tuple[int, str], Member] = {}
        for entry, meaning in zip(lexicon.entries, lexicon.meanings[0], strict=True):
            if meaning is None or entry.table == "affix":
                continue
            for member in entry.members:
                if member.language == "en" and member.place == WHOLE:
                    for form in (member.form, *member.plurals):
                        self._parts.setdefault((meaning, normalise(form)), member)
                loose = language == "en" and "amb" in member.marks
                if loose or member.language != language or member.marks & _SKIPPED:
                    continue
                if member.place == FIRST:
                    self._first[meaning].append(member)
                elif member.place == WHOLE:
                    self._words[meaning, member.part or _NOUN].append(member)

    def make(self, text: str) -> str | None:
        """A name from an English one; ``None`` where too much of it is unknown."""
        made: list[str] = []
        meant = False
        for piece in filter(None, map(str.strip, _PIECES.split(_KIND.sub("", text)))):
            units = self._units(self._reader.read(piece, "en"), piece)
            if units is None:
                return None
            made.append(self._said(units))
            meant |= any(unit.meaning is not None for unit in units)
        return ", ".join(" ".join(piece.split()) for piece in made) if meant else None

    def _said(self, units: list[_Unit]) -> str:
        if self.language == "en":
            return self._english(units)
        at = len(units)
        while at > 1 and units[at - 1].numbering:
            at -= 1
        if at < len(units) and at > 1 and units[at - 1].text in _NUMBERED:
            at -= 1
        said = self._german(units[:at]) if self.language == "de" else self._spanish(units[:at])
        behind = [self._noun(unit)[0] if unit.text in _NUMBERED else unit.text for unit in units[at:]]
        return " ".join([said, *behind])

    def _units(self, said: Said, text: str) -> list[_Unit] | None:
        words = said.words
        if not 0 < len(words) <= _MOST:
            return None
        letters = _letters(text)
        units: list[_Unit] = []
        phrases = {start: (stop, meanings) for start, stop, meanings in said.phrases if len(meanings) == 1}
        known = at = 0
        while at < len(words):
            stop, meanings = phrases.get(at, (at + 1, words[at].meanings))
            span = " ".join(word.text for word in words[at:stop])
            if stop > at + 1 and (not self._words.get((meanings[0], _NOUN)) or self._random.random() < 0.3):
                stop, meanings, span = at + 1, words[at].meanings, words[at].text
            if words[at].function or span in self._connectors:
                units.append(_Unit(None, _CONNECTOR, False, span))
            elif len(meanings) == 1:
                member = self._parts.get((meanings[0], span))
                part = member.part if member is not None else _NOUN
                plural = part == _NOUN and span.endswith("s") and (member is None or normalise(member.form) != span)
                units.append(_Unit(meanings[0], part if part == _ADJECTIVE else _NOUN, plural, span))
                known += stop - at
            elif meanings:
                return None  # nobody knows which is meant
            else:
                written = letters.get(span, span)
                spelt = self._spell(written)
                units.append(_Unit(None, *spelt))
                known += spelt[2] != written
            at = stop
        content = sum(unit.part != _CONNECTOR and not unit.numbering for unit in units)
        return units if known >= _LEAST * content else None

    @property
    def _connectors(self) -> dict[str, str]:
        found: dict[str, str] = self._rules.get("connectors", {})
        return found

    @cached_property
    def _spelling(self) -> tuple[list[tuple[str, str]], list[tuple[re.Pattern[str], str]]]:
        endings = sorted(map(tuple, self._rules.get("endings", ())), key=lambda pair: -len(pair[0]))
        return endings, [(re.compile(pattern), to) for pattern, to in self._rules.get("letters", ())]

    def _spell(self, word: str) -> tuple[str, bool, str]:
        if len(word) < 6 or not word.isascii() or not word.isalpha() or not word.islower():
            return _NAME, False, word
        endings, letters = self._spelling
        for ending, to in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                stem = word[: -len(ending)]
                for pattern, with_ in letters:
                    stem = pattern.sub(with_, stem)
                part = _ADJECTIVE if to in self._rules["adjectives"] else _NAME
                return part, False, stem + to if part == _ADJECTIVE else self._capital(stem + to)
        return _NAME, False, word

    def _capital(self, word: str) -> str:
        return word.capitalize() if self.language == "de" else word

    def _drawn(self, members: Sequence[Member]) -> Member:
        return members[0] if self._random.random() < _USUAL else self._random.choice(members)

    def _member(self, unit: _Unit, part: str) -> Member | None:
        if unit.meaning is None:
            return Member(unit.text, self.language, part=part) if unit.part == part else None
        found = self._words.get((unit.meaning, part))
        return self._drawn(found) if found else None

    def _noun(self, unit: _Unit) -> tuple[str, str]:
        member = self._member(unit, _NOUN)
        if member is None:
            other = self._member(unit, _ADJECTIVE)
            return (other.form if other else unit.text), "n"
        gender = member.gender[0] if member.gender else "n"
        if unit.plural and gender != "pl":
            return (member.plurals[0] if member.plurals else self._plural(member.form)), f"{gender} pl"
        return member.form, gender

    def _plural(self, word: str) -> str:
        if self.language != "es" or " " in word or word.endswith("s"):
            return word
        if word.endswith("z"):
            return word[:-1] + "ces"
        if word.endswith("ón"):
            return word[:-2] + "ones"
        return word + ("s" if word[-1] in "aeiouáéó" else "es")

    def _english(self, units: list[_Unit]) -> str:
        places = []
        for at, unit in enumerate(units):
            if unit.meaning is not None and not unit.plural:
                others = [m for m in self._words.get((unit.meaning, unit.part), ()) if normalise(m.form) != unit.text]
                if others:
                    places.append((at, others))
        texts = [unit.text for unit in units]
        if places:
            at, others = self._random.choice(places)
            texts[at] = self._drawn(others).form
        return " ".join(texts)

    def _phrases(self, units: list[_Unit]) -> Iterator[tuple[str, list[_Unit]]]:
        start, before = 0, ""
        for at, unit in enumerate([*units, _Unit(None, _CONNECTOR, False, "")]):
            if unit.part == _CONNECTOR:
                if at > start:
                    yield before, units[start:at]
                    before = ""
                if unit.text == "of":
                    before = "of"
                elif unit.text and not (before == "of" and self._connectors.get(unit.text) == ""):
                    before = self._connectors.get(unit.text, unit.text)
                start = at + 1

    def _german(self, units: list[_Unit]) -> str:
        made: list[str] = []
        for before, phrase in self._phrases(units):
            case = {"of": "genitive", "mit": "dative", "nach": "dative", "bei": "dative", "von": "dative"}.get(
                before, ""
            )
            if before == "of" and made and len(phrase) == 1 and self._random.random() < 0.5:
                # Zyste der Niere, Nierenzyste
                first = self._first_of(phrase[0])
                last = made[-1].rpartition(" ")
                if first is not None:
                    made[-1] = f"{last[0]} {_joined(first, last[2])}".strip()
                    continue
            made += ["" if before == "of" else before, self._german_phrase(phrase, case)]
        return " ".join(made)

    def _german_phrase(self, phrase: list[_Unit], case: str) -> str:
        noun, gender = self._noun(phrase[-1])
        adjectives: list[str] = []
        joined = True  # whether what stands before belongs to the compound
        for unit in reversed(phrase[:-1]):
            adjective = self._member(unit, _ADJECTIVE)
            first = self._first_of(unit) if joined else None
            if first is not None and (adjective is None or unit.part == _NOUN or self._random.random() < 0.4):
                if unit.part == _NOUN and adjective is not None and self._random.random() < 0.25:
                    adjectives.insert(0, adjective.form)
                else:
                    noun = _joined(first, noun)
            elif adjective is not None:
                adjectives.insert(0, adjective.form)
                joined = False
            elif joined:
                noun = f"{self._noun(unit)[0] if unit.meaning is not None else unit.text}-{noun}"
            else:
                adjectives.insert(0, unit.text if unit.meaning is None else self._noun(unit)[0])
        plural = gender.endswith("pl")
        ending = "e" if plural else {"m": "er", "f": "e", "n": "es"}[gender[0]]
        article = ""
        if case == "genitive":
            article, ending = ("der", "en") if plural or gender == "f" else ("des", "en")
            noun = noun if plural or gender == "f" else _genitive(noun)
        elif case == "dative":
            ending = "en" if plural else {"m": "em", "f": "er", "n": "em"}[gender[0]]
        elif self._random.random() < 0.15:
            ending = "e" if not plural else "en"
        words = [_declined(word, ending) if word[:1].islower() else word for word in adjectives]
        return " ".join(filter(None, (article, *words, noun)))

    def _first_of(self, unit: _Unit) -> str | None:
        found = self._first.get(unit.meaning) if unit.meaning is not None else None
        native = [member for member in found or () if member.form[:1].isupper()]
        if native:
            return self._drawn(native).form
        return None

    def _spanish(self, units: list[_Unit]) -> str:
        made: list[str] = []
        for before, phrase in self._phrases(units):
            text, gender = self._spanish_phrase(phrase)
            articles = {"m": "del", "f": "de la", "pl": "de los"} if self._random.random() < 0.5 else {}
            made += [articles.get(gender, "de") if before == "of" else before, text]
        return " ".join(made)

    def _spanish_phrase(self, phrase: list[_Unit]) -> tuple[str, str]:
        noun, gender = self._noun(phrase[-1])
        words = [noun]
        for unit in reversed(phrase[:-1]):
            adjective = self._member(unit, _ADJECTIVE)
            if adjective is not None and (unit.part == _ADJECTIVE or self._random.random() < 0.6):
                words.append(_agreeing(adjective.form, gender))
            elif unit.part == _NAME:
                words.append(unit.text if not unit.text[:1].isupper() else f"de {unit.text}")
            else:
                words.append(f"de {self._noun(unit)[0]}")
        return " ".join(words), "pl" if gender.endswith("pl") else gender


def made_names(
    names: Iterable[Name], lexicon: Lexicon, languages: Sequence[str], per_concept: int = 3, seed: int = 1
) -> Iterator[Name]:
    """What an encoder is trained on beside the names of a knowledge base.

    Args:
        names: of a knowledge base, in ascending order of their concepts; the English ones are taken.
        per_concept: English names of a concept that names are made of, drawn where it has more.

    Yields:
        The words of the lexicon (:func:`lexicon_names`), then made names, each once in a language of a concept, and
        none that is its English name to the letter.
    """
    yield from lexicon_names(lexicon)
    forms = Forms.of(lexicon)
    makers = [Synthesiser(lexicon, language, seed, forms) for language in languages]
    draw = random.Random(seed)
    english = (name for name in names if base(name.language) == "en")
    for concept, group in groupby(english, key=lambda name: name.concept_id):
        texts = list(dict.fromkeys(name.text for name in group))
        seen = {normalise(text) for text in texts}
        for text in texts if len(texts) <= per_concept else draw.sample(texts, per_concept):
            for maker in makers:
                made = maker.make(text)
                if made and (form := normalise(made)) not in seen:
                    seen.add(form)
                    yield Name(concept, made, language=maker.language)


def _letters(text: str) -> dict[str, str]:
    return {normalise(word): word for word in re.split(r"[\s/,()-]+", text) if word}


def _joined(first: str, last: str) -> str:
    return first + (last[:1].lower() + last[1:] if last[1:2].islower() else f"-{last}")


def _declined(adjective: str, ending: str) -> str:
    return adjective + ending if not adjective.endswith("e") else adjective + ending[1:]


def _genitive(noun: str) -> str:
    if noun.endswith(("us", "is", "os", "as", "s", "x")):
        return noun
    return noun + ("es" if noun.endswith(("z", "ß", "tz")) else "s")


def _agreeing(adjective: str, gender: str) -> str:
    if " " in adjective:
        return adjective
    if gender[0] == "f":
        if adjective.endswith("o"):
            adjective = adjective[:-1] + "a"
        elif adjective.endswith(("dor", "tor")):
            adjective += "a"
    if gender.endswith("pl") and not adjective.endswith("s"):
        adjective += "s" if adjective[-1] in "aeiou" else "es"
    return adjective
