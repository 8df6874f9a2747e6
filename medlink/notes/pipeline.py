"""``NotePipeline``: notes to links with one bundle and one encoder, in this process or in several."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError, InputError, MedlinkError
from medlink.index import Bundle
from medlink.kb import KnowledgeBase
from medlink.kb.systems import named
from medlink.linking import Linker
from medlink.linking.rankers.common import Reranker
from medlink.linking.ranking import Ranker
from medlink.notes.language import NoteLanguages, check_words
from medlink.notes.learned import open_learned
from medlink.notes.options import NoteOptions, for_linker
from medlink.notes.reading import Note
from medlink.processes import end_with_parent
from medlink.reading.abbreviations import check_detector
from medlink.reading.classifier import SpanClassifier
from medlink.reading.protocols import MentionFinder, Qualifier, Span
from medlink.reading.reader import ReadMention, TextReader
from medlink.records import Attribute, Candidate, Link, Mapping, Qualifiers, Value

MAX_LENGTH = 20_000_000
"""Characters of the longest note."""
_BATCH = 32  # notes that are linked together
_AHEAD = 3  # batches that wait for each process, so that none waits for the writer
_CONCEPTS = 65_536  # whose codes are kept


@dataclass(frozen=True, slots=True)
class LinkedMention:
    """A mention by its character offsets in the note, with its link.

    ``qualifiers`` and ``attributes`` are ``None`` where they were not read, as in a language without cues. ``value`` is
    what was measured where that is the finding, ``codes`` those of the concept in the systems that were asked for.
    """

    start: int
    end: int
    link: Link
    qualifiers: Qualifiers | None = None
    attributes: tuple[Attribute, ...] | None = None
    value: Value | None = None
    codes: tuple[Mapping, ...] = ()

    @classmethod
    def of(cls, one: ReadMention, link: Link, codes: tuple[Mapping, ...] = ()) -> LinkedMention:
        return cls(one.start, one.end, link, one.qualifiers, one.attributes, one.value, codes)


@dataclass(frozen=True, slots=True)
class LinkedNote:
    """A note with its language and its links in the order of its text; without them where the note has a problem."""

    note: Note
    language: str = ""
    mentions: tuple[LinkedMention, ...] = ()


class NotePipeline:
    """Find the mentions of notes and link them; options are the fields of :class:`~medlink.notes.options.NoteOptions`.

    Args:
        bundle: an opened bundle, or its folder.
        classifier: what decides which spans of a note are mentions; the weights that ship when left out.
        finder: what finds mentions in place of medlink, or what the option of that name takes.
        ranker: what ranks the candidates of a mention (:class:`~medlink.linking.ranking.Ranker`), or what the option
            of that name takes.
        reranker: what orders the first candidates anew (:class:`~medlink.linking.rankers.common.Reranker`).
        qualifier: what reads the qualifiers of mentions in place of medlink.

    Raises:
        ConfigError: an option is unknown, out of range, or names what the bundle does not have.
        InputError: the learned mentions cannot be read.
    """

    def __init__(
        self,
        bundle: Bundle | str | Path,
        *,
        classifier: SpanClassifier | None = None,
        finder: MentionFinder | str | None = None,
        ranker: Ranker | str | None = None,
        reranker: Reranker | None = None,
        qualifier: Qualifier | None = None,
        **options: Any,
    ) -> None:
        options |= {k: v for k, v in {"finder": finder, "ranker": ranker}.items() if isinstance(v, str)}
        self.options = NoteOptions(**options)
        check_detector(self.options.abbreviations)
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.learned = None if self.options.learned is None else open_learned(self.options.learned, self.bundle)
        own = {} if ranker is None or isinstance(ranker, str) else {"ranker": ranker}
        self._linker = Linker(self.bundle, **(for_linker(self.options, None) | own), reranker=reranker)
        given = None if isinstance(finder, str) else finder
        given = given if self.options.finder is None else SpacyFinder(self.options.finder)
        self._parts: dict[str, Any] = {"finder": given, "classifier": classifier, "qualifier": qualifier}
        self._codes = Codes(self.bundle.kb, self.options.map)
        self._languages = NoteLanguages(self.bundle.index.languages, self.options.language)
        self._readers: dict[str, TextReader] = {}
        if self._languages.given is not None:
            self._reader(self._languages.given)

    @property
    def versions(self) -> dict[str, Any]:
        reranker = self._linker.reranker
        learned = {} if self.learned is None else {"learned": self.learned.hash}
        parts = {name: _fingerprint(part) for name, part in self._parts.items() if part is not None}
        return self.bundle.versions | learned | parts | ({} if reranker is None else {"ranker": reranker.fingerprint})

    def ranker_said(self) -> list[str]:
        """Sentences on what did not go well with the re-ranker."""
        return self._linker.ranker_said()

    @property
    def ranker_counts(self) -> Counter[str]:
        """What the re-ranker met; nothing where there is none."""
        reranker = self._linker.reranker
        return Counter() if reranker is None else reranker.counts

    def link(self, notes: Sequence[Note]) -> list[LinkedNote]:
        """Link notes together: a mention that several of them share is ranked once."""
        languages = [self._language(note) for note in notes]
        read: list[list[ReadMention]] = [[] for _ in notes]
        for language in dict.fromkeys(one for one in languages if isinstance(one, str)):
            mine = [number for number, one in enumerate(languages) if one == language]
            for number, found in zip(mine, self._reader(language).read([notes[n].text for n in mine]), strict=True):
                read[number] = found
        mentions = [one for found in read for one in found]
        links = iter(self._linker.link([m.mention for m in mentions], [m.context for m in mentions], k=self.options.k))
        return [
            LinkedNote(note, language, tuple([self._mention(one, next(links)) for one in found]))
            if isinstance(language, str)
            else LinkedNote(replace(note, text="", problem=language.message, remedy=language.remedy))
            for note, language, found in zip(notes, languages, read, strict=True)
        ]

    def _mention(self, one: ReadMention, link: Link) -> LinkedMention:
        return LinkedMention.of(one, link, () if link.nil else self._codes.of(link.candidates[0]))

    def _language(self, note: Note) -> str | MedlinkError:
        try:
            if note.problem is not None:
                raise InputError(note.problem, remedy=note.remedy)
            if len(note.text) > MAX_LENGTH:
                raise InputError(f"{len(note.text):,} characters, {MAX_LENGTH:,} at most", remedy="divide the note")
            try:
                note.text.encode()
            except UnicodeEncodeError as error:
                message = f"half a surrogate pair at character {error.start}, which no file can hold"
                raise InputError(message, remedy="write the text anew") from None
            language = self._languages.of(note)
            self._reader(language)
        except MedlinkError as error:
            return error
        return language

    def _reader(self, language: str) -> TextReader:
        if language not in self._readers:
            check_words(language)
            self._readers[language] = TextReader(
                self.bundle, language, self.options, linker=self._linker, learned=self.learned, **self._parts
            )
        return self._readers[language]


class Codes:
    """The codes of concepts in some systems; a system is known under each of its names (``ICD10CM``, ``ICD-10-CM``)."""

    def __init__(self, kb: KnowledgeBase, systems: Sequence[str]) -> None:
        self._kb = kb
        self._systems = {named(system).name: number for number, system in enumerate(systems)}
        self._of = lru_cache(_CONCEPTS)(self._mappings)

    def of(self, candidate: Candidate) -> tuple[Mapping, ...]:
        """The codes of a candidate, and those under its ids of other sources: by system as asked for, then by code."""
        if not self._systems:
            return ()
        found = {one: None for concept in (candidate.concept_id, *candidate.same_as) for one in self._of(concept)}
        # two ids of one concept may have one code
        distinct = {(named(one.system).name, one.code): one for one in reversed(found)}
        return tuple(sorted(distinct.values(), key=lambda one: (self._systems[named(one.system).name], one.code)))

    def _mappings(self, concept_id: str) -> list[Mapping]:
        return [one for one in self._kb.mappings(concept_id) if named(one.system).name in self._systems]


class SpacyFinder:
    """Find mentions by the entities of a pipeline: a package that is installed, or a folder; ConfigError for none."""

    def __init__(self, name: str) -> None:
        import spacy

        try:
            self._nlp = spacy.load(name)
        except (OSError, ValueError, ImportError) as error:
            remedy = "install the package of the pipeline, or name its folder"
            raise ConfigError(f"finder is {name!r}, which is no spaCy pipeline", remedy=remedy) from error
        self._nlp.max_length = MAX_LENGTH  # spaCy's own limit is meant for parsers

    @property
    def fingerprint(self) -> str:
        """Name and version of the pipeline: links depend on it."""
        meta: dict[str, Any] = self._nlp.meta
        return f"{meta['lang']}_{meta['name']} {meta['version']}"

    def find(self, texts: Sequence[str], language: str) -> list[list[Span]]:
        """The entities of each of n texts, whatever language the pipeline is of."""
        docs = self._nlp.pipe(texts, batch_size=_BATCH)
        return [[(entity.start_char, entity.end_char) for entity in doc.ents] for doc in docs]


def _fingerprint(part: object) -> str:
    return str(getattr(part, "fingerprint", f"{type(part).__module__}.{type(part).__qualname__}"))


def link_all(pipeline: NotePipeline, notes: Iterable[Note], processes: int = 1) -> Iterator[list[LinkedNote]]:
    """Link notes batch by batch, in their order; each of the processes has a pipeline for as long as the run lasts."""
    source = iter(notes)
    batches = iter(lambda: list(islice(source, _BATCH)), [])
    if processes == 1:
        yield from map(pipeline.link, batches)
        return
    # A fork has what the parent has opened; the knowledge base and Faiss know that they are in another process.
    pipeline.bundle.index.prepare()
    with ProcessPoolExecutor(processes, get_context("fork"), _begin, (pipeline,)) as pool:
        waiting: deque[Future[tuple[list[LinkedNote], Counter[str]]]] = deque()
        try:
            for batch in batches:
                waiting.append(pool.submit(_link, batch))
                if len(waiting) >= _AHEAD * processes:
                    yield _counted(pipeline, *waiting.popleft().result())
            while waiting:
                yield _counted(pipeline, *waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()


_pipeline: NotePipeline
"""The pipeline of a worker process."""


def _begin(pipeline: NotePipeline) -> None:
    global _pipeline  # noqa: PLW0603 # a worker's own
    _pipeline = pipeline
    end_with_parent()


def _link(notes: list[Note]) -> tuple[list[LinkedNote], Counter[str]]:
    before = _pipeline.ranker_counts.copy()
    linked = _pipeline.link(notes)
    return linked, _pipeline.ranker_counts - before


def _counted(pipeline: NotePipeline, linked: list[LinkedNote], counts: Counter[str]) -> list[LinkedNote]:
    pipeline.ranker_counts.update(counts)
    return linked
