"""Options of finding mentions and of linking notes: declared once, for library, spaCy component and command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from medlink.linking.options import LinkOptions, known_tag, named_day, named_place
from medlink.settings import Settings

Detector = Annotated[
    Literal["builtin", "scispacy", "none"],
    BeforeValidator(lambda value: ("none", "builtin")[value] if isinstance(value, bool) else value),
    Field(
        description="Who finds the abbreviations that a note explains: medlink's own detector, scispaCy's, which comes "
        "with medlink[scispacy], or none."
    ),
]


Qualify = Annotated[
    bool,
    Field(
        description="Read whether each mention is present, absent or uncertain, of now or before, of the patient or "
        "another person, and its section; a heading is then no mention."
    ),
]


class FinderOptions(Settings):
    """What :class:`medlink.notes.finder.MentionFinder` can be told.

    >>> FinderOptions(abbreviations=True).abbreviations, FinderOptions(abbreviations=False).abbreviations
    ('builtin', 'none')
    """

    language: Annotated[str | None, AfterValidator(known_tag), Field(description="Language of the notes.")] = None
    other_languages: Annotated[
        bool,
        Field(description="Also find names of the bundle's other languages, such as Latin terms in a German note."),
    ] = True
    semantic_types: Annotated[
        tuple[str, ...], Field(strict=False, description="Only concepts of this semantic type; may be repeated.")
    ] = ()
    verbatim: Annotated[
        bool,
        Field(description="Find names only as the bundle writes them, in any inflection; quicker, and finds less."),
    ] = False
    values: Annotated[
        bool,
        Field(description="Also find measured values that are findings, such as 'Hb 7,9' or 'SpO2 88 %'."),
    ] = False
    abbreviations: Detector = "builtin"
    qualifiers: Qualify = True
    present_only: Annotated[
        bool,
        Field(
            description="Leave out mentions that are absent, uncertain or hypothetical, or not of the patient; "
            "what was present before stays."
        ),
    ] = False

    learned: Annotated[
        str | None,
        AfterValidator(lambda given: named_place("learned", given)),
        Field(description="File of mentions that 'medlink learn' learned: what they were there they are here."),
    ] = None

    @model_validator(mode="after")
    def _are_read(self) -> Self:
        if self.present_only and not self.qualifiers:
            raise ValueError("present_only needs qualifiers, which are switched off")
        return self


def for_linker(options: LinkOptions, language: str | None) -> dict[str, Any]:
    """What of some options :class:`medlink.Linker` is told, with the language of mentions that name none."""
    return {name: getattr(options, name) for name in LinkOptions.model_fields} | {"language": language}


class NoteOptions(LinkOptions, FinderOptions):
    """What :func:`medlink.link_notes` can be told about finding and linking."""

    language: Annotated[str | None, Field(description="Language of all notes  [default: found out for each note]")] = (
        None
    )

    map: Annotated[
        tuple[str, ...],
        Field(
            strict=False,
            description="System whose codes are added to each concept, such as ICD10CM, as the bundle maps it; "
            "may be repeated.",
        ),
    ] = ()


class OutputOptions(Settings):
    """What :func:`medlink.link_notes` can be told about its output.

    ``format`` is the name of a file of :mod:`medlink.notes.writers`.
    """

    format: Annotated[
        Literal["brat", "csv", "docbin", "fhir", "jsonl", "note_nlp", "parquet"] | None,
        Field(description="Format of the output  [default: by its ending, else jsonl]"),
    ] = None
    date: Annotated[
        str | None,
        AfterValidator(named_day),
        Field(description="Day of the run, such as 2026-11-30, which note_nlp has in each row."),
    ] = None
    out_table: Annotated[
        str | None,
        Field(description="Table of the output in a database  [default: links; note_nlp for that format]"),
    ] = None


class LearnOptions(Settings):
    """What :func:`medlink.notes.learning.learn` can be told."""

    language: Annotated[
        str | None,
        AfterValidator(known_tag),
        Field(description="Language of all notes  [default: that of the file, else found out for each note]"),
    ] = None
    least_seen: Annotated[
        int,
        Field(ge=1, description="Notes that a mention must be in: what is in fewer may be the name of a person."),
    ] = 2
    least_share: Annotated[
        float, Field(ge=0, le=1, description="Share of its places at which a mention must have been the same.")
    ] = 0.5
