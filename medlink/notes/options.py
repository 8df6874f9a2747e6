"""Options of linking notes: declared once, for library, spaCy component and command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from medlink.linking.options import LinkOptions, known_tag, named_day, named_place
from medlink.reading.options import FinderOptions
from medlink.settings import Settings


def for_linker(options: LinkOptions, language: str | None) -> dict[str, Any]:
    """What of some options :class:`medlink.Linker` is told, with the language of mentions that name none."""
    return {name: getattr(options, name) for name in LinkOptions.model_fields} | {"language": language}


class NoteOptions(LinkOptions, FinderOptions):
    """What :func:`medlink.link_notes` can be told about finding and linking."""

    language: Annotated[str | None, Field(description="Language of all notes  [default: found out for each note]")] = (
        None
    )

    finder: Annotated[
        str | None,
        AfterValidator(lambda given: named_place("finder", given)),
        Field(
            description="spaCy pipeline, a package or a folder, whose entities are judged, linked and qualified in "
            "place of what medlink finds  [default: medlink finds mentions]"
        ),
    ] = None
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
        str | None, Field(description="Table of the output in a database  [default: links; note_nlp for that format]")
    ] = None


class LearnOptions(Settings):
    """What :func:`medlink.notes.learning.learn` can be told."""

    language: Annotated[
        str | None,
        AfterValidator(known_tag),
        Field(description="Language of all notes  [default: that of the file, else found out for each note]"),
    ] = None
    least_seen: Annotated[
        int, Field(ge=1, description="Notes that a mention must be in: what is in fewer may be the name of a person.")
    ] = 2
    least_share: Annotated[
        float, Field(ge=0, le=1, description="Share of its places at which a mention must have been the same.")
    ] = 0.5
