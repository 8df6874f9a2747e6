"""Options of linking for the library, the spaCy component and the command line."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from medlink.language.tags import named_tag
from medlink.settings import Settings

if TYPE_CHECKING:
    from medlink.index import Filter


def parse_language(language: str | None) -> str | None:
    """Return a language in the form of the knowledge base (``de-at`` for ``de_AT``); raises ConfigError if unknown."""
    return named_tag(language) if language else None


def check_path(option: str, path: str | None) -> str | None:
    """Return the path of an option; raises ValueError if it is empty, for example because a shell variable is unset."""
    if path == "":
        raise ValueError(f"{option} is empty")
    return path


def parse_date(day: str | None, *words: str) -> str | None:
    """Normalise a date in ISO 8601 or one of the allowed words; raises ValueError for other texts.

    >>> parse_date("20261130"), parse_date("today", "today")
    ('2026-11-30', 'today')
    """
    try:
        return day if day is None or day in words else date.fromisoformat(day).isoformat()
    except ValueError:
        also = "".join(f" or the word {word}" for word in words)
        raise ValueError(f"date is {day!r}, a day such as 2026-11-30{also} expected") from None


_Several = Annotated[tuple[str, ...], Field(strict=False)]


class LinkOptions(Settings):
    """Options of :class:`medlink.Linker`."""

    k: Annotated[int, Field(ge=1, le=10_000, description="Candidates for each mention.")] = 5
    threshold: Annotated[float, Field(ge=0, le=1, description="Score below which a mention is NIL.")] = 0.5
    language: Annotated[
        str | None,
        AfterValidator(parse_language),
        Field(description="Language of mentions that name none; preferred names are shown in it."),
    ] = None
    languages: Annotated[_Several, Field(description="Only names of this language; may be repeated.")] = ()
    sources: Annotated[_Several, Field(description="Only names of this source; may be repeated.")] = ()
    semantic_types: Annotated[_Several, Field(description="Only concepts of this semantic type; may be repeated.")] = ()

    under: Annotated[_Several, Field(description="Only this concept and all below it; may be repeated.")] = ()
    not_under: Annotated[_Several, Field(description="Not this concept, nor any below it; may be repeated.")] = ()
    ecl: Annotated[
        str | None, Field(description="Only concepts that an expression constraint selects, such as '<< A MINUS << B'.")
    ] = None
    prefer: Annotated[
        _Several,
        AfterValidator(lambda values: tuple(filter(None, map(str.strip, ",".join(values).split(","))))),
        Field(
            description="Sources, semantic types or kinds of thing whose concept is linked where several have the "
            "same name, first one first, such as SNOMEDCT_US,finding  [default: as loaded]",
        ),
    ] = ()
    presume: Annotated[bool, Field(description="Take concepts of two sources that share names and kind for one.")] = (
        True
    )
    resolve: Annotated[
        Literal["none", "first"],
        Field(description="Link the first candidate of an ambiguous mention, with its share as score, or none."),
    ] = "none"

    ranker: Annotated[
        str | None,
        AfterValidator(lambda value: check_path("ranker", value)),
        Field(
            description="Ranker that re-orders the first candidates: a folder of 'medlink train ranker'; or the URL, "
            "or a TOML or JSON file, of a language model, to which mentions and candidates are sent  [default: none]"
        ),
    ] = None
    ranker_cache: Annotated[
        str | None,
        AfterValidator(lambda value: check_path("ranker_cache", value)),
        Field(description="Folder that keeps the answers of the ranker, under hashes  [default: not kept]"),
    ] = None

    @model_validator(mode="after")
    def _cache_has_a_ranker(self) -> Self:
        if self.ranker_cache is not None and self.ranker is None:
            raise ValueError("ranker_cache is given without a ranker")
        return self

    @property
    def filter(self) -> Filter:
        """The names that may be candidates."""
        from medlink.index import Filter  # heavy; options must load without it

        names = self.languages, self.sources, self.semantic_types
        languages, sources, types = (tuple(sorted(values)) for values in names)
        return Filter(languages, sources, types)
