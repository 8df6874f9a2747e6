"""What of a knowledge base is trained on: its languages without held-out concepts, and tables of further definitions.

Such as the Automatic Glossary of Clinical Terminology (Remy et al. 2023), whose ids are those of SNOMED CT: in a
knowledge base made of UMLS, :func:`definitions_by_code` finds their concepts.
"""

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
from medlink.files.tables import Table, found_columns, open_table
from medlink.kb import schema
from medlink.kb.connection import Reader
from medlink.kb.queries import given
from medlink.kb.readers.common import stem
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import base, language_filter, language_tag, named_tag, wanted
from medlink.records import FSN, Definition, Name
from medlink.training.data.batches import in_parts

OTHER_LANGUAGE = "definition in another language"
UNKNOWN = "definition of no concept here"
_PART = 10_000
_KNOWN = select(schema.concept.c.concept_id).where(schema.concept.c.concept_id.in_(given("concept_ids")))
_COLUMNS = {"concept": ("concept_id", "id"), "text": ("definition", "text"), "language": ("language",)}
_MAPPED = (
    select(schema.mapping.c.code, schema.mapping.c.concept_id)
    .where(schema.mapping.c.system == bindparam("system"), schema.mapping.c.code.in_(given("codes")))
    .distinct()
    .order_by(schema.mapping.c.code, schema.mapping.c.concept_id)
)


class Selection:
    """Names and definitions of some languages, without those of some concepts: what every phase of training reads.

    The file is opened again for each pass; ``kb`` may be closed afterwards. ``languages`` are taken with all regions,
    and what has no language is always in; ``None`` takes all.

    Attributes:
        languages: the tags asked for, ``None`` for all.
        left_out: those of ``without`` that are concepts; ``unmatched`` is how many are none.

    Raises:
        ConfigError: a language is unknown or missing, or no id of ``without`` is a concept.
    """

    def __init__(
        self, kb: KnowledgeBase, *, languages: Iterable[str] | None = None, without: Iterable[str] = ()
    ) -> None:
        self.path = kb.path
        self.languages = language_filter(languages)
        self._check_languages(kb.languages())
        held_out = frozenset(without)
        with closing(Reader(self.path)) as reader:
            self.left_out = _concepts(reader, held_out)
        self.unmatched = len(held_out) - len(self.left_out)
        if held_out and not self.left_out:
            raise ConfigError(
                "none of the ids to leave out is a concept of the knowledge base",
                path=self.path,
                remedy="give ids as the knowledge base has them, such as HP:0001250",
            )
        # what the knowledge base reads of it: each language with all its regions, and "" for none
        self._tags = None if self.languages is None else [*sorted({base(tag) for tag in self.languages}), ""]

    def takes(self, record: Name | Definition) -> bool:
        """Whether a name or a definition is trained on; fully specified names carry a tag that nobody writes."""
        if isinstance(record, Name) and record.type == FSN:
            return False
        return record.concept_id not in self.left_out and wanted(record.language, self.languages)

    def names(self) -> Iterator[Name]:
        """Names, in the order of :meth:`~medlink.kb.store.KnowledgeBase.iter_names`."""
        with KnowledgeBase(self.path) as kb:
            yield from filter(self.takes, kb.iter_names(languages=self._tags))

    def definitions(self) -> Iterator[Definition]:
        """Definitions of the knowledge base, by concept."""
        with KnowledgeBase(self.path) as kb:
            yield from filter(self.takes, kb.iter_definitions(languages=self._tags))

    def added(self, definitions: Iterable[Definition], problems: Problems | None = None) -> Iterator[Definition]:
        """Those of further definitions that are trained on, in their order.

        Those in other languages (``OTHER_LANGUAGE``) and of no concept (``UNKNOWN``) are counted in ``problems``.

        Raises:
            ConfigError: in the end, when there were some, and all of them in other languages or of no concept.
        """
        read = here = known = 0
        with closing(Reader(self.path)) as reader:
            for part in in_parts(definitions, _PART):
                asked = [one for one in part if wanted(one.language, self.languages)]
                concepts = _concepts(reader, {one.concept_id for one in asked})
                found = [one for one in asked if one.concept_id in concepts]
                read, here, known = read + len(part), here + len(asked), known + len(found)
                yield from (one for one in found if one.concept_id not in self.left_out)
        for kind, count in ((OTHER_LANGUAGE, read - here), (UNKNOWN, here - known)):
            if count and problems is not None:
                problems.skipped[kind] += count
        if read and not here:
            raise ConfigError(
                f"none of the added definitions is in {', '.join(sorted(self.languages or ()))}",
                path=self.path,
                remedy="name their language as well, or leave the definitions out",
            )
        if read and not known:
            raise ConfigError(
                "none of the added definitions belongs to a concept of the knowledge base",
                path=self.path,
                remedy="give ids as the knowledge base has them, or name the system whose codes they are",
            )

    def _check_languages(self, present: list[str]) -> None:
        for language in sorted(self.languages or ()):
            if not any(tag and wanted(tag, frozenset({language})) for tag in present):
                raise ConfigError(
                    f"the knowledge base has no names in the language {language}; it has "
                    + (", ".join(tag or "names without a language" for tag in present) or "none"),
                    path=self.path,
                    remedy="name languages it has, or build it with a source in that language",
                )


def _concepts(reader: Reader, ids: Iterable[str]) -> frozenset[str]:
    """Those of some ids that are concepts."""
    asked = json.dumps(sorted(ids))
    return frozenset(row[0] for row in reader.rows(_KNOWN, concept_ids=asked))


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
