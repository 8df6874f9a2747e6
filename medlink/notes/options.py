"""Options for linking notes, declared once for library, spaCy component and command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator

from medlink.linking.options import LanguageOption, LinkOptions, PathOption, parse_date
from medlink.reading.options import FinderOptions
from medlink.settings import Settings, option

FORMATS: dict[str, tuple[str, ...]] = {
    "brat": ("folders.BratWriter",),
    "csv": ("rows.CsvWriter", ".csv"),
    "docbin": ("folders.DocBinWriter",),
    "fhir": ("fhir.FhirWriter", ".fhir.ndjson"),
    "jsonl": ("rows.JsonLinesWriter", ".jsonl", ".ndjson"),
    "note_nlp": ("note_nlp.NoteNlpWriter",),
    "parquet": ("rows.ParquetWriter", ".parquet"),
    "text": ("readable.ReadableWriter", ".txt"),
}
"""For each format of links its class in :mod:`medlink.notes.writers`, and the endings that name it."""
if TYPE_CHECKING:
    _FormatName = str
else:
    _FormatName = Literal[tuple(FORMATS)]


def linker_options(options: LinkOptions, language: str | None) -> dict[str, Any]:
    """Return the options of :class:`medlink.Linker`; ``language`` applies to mentions that state none."""
    return {name: getattr(options, name) for name in LinkOptions.model_fields} | {"language": language}


class NoteOptions(LinkOptions, FinderOptions):
    """Options of :func:`medlink.link_notes` for finding and linking."""

    language: str | None = option(None, "Language of all notes  [default: detected for each note]")

    finder: PathOption = option(
        None,
        "spaCy pipeline, a package or a folder, whose entities replace the mentions of medlink  "
        "[default: medlink finds mentions]",
    )
    map: tuple[str, ...] = option(
        (),
        "System whose codes are added to each concept by the mappings of the bundle, such as ICD10CM; may be repeated.",
        strict=False,
    )


class OutputOptions(Settings):
    """Options of :func:`medlink.link_notes` for its output; ``format`` is one of ``FORMATS``."""

    format: _FormatName | None = option(
        None, "Format of the output  [default: by its ending, else jsonl; text on a terminal]"
    )
    date: Annotated[str | None, AfterValidator(parse_date)] = option(
        None, "Day of the run for the rows of note_nlp, such as 2026-11-30."
    )
    ids: PathOption = option(
        None,
        "Table with the columns name and note_id: the ids of notes that are text files  "
        "[default: their paths; for note_nlp the number that is the name of the file]",
    )
    out_table: str | None = option(
        None, "Table of the output in a database  [default: links; note_nlp for that format]"
    )


class LearnOptions(Settings):
    """Options of :func:`medlink.notes.learning.learn`."""

    language: LanguageOption = option(
        None, "Language of all notes  [default: that of the file, else detected for each note]"
    )
    least_seen: int = option(2, "Lowest number of notes with a mention: a rarer one may be the name of a person.", ge=1)
    least_share: float = option(0.5, "Lowest share of occurrences in which a mention has the same meaning.", ge=0, le=1)
