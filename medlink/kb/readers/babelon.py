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
from medlink.files.tables import Table, open_table
from medlink.kb.readers.common import Format, deprecated, stem
from medlink.language.tags import language_tag
from medlink.records import Definition, Name, Record, Source

_LABELS = ("rdfs:label", "http://www.w3.org/2000/01/rdf-schema#label")
_DEFINITIONS = ("IAO:0000115", "http://purl.obolibrary.org/obo/IAO_0000115")
_LAYOUTS = (
    ("subject_id", "predicate_id", "translation_language", "translation_value"),
    ("source_id", "predicate", "translation_lang", "translation_text"),
)
_TEMPLATE = ("subject_id", "translation_value")
_SYNONYM = re.compile(r"(?:oboInOwl:|oio:|http://www\.geneontology\.org/formats/oboInOwl#)has(\w+)Synonym")
_DIRECTIVE = re.compile(r"AL?\s+(\S+?)@([A-Za-z][\w-]*)(?:\s+SPLIT=(\S+))?")


def read_babelon(
    path: str | PathLike[str], *, source: str | None = None, version: str = "", problems: Problems | None = None
) -> Iterator[Record]:
    """Read translated names and definitions.

    Only names and definitions come out, no concepts: a knowledge base keeps those whose concept another input
    brings, and counts the rest as skipped. Memory does not grow with the file.

    Without ``source`` it is named as the file without its endings. Rows without a translation, rows of other predicates
    and translations that say that they are obsolete are counted as skipped.

    Yields:
        The source, then preferred names (``rdfs:label``), synonyms and definitions (``IAO:0000115``).
    """
    problems = problems or Problems()
    name = source or stem(path)
    yield Source(name, version, f"{name} (translation)")
    table = open_table(path, problems, separator="\t", quoted_with="translation_text")
    for line, concept_id, predicate, language, text in _rows(table):
        problems.at = table.lines.path, line
        tag = language_tag(language)
        synonym = _SYNONYM.fullmatch(predicate)
        if not text:
            problems.skipped["row without a translation"] += 1
        elif not concept_id:
            table.lines.bad("empty id", line)
        elif tag is None:
            table.lines.bad("unknown language", line, repr(language)[:40])
        elif deprecated(text, problems.skipped):
            pass
        elif predicate in _LABELS:
            yield Name(concept_id, text, tag, "preferred", name, True)
        elif predicate in _DEFINITIONS:
            yield Definition(concept_id, text, tag, name)
        elif synonym:
            yield Name(concept_id, text, tag, synonym[1].lower(), name)
        else:
            problems.skipped["row of another predicate"] += 1


def _rows(table: Table) -> Iterator[tuple[int, str, str, str, str]]:
    """Line, id, predicate, language and text of each translation, whatever the layout."""
    for columns in _LAYOUTS:
        if table.has(columns):
            at = table.places(columns)
            for line, cells in table.rows:
                concept_id, predicate, language, text = (cells[place].strip() for place in at)
                yield line, concept_id, predicate, language, text
            return
    if not table.has(_TEMPLATE):
        raise table.error(
            f"looked for the columns {', '.join(_LAYOUTS[0])}; found {', '.join(table.first)[:300]}",
            "give a Babelon TSV",
        )
    subject, value = table.places(_TEMPLATE)
    line, second = next(table.rows, (2, []))
    found = _DIRECTIVE.match(second[value]) if second else None
    if found is None:
        wanted = "looked for a second header row with a directive such as 'AL oboInOwl:hasExactSynonym@de SPLIT=|'"
        message = f"{wanted}; found {second[value][:80]!r}" if second else "there is no second header row"
        remedy = "give a Babelon TSV, or a ROBOT template with a language"
        raise InputError(message, path=table.lines.path, line=line, remedy=remedy)
    table.lines.no_rows += 1
    predicate, language, separator = found.groups()
    for line, cells in table.rows:
        for text in cells[value].split(separator) if separator else [cells[value]]:
            yield line, cells[subject].strip(), predicate, language, text.strip()


FORMAT = Format(
    "babelon", read_babelon, "--babelon", "Translations (Babelon TSV) of concepts from the other inputs.", 80
)
