"""Options of mapping, for the library and the command line."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from medlink.linking.options import LinkOptions, parse_date, parse_language

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

    k: Annotated[int, Field(ge=1, le=10_000, description="Candidates for each code.")] = 5
    threshold: Annotated[float, Field(ge=0, le=1, description="Score below which nothing is proposed.")] = 0.5
    language: Annotated[
        str | None,
        AfterValidator(parse_language),
        Field(description="Language of descriptions that name none; without it the words of all are read."),
    ] = None
    code_system: Annotated[
        str | None, Field(min_length=1, description="The system that the codes belong to, such as ICD10GM or LOINC.")
    ] = None
    domain: Annotated[
        tuple[str, ...],
        Field(
            strict=False,
            description="Semantic type that the list is about, such as Drug; may be repeated  [default: estimated from "
            "the codes whose concepts are certain]",
        ),
    ] = ()
    broader: Annotated[
        bool, Field(description="Where no concept is certain, propose the nearest parent that is, marked as broader.")
    ] = False
    infer_domain: Annotated[bool, Field(description="Estimate what the list is about, and prefer such concepts.")] = (
        True
    )
    standard: Annotated[
        bool, Field(description="Propose only standard concepts, if the bundle says which are standard (OMOP).")
    ] = True
    vocabulary: Annotated[
        str, AfterValidator(_vocabulary), Field(description="What the list is called in OMOP's table and in SSSOM.")
    ] = "LOCAL"
    unreviewed: Annotated[
        bool, Field(description="Also write proposals to OMOP's table, and not only approved maps.")
    ] = False
    date: Annotated[
        str | None,
        AfterValidator(lambda given: parse_date(given, TODAY)),
        Field(description=f"Day of the proposals, such as 2026-11-23, or {TODAY}  [default: none]"),
    ] = None

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
