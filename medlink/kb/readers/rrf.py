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
* ``MRFILES``: how many columns, rows and bytes the other files have; each file that is read is held against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import groupby
from operator import itemgetter
from os import PathLike
from pathlib import Path

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import read_rows
from medlink.kb.readers.common import MAX_RANK, Format, RankedName, existing_folder, nothing_found
from medlink.language.tags import language_filter, language_tag, wanted
from medlink.records import FSN, Concept, Definition, Mapping, Record, Relation, SemanticType, Source

SOURCE = "UMLS"
_LIST = "MRFILES"
_COLUMNS = {"MRCONSO": 18, "MRSTY": 6, "MRDEF": 8, "MRREL": 16, "MRSAB": 25, "MRRANK": 4}

_Row = tuple[int, str, str, str, str]  # rank, text, language, type, source
_NO_NAME: _Row = (-1, "", "", "", "")


def read_rrf(
    folder: str | PathLike[str],
    *,
    languages: Iterable[str] | None = None,
    sources: Iterable[str] | None = None,
    term_types: Iterable[str] | None = None,
    include_suppressed: bool = False,
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a UMLS release.

    ``MRCONSO.RRF`` must be there; the others (``MRSTY``, ``MRDEF``, ``MRREL``, ``MRSAB``, ``MRRANK``) are read
    when they are, and a note tells which are not, or are empty. Each may have ``.gz`` behind its name. A file of other
    length than ``MRFILES`` says is refused, unless all bad rows are tolerated; line ends that were converted are not
    counted. Without ``MRFILES`` nothing tells that the end of a file is missing if it was cut between two lines.

    The preferred name of a concept in a language is the one whose source and term type rank highest in ``MRRANK``;
    without that file, and where ranks are equal, TS=P, STT=PF and ISPREF=Y decide, in that order. A reader sees only
    the rows of a concept that stand together: where a file is not sorted by CUI, several names call themselves
    preferred, and the knowledge base keeps the best by their ``rank``.

    Memory does not grow with the release: tables of sources and ranks, and the rows of one concept.

    Args:
        folder: the folder with the files, or the one above its ``META``.
        languages: names and definitions of these languages only.
        sources: names, definitions, relations and codes of these sources (SAB) only.
        term_types: names of these term types (TTY) only, also of types that are left out otherwise.
        include_suppressed: take in rows whose SUPPRESS is not ``N``.
        problems: where bad and left-out rows are counted.
    """
    problems = problems or Problems()
    release = _Release(_find(folder), problems, language_filter(languages), include_suppressed)
    release.sources = None if sources is None else frozenset(sources)
    release.term_types = None if term_types is None else frozenset(term_types)
    yield from release.names()
    yield from release.semantic_types()
    yield from release.definitions()
    yield from release.relations()


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

    def rows(self, name: str) -> Iterator[tuple[LineFile, int, list[str]]]:
        """Rows of a file with their line numbers, none where it is not part of the release."""
        path, note = self.folder / f"{name}.RRF", self.problems.notes.append
        if not self._is_there(path):
            note(f"{path}: is not there" + ", the length of the files is not checked" * (name == _LIST))
            return
        if self.said and path.name not in self.said:
            note(f"{path}: {_LIST}.RRF does not list it, its length is not checked")
        # A subset made with MetamorphoSys may leave any file but MRCONSO empty.
        lines = LineFile(path, self.problems, may_be_empty=name != "MRCONSO")
        for line, cells in read_rows(lines, _COLUMNS.get(name, 6), "|", closed=True):
            self.problems.at = lines.path, line
            yield lines, line, cells
        if path.name in self.said:
            self.agree(path, "rows", lines.rows, self.said[path.name][1])
        if not lines.rows:
            note(f"{path}: is empty")

    def kept(self, sab: str, suppress: str) -> bool:
        """Whether a row of a source is wanted and not suppressed."""
        suppressed = suppress != "N" and not self.suppressed
        kept = not suppressed and (self.sources is None or sab in self.sources)
        if not kept:
            self.problems.skipped["suppressed row" if suppressed else "row of another source"] += 1
        return kept

    def known_sources(self) -> dict[str, Source]:
        """Sources of MRSAB by their abbreviation."""
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
        """Rank of each pair of source and term type; higher is preferred."""
        rows = (cells for _, _, cells in self.rows("MRRANK"))
        return {(sab, tty): int(rank) for rank, sab, tty, *_ in rows if rank.isdecimal() and len(rank) < 10}

    def names(self) -> Iterator[Record]:
        """Sources, concepts and names of MRCONSO."""
        self.compare()
        known, announced = self.known_sources(), set[str]()
        yield known[SOURCE]
        for cui, rows in groupby(self.named(), itemgetter(0)):
            run: list[_Row] = []
            codes: dict[tuple[str, str], None] = {}
            for _, sab, code, row in rows:
                if sab not in announced:
                    announced.add(sab)
                    yield known.get(sab) or Source(sab)
                if code and code != "NOCODE":
                    codes[sab, code] = None
                if row is not None:
                    run.append(row)
            yield from _concept(cui, run, codes)
        if self.problems.rows and not announced:
            self.problems.notes.append(f"{self.folder / 'MRCONSO.RRF'}: no row is left after the filters")

    def named(self) -> Iterator[tuple[str, str, str, _Row | None]]:
        """CUI, source, code and name of the rows that the filters leave; ``None`` for a name of another term type."""
        skipped, ranks, (full, no_names) = self.problems.skipped, self.ranks(), _term_types()
        top = max(ranks.values(), default=0) + 1
        tags: dict[str, str | None] = {}
        for lines, line, cells in self.rows("MRCONSO"):
            cui, lat, ts, _, stt, _, ispref, _, _, _, _, sab, tty, code, text, _, suppress, _, _ = cells
            tag = tags.get(lat) or tags.setdefault(lat, language_tag(lat))
            if not cui or not text:
                lines.bad("empty id or name", line)
                continue
            if tag is None:
                lines.bad("unknown language", line, repr(lat)[:40])
                continue
            self.source_language.setdefault(sab, tag)
            if not self.kept(sab, suppress):
                continue
            row: _Row | None = _NO_NAME
            if self.term_types is not None and tty not in self.term_types:
                skipped["name of another term type"] += 1
                row = None
            elif not wanted(tag, self.languages):
                skipped["name in another language"] += 1
            elif self.term_types is None and tty in no_names:
                skipped[no_names[tty]] += 1
            elif tty in full:
                # never the preferred one, also where a language has no other flagged name
                row = (MAX_RANK, text, tag, FSN, sab)
            else:
                rank = (top - ranks.get((sab, tty), 0)) * 8 + (ts != "P") * 4 + (stt != "PF") * 2 + (ispref != "Y")
                row = (rank, text, tag, tty, sab)
            yield cui, sab, code, row

    def semantic_types(self) -> Iterator[Record]:
        """Semantic types of MRSTY."""
        for _, _, (cui, tui, _, name, *_rest) in self.rows("MRSTY"):
            yield SemanticType(cui, name, tui, SOURCE)

    def definitions(self) -> Iterator[Record]:
        """Definitions of MRDEF."""
        for _, _, (cui, _, _, _, sab, text, suppress, *_rest) in self.rows("MRDEF"):
            if self.kept(sab, suppress):
                tag = self.source_language.get(sab, "")
                if wanted(tag, self.languages):
                    yield Definition(cui, text, tag, sab)
                else:
                    self.problems.skipped["definition in another language"] += 1

    def relations(self) -> Iterator[Record]:
        """Relations of MRREL, turned to read from left to right."""
        for _, _, cells in self.rows("MRREL"):
            cui1, rel, cui2, rela, sab, suppress = cells[0], cells[3], cells[4], cells[7], cells[10], cells[14]
            if self.kept(sab, suppress):
                kind = {"inverse_isa": "isa", "PAR": "CHD"}.get(rela or rel)
                yield Relation(cui1, kind, cui2, sab) if kind else Relation(cui2, rela or rel, cui1, sab)


@cache
def _term_types() -> tuple[frozenset[str], dict[str, str]]:
    """Term types of fully specified names, and those that are no names with the reason."""
    file = resources.files("medlink") / "resources" / "kb" / "umls_term_types.json"
    data = json.loads(file.read_text("utf-8"))
    return frozenset(data["fully_specified"]), {
        tty: reason for reason, types in data["left_out"].items() for tty in types
    }


def _concept(cui: str, run: list[_Row], codes: Iterable[tuple[str, str]]) -> Iterator[Record]:
    """Records of the rows of one concept that stood together."""
    if not run:
        return
    best: dict[str, int] = {}
    for place, (rank, _, tag, _, _) in enumerate(run):
        if 0 <= rank < MAX_RANK and (tag not in best or rank < run[best[tag]][0]):
            best[tag] = place
    # Also for a concept whose names the filters left out, so that the knowledge base counts it.
    yield Concept(cui, SOURCE)
    for place, (rank, text, tag, tty, sab) in enumerate(run):
        if rank >= 0:
            yield RankedName(cui, text, tag, tty, sab, best.get(tag) == place, rank)
    for sab, code in codes:
        yield Mapping(cui, sab, code, "code", sab)


FORMAT = Format("rrf", read_rrf, "--umls", "META folder of a UMLS release (RRF).", 10, folder=True)
