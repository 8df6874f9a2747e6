"""Write the names of laboratory tests in full: *S-Na, mmol/l* is *sodium [Moles/volume] in Serum or Plasma*.

A name of LOINC has a component, a property and a system (LOINC Users' Guide, section 2). A laboratory prints the
component, often abbreviated; its unit implies the property; a letter or a word, or the absence of both, implies the
system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from medlink.language.languages import any_of
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.mapping.abbreviations import ORGANISM, TEST, expand
from medlink.mapping.descriptions import ucum_code
from medlink.mapping.laboratory_words import Property, Specimen, Time, either, laboratory_words

_ENGLISH = "en"
_UNIT_PART = re.compile(
    r"(?:10\*\d+\.?)?(?P<prefix>[munpfkcd]|da)?(?P<unit>mol|eq|g|U|kat|\[IU\]|\[iU\]|L|d|h|1|mm\[Hg\]|\{titer\}|\[HPF\]|\[[MG]PL'U\])"
)
_NUMBER = re.compile(r"(?:10\*\d+|1)?")
_EMPTY = re.compile(r"[(\[]\s*[)\]]")
_EDGES = " ,;:-/"
_METHOD, _CLASS = re.compile(r" (?:by|mit|por) "), re.compile(r"\big([gma])\b")
_IMMUNOGLOBULIN = re.compile(r"Ig[ADEGM]\d?")
_PREFIX = re.compile(r"(?:[A-Z][A-Za-z]{0,2} +-|[a-z][A-Z] ?-) ?(?=\w)")
_NO_TRAITS = (-1, -1, -1, -1, -1)


def full_names(description: str, unit: str, language: str | None) -> Iterator[tuple[str, str]]:
    """Yield the full names that a description of a laboratory test may stand for, each with its language.

    A description without a unit of concentration, a specimen, or an antibody or nucleic acid is not a laboratory test.
    Without a unit, the properties are those that such a component usually has. If no specimen is named, it is the usual
    one of the component or the property, else serum or plasma. White cells in per cent are a share of the leukocytes.
    Without a language, the specimen tells it; English is assumed where it does not.
    """
    words, tag = laboratory_words(), base(language) if language else _language_of_specimen(description)
    if tag not in words.joins:
        return
    if marked := words.marked.fullmatch(unit):
        unit, description = marked[1], f"{description} {marked[2]}"
    unit, second = _split_second(unit, tag)
    timed, time, hour = _split_time(words.noise[tag].sub("", description).strip(_EDGES) or description, tag)
    component, specimen = _split_specimen(timed, tag, has_unit=bool(unit))
    component += f"/{second}" if second and "/" not in component else ""
    component, has_parts, says_ratio = _split_ratio(component, tag)
    measured = _properties(unit)
    ratios = [one.ratio for one in measured if one.ratio] if measured else [words.ratio.names]
    is_whole_class = specimen is not None and _IMMUNOGLOBULIN.fullmatch(component) is not None
    is_found = not measured and not is_whole_class and words.found.cues[tag].search(component) is not None
    is_quotient = has_parts and bool(ratios) and not is_found  # ALAT/GPT U/l are two names, HIV Ag/Ab is one
    share = next((one for one in words.shares if unit.strip() in one.units and one.begin.match(component)), None)
    if specimen is None and not measured and share is None and not (says_ratio or is_found):
        return
    properties = ratios if is_quotient else [one.names for one in measured] or [words.found.names if is_found else {}]
    if specimen is not None and properties == [{}]:
        properties += words.usual_properties(component, specimen)
    if specimen is not None:
        specimen = _collected(specimen, measured)
    else:
        of = component.partition("/")[2].strip().casefold()
        usual = [name for begin, name in words.ratio.specimens.items() if is_quotient and re.match(begin, of)]
        usual += [name for begin, name in words.defaults.items() if re.match(begin, component)]
        usual += [one.specimen for one in measured if one.specimen]
        specimen = words.specimen([*usual, words.default][0])
    if share is not None and "{0}" not in share.names[tag]:  # the whole name, also for a bundle of another language
        yield from ((share.names[own], own) for own in dict.fromkeys((tag, *share.names)))
        return
    for text, own in dict.fromkeys([(component, tag), *expand(component, tag, TEST), *_antibodies(component, tag)]):
        if share is not None:
            yield share.names[own].format(text, specimen.names[own]), own
            continue
        whole = time.components[own].format(text) if time and time.components else text
        when = f" {time.names[own].format(hour)}" if time and time.names else ""
        for names in properties:
            bracket = f" [{names[own]}]" if names else ""
            yield f"{whole}{bracket} {words.joins[own]} {specimen.names[own]}{when}", own


def _language_of_specimen(description: str) -> str:
    """Return the language with the longest name of a specimen in a description, English if several have it."""
    languages = [_ENGLISH, *(tag for tag in laboratory_words().joins if tag != _ENGLISH)]
    matches = {tag: _any_specimen(tag).finditer(description) for tag in languages}
    return max(languages, key=lambda tag: max((len(match[0]) for match in matches[tag]), default=0))


def _antibodies(component: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the names of an antibody with its target in full: *Anti-HAV IgM*."""
    found = laboratory_words().found
    if match := found.antibody[language].search(component):
        of, own_class = match["of"] or match["of2"] or match["of3"], match["class"] or match["class2"] or ""
        for text, own in expand(of, language, TEST, ORGANISM):
            yield " ".join(found.antibodies[own].format(text, own_class).replace(" -", "-").split()), own
    elif found.cues[language].search(component):
        yield from expand(component.replace("-", " "), language, TEST, ORGANISM)


@lru_cache(1 << 14)
def traits(norm: str) -> tuple[int, int, int, int, int]:
    """Return numbers for property, specimen, time, method and antibody class of a full name (exact form), -1 for none.

    The numbers are the same in all languages. Specimens that no description names share a number, and so do other
    times, such as those after a dialysis, and methods.
    A name without a property has none of the other traits.

    >>> traits("x ak masse volumen in serum tal") == traits("x ab mass volume in serum or plasma trough")
    True
    >>> traits("x igg ab units volume in serum by immunoassay"), traits("kidney")
    ((6, 0, -1, 0, 0), (-1, -1, -1, -1, -1))
    """
    match = _property_numbers()[0].search(norm)
    if match is None:
        return _NO_TRAITS
    rest, words = f"{norm[match.end() :]} ", laboratory_words()
    specimen = words.specimen_pattern.match(rest)
    time = next((number for number, pattern in enumerate(words.time_patterns) if pattern.search(norm)), -1)
    after = rest if specimen is None else rest[specimen.end() :]
    if time < 0 and words.other_times.search(f"{norm[: match.start()]} | {after}"):
        time = len(words.time_patterns)
    method = 0 if time < 0 and _METHOD.search(rest) else -1
    classes = _CLASS.search(norm, 0, match.start())
    number = len(words.specimens) if specimen is None else words.specimen_numbers[specimen[0]]
    return _property_numbers()[1][match[1]], number, time, method, -1 if classes is None else "gma".index(classes[1])


@lru_cache(1 << 14)
def analyte(norm: str) -> str:
    """Return the component of a full name, or any other exact form, without words that many components share.

    >>> analyte("natrium mol volumen in urin"), analyte("roteln virus igg ak einheiten volumen in serum")
    ('natrium', 'roteln')
    """
    match = _property_numbers()[0].search(norm)
    whole = norm if match is None else norm[: match.start()]
    bare = " ".join(laboratory_words().found.carriers.sub(" ", whole).split())
    return bare or whole


def is_carrier(component: str) -> bool:
    """Return whether a component, as :func:`analyte` returns it, has only words that many components share.

    >>> is_carrier("igm"), is_carrier("hepatitis a")
    (True, False)
    """
    return not laboratory_words().found.carriers.sub("", component).strip()


@lru_cache(1 << 14)
def is_ratio(norm: str) -> bool:
    """Return whether the exact form of a full name compares two components or two specimens.

    >>> is_ratio("albumin creatinine molar ratio in urine"), is_ratio("albumin mol volumen in urin")
    (True, False)
    >>> is_ratio("glucose in serum glucose in pleural fluid molar concentration difference")
    True
    """
    match = _property_numbers()[0].search(norm)
    is_of_two = match is None and len(_in_specimen().findall(f"{norm} ")) > 1
    return is_of_two or (match is not None and match[1] in laboratory_words().ratios)


@lru_cache(1 << 14)
def may_be_ratio(description: str) -> bool:
    """Return whether a description has a word of a ratio, or two specimens, in any language.

    >>> may_be_ratio("Albumin Liquor/Serum"), may_be_ratio("LDH ratio"), may_be_ratio("LDH im Pleurapunktat, U/l")
    (True, True, False)
    """
    words = laboratory_words()
    first, _, second = description.partition("/")
    return any(pattern.search(description) for pattern in words.ratio.words.values()) or any(
        _any_specimen(tag).search(first) and _any_specimen(tag).search(second) for tag in words.joins
    )


@cache
def _in_specimen() -> re.Pattern[str]:
    words = laboratory_words()
    joins = either(list({*words.joins.values(), "im"}))
    return re.compile(rf" (?:{joins}) (?:{words.specimen_pattern.pattern})")


@cache
def _property_numbers() -> tuple[re.Pattern[str], dict[str, int]]:
    words, numbers = laboratory_words(), dict[str, int]()
    for number, own in enumerate([*words.implied, *words.other_properties]):
        for text in own.values():
            numbers.setdefault(normalise(text), number)
    joins = either(list({*words.joins.values(), "of", "von", "de"}))
    return re.compile(rf" ({either(list(numbers))}) (?:{joins}) "), numbers


def _split_second(unit: str, language: str) -> tuple[str, str]:
    """Return a unit without its second component, and that component: *mmol/mol creat*."""
    for pattern, names in laboratory_words().ratio.per.items():
        if match := re.match(pattern, unit, re.IGNORECASE):
            return match[1], names[language]
    return unit, ""


def _split_time(description: str, language: str) -> tuple[str, Time | None, str]:
    """Return a description without the time of its specimen, that time, and its number of hours."""
    for time in laboratory_words().times if _any_time(language).search(description) else ():
        match = time.cues[language].search(description)
        left = "" if match is None else f"{description[: match.start()]} {description[match.end() :]}".strip(_EDGES)
        if match is not None and any(map(str.isalpha, left)):
            return left, time, (match[1] if match.re.groups else "")
    return description, None, ""


@cache
def _any_time(language: str) -> re.Pattern[str]:
    return any_of(time.cues[language] for time in laboratory_words().times)


def _split_ratio(component: str, language: str) -> tuple[str, bool, bool]:
    """Return a component without words of a ratio, whether it is a ratio, and whether such a word says it."""
    left, count = laboratory_words().ratio.words[language].subn(" ", component)
    left = " ".join(left.split()).strip(_EDGES)
    parts = left.split("/")
    is_ratio = len(parts) == 2 and all(any(map(str.isalpha, part)) for part in parts)
    return (left if is_ratio else component), is_ratio, is_ratio and count > 0


@lru_cache(1 << 14)
def is_full_name(text: str) -> bool:
    """Return whether a text has a property and a specimen, as names of LOINC do."""
    return _full_name().search(text) is not None


def has_prefix(description: str) -> bool:
    """Return whether a description begins with a specimen as no other name does.

    >>> [has_prefix(text) for text in ("S -Cortisol", "dU-Glucose", "S-Ketamin", "L-Thyroxin")]
    [True, True, False, False]
    """
    return _PREFIX.match(description) is not None


def names_specimen(description: str, language: str | None) -> bool:
    """Return whether a description names its specimen.

    >>> names_specimen("U -Cortisol", "en"), names_specimen("Glucosa en LCR", None), names_specimen("Cortisol", "en")
    (True, True, False)
    """
    tags = [tag for tag in laboratory_words().joins if not language or tag == base(language)]
    return has_prefix(description) or any(_any_specimen(tag).search(description) for tag in tags)


def is_presence(text: str) -> bool:
    """Return whether a full name is that of a qualitative test, which a description without a unit may mean.

    >>> is_presence("Rubella virus IgG Ab [Presence] in Serum or Plasma"), is_presence("Sodium [Moles/volume] in Urine")
    (True, False)
    """
    return any(f" [{name}] " in text for name in laboratory_words().found.names.values())


@cache
def _full_name() -> re.Pattern[str]:
    words = laboratory_words()
    properties = {text for own in words.implied for text in own.values()}
    return re.compile(rf" \[(?:{either(list(properties))})\] (?:{either(list(set(words.joins.values())))}) ")


def _split_specimen(description: str, language: str, *, has_unit: bool) -> tuple[str, Specimen | None]:
    """Return the component of a description, and its specimen if it names one."""
    for specimen in laboratory_words().specimens if _any_specimen(language).search(description) else ():
        for pattern in specimen.patterns(language, has_unit=has_unit):
            match = pattern.search(description)
            if match:
                rest = _EMPTY.sub("", f"{description[: match.start()]} {description[match.end() :]}")
                component = " ".join(rest.split()).strip(_EDGES)
                if any(map(str.isalpha, component)):
                    return component, specimen
    return description, None


def _collected(specimen: Specimen, measured: list[Property]) -> Specimen:
    """Return the specimen that the unit implies of a named one: urine in mg/24 h is collected urine."""
    (implied, *others) = {one.specimen for one in measured} or {""}
    is_kind = not others and implied.endswith(specimen.names[_ENGLISH])
    return laboratory_words().specimen(implied) if is_kind else specimen


@cache
def _any_specimen(language: str) -> re.Pattern[str]:
    specimens = laboratory_words().specimens
    patterns = [pattern.pattern for one in specimens for pattern in one.patterns(language, has_unit=True)]
    return re.compile("|".join(dict.fromkeys(patterns)))


def _properties(unit: str) -> list[Property]:
    """Return the properties that a unit may imply: units are those of an enzyme, or arbitrary."""
    numerator, _, denominator = (ucum_code(unit) or "").partition("/")
    of, over = (match["unit"] if (match := _UNIT_PART.fullmatch(part)) else "" for part in (numerator, denominator))
    if denominator and _NUMBER.fullmatch(numerator):
        of = "1"
    return [one for one in laboratory_words().properties if of in one.numerators and over in one.denominators]
