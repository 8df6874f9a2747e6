"""Reader of scispaCy knowledge bases: JSON lines with the fields of ``scispacy.linking_utils.Entity``."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike

from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import Format, base_name, is_deprecated, is_valid_id, resolve_language
from medlink.records import Concept, Definition, Name, Record, SemanticType, Source

_TEXTS = ("concept_id", "canonical_name", "definition")


def read_scispacy(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str = "",
    language: str = "en",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a scispaCy knowledge base; ``source`` defaults to the base name of the file.

    ``canonical_name`` becomes the preferred name, ``aliases`` become synonyms. Semantic types are codes, since the
    file does not name them. Memory grows with one concept.
    """
    problems = problems or Problems()
    tag = resolve_language(language)
    lines, name = LineFile(path, problems), source or base_name(path)
    yield Source(name, version, name)
    for line, entry in read_json_lines(lines):
        problems.position = lines.path, line
        concept_id, label, definition = (_text(entry.get(key)) for key in _TEXTS)
        aliases, types = entry.get("aliases", ""), entry.get("types", [])
        if not is_valid_id(concept_id) or not label or not _texts(aliases) or not _texts(types):
            lines.bad_row("no concept with an id, a name and aliases", line)
        elif not is_deprecated(label, problems.skipped, "concept"):
            yield Concept(concept_id, name)
            yield Name(concept_id, label, tag, "preferred", name, True)
            for alias in aliases:
                if alias.strip() and alias != label:
                    yield Name(concept_id, alias, tag, "synonym", name)
            for code in types:
                yield SemanticType(concept_id, code, code, name)
            if definition:
                yield Definition(concept_id, definition, tag, name)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


FORMAT = Format("scispacy", read_scispacy, "--scispacy", "Knowledge base of scispaCy (JSON lines).", 60)
