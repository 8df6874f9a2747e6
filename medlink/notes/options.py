"""Options of finding mentions and of linking notes: declared once, for library, spaCy component and command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from medlink.linking.options import LinkOptions
from medlink.settings import Settings


def _detector(value: Any) -> Any:
    """``True`` and ``False`` as the words they stand for."""
    return {True: "builtin", False: "none"}[value] if isinstance(value, bool) else value


Detector = Annotated[
    Literal["builtin", "scispacy", "none"],
    BeforeValidator(_detector),
    Field(
        description="Who finds the abbreviations that a note explains: medlink's own detector, scispaCy's, which comes "
        "with medlink[scispacy], or none."
    ),
]


class FinderOptions(Settings):
    """What :class:`medlink.notes.finder.MentionFinder` can be told.

    >>> FinderOptions(abbreviations=True).abbreviations, FinderOptions(abbreviations=False).abbreviations
    ('builtin', 'none')
    """

    language: Annotated[str | None, Field(description="Language of the notes.")] = None
    other_languages: Annotated[
        bool,
        Field(description="Also find names of the bundle's other languages, such as Latin terms in a German note."),
    ] = True
    semantic_types: Annotated[
        tuple[str, ...], Field(strict=False, description="Only concepts of this semantic type; may be repeated.")
    ] = ()
    abbreviations: Detector = "builtin"


class NoteOptions(LinkOptions, FinderOptions):
    """What :func:`medlink.link_notes` can be told about finding and linking."""

    language: Annotated[str | None, Field(description="Language of all notes  [default: found out for each note]")] = (
        None
    )

    @property
    def finder(self) -> FinderOptions:
        """The part that the finder needs."""
        return FinderOptions(**{name: getattr(self, name) for name in FinderOptions.model_fields})

    @property
    def linker(self) -> dict[str, Any]:
        """The part that the linker needs; each mention names its language."""
        return {name: getattr(self, name) for name in LinkOptions.model_fields if name != "language"}
