"""``medlink link``: notes in, one JSON line for each mention out."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click

from medlink.cli.notes import STANDARD_INPUT, Fields, Note, find_inputs, read_notes
from medlink.errors import ConfigError, InputError
from medlink.kb.languages import language_tag
from medlink.text import LANGUAGES

_BATCH = 64  # notes that are linked together; what a kill costs at most, for each process
_SHOWN = 5  # unreadable notes that are named


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("paths", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Output file [default: standard output].")
@click.option("--language", help="Language of all notes [default: found out for each note].")
@click.option("--k", default=5, show_default=True, type=click.IntRange(min=1), help="Candidates for each mention.")
@click.option(
    "--threshold", default=0.5, show_default=True, type=click.FloatRange(0, 1), help="Score below which it is NIL."
)
@click.option("--semantic-types", multiple=True, help="Only concepts of this semantic type; may be repeated.")
@click.option("--sources", multiple=True, help="Only names of this source; may be repeated.")
@click.option("--text-field", default="text", show_default=True, help="JSONL field with the text.")
@click.option("--id-field", default="id", show_default=True, help="JSONL field with the id of the note.")
@click.option("--language-field", default="language", show_default=True, help="JSONL field with the language.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(min=1), help="Worker processes.")
@click.option("--resume", is_flag=True, help="Go on where a killed run with the same options stopped; needs --out.")
def link(
    bundle: Path,
    paths: tuple[str, ...],
    out: Path | None,
    language: str | None,
    k: int,
    threshold: float,
    semantic_types: tuple[str, ...],
    sources: tuple[str, ...],
    text_field: str,
    id_field: str,
    language_field: str,
    processes: int,
    resume: bool,
) -> None:
    """Link the notes in PATHS (text files, JSONL, folders, or - for standard input) to the concepts of BUNDLE.

    Writes one JSON line for each mention: note, character offsets, language, concept, score, candidates, and the
    versions and hashes that the link depends on.
    """
    from tqdm import tqdm

    from medlink.index import Bundle

    inputs = find_inputs(paths)
    _check_output(out, inputs, resume)
    opened = Bundle(bundle)
    options = {
        "k": k,
        "threshold": threshold,
        "semantic_types": list(semantic_types),
        "sources": list(sources),
    }
    run = _Run(opened, options, language, processes)
    job = hashlib.sha256(
        json.dumps(
            [_state(inputs), options, language, opened.versions, text_field, id_field, language_field], sort_keys=True
        ).encode()
    ).hexdigest()
    notes = read_notes(inputs, Fields(text_field, id_field, language_field))
    problems: list[Note] = []
    counts: Counter[str] = Counter()
    with _Output(out, job, resume) as output:
        for _ in islice(notes, output.done):
            pass
        bar = tqdm(desc="notes", unit=" notes", initial=output.done, disable=None if out else True)
        while batch := [_bounded(note) for note in islice(notes, _BATCH * processes)]:
            problems += [note for note in batch if note.problem]
            lines = run.link([note for note in batch if not note.problem])
            counts["notes"] += len(batch)
            for line in lines:
                counts["mentions"] += 1
                counts["linked"] += not line["nil"]
                output.write(json.dumps(line, ensure_ascii=False) + "\n")
            output.commit(len(batch))
            bar.update(len(batch))
        bar.close()
        if output.done and len(problems) == output.done:
            raise InputError(f"no note could be read; the first: {problems[0].problem}", path=problems[0].note_id)
    click.echo(
        f"{counts['notes']} notes, {counts['mentions']} mentions, {counts['linked']} linked"
        + (f", {len(problems)} notes could not be read" if problems else ""),
        err=True,
    )
    for note in problems[:_SHOWN]:
        click.echo(f"  {note.note_id}: {note.problem}", err=True)


def _bounded(note: Note) -> Note:
    """A note that is too long for the pipeline, as a problem."""
    from medlink.spacy_components.pipeline import MAX_LENGTH

    if len(note.text) <= MAX_LENGTH:
        return note
    return Note(note.note_id, problem=f"{len(note.text):,} characters, {MAX_LENGTH:,} at most")


def _check_output(out: Path | None, inputs: list[str], resume: bool) -> None:
    """Refuse before the work what would lose it, or the notes."""
    if out is None:
        return
    if out.is_dir():
        raise ConfigError("the output is a folder", path=out, remedy="name a file")
    if out.resolve() in {Path(given).resolve() for given in inputs if given != STANDARD_INPUT}:
        raise ConfigError(
            "the output is one of the inputs", path=out, remedy="write it outside the folder of the notes"
        )
    if resume and STANDARD_INPUT in inputs:
        raise ConfigError("standard input cannot be resumed", remedy="put the notes into a file")


def _state(inputs: list[str]) -> list[tuple[str, int, int]]:
    """Inputs with size and time of change: a run is resumed on the notes that it began with."""
    facts = []
    for given in inputs:
        status = None if given == STANDARD_INPUT else Path(given).stat()
        facts.append((given, status.st_size, status.st_mtime_ns) if status else (given, 0, 0))
    return facts


class _Run:
    """Pipelines by language, made when a note needs one."""

    def __init__(self, bundle: Any, options: dict[str, Any], language: str | None, processes: int) -> None:
        self._bundle, self._options, self._processes = bundle, options, processes
        self._language = language
        self._languages = sorted(set(LANGUAGES) & set(bundle.index.names.languages)) or ["en"]
        self._pipelines: dict[str, Any] = {}
        self._detector: Any = None

    def link(self, notes: list[Note]) -> Iterator[dict[str, Any]]:
        """Lines of the notes, in their order."""
        by_language: dict[str, list[int]] = {}
        for i, note in enumerate(notes):
            by_language.setdefault(self._language or self._known(note.language) or self._detect(note.text), []).append(
                i
            )
        found: dict[int, list[dict[str, Any]]] = {}
        for language, places in by_language.items():
            texts = [notes[i].text for i in places]
            docs = self._pipeline(language).pipe(texts, batch_size=_BATCH, n_process=min(self._processes, len(texts)))
            for i, doc in zip(places, docs, strict=True):
                found[i] = [self._line(notes[i], language, span) for span in doc.ents]
        for i in range(len(notes)):
            yield from found[i]

    @staticmethod
    def _known(language: str | None) -> str | None:
        """The language that a note names, ``None`` where medlink has no rules for it: it is then found out."""
        base = (language_tag(language or "") or "").partition("-")[0]
        return base if base in LANGUAGES else None

    def _line(self, note: Note, language: str, span: Any) -> dict[str, Any]:
        result = span._.medlink
        best = result["candidates"][0] if not result["nil"] else None
        return {
            "note": note.note_id,
            "start": span.start_char,
            "end": span.end_char,
            "text": span.text,
            "language": language,
            "concept_id": result["concept_id"],
            "preferred_name": best["preferred_name"] if best else None,
            "score": best["score"] if best else None,
            "nil": result["nil"],
            "expanded": result["expanded"],
            "candidates": result["candidates"],
            "versions": self._bundle.versions,
        }

    def _pipeline(self, language: str) -> Any:
        if language not in self._pipelines:
            from medlink.spacy_components.pipeline import build_pipeline

            try:
                self._pipelines[language] = build_pipeline(self._bundle.folder, language, **self._options)
            except ImportError as error:
                raise ConfigError(
                    f"spaCy has no language {language!r}", remedy="give a BCP 47 tag such as de, en or es"
                ) from error
        return self._pipelines[language]

    def _detect(self, text: str) -> str:
        """Language of a note among those the bundle has rules and names for; the first of them for no words at all."""
        if len(self._languages) == 1:
            return self._languages[0]
        if self._detector is None:
            from lingua import IsoCode639_1, LanguageDetectorBuilder

            codes = [getattr(IsoCode639_1, language.upper()) for language in self._languages]
            self._detector = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()
        found = self._detector.detect_language_of(text[:10_000])
        return found.iso_code_639_1.name.lower() if found else self._languages[0]


class _Output:
    """Lines beside the wanted file, renamed when all are written; what is finished after each batch is kept for
    ``--resume``."""

    def __init__(self, out: Path | None, job: str, resume: bool) -> None:
        self._out, self._job, self.done = out, job, 0
        if out is None:
            if resume:
                raise ConfigError("--resume needs --out")
            self._file: TextIO = sys.stdout
            return
        self._part, self._state = out.with_name(out.name + ".part"), out.with_name(out.name + ".part.json")
        size = 0
        if resume and self._state.exists() and self._part.exists():
            state = json.loads(self._state.read_text("utf-8"))
            if state["job"] != job:
                raise ConfigError(
                    "the unfinished run had other inputs, options or another bundle",
                    path=self._part,
                    remedy="run without --resume to start anew",
                )
            self.done, size = state["notes"], state["bytes"]
        try:
            self._file = self._part.open("r+" if size else "w", encoding="utf-8", newline="")
            self._file.seek(size)
            self._file.truncate()
        except OSError as error:
            raise ConfigError(f"the output cannot be written: {error.strerror}", path=out) from error

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._out is None:
            self._file.flush()
            return
        self._file.close()
        if kind is None:
            os.replace(self._part, self._out)
            self._state.unlink(missing_ok=True)

    def write(self, line: str) -> None:
        """Add a line."""
        self._file.write(line)

    def commit(self, notes: int) -> None:
        """Say that so many more notes are finished."""
        self.done += notes
        self._file.flush()
        if self._out is not None:
            draft = self._state.with_name(self._state.name + ".new")
            state = {"job": self._job, "notes": self.done, "bytes": self._file.tell()}
            draft.write_text(json.dumps(state), encoding="utf-8")
            os.replace(draft, self._state)
