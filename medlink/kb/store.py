"""Access to a knowledge base file."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import starmap
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Select, Table

from medlink.bundles.parts import BundleSnapshot
from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import ConfigError, KnowledgeBaseError
from medlink.files.escapes import escape_controls
from medlink.kb import queries, schema
from medlink.kb.connection import OTHER_FILE_REMEDY, REBUILD_REMEDY, SqliteReader, not_found_error
from medlink.kb.readers.common import resolve_language
from medlink.kb.schema import APPLICATION, READABLE, SCHEMA_VERSION, WITH_RETIRED
from medlink.kb.views import ConceptView, Profile, ProfileName, choose_name, sum_counts
from medlink.language.text import normalise, variants
from medlink.records import RETIREMENTS, Concept, Definition, Mapping, Name, Relation, Retired, SemanticType, Source

T = TypeVar("T")
Texts = Iterable[str] | None


class KnowledgeBase:
    """Concepts, their names and relations, read from one SQLite file.

    Opening takes milliseconds at any size. The file is read-only; each thread of each process has its own connection,
    and a pickled knowledge base reopens its file. Language filters follow :func:`medlink.language.tags.wanted`: ``de``
    also finds ``de-at`` and names without a language; ``None`` finds all.

    Args:
        path: a file written by :func:`~medlink.kb.build_kb`, a bundle, or a folder with a file ``kb.sqlite``.

    Raises:
        KnowledgeBaseError: there is no such file, it is not a knowledge base, or it has another schema version.
        BundleError: the knowledge base of the bundle is missing or damaged, or the folder is a part of a bundle.
    """

    bundle: object = None
    """Holds the lock on the bundle part as long as this object lives."""

    def __init__(self, path: str | PathLike[str]) -> None:
        given = Path(path).absolute()
        self.path = given / KB_FILE if given.is_dir() else given
        if given.is_dir() and not self.path.exists() and (given / MANIFEST).exists():
            self.bundle = bundle = BundleSnapshot(given)
            bundle.check("kb")
            self.path = bundle.part("kb") / KB_FILE
        if not self.path.is_file():
            raise not_found_error(Path(path))
        self._reader = SqliteReader(self.path)
        self._meta: dict[str, str] = dict(map(tuple, self._reader.rows(queries.META)))
        if self._meta.get("application") != APPLICATION:
            raise KnowledgeBaseError("is not a medlink knowledge base", path=self.path, remedy=OTHER_FILE_REMEDY)
        if self._meta.get("schema_version") not in {*map(str, READABLE)}:
            message = f"has schema version {self._meta.get('schema_version')}, this medlink reads {SCHEMA_VERSION}"
            raise KnowledgeBaseError(message, path=self.path, remedy=REBUILD_REMEDY)

    def __reduce__(self) -> tuple[type[KnowledgeBase], tuple[Path]]:
        return KnowledgeBase, (self.path,)

    def __repr__(self) -> str:
        return f"KnowledgeBase({str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __contains__(self, concept_id: object) -> bool:
        return isinstance(concept_id, str) and bool(self._reader.rows(queries.CONCEPT, concept_id=concept_id))

    def __len__(self) -> int:
        return int(self.counts()["concepts"])

    def close(self) -> None:
        """Close the connections of this process; later use raises :class:`KnowledgeBaseError`."""
        self._reader.close()

    @property
    def schema_version(self) -> int:
        """Version of the table schema."""
        return int(self._meta["schema_version"])

    @property
    def extended(self) -> bool:
        """Whether records were added after the build."""
        return "extended" in self._meta

    @property
    def has_added_facts(self) -> bool:
        """Whether records other than names were added after the build; true if an older version recorded nothing."""
        return self.extended and self._meta.get("beside") != "0"

    def iter_added(self) -> Iterator[Name]:
        """Yield the names added after the build, if the file records them."""
        built = str(self._meta.get("built", ""))
        return self.iter_names(after=int(built)) if built.isdecimal() else iter(())

    @property
    def content_hash(self) -> str:
        """SHA-256 over names and semantic types; equal for equal content built and extended by the same steps."""
        return self._meta["content_hash"]

    @cached_property
    def _counts(self) -> list[dict[str, Any]]:
        try:
            return list(json.loads(self._meta["counts"]))
        except (KeyError, ValueError, TypeError) as error:
            raise KnowledgeBaseError("its counts are damaged", path=self.path, remedy=REBUILD_REMEDY) from error

    def sources(self) -> list[Source]:
        """Return the sources in loading order, each with the languages of its names."""
        return [
            Source(name, version, title, tuple(tag for tag in tags.split(",") if tag))
            for name, version, title, tags in self._reader.rows(queries.SOURCES)
        ]

    def languages(self) -> list[str]:
        """Return the language tags of the names, with ``""`` for names without a language."""
        return sorted(self.counts()["names_by_language"])

    def counts(self) -> dict[str, Any]:
        """Return the stored counts.

        The keys are ``concepts``, ``names``, ``definitions``, ``semantic_types``, ``relations``, ``mappings`` and
        ``names_by_language``. ``sources`` has the same counts for each source, with ``names`` by language.
        """
        return sum_counts(self._counts)

    def _records(self, record: Callable[..., T], statement: Select[Any], **values: Any) -> list[T]:
        return list(starmap(record, self._reader.rows(statement, **values)))

    def get(self, concept_id: str) -> ConceptView | None:
        """Return a concept with all its records, ``None`` for an unknown id."""
        rows = self._reader.rows(queries.CONCEPT, concept_id=concept_id)
        if not rows:
            return None
        names = self.names(concept_id)
        preferred = choose_name({name.language: name.text for name in names if name.preferred}, None) or ""
        definitions, types = tuple(self.definitions(concept_id)), tuple(self.semantic_types(concept_id))
        mappings = tuple(self.mappings(concept_id))
        return ConceptView(concept_id, rows[0][1], preferred, tuple(names), definitions, types, mappings)

    def ids_of_code(self, code: str) -> list[str]:
        """Return the concept ids that are a code, or a code behind the name of a source: *B01AA04*, *ATC:B01AA04*."""
        return [one for one in (code, *(f"{source.name}:{code}" for source in self.sources())) if one in self]

    def names(self, concept_id: str) -> list[Name]:
        """Return the names of a concept by language, the preferred name first."""
        return self._records(Name, queries.NAMES, concept_id=concept_id)

    def preferred_name(self, concept_id: str, language: str | None = None) -> str | None:
        """Return the preferred name of a concept, ``None`` for an unknown id.

        It is in ``language``, or else in the same language without or with another region, in English, or in the first
        other language by tag.
        """
        return self.preferred_names([concept_id], language).get(concept_id)

    def preferred_names(self, concept_ids: Iterable[str], language: str | None = None) -> dict[str, str]:
        """Return the preferred names of many concepts (:meth:`preferred_name`), in one query; leave out unknown ids."""
        ids, tag = list(dict.fromkeys(concept_ids)), resolve_language(language) or None
        by_concept: dict[str, dict[str, str]] = {concept_id: {} for concept_id in ids}
        for concept_id, name_language, text in self._reader.rows(queries.PREFERRED, concept_ids=json.dumps(ids)):
            by_concept[concept_id][name_language] = text
        chosen = {concept_id: choose_name(by_language, tag) for concept_id, by_language in by_concept.items()}
        return {concept_id: text for concept_id, text in chosen.items() if text is not None}

    def sources_of(self, concept_ids: Iterable[str]) -> dict[str, str]:
        """Return the source of each concept, in one query; unknown ids are left out."""
        return dict(self._reader.rows(queries.SOURCES_OF, concept_ids=_json_ids(concept_ids)))

    def profiles(self, concept_ids: Iterable[str]) -> dict[str, Profile]:
        """Return the profiles of concepts, in four queries; unknown ids are left out."""
        ids = _json_ids(concept_ids)
        names: dict[str, list[ProfileName]] = {}
        for concept_id, *columns in self._reader.rows(queries.PROFILE_NAMES, concept_ids=ids):
            names.setdefault(concept_id, []).append(ProfileName(*columns))
        codes: dict[str, set[tuple[str, str]]] = {}
        for concept_id, system, code in self._reader.rows(queries.CODES_OF, concept_ids=ids):
            codes.setdefault(concept_id, set()).add((system, code))
        relations = dict(self._reader.rows(queries.RELATION_COUNTS, concept_ids=ids))
        sources = self._reader.rows(queries.SOURCES_OF, concept_ids=ids)
        return {
            key: Profile(source, tuple(names.get(key, ())), frozenset(codes.get(key, ())), relations[key])
            for key, source in sources
        }

    def semantic_types_by_source(self) -> dict[str, set[str]]:
        """Return the semantic types that each source uses; reads every row."""
        types: dict[str, set[str]] = {}
        for source, semantic_type in self._reader.rows(queries.SEMANTIC_TYPES_BY_SOURCE):
            types.setdefault(source, set()).add(semantic_type)
        return types

    def concepts_by_type(self) -> dict[str, int]:
        """Return the number of concepts of each semantic type; reads every row."""
        return dict(self._reader.rows(queries.CONCEPTS_BY_TYPE))

    def lookup(self, name: str, language: str | None = None) -> list[Name]:
        """Return the names equal to ``name`` apart from case, accents, hyphens and the like.

        Names are compared after ``medlink.language.text.normalise``, German transcriptions (ae for ä) by
        ``medlink.language.text.variants``. Names equal without them come first, then by concept, language and text.

        Examples:
            >>> kb.lookup("krampfanfaelle", "de")  # doctest: +SKIP
            [Name(concept_id='HP:0001250', text='Krampfanfälle', language='de', ...)]
        """
        tag = resolve_language(language)
        forms = [form for form in variants(name, tag or None) if form]
        if not forms:
            return []
        return self._records(Name, queries.LOOKUP, forms=json.dumps(forms), plain=forms[0], language=tag)

    def search(
        self,
        text: str,
        limit: int = 10,
        language: str | None = None,
        under: Sequence[str] = (),
        not_under: Sequence[str] = (),
        among: Collection[str] | None = None,
        *,
        inside: bool = True,
    ) -> list[Name]:
        """Search as you type: return names with all words of ``text``; the last word may be a prefix.

        Names equal to the text come first, then names that begin with it, then other names; shorter before longer. If
        there are fewer than ``limit`` and ``inside`` is true, names follow whose words contain the words of the text
        (*infarkt*: *Herzinfarkt*). This reads every distinct word of the names: .06 s for 36,000 words.

        Args:
            under, not_under: only concepts that are in or below ``under``, but not in or below ``not_under``.
            among: only these concepts.

        Raises:
            ConfigError: unknown language or concept.
        """
        for concept_id in (*under, *not_under):
            if concept_id not in self:
                raise ConfigError(f"there is no concept {concept_id!r}", path=self.path, remedy="check the id")
        plain = normalise(text)
        if not plain or limit < 1:
            return []
        tag = resolve_language(language)
        statement = queries.SEARCH_WITHIN if under or not_under or among is not None else queries.SEARCH
        bounds = {"plain": plain, "end": plain + "\U0010ffff", "language": tag, "limit": limit}
        bounds |= {"under": json.dumps(under), "not_under": json.dumps(not_under)}
        bounds["among"] = json.dumps(None if among is None else list(among))
        forms, found = list(dict.fromkeys(variants(text, tag or None))), dict[Name, None]()
        for build in (queries.fts_query, partial(queries.fts_query_inside, self._reader))[: 1 + inside]:
            query = " OR ".join(f"({part})" for part in map(build, forms) if part)
            if query and len(found) < limit:
                found |= dict.fromkeys(self._records(Name, statement, query=query, **bounds))
        return list(found)[:limit]

    def parents(self, concept_id: str) -> list[str]:
        """Return the ids of the parents."""
        return [row[0] for row in self._reader.rows(queries.PARENTS, concept_id=concept_id)]

    def children(self, concept_id: str) -> list[str]:
        """Return the ids of the children."""
        return [row[0] for row in self._reader.rows(queries.CHILDREN, concept_id=concept_id)]

    def descendants(self, concept_ids: Iterable[str]) -> set[str]:
        """Return the ids of all descendants, with a given concept only if it is itself a descendant."""
        children = {child for concept_id in set(concept_ids) for child in self.children(concept_id)}
        return {row[0] for row in self._reader.rows(queries.DESCENDANTS, under=json.dumps(sorted(children)))}

    def ancestors(self, concept_id: str, max_depth: int = 64) -> list[tuple[str, int]]:
        """Return the ids of all ancestors with the length of the shortest path, nearest first.

        Paths have at most ``max_depth`` steps. The concept itself is not included, even in a cycle.
        """
        return list(map(tuple, self._reader.rows(queries.ANCESTORS, concept_id=concept_id, limit=max_depth)))

    def definitions(self, concept_id: str) -> list[Definition]:
        """Return the definitions of a concept."""
        return self._records(Definition, queries.DEFINITIONS, concept_id=concept_id)

    def semantic_types(self, concept_id: str) -> list[SemanticType]:
        """Return the semantic types of a concept."""
        return self._records(SemanticType, queries.SEMANTIC_TYPES, concept_id=concept_id)

    def mappings(self, concept_id: str) -> list[Mapping]:
        """Return the codes of a concept in other systems."""
        return self._records(Mapping, queries.MAPPINGS, concept_id=concept_id)

    def mappings_of(self, concept_ids: Iterable[str]) -> dict[str, list[Mapping]]:
        """Return the mappings of many concepts in one query; concepts without a code are left out."""
        by_concept: dict[str, list[Mapping]] = {}
        for mapping in self._records(Mapping, queries.MAPPINGS_OF, concept_ids=_json_ids(concept_ids)):
            by_concept.setdefault(mapping.concept_id, []).append(mapping)
        return by_concept

    def concepts_mapped_to(self, system: str, code: str) -> list[str]:
        """Return the ids of the concepts that map to a code of another system."""
        return [row[0] for row in self._reader.rows(queries.MAPPED, system=system, code=code)]

    def relations(self, concept_id: str) -> list[Relation]:
        """Return the relations with a concept as head or tail."""
        return self._records(Relation, queries.RELATIONS, concept_id=concept_id)

    def retired(self, concept_id: str) -> list[Retired]:
        """Return the records of a retired concept; none in a file of schema version 1.

        A replacement may be unknown or retired too: :func:`medlink.kb.retired.successors` follows the chain.

        Raises:
            KnowledgeBaseError: a kind of retirement is none of :data:`~medlink.records.RETIREMENTS`.
        """
        has_table = self.schema_version >= WITH_RETIRED
        records = self._records(Retired, queries.RETIRED, concept_id=concept_id) if has_table else []
        if unknown := [record.type for record in records if record.type not in RETIREMENTS]:
            message = f"unknown kind of retirement {escape_controls(unknown[0])[:40]!r}"
            raise KnowledgeBaseError(message, path=self.path, remedy=REBUILD_REMEDY)
        # "deleted" counts only without any other record
        return [record for record in records if record.type != "deleted"] or records

    def iter_names(
        self, *, languages: Texts = None, sources: Texts = None, semantic_types: Texts = None, after: int = 0
    ) -> Iterator[Name]:
        """Yield names by (concept_id, language, not preferred, text).

        Args:
            languages, sources: only names of these.
            semantic_types: only names of concepts with one of these, by name or code.
            after: only names with a higher row number (see :func:`~medlink.kb.extend_kb`).
        """
        filters = {"languages": _tags(languages), "sources": sources, "semantic_types": semantic_types}
        return self._iter_records(Name, schema.name, after=after, **filters)

    def iter_concepts(self, *, sources: Texts = None, semantic_types: Texts = None) -> Iterator[Concept]:
        """Yield concepts by id; filters as for :meth:`iter_names`."""
        return self._iter_records(Concept, schema.concept, sources=sources, semantic_types=semantic_types)

    def iter_relations(
        self, *, types: Texts = None, sources: Texts = None, semantic_types: Texts = None
    ) -> Iterator[Relation]:
        """Yield relations by (head, type, tail); ``semantic_types`` are those of the head."""
        return self._iter_records(Relation, schema.relation, type=types, sources=sources, semantic_types=semantic_types)

    def iter_definitions(self, *, languages: Texts = None, sources: Texts = None) -> Iterator[Definition]:
        """Yield definitions by concept; filters as for :meth:`iter_names`."""
        return self._iter_records(Definition, schema.definition, languages=_tags(languages), sources=sources)

    def iter_semantic_types(self, *, sources: Texts = None, after: int = 0) -> Iterator[SemanticType]:
        """Yield semantic types by concept; ``after`` as for :meth:`iter_names`."""
        return self._iter_records(SemanticType, schema.semantic_type, sources=sources, after=after)

    def iter_mappings(self, *, systems: Texts = None, types: Texts = None) -> Iterator[Mapping]:
        """Yield mappings by concept."""
        return self._iter_records(Mapping, schema.mapping, system=systems, type=types)

    def _iter_records(self, record: Callable[..., T], table: Table, *, after: int = 0, **filters: Texts) -> Iterator[T]:
        lists = {
            key: None if value is None else [value] if isinstance(value, str) else list(value)
            for key, value in filters.items()
        }
        return starmap(record, self._reader.stream(queries.select_rows(table, self.extended, after=after, **lists)))


def _json_ids(concept_ids: Iterable[str]) -> str:
    return json.dumps(list(dict.fromkeys(concept_ids)))


def _tags(languages: Texts) -> list[str] | None:
    values = [languages] if isinstance(languages, str) else languages
    return None if values is None else [resolve_language(language) for language in values]
