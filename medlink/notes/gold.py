"""Read annotated notes, what a reader marked in texts: brat standoff, PubTator, links and mentions looked through."""

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
from medlink.files.problems import Problems, counted
from medlink.files.streams import LineFile
from medlink.files.tables import first_line
from medlink.kb.decision_table import ACCEPT, MENTION, REJECT, read_decided
from medlink.language.tags import language_tag
from medlink.notes.reading import ending

Piece = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is marked in a note.

    Attributes:
        pieces: its pieces by characters; none where the file has no text of the note.
        text: what it covers, as it stands in the note.
        concepts: ids as they are written, the likeliest first; none where it has no concept.
        rejected: whether a reader said that it is no mention.
        section: kind of the section that it stands in, where the file says it.
    """

    pieces: tuple[Piece, ...]
    text: str
    concepts: tuple[str, ...] = ()
    rejected: bool = False
    section: str = ""


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note with what is marked in it; ``text`` and ``language`` are ``None`` where the file does not have them."""

    note_id: str
    text: str | None
    language: str | None
    annotations: tuple[Annotation, ...]


def find_gold(paths: Sequence[str | Path]) -> tuple[list[Path], Counter[str]]:
    """The annotation files behind paths, folders searched, in a fixed order; and what else folders hold, by ending.

    The texts of brat stand beside their annotations and are not left out.

    Raises:
        InputError: a path does not exist, a folder has no annotations, or a file is of no format that is read.
    """
    found, left_out = list[Path](), Counter[str]()
    for given in map(Path, paths):
        if given.is_dir():
            inside = sorted(path for path in given.rglob("*") if path.is_file() and not path.name.startswith("."))
            kept = [path for path in inside if ending(path) in _READERS]
            texts = {path.with_suffix(".txt") for path in kept if ending(path) == ".ann"}
            left_out.update(ending(path) or "no ending" for path in inside if path not in texts.union(kept))
            if not kept:
                looked = ", ".join(sorted(_READERS))
                raise InputError(f"no annotations: looked for {looked}", path=given, remedy="name the files")
            found += kept
        elif given.with_suffix(".ann").is_file() and given.suffix == ".txt":
            found.append(given.with_suffix(".ann"))
        elif not given.is_file():
            raise InputError("no such file or folder", path=given, remedy="name files or folders with annotated notes")
        elif ending(given) in (*_READERS, _TABLE) or begins_as_pubtator(given):
            found.append(given)
        else:
            kinds = "neither brat (.ann), nor JSON lines (.jsonl), nor a table (.tsv), nor PubTator"
            remedy = "convert it, or give the .ann file of a text its name"
            raise InputError(f"is no annotated notes: {kinds}", path=given, remedy=remedy)
    return list(dict.fromkeys(found)), left_out


def read_gold(path: Path, problems: Problems) -> Iterator[AnnotatedNote]:
    """The notes of one annotation file with what is marked in them; InputError where too many rows are bad."""
    readers = {**_READERS, _TABLE: read_decisions}
    yield from readers.get(ending(path), read_pubtator)(LineFile(path, problems, may_be_empty=True))


_MENTION = re.compile(r"(T\S+)\t\S+ ([0-9]{1,9} [0-9]{1,9}(?:;[0-9]{1,9} [0-9]{1,9})*)\t(.*)")
_REFERENCE = re.compile(r"N\S*\t\S+ (\S+) (\S+)(?:\t.*)?")
_NOTE = re.compile(r"#\S*\tAnnotatorNotes (\S+)\t(\S+)\s*")
_OTHERS = ("A", "M", "R", "E", "*", "#")


def read_brat(lines: LineFile) -> Iterator[AnnotatedNote]:
    """brat standoff: ``NAME.ann`` beside ``NAME.txt`` (https://brat.nlplab.org/standoff.html), which is one note.

    The concept of a mention (``T``) is what a normalisation refers to (``N1  Reference T1 HPO:HP:0001945``), else a
    note of one word on it (``#1  AnnotatorNotes T1  HP:0001945``). Attributes, relations and events say nothing of it.

    Offsets are characters of the text, whose line ends may count for one character or for two: what the mentions cover
    tells which. A mention whose words do not stand at its place is a bad row.
    """
    mentions: dict[str, tuple[int, list[Piece], str]] = {}
    concepts: dict[bool, defaultdict[str, list[str]]] = {True: defaultdict(list), False: defaultdict(list)}
    for number, line in lines:
        found = _MENTION.fullmatch(line)
        if found is not None and found[1] in mentions:
            lines.bad("this mention is there twice", number)
        elif found is not None:
            pieces = [(int(start), int(end)) for start, end in (one.split() for one in found[2].split(";"))]
            mentions[found[1]] = number, pieces, found[3]
        elif (found := _REFERENCE.fullmatch(line) or _NOTE.fullmatch(line)) is not None:
            concepts[line[0] == "N"][found[1]].append(found[2])
            lines.no_rows += 1
        elif not line.strip() or line.startswith(_OTHERS):
            lines.no_rows += 1
        else:
            lines.bad("no line of brat standoff", number)
    text = _text(lines)
    plain = text.replace("\r\n", "\n")
    # brat writes a blank for a line end, and for what is between pieces
    fits = [[_covered(one, pieces) == said.split() for _, pieces, said in mentions.values()] for one in (text, plain)]
    if sum(fits[1]) > sum(fits[0]):
        text = plain
    annotations = []
    for (name, (number, pieces, _)), fit in zip(mentions.items(), max(fits, key=sum), strict=True):
        if fit:
            ids = concepts[True][name] or concepts[False][name]
            joined = _joined(text, sorted(pieces))
            annotations.append(Annotation(joined, " ".join(text[a:b] for a, b in joined), tuple(ids)))
        else:
            lines.bad(_OTHER_WORDS, number)
    lines.problems.judge(lines.path, lines.rows - lines.no_rows)
    yield AnnotatedNote(str(lines.path.with_suffix(".txt")), text, None, tuple(annotations))


_OTHER_WORDS = "other words stand at these offsets"


def _text(lines: LineFile) -> str:
    beside = lines.path.with_name(lines.path.name.removesuffix(".gz")).with_suffix(".txt")
    if not beside.is_file() and not beside.with_name(beside.name + ".gz").is_file():
        raise InputError("the text of these annotations is missing", path=beside, remedy="put it beside them")
    return LineFile(beside, Problems(), may_be_empty=True).text()


def _covered(text: str, pieces: list[Piece]) -> list[str] | None:
    if any(not 0 <= start < end <= len(text) for start, end in pieces):
        return None
    return " ".join(text[start:end] for start, end in pieces).split()


def _joined(text: str, pieces: list[Piece]) -> tuple[Piece, ...]:
    """Pieces, of which those that only blanks and line ends part are one."""
    joined = pieces[:1]
    for start, end in pieces[1:]:
        if text[joined[-1][1] : start].strip():
            joined.append((start, end))
        else:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
    return tuple(joined)


_PART = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_OFFSET = re.compile("[0-9]{1,9}")
_PARTED = re.compile(r"[|,;]")
_NO_CONCEPT = ("", "-", "-1", "None")
_CELLS, _RELATION = (5, 6, 7), 4  # of a mention, of a relation


def begins_as_pubtator(path: Path) -> bool:
    """Whether a file begins as PubTator."""
    return _PART.match(first_line(path)) is not None


def read_pubtator(lines: LineFile) -> Iterator[AnnotatedNote]:
    """PubTator: ``ID|t|title``, ``ID|a|abstract``, then ``ID start end mention type concept`` between tabs.

    The text is title, a blank, abstract; offsets are its characters. Ids between ``|``, ``,`` or ``;`` are of one
    mention (https://www.ncbi.nlm.nih.gov/research/pubtator/). One whose words do not stand at its place is a bad row.
    """
    name, parts, rows = "", dict[str, str](), list[tuple[int, list[str]]]()
    for number, line in lines:
        cells = line.split("\t")
        if (found := _PART.fullmatch(line)) is not None:
            lines.no_rows += 1
            if parts and (found[1] != name or found[2] in parts):
                yield _of_pubtator(lines, name, parts, rows)
                parts, rows = {}, []
            name, parts[found[2]] = found[1], found[3]
        elif len(cells) in _CELLS and cells[0] == name and all(map(_OFFSET.fullmatch, cells[1:3])):
            rows.append((number, cells))
        elif len(cells) == _RELATION or not line.strip():
            lines.no_rows += 1
        else:
            lines.bad("no line of PubTator", number)
    if parts:
        yield _of_pubtator(lines, name, parts, rows)


def _of_pubtator(lines: LineFile, name: str, parts: dict[str, str], rows: list[tuple[int, list[str]]]) -> AnnotatedNote:
    text = " ".join(parts[kind] for kind in "ta" if kind in parts)
    annotations = []
    for number, (_, first, last, said, _, *concept) in rows:
        place = int(first), int(last)
        if _covered(text, [place]) != said.split():
            lines.bad(_OTHER_WORDS, number)
            continue
        ids = _PARTED.split(concept[0]) if concept else []
        known = tuple(one.strip() for one in ids if one.strip() not in _NO_CONCEPT)
        annotations.append(Annotation((place,), text[slice(*place)], known))
    return AnnotatedNote(f"{lines.path}:{name}", text, None, tuple(annotations))


def read_links(lines: LineFile) -> Iterator[AnnotatedNote]:
    """Links as ``medlink link`` writes them that a reader looked through; no texts of notes.

    Of a JSON line count ``note``, ``text``, ``language``, ``concept_id`` (``null``: no concept is right), ``section``,
    and ``decision``, which a reader adds: ``accept``, or ``reject`` for what is no mention. The reader writes another
    id into ``concept_id`` where the link was wrong. Links that stand together are of one note.
    """
    for (note, language), rows in groupby(_links(lines), key=lambda row: row[:2]):
        yield AnnotatedNote(note, None, language, tuple(annotation for *_, annotation in rows))


def _links(lines: LineFile) -> Iterator[tuple[str, str, Annotation]]:
    undecided = 0
    for number, row in read_json_lines(lines):
        if wrong := _wrong(row):
            lines.bad(wrong, number)
            continue
        decision = row.get("decision")
        undecided += decision is None
        concept = row["concept_id"]
        ids = () if concept is None or decision == REJECT else (concept,)
        annotation = Annotation((), row["text"], ids, decision == REJECT, row.get("section") or "")
        yield str(row["note"]), row["language"], annotation
    if undecided:
        lines.problems.notes.append(f"{lines.path}: {counted(undecided, 'link')} without a decision, taken as right")


def _wrong(row: dict[str, Any]) -> str:
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
    return "" if isinstance(row.get("section"), str | None) else "the field 'section' is no text"


def read_decisions(lines: LineFile) -> Iterator[AnnotatedNote]:
    """The mentions of a table of decisions, those that stand together as one note; other rows are of no note."""
    mentions = (row for row in read_decided(lines) if row.kind == MENTION)
    for (note, language), rows in groupby(mentions, key=lambda row: (row.item, row.language)):
        annotations = (
            Annotation((), row.term, (row.concept_id,) * (row.decision == ACCEPT), row.decision == REJECT, row.section)
            for row in rows
        )
        yield AnnotatedNote(note, None, language or None, tuple(annotations))


_READERS = {
    ".ann": read_brat,
    ".pubtator": read_pubtator,
    **dict.fromkeys((".jsonl", ".ndjson"), read_links),
}
_TABLE = ".tsv"
"""Ending of a table of decisions; that of a folder may be any table, so it is read where it is named alone."""
