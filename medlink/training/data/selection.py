"""What of a knowledge base is trained on: its languages, and the concepts that are held out of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing

from sqlalchemy import select

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.kb import schema
from medlink.kb.queries import given
from medlink.kb.reading import Reader
from medlink.kb.store import KnowledgeBase
from medlink.language.tags import base, language_filter, wanted
from medlink.records import FSN, Definition, Name
from medlink.training.data.batches import in_parts

OTHER_LANGUAGE = "definition in another language"
UNKNOWN = "definition of no concept here"
_PART = 10_000
_KNOWN = select(schema.concept.c.concept_id).where(schema.concept.c.concept_id.in_(given("concept_ids")))


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
