"""Local codes with what their descriptions say: a test, a drug, an operation, a residual class, a subsite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from medlink.index import ConceptIndex
from medlink.language.tags import base as language_base
from medlink.linking.drugs import base_name, drug_name, international_name, substance_in_brackets
from medlink.mapping.abbreviations import DRUG, ORGANISM, PROCEDURE, expand
from medlink.mapping.broader import class_above
from medlink.mapping.codes import SourceCode, Target
from medlink.mapping.descriptions import ParsedDescription, parse_description, split_value
from medlink.mapping.drug_names import is_combination, other_names
from medlink.mapping.laboratory import full_names, has_prefix, is_full_name, is_presence
from medlink.mapping.latin import in_english
from medlink.mapping.operations import in_other_words
from medlink.mapping.organisms import other_species_names
from medlink.mapping.qualifiers import has_any_cue, without_suspicion
from medlink.mapping.ranking import main_part
from medlink.mapping.subsites import find_subsite
from medlink.mapping.word_meanings import has_kind

Key = tuple[str, str]
"""A text to link, and its language."""
_ENGLISH = "en"
_BODY = "body"  # kind of words


@dataclass(frozen=True, slots=True)
class ParsedCode:
    """A code with its parsed description.

    ``base`` and ``value`` are given if the description ends in a result, ``full_names`` if it names a laboratory test,
    ``longs`` if it abbreviates something else, ``above`` if it marks a residual class, ``drugs`` if it has the form,
    strength or salt of a drug; ``bare_drug`` is without form and strength, ``inner_drug`` stood in brackets. ``others``
    are given if its drug, operation or species has other names, ``subsite`` if it names one, and ``finding`` if it
    suspects one. ``is_test`` tells whether unit or specimen are those of a laboratory test, ``is_open`` whether no unit
    or prefix proves it, and ``may_be_qualified`` whether the description has a cue.
    """

    source: SourceCode
    description: ParsedDescription
    base: str
    value: Target | None
    full_names: tuple[Key, ...]
    longs: tuple[Key, ...]
    above: str
    drugs: tuple[Key, ...]
    bare_drug: str
    inner_drug: str
    others: tuple[Key, ...]
    subsite: str
    is_test: bool
    is_open: bool
    finding: str
    may_be_qualified: bool

    @property
    def own_keys(self) -> tuple[Key, ...]:
        """The texts of the description itself, without other wordings."""
        return tuple((text, self.source.language) for text in (self.description.text, self.base) if text)

    @property
    def keys(self) -> tuple[Key, ...]:
        """All texts that are linked."""
        parts = tuple((text, self.source.language) for text in (self.above, self.finding, self.subsite) if text)
        return (*self.own_keys, *parts, *self.full_names, *self.longs, *self.drugs, *self.others)


class CodeParser:
    """Parses codes for an index.

    ``language`` is that of descriptions without one. ``find_value`` returns the concept of a result. ``has_atc`` is
    true if the targets are drugs of ATC, which has names with forms and classes.
    """

    def __init__(
        self, index: ConceptIndex, language: str | None, find_value: Callable[[str], Target | None], *, has_atc: bool
    ) -> None:
        self._index, self._language, self._find_value, self._has_atc = index, language, find_value, has_atc

    def parse(self, code: SourceCode) -> ParsedCode:
        """Return a code with its parsed description."""
        description, language = parse_description(code.name), code.language or self._language
        stated = split_value(description.text, language or "")
        value = self._find_value(stated[1]) if stated else None
        base = stated[0] if stated and value else ""
        text, unit = base or description.text, code.unit or description.unit
        names = tuple(full_names(text, unit, language))
        is_prefixed = has_prefix(text)
        is_open = not (unit or is_prefixed)
        is_named_test = any(is_full_name(name) and (is_prefixed or not is_presence(name)) for name, _ in names)
        is_full = any(is_full_name(name) for name, _ in names) and not (is_open and is_named_test)
        in_full = (
            tuple(expand(text, language_base(language), DRUG, ORGANISM, PROCEDURE)) if language and not is_full else ()
        )
        longs = () if is_full else (*in_full, *((latin, "en") for latin in in_english(text)))
        bare = drug_name(text, language_base(language or "")) if self._has_atc else ""
        inner = substance_in_brackets(text) if self._has_atc else ""
        drugs = self._drugs(((text, language or ""), *names, *longs), bare, inner) if self._has_atc else ()
        is_drug = bool(bare) or (not code.unit and description.text[-1:].isdecimal())  # 5 mg/ml
        may_be_qualified = has_any_cue(description.text, language or "")
        is_plain = bool(names or in_full) or not may_be_qualified
        return ParsedCode(
            code, description, base, value, names, longs, class_above(text, language), drugs, bare, inner,
            others=() if is_full else self._others(text), subsite=self._subsite(text, language),
            is_test=is_named_test and not is_drug, is_open=is_open, may_be_qualified=may_be_qualified,
            finding="" if is_plain else without_suspicion(description.text, language or ""),
        )  # fmt: skip

    def _drugs(self, wholes: tuple[Key, ...], bare: str, inner: str) -> tuple[Key, ...]:
        """The names of the drug of a description, the first of ``wholes``, and of its other wordings."""
        (_, language), *others = wholes
        keys = [(bare, language), *((drug_name(whole, language_base(own)), own) for whole, own in others)]
        named = [(name or whole, own) for (name, own), (whole, _) in zip(keys, wholes, strict=True)]
        keys += [(base_name(name, language_base(own)), own) for name, own in named]
        keys += [(international_name(named[0][0], language_base(language)), _ENGLISH), (inner, language)]
        return tuple(dict.fromkeys(key for key in keys if key[0]))

    def _others(self, text: str) -> tuple[Key, ...]:
        # ATC has codes of combinations, other terminologies often only their first drug
        drugs = () if self._has_atc and is_combination(text) else other_names(text)
        return tuple((name, "en") for name in (*in_other_words(main_part(text)), *drugs, *other_species_names(text)))

    def _subsite(self, text: str, language: str | None) -> str:
        found = find_subsite(text, language)
        if found is None or not all(has_kind(self._index, site, _BODY) for site in (found.part, found.whole)):
            return ""
        return found.text
