"""Reader of scispaCy's knowledge bases: JSON lines with a concept each.

The fields are those of ``scispacy.linking_utils.Entity``: ``concept_id``, ``canonical_name``, ``aliases``, and
optionally ``types`` (TUIs of UMLS semantic types) and ``definition``.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

from medlink.errors import ConfigError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import Format, deprecated
from medlink.kb.readers.table import is_id, stem
from medlink.language.tags import language_tag
from medlink.records import Concept, Definition, Name, Record, SemanticType, Source


def read_scispacy(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str = "",
    language: str = "en",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a knowledge base of scispaCy.

    ``canonical_name`` is the preferred name, ``aliases`` are synonyms. A type is a semantic type by its code, since
    the file has no names of types. Memory grows with one concept.

    Args:
        path: the file, plain or ``.gz``.
        source: name of the source; the file's name without endings when left out.
        version: version of the source.
        language: language of names and definitions, English in all that scispaCy offers.
        problems: where bad and left-out lines are counted.

    Yields:
        The source, then concepts, names, semantic types and definitions.

    Raises:
        InputError: the file cannot be read, or too many lines are bad.
        ConfigError: ``language`` is no known language.
    """
    problems = problems or Problems()
    tag = language_tag(language)
    if tag is None:
        raise ConfigError(f"unknown language {language!r}", remedy="give a BCP 47 tag, such as en")
    lines = LineFile(path, problems)
    name = source or stem(path)
    yield Source(name, version, name)
    for line, entry in read_json_lines(lines):
        concept_id, label, aliases, types, definition = _fields(entry)
        if concept_id is None or label is None or aliases is None or types is None:
            lines.bad("no concept with an id, a name and aliases", line)
        elif not deprecated(label, problems.skipped, "concept"):
            yield Concept(concept_id, name)
            yield Name(concept_id, label, tag, "preferred", name, True)
            for alias in aliases:
                if alias.strip() and alias != label:
                    yield Name(concept_id, alias, tag, "synonym", name)
            for code in types:
                yield SemanticType(concept_id, code, code, name)
            if definition:
                yield Definition(concept_id, definition, tag, name)


def _fields(entry: dict[str, Any]) -> tuple[str | None, str | None, list[str] | None, list[str] | None, str]:
    """The fields of a concept, ``None`` for one that is missing or is something else."""

    def text(key: str) -> str | None:
        """A field that is text."""
        value = entry.get(key)
        return value.strip() or None if isinstance(value, str) else None

    def texts(key: str, default: list[str] | None) -> list[str] | None:
        """A field that is a list of texts."""
        value = entry.get(key, default)
        return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else None

    concept_id = text("concept_id")
    known = concept_id if concept_id and is_id(concept_id) else None
    return known, text("canonical_name"), texts("aliases", None), texts("types", []), text("definition") or ""


FORMAT = Format("scispacy", read_scispacy, "--scispacy", "Knowledge base of scispaCy (JSON lines).", 60)
