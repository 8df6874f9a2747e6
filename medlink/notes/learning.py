"""``learn``: read annotated notes, and write learned mentions (:mod:`medlink.notes.learned`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from medlink.errors import InputError
from medlink.files.atomic import check_output_paths
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems, pluralize
from medlink.files.streams import LineFile
from medlink.index import Bundle
from medlink.language.text import Token, exact_words
from medlink.notes.coding import NoteCoder, fit_weights
from medlink.notes.gold import AnnotatedNote, Annotation, Span, find_gold, read_gold
from medlink.notes.language import NoteLanguages
from medlink.notes.learned import is_learned, read_learned, write_learned
from medlink.notes.options import LearnOptions
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note, file_suffix
from medlink.reading.candidates import NO_CONCEPT, NO_MENTION
from medlink.reading.learned import CodeWeights, Entries, Entry, Forms, Head, Learned, decided, key
from medlink.reading.qualifiers import qualifier_reader

CONCEPT, UNDECIDED = "concept", "undecided"
"""Kinds of entries, beside :data:`NO_CONCEPT` and :data:`NO_MENTION`."""
_BATCH = 32
_FOLDS = 5  # parts of the notes; notes of a part are linked with mentions learned from the other parts
_MIN_CODED = 50  # notes from which on the codes of a note are learned


@dataclass(slots=True)
class LearnReport:
    """Counts of notes, mentions and entries.

    ``mentions`` counts the annotated mentions: ``counted`` are used, ``discontinuous`` have several pieces,
    ``partial_words`` do not begin and end with words, and ``duplicates`` have the offsets of another mention.
    ``unknown`` counts mentions by the concept that the bundle lacks. ``learned`` counts the entries of the file by
    their most frequent kind: ``CONCEPT``, ``NO_CONCEPT``, ``NO_MENTION`` or ``UNDECIDED``; ``rare`` entries were in too
    few notes. ``left_out`` counts other files of folders by suffix.
    """

    notes: int = 0
    mentions: int = 0
    counted: int = 0
    discontinuous: int = 0
    partial_words: int = 0
    duplicates: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    learned: Counter[str] = field(default_factory=Counter)
    rare: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    problems: Problems = field(default_factory=lambda: Problems(adjustable=False))


def learn(
    bundle: Bundle | str | Path,
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> LearnReport:
    """Learn the meaning of mentions from annotated notes, and write it to a file.

    An annotation counts for its concept. The same words without an annotation, and unannotated spans that medlink
    links, count as no mention, unless negated: many annotators skip negated findings.

    Args:
        bundle: an opened bundle, or its folder; concepts that it lacks are not learned.
        paths: annotated notes (:mod:`medlink.notes.gold`), folders with them, and files of learned mentions.
        out: the file, which appears when it is complete.
        progress: called with the number of notes read so far.
        options: fields of :class:`LearnOptions`.

    Raises:
        InputError: an input cannot be read, no mention is annotated in enough notes, or the bundle has none of the
            concepts.
        ConfigError: an option is unknown or out of range, or the output cannot be written.
    """
    settings = LearnOptions(**options)
    bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
    files, left_out = find_gold(paths)
    check_output_paths({"the learned mentions": out}, [*files, *paths, bundle.folder])
    report = LearnReport(left_out=left_out)
    learner = _Learner(bundle, settings, report)
    earlier = [path for path in files if _is_learned_file(path)]
    for path in earlier:
        learner.merge(path)
    notes = chain.from_iterable(read_gold(path, report.problems) for path in files if path not in earlier)
    while batch := list(islice(notes, _BATCH)):
        learner.read(batch)
        if progress is not None:
            progress(report.notes)
    learner.count_unannotated()
    learner.check_concepts(files[0])
    if not learner.entries:
        remedy = "name files in which mentions are annotated"
        raise InputError("no mention is annotated", path=files[0], remedy=remedy)
    frequent = {at: entry for at, entry in learner.entries.items() if entry.notes >= settings.least_seen}
    if not frequent:
        message = f"none of its {pluralize(len(learner.entries), 'mention')} is in {settings.least_seen} notes"
        raise InputError(message, path=files[0], remedy="name more notes, or lower least_seen")
    report.rare = len(learner.entries) - len(frequent)
    report.learned = Counter(_kind(entry, settings.least_share) for entry in frequent.values())
    versions, limits = bundle.versions, settings.model_dump(include={"least_seen", "least_share"})
    head = Head(
        kb=versions["kb"], sources=versions["sources"], notes=report.notes, codes=learner.code_weights(), **limits
    )
    write_learned(out, head, frequent)
    return report


def _is_learned_file(path: Path) -> bool:
    if file_suffix(path) != ".jsonl":
        return False
    return is_learned(next(read_json_lines(LineFile(path, Problems(1), allow_empty=True)), (0, {}))[1])


def _kind(entry: Entry, least_share: float) -> str:
    best = decided(entry.everywhere, least_share)
    if best is None:
        return UNDECIDED
    return best.label if best.label in (NO_CONCEPT, NO_MENTION) else CONCEPT


@dataclass(slots=True)
class _Document:
    text: str
    language: str
    note_id: str
    annotated: dict[Span, str] = field(default_factory=dict)
    covered: list[Span] = field(default_factory=list)
    linked: list[Span] = field(default_factory=list)
    concepts: set[str] = field(default_factory=set)


class _Learner:
    def __init__(self, bundle: Bundle, options: LearnOptions, report: LearnReport) -> None:
        self.entries: Entries = {}
        self._bundle, self._kb, self._options, self._report = bundle, bundle.kb, options, report
        self._earlier: Entries = {}
        self._codes: CodeWeights | None = None
        self._folds: tuple[Entries, ...] = tuple({} for _ in range(_FOLDS))  # entries of their notes
        self._numbers: dict[str, int] = {}  # of notes, in their order
        self._languages = NoteLanguages(bundle.index.languages, options.language)
        self._pipeline = NotePipeline(bundle)
        self._reader = cache(qualifier_reader)
        self._documents: list[_Document] = []
        self._notes: dict[tuple[str, str], set[str]] = defaultdict(set)  # of each mention

    def merge(self, path: Path) -> None:
        head, entries = read_learned(path)
        self._report.notes += head.notes
        for at, entry in entries.items():
            self.entries.setdefault(at, Entry()).add(entry)
            self._earlier.setdefault(at, Entry()).add(entry)
        self._codes = head.codes or self._codes

    def check_concepts(self, path: Path) -> None:
        named = {label for entry in self.entries.values() for label in entry.everywhere} - {NO_CONCEPT, NO_MENTION}
        named.update(self._report.unknown)
        if named and not self._kb.sources_of(named):
            message = f"the bundle has none of the {pluralize(len(named), 'concept')} that are annotated"
            raise InputError(message, path=path, remedy="give a bundle of the terminology whose ids were annotated")

    def read(self, notes: Sequence[AnnotatedNote]) -> None:
        documents = []
        for note in notes:
            language = self._languages.detect(Note(note.note_id, note.text or "", note.language))
            if note.text is None:
                self._read_links(note, language)
            else:
                documents.append(self._read_text(note, note.text, language))
        linked = self._pipeline.link([Note(doc.note_id, doc.text, doc.language) for doc in documents])
        for doc, links in zip(documents, linked, strict=True):
            doc.linked = [(mention.start, mention.end) for mention in links.mentions if not mention.link.nil]
        self._documents += documents
        self._report.notes += len(notes)

    def count_unannotated(self) -> None:
        known = defaultdict[str, set[str]](set)
        for known_mention, language in self._notes:
            known[language].add(known_mention)
        for doc in self._documents:
            words = exact_words(doc.text, doc.language)
            for start, end in doc.linked:
                mention = _mention(doc.text, words, start, end)
                if mention is not None and not any(start < last and first < end for first, last in doc.covered):
                    known[doc.language].add(mention.key)
        forms = {language: Forms(mentions) for language, mentions in known.items()}
        for doc in self._documents:
            if doc.language in forms:
                self._count_unannotated(doc, forms[doc.language])
        for at, notes in self._notes.items():
            self.entries.setdefault(at, Entry()).notes += len(notes)
            for note in notes:
                self._folds[self._numbers[note] % _FOLDS][at].notes += 1

    def code_weights(self) -> CodeWeights | None:
        """Fit the codes of notes, each linked with mentions learned from the notes of the other folds.

        With too few notes, returns the weights of the last file that was read, if any.
        """
        documents = [doc for doc in self._documents if doc.concepts]
        if len(documents) < _MIN_CODED:
            return self._codes
        rows = []
        for number in range(_FOLDS):
            try:
                learned = self._learned_without(number)
            except InputError:  # files that were merged have only other concepts
                return self._codes
            coder, pipeline = NoteCoder.of(learned), NotePipeline(self._bundle, learned=learned)
            own = [doc for doc in documents if self._numbers.get(doc.note_id, 0) % _FOLDS == number]
            for start in range(0, len(own), _BATCH):
                batch = own[start : start + _BATCH]
                linked = pipeline.link([Note(doc.note_id, doc.text, doc.language) for doc in batch])
                for doc, links in zip(batch, linked, strict=True):
                    candidates = list(coder.candidates(doc.text, doc.language, links.mentions))
                    rows.append((number, candidates, frozenset(doc.concepts)))
        return fit_weights(rows)

    def _learned_without(self, number: int) -> Learned:
        others = defaultdict[tuple[str, str], Entry](Entry)
        for entries in (self._earlier, *self._folds[:number], *self._folds[number + 1 :]):
            for at, entry in entries.items():
                others[at].add(entry)
        limits = self._options.model_dump(include={"least_seen", "least_share"})
        frequent = {at: entry for at, entry in others.items() if entry.notes >= self._options.least_seen}
        return Learned(Path(), "", Head(kb="", sources={}, notes=0, **limits), frequent, self._bundle)

    def _count_unannotated(self, doc: _Document, forms: Forms) -> None:
        known = set(doc.annotated.values())  # some annotators mark a mention only once in a note
        spans = [
            (mention, (start, end))
            for mention, start, end in forms.places(doc.text, exact_words(doc.text, doc.language))
            if mention not in known and not any(s <= start and end <= e for s, e in doc.covered)
        ]
        reader = self._reader(doc.language)
        note = reader.read(doc.text) if reader is not None and spans else None
        read = [None] * len(spans) if note is None else note.qualify([span for _, span in spans])
        for (mention, _), qualifiers in zip(spans, read, strict=True):
            if note is None or (qualifiers is not None and qualifiers.is_present):
                section = "" if qualifiers is None else qualifiers.section
                self._add(mention, doc.language, NO_MENTION, section, doc.note_id)

    def _read_links(self, note: AnnotatedNote, language: str) -> None:
        for annotation in note.annotations:
            mention = _mention(annotation.text, exact_words(annotation.text, language), 0, len(annotation.text))
            self._report.mentions += not annotation.rejected
            if mention is None:
                self._report.partial_words += not annotation.rejected
            elif label := NO_MENTION if annotation.rejected else self._meaning(annotation):
                self._report.counted += not annotation.rejected
                self._add(mention.key, language, label, annotation.section, note.note_id)

    def _read_text(self, note: AnnotatedNote, text: str, language: str) -> _Document:
        doc, reader = _Document(text, language, note.note_id), self._reader(language)
        words = exact_words(text, language)
        note_status = reader.read(text) if reader is not None else None
        for annotation in note.annotations:
            self._report.mentions += 1
            doc.concepts.update(filter(None, [self._concept(annotation)]))
            doc.covered.append((min(start for start, _ in annotation.pieces), max(end for _, end in annotation.pieces)))
            mention = _mention(text, words, *annotation.pieces[0])
            if len(annotation.pieces) > 1:
                self._report.discontinuous += 1
            elif mention is None:
                self._report.partial_words += 1
            elif (span := mention.span) in doc.annotated:
                self._report.duplicates += 1
            elif label := self._meaning(annotation):
                self._report.counted += 1
                doc.annotated[span] = mention.key
                section = note_status.sections([span])[0] if note_status is not None else ""
                self._add(mention.key, language, label, section, note.note_id)
        return doc

    def _meaning(self, annotation: Annotation) -> str | None:
        if not annotation.concepts:
            return NO_CONCEPT
        concept = self._concept(annotation)
        if concept is None:
            self._report.unknown[annotation.concepts[0]] += 1
        return concept

    def _concept(self, annotation: Annotation) -> str | None:
        for written in annotation.concepts:
            # "MESH:D005334" may be D005334 in the bundle, and "HPO:HP:0001945" HP:0001945
            for concept in (written, written.partition(":")[2]):
                if concept in self._kb:
                    return concept
        return None

    def _add(self, mention: str, language: str, label: str, section: str, note_id: str) -> None:
        fold = self._folds[self._numbers.setdefault(note_id, len(self._numbers)) % _FOLDS]
        for entries in (self.entries, fold):
            entries.setdefault((mention, language), Entry()).seen[section][label] += 1
        self._notes[mention, language].add(note_id)


class _Mention(NamedTuple):
    key: str
    span: Span


def _mention(text: str, words: Sequence[Token], start: int, end: int) -> _Mention | None:
    # None if the offsets cut a word
    first = bisect_right(words, start, key=lambda word: word.end)
    stop = bisect_left(words, end, key=lambda word: word.start)
    if first >= stop or words[first].start < start or words[stop - 1].end > end:
        return None
    span = words[first].start, words[stop - 1].end
    return _Mention(key([word.text for word in words[first:stop]], text[slice(*span)]), span)
