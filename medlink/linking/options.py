"""The options of linking: declared once, for the library, the spaCy component and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from medlink.language.tags import named_tag
from medlink.settings import Settings

if TYPE_CHECKING:
    from medlink.index import Filter


def known_tag(language: str | None) -> str | None:
    """A language as the knowledge base writes it (``DE``, ``de_AT`` and ``ger`` are ``de``, ``de-at`` and ``de``).

    Raises:
        ConfigError: it is no known language.

    >>> known_tag("ger"), known_tag("de_AT"), known_tag(None)
    ('de', 'de-at', None)
    """
    return named_tag(language) if language else None


class LinkOptions(Settings):
    """What :class:`medlink.Linker` can be told.

    >>> LinkOptions(language="ger", sources=["HPO"]).to_dict()["language"]
    'de'
    """

    k: Annotated[int, Field(ge=1, le=10_000, description="Candidates for each mention.")] = 5
    threshold: Annotated[float, Field(ge=0, le=1, description="Score below which a mention is NIL.")] = 0.5
    language: Annotated[
        str | None,
        AfterValidator(known_tag),
        Field(description="Language of mentions that name none; preferred names are shown in it."),
    ] = None
    languages: Annotated[
        tuple[str, ...], Field(strict=False, description="Only names of this language; may be repeated.")
    ] = ()
    sources: Annotated[
        tuple[str, ...], Field(strict=False, description="Only names of this source; may be repeated.")
    ] = ()
    semantic_types: Annotated[
        tuple[str, ...], Field(strict=False, description="Only concepts of this semantic type; may be repeated.")
    ] = ()

    prefer: Annotated[
        tuple[str, ...],
        AfterValidator(lambda given: tuple(part.strip() for one in given for part in one.split(",") if part.strip())),
        Field(
            strict=False,
            description="Sources whose concept is shown where several have the same, first one first, such as "
            "HOUSE,SNOMEDCT  [default: as loaded]",
        ),
    ] = ()

    @property
    def filter(self) -> Filter:
        """Which names may be candidates."""
        from medlink.index import Filter  # its libraries are not for those who only read the options

        languages, sources, types = (
            tuple(sorted(field)) for field in (self.languages, self.sources, self.semantic_types)
        )
        return Filter(languages, sources, types)
