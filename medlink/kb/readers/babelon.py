"""Reader of translations: Babelon TSV and the two layouts that come beside it.

Three layouts are told apart by their header:

* Babelon: ``subject_id``, ``predicate_id``, ``translation_language``, ``translation_value``;
* the layout of the Human Disease Ontology: ``source_id``, ``predicate``, ``translation_lang``,
  ``translation_text``, with quoted cells as in CSV (the other two have no quoting);
* the ROBOT template of synonyms: ``subject_id``, ``translation_value`` and a second header row whose directive
  (``AL oboInOwl:hasExactSynonym@de SPLIT=|``) gives predicate, language and the mark between values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import open_table
from medlink.kb.readers.common import Format, deprecated
from medlink.kb.readers.table import stem
from medlink.language.tags import language_tag
from medlink.records import Definition, Name, Record, Source

_LABEL = "label"
_DEFINITION = "definition"
_PREDICATES = {
    "rdfs:label": _LABEL,
    "http://www.w3.org/2000/01/rdf-schema#label": _LABEL,
    "IAO:0000115": _DEFINITION,
    "http://purl.obolibrary.org/obo/IAO_0000115": _DEFINITION,
}
_SYNONYM = re.compile(r"(?:oboInOwl:|oio:|http://www\.geneontology\.org/formats/oboInOwl#)has(\w+)Synonym")
_DIRECTIVE = re.compile(r"AL?\s+(\S+?)@([A-Za-z][\w-]*)(?:\s+SPLIT=(\S+))?")


def read_babelon(
    path: str | PathLike[str], *, source: str | None = None, version: str = "", problems: Problems | None = None
) -> Iterator[Record]:
    """Read translated names and definitions.

    Only names and definitions come out, no concepts: a knowledge base keeps those whose concept another input
    brings, and counts the rest as skipped. Memory does not grow with the file.

    Args:
        path: the file, plain or ``.gz``.
        source: name of the source; the file's name without endings when left out.
        version: version of the source.
        problems: where bad rows are counted. Rows without a translation, rows of other predicates and
            translations that say that they are obsolete are counted as skipped.

    Yields:
        The source, then preferred names (``rdfs:label``), synonyms and definitions (``IAO:0000115``).

    Raises:
        InputError: the file cannot be read, is of none of the layouts, or too many rows are bad.
    """
    problems = problems or Problems()
    name = source or stem(path)
    yield Source(name, version, f"{name} (translation)")
    table = open_table(path, problems, separator="\t", quoted_with="translation_text")
    lines, rows = table.lines, table.rows
    at = {column: index for index, column in enumerate(table.header)}
    for columns in (
        ("subject_id", "predicate_id", "translation_language", "translation_value"),
        ("source_id", "predicate", "translation_lang", "translation_text"),
    ):
        if all(column in at for column in columns):
            subject, predicate, language, value = (at[column] for column in columns)
            break
    else:
        if "subject_id" in at and "translation_value" in at:
            yield from _template(lines, at["subject_id"], at["translation_value"], rows, name)
            return
        raise InputError(
            "looked for the columns subject_id, predicate_id, translation_language, translation_value; "
            f"found {', '.join(table.first)[:300]}",
            path=lines.path,
            line=1,
            remedy="give a Babelon TSV",
        )
    for line, cells in rows:
        yield from _records(
            lines,
            line,
            concept_id=cells[subject].strip(),
            predicate=cells[predicate].strip(),
            language=cells[language],
            text=cells[value].strip(),
            source=name,
        )


def _records(
    lines: LineFile, line: int, *, concept_id: str, predicate: str, language: str, text: str, source: str
) -> Iterator[Record]:
    if not text:
        lines.problems.skipped["row without a translation"] += 1
        return
    if not concept_id:
        lines.bad("empty id", line)
        return
    tag = language_tag(language)
    if tag is None:
        lines.bad("unknown language", line, repr(language)[:40])
        return
    if deprecated(text, lines.problems.skipped):
        return
    kind = _PREDICATES.get(predicate)
    synonym = None if kind else _SYNONYM.fullmatch(predicate)
    if kind == _LABEL:
        yield Name(concept_id, text, tag, "preferred", source, True)
    elif kind == _DEFINITION:
        yield Definition(concept_id, text, tag, source)
    elif synonym:
        yield Name(concept_id, text, tag, synonym[1].lower(), source)
    else:
        lines.problems.skipped["row of another predicate"] += 1


def _template(
    lines: LineFile, subject: int, value: int, rows: Iterator[tuple[int, list[str]]], source: str
) -> Iterator[Record]:
    second = next(rows, None)
    found = _DIRECTIVE.match(second[1][value]) if second else None
    if found is None:
        raise InputError(
            "looked for a second header row with a directive such as 'AL oboInOwl:hasExactSynonym@de SPLIT=|'; "
            f"found {second[1][value][:80]!r}"
            if second
            else "there is no second header row",
            path=lines.path,
            line=2,
            remedy="give a Babelon TSV, or a ROBOT template with a language",
        )
    lines.header = 2
    predicate, language, separator = found[1], found[2], found[3]
    for line, cells in rows:
        texts = cells[value].split(separator) if separator else [cells[value]]
        for text in texts:
            yield from _records(
                lines,
                line,
                concept_id=cells[subject].strip(),
                predicate=predicate,
                language=language,
                text=text.strip(),
                source=source,
            )


FORMAT = Format(
    "babelon", read_babelon, "--babelon", "Translations (Babelon TSV) of concepts from the other inputs.", 80
)
