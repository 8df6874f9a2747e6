"""Small bundles of names, the mentions of a note that they give, and the rows of ``cases.tsv``."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.pipeline import LinkedMention, NotePipeline
from medlink.notes.reading import Note


def cases(test: str) -> list[tuple[str, str, Any]]:
    """The rows of a test: language, text, and what is wanted, as JSON."""
    sections = Path(__file__).with_name("cases.tsv").read_text("utf-8").split("## ")
    (lines,) = (rest for name, _, rest in (section.partition("\n") for section in sections) if name == test)
    rows = (line.split("\t") for line in lines.splitlines() if not line.startswith("# "))
    return [(language, text.replace("\\n", "\n"), json.loads(wanted)) for language, text, wanted in rows]


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
