"""Options for linking notes, declared once for library, spaCy component and command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from medlink.linking.options import LinkOptions, check_path, parse_date, parse_language
from medlink.reading.options import FinderOptions
from medlink.settings import Settings


def linker_options(options: LinkOptions, language: str | None) -> dict[str, Any]:
    """Return the options of :class:`medlink.Linker`; ``language`` applies to mentions that state none."""
    return {name: getattr(options, name) for name in LinkOptions.model_fields} | {"language": language}


class NoteOptions(LinkOptions, FinderOptions):
    """Options of :func:`medlink.link_notes` for finding and linking."""

    language: Annotated[str | None, Field(description="Language of all notes  [default: detected for each note]")] = (
        None
    )

    finder: Annotated[
        str | None,
        AfterValidator(lambda given: check_path("finder", given)),
        Field(
            description="spaCy pipeline, a package or a folder, whose entities replace the mentions of medlink  "
            "[default: medlink finds mentions]"
        ),
    ] = None
    map: Annotated[
        tuple[str, ...],
        Field(
            strict=False,
            description="System whose codes are added to each concept by the mappings of the bundle, such as ICD10CM; "
            "may be repeated.",
        ),
    ] = ()


class OutputOptions(Settings):
    """Options of :func:`medlink.link_notes` for its output.

    ``format`` is the name of a writer in :mod:`medlink.notes.writers`.
    """

    format: Annotated[
        Literal["brat", "csv", "docbin", "fhir", "jsonl", "note_nlp", "parquet", "text"] | None,
        Field(description="Format of the output  [default: by its ending, else jsonl; text on a terminal]"),
    ] = None
    date: Annotated[
        str | None,
        AfterValidator(parse_date),
        Field(description="Day of the run for the rows of note_nlp, such as 2026-11-30."),
    ] = None
    ids: Annotated[
        str | None,
        AfterValidator(lambda given: check_path("ids", given)),
        Field(
            description="Table with the columns name and note_id: the ids of notes that are text files  "
            "[default: their paths; for note_nlp the number that is the name of the file]"
        ),
    ] = None
    out_table: Annotated[
        str | None, Field(description="Table of the output in a database  [default: links; note_nlp for that format]")
    ] = None


class LearnOptions(Settings):
    """Options of :func:`medlink.notes.learning.learn`."""

    language: Annotated[
        str | None,
        AfterValidator(parse_language),
        Field(description="Language of all notes  [default: that of the file, else detected for each note]"),
    ] = None
    least_seen: Annotated[
        int, Field(ge=1, description="Lowest number of notes with a mention: a rarer one may be the name of a person.")
    ] = 2
    least_share: Annotated[
        float, Field(ge=0, le=1, description="Lowest share of occurrences in which a mention has the same meaning.")
    ] = 0.5
