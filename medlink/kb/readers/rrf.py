"""Reader of UMLS Rich Release Format (RRF), as in the ``META`` folder of a release.

Columns are those of the UMLS Reference Manual, chapter 3 (Metathesaurus, Rich Release Format).

What becomes of the rows:

* ``MRCONSO``: a row is a name; a CUI with names is a concept of the source ``UMLS``; its source and code become a
  mapping of type ``code`` (``NOCODE`` is none). Names keep their source, so several sources are in one result. A name
  whose term type (TTY) is that of a fully specified name, such as ``FN``, has the type ``fsn``, as in RF2. Names of
  term types that are no names of the concept are left out: ``resources/kb/umls_term_types.json`` lists them.
* ``MRDEF``: definitions, in the language of their source.
* ``MRSTY``: semantic types with their TUI.
* ``MRREL``: the file reads backwards. REL and RELA say what CUI2 is to CUI1, so ``CUI1|..|CHD|CUI2|..|isa`` is
  ``Relation(head=CUI2, type="isa", tail=CUI1)``. The type is RELA, or REL where there is none. Hierarchies
  stand in the file twice, once from each side; both become one statement from child to parent: ``inverse_isa`` is
  turned into ``isa``, and ``PAR`` without RELA into ``CHD`` (head is a child of tail, which in some sources
  means less than is-a). Other pairs of inverses (``finding_site_of``) stay two relations, as in the file.
* ``MRCUI``, where it is there: every CUI of an earlier release that is in none of the files of this one. REL says what
  became of it: ``SY`` it was merged into CUI2, ``RB``, ``RN`` and ``RO`` it is mapped to CUI2, which is broader,
  narrower or otherwise related, ``DEL`` nothing stands for it. ``SUBX`` rows tell that a concept is not in a subset
  that MetamorphoSys made: that is no retirement.
* ``MRFILES``: how many columns, rows and bytes the other files have; each file that is read is held against it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib import resources
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import read_columns, read_rows
from medlink.kb.readers.common import MAX_RANK, Batch, Format, existing_folder, nothing_found, one_by_one
from medlink.kb.readers.rrf_names import NameKind, NameKinds, NameRows, count_marks, judged
from medlink.language.tags import language_filter, language_tag, wanted
from medlink.records import FSN, Definition, Record, Relation, Retired, SemanticType, Source

SOURCE = "UMLS"
_LIST = "MRFILES"
_HISTORY = "MRCUI"
_BY_REL = {"SY": "same_as", "RB": "broader", "RN": "narrower", "RO": "related", "DEL": "deleted"}
_OF_A_SUBSET = "SUBX"
_COLUMNS = {"MRCONSO": 18, "MRSTY": 6, "MRDEF": 8, "MRREL": 16, "MRSAB": 25, "MRRANK": 4}
_MAY_BE_AWAY = {_LIST: 6, _HISTORY: 7}

# columns whose cells say what becomes of a row: LAT, TS, STT, ISPREF, SAB, TTY, SUPPRESS; REL, RELA, SAB, SUPPRESS
_KIND_OF_NAME = (1, 2, 4, 6, 11, 12, 16)
_KIND_OF_RELATION = (3, 7, 10, 14)


def read_rrf_in_bulk(
    folder: str | PathLike[str],
    *,
    languages: Iterable[str] | None = None,
    sources: Iterable[str] | None = None,
    term_types: Iterable[str] | None = None,
    include_suppressed: bool = False,
    problems: Problems | None = None,
) -> Iterator[Record | Batch]:
    """Read a UMLS release, with batches of some thousand rows.

    ``MRCONSO.RRF`` must be there; the others (``MRSTY``, ``MRDEF``, ``MRREL``, ``MRSAB``, ``MRRANK``, ``MRCUI``) are
    read when they are, and a note tells which of them but ``MRCUI`` are not, or are empty. Each may have ``.gz`` behind
    its name. A file of other length than ``MRFILES`` says is refused, unless all bad rows are tolerated; line ends that
    were converted are not counted. Without ``MRFILES`` nothing tells that the end of a file is missing if it was cut
    between two lines.

    The preferred name of a concept in a language is the one whose source and term type rank highest in ``MRRANK``;
    without that file, and where ranks are equal, TS=P, STT=PF and ISPREF=Y decide, in that order. A reader sees only
    the rows of a concept that stand together: where a file is not sorted by CUI, several names call themselves
    preferred, and the knowledge base keeps the best by their ``rank``.

    Memory does not grow with the release: tables of sources and ranks, and the rows of one concept.

    Args:
        folder: its files, or the folder above ``META``.
        languages: names and definitions of these languages only.
        sources: names, definitions, relations and codes of these sources (SAB) only.
        term_types: names of these term types (TTY) only, also of types that are left out otherwise.
        include_suppressed: take in rows whose SUPPRESS is not ``N``.
    """
    problems = problems or Problems()
    release = _Release(_find(folder), problems, language_filter(languages), include_suppressed)
    release.sources = None if sources is None else frozenset(sources)
    release.term_types = None if term_types is None else frozenset(term_types)
    yield from release.names()
    yield from release.semantic_types()
    yield from release.definitions()
    yield from release.relations()
    yield from release.retired()


@wraps(read_rrf_in_bulk)
def read_rrf(*args: Any, **options: Any) -> Iterator[Record]:
    """As :func:`read_rrf_in_bulk`, record by record."""
    return one_by_one(read_rrf_in_bulk(*args, **options))


def _find(folder: str | PathLike[str]) -> Path:
    remedy = "name the META folder of a UMLS release"
    top = existing_folder(folder, remedy)
    for place in (top, top / "META"):
        if (place / "MRCONSO.RRF").is_file() or (place / "MRCONSO.RRF.gz").is_file():
            return place
        if (place / "MRCONSO.RRF").exists():
            raise InputError("is no regular file", path=place / "MRCONSO.RRF", remedy="save what it gives in a file")
    found = (entry.name for entry in top.iterdir())
    raise nothing_found(folder, "MRCONSO.RRF (or MRCONSO.RRF.gz)", found, remedy)


@dataclass(slots=True)
class _Release:
    folder: Path
    problems: Problems
    languages: frozenset[str] | None
    suppressed: bool
    sources: frozenset[str] | None = None
    term_types: frozenset[str] | None = None
    source_language: dict[str, str] = field(default_factory=dict)
    said: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def compare(self) -> None:
        """Read what MRFILES says of the files (``said``: columns, rows, bytes), and hold their sizes against it."""
        for lines, line, (file, _, _, *numbers, _) in self.rows(_LIST):
            if all(number.isdecimal() and len(number) < 20 for number in numbers):
                columns, rows, size = map(int, numbers)
                self.said[file] = columns, rows, size
            else:
                lines.bad("no number of columns, rows or bytes", line)
        for name, known in _COLUMNS.items():
            path = self.folder / f"{name}.RRF"
            if path.name in self.said:
                columns, rows, size = self.said[path.name]
                self.agree(path, "columns", known, columns)
                if not self._is_there(path):
                    self.agree(path, "rows", 0, rows)
                # with other line ends each row is a byte longer or shorter
                if path.is_file() and path.stat().st_size not in (size - rows, size + rows):
                    self.agree(path, "bytes", path.stat().st_size, size)

    def agree(self, path: Path, what: str, found: int, said: int) -> None:
        """Refuse a file that is not as MRFILES says, or note it where every bad row is tolerated."""
        if found != said:
            message = f"has {found:,} {what}, {said:,} are said of it in {_LIST}.RRF"
            if self.problems.max_bad_share < 1:
                remedy = f"unpack the release again; where you cut files down yourself, take {_LIST}.RRF away"
                raise InputError(message, path=path, remedy=remedy)
            self.problems.notes.append(f"{path}: {message}")

    @staticmethod
    def _is_there(path: Path) -> bool:
        return path.is_file() or path.with_name(path.name + ".gz").is_file()

    def opened(self, name: str) -> LineFile | None:
        """A file, ``None`` where it is not part of the release."""
        path, note = self.folder / f"{name}.RRF", self.problems.notes.append
        if not self._is_there(path):
            note(f"{path}: is not there" + ", the length of the files is not checked" * (name == _LIST))
            return None
        if self.said and path.name not in self.said:
            note(f"{path}: {_LIST}.RRF does not list it, its length is not checked")
        # A subset made with MetamorphoSys may leave any file but MRCONSO empty.
        return LineFile(path, self.problems, may_be_empty=name != "MRCONSO")

    def closed(self, name: str, lines: LineFile) -> None:
        path = self.folder / f"{name}.RRF"
        if path.name in self.said:
            self.agree(path, "rows", lines.rows, self.said[path.name][1])
        if not lines.rows:
            self.problems.notes.append(f"{path}: is empty")

    def rows(self, name: str) -> Iterator[tuple[LineFile, int, list[str]]]:
        """Rows of a file with their line numbers, none where it is not part of the release."""
        lines = self.opened(name)
        if lines is not None:
            for line, cells in read_rows(lines, (_COLUMNS | _MAY_BE_AWAY)[name], "|", closed=True):
                self.problems.at = lines.path, line
                yield lines, line, cells
            self.closed(name, lines)

    def columns(self, name: str, *wanted: int) -> Iterator[tuple[LineFile, Sequence[int], list[list[str]]]]:
        """As :meth:`rows`, the ``wanted`` columns of thousands of rows at a time."""
        lines = self.opened(name)
        if lines is not None:
            for numbers, cells in read_columns(lines, _COLUMNS[name], "|", wanted, closed=True):
                yield lines, numbers, cells
            self.closed(name, lines)

    def left_out(self, sab: str, suppress: str) -> str:
        """Why a row of a source is left out, ``""`` where it is not."""
        if suppress != "N" and not self.suppressed:
            return "suppressed row"
        return "row of another source" if self.sources is not None and sab not in self.sources else ""

    def kept(self, sab: str, suppress: str) -> bool:
        reason = self.left_out(sab, suppress)
        if reason:
            self.problems.skipped[reason] += 1
        return not reason

    def known_sources(self) -> dict[str, Source]:
        known: dict[str, Source] = {}
        releases = [""]
        for _, _, cells in self.rows("MRSAB"):
            title, sab, version, first_in, current = cells[4], cells[3], cells[6], cells[9], cells[21]
            if current != "N":
                known[sab] = Source(sab, version or cells[2].removeprefix(sab), title)
                releases.append(first_in)
        # A source that changed carries the release it came in with: the latest one is this release.
        known[SOURCE] = Source(SOURCE, max(releases), "Unified Medical Language System")
        return known

    def ranks(self) -> dict[tuple[str, str], int]:
        rows = (cells for _, _, cells in self.rows("MRRANK"))
        return {(sab, tty): int(rank) for rank, sab, tty, *_ in rows if rank.isdecimal() and len(rank) < 10}

    def names(self) -> Iterator[Record | Batch]:
        self.compare()
        known, announced = self.known_sources(), set[str]()
        yield known[SOURCE]
        kinds, waiting, marks = self.name_kinds(), NameRows(self.folder / "MRCONSO.RRF"), Counter[str]()
        for lines, numbers, columns in self.columns("MRCONSO", 0, 13, 14, *_KIND_OF_NAME):
            rows = judged(lines, kinds, numbers, columns)
            for kind in dict.fromkeys(rows.kinds):
                if kind.source not in announced:
                    announced.add(kind.source)
                    yield known.get(kind.source) or Source(kind.source)
            count_marks(rows.text, marks)
            waiting.path = lines.path
            waiting.extend(rows)
            yield from waiting.whole().batches(SOURCE)
        yield from waiting.batches(SOURCE)
        if marks:
            told = ", ".join(f"{count:,} with {mark}" for mark, count in marks.most_common())
            self.problems.notes.append(f"names kept that a source marks: {told}")
        if self.problems.rows and not announced:
            self.problems.notes.append(f"{self.folder / 'MRCONSO.RRF'}: no row is left after the filters")

    def name_kinds(self) -> NameKinds:
        ranks, (full, no_names) = self.ranks(), _term_types()
        top = max(ranks.values(), default=0) + 1
        numbers: dict[str, int] = {}

        def judge(lat: str, ts: str, stt: str, ispref: str, sab: str, tty: str, suppress: str) -> NameKind:
            tag = language_tag(lat)
            if tag is None:
                return NameKind(sab, None)
            self.source_language.setdefault(sab, tag)
            number = numbers.setdefault(tag, len(numbers))
            reason = self.left_out(sab, suppress)
            if reason:
                return NameKind(sab, tag, number, left_out=reason)
            other = self.term_types is not None and tty not in self.term_types
            reason = "name of another term type" if other else ""
            if not other and not wanted(tag, self.languages):
                reason = "name in another language"
            elif self.term_types is None and tty in no_names:
                reason = no_names[tty]
            if reason:
                return NameKind(sab, tag, number, no_name=reason, is_concept=not other)
            if tty in full:
                # never the preferred one, also where a language has no other flagged name
                return NameKind(sab, tag, number, type=FSN, rank=MAX_RANK)
            rank = (top - ranks.get((sab, tty), 0)) * 8 + (ts != "P") * 4 + (stt != "PF") * 2 + (ispref != "Y")
            return NameKind(sab, tag, number, type=tty, rank=rank)

        return NameKinds(judge)

    def semantic_types(self) -> Iterator[Batch]:
        for lines, numbers, (cui, tui, name) in self.columns("MRSTY", 0, 1, 3):
            yield Batch(SemanticType, (cui, name, tui, [SOURCE] * len(cui)), lines.path, numbers)

    def definitions(self) -> Iterator[Record]:
        for _, _, (cui, _, _, _, sab, text, suppress, *_rest) in self.rows("MRDEF"):
            if self.kept(sab, suppress):
                tag = self.source_language.get(sab, "")
                if wanted(tag, self.languages):
                    yield Definition(cui, text, tag, sab)
                else:
                    self.problems.skipped["definition in another language"] += 1

    def relations(self) -> Iterator[Batch]:
        kinds = _RelationKinds(self)
        for lines, numbers, (one, two, *cells) in self.columns("MRREL", 0, 4, *_KIND_OF_RELATION):
            found = list(map(kinds.__getitem__, zip(*cells, strict=True)))
            reasons, types, turned, sources = map(list, zip(*found, strict=True))
            heads = [second if turn else first for first, second, turn in zip(one, two, turned, strict=True)]
            tails = [first if turn else second for first, second, turn in zip(one, two, turned, strict=True)]
            columns: list[Sequence[str]] = [heads, types, tails, sources]
            read = numbers
            if any(reasons):
                self.problems.skipped.update(filter(None, reasons))
                kept = [not reason for reason in reasons]
                columns, read = [list(compress(column, kept)) for column in columns], list(compress(numbers, kept))
            yield Batch(Relation, tuple(columns), lines.path, read)

    def retired(self) -> Iterator[Record]:
        if self._is_there(self.folder / f"{_HISTORY}.RRF"):
            for lines, line, (cui, _, rel, _, _, successor, *_) in self.rows(_HISTORY):
                if rel == _OF_A_SUBSET:
                    self.problems.skipped["concept outside the subset"] += 1
                elif not cui:
                    lines.bad("empty id", line)
                elif rel not in _BY_REL:
                    lines.bad("unknown kind of retirement", line, repr(rel)[:40])
                elif rel != "DEL" and not successor:
                    lines.bad("no concept to which it is mapped", line)
                else:
                    yield Retired(cui, _BY_REL[rel], successor, SOURCE)


class _RelationKinds(dict[tuple[str, ...], tuple[str, str, bool, str]]):
    """What becomes of rows of MRREL, by the cells of ``_KIND_OF_RELATION``.

    Given are why they are left out, or ``""``; their type; whether CUI2 is the head; and the source.
    """

    def __init__(self, release: _Release) -> None:
        super().__init__()
        self._release = release

    def __missing__(self, cells: tuple[str, ...]) -> tuple[str, str, bool, str]:
        rel, rela, sab, suppress = cells
        straight = {"inverse_isa": "isa", "PAR": "CHD"}.get(rela or rel)
        reason = self._release.left_out(sab, suppress)
        self[cells] = reason, straight or rela or rel, straight is None, sab
        return self[cells]


@cache
def _term_types() -> tuple[frozenset[str], dict[str, str]]:
    file = resources.files("medlink") / "resources" / "kb" / "umls_term_types.json"
    data = json.loads(file.read_text("utf-8"))
    return frozenset(data["fully_specified"]), {
        tty: reason for reason, types in data["left_out"].items() for tty in types
    }


FORMAT = Format(
    "rrf", read_rrf, "--umls", "META folder of a UMLS release (RRF).", 10, folder=True, in_bulk=read_rrf_in_bulk
)
