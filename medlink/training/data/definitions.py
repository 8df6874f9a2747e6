"""Reader of a table of definitions: texts for concepts that a knowledge base has already.

Such as the Automatic Glossary of Clinical Terminology (Remy et al. 2023), whose ids are those of SNOMED CT: in a
knowledge base made of UMLS, :func:`definitions_by_code` finds their concepts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike

from sqlalchemy import bindparam, select

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.files.tables import Table, found_columns, open_table
from medlink.kb import schema
from medlink.kb.queries import given
from medlink.kb.readers.common import stem
from medlink.kb.reading import Reader
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import language_tag, named_tag
from medlink.records import Definition
from medlink.training.data.batches import in_parts

_COLUMNS = {"concept": ("concept_id", "id"), "text": ("definition", "text"), "language": ("language",)}
_PART = 10_000
_MAPPED = (
    select(schema.mapping.c.code, schema.mapping.c.concept_id)
    .where(schema.mapping.c.system == bindparam("system"), schema.mapping.c.code.in_(given("codes")))
    .distinct()
    .order_by(schema.mapping.c.code, schema.mapping.c.concept_id)
)


def read_definitions(
    path: str | PathLike[str], *, language: str = "en", problems: Problems | None = None
) -> Iterator[Definition]:
    """Read a table with one definition in each row.

    Columns are found by their header: ``concept_id`` (or ``id``), ``definition`` (or ``text``) and optionally
    ``language``; others are left out with a note. The source is the file's name without endings.

    Args:
        path: TSV or CSV, plain or ``.gz``.
        language: language of rows that name none.
        problems: where bad rows are counted.

    Raises:
        InputError: the file cannot be read, lacks a column or has one twice, or too many rows are bad.
        ConfigError: ``language`` is no known language.
    """
    problems = problems or Problems()
    default = named_tag(language)
    table = open_table(path, problems)
    places = {kind: _place(table, names) for kind, names in _COLUMNS.items()}
    concept_at, text_at, language_at = places.values()
    if concept_at is None or text_at is None:
        missing = [names[0] for kind, names in _COLUMNS.items() if kind != "language" and places[kind] is None]
        raise table.error(
            f"looked for the columns concept_id (or id) and definition (or text); found {found_columns(table.first)}",
            f"name the columns in the first line; {' and '.join(missing)} must be there",
        )
    unused = [name for at, name in enumerate(table.header) if at not in places.values()]
    if unused:
        problems.notes.append(f"{table.lines.path}: columns left out: {', '.join(unused)[:300]}")
    source = stem(path)
    for line, cells in table.rows:
        concept_id, text = cells[concept_at].strip(), " ".join(cells[text_at].split())
        if not concept_id or not text:
            table.lines.bad("empty id or definition", line)
            continue
        code = cells[language_at].strip() if language_at is not None else ""
        tag = language_tag(code) if code else default
        if tag is None:
            table.lines.bad("unknown language", line, repr(code)[:40])
        else:
            yield Definition(concept_id, text, tag, source)


def definitions_by_code(kb: KnowledgeBase, definitions: Iterable[Definition], system: str) -> Iterator[Definition]:
    """The same definitions under the ids of the concepts to which their codes of another system lead.

    The system is one of the mappings of ``kb``, such as ``SNOMEDCT_US`` in a knowledge base made of UMLS. A code
    without a mapping is given as it is.

    Raises:
        ConfigError: the knowledge base has no code of that system.
    """
    reader = Reader(kb.path)
    some = select(schema.mapping.c.id).where(schema.mapping.c.system == bindparam("system")).limit(1)
    if not reader.rows(some, system=system):
        remedy = "name the system as the mappings of the knowledge base do, such as SNOMEDCT_US"
        raise ConfigError(f"the knowledge base has no codes of the system {system!r}", path=kb.path, remedy=remedy)
    for part in in_parts(definitions, _PART):
        concepts: dict[str, list[str]] = defaultdict(list)
        codes = json.dumps(sorted({record.concept_id for record in part}))
        for code, concept_id in reader.rows(_MAPPED, system=system, codes=codes):
            concepts[code].append(concept_id)
        for record in part:
            for concept_id in concepts.get(record.concept_id, [record.concept_id]):
                yield replace(record, concept_id=concept_id)
    reader.close()


def _place(table: Table, names: Sequence[str]) -> int | None:
    """Where the one column of these names stands, ``None`` where there is none."""
    found = [name for name in names if table.has([name])]
    if len(found) > 1:
        raise table.error(f"a column for the {names[0]} is there twice", "rename or delete one of them")
    return table.places(found)[0] if found else None
