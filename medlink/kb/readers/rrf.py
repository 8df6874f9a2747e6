"""Reader of UMLS Rich Release Format (RRF), the ``META`` folder of a release.

Columns are those of the UMLS Reference Manual, chapter 3. REL and RELA of ``MRREL`` relate CUI2 to CUI1. A hierarchy is
given from both sides, which both become one relation from child to parent; other inverses stay two relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from itertools import chain, compress
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.json import read_json
from medlink.files.problems import Problems
from medlink.files.resources import RESOURCES
from medlink.files.streams import LineFile
from medlink.files.tables import read_columns, read_rows
from medlink.kb.readers.common import MAX_RANK, Batch, Format, existing_folder, missing_files_error, unbatch
from medlink.kb.readers.rrf_names import NameKind, NameRows, count_marks, select_name_rows
from medlink.language.tags import language_filter, language_tag, wanted
from medlink.records import FSN, Definition, Record, Relation, Retired, SemanticType, Source

SOURCE = "UMLS"
_FILE_LIST = "MRFILES"
_HISTORY = "MRCUI"
_RETIREMENT_BY_REL = {"SY": "same_as", "RB": "broader", "RN": "narrower", "RO": "related", "DEL": "deleted"}
_OUTSIDE_SUBSET = "SUBX"
_COLUMNS = {"MRCONSO": 18, "MRSTY": 6, "MRDEF": 8, "MRREL": 16, "MRSAB": 25, "MRRANK": 4}
_OPTIONAL_COLUMNS = {_FILE_LIST: 6, _HISTORY: 7}

# columns that determine how a row is converted: LAT, TS, STT, ISPREF, SAB, TTY, SUPPRESS; REL, RELA, SAB, SUPPRESS
_KIND_OF_NAME = (1, 2, 4, 6, 11, 12, 16)
_KIND_OF_RELATION = (3, 7, 10, 14)


def read_rrf_batches(
    folder: str | PathLike[str],
    *,
    languages: Iterable[str] | None = None,
    sources: Iterable[str] | None = None,
    term_types: Iterable[str] | None = None,
    include_suppressed: bool = False,
    problems: Problems | None = None,
) -> Iterator[Record | Batch]:
    """Read a UMLS release in batches of some thousand rows.

    ``MRCONSO.RRF`` is required; a note lists which other files are missing or empty. Each may be compressed (``.gz``).
    Raises for a file whose length differs from ``MRFILES``, apart from converted line ends, unless all bad rows are
    tolerated.

    The preferred name of a concept in a language has the source and term type that rank highest in ``MRRANK``; without
    that file, and for equal ranks, TS=P, STT=PF and ISPREF=Y decide, in that order. The reader compares only adjacent
    rows of a concept: in a file that is not sorted by CUI it marks several names as preferred, and the knowledge base
    prefers the best ``rank``. Memory holds tables of sources and ranks, and the rows of one concept.

    Args:
        folder: its files, or the folder above ``META``.
        languages: read only names and definitions of these languages.
        sources: read only names, definitions, relations and codes of these sources (SAB).
        term_types: read only names of these term types (TTY), including types that are left out by default.
        include_suppressed: also read rows whose SUPPRESS is not ``N``.
    """
    problems = problems or Problems()
    release = _Release(_find(folder), problems, language_filter(languages), include_suppressed)
    release.sources = None if sources is None else frozenset(sources)
    release.term_types = None if term_types is None else frozenset(term_types)
    parts = release.names(), release.semantic_types(), release.definitions(), release.relations(), release.retired()
    yield from chain.from_iterable(parts)


@wraps(read_rrf_batches)
def read_rrf(*args: Any, **options: Any) -> Iterator[Record]:
    """Read a UMLS release like :func:`read_rrf_batches`, but yield its records one by one."""
    return unbatch(read_rrf_batches(*args, **options))


def _find(folder: str | PathLike[str]) -> Path:
    remedy = "name the META folder of a UMLS release"
    top = existing_folder(folder, remedy)
    for candidate in (top, top / "META"):
        main = candidate / "MRCONSO.RRF"
        if _exists(main):
            return candidate
        if main.exists():
            raise InputError("is not a regular file", path=main, remedy="save its content in a file")
    names = (entry.name for entry in top.iterdir())
    raise missing_files_error(folder, "MRCONSO.RRF (or MRCONSO.RRF.gz)", names, remedy)


def _exists(path: Path) -> bool:
    return path.is_file() or path.with_name(path.name + ".gz").is_file()


@dataclass(slots=True)
class _Release:
    folder: Path
    problems: Problems
    languages: frozenset[str] | None
    include_suppressed: bool
    sources: frozenset[str] | None = None
    term_types: frozenset[str] | None = None
    source_language: dict[str, str] = field(default_factory=dict)
    # by file of MRFILES: number of rows
    listed: dict[str, int] = field(default_factory=dict)

    def check_file_list(self) -> None:
        """Read MRFILES, and check the sizes of the files against it."""
        numbers_of: dict[str, list[int]] = {}
        for lines, line, (file, _, _, *numbers, _) in self.rows(_FILE_LIST):
            if all(number.isdecimal() and len(number) < 20 for number in numbers):
                numbers_of[file] = list(map(int, numbers))
                self.listed[file] = numbers_of[file][1]
            else:
                lines.bad_row("no number of columns, rows or bytes", line)
        for name, known in _COLUMNS.items():
            path = self.folder / f"{name}.RRF"
            if path.name in self.listed:
                columns, rows, size = numbers_of[path.name]
                self.check_fact(path, "columns", known, columns)
                if not _exists(path):
                    self.check_fact(path, "rows", 0, rows)
                # other line ends make each row a byte longer or shorter
                if path.is_file() and abs(path.stat().st_size - size) != rows:
                    self.check_fact(path, "bytes", path.stat().st_size, size)

    def check_fact(self, path: Path, what: str, actual: int, listed: int) -> None:
        """Raise if a file differs from MRFILES, or note it if all bad rows are tolerated."""
        if actual != listed:
            message = f"has {actual:,} {what}, {listed:,} are listed in {_FILE_LIST}.RRF"
            if self.problems.max_bad_share < 1:
                remedy = f"unpack the release again; where you cut files down yourself, take {_FILE_LIST}.RRF away"
                raise InputError(message, path=path, remedy=remedy)
            self.problems.notes.append(f"{path}: {message}")

    def open(self, name: str) -> LineFile | None:
        """Open a file, ``None`` if the release lacks it."""
        path, note = self.folder / f"{name}.RRF", self.problems.notes.append
        if not _exists(path):
            note(f"{path}: is not there" + ", the length of the files is not checked" * (name == _FILE_LIST))
            return None
        if self.listed and path.name not in self.listed:
            note(f"{path}: {_FILE_LIST}.RRF does not list it, its length is not checked")
        # MetamorphoSys may leave any file but MRCONSO empty
        return LineFile(path, self.problems, allow_empty=name != "MRCONSO")

    def check_rows(self, name: str, lines: LineFile) -> None:
        path = self.folder / f"{name}.RRF"
        if path.name in self.listed:
            self.check_fact(path, "rows", lines.rows, self.listed[path.name])
        if not lines.rows:
            self.problems.notes.append(f"{path}: is empty")

    def rows(self, name: str) -> Iterator[tuple[LineFile, int, list[str]]]:
        """Yield the rows of a file with their line numbers, none if the release lacks it."""
        lines = self.open(name)
        if lines is not None:
            for line, cells in read_rows(lines, (_COLUMNS | _OPTIONAL_COLUMNS)[name], "|", trailing_separator=True):
                self.problems.position = lines.path, line
                yield lines, line, cells
            self.check_rows(name, lines)

    def columns(self, name: str, *wanted: int) -> Iterator[tuple[LineFile, Sequence[int], list[list[str]]]]:
        """Yield the ``wanted`` columns of a file, for thousands of rows at a time."""
        lines = self.open(name)
        if lines is not None:
            for numbers, cells in read_columns(lines, _COLUMNS[name], "|", wanted, trailing_separator=True):
                yield lines, numbers, cells
            self.check_rows(name, lines)

    def skip_reason(self, sab: str, suppress: str) -> str:
        """Return why a row is skipped, ``""`` if it is not."""
        if suppress != "N" and not self.include_suppressed:
            return "suppressed row"
        return "row of another source" if self.sources is not None and sab not in self.sources else ""

    def known_sources(self) -> dict[str, Source]:
        known: dict[str, Source] = {}
        releases = [""]
        for _, _, cells in self.rows("MRSAB"):
            title, sab, version, first_in, current = cells[4], cells[3], cells[6], cells[9], cells[21]
            if current != "N":
                known[sab] = Source(sab, version or cells[2].removeprefix(sab), title)
                releases.append(first_in)
        # a changed source names the release it came in with; the latest is this one
        known[SOURCE] = Source(SOURCE, max(releases), "Unified Medical Language System")
        return known

    def names(self) -> Iterator[Record | Batch]:
        self.check_file_list()
        known, announced = self.known_sources(), set[str]()
        yield known[SOURCE]
        classify, pending, marks = self.name_kinds(), NameRows(self.folder / "MRCONSO.RRF"), Counter[str]()
        for lines, numbers, columns in self.columns("MRCONSO", 0, 13, 14, *_KIND_OF_NAME):
            rows = select_name_rows(lines, classify, numbers, columns)
            for kind in dict.fromkeys(rows.kinds):
                if kind.source not in announced:
                    announced.add(kind.source)
                    yield known.get(kind.source) or Source(kind.source)
            count_marks(rows.text, marks)
            pending.path = lines.path
            pending.extend(rows)
            yield from pending.take_complete().batches(SOURCE)
        yield from pending.batches(SOURCE)
        if marks:
            counts = ", ".join(f"{count:,} with {mark}" for mark, count in marks.most_common())
            self.problems.notes.append(f"names kept that a source marks: {counts}")
        if self.problems.rows and not announced:
            self.problems.notes.append(f"{self.folder / 'MRCONSO.RRF'}: no row is left after the filters")

    def name_kinds(self) -> Callable[..., NameKind]:
        rows = (cells for _, _, cells in self.rows("MRRANK"))
        ranks = {(sab, tty): int(rank) for rank, sab, tty, *_ in rows if rank.isdecimal() and len(rank) < 10}
        top, (full, no_names) = max(ranks.values(), default=0) + 1, _term_types()
        numbers: dict[str, int] = {}

        @cache
        def classify(lat: str, ts: str, stt: str, ispref: str, sab: str, tty: str, suppress: str) -> NameKind:
            tag = language_tag(lat)
            if tag is None:
                return NameKind(sab, None)
            self.source_language.setdefault(sab, tag)
            number = numbers.setdefault(tag, len(numbers))
            reason = self.skip_reason(sab, suppress)
            if reason:
                return NameKind(sab, tag, number, skip_reason=reason)
            is_filtered = self.term_types is not None and tty not in self.term_types
            reason = "name of another term type" if is_filtered else ""
            if not is_filtered and not wanted(tag, self.languages):
                reason = "name in another language"
            elif self.term_types is None and tty in no_names:
                reason = no_names[tty]
            if reason:
                return NameKind(sab, tag, number, not_a_name=reason, is_concept=not is_filtered)
            if tty in full:
                # the lowest rank, so that it is never preferred
                return NameKind(sab, tag, number, type=FSN, rank=MAX_RANK)
            rank = (top - ranks.get((sab, tty), 0)) * 8 + (ts != "P") * 4 + (stt != "PF") * 2 + (ispref != "Y")
            return NameKind(sab, tag, number, type=tty, rank=rank)

        return classify

    def semantic_types(self) -> Iterator[Batch]:
        for lines, numbers, (cui, tui, name) in self.columns("MRSTY", 0, 1, 3):
            yield Batch(SemanticType, (cui, name, tui, [SOURCE] * len(cui)), lines.path, numbers)

    def definitions(self) -> Iterator[Record]:
        for _, _, (cui, _, _, _, sab, text, suppress, *_rest) in self.rows("MRDEF"):
            tag = self.source_language.get(sab, "")
            reason = self.skip_reason(sab, suppress)
            if not reason and not wanted(tag, self.languages):
                reason = "definition in another language"
            if reason:
                self.problems.skipped[reason] += 1
            else:
                yield Definition(cui, text, tag, sab)

    def relations(self) -> Iterator[Batch]:
        @cache
        def classify(rel: str, rela: str, sab: str, suppress: str) -> tuple[str, str, bool, str]:
            """Return the reason to skip a row, or ``""``; the type; whether CUI2 is the head; and the source."""
            straight = {"inverse_isa": "isa", "PAR": "CHD"}.get(rela or rel)
            return self.skip_reason(sab, suppress), straight or rela or rel, straight is None, sab

        for lines, all_numbers, (cui1, cui2, *cells) in self.columns("MRREL", 0, 4, *_KIND_OF_RELATION):
            reasons, types, inverted, sources = map(list, zip(*map(classify, *cells), strict=True))
            heads = [second if turn else first for first, second, turn in zip(cui1, cui2, inverted, strict=True)]
            tails = [first if turn else second for first, second, turn in zip(cui1, cui2, inverted, strict=True)]
            columns: list[Sequence[Any]] = [heads, types, tails, sources, all_numbers]
            if any(reasons):
                self.problems.skipped.update(filter(None, reasons))
                selected = [not reason for reason in reasons]
                columns = [list(compress(column, selected)) for column in columns]
            yield Batch(Relation, tuple(columns[:-1]), lines.path, columns[-1])

    def retired(self) -> Iterator[Record]:
        if _exists(self.folder / f"{_HISTORY}.RRF"):
            for lines, line, (cui, _, rel, _, _, successor, *_) in self.rows(_HISTORY):
                if rel == _OUTSIDE_SUBSET:
                    self.problems.skipped["concept outside the subset"] += 1
                elif not cui:
                    lines.bad_row("empty id", line)
                elif rel not in _RETIREMENT_BY_REL:
                    lines.bad_row("unknown kind of retirement", line, repr(rel)[:40])
                elif rel != "DEL" and not successor:
                    lines.bad_row("no concept to which it is mapped", line)
                else:
                    yield Retired(cui, _RETIREMENT_BY_REL[rel], successor, SOURCE)


@cache
def _term_types() -> tuple[frozenset[str], dict[str, str]]:
    data = read_json(RESOURCES / "kb" / "umls_term_types.json")
    left_out = {tty: reason for reason, types in data["left_out"].items() for tty in types}
    return frozenset(data["fully_specified"]), left_out


FORMAT = Format(
    "rrf", read_rrf, "--umls", "META folder of a UMLS release (RRF).", 10, folder=True, read_batches=read_rrf_batches
)
