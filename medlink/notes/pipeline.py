"""``NotePipeline``: notes to links with one bundle and one encoder, in this process or in several."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from medlink.errors import InputError, MedlinkError
from medlink.index import Bundle
from medlink.linking import Linker
from medlink.notes.again import Again
from medlink.notes.codes import Codes
from medlink.notes.language import NoteLanguages, blank
from medlink.notes.learned import open_learned
from medlink.notes.options import NoteOptions, for_linker
from medlink.notes.reading import Note
from medlink.notes.writers.protocol import LinkedMention
from medlink.processes import end_with_parent
from medlink.reading.abbreviations import check_detector, detector
from medlink.reading.choice import Choice
from medlink.reading.finder import Described, MentionFinder, Mentions, describe
from medlink.reading.learned import Learned
from medlink.reading.status import is_kept, status_reader
from medlink.reading.values import as_measured
from medlink.records import Attribute, Link, Mapping, Qualifiers

MAX_LENGTH = 20_000_000
"""Characters of the longest note."""
_BATCH = 32  # notes that are linked together
_AHEAD = 3  # batches that wait for each process, so that none waits for the writer


_Future = Future[tuple["list[LinkedNote]", "Counter[str]"]]
# what is known of a batch, and a worker that links the rest of it
_Waiting = tuple["list[LinkedNote | None]", "_Future | None"]
_Read = tuple[Described, Qualifiers | None, tuple[Attribute, ...] | None]


@dataclass(frozen=True, slots=True)
class LinkedNote:
    """A note with its language and its links in the order of its text; without them where the note has a problem."""

    note: Note
    language: str = ""
    mentions: tuple[LinkedMention, ...] = ()


class _Reader:
    """What reads the notes of one language."""

    def __init__(
        self,
        bundle: Bundle,
        language: str,
        options: NoteOptions,
        choice: Choice | None,
        linker: Linker,
        learned: Learned | None,
    ) -> None:
        nlp = blank(language)
        self._tokenizer, self._language = nlp.tokenizer, language
        self._finder = MentionFinder(bundle, language, options, choice, linker, learned)
        self._long_forms = detector(options.abbreviations, nlp.vocab)
        self._status = status_reader(language, present_only=options.present_only) if options.qualifiers else None
        self._present_only = options.present_only

    def read(self, texts: Sequence[str]) -> list[list[_Read]]:
        """The mentions of texts, ready for the linker, with what each text says of them."""
        docs = [self._tokenizer(text) for text in texts]
        found = self._finder.find(docs, [{} if self._long_forms is None else self._long_forms(doc) for doc in docs])
        return [self._said(*one) for one in zip(docs, texts, found, strict=True)]

    def _said(self, doc: Doc, text: str, found: Mentions) -> list[_Read]:
        mentions = [describe(doc, text, at, self._language, known) for at, known in found.items()]
        attributes = [known.attributes for known in found.values()]
        if self._status is None:
            return [(one, None, said) for one, said in zip(mentions, attributes, strict=True)]
        places = [(one.start, one.end) for one in mentions]
        loose = {place for place, known in zip(places, found.values(), strict=True) if known.loose}
        qualifiers = self._status.read(text).said_of(places, loose)
        read = zip(mentions, as_measured(qualifiers, (one.value for one in mentions)), attributes, strict=True)
        return [one for one in read if is_kept(one[1], present_only=self._present_only)]


class NotePipeline:
    """Find the mentions of notes and link them; options are the fields of :class:`~medlink.notes.options.NoteOptions`.

    ``choice`` decides which stretches of a note are mentions; the weights that ship when left out.

    Raises:
        ConfigError: an option is unknown, out of range, or names what the bundle does not have.
        InputError: the learned mentions cannot be read.
    """

    def __init__(self, bundle: Bundle | str | Path, *, choice: Choice | None = None, **options: Any) -> None:
        self.options, self._choice = NoteOptions(**options), choice
        check_detector(self.options.abbreviations)
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.learned = None if self.options.learned is None else open_learned(self.options.learned, self.bundle)
        self._linker = Linker(self.bundle, **for_linker(self.options, None))
        self._codes = Codes(self.bundle.kb, self.options.map)
        # a re-ranker remembers for itself, and counts what it is asked
        self._again = Again() if self._linker.reranker is None else None
        self._languages = NoteLanguages(self.bundle.index.languages, self.options.language)
        self._readers: dict[str, _Reader] = {}
        if self._languages.given is not None:
            self._reader(self._languages.given)

    @property
    def versions(self) -> dict[str, Any]:
        """What a link depends on."""
        reranker = self._linker.reranker
        learned = {} if self.learned is None else {"learned": self.learned.hash}
        return self.bundle.versions | learned | ({} if reranker is None else {"ranker": reranker.fingerprint})

    def ranker_said(self) -> list[str]:
        """Sentences on what did not go well with the re-ranker."""
        return self._linker.ranker_said()

    @property
    def ranker_counts(self) -> Counter[str]:
        """What the re-ranker met; nothing where there is none."""
        reranker = self._linker.reranker
        return Counter() if reranker is None else reranker.counts

    def link(self, notes: Sequence[Note]) -> list[LinkedNote]:
        """Link notes together: a mention that several of them share is linked once. What texts that came before have
        is remembered."""
        found = [self.recall(note) for note in notes]
        linked = iter(self.link_new([note for note, known in zip(notes, found, strict=True) if known is None]))
        return [self.remember(next(linked)) if known is None else known for known in found]

    def recall(self, note: Note) -> LinkedNote | None:
        """The links of a note whose text came before; ``None`` where it did not, or nothing is remembered."""
        if self._again is None or note.problem is not None:
            return None
        known = self._again.recall(note)
        return None if known is None else LinkedNote(note, *known)

    def remember(self, linked: LinkedNote) -> LinkedNote:
        """Remember what was found in a note, but no word of it; gives what it was given."""
        if self._again is not None and linked.note.problem is None:
            self._again.keep(linked.note, linked.language, linked.mentions)
        return linked

    def link_new(self, notes: Sequence[Note]) -> list[LinkedNote]:
        """Link notes together, whether their texts came before or not."""
        languages = [self._language(note) for note in notes]
        read: list[list[_Read]] = [[] for _ in notes]
        for language in dict.fromkeys(one for one in languages if isinstance(one, str)):
            mine = [number for number, one in enumerate(languages) if one == language]
            for number, found in zip(mine, self._reader(language).read([notes[n].text for n in mine]), strict=True):
                read[number] = found
        mentions = [one for found in read for one, *_ in found]
        links = iter(self._linker.link([m.mention for m in mentions], [m.context for m in mentions], k=self.options.k))
        return [
            LinkedNote(note, language, tuple(self._mention(m, next(links), q, a) for m, q, a in found))
            if isinstance(language, str)
            else LinkedNote(replace(note, text="", problem=language.message, remedy=language.remedy))
            for note, language, found in zip(notes, languages, read, strict=True)
        ]

    def _mention(
        self, at: Described, link: Link, qualifiers: Qualifiers | None, attributes: tuple[Attribute, ...] | None
    ) -> LinkedMention:
        codes: tuple[Mapping, ...] = () if link.nil else self._codes.of(link.candidates[0])
        return LinkedMention(at.start, at.end, link, qualifiers, attributes, at.value, codes)

    def _language(self, note: Note) -> str | MedlinkError:
        """The language of a note, or why it cannot be read."""
        try:
            if note.problem is not None:
                raise InputError(note.problem, remedy=note.remedy)
            if len(note.text) > MAX_LENGTH:
                message = f"{len(note.text):,} characters, {MAX_LENGTH:,} at most"
                raise InputError(message, remedy="divide the note")
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

    def _reader(self, language: str) -> _Reader:
        if language not in self._readers:
            common = self.options, self._choice, self._linker, self.learned
            self._readers[language] = _Reader(self.bundle, language, *common)
        return self._readers[language]


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
        waiting: deque[_Waiting] = deque()
        try:
            for batch in batches:
                # what is remembered is so here, once for all processes
                found = [pipeline.recall(note) for note in batch]
                new = [note for note, known in zip(batch, found, strict=True) if known is None]
                waiting.append((found, pool.submit(_link, new) if new else None))
                if len(waiting) >= _AHEAD * processes:
                    yield _told(pipeline, *waiting.popleft())
            while waiting:
                yield _told(pipeline, *waiting.popleft())
        finally:
            for _, future in waiting:
                if future is not None:
                    future.cancel()


_pipeline: NotePipeline
"""The pipeline of a worker process."""


def _begin(pipeline: NotePipeline) -> None:
    global _pipeline  # noqa: PLW0603 # a worker's own
    _pipeline = pipeline
    end_with_parent()


def _link(notes: list[Note]) -> tuple[list[LinkedNote], Counter[str]]:
    """The links of some notes, and what the re-ranker met in them."""
    before = _pipeline.ranker_counts.copy()
    linked = _pipeline.link_new(notes)
    return linked, _pipeline.ranker_counts - before


def _told(pipeline: NotePipeline, found: list[LinkedNote | None], future: _Future | None) -> list[LinkedNote]:
    """The links of a batch, of which a worker tells what is not known; its counts are added to those here."""
    if future is None:
        return [known for known in found if known is not None]
    linked, counts = future.result()
    pipeline.ranker_counts.update(counts)
    new = iter(linked)
    return [pipeline.remember(next(new)) if known is None else known for known in found]
