"""Time one finder on notes that this process has not read: medlink, or a rival in its own environment.

    python time_notes.py FINDER INDEX NOTES

``NOTES`` are JSON lines of ``id``, ``language``, ``text``, ``mentions`` (their texts) and ``warm``. Those with ``warm``
are read first and not timed, and neither is opening ``INDEX``. Some finders open it anew for each language. The last
line of standard output is JSON: wall and processor seconds, mentions and how many of them have a concept, the most
memory that was resident in MB, and that of the larger worker process.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

Notes = Sequence[dict[str, Any]]
Read = Callable[[Notes], Counter[str]]
"""Reads notes, and counts their mentions and how many of them have a concept."""
Opened = Iterator[tuple[Sequence[str], Read]]
"""What reads notes, after the languages that it reads."""

_BATCH = 32


def _counts(mentions: int, linked: int) -> Counter[str]:
    return Counter(mentions=mentions, linked=linked)


def medlink(index: Path, languages: Sequence[str]) -> Opened:
    """Read batches of notes in this process."""
    from medlink.notes.pipeline import NotePipeline
    from medlink.notes.reading import Note

    pipeline = NotePipeline(index)
    # older versions remember texts, and have another method that does not
    link = getattr(pipeline, "link_new", pipeline.link)

    def read(notes: Notes) -> Counter[str]:
        counts = _counts(0, 0)
        for start in range(0, len(notes), _BATCH):
            batch = [Note(one["id"], one["text"], one["language"]) for one in notes[start : start + _BATCH]]
            mentions = [mention for note in link(batch) for mention in note.mentions]
            counts.update(_counts(len(mentions), sum(not mention.link.nil for mention in mentions)))
        return counts

    yield languages, read


def link_notes(index: Path, languages: Sequence[str], *, processes: int = 1) -> Opened:
    """Write the links of all notes to JSON lines; each call reads the rules of each language anew."""
    from medlink import link_notes
    from medlink.index import Bundle
    from medlink.notes.reading import Note

    bundle = Bundle(index)

    def read(notes: Notes) -> Counter[str]:
        given = [Note(one["id"], one["text"], one["language"]) for one in notes]
        done = link_notes(bundle, given, out=index.with_name("links.jsonl"), processes=processes)
        return _counts(done.mentions, done.linked)

    yield languages, read


def spacy(index: Path, languages: Sequence[str]) -> Opened:
    """Read notes by ``nlp.pipe`` with both components of medlink, language by language."""
    from medlink.spacy_components.components import NIL
    from medlink.spacy_components.pipeline import build_pipeline

    def read(nlp: Any, notes: Notes) -> Counter[str]:
        counts = _counts(0, 0)
        for doc in nlp.pipe((one["text"] for one in notes), batch_size=_BATCH):
            counts.update(_counts(len(doc.ents), sum(span.kb_id_ != NIL for span in doc.ents)))
        return counts

    for language in languages:
        yield [language], partial(read, build_pipeline(index, language))


def candidates(index: Path, languages: Sequence[str]) -> Opened:
    """Ask scispaCy for the candidates of the mentions that each note comes with; five are kept."""
    from scispacy_index import open_index

    generator = open_index(index)

    def read(notes: Notes) -> Counter[str]:
        counts = _counts(0, 0)
        for note in notes:
            for found in generator(note["mentions"], 30) if note["mentions"] else []:
                kept = sorted(found, key=lambda one: -max(one.similarities))[:5]
                counts.update(_counts(1, len(kept) > 0))
        return counts

    yield languages, read


def rival(name: str, index: Path, languages: Sequence[str]) -> Opened:
    """Ask a rival for the spans of each note, language by language."""
    opened = import_module(f"find_{name}").opened

    def read(find: Callable[[str], Sequence[Any]], notes: Notes) -> Counter[str]:
        found = sum(len(find(note["text"])) for note in notes)
        return _counts(found, found)

    for language in languages:
        yield [language], partial(read, opened(index, language))


FINDERS: dict[str, Callable[[Path, Sequence[str]], Opened]] = {
    "medlink": medlink,
    "link_notes": link_notes,
    "link_notes-two": partial(link_notes, processes=2),
    "spacy": spacy,
    "candidates": candidates,
}
"""What is no rival of ``finding.py``."""


def processor_seconds() -> float:
    """Processor time of this process, and of those that it started once they have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def main() -> None:
    """Print what the notes took."""
    # what a library prints is no answer
    answers, sys.stdout = sys.stdout, sys.stderr
    name, index, path = sys.argv[1:]
    notes = list(map(json.loads, Path(path).read_text("utf-8").splitlines()))
    languages = sorted({note["language"] for note in notes})
    counts, wall, processor = _counts(0, 0), 0.0, 0.0
    for own, read in FINDERS.get(name, partial(rival, name))(Path(index), languages):
        mine = [note for note in notes if note["language"] in own]
        read([note for note in mine if note["warm"]])
        timed = [note for note in mine if not note["warm"]]
        wall_before, processor_before = time.perf_counter(), processor_seconds()
        counts.update(read(timed))
        wall += time.perf_counter() - wall_before
        processor += processor_seconds() - processor_before
    # the maximum of getrusage is that of the parent where it was larger
    status = Path("/proc/self/status").read_text("utf-8").splitlines()
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 if name.endswith("-two") else 0
    answer = {"wall": wall, "processor": processor, "memory": memory, "workers": workers, **counts}
    print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
