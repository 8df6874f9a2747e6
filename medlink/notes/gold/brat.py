"""brat standoff: ``NAME.txt`` with ``NAME.ann`` beside it (https://brat.nlplab.org/standoff.html).

The concept of a mention (``T``) is what a normalisation refers to (``N1  Reference T1 HPO:HP:0001945``), else a note of
one word on it (``#1  AnnotatorNotes T1  HP:0001945``). Attributes, relations and events say nothing of concepts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.notes.gold.protocol import AnnotatedNote, Annotation, Piece

_MENTION = re.compile(r"(T\S+)\t\S+ ([0-9]{1,9} [0-9]{1,9}(?:;[0-9]{1,9} [0-9]{1,9})*)\t(.*)")
_REFERENCE = re.compile(r"N\S*\t\S+ (\S+) (\S+)(?:\t.*)?")
_NOTE = re.compile(r"#\S*\tAnnotatorNotes (\S+)\t(\S+)\s*")
_OTHERS = ("A", "M", "R", "E", "*", "#")


def read(lines: LineFile) -> Iterator[AnnotatedNote]:
    """The one note of a file.

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
    fits = [[_covered(one, pieces) == _words(said) for _, pieces, said in mentions.values()] for one in (text, plain)]
    if sum(fits[1]) > sum(fits[0]):
        text = plain
    annotations = []
    for (name, (number, pieces, _)), fit in zip(mentions.items(), max(fits, key=sum), strict=True):
        if fit:
            ids = concepts[True][name] or concepts[False][name]
            joined = _joined(text, sorted(pieces))
            annotations.append(Annotation(joined, " ".join(text[a:b] for a, b in joined), tuple(ids)))
        else:
            lines.bad("other words stand at these offsets", number)
    lines.problems.judge(lines.path, lines.rows - lines.no_rows)
    yield AnnotatedNote(str(lines.path.with_suffix(".txt")), text, None, tuple(annotations))


def _text(lines: LineFile) -> str:
    beside = lines.path.with_name(lines.path.name.removesuffix(".gz")).with_suffix(".txt")
    if not beside.is_file() and not beside.with_name(beside.name + ".gz").is_file():
        raise InputError("the text of these annotations is missing", path=beside, remedy="put it beside them")
    return LineFile(beside, Problems(), may_be_empty=True).text()


def _covered(text: str, pieces: list[Piece]) -> list[str] | None:
    """The words at some places, ``None`` where a place is none of the text."""
    if any(not 0 <= start < end <= len(text) for start, end in pieces):
        return None
    return _words(" ".join(text[start:end] for start, end in pieces))


def _words(text: str) -> list[str]:
    # brat writes a blank for a line end, and for what is between pieces
    return text.split()


def _joined(text: str, pieces: list[Piece]) -> tuple[Piece, ...]:
    """Pieces, of which those that only blanks and line ends part are one."""
    joined = pieces[:1]
    for start, end in pieces[1:]:
        if text[joined[-1][1] : start].strip():
            joined.append((start, end))
        else:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
    return tuple(joined)
