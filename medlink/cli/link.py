"""``medlink link``: notes in, one JSON line for each mention out."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click

from medlink.errors import ConfigError, InputError
from medlink.files.whole import check_targets, is_replaced, one_error, put_in_place, standard_output, whole_text
from medlink.language.tags import language_tag
from medlink.language.text import LANGUAGES
from medlink.notes.reading import STANDARD_INPUT, Fields, Note, find_inputs, read_notes

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
    _check_output(out, resume, [*paths, *inputs], bundle)
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
    with _output(out, job, resume) as output:
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


def _check_output(out: Path | None, resume: bool, inputs: list[str], bundle: Path) -> None:
    """Refuse before the work what would lose it, or the notes, or the bundle."""
    if out is None:
        if resume:
            raise ConfigError("--resume needs --out")
        return
    if resume and STANDARD_INPUT in inputs:
        raise ConfigError("standard input cannot be resumed", remedy="put the notes into a file")
    read: list[str | int | Path] = [given for given in inputs if given != STANDARD_INPUT]
    if STANDARD_INPUT in inputs:
        with suppress(OSError, AttributeError):  # closed, or no open file of the system
            read.append(sys.stdin.fileno())
    check_targets({"the output": out}, [*read, bundle])
    if is_replaced(out):
        part, state = _beside(out)
        check_targets({"the unfinished output": part, "the state of the output": state}, read)
    elif resume:
        raise ConfigError("only a file can be resumed", path=out, remedy="leave --resume out, or name a file")


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
        self._languages = sorted(set(LANGUAGES) & set(bundle.index.languages)) or ["en"]
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
            # the name of a file may be no UTF-8
            "note": note.note_id.encode("utf-8", "backslashreplace").decode(),
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


def _beside(out: Path) -> tuple[Path, Path]:
    """The unfinished output and its state, beside the file that ``out`` stands for."""
    target = Path(os.path.realpath(out))
    return target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")


class _Unfinished:
    """An output that ``--resume`` can go on with: its lines, and how many notes and bytes are finished.

    The state is there before the lines are, so that a file of that name without one is somebody else's.
    """

    def __init__(self, out: Path, job: str, resume: bool) -> None:
        self.part, self.state = _beside(out)
        self._job = job
        held = self._read()
        if resume and held is not None and held["job"] != job:
            raise ConfigError(
                "the unfinished run had other inputs, options or another bundle",
                path=self.part,
                remedy="run without --resume to start anew",
            )
        self.notes: int = held["notes"] if resume and held is not None else 0
        self.size: int = held["bytes"] if resume and held is not None else 0

    def _read(self) -> dict[str, Any] | None:
        """The state that is there, ``None`` where there is none."""
        begun = self.part.exists()
        if not self.state.exists():
            if begun:
                raise ConfigError(
                    "is no unfinished output of medlink", path=self.part, remedy="move it away, or name another output"
                )
            return None
        try:
            held = json.loads(self.state.read_text("utf-8"))
            return {
                "job": str(held["job"]),
                "notes": int(held["notes"]) if begun else 0,
                "bytes": int(held["bytes"]) if begun else 0,
            }
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                "is no state of an unfinished output", path=self.state, remedy="move it away, or name another output"
            ) from error

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """The lines so far, to add to; what holds none afterwards is not kept."""
        if self.size and self.part.stat().st_size < self.size:
            raise ConfigError(
                "is shorter than its state says", path=self.part, remedy="run without --resume to start anew"
            )
        self._save()
        with self.part.open("r+" if self.size else "w", encoding="utf-8", newline="") as file:
            file.seek(self.size)
            file.truncate()
            yield file

    def keep(self, notes: int, file: TextIO) -> None:
        """Say that the lines of so many notes are in the file."""
        os.fsync(file.fileno())
        self.notes, self.size = notes, os.fstat(file.fileno()).st_size
        self._save()

    def _save(self) -> None:
        with whole_text(self.state, "the state of the output") as file:
            json.dump({"job": self._job, "notes": self.notes, "bytes": self.size}, file)

    def drop(self) -> None:
        """Remove what is kept."""
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)


class _Output:
    """Lines of the output, of which ``done`` notes are finished."""

    def __init__(self, file: TextIO, unfinished: _Unfinished | None = None) -> None:
        self._file, self._unfinished = file, unfinished
        self.done = 0 if unfinished is None else unfinished.notes

    def write(self, line: str) -> None:
        """Add a line."""
        self._file.write(line)

    def commit(self, notes: int) -> None:
        """Say that so many more notes are finished."""
        self.done += notes
        self._file.flush()
        if self._unfinished is not None:
            self._unfinished.keep(self.done, self._file)


@contextmanager
def _output(out: Path | None, job: str, resume: bool) -> Iterator[_Output]:
    """Standard output, what is written to as it stands, or a file that appears when it is whole."""
    if out is None:
        with standard_output("name a file with -o") as file:
            yield _Output(file)
    elif not is_replaced(out):
        with whole_text(out) as file:
            yield _Output(file)
    else:
        unfinished = _Unfinished(out, job, resume)
        with one_error(out, "the output"):
            try:
                with unfinished.open() as file:
                    yield _Output(file, unfinished)
            except BaseException:
                if not unfinished.size:
                    unfinished.drop()
                raise
        put_in_place(unfinished.part, out)
        unfinished.drop()
