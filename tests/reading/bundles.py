"""Small bundles of names, and the mentions of a note that they give."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.pipeline import LinkedMention, NotePipeline
from medlink.notes.reading import Note


def bundle_of(
    folder: Path, *rows: str, columns: str = "concept_id\tname\tlanguage", **sources: tuple[str, ...]
) -> Path:
    """A bundle of the rows of one table, or of several named sources."""
    tables = sources or {"names": rows}
    for name, table in tables.items():
        (folder / f"{name}.tsv").write_text("\n".join([columns, *table, ""]), "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / f"{name}.tsv") for name in tables])
    build_bundle(folder / "bundle", kb=folder / "kb.sqlite")
    return folder / "bundle"


@lru_cache(8)
def _pipeline(bundle: Path | Bundle, language: str, options: tuple[tuple[str, Any], ...]) -> NotePipeline:
    return NotePipeline(bundle, language=language, **dict(options))


def mentions(bundle: Path | Bundle, text: str, language: str, **options: Any) -> list[LinkedMention]:
    key = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in options.items())
    (note,) = _pipeline(bundle, language, key).link([Note("n", text)])
    return list(note.mentions)


def presence(found: list[LinkedMention]) -> list[str | None]:
    return [mention.qualifiers and mention.qualifiers.presence for mention in found]
