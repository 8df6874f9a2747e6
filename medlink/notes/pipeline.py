"""``NotePipeline``: link notes with one bundle and one encoder, in one process or several."""

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
from medlink.kb.systems import system_by_name
from medlink.linking import Linker
from medlink.linking.rankers.common import Reranker
from medlink.linking.ranking import Ranker
from medlink.notes.coding import NoteCode, NoteCoder
from medlink.notes.language import NoteLanguages, check_word_boundaries
from medlink.notes.learned import open_learned
from medlink.notes.options import NoteOptions, linker_options
from medlink.notes.reading import Note, check_notes
from medlink.processes import exit_with_parent
from medlink.reading.abbreviations import check_detector
from medlink.reading.classifier import SpanClassifier
from medlink.reading.learned import Learned
from medlink.reading.protocols import MentionFinder, Qualifier, Span
from medlink.reading.reader import ReadMention, TextReader
from medlink.records import Candidate, Link, LinkedMention, Mapping

MAX_LENGTH = 20_000_000
"""Characters of the longest note."""
_BATCH = 32  # notes linked together
_QUEUE = 3  # batches queued for each process, so that none waits for the writer
_CACHED_CONCEPTS = 65_536  # with their codes


@dataclass(frozen=True, slots=True)
class LinkedNote:
    """A note with its language and its links in the order of its text; without links if it has a problem.

    ``codes`` are its concepts as a whole (:mod:`medlink.notes.coding`), if enough notes were learned.
    """

    note: Note
    language: str = ""
    mentions: tuple[LinkedMention, ...] = ()
    codes: tuple[NoteCode, ...] = ()


class NotePipeline:
    """Find the mentions of notes and link them; options are the fields of :class:`~medlink.notes.options.NoteOptions`.

    Args:
        bundle: an opened bundle, or its folder.
        classifier: decides which spans are mentions; by default the shipped weights.
        finder: replaces medlink's mention finder; a string is the option ``finder``.
        ranker: ranks the candidates (:class:`~medlink.linking.ranking.Ranker`); a string is the option ``ranker``.
        reranker: reorders the first candidates (:class:`~medlink.linking.rankers.common.Reranker`).
        qualifier: replaces medlink's reader of qualifiers.
        learned: learned mentions, or their file.

    Raises:
        ConfigError: an option is unknown, out of range, or not available in the bundle.
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
        learned: Learned | str | Path | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(learned, Learned):
            options["learned"] = learned
        options |= {k: v for k, v in {"finder": finder, "ranker": ranker}.items() if isinstance(v, str)}
        self.options = NoteOptions(**options)
        check_detector(self.options.abbreviations)
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.learned = learned if isinstance(learned, Learned) else None
        if self.options.learned is not None:
            self.learned = open_learned(self.options.learned, self.bundle)
        self._coder = None if self.learned is None or self.learned.head.codes is None else NoteCoder.of(self.learned)
        own = {} if ranker is None or isinstance(ranker, str) else {"ranker": ranker}
        self.linker = Linker(self.bundle, **(linker_options(self.options, None) | own), reranker=reranker)
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
        reranker = self.linker.reranker
        learned = {} if self.learned is None else {"learned": self.learned.hash}
        parts = {name: _fingerprint(part) for name, part in self._parts.items() if part is not None}
        return self.bundle.versions | learned | parts | ({} if reranker is None else {"ranker": reranker.fingerprint})

    @property
    def ranker_counts(self) -> Counter[str]:
        """Counts of the re-ranker; empty without a re-ranker."""
        return Counter() if self.linker.reranker is None else self.linker.reranker.counts

    def link(self, notes: Sequence[Note]) -> list[LinkedNote]:
        """Link notes together; a mention in several notes is ranked once. Raises ConfigError for what is no note."""
        notes = list(check_notes(notes))
        languages = [self._language(note) for note in notes]
        read: list[list[ReadMention]] = [[] for _ in notes]
        for language in dict.fromkeys(tag for tag in languages if isinstance(tag, str)):
            numbers = [number for number, tag in enumerate(languages) if tag == language]
            texts, days = zip(*((notes[number].text, notes[number].date) for number in numbers), strict=True)
            for number, mentions in zip(numbers, self._reader(language).read(texts, days=days), strict=True):
                read[number] = mentions
        mentions = [mention for note_mentions in read for mention in note_mentions]
        links = self.linker.link([m.mention for m in mentions], [m.context for m in mentions], k=self.options.k)
        with_codes = ((link, () if link.nil else self._codes.of(link.candidates[0])) for link in links)
        return [
            self._linked(note, language, tuple([linked_mention(mention, *next(with_codes)) for mention in own]))
            if isinstance(language, str)
            else LinkedNote(replace(note, text="", problem=language.message, remedy=language.remedy))
            for note, language, own in zip(notes, languages, read, strict=True)
        ]

    def _linked(self, note: Note, language: str, mentions: tuple[LinkedMention, ...]) -> LinkedNote:
        codes = () if self._coder is None else self._coder.codes(note.text, language, mentions)
        return LinkedNote(note, language, mentions, codes)

    def _language(self, note: Note) -> str | MedlinkError:
        try:
            if note.problem is not None:
                raise InputError(note.problem, remedy=note.remedy)
            if len(note.text) > MAX_LENGTH:
                raise InputError(f"{len(note.text):,} characters, {MAX_LENGTH:,} at most", remedy="split the note")
            try:
                note.text.encode()
            except UnicodeEncodeError as error:
                message = f"a lone surrogate at character {error.start}, which no file can store"
                raise InputError(message, remedy="write the text again") from None
            language = self._languages.detect(note)
            self._reader(language)
        except MedlinkError as error:
            return error
        return language

    def _reader(self, language: str) -> TextReader:
        if language not in self._readers:
            check_word_boundaries(language)
            self._readers[language] = TextReader(
                self.bundle, language, self.options, linker=self.linker, learned=self.learned, **self._parts
            )
        return self._readers[language]


def linked_mention(read: ReadMention, link: Link, codes: tuple[Mapping, ...] = ()) -> LinkedMention:
    """Join what was read of a mention with its link."""
    return LinkedMention(read.start, read.end, link, read.qualifiers, read.attributes, read.value, codes)


class Codes:
    """Codes of concepts in some systems; any name of a system will do (``ICD10CM``, ``ICD-10-CM``)."""

    def __init__(self, kb: KnowledgeBase, systems: Sequence[str]) -> None:
        self._kb = kb
        self._systems = {system_by_name(system).name: number for number, system in enumerate(systems)}
        self._cached = lru_cache(_CACHED_CONCEPTS)(self._mappings)

    def of(self, candidate: Candidate) -> tuple[Mapping, ...]:
        """Return the codes of all ids of a candidate, in the given order of systems, then by code."""
        if not self._systems:
            return ()
        codes = dict.fromkeys(code for id_ in (candidate.concept_id, *candidate.same_as) for code in self._cached(id_))
        # two ids of a concept may share a code
        distinct = {(system_by_name(code.system).name, code.code): code for code in reversed(codes)}
        return tuple(
            sorted(distinct.values(), key=lambda code: (self._systems[system_by_name(code.system).name], code.code))
        )

    def _mappings(self, concept_id: str) -> list[Mapping]:
        return [code for code in self._kb.mappings(concept_id) if system_by_name(code.system).name in self._systems]


class SpacyFinder:
    """Finds mentions as entities of a spaCy pipeline (package or folder); raises ConfigError if it cannot be loaded."""

    def __init__(self, name: str) -> None:
        import spacy

        try:
            self._nlp = spacy.load(name)
        except (OSError, ValueError, ImportError) as error:
            remedy = "install the package of the pipeline, or name its folder"
            raise ConfigError(f"finder is {name!r}, which is not a spaCy pipeline", remedy=remedy) from error
        self._nlp.max_length = MAX_LENGTH  # spaCy's default limit is for parsers
        self.fingerprint = "{lang}_{name} {version}".format(**self._nlp.meta)

    def find(self, texts: Sequence[str], language: str) -> list[list[Span]]:
        """Return the entities of each text; ``language`` is ignored."""
        docs = self._nlp.pipe(texts, batch_size=_BATCH)
        return [[(entity.start_char, entity.end_char) for entity in doc.ents] for doc in docs]


def _fingerprint(part: object) -> str:
    return str(getattr(part, "fingerprint", f"{type(part).__module__}.{type(part).__qualname__}"))


def link_all(pipeline: NotePipeline, notes: Iterable[Note], processes: int = 1) -> Iterator[list[LinkedNote]]:
    """Link notes in batches and in order; each worker process has its own copy of the pipeline."""
    source = iter(notes)
    batches = iter(lambda: list(islice(source, _BATCH)), [])
    if processes == 1:
        yield from map(pipeline.link, batches)
        return
    # a fork inherits open files; the knowledge base and Faiss notice that they are in another process
    pipeline.bundle.index.prepare()
    with ProcessPoolExecutor(processes, get_context("fork"), _start_worker, (pipeline,)) as pool:
        waiting: deque[Future[tuple[list[LinkedNote], Counter[str]]]] = deque()
        try:
            for batch in batches:
                waiting.append(pool.submit(_link, batch))
                if len(waiting) >= _QUEUE * processes:
                    yield _add_counts(pipeline, *waiting.popleft().result())
            while waiting:
                yield _add_counts(pipeline, *waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()


_pipeline: NotePipeline
"""The pipeline of a worker process."""


def _start_worker(pipeline: NotePipeline) -> None:
    global _pipeline  # noqa: PLW0603 # one for each worker
    _pipeline = pipeline
    exit_with_parent()


def _link(notes: list[Note]) -> tuple[list[LinkedNote], Counter[str]]:
    before = _pipeline.ranker_counts.copy()
    linked = _pipeline.link(notes)
    return linked, _pipeline.ranker_counts - before


def _add_counts(pipeline: NotePipeline, linked: list[LinkedNote], counts: Counter[str]) -> list[LinkedNote]:
    pipeline.ranker_counts.update(counts)
    return linked
