"""Annotated notes: what a reader marked in texts, in the formats of others. A format is one file in this folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.notes.gold import brat, links, pubtator
from medlink.notes.gold.protocol import AnnotatedNote, Annotation
from medlink.notes.reading import ending

__all__ = ["AnnotatedNote", "Annotation", "find_gold", "read_gold"]

_LINES = (".jsonl", ".ndjson")
_READERS = {".ann": brat.read, ".pubtator": pubtator.read, **dict.fromkeys(_LINES, links.read)}
_TABLE = ".tsv"
"""Ending of a table of decisions; that of a folder may be any table, so it is read where it is named alone."""


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
        elif ending(given) in (*_READERS, _TABLE) or pubtator.begins(given):
            found.append(given)
        else:
            kinds = "neither brat (.ann), nor JSON lines (.jsonl), nor a table (.tsv), nor PubTator"
            remedy = "convert it, or give the .ann file of a text its name"
            raise InputError(f"is no annotated notes: {kinds}", path=given, remedy=remedy)
    return list(dict.fromkeys(found)), left_out


def read_gold(path: Path, problems: Problems) -> Iterator[AnnotatedNote]:
    """The notes of one annotation file with what is marked in them; InputError where too many rows are bad."""
    readers = {**_READERS, _TABLE: links.read_decisions}
    yield from readers.get(ending(path), pubtator.read)(LineFile(path, problems, may_be_empty=True))
