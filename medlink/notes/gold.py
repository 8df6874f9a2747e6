"""Read annotated notes: brat standoff, PubTator, reviewed links, and tables of decisions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems, pluralize
from medlink.files.streams import LineFile
from medlink.files.tables import read_first_line
from medlink.kb.decision_table import ACCEPT, MENTION, REJECT, iter_decisions
from medlink.language.tags import language_tag
from medlink.notes.reading import file_suffix

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotated mention of a note.

    Attributes:
        pieces: its parts as character offsets; empty if the file lacks the text of the note.
        text: the mention as written in the note.
        concepts: ids as written, likeliest first; may be empty.
        rejected: whether a reviewer rejected it as a mention.
        section: kind of its section, if the file has it.
    """

    pieces: tuple[Span, ...]
    text: str
    concepts: tuple[str, ...] = ()
    rejected: bool = False
    section: str = ""


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note with its annotations; ``text`` and ``language`` are ``None`` if the file lacks them."""

    note_id: str
    text: str | None
    language: str | None
    annotations: tuple[Annotation, ...]


def find_gold(paths: Sequence[str | Path]) -> tuple[list[Path], Counter[str]]:
    """List the annotation files at paths and in folders, in a fixed order, and count other files by suffix.

    Texts of brat annotations do not count as other files.

    Raises:
        InputError: a path does not exist, a folder has no annotations, or the format of a file is unknown.
    """
    files, left_out = list[Path](), Counter[str]()
    for given in map(Path, paths):
        if given.is_dir():
            inside = sorted(path for path in given.rglob("*") if path.is_file() and not path.name.startswith("."))
            read = [path for path in inside if file_suffix(path) in _READERS]
            texts = {path.with_suffix(".txt") for path in read if file_suffix(path) == ".ann"}
            left_out.update(file_suffix(path) or "no ending" for path in inside if path not in texts.union(read))
            if not read:
                suffixes = ", ".join(sorted(_READERS))
                raise InputError(f"no annotations: looked for {suffixes}", path=given, remedy="name the files")
            files += read
        elif given.with_suffix(".ann").is_file() and given.suffix == ".txt":
            files.append(given.with_suffix(".ann"))
        elif not given.is_file():
            raise InputError("no such file or folder", path=given, remedy="name files or folders with annotated notes")
        elif file_suffix(given) in (*_READERS, _TABLE) or begins_as_pubtator(given):
            files.append(given)
        else:
            kinds = "neither brat (.ann), nor JSON lines (.jsonl), nor a table (.tsv), nor PubTator"
            remedy = "convert it, or name the .ann file as the text"
            raise InputError(f"not annotated notes: {kinds}", path=given, remedy=remedy)
    return list(dict.fromkeys(files)), left_out


def read_gold(path: Path, problems: Problems) -> Iterator[AnnotatedNote]:
    """Yield the annotated notes of one file; raises InputError if too many rows are bad."""
    readers = {**_READERS, _TABLE: read_decisions}
    yield from readers.get(file_suffix(path), read_pubtator)(LineFile(path, problems, allow_empty=True))


_MENTION = re.compile(r"(T\S+)\t\S+ ([0-9]{1,9} [0-9]{1,9}(?:;[0-9]{1,9} [0-9]{1,9})*)\t(.*)")
_REFERENCE = re.compile(r"N\S*\t\S+ (\S+) (\S+)(?:\t.*)?")
_NOTE = re.compile(r"#\S*\tAnnotatorNotes (\S+)\t(\S+)\s*")
_OTHERS = ("A", "M", "R", "E", "*", "#")


def read_brat(lines: LineFile) -> Iterator[AnnotatedNote]:
    """Read brat standoff: ``NAME.ann`` beside ``NAME.txt`` (https://brat.nlplab.org/standoff.html), which is one note.

    A mention (``T``) has the concept of its normalisation (``N1 Reference T1 HPO:HP:0001945``), otherwise of a one-word
    note (``#1 AnnotatorNotes T1 HP:0001945``). Attributes, relations and events are ignored.

    Offsets may count a line end of two characters as one or two characters, and a U+FEFF at the beginning as one or
    none. The words of the mentions determine which count the file uses. A mention whose words are not at its offsets is
    a bad row.
    """
    mentions: dict[str, tuple[int, list[Span], str]] = {}
    concepts: dict[bool, defaultdict[str, list[str]]] = {True: defaultdict(list), False: defaultdict(list)}
    for number, line in lines:
        match = _MENTION.fullmatch(line)
        if match is not None and match[1] in mentions:
            lines.bad_row("duplicate mention", number)
        elif match is not None:
            pieces = [(int(start), int(end)) for start, end in (piece.split() for piece in match[2].split(";"))]
            mentions[match[1]] = number, pieces, match[3]
        elif (match := _REFERENCE.fullmatch(line) or _NOTE.fullmatch(line)) is not None:
            concepts[line[0] == "N"][match[1]].append(match[2])
            lines.lines_without_row += 1
        elif not line.strip() or line.startswith(_OTHERS):
            lines.lines_without_row += 1
        else:
            lines.bad_row("not a line of brat standoff", number)
    text = _text(lines)
    plain = text.replace("\r\n", "\n")
    # a note may begin with U+FEFF, which the reader takes for a byte order mark
    versions = [text, plain, f"\ufeff{text}", f"\ufeff{plain}"]
    # brat writes a blank for a line end, and between pieces
    written = [(pieces, words.split()) for _, pieces, words in mentions.values()]
    fits = [[_covered_words(version, pieces) == words for pieces, words in written] for version in versions]
    text, best = max(zip(versions, fits, strict=True), key=lambda pair: sum(pair[1]))
    annotations = []
    for (name, (number, pieces, _)), fit in zip(mentions.items(), best, strict=True):
        if fit:
            ids = concepts[True][name] or concepts[False][name]
            merged = _merge_pieces(text, sorted(pieces))
            annotations.append(Annotation(merged, " ".join(text[a:b] for a, b in merged), tuple(ids)))
        else:
            lines.bad_row(_OTHER_WORDS, number)
    lines.problems.check_bad_share(lines.path, lines.rows - lines.lines_without_row)
    yield AnnotatedNote(str(lines.path.with_suffix(".txt")), text, None, tuple(annotations))


_OTHER_WORDS = "the words at these offsets differ"


def _text(lines: LineFile) -> str:
    beside = lines.path.with_name(lines.path.name.removesuffix(".gz")).with_suffix(".txt")
    if not beside.is_file() and not beside.with_name(beside.name + ".gz").is_file():
        raise InputError("the text of these annotations is missing", path=beside, remedy="put it beside them")
    return LineFile(beside, Problems(), allow_empty=True).read_text()


def _covered_words(text: str, pieces: list[Span]) -> list[str] | None:
    if any(not 0 <= start < end <= len(text) for start, end in pieces):
        return None
    return " ".join(text[start:end] for start, end in pieces).split()


def _merge_pieces(text: str, pieces: list[Span]) -> tuple[Span, ...]:
    merged = pieces[:1]
    for start, end in pieces[1:]:
        if text[merged[-1][1] : start].strip():
            merged.append((start, end))
        else:  # only white space between them
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
    return tuple(merged)


_PART = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_OFFSET = re.compile("[0-9]{1,9}")
_ID_SEPARATOR = re.compile(r"[|,;]")
_NO_CONCEPT = ("", "-", "-1", "None")
_CELLS, _RELATION = (5, 6, 7), 4  # columns of a mention, of a relation


def begins_as_pubtator(path: Path) -> bool:
    """Tell whether a file begins as PubTator."""
    return _PART.match(read_first_line(path)) is not None


def read_pubtator(lines: LineFile) -> Iterator[AnnotatedNote]:
    """Read PubTator: ``ID|t|title``, ``ID|a|abstract``, then ``ID start end mention type concept`` separated by tabs.

    The text is the title, a blank, and the abstract; offsets are characters of it. Ids separated by ``|``, ``,`` or
    ``;`` belong to one mention (https://www.ncbi.nlm.nih.gov/research/pubtator/). A mention whose words are not at its
    offsets is a bad row.
    """
    name, parts, rows = "", dict[str, str](), list[tuple[int, list[str]]]()
    for number, line in lines:
        cells = line.split("\t")
        if (match := _PART.fullmatch(line)) is not None:
            lines.lines_without_row += 1
            if parts and (match[1] != name or match[2] in parts):
                yield _pubtator_note(lines, name, parts, rows)
                parts, rows = {}, []
            name, parts[match[2]] = match[1], match[3]
        elif len(cells) in _CELLS and cells[0] == name and all(map(_OFFSET.fullmatch, cells[1:3])):
            rows.append((number, cells))
        elif len(cells) == _RELATION or not line.strip():
            lines.lines_without_row += 1
        else:
            lines.bad_row("not a line of PubTator", number)
    if parts:
        yield _pubtator_note(lines, name, parts, rows)


def _pubtator_note(
    lines: LineFile, name: str, parts: dict[str, str], rows: list[tuple[int, list[str]]]
) -> AnnotatedNote:
    text = " ".join(parts[kind] for kind in "ta" if kind in parts)
    annotations = []
    for number, (_, start, end, words, _, *concept) in rows:
        span = int(start), int(end)
        if _covered_words(text, [span]) != words.split():
            lines.bad_row(_OTHER_WORDS, number)
            continue
        ids = _ID_SEPARATOR.split(concept[0]) if concept else []
        concepts = tuple(concept_id.strip() for concept_id in ids if concept_id.strip() not in _NO_CONCEPT)
        annotations.append(Annotation((span,), text[slice(*span)], concepts))
    return AnnotatedNote(f"{lines.path}:{name}", text, None, tuple(annotations))


def read_links(lines: LineFile) -> Iterator[AnnotatedNote]:
    """Read reviewed links of :func:`medlink.link_notes`; they have no text of the notes.

    Lines have the fields ``note``, ``text``, ``language``, ``concept_id`` (``null``: no concept is right) and
    optionally ``section``. The reviewer corrects a wrong ``concept_id``, and adds the field ``decision``: ``accept``,
    or ``reject`` for a span that is not a mention. Consecutive links with the same id belong to one note.
    """
    for (note, language), rows in groupby(_links(lines), key=lambda row: row[:2]):
        yield AnnotatedNote(note, None, language, tuple(annotation for *_, annotation in rows))


def _links(lines: LineFile) -> Iterator[tuple[str, str, Annotation]]:
    undecided = 0
    for number, row in read_json_lines(lines):
        if problem := _link_problem(row):
            lines.bad_row(problem, number)
            continue
        decision = row.get("decision")
        undecided += decision is None
        concept = row["concept_id"]
        ids = () if concept is None or decision == REJECT else (concept,)
        annotation = Annotation((), row["text"], ids, decision == REJECT, row.get("section") or "")
        yield str(row["note"]), row["language"], annotation
    if undecided:
        lines.problems.notes.append(
            f"{lines.path}: {pluralize(undecided, 'link')} without a decision, taken as accepted"
        )


def _link_problem(row: dict[str, Any]) -> str:
    if not isinstance(row.get("note"), str | int):
        return "no field 'note' with the id of the note"
    if not isinstance(row.get("text"), str) or not row["text"].strip():
        return "no field 'text' with the mention"
    if "concept_id" not in row or not isinstance(row["concept_id"], str | None):
        return "no field 'concept_id' with an id or null"
    if row.get("decision") not in (None, ACCEPT, REJECT):
        return f"the field 'decision' is neither {ACCEPT!r} nor {REJECT!r}"
    if not isinstance(row.get("language"), str) or language_tag(row["language"]) is None:
        return "no field 'language' with a BCP 47 tag"
    return "" if isinstance(row.get("section"), str | None) else "the field 'section' is not text"


def read_decisions(lines: LineFile) -> Iterator[AnnotatedNote]:
    """Read the mentions of a table of decisions; consecutive mentions of one note id form a note; other rows are
    ignored.
    """
    mentions = (row for row in iter_decisions(lines) if row.kind == MENTION)
    for (note, language), rows in groupby(mentions, key=lambda row: (row.item, row.language)):
        annotations = (
            Annotation((), row.term, (row.concept_id,) * (row.decision == ACCEPT), row.decision == REJECT, row.section)
            for row in rows
        )
        yield AnnotatedNote(note, None, language or None, tuple(annotations))


_READERS = {".ann": read_brat, ".pubtator": read_pubtator, **dict.fromkeys((".jsonl", ".ndjson"), read_links)}
_TABLE = ".tsv"
"""Suffix of a table of decisions, read only if the file is named: in a folder it may be any table."""
