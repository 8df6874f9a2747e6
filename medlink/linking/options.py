"""Options of linking for the library, the spaCy component and the command line."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from medlink.language.tags import named_tag
from medlink.settings import Settings, option

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


LanguageOption = Annotated[str | None, AfterValidator(parse_language)]
PathOption = Annotated[str | None, AfterValidator(lambda path, info: check_path(info.field_name, path))]
_Several = Annotated[tuple[str, ...], Field(strict=False)]


class LinkOptions(Settings):
    """Options of :class:`medlink.Linker`."""

    k: int = option(5, "Candidates for each mention.", ge=1, le=10_000)
    threshold: float = option(0.5, "Score below which a mention is NIL.", ge=0, le=1)
    language: LanguageOption = option(None, "Language of mentions that name none; preferred names are shown in it.")
    languages: _Several = option((), "Only names of this language; may be repeated.")
    sources: _Several = option((), "Only names of this source; may be repeated.")
    semantic_types: _Several = option((), "Only concepts of this semantic type; may be repeated.")

    under: _Several = option((), "Only this concept and all below it; may be repeated.")
    not_under: _Several = option((), "Not this concept, nor any below it; may be repeated.")
    ecl: str | None = option(None, "Only concepts that an expression constraint selects, such as '<< A MINUS << B'.")
    prefer: Annotated[
        _Several, AfterValidator(lambda values: tuple(filter(None, map(str.strip, ",".join(values).split(",")))))
    ] = option(
        (),
        "Sources, semantic types or kinds of thing whose concept is linked where several have the "
        "same name, first one first, such as SNOMEDCT_US,finding  [default: as loaded]",
    )
    presume: bool = option(True, "Take concepts of two sources that share names and kind for one.")
    resolve: Literal["none", "first"] = option(
        "none", "Link the first candidate of an ambiguous mention, with its share as score, or none."
    )

    ranker: PathOption = option(
        None,
        "Ranker that re-orders the first candidates: a folder of 'medlink train ranker'; or the URL, "
        "or a TOML or JSON file, of a language model, to which mentions and candidates are sent  [default: none]",
    )
    ranker_cache: PathOption = option(
        None, "Folder that keeps the answers of the ranker, under hashes  [default: not kept]"
    )

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
