"""Words of laboratory tests: the axes of LOINC, as ``resources/mapping/laboratory.json`` has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.language.text import normalise

_ENGLISH = "en"


@dataclass(frozen=True, slots=True)
class Specimen:
    """A system: its name in each language, the prefixes for it, the beginnings of exact forms that name it, and in each
    language a pattern of words for it."""

    names: Mapping[str, str]
    prefix: re.Pattern[str]
    norms: tuple[str, ...]
    cues: Mapping[str, re.Pattern[str]]


@dataclass(frozen=True, slots=True)
class Property:
    names: Mapping[str, str]
    numerators: frozenset[str]
    denominators: frozenset[str]
    specimen: str
    ratio: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Share:
    """Units of a share, how components with it begin, and in each language the full name of component and system."""

    units: frozenset[str]
    begin: re.Pattern[str]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Time:
    """When a specimen is taken, or by which method it is measured: a pattern in each language, and the text behind the
    specimen, or for the component."""

    cues: Mapping[str, re.Pattern[str]]
    names: Mapping[str, str]
    components: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Words of a ratio in each language, its property without a unit, specimens by the second component, and second
    components by a pattern of the unit."""

    words: Mapping[str, re.Pattern[str]]
    names: Mapping[str, str]
    specimens: Mapping[str, str]
    per: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """Tests that are found or not: words for them, their property, and names of antibodies with what they are against
    and their class, in each language; ``carriers`` are words that many such components share."""

    cues: Mapping[str, re.Pattern[str]]
    names: Mapping[str, str]
    antibody: Mapping[str, re.Pattern[str]]
    antibodies: Mapping[str, str]
    carriers: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Words:
    joins: Mapping[str, str]
    specimens: tuple[Specimen, ...]
    properties: tuple[Property, ...]
    other_properties: tuple[Mapping[str, str], ...]
    default: str
    defaults: Mapping[str, str]
    found: Found
    noise: Mapping[str, re.Pattern[str]]
    shares: tuple[Share, ...]
    times: tuple[Time, ...]
    ratio: Ratio

    def specimen(self, english: str) -> Specimen:
        return next(specimen for specimen in self.specimens if specimen.names[_ENGLISH] == english)


@cache
def laboratory_words() -> Words:
    raw = read_json(RESOURCES / "mapping" / "laboratory.json")
    specimens = tuple(
        Specimen(
            entry["text"],
            re.compile(rf"^(?:{either(entry['prefixes'])})\s*-\s*(?=\w)"),
            tuple(f"{normalise(text)} " for text in (*entry["text"].values(), *entry.get("same", ()))),
            {tag: _cue_pattern(cues) for tag, cues in entry["cues"].items()},
        )
        for entry in raw["specimens"]
    )
    properties = tuple(
        Property(
            entry["text"],
            frozenset(entry["numerators"]),
            frozenset(entry["denominators"]),
            entry.get("specimen", ""),
            entry.get("ratio", {}),
        )
        for entry in raw["properties"]
    )
    shares = tuple(
        Share(frozenset(entry["units"]), re.compile(rf"(?i:{entry['begin']})"), entry["text"])
        for entry in raw["shares"]
    )
    found = Found(
        _patterns(raw["found"]["cues"]), raw["found"]["text"], _patterns(raw["found"]["antibody"]),
        raw["found"]["names"], re.compile(rf"\b(?:{either(raw['found']['carriers'])})\b"),
    )  # fmt: skip
    times = tuple(
        Time(_patterns(entry["cues"]), entry.get("text", {}), entry.get("component", {})) for entry in raw["times"]
    )
    ratio = Ratio(
        _patterns(raw["ratio"]["words"]), raw["ratio"]["text"], raw["ratio"]["specimens"], raw["ratio"]["per"]
    )
    return Words(
        raw["joins"], specimens, properties, tuple(raw["other_properties"]), raw["default_specimen"],
        raw["default_specimens"], found, _patterns(raw["noise"]), shares, times, ratio,
    )  # fmt: skip


def _patterns(written: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    return {tag: re.compile(pattern) for tag, pattern in written.items()}


def _cue_pattern(cues: list[str]) -> re.Pattern[str]:
    """A pattern of cues as whole words; short ones in capitals count as they are written, behind a comma or at an
    end."""
    letters = [cue for cue in cues if len(cue) <= 2 and cue.isupper()]
    words = [cue for cue in cues if cue not in letters]
    pattern = rf"(?<!\w)(?i:{either(words)})(?!\w)"
    if letters:
        pattern += rf"|(?:[,(]\s*(?:{either(letters)})\)?$)|^(?:{either(letters)})\s(?=\w)"
    return re.compile(pattern)


def either(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
