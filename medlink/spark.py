"""``link_notes``: link the notes of a Spark DataFrame, one partition at a time in each Python worker.

Spark passes notes and ids as bytes: a text that is not UTF-8 becomes a row with a problem, and does not fail the job.
pandas would turn integers with missing values into 64-bit floats, which changes long ids.
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
from typing import TYPE_CHECKING, Any

from medlink.bundles.paths import find_inner_bundles
from medlink.errors import BundleError, ConfigError, InputError, MedlinkError, describe_unexpected, needs_extra
from medlink.index import Bundle
from medlink.notes.link import logger, option_warnings
from medlink.notes.options import NoteOptions
from medlink.notes.pipeline import LinkedNote, NotePipeline, link_all
from medlink.notes.reading import Note
from medlink.notes.writers.rows import COLUMNS, LISTS, mention_row
from medlink.records import Candidate

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # pandas ships no types
    from pyspark.sql import Column, DataFrame

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
"""Endings of archives that Spark unpacks on every executor."""
LANGUAGE = "language"
"""Default name of the column with the language of each note."""
_SQL: dict[object, str] = {
    str: "string", int: "int", float: "double", bool: "boolean", "str": "string", "float": "double",
    "tuple[str, ...]": "array<string>",
}  # fmt: skip


def _sql(kind: Any) -> str:
    if not isinstance(kind, dict):
        return _SQL[kind]
    return f"struct<{', '.join(f'`{name}`: {_sql(field)}' for name, field in kind.items())}>"


_TYPES = {name: f"array<{_sql(LISTS[name])}>" if kind is list else _sql(kind) for name, kind in COLUMNS.items()}
_TYPES |= {"note": "binary", "nil": "boolean"}
_TYPES["candidates"] = f"array<{_sql({field.name: field.type for field in fields(Candidate)})}>"
_COLUMNS = (
    "note", "start", "end", "text", "language", "concept_id", "preferred_name", "score", "nil", "status", "presence",
    "temporality", "experiencer", "section", "relative", "onset_age", "allergy", "attributes", "value", "codes",
    "bundle", "same_as", "presumed", "expanded", "candidates", "versions", "problem", "remedy",
)  # fmt: skip
_KINDS = {"string": "a text", "binary": "bytes", "decimal": "a decimal", "integral": "a whole number"}
_SCHEMA = ", ".join(f"`{name}` {_TYPES.get(name, 'string')}" for name in _COLUMNS)


def link_notes(
    df: DataFrame, bundle: Bundle | str | Path, *,
    text: str = "text", id: str = "id", language_column: str | None = None, **options: Any,
) -> DataFrame:  # fmt: skip
    """Link the mentions of the notes of a DataFrame to the concepts of a bundle.

    Like every Spark transformation, this function is lazy. Each Python worker opens the bundle once. The links equal
    those of :func:`medlink.link_notes` with the same options, however the notes are partitioned.

    Args:
        df: one row for each note.
        bundle: a folder that has the same path on driver and executors, or an archive of a bundle (:data:`ARCHIVES`),
            which each executor unpacks once. The archive is a file or a URL that Spark can read.
        text: column with the text: a string, or bytes in UTF-8.
        id: column with the id of a note: a string, an integer or a decimal; returned as ``note``.
        language_column: column with the language of each note; default: ``language`` if it exists.
        options: fields of :class:`~medlink.notes.options.NoteOptions`; executors must be able to read the files of
            ``learned`` and ``ranker``.

    Returns:
        One row for each mention, with the fields of the JSON lines of ``medlink link``: ``candidates`` and
        ``attributes`` are arrays of structs, ``versions`` is JSON, ``note`` has the type of the id. A note that cannot
        be read is one row with ``note``, ``problem`` and ``remedy``; in all other rows, the last two are empty.

    Raises:
        ConfigError: an option or a column is invalid, or pyspark is not installed.
        BundleError: the driver cannot open the bundle. If an executor finds no bundle or another bundle, the job fails
            with the same error, wrapped by Spark.
        InputError: the archive does not exist, or the learned mentions cannot be read.
    """
    with needs_extra("spark", "medlink.spark"):
        import pandas  # noqa: F401 # Spark imports it only when the job runs
        import pyarrow  # noqa: F401
        from pyspark.sql import functions

    known = NoteOptions(**options)
    columns = {"note": _column(df, "id", id, ("string", "integral", "decimal"))}
    columns["text"] = _column(df, "text", text, ("string", "binary"))
    if language_column is not None or LANGUAGE in df.columns:
        columns["language"] = _column(df, "language_column", language_column or LANGUAGE, ("string",))
    location = _locate(df, bundle)
    pipeline = NotePipeline(location.folder(), **dict(known))
    for sentence in option_warnings(pipeline):
        logger.warning(sentence)
    link = partial(link_partition, location, tuple(known), _versions(pipeline))
    bytes_of = [column.cast("string").cast("binary").alias(name) for name, column in columns.items()]
    links = df.select(*bytes_of).mapInPandas(link, _SCHEMA)
    return links.withColumn("note", functions.col("note").cast("string").cast(df.schema[id].dataType))


@dataclass(frozen=True, slots=True)
class BundleLocation:
    """Where an executor finds the bundle: a path or, if ``shipped``, the name of an unpacked archive."""

    path: str
    shipped: bool

    def folder(self) -> Path:
        """Return the folder on this machine; an archive may contain the folder or only its contents."""
        if not self.shipped:
            return Path(self.path)
        with needs_extra("spark", "medlink.spark"):
            from pyspark import SparkFiles

        folder = Path(SparkFiles.get(self.path))
        inside = find_inner_bundles(folder) or [folder]
        return inside[0] if len(inside) == 1 else folder


def _locate(df: DataFrame, bundle: Bundle | str | Path) -> BundleLocation:
    given = str(bundle.folder if isinstance(bundle, Bundle) else bundle)
    if not given.lower().endswith(ARCHIVES) or Path(given).is_dir():
        return BundleLocation(str(Path(given).absolute()), shipped=False)
    facts, url = [given], given
    if not re.match(r"[a-z][a-z0-9+.-]+:/", given):  # a URL such as hdfs://host/b.tar or dbfs:/b.tar
        path = Path(given).absolute()
        if not path.is_file():
            raise InputError("no such file", path=given, remedy="name the folder of a bundle, or an archive of one")
        status = path.stat()
        facts, url = [str(path), str(status.st_size), str(status.st_mtime_ns)], path.as_uri()
    # a changed archive gets a new name: running jobs may still read the old one
    name = f"medlink-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"
    df.sparkSession.sparkContext.addArchive(f"{url}#{name}")
    return BundleLocation(name, shipped=True)


def _column(df: DataFrame, option: str, name: str, allowed: Sequence[str]) -> Column:
    """Return a column by name, quoted: Spark would read dots as a path into a struct."""
    with needs_extra("spark", "medlink.spark"):
        from pyspark.sql import functions
        from pyspark.sql.types import DecimalType, IntegralType

    types = [field.dataType for field in df.schema.fields if field.name == name]
    if len(types) != 1:
        number = f"{len(types)} columns" if types else "no column"
        remedy = f"name another one with {option}=..., out of {', '.join(map(repr, df.columns))}"
        raise ConfigError(f"{option} is {name!r}, the notes have {number} of that name", remedy=remedy)
    kind = types[0]
    families = {"integral": IntegralType, "decimal": DecimalType}
    family = next((name for name, base in families.items() if isinstance(kind, base)), kind.typeName())
    if family not in allowed:
        expected = " or ".join(map(_KINDS.__getitem__, allowed))
        remedy = "cast the column, or name another one"
        raise ConfigError(f"the column {name!r} is {kind.simpleString()}, {expected} expected", remedy=remedy)
    return functions.col("`" + name.replace("`", "``") + "`")


def _versions(pipeline: NotePipeline) -> str:
    return json.dumps(pipeline.versions, ensure_ascii=False)


def link_partition(
    location: BundleLocation, options: tuple[tuple[str, Any], ...], versions: str, frames: Iterable[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Link the notes of a partition, which Spark passes as frames of a few thousand rows each."""
    with needs_extra("spark", "medlink.spark"):
        import pandas as pd

    try:
        pipeline = _open_pipeline(location.folder(), options, versions)
        bundle = str(pipeline.bundle.manifest["hash"])
        ids = deque[bytes | None]()
        for batch in link_all(pipeline, _notes(frames, ids)):
            rows = [mention for linked in batch for mention in _rows(ids.popleft(), linked, versions, bundle)]
            yield pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object)
    except MedlinkError:
        raise
    except Exception as error:
        # Spark logs error messages, and the driver shows them: an unexpected message may contain text of a note
        raise MedlinkError(describe_unexpected(error), remedy="report it; nothing of a note is in this line") from None


@lru_cache(maxsize=1)
def _open_pipeline(folder: Path, options: tuple[tuple[str, Any], ...], versions: str) -> NotePipeline:
    pipeline = NotePipeline(folder, **dict(options))
    if _versions(pipeline) != versions:
        message = "the bundle, the learned mentions, the ranker or medlink itself is another one than on the driver"
        raise BundleError(message, path=folder, remedy="give all executors what the driver has")
    return pipeline


def _notes(frames: Iterable[pd.DataFrame], ids: deque[bytes | None]) -> Iterator[Note]:
    """Yield the notes of frames of bytes, and append their ids to ``ids``."""
    for frame in frames:
        languages = frame["language"] if "language" in frame else [None] * len(frame)
        for note_id, text, language in zip(frame["note"], frame["text"], languages, strict=True):
            ids.append(None if note_id is None else bytes(note_id))
            if text is None:
                yield Note("", problem="no text", remedy="leave out rows whose text is null")
                continue
            try:
                tag = None if language is None else bytes(language).decode("utf-8", "backslashreplace")
                yield Note("", bytes(text).decode("utf-8"), tag)
            except UnicodeDecodeError as error:
                remedy = "decode it with Spark's decode(column, charset), in the encoding that it has"
                yield Note("", problem=f"not UTF-8 at byte {error.start}", remedy=remedy)


def _rows(note_id: bytes | None, linked: LinkedNote, versions: str, bundle: str) -> Iterator[dict[str, Any]]:
    none = dict.fromkeys(_COLUMNS)  # pandas would fill missing columns with NaN
    if linked.note.problem is not None:
        yield {**none, "note": note_id, "problem": linked.note.problem, "remedy": linked.note.remedy}
    for mention in linked.mentions:
        yield {
            **none,
            **mention_row(linked.note, linked.language, mention, bundle),
            "note": note_id,
            "nil": mention.link.nil,
            "candidates": [candidate.to_dict() for candidate in mention.link.candidates],
            "versions": versions,
        }
