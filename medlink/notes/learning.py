"""``learn``: annotated notes in, learned mentions out (:mod:`medlink.notes.learned`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.atomic import check_targets
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems, counted
from medlink.files.streams import LineFile
from medlink.index import Bundle
from medlink.language.text import Token, exact_words
from medlink.notes.gold import AnnotatedNote, Annotation, Piece, find_gold, read_gold
from medlink.notes.language import NoteLanguages
from medlink.notes.learned import is_learned, read_learned, write_learned
from medlink.notes.options import LearnOptions
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note, ending
from medlink.reading.candidates import NO_CONCEPT, NO_MENTION
from medlink.reading.learned import Entries, Entry, Forms, Head, decided, key
from medlink.reading.status import status_reader

CONCEPT, UNDECIDED = "concept", "undecided"
"""What an entry may be beside :data:`NO_CONCEPT` and :data:`NO_MENTION`."""
_BATCH = 32


@dataclass(slots=True)
class LearnReport:
    """What was read, and what was learned of it.

    ``mentions`` are all that are annotated: ``counted`` ones, ``parted`` ones in several pieces, ``inside`` those that
    are parts of words or have none, ``again`` those at a place where one is annotated already, and ``unknown`` those of
    each concept that the bundle does not have. ``learned`` are the entries of the file by what they were most often:
    ``CONCEPT``, ``NO_CONCEPT``, ``NO_MENTION`` or ``UNDECIDED``; ``rare`` were in too few notes. ``left_out`` is what
    else was in the folders, by ending.
    """

    notes: int = 0
    mentions: int = 0
    counted: int = 0
    parted: int = 0
    inside: int = 0
    again: int = 0
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
    """Learn from annotated notes what their mentions are, and write it to a file.

    What is annotated counts for its concept; the same words elsewhere, and what medlink would link without these
    annotations, count as no mention. A note that denies a finding says nothing: many annotate no such findings.

    Args:
        bundle: an opened bundle, or its folder: whose concepts count, and which names are found.
        paths: annotated notes (:mod:`medlink.notes.gold`), folders with them, and files that were learned before.
        out: the file, which appears whole.
        progress: called with the number of notes that are read so far.
        options: fields of :class:`LearnOptions`.

    Raises:
        InputError: an input cannot be read, nothing is annotated, nothing was in enough notes, or the bundle has none
            of the concepts.
        ConfigError: an option is unknown or out of range, or the output cannot be written.
    """
    settings = LearnOptions(**options)
    bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
    files, left_out = find_gold(paths)
    check_targets({"the learned mentions": out}, [*files, *paths, bundle.folder])
    report = LearnReport(left_out=left_out)
    learner = _Learner(bundle, settings, report)
    known = [path for path in files if _was_learned(path)]
    for path in known:
        learner.merge(path)
    notes = chain.from_iterable(read_gold(path, report.problems) for path in files if path not in known)
    while batch := list(islice(notes, _BATCH)):
        learner.read(batch)
        if progress is not None:
            progress(report.notes)
    learner.count_others()
    learner.check_concepts(files[0])
    if not learner.entries:
        remedy = "name files in which mentions are annotated"
        raise InputError("no mention is annotated", path=files[0], remedy=remedy)
    kept = {at: entry for at, entry in learner.entries.items() if entry.notes >= settings.least_seen}
    if not kept:
        message = f"none of its {counted(len(learner.entries), 'mention')} is in {settings.least_seen} notes"
        raise InputError(message, path=files[0], remedy="name more notes, or lower least_seen")
    report.rare = len(learner.entries) - len(kept)
    report.learned = Counter(_kind(entry, settings.least_share) for entry in kept.values())
    versions = bundle.versions
    seen, share = settings.least_seen, settings.least_share
    head = Head(kb=versions["kb"], sources=versions["sources"], notes=report.notes, least_seen=seen, least_share=share)
    write_learned(out, head, kept)
    return report


def _was_learned(path: Path) -> bool:
    if ending(path) != ".jsonl":
        return False
    return is_learned(next(read_json_lines(LineFile(path, Problems(1), may_be_empty=True)), (0, {}))[1])


def _kind(entry: Entry, least_share: float) -> str:
    taught = decided(entry.everywhere, least_share)
    if taught is None:
        return UNDECIDED
    return taught.what if taught.what in (NO_CONCEPT, NO_MENTION) else CONCEPT


@dataclass(slots=True)
class _Text:
    text: str
    language: str
    note_id: str
    marked: dict[Piece, str] = field(default_factory=dict)
    covered: list[Piece] = field(default_factory=list)
    linked: list[Piece] = field(default_factory=list)


class _Learner:
    def __init__(self, bundle: Bundle, options: LearnOptions, report: LearnReport) -> None:
        self.entries: Entries = {}
        self._kb, self._report = bundle.kb, report
        self._languages = NoteLanguages(bundle.index.languages, options.language)
        self._pipeline = NotePipeline(bundle)
        self._reader = cache(status_reader)
        self._texts: list[_Text] = []
        self._seen: dict[tuple[str, str], set[str]] = defaultdict(set)  # the notes of mentions

    def merge(self, path: Path) -> None:
        head, entries = read_learned(path)
        self._report.notes += head.notes
        for at, entry in entries.items():
            self.entries.setdefault(at, Entry()).add(entry)

    def check_concepts(self, path: Path) -> None:
        named = {what for entry in self.entries.values() for what in entry.everywhere} - {NO_CONCEPT, NO_MENTION}
        named.update(self._report.unknown)
        if named and not self._kb.sources_of(named):
            message = f"the bundle has none of the {counted(len(named), 'concept')} that are annotated"
            raise InputError(message, path=path, remedy="give a bundle of the terminology whose ids were annotated")

    def read(self, notes: Sequence[AnnotatedNote]) -> None:
        texts = []
        for note in notes:
            language = self._languages.of(Note(note.note_id, note.text or "", note.language))
            if note.text is None:
                self._read_links(note, language)
            else:
                texts.append(self._read_text(note, note.text, language))
        linked = self._pipeline.link([Note(one.note_id, one.text, one.language) for one in texts])
        for one, links in zip(texts, linked, strict=True):
            one.linked = [(found.start, found.end) for found in links.mentions if not found.link.nil]
        self._texts += texts
        self._report.notes += len(notes)

    def count_others(self) -> None:
        found = defaultdict[str, set[str]](set)
        for known, language in self._seen:
            found[language].add(known)
        for one in self._texts:
            words = exact_words(one.text, one.language)
            # what medlink would link
            for start, end in one.linked:
                mention = _mention(one.text, words, start, end)
                if mention is not None and not any(start < last and first < end for first, last in one.covered):
                    found[one.language].add(mention[0])
        forms = {language: Forms(mentions) for language, mentions in found.items()}
        for one in self._texts:
            if one.language in forms:
                self._count_others(one, forms[one.language])
        for at, notes in self._seen.items():
            self.entries.setdefault(at, Entry()).notes += len(notes)

    def _count_others(self, one: _Text, forms: Forms) -> None:
        known = set(one.marked.values())  # some annotate a mention once in a note
        places = [
            (mention, (start, end))
            for mention, start, end in forms.places(one.text, exact_words(one.text, one.language))
            if mention not in known and not any(s <= start and end <= e for s, e in one.covered)
        ]
        reader = self._reader(one.language)
        note = reader.read(one.text) if reader is not None and places else None
        said = [None] * len(places) if note is None else note.qualify([at for _, at in places])
        for (mention, _), qualifiers in zip(places, said, strict=True):
            if note is None or (qualifiers is not None and qualifiers.is_present):
                section = "" if qualifiers is None else qualifiers.section
                self._add(mention, one.language, NO_MENTION, section, one.note_id)

    def _read_links(self, note: AnnotatedNote, language: str) -> None:
        for one in note.annotations:
            mention = _mention(one.text, exact_words(one.text, language), 0, len(one.text))
            self._report.mentions += not one.rejected
            if mention is None:
                self._report.inside += not one.rejected
            elif what := NO_MENTION if one.rejected else self._what(one):
                self._report.counted += not one.rejected
                self._add(mention[0], language, what, one.section, note.note_id)

    def _read_text(self, note: AnnotatedNote, text: str, language: str) -> _Text:
        found, words, reader = _Text(text, language, note.note_id), exact_words(text, language), self._reader(language)
        said = reader.read(text) if reader is not None else None
        for one in note.annotations:
            self._report.mentions += 1
            found.covered.append((min(start for start, _ in one.pieces), max(end for _, end in one.pieces)))
            mention = _mention(text, words, *one.pieces[0])
            if len(one.pieces) > 1:
                self._report.parted += 1
            elif mention is None:
                self._report.inside += 1
            elif mention[1] in found.marked:
                self._report.again += 1
            elif what := self._what(one):
                self._report.counted += 1
                found.marked[mention[1]] = mention[0]
                section = said.sections([mention[1]])[0] if said is not None else ""
                self._add(mention[0], language, what, section, note.note_id)
        return found

    def _what(self, one: Annotation) -> str | None:
        if not one.concepts:
            return NO_CONCEPT
        for written in one.concepts:
            # "MESH:D005334" may be D005334 in the bundle, and "HPO:HP:0001945" HP:0001945
            for concept in (written, written.partition(":")[2]):
                if concept in self._kb:
                    return concept
        self._report.unknown[one.concepts[0]] += 1
        return None

    def _add(self, mention: str, language: str, what: str, section: str, note_id: str) -> None:
        self.entries.setdefault((mention, language), Entry()).seen[section][what] += 1
        self._seen[mention, language].add(note_id)


def _mention(text: str, words: Sequence[Token], start: int, end: int) -> tuple[str, Piece] | None:
    first = bisect_right(words, start, key=lambda word: word.end)
    stop = bisect_left(words, end, key=lambda word: word.start)
    if first >= stop or words[first].start < start or words[stop - 1].end > end:
        return None
    at = words[first].start, words[stop - 1].end
    return key([word.text for word in words[first:stop]], text[slice(*at)]), at
