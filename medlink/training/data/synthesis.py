"""Synthesis of German, Spanish and English names from English names, word by word, with the lexicon.

Each word of a phrase becomes a word of the same meaning in the other language. An adjective agrees with its noun; a
noun before a noun becomes part of a German compound or a Spanish phrase with *de*. An unknown word is spelt as the
language spells Greek and Latin words; a proper name stays. The rules of a language are data in ``resources/synthesis``.
The names need not be idiomatic: they teach an encoder which words mean the same.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.lexicon import Lexicon
from medlink.language.lexicon.name_analysis import AnalysedName as ParsedText
from medlink.language.lexicon.name_analysis import LexicalAnalyser
from medlink.language.lexicon.tables import FIRST, WHOLE, Member
from medlink.language.tags import base
from medlink.language.text import ROMAN, normalise
from medlink.records import Name

_RULES = RESOURCES / "synthesis"
_NOUN, _ADJECTIVE, _NAME, _CONNECTOR = "", "a", "name", "connector"  # the first two are parts of speech of members
_MIN_KNOWN = 0.6  # least share of the words of a name that have a meaning or are spelt by rule
_MAX_WORDS = 12
_FIRST_MEMBER = 0.6  # probability of the first, usual word of a meaning
_SEPARATORS = re.compile(r"[,;()\[\]]|\s[-/]\s")
_SEMANTIC_TAG = re.compile(r"\s*\((?:disease|disorder|finding|morphologic abnormality|procedure)\)")
_NUMBERED = frozenset(("type", "stage", "grade", "group", "subtype", "class", "form", "variant", "phase", "level"))
_ABBREVIATION_FORMS = 2  # forms of an abbreviation that become names
LEXICON = "LEXICON"
"""Source of the lexicon's own names."""
_SKIPPED = frozenset(("old", "lay", "abbr", "tm", "af", "lat"))
_ENDINGS = {  # of German adjectives, by case (of the strong declension, or weak) and by gender or number
    "": {"m": "er", "f": "e", "n": "es", "pl": "e"},
    "genitive": {"m": "en", "f": "en", "n": "en", "pl": "en"},
    "dative": {"m": "em", "f": "er", "n": "em", "pl": "en"},
    "weak": {"m": "e", "f": "e", "n": "e", "pl": "en"},
}


@dataclass(frozen=True, slots=True)
class _Unit:
    meaning: int | None
    part_of_speech: str
    plural: bool
    text: str

    @property
    def is_number(self) -> bool:
        text = self.text.lower()
        roman = text in ROMAN or (text[-1:] in "abc" and text[:-1] in ROMAN)
        return len(text) == 1 or roman or any(letter.isdigit() for letter in text)


def iter_lexicon_names(lexicon: Lexicon) -> Iterator[Name]:
    """Yield each meaning as a concept ``LEX:number`` with its unambiguous words, expressions and safe abbreviations.

    Leaves out verbs and combining forms; of several irregular plurals, only the first is a name.
    """
    rows: set[tuple[str, str, str]] = set()
    known: dict[str, str] = {}
    for entry_name, meaning, member in _iter_members(lexicon):
        concept = f"LEX:{meaning}"
        known.setdefault(entry_name, concept)
        if "amb" not in member.marks and member.place == WHOLE and member.part != "v":
            rows.update((concept, form, member.language) for form in (member.form, *member.plurals[:1]))
    for short in lexicon.abbreviations:
        if short.safe:
            entries = lexicon.find(short.long, short.language) or lexicon.find(short.english or short.long, "en")
            concepts = [known[e.name] for e, member in entries if e.name in known and "amb" not in member.marks]
            concept = concepts[0] if concepts else f"LEX:{normalise(short.english or short.long).replace(' ', '_')}"
            rows.add((concept, short.long, short.language))
            rows.update((concept, form, short.language) for form in short.forms[:_ABBREVIATION_FORMS])
            if short.english:
                rows.add((concept, short.english, "en"))
    for concept, text, language in sorted(rows):
        yield Name(concept, text, language=language, source=LEXICON)


def _iter_members(lexicon: Lexicon) -> Iterator[tuple[str, int, Member]]:
    for entry, meaning in zip(lexicon.entries, lexicon.meanings[0], strict=True):
        if meaning is not None and entry.table != "affix":
            yield from ((entry.name, meaning, member) for member in entry.members)


class Synthesiser:
    """Synthesise names in a ``language``, ``de``, ``es`` or ``en``, from the words of a lexicon."""

    def __init__(self, lexicon: Lexicon, language: str, seed: int = 1, forms: LexiconForms | None = None) -> None:
        self.language = language
        self._reader = LexicalAnalyser(forms or LexiconForms.compile(lexicon))
        self._random = random.Random(seed)
        self._rules: dict[str, Any] = {} if language == "en" else read_json(_RULES / f"{language}.json")
        self._connectors: dict[str, str] = self._rules.get("connectors", {})
        self._endings = sorted(map(tuple, self._rules.get("endings", ())), key=lambda pair: -len(pair[0]))
        self._words: dict[tuple[int | None, str], list[Member]] = defaultdict(list)
        self._compound_firsts: dict[int | None, list[Member]] = defaultdict(list)
        self._english_members: dict[tuple[int, str], Member] = {}
        for _, meaning, member in _iter_members(lexicon):
            if member.language == "en" and member.place == WHOLE:
                for form in (member.form, *member.plurals):
                    self._english_members.setdefault((meaning, normalise(form)), member)
            ambiguous = language == "en" and "amb" in member.marks
            if ambiguous or member.language != language or member.marks & _SKIPPED:
                continue
            if member.place == FIRST:
                self._compound_firsts[meaning].append(member)
            elif member.place == WHOLE:
                self._words[meaning, member.part or _NOUN].append(member)

    def make(self, text: str) -> str | None:
        """Make a name from an English name; ``None`` if too many of its words are unknown."""
        pieces: list[str] = []
        has_meaning = False
        for piece in filter(None, map(str.strip, _SEPARATORS.split(_SEMANTIC_TAG.sub("", text)))):
            units = self._parse(self._reader.read(piece, "en"), piece)
            if units is None:
                return None
            pieces.append(self._translate(units))
            has_meaning |= any(unit.meaning is not None for unit in units)
        return ", ".join(" ".join(piece.split()) for piece in pieces) if has_meaning else None

    def _translate(self, units: list[_Unit]) -> str:
        if self.language == "en":
            return self._replace_synonym(units)
        at = len(units)
        while at > 1 and units[at - 1].is_number:
            at -= 1
        if at < len(units) and at > 1 and units[at - 1].text in _NUMBERED:
            at -= 1
        name = self._german(units[:at]) if self.language == "de" else self._spanish(units[:at])
        numbers = [self._noun(unit)[0] if unit.text in _NUMBERED else unit.text for unit in units[at:]]
        return " ".join([name, *numbers])

    def _parse(self, parsed: ParsedText, text: str) -> list[_Unit] | None:
        words = parsed.words
        if not 0 < len(words) <= _MAX_WORDS:
            return None
        written = {normalise(word): word for word in re.split(r"[\s/,()-]+", text) if word}
        units: list[_Unit] = []
        phrases = {start: (stop, meanings) for start, stop, meanings in parsed.phrases if len(meanings) == 1}
        known = at = 0
        while at < len(words):
            stop, meanings = phrases.get(at, (at + 1, words[at].meanings))
            span = " ".join(word.text for word in words[at:stop])
            if stop > at + 1 and (not self._words.get((meanings[0], _NOUN)) or self._random.random() < 0.3):
                stop, meanings, span = at + 1, words[at].meanings, words[at].text
            if words[at].function or span in self._connectors:
                units.append(_Unit(None, _CONNECTOR, False, span))
            elif len(meanings) == 1:
                member = self._english_members.get((meanings[0], span))
                part = member.part if member is not None else _NOUN
                plural = part == _NOUN and span.endswith("s") and (member is None or normalise(member.form) != span)
                units.append(_Unit(meanings[0], part if part == _ADJECTIVE else _NOUN, plural, span))
                known += stop - at
            elif meanings:
                return None  # ambiguous
            else:
                word = written.get(span, span)
                unit = self._spell(word)
                units.append(unit)
                known += unit.text != word
            at = stop
        content = sum(unit.part_of_speech != _CONNECTOR and not unit.is_number for unit in units)
        return units if known >= _MIN_KNOWN * content else None

    def _spell(self, word: str) -> _Unit:
        for ending, to in self._endings if re.fullmatch("[a-z]{6,}", word) else ():
            if word[3:].endswith(ending):
                stem = word.removesuffix(ending)
                for pattern, replacement in self._rules["letters"]:
                    stem = re.sub(pattern, replacement, stem)
                if to in self._rules["adjectives"]:
                    return _Unit(None, _ADJECTIVE, False, stem + to)
                return _Unit(None, _NAME, False, (stem + to).capitalize() if self.language == "de" else stem + to)
        return _Unit(None, _NAME, False, word)

    def _draw(self, members: Sequence[Member]) -> Member:
        return members[0] if self._random.random() < _FIRST_MEMBER else self._random.choice(members)

    def _member(self, unit: _Unit, part: str) -> Member | None:
        if unit.meaning is None:
            return Member(unit.text, self.language, part=part) if unit.part_of_speech == part else None
        members = self._words.get((unit.meaning, part))
        return self._draw(members) if members else None

    def _noun(self, unit: _Unit) -> tuple[str, str]:
        member = self._member(unit, _NOUN)
        if member is None:
            adjective = self._member(unit, _ADJECTIVE)
            return (adjective.form if adjective else unit.text), "n"
        gender = member.gender[0] if member.gender else "n"
        if unit.plural and gender != "pl":
            return (member.plurals[0] if member.plurals else self._plural(member.form)), f"{gender} pl"
        return member.form, gender

    def _plural(self, word: str) -> str:
        if self.language != "es" or " " in word or word.endswith("s"):
            return word
        rules = (("z$", "ces"), ("ón$", "ones"), ("(?<=[aeiouáéó])$", "s"), ("$", "es"))
        return next(re.sub(pattern, to, word) for pattern, to in rules if re.search(pattern, word))

    def _replace_synonym(self, units: list[_Unit]) -> str:
        """Replace one word of an English name by a synonym, if a word has one."""
        replaceable = []
        for at, unit in enumerate(units):
            members = self._words.get((unit.meaning, unit.part_of_speech), ())
            synonyms = [member for member in members if normalise(member.form) != unit.text and not unit.plural]
            if synonyms:
                replaceable.append((at, synonyms))
        texts = [unit.text for unit in units]
        if replaceable:
            at, synonyms = self._random.choice(replaceable)
            texts[at] = self._draw(synonyms).form
        return " ".join(texts)

    def _phrases(self, units: list[_Unit]) -> Iterator[tuple[str, list[_Unit]]]:
        """Yield phrases, each with the connector before it."""
        start, before = 0, ""
        for at, unit in enumerate([*units, _Unit(None, _CONNECTOR, False, "")]):
            if unit.part_of_speech == _CONNECTOR:
                if at > start:
                    yield before, units[start:at]
                    before = ""
                if unit.text == "of":
                    before = "of"
                elif unit.text and not (before == "of" and self._connectors.get(unit.text) == ""):
                    before = self._connectors.get(unit.text, unit.text)
                start = at + 1

    def _german(self, units: list[_Unit]) -> str:
        parts: list[str] = []
        for before, phrase in self._phrases(units):
            case = "genitive" if before == "of" else "dative" if before in ("mit", "nach", "bei", "von") else ""
            if before == "of" and parts and len(phrase) == 1 and self._random.random() < 0.5:
                # Zyste der Niere, Nierenzyste
                first = self._compound_first(phrase[0])
                others, _, last = parts[-1].rpartition(" ")
                if first is not None:
                    parts[-1] = f"{others} {_compound(first, last)}".strip()
                    continue
            parts += ["" if before == "of" else before, self._german_phrase(phrase, case)]
        return " ".join(parts)

    def _german_phrase(self, phrase: list[_Unit], case: str) -> str:
        noun, gender = self._noun(phrase[-1])
        adjectives: list[str] = []
        in_compound = True  # until the first adjective, going backwards
        for unit in reversed(phrase[:-1]):
            adjective = self._member(unit, _ADJECTIVE)
            first = self._compound_first(unit) if in_compound else None
            is_noun = unit.part_of_speech == _NOUN
            if first is not None and (adjective is None or is_noun or self._random.random() < 0.4):
                if is_noun and adjective is not None and self._random.random() < 0.25:
                    adjectives.insert(0, adjective.form)
                else:
                    noun = _compound(first, noun)
            elif adjective is not None:
                adjectives.insert(0, adjective.form)
                in_compound = False
            elif in_compound:
                noun = f"{self._noun(unit)[0] if unit.meaning is not None else unit.text}-{noun}"
            else:
                adjectives.insert(0, unit.text if unit.meaning is None else self._noun(unit)[0])
        number_or_gender = "pl" if gender.endswith("pl") else gender[0]
        article = ""
        if case == "genitive":
            article = "des" if number_or_gender in "mn" else "der"
            if article == "des" and not noun.endswith(("s", "x")):
                noun += "es" if noun.endswith(("z", "ß")) else "s"
        elif not case and self._random.random() < 0.15:
            case = "weak"
        ending = _ENDINGS[case][number_or_gender]
        words = [word.removesuffix("e") + ending if word[:1].islower() else word for word in adjectives]
        return " ".join(filter(None, (article, *words, noun)))

    def _compound_first(self, unit: _Unit) -> str | None:
        native = [member for member in self._compound_firsts.get(unit.meaning, ()) if member.form[:1].isupper()]
        return self._draw(native).form if native else None

    def _spanish(self, units: list[_Unit]) -> str:
        parts: list[str] = []
        for before, phrase in self._phrases(units):
            text, gender = self._spanish_phrase(phrase)
            articles = {"m": "del", "f": "de la", "pl": "de los"} if self._random.random() < 0.5 else {}
            parts += [articles.get(gender, "de") if before == "of" else before, text]
        return " ".join(parts)

    def _spanish_phrase(self, phrase: list[_Unit]) -> tuple[str, str]:
        noun, gender = self._noun(phrase[-1])
        words = [noun]
        for unit in reversed(phrase[:-1]):
            adjective = self._member(unit, _ADJECTIVE)
            if adjective is not None and (unit.part_of_speech == _ADJECTIVE or self._random.random() < 0.6):
                words.append(_agree(adjective.form, gender))
            elif unit.part_of_speech == _NAME:
                words.append(unit.text if not unit.text[:1].isupper() else f"de {unit.text}")
            else:
                words.append(f"de {self._noun(unit)[0]}")
        return " ".join(words), "pl" if gender.endswith("pl") else gender


def iter_synthetic_names(
    names: Iterable[Name], lexicon: Lexicon, languages: Sequence[str], per_concept: int = 3, seed: int = 1
) -> Iterator[Name]:
    """Yield the names of the lexicon (:func:`iter_lexicon_names`), then synthetic names to train an encoder on.

    ``names`` are those of a knowledge base, in ascending order of their concepts. Synthetic names are made from the
    English names of each concept, or from ``per_concept`` of them, drawn at random. Each form of a concept occurs once,
    and no form of an English name.
    """
    yield from iter_lexicon_names(lexicon)
    forms = LexiconForms.compile(lexicon)
    makers = [Synthesiser(lexicon, language, seed, forms) for language in languages]
    draw = random.Random(seed)
    english = (name for name in names if base(name.language) == "en")
    for concept, group in groupby(english, key=lambda name: name.concept_id):
        texts = list(dict.fromkeys(name.text for name in group))
        seen = {normalise(text) for text in texts}
        for text in texts if len(texts) <= per_concept else draw.sample(texts, per_concept):
            for maker in makers:
                name = maker.make(text)
                if name and (form := normalise(name)) not in seen:
                    seen.add(form)
                    yield Name(concept, name, language=maker.language)


def _compound(first: str, last: str) -> str:
    return first + (last[:1].lower() + last[1:] if last[1:2].islower() else f"-{last}")


def _agree(adjective: str, gender: str) -> str:
    if " " in adjective:
        return adjective
    if gender[0] == "f":
        adjective = re.sub("(?<=[dt]or)$|o$", "a", adjective)
    if gender.endswith("pl") and not adjective.endswith("s"):
        adjective += "s" if adjective[-1] in "aeiou" else "es"
    return adjective
