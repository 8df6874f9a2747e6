"""Options of mapping, for the library and the command line."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator

from medlink.linking.options import LanguageOption, LinkOptions, parse_date
from medlink.settings import option

Shape = Literal["usagi", "source-to-concept-map", "sssom", "jsonl"]
"""Formats of maps: Usagi's save file, OMOP's table, SSSOM, or JSON lines for the review page."""
SHAPES: tuple[Shape, ...] = get_args(Shape)
TODAY = "today"
_MAX_VOCABULARY = 20  # characters of a vocabulary_id of OMOP


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a list; ``None`` for the usual names."""

    code: str | None = None
    name: str | None = None
    frequency: str | None = None
    unit: str | None = None
    language: str | None = None
    concept: str | None = None


def _vocabulary(name: str) -> str:
    if not name or len(name) > _MAX_VOCABULARY or not all(mark.isalnum() or mark in "_.-" for mark in name):
        raise ValueError(f"vocabulary is {name!r}, 1 to {_MAX_VOCABULARY} letters, digits and any of _ . - expected")
    return name


class MapOptions(LinkOptions):
    """The options of :func:`medlink.mapping.map_codes`.

    >>> MapOptions(vocabulary="KIS", date="2026-11-23").day
    datetime.date(2026, 11, 23)
    """

    k: int = option(5, "Candidates for each code.", ge=1, le=10_000)
    threshold: float = option(0.5, "Score below which nothing is proposed.", ge=0, le=1)
    language: LanguageOption = option(
        None, "Language of descriptions that name none; without it the words of all are read."
    )
    code_system: str | None = option(
        None, "The system that the codes belong to, such as ICD10GM or LOINC.", min_length=1
    )
    domain: tuple[str, ...] = option(
        (),
        "Semantic type that the list is about, such as Drug; may be repeated  [default: estimated from "
        "the codes whose concepts are certain]",
        strict=False,
    )
    broader: bool = option(False, "Where no concept is certain, propose the nearest parent that is, marked as broader.")
    infer_domain: bool = option(True, "Estimate what the list is about, and prefer such concepts.")
    standard: bool = option(True, "Propose only standard concepts, if the bundle says which are standard (OMOP).")
    vocabulary: Annotated[str, AfterValidator(_vocabulary)] = option(
        "LOCAL", "What the list is called in OMOP's table and in SSSOM."
    )
    unreviewed: bool = option(False, "Also write proposals to OMOP's table, and not only approved maps.")
    date: Annotated[str | None, AfterValidator(lambda given: parse_date(given, TODAY))] = option(
        None, f"Day of the proposals, such as 2026-11-23, or {TODAY}  [default: none]"
    )

    @property
    def day(self) -> datetime.date | None:
        """The day of the proposals; only ``today`` reads the clock."""
        if self.date == TODAY:
            return datetime.datetime.now(datetime.UTC).date()
        return None if self.date is None else datetime.date.fromisoformat(self.date)

    @property
    def linking(self) -> dict[str, Any]:
        """The options that :class:`medlink.Linker` takes, without those that select concepts."""
        return {name: getattr(self, name) for name in LinkOptions.model_fields.keys() - {"under", "not_under", "ecl"}}
