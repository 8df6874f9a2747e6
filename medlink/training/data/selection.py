"""Select names and definitions for training from a knowledge base and from tables of definitions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from os import PathLike

from sqlalchemy import bindparam, select

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.files.tables import Table, describe_header, open_table
from medlink.kb import schema
from medlink.kb.connection import SqliteReader
from medlink.kb.queries import json_values
from medlink.kb.readers.common import base_name
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import base, language_filter, language_tag, wanted
from medlink.records import FSN, Definition, Name
from medlink.training.data.batches import chunked

OTHER_LANGUAGE = "definition in another language"
UNKNOWN = "definition of no concept here"
_PART = 10_000
_COLUMNS = (("concept_id", "id"), ("definition", "text"), ("language",))
_KNOWN = select(schema.concept.c.concept_id).where(schema.concept.c.concept_id.in_(json_values("concept_ids")))
_MAPPING = schema.mapping.c
_MAPPED = (
    select(_MAPPING.code, _MAPPING.concept_id)
    .where(_MAPPING.system == bindparam("system"), _MAPPING.code.in_(json_values("codes")))
    .distinct()
    .order_by(_MAPPING.code, _MAPPING.concept_id)
)


class Selection:
    """Names and definitions in some ``languages``, ``None`` for all, without those of excluded concepts.

    Languages include their regions; texts without a language are always included. Each pass opens the file again, so
    ``kb`` may be closed. ``excluded`` are the ids in ``without`` that are concepts, ``unmatched`` the number of others.
    Raises ConfigError if a language is unknown or missing, or no id of ``without`` is a concept.
    """

    def __init__(
        self, kb: KnowledgeBase, *, languages: Iterable[str] | None = None, without: Iterable[str] = ()
    ) -> None:
        self.path = kb.path
        self.languages = language_filter(languages)
        present = kb.languages()
        for language in sorted(self.languages or ()):
            if not any(tag and wanted(tag, frozenset({language})) for tag in present):
                has = ", ".join(tag or "names without a language" for tag in present) or "none"
                problem = f"the knowledge base has no names in the language {language}; it has {has}"
                remedy = "name languages it has, or build it with a source in that language"
                raise ConfigError(problem, path=self.path, remedy=remedy)
        without = frozenset(without)
        with closing(SqliteReader(self.path)) as reader:
            self.excluded = _known_concepts(reader, without)
        self.unmatched = len(without) - len(self.excluded)
        if without and not self.excluded:
            problem = "none of the ids to leave out is a concept of the knowledge base"
            remedy = "give ids as the knowledge base has them, such as HP:0001250"
            raise ConfigError(problem, path=self.path, remedy=remedy)
        # the filter of the knowledge base: each language with all its regions, and "" for none
        self._tags = None if self.languages is None else [*sorted({base(tag) for tag in self.languages}), ""]

    def includes(self, record: Name | Definition) -> bool:
        """Return whether a text is selected; fully specified names never are, because nobody writes their tag."""
        if isinstance(record, Name) and record.type == FSN:
            return False
        return record.concept_id not in self.excluded and wanted(record.language, self.languages)

    def names(self) -> Iterator[Name]:
        """Yield the names, in the order of :meth:`~medlink.kb.store.KnowledgeBase.iter_names`."""
        with KnowledgeBase(self.path) as kb:
            yield from filter(self.includes, kb.iter_names(languages=self._tags))

    def definitions(self) -> Iterator[Definition]:
        """Yield the definitions of the knowledge base, by concept."""
        with KnowledgeBase(self.path) as kb:
            yield from filter(self.includes, kb.iter_definitions(languages=self._tags))

    def filter_definitions(
        self, definitions: Iterable[Definition], problems: Problems | None = None
    ) -> Iterator[Definition]:
        """Filter further definitions, in their order.

        ``problems`` counts definitions in other languages (``OTHER_LANGUAGE``) and of unknown concepts (``UNKNOWN``).
        Raises ConfigError at the end if there were no others.
        """
        read = in_language = known = 0
        with closing(SqliteReader(self.path)) as reader:
            for part in chunked(definitions, _PART):
                chosen = [definition for definition in part if wanted(definition.language, self.languages)]
                concepts = _known_concepts(reader, {definition.concept_id for definition in chosen})
                of_known = [definition for definition in chosen if definition.concept_id in concepts]
                read, in_language, known = read + len(part), in_language + len(chosen), known + len(of_known)
                yield from (definition for definition in of_known if definition.concept_id not in self.excluded)
        for kind, count in ((OTHER_LANGUAGE, read - in_language), (UNKNOWN, in_language - known)):
            if count and problems is not None:
                problems.skipped[kind] += count
        problem = "belongs to a concept of the knowledge base"
        remedy = "give ids as the knowledge base has them, or name the system whose codes they are"
        if not in_language:
            problem = f"is in {', '.join(sorted(self.languages or ()))}"
            remedy = "name their language as well, or leave the definitions out"
        if read and not known:
            raise ConfigError(f"none of the added definitions {problem}", path=self.path, remedy=remedy)


def _known_concepts(reader: SqliteReader, ids: Iterable[str]) -> frozenset[str]:
    return frozenset(row[0] for row in reader.rows(_KNOWN, concept_ids=json.dumps(sorted(ids))))


def read_definitions(path: str | PathLike[str], problems: Problems | None = None) -> Iterator[Definition]:
    """Read a table with one definition in each row.

    The header names the columns: ``concept_id`` (or ``id``), ``definition`` (or ``text``) and optionally ``language``;
    a row without a language is English. ``problems`` counts bad rows, and notes other columns. The source is the name
    of the file, which is TSV or CSV, plain or ``.gz``. Raises InputError if the file cannot be read, lacks or repeats a
    column, or too many rows are bad.
    """
    problems = problems or Problems()
    table = open_table(path, problems)
    columns = {names[0]: _find_column(table, names) for names in _COLUMNS}
    concept_at, text_at, language_at = columns.values()
    if concept_at is None or text_at is None:
        missing = [name for name, at in columns.items() if name != "language" and at is None]
        raise table.error(
            f"looked for the columns concept_id (or id) and definition (or text); found {describe_header(table.first)}",
            f"name the columns in the first line; {' and '.join(missing)} must be there",
        )
    unused = [name for at, name in enumerate(table.header) if at not in columns.values()]
    if unused:
        problems.notes.append(f"{table.lines.path}: columns left out: {', '.join(unused)[:300]}")
    source = base_name(path)
    for line, cells in table.rows:
        concept_id, text = cells[concept_at].strip(), " ".join(cells[text_at].split())
        if not concept_id or not text:
            table.lines.bad_row("empty id or definition", line)
            continue
        code = cells[language_at].strip() if language_at is not None else ""
        tag = language_tag(code) if code else "en"
        if tag is None:
            table.lines.bad_row("unknown language", line, repr(code)[:40])
        else:
            yield Definition(concept_id, text, tag, source)


def definitions_by_code(kb: KnowledgeBase, definitions: Iterable[Definition], system: str) -> Iterator[Definition]:
    """Replace codes of another system by the ids of the concepts that are mapped to them.

    The Automatic Glossary of Clinical Terminology (Remy et al. 2023), for example, has SNOMED CT ids: ``system`` is
    then ``SNOMEDCT_US``, a mapping in a knowledge base made of UMLS. A code without a mapping stays. Raises ConfigError
    if the knowledge base has no code of that system.
    """
    with closing(SqliteReader(kb.path)) as reader:
        some = select(_MAPPING.id).where(_MAPPING.system == bindparam("system")).limit(1)
        if not reader.rows(some, system=system):
            remedy = "name the system as the mappings of the knowledge base do, such as SNOMEDCT_US"
            raise ConfigError(f"the knowledge base has no codes of the system {system!r}", path=kb.path, remedy=remedy)
        for part in chunked(definitions, _PART):
            concepts: dict[str, list[str]] = defaultdict(list)
            codes = json.dumps(sorted({definition.concept_id for definition in part}))
            for code, concept_id in reader.rows(_MAPPED, system=system, codes=codes):
                concepts[code].append(concept_id)
            for definition in part:
                for concept_id in concepts.get(definition.concept_id, [definition.concept_id]):
                    yield replace(definition, concept_id=concept_id)


def _find_column(table: Table, names: Sequence[str]) -> int | None:
    present = [name for name in names if table.has_columns([name])]
    if len(present) > 1:
        raise table.error(f"a column for the {names[0]} occurs twice", "rename or delete one of them")
    return table.column_indices(present)[0] if present else None
