"""Small bundles of names, and what is found in a note with them."""

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
    """A bundle of rows of one table, or of those of some named sources."""
    tables = sources or {"names": rows}
    for name, own in tables.items():
        (folder / f"{name}.tsv").write_text("\n".join([columns, *own, ""]), "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / f"{name}.tsv") for name in tables])
    build_bundle(folder / "bundle", kb=folder / "kb.sqlite")
    return folder / "bundle"


@lru_cache(8)
def _pipeline(bundle: Path | Bundle, language: str, options: tuple[tuple[str, Any], ...]) -> NotePipeline:
    return NotePipeline(bundle, language=language, **dict(options))


def mentions(bundle: Path | Bundle, text: str, language: str, **options: Any) -> list[LinkedMention]:
    held = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in options.items())
    (note,) = _pipeline(bundle, language, held).link([Note("n", text)])
    return list(note.mentions)


def presence(found: list[LinkedMention]) -> list[str | None]:
    return [one.qualifiers and one.qualifiers.presence for one in found]
