"""``link_notes``: the notes of a Spark DataFrame to a DataFrame of links, a partition at a time on every executor.

Notes and ids travel as bytes: a text that is not UTF-8 is then one row with its problem and not the end of the job, and
an id comes back as it was. pandas would turn integers with a missing one into 64-bit floats, which change long ids.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from medlink.bundles.paths import bundles_instead
from medlink.errors import BundleError, ConfigError, InputError, MedlinkError, needs_extra
from medlink.index import Bundle
from medlink.notes.link import gaps_of, logger
from medlink.notes.options import NoteOptions
from medlink.notes.pipeline import LinkedNote, NotePipeline, link_all
from medlink.notes.reading import Note
from medlink.notes.writers.rows import COLUMNS, LISTS, row
from medlink.records import Candidate

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    from pyspark.sql import Column, DataFrame

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
"""Endings of what Spark unpacks on every executor."""
LANGUAGE = "language"
"""The column with the language of each note, where none is named."""
_SQL: dict[object, str] = {
    str: "string", int: "int", float: "double", "str": "string", "float": "double", "tuple[str, ...]": "array<string>",
}  # fmt: skip


def _sql(kind: Any) -> str:
    """A type of Spark: of a record that of its fields by their names."""
    if not isinstance(kind, dict):
        return _SQL[kind]
    return f"struct<{', '.join(f'`{name}`: {_sql(of)}' for name, of in kind.items())}>"


_CANDIDATE = {field.name: field.type for field in fields(Candidate)}
_TYPES = {
    **{name: f"array<{_sql(LISTS[name])}>" if kind is list else _sql(kind) for name, kind in COLUMNS.items()},
    "note": "binary",
    "nil": "boolean",
    "candidates": f"array<{_sql(_CANDIDATE)}>",
}
_COLUMNS = (
    "note", "start", "end", "text", "language", "concept_id", "preferred_name", "score", "nil", "status", "presence",
    "temporality", "experiencer", "section", "attributes", "value", "codes", "bundle", "same_as", "presumed",
    "expanded", "candidates", "versions", "problem", "remedy",
)  # fmt: skip
_KINDS = {"string": "a text", "binary": "bytes", "decimal": "a decimal", "integral": "a whole number"}
_SCHEMA = ", ".join(f"`{name}` {_TYPES.get(name, 'string')}" for name in _COLUMNS)


def link_notes(
    df: DataFrame,
    bundle: Bundle | str | Path,
    *,
    text: str = "text",
    id: str = "id",
    language_column: str | None = None,
    **options: Any,
) -> DataFrame:
    """Link the mentions of the notes of a DataFrame to the concepts of a bundle.

    Like every transformation of Spark it does nothing until its rows are asked for. Each Python worker opens the bundle
    once. The links are those of :func:`medlink.link_notes` with the same options, however the notes are partitioned.

    Args:
        df: one row for each note.
        bundle: a folder that the driver and all executors see under one path; or an archive of one (:data:`ARCHIVES`),
            a file or a URL that Spark reads, which is unpacked once on each executor.
        text: the column with the text: a string, or bytes in UTF-8.
        id: the column with the id of a note: a string, a whole number or a decimal; the links have it as ``note``.
        language_column: the column with the language of each note; without it ``language``, where there is one.
        options: fields of :class:`~medlink.notes.options.NoteOptions`; what ``learned`` and ``ranker`` name must be
            seen by all executors.

    Returns:
        One row for each mention, with the fields of the JSON lines of ``medlink link``: ``candidates`` and
        ``attributes`` are arrays of structs, ``versions`` is JSON, ``note`` has the type of the id. A note that cannot
        be read is one row that has ``note``, ``problem`` and ``remedy`` alone; all other rows have neither of the two.

    Raises:
        ConfigError: an option or a column is not what it should be, or pyspark is not installed.
        BundleError: the bundle cannot be opened on the driver. An executor that does not find it, or finds another
            one, ends the job with the same error, as Spark tells it.
        InputError: the archive does not exist, or the learned mentions cannot be read.
    """
    with needs_extra("spark", "medlink.spark"):
        import pandas  # noqa: F401 # Spark asks for it only when the job runs
        import pyarrow  # noqa: F401
        from pyspark.sql import functions

    known = NoteOptions(**options)
    columns = {"note": _column(df, "id", id, ("string", "integral", "decimal"))}
    columns["text"] = _column(df, "text", text, ("string", "binary"))
    if language_column is not None or LANGUAGE in df.columns:
        columns["language"] = _column(df, "language_column", language_column or LANGUAGE, ("string",))
    place = _placed(df, bundle)
    pipeline = NotePipeline(place.folder(), **dict(known))
    for sentence in gaps_of(pipeline):
        logger.warning(sentence)
    work = partial(link_partition, place, tuple(dict(known).items()), _versions(pipeline))
    bytes_of = [column.cast("string").cast("binary").alias(name) for name, column in columns.items()]
    links = df.select(*bytes_of).mapInPandas(work, _SCHEMA)
    id_type = df.schema[id].dataType
    return links.withColumn("note", functions.col("note").cast("string").cast(id_type))


@dataclass(frozen=True, slots=True)
class Place:
    """Where an executor finds the bundle: a path, or the name of what Spark has unpacked."""

    path: str
    shipped: bool

    def folder(self) -> Path:
        """The folder of the bundle on this machine; an archive may hold it, or what is in it."""
        if not self.shipped:
            return Path(self.path)
        with needs_extra("spark", "medlink.spark"):
            from pyspark import SparkFiles

        folder = Path(SparkFiles.get(self.path))
        inside = bundles_instead(folder) or [folder]
        return inside[0] if len(inside) == 1 else folder


def _placed(df: DataFrame, bundle: Bundle | str | Path) -> Place:
    given = str(bundle.folder if isinstance(bundle, Bundle) else bundle)
    if not given.lower().endswith(ARCHIVES) or Path(given).is_dir():
        return Place(str(Path(given).absolute()), shipped=False)
    facts, url = [given], given
    if not re.match(r"[a-z][a-z0-9+.-]+:/", given):  # a URL such as hdfs://host/b.tar or dbfs:/b.tar
        path = Path(given).absolute()
        if not path.is_file():
            raise InputError("no such file", path=given, remedy="name the folder of a bundle, or an archive of one")
        status = path.stat()
        facts, url = [str(path), str(status.st_size), str(status.st_mtime_ns)], path.as_uri()
    # an archive that was written anew gets a place of its own beside the old one, which jobs may still read
    name = f"medlink-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"
    df.sparkSession.sparkContext.addArchive(f"{url}#{name}")
    return Place(name, shipped=True)


def _column(df: DataFrame, option: str, name: str, allowed: Sequence[str]) -> Column:
    """A column of the notes by its name, which Spark would take for a path in a struct where it has dots."""
    with needs_extra("spark", "medlink.spark"):
        from pyspark.sql import functions
        from pyspark.sql.types import DecimalType, IntegralType

    found = [field.dataType for field in df.schema.fields if field.name == name]
    if len(found) != 1:
        said = "no column" if not found else f"{len(found)} columns"
        remedy = f"name another one with {option}=..., out of {', '.join(map(repr, df.columns))}"
        raise ConfigError(f"{option} is {name!r}, the notes have {said} of that name", remedy=remedy)
    kind = found[0]
    families = {"integral": IntegralType, "decimal": DecimalType}
    family = next((name for name, of in families.items() if isinstance(kind, of)), kind.typeName())
    if family not in allowed:
        expected = " or ".join(_KINDS[one] for one in allowed)
        remedy = "cast the column, or name another one"
        raise ConfigError(f"the column {name!r} is {kind.simpleString()}, {expected} expected", remedy=remedy)
    return functions.col("`" + name.replace("`", "``") + "`")


def _versions(pipeline: NotePipeline) -> str:
    return json.dumps(pipeline.versions, ensure_ascii=False)


def link_partition(
    place: Place, options: tuple[tuple[str, Any], ...], versions: str, frames: Iterable[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Link the notes of a partition, which Spark hands over some thousand at a time."""
    with needs_extra("spark", "medlink.spark"):
        import pandas as pd

    try:
        pipeline = _opened(place.folder(), options, versions)
        bundle = str(pipeline.bundle.manifest["hash"])
        ids = deque[bytes | None]()
        for batch in link_all(pipeline, _notes(frames, ids)):
            rows = [one for linked in batch for one in _rows(ids.popleft(), linked, versions, bundle)]
            yield pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object)
    except MedlinkError:
        raise
    except Exception as error:
        # Spark logs messages of errors, and the driver shows them: an unforeseen one may hold text of a note
        *_, (frame, line) = walk_tb(error.__traceback__)
        where = f"{Path(frame.f_code.co_filename).name}:{line}"
        raise MedlinkError(
            f"unforeseen {type(error).__qualname__} at {where}", remedy="report it; nothing of a note is in this line"
        ) from None


@lru_cache(maxsize=1)
def _opened(folder: Path, options: tuple[tuple[str, Any], ...], versions: str) -> NotePipeline:
    pipeline = NotePipeline(folder, **dict(options))
    if _versions(pipeline) != versions:
        raise BundleError(
            "the bundle, the learned mentions, the ranker or medlink itself is another one than on the driver",
            path=folder,
            remedy="give all executors what the driver has",
        )
    return pipeline


def _notes(frames: Iterable[pd.DataFrame], ids: deque[bytes | None]) -> Iterator[Note]:
    """The notes of frames of bytes; their ids are put aside, in their order."""
    for frame in frames:
        languages = frame["language"] if "language" in frame else [None] * len(frame)
        for note_id, text, language in zip(frame["note"], frame["text"], languages, strict=True):
            ids.append(None if note_id is None else bytes(note_id))
            yield _note(text, None if language is None else bytes(language).decode("utf-8", "backslashreplace"))


def _note(text: bytes | None, language: str | None) -> Note:
    if text is None:
        return Note("", problem="no text", remedy="leave out rows whose text is null")
    try:
        return Note("", bytes(text).decode("utf-8"), language)
    except UnicodeDecodeError as error:
        remedy = "decode it with Spark's decode(column, charset), in the encoding that it has"
        return Note("", problem=f"not UTF-8 at byte {error.start}", remedy=remedy)


def _rows(note_id: bytes | None, linked: LinkedNote, versions: str, bundle: str) -> Iterator[dict[str, Any]]:
    # a column that a row did not name would be NaN
    none = dict.fromkeys(_COLUMNS)
    if linked.note.problem is not None:
        yield {**none, "note": note_id, "problem": linked.note.problem, "remedy": linked.note.remedy}
    for mention in linked.mentions:
        yield {
            **none,
            **row(linked.note, linked.language, mention, bundle),
            "note": note_id,
            "nil": mention.link.nil,
            "candidates": [candidate.to_dict() for candidate in mention.link.candidates],
            "versions": versions,
        }
