"""Reading a knowledge base file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import starmap
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Table

from medlink.bundles.parts import Opened
from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import ConfigError, KnowledgeBaseError
from medlink.files.escapes import visible
from medlink.kb import queries, schema
from medlink.kb.connection import OTHER, REMEDY, Reader, nothing_at
from medlink.kb.schema import APPLICATION, READABLE, SCHEMA_VERSION, WITH_RETIRED
from medlink.kb.views import ConceptView, Profile, ProfileName, name_to_show
from medlink.language.tags import named_tag
from medlink.language.text import normalise, variants
from medlink.records import RETIREMENTS, Concept, Definition, Mapping, Name, Relation, Retired, SemanticType, Source

T = TypeVar("T")


class KnowledgeBase:
    """Concepts, their names and what binds them, read from one SQLite file.

    Opening takes milliseconds at any size. The file is opened read-only, by any number of processes and
    threads at once: each thread of each process has a connection of its own, and a pickled knowledge base
    opens its file again where it is unpickled. Languages are asked for by the rule of
    :func:`medlink.language.tags.wanted`: ``de`` finds ``de-at`` and what has no language; ``None`` asks for all.

    Args:
        path: a file that :func:`~medlink.kb.build_kb` wrote, a bundle, or a folder with such a file named
            ``kb.sqlite``.

    Raises:
        KnowledgeBaseError: there is no such file, it is no knowledge base, or it has another schema version.
        BundleError: the folder is a bundle whose knowledge base is missing or damaged, or another part of a bundle.
    """

    held: object = None
    """What keeps the file where it is, as long as this lives."""

    def __init__(self, path: str | PathLike[str]) -> None:
        given = Path(path).absolute()
        self.path = given / KB_FILE if given.is_dir() else given
        if given.is_dir() and not self.path.exists() and (given / MANIFEST).exists():
            self.held = bundle = Opened(given)
            bundle.check("kb")
            self.path = bundle.part("kb") / KB_FILE
        if not self.path.is_file():
            raise nothing_at(Path(path))
        self._reader = Reader(self.path)
        self._meta: dict[str, str] = dict(map(tuple, self._reader.rows(queries.META)))
        if self._meta.get("application") != APPLICATION:
            raise KnowledgeBaseError("is no medlink knowledge base", path=self.path, remedy=OTHER)
        if self._meta.get("schema_version") not in {*map(str, READABLE)}:
            raise KnowledgeBaseError(
                f"has schema version {self._meta.get('schema_version')}, this medlink reads {SCHEMA_VERSION}",
                path=self.path,
                remedy=REMEDY,
            )

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
        """Close the connections of this process; any use afterwards is an error."""
        self._reader.close()

    @property
    def schema_version(self) -> int:
        """Version of the tables."""
        return int(self._meta["schema_version"])

    @property
    def extended(self) -> bool:
        """Whether anything was added since the file was built."""
        return "extended" in self._meta

    @property
    def has_more_added(self) -> bool:
        """Whether more than names was added since the file was built, or an older medlink did not say."""
        return self.extended and self._meta.get("beside") != "0"

    def iter_added(self) -> Iterator[Name]:
        """Names that were added since the file was built, lazily, as far as it says which they are."""
        built = str(self._meta.get("built", ""))
        return self.iter_names(after=int(built)) if built.isdecimal() else iter(())

    @property
    def content_hash(self) -> str:
        """SHA-256 over names and semantic types; the same for the same content, built or extended by the same steps."""
        return self._meta["content_hash"]

    @cached_property
    def _counts(self) -> list[dict[str, Any]]:
        try:
            return list(json.loads(self._meta["counts"]))
        except (KeyError, ValueError, TypeError) as error:
            raise KnowledgeBaseError("its counts are damaged", path=self.path, remedy=REMEDY) from error

    def sources(self) -> list[Source]:
        """The sources, in the order in which they were loaded, each with the languages of its names."""
        return [
            Source(name, version, title, tuple(tag for tag in tags.split(",") if tag))
            for name, version, title, tags in self._reader.rows(queries.SOURCES)
        ]

    def languages(self) -> list[str]:
        """Languages of the names, by tag; ``""`` where there are names without one."""
        return sorted(self.counts()["names_by_language"])

    def counts(self) -> dict[str, Any]:
        """Numbers of ``concepts``, ``names``, ``definitions``, ``semantic_types``, ``relations`` and ``mappings``, of
        ``names_by_language``, and of all these (``names`` by language) for each of ``sources``, as counted once."""
        kinds = ("concepts", "definitions", "semantic_types", "relations", "mappings")
        total: dict[str, Any] = {kind: sum(entry[kind] for entry in self._counts) for kind in kinds}
        by_language: Counter[str] = Counter()
        for entry in self._counts:
            by_language.update(entry["names"])
        total["names"] = sum(by_language.values())
        total["names_by_language"] = dict(sorted(by_language.items()))
        total["sources"] = {
            entry["source"]["name"]: {**{kind: entry[kind] for kind in kinds}, "names": entry["names"]}
            for entry in self._counts
        }
        return total

    def get(self, concept_id: str) -> ConceptView | None:
        """All about one concept, ``None`` where there is no such id."""
        rows = self._reader.rows(queries.CONCEPT, concept_id=concept_id)
        if not rows:
            return None
        names = tuple(self.names(concept_id))
        return ConceptView(
            concept_id,
            rows[0][1],
            name_to_show({name.language: name.text for name in names if name.preferred}, None) or "",
            names,
            tuple(self.definitions(concept_id)),
            tuple(self.semantic_types(concept_id)),
            tuple(self.mappings(concept_id)),
        )

    def names(self, concept_id: str) -> list[Name]:
        """Names of a concept by language, the preferred one of each language first."""
        return list(starmap(Name, self._reader.rows(queries.NAMES, concept_id=concept_id)))

    def preferred_name(self, concept_id: str, language: str | None = None) -> str | None:
        """The name to show for a concept: the preferred one in ``language``, else in the same language without or with
        another region, else in English, else in the first other language by tag; ``None`` for an unknown id."""
        return self.preferred_names([concept_id], language).get(concept_id)

    def preferred_names(self, concept_ids: Iterable[str], language: str | None = None) -> dict[str, str]:
        """As :meth:`preferred_name`, for many concepts in one query; unknown ids are left out."""
        asked = list(dict.fromkeys(concept_ids))
        by_concept, tag = self._by_language(json.dumps(asked)), _tag(language)
        chosen = {concept_id: name_to_show(by_concept.get(concept_id, {}), tag or None) for concept_id in asked}
        return {concept_id: text for concept_id, text in chosen.items() if text is not None}

    def _by_language(self, concept_ids: str) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for concept_id, tag, text in self._reader.rows(queries.PREFERRED, concept_ids=concept_ids):
            found.setdefault(concept_id, {})[tag] = text
        return found

    def sources_of(self, concept_ids: Iterable[str]) -> dict[str, str]:
        """The source of each concept, in one query; unknown ids are left out."""
        return dict(self._reader.rows(queries.SOURCES_OF, concept_ids=json.dumps(list(dict.fromkeys(concept_ids)))))

    def profiles(self, concept_ids: Iterable[str]) -> dict[str, Profile]:
        """What tells many concepts from others of their names, in four queries; unknown ids are left out."""
        asked = json.dumps(list(dict.fromkeys(concept_ids)))
        names: dict[str, list[ProfileName]] = {}
        for concept_id, *columns in self._reader.rows(queries.PROFILE_NAMES, concept_ids=asked):
            names.setdefault(concept_id, []).append(ProfileName(*columns))
        codes: dict[str, set[tuple[str, str]]] = {}
        for concept_id, system, code in self._reader.rows(queries.CODES_OF, concept_ids=asked):
            codes.setdefault(concept_id, set()).add((system, code))
        relations = dict(self._reader.rows(queries.RELATION_COUNTS, concept_ids=asked))
        return {
            concept_id: Profile(
                source, tuple(names.get(concept_id, ())), frozenset(codes.get(concept_id, ())), relations[concept_id]
            )
            for concept_id, source in self._reader.rows(queries.SOURCES_OF, concept_ids=asked)
        }

    def type_words(self) -> dict[str, set[str]]:
        """The semantic types that each source uses, by its name; every row is read."""
        words: dict[str, set[str]] = {}
        for source, word in self._reader.rows(queries.TYPE_WORDS):
            words.setdefault(source, set()).add(word)
        return words

    def lookup(self, name: str, language: str | None = None) -> list[Name]:
        """Names that are written like ``name`` but for case, accents, hyphens and the like.

        Compared is ``medlink.language.text.normalise``, and German transcriptions (ae for ä) by
        ``medlink.language.text.variants``. Names of the plain form come first, then by concept, language and text.

        Examples:
            >>> kb.lookup("krampfanfaelle", "de")  # doctest: +SKIP
            [Name(concept_id='HP:0001250', text='Krampfanfälle', language='de', ...)]
        """
        tag = _tag(language)
        forms = [form for form in variants(name, tag or None) if form]
        if not forms:
            return []
        rows = self._reader.rows(queries.LOOKUP, forms=json.dumps(forms), plain=forms[0], language=tag)
        return list(starmap(Name, rows))

    def search(
        self,
        text: str,
        limit: int = 10,
        language: str | None = None,
        under: Sequence[str] = (),
        not_under: Sequence[str] = (),
        among: Collection[str] | None = None,
    ) -> list[Name]:
        """Names that contain all words of ``text``, as found while it is typed: the last word may be a beginning.

        Those equal to the text come first, then those beginning with it, then those that contain its words; shorter
        before longer. No character of ``text`` has a special meaning; ``limit`` is how many names at most. Concepts
        are those of ``among`` (``None``: all) at or below one of ``under``, if any, and at or below none of
        ``not_under``. An unknown language or concept is a :class:`ConfigError`.
        """
        for concept_id in (*under, *not_under):
            if concept_id not in self:
                raise ConfigError(f"there is no concept {concept_id!r}", path=self.path, remedy="check the id")
        plain = normalise(text)
        if not plain or limit < 1:
            return []
        forms = (queries.full_text(form) for form in variants(text, _tag(language) or None))
        rows = self._reader.rows(
            queries.SEARCH_WITHIN if under or not_under or among is not None else queries.SEARCH,
            query=" OR ".join(dict.fromkeys(f"({form})" for form in forms)),
            plain=plain,
            end=plain + "\U0010ffff",
            language=_tag(language),
            limit=limit,
            under=json.dumps(under),
            not_under=json.dumps(not_under),
            among=json.dumps(None if among is None else list(among)),
        )
        return list(starmap(Name, rows))

    def parents(self, concept_id: str) -> list[str]:
        """Ids of the concepts that this one is a kind of."""
        return [row[0] for row in self._reader.rows(queries.PARENTS, concept_id=concept_id)]

    def children(self, concept_id: str) -> list[str]:
        """Ids of the concepts that are a kind of this one."""
        return [row[0] for row in self._reader.rows(queries.CHILDREN, concept_id=concept_id)]

    def below(self, concept_ids: Iterable[str]) -> set[str]:
        """Ids of all concepts below some; these are among them only where one is below another."""
        children = {child for one in set(concept_ids) for child in self.children(one)}
        return {row[0] for row in self._reader.rows(queries.BELOW, under=json.dumps(sorted(children)))}

    def ancestors(self, concept_id: str, max_depth: int = 64) -> list[tuple[str, int]]:
        """Ids of all concepts above this one with the number of steps on the shortest way, nearest first.

        At most ``max_depth`` steps are taken; the concept itself is no part of it, also where the source has a cycle.
        """
        rows = self._reader.rows(queries.ANCESTORS, concept_id=concept_id, limit=max_depth)
        return [(row[0], row[1]) for row in rows]

    def definitions(self, concept_id: str) -> list[Definition]:
        """Definitions of a concept."""
        return list(starmap(Definition, self._reader.rows(queries.DEFINITIONS, concept_id=concept_id)))

    def semantic_types(self, concept_id: str) -> list[SemanticType]:
        """Semantic types of a concept."""
        return list(starmap(SemanticType, self._reader.rows(queries.SEMANTIC_TYPES, concept_id=concept_id)))

    def mappings(self, concept_id: str) -> list[Mapping]:
        """Codes of a concept in other systems."""
        return list(starmap(Mapping, self._reader.rows(queries.MAPPINGS, concept_id=concept_id)))

    def mappings_of(self, concept_ids: Iterable[str]) -> dict[str, list[Mapping]]:
        """As :meth:`mappings`, for many concepts in one query; those without a code are left out."""
        asked = json.dumps(list(dict.fromkeys(concept_ids)))
        found: dict[str, list[Mapping]] = {}
        for one in starmap(Mapping, self._reader.rows(queries.MAPPINGS_OF, concept_ids=asked)):
            found.setdefault(one.concept_id, []).append(one)
        return found

    def mapped(self, system: str, code: str) -> list[str]:
        """Ids of the concepts that map to a code of another system."""
        return [row[0] for row in self._reader.rows(queries.MAPPED, system=system, code=code)]

    def relations(self, concept_id: str) -> list[Relation]:
        """Relations in which a concept is head or tail."""
        return list(starmap(Relation, self._reader.rows(queries.RELATIONS, concept_id=concept_id)))

    def retired(self, concept_id: str) -> list[Retired]:
        """What is said of a concept that its source has withdrawn; nothing where a file of an older medlink kept none.

        A source may name a concept that is not there, or is retired as well: see :func:`medlink.kb.retired.successors`.

        Raises:
            KnowledgeBaseError: the file says something that is none of :data:`~medlink.records.RETIREMENTS`.
        """
        rows = self._reader.rows(queries.RETIRED, concept_id=concept_id) if self.schema_version >= WITH_RETIRED else []
        found = list(starmap(Retired, rows))
        for one in found:
            if one.type not in RETIREMENTS:
                raise KnowledgeBaseError(
                    f"unknown kind of retirement {visible(one.type)[:40]!r}", path=self.path, remedy=REMEDY
                )
        # that nothing stands for it counts only where nothing else is said
        return [one for one in found if one.type != "deleted"] or found

    def iter_names(
        self,
        *,
        languages: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        semantic_types: Iterable[str] | None = None,
        after: int = 0,
    ) -> Iterator[Name]:
        """Names, lazily, by (concept_id, language, not preferred, text).

        Given only of these ``languages``, ``sources``, and concepts with one of ``semantic_types`` (name or code), and
        of row numbers above ``after`` (see :func:`~medlink.kb.extend_kb`).
        """
        filters = {"languages": _tags(languages), "sources": sources, "semantic_types": semantic_types}
        return self._every(Name, schema.name, after=after, **filters)

    def iter_concepts(
        self, *, sources: Iterable[str] | None = None, semantic_types: Iterable[str] | None = None
    ) -> Iterator[Concept]:
        """Concepts, lazily, by id; filters as for :meth:`iter_names`."""
        return self._every(Concept, schema.concept, sources=sources, semantic_types=semantic_types)

    def iter_relations(
        self,
        *,
        types: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        semantic_types: Iterable[str] | None = None,
    ) -> Iterator[Relation]:
        """Relations, lazily, by (head, type, tail); ``semantic_types`` are those of the head."""
        return self._every(Relation, schema.relation, type=types, sources=sources, semantic_types=semantic_types)

    def iter_definitions(
        self, *, languages: Iterable[str] | None = None, sources: Iterable[str] | None = None
    ) -> Iterator[Definition]:
        """Definitions, lazily, by concept; filters as for :meth:`iter_names`."""
        return self._every(Definition, schema.definition, languages=_tags(languages), sources=sources)

    def iter_semantic_types(self, *, sources: Iterable[str] | None = None, after: int = 0) -> Iterator[SemanticType]:
        """Semantic types, lazily, by concept; ``after`` as for :meth:`iter_names`."""
        return self._every(SemanticType, schema.semantic_type, sources=sources, after=after)

    def iter_mappings(
        self, *, systems: Iterable[str] | None = None, types: Iterable[str] | None = None
    ) -> Iterator[Mapping]:
        """Mappings, lazily, by concept."""
        return self._every(Mapping, schema.mapping, system=systems, type=types)

    def _every(
        self, record: Callable[..., T], table: Table, *, after: int = 0, **filters: Iterable[str] | None
    ) -> Iterator[T]:
        listed = {
            key: None if value is None else [value] if isinstance(value, str) else list(value)
            for key, value in filters.items()
        }
        return starmap(record, self._reader.stream(queries.every(table, self.extended, after=after, **listed)))


def _tag(language: str | None) -> str:
    """The tag of a language, ``""`` for none; raises :class:`ConfigError` for what is none."""
    return named_tag(language) if language else ""


def _tags(languages: Iterable[str] | None) -> list[str] | None:
    listed = [languages] if isinstance(languages, str) else languages
    return None if listed is None else [_tag(language) for language in listed]
