"""Words of laboratory tests: the axes of LOINC, as ``resources/mapping/laboratory.json`` has them."""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, model_validator

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.language.text import normalise


def either(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def _cue_pattern(cues: list[str]) -> str:
    """A pattern of cues as whole words, also without their accents; short ones in capitals count as they are written,
    behind a comma or at an end."""
    letters = [cue for cue in cues if len(cue) <= 2 and cue.isupper()]
    words = either([cue for cue in cues if cue not in letters]).translate(_PLAIN)
    pattern = rf"(?<!\w)(?i:{words})(?!\w)"
    if letters:
        pattern += rf"|(?:[,(]\s*(?:{either(letters)})\)?$)|^(?:{either(letters)})\s(?=\w)"
    return pattern


# lists in capitals often lack accents
_PLAIN = str.maketrans(
    {"á": "[áa]", "é": "[ée]", "í": "[íi]", "ó": "[óo]", "ú": "[úu]", "ü": "(?:ü|ue)", "ö": "(?:ö|oe)"}
)
_Texts = dict[str, str]  # by language
_Patterns = dict[str, re.Pattern[str]]


_Cues = Annotated[re.Pattern[str], BeforeValidator(_cue_pattern)]


class Specimen(BaseModel):
    """A system: its name in each language and other texts for it, a pattern of prefixes, and patterns of words, also of
    those that are a finding without a unit: *Pleuraerguss*."""

    names: _Texts
    prefixes: Annotated[re.Pattern[str], BeforeValidator(lambda words: rf"^(?:{either(words)})\s*-\s*(?=\w)")]
    same: list[str] = []
    cues: dict[str, _Cues]
    with_unit: dict[str, _Cues] = {}

    def patterns(self, language: str, *, has_unit: bool) -> list[re.Pattern[str]]:
        more = [self.with_unit[language]] if has_unit and language in self.with_unit else []
        return [self.prefixes, self.cues[language], *more]


class Property(BaseModel):
    names: _Texts
    numerators: frozenset[str]
    denominators: frozenset[str]
    specimen: str = ""
    ratio: _Texts = {}


class WithoutUnit(BaseModel):
    """Properties of a test whose unit is not given, in order of preference: by its component and specimen."""

    begin: Annotated[re.Pattern[str], BeforeValidator(lambda text: f"(?i:{text})")]
    specimen: str = ""
    properties: list[str]


class Share(BaseModel):
    """Units of a share, the beginnings of its components, and the full name of component and system."""

    units: frozenset[str]
    begin: Annotated[re.Pattern[str], BeforeValidator(lambda text: f"(?i:{text})")]
    names: _Texts


class Time(BaseModel):
    """When a specimen is taken, or by which method it is measured: patterns, and the text behind the specimen, or for
    the component."""

    cues: _Patterns
    names: _Texts = {}
    components: _Texts = {}


class Ratio(BaseModel):
    """Words of a ratio, its property without a unit, specimens by the second component, and second components by a
    pattern of the unit."""

    words: _Patterns
    names: _Texts
    specimens: _Texts
    per: dict[str, _Texts]


class Found(BaseModel):
    """Qualitative tests: words for them, their property, and names of antibodies with target and class;
    ``carriers`` are words that many of these components share."""

    cues: _Patterns
    names: _Texts
    antibody: _Patterns
    antibodies: _Texts
    carriers: Annotated[re.Pattern[str], BeforeValidator(lambda words: rf"\b(?:{either(words)})\b")]


class Words(BaseModel):
    joins: _Texts
    before_specimens: dict[str, list[str]]  # prepositions
    specimens: list[Specimen]
    properties: list[Property]
    without_unit: list[WithoutUnit]
    other_properties: list[_Texts]
    default: str
    defaults: _Texts
    found: Found
    noise: _Patterns
    shares: list[Share]
    marked: re.Pattern[str]  # units with what the component is measured as
    times: list[Time]
    other_times: Annotated[re.Pattern[str], BeforeValidator(lambda words: rf"\b(?:{'|'.join(words)})\b")]  # exact forms
    ratio: Ratio

    @model_validator(mode="before")
    @classmethod
    def _with_prepositions(cls, raw: dict[str, Any]) -> dict[str, Any]:
        of_specimens = [one.get(key, {}) for one in raw["specimens"] for key in ("cues", "with_unit")]
        for cues in of_specimens:
            for tag, words in cues.items():
                before = [f"{one} {word}" for one in raw["before_specimens"][tag] for word in words if len(word) > 2]
                cues[tag] = [*words, *before]
        return raw

    def specimen(self, english: str) -> Specimen:
        return next(specimen for specimen in self.specimens if specimen.names["en"] == english)

    @cached_property
    def specimen_numbers(self) -> dict[str, int]:
        """Numbers of specimens by the texts that name them, in exact form with a blank at the end."""
        texts = (
            (number, text) for number, one in enumerate(self.specimens) for text in (*one.names.values(), *one.same)
        )
        return {f"{normalise(text)} ": number for number, text in texts}

    @cached_property
    def specimen_pattern(self) -> re.Pattern[str]:
        return re.compile(either(list(self.specimen_numbers)))

    @cached_property
    def time_patterns(self) -> list[re.Pattern[str]]:
        names = (time.names.values() for time in self.times if time.names)
        texts = ([normalise(text.format("12")) for text in own] for own in names)
        return [re.compile(rf" (?:{either(own)})$".replace("12", r"[\d.]+")) for own in texts]

    @cached_property
    def implied(self) -> list[_Texts]:
        """The texts of each property that a unit implies."""
        measured = [own for one in self.properties for own in (one.names, one.ratio)]
        return [*measured, self.ratio.names, self.found.names]

    def usual_properties(self, component: str, specimen: Specimen) -> list[_Texts]:
        """Return the names of the properties that a test without a unit usually has."""
        usual = next(
            one for one in self.without_unit
            if one.specimen in ("", specimen.names["en"]) and one.begin.match(component)
        )  # fmt: skip
        by_name = {own["en"]: own for own in self.implied if own}
        return [by_name[name] for name in usual.properties]

    @cached_property
    def ratios(self) -> frozenset[str]:
        texts = [self.ratio.names, *(measured.ratio for measured in self.properties)]
        return frozenset(normalise(text) for names in texts for text in names.values())


@cache
def laboratory_words() -> Words:
    return Words.model_validate(read_json(RESOURCES / "mapping" / "laboratory.json"))
