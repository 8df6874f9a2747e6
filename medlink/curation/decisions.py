"""Decisions of a reviewer about terms: table rows without a note or a code.

Decisions apply after clustering, not as constraints on it: a decision affects only its terms. A review rewrites its
table on disk after each decision, but never over a change that it has not read.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from threading import Lock

from medlink.errors import ConfigError, InputError
from medlink.files.atomic import atomic_writer, format_of_ending
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb import decision_table
from medlink.kb.decision_table import ACCEPT, MENTION, Decision, collapse_whitespace, format_cells, iter_decisions
from medlink.language.tags import language_tag

NEW_ID = "NEW:"
"""Prefix of the ids of concepts that no terminology has."""
HEADER = "\t".join((*decision_table.COLUMNS, *decision_table.LOCATION_COLUMNS)) + "\n"


def term_hash(term: str) -> str:
    """Hash a term to 16 hex digits, regardless of case and Unicode form.

    The id of a new concept is ``NEW:`` and the XOR of the distinct hashes of its terms, which the page combines.
    """
    form = unicodedata.normalize("NFC", collapse_whitespace(term).casefold())
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Decisions:
    """The rows of a decisions file, by term; equal rows count once.

    ``accepted`` holds the ids of accepted terms, mentions and codes. ``names`` and ``parents`` map an id to its
    preferred name and parent in the file. ``terms`` are the terms with a decision.

    Raises:
        InputError: a term has two different decisions, or an id has two preferred terms of one language.
    """

    def __init__(self, path: str | PathLike[str], rows: Sequence[Decision]) -> None:
        self.path = fspath(path)
        self._accepted_rows = [row for row in rows if row.decision == ACCEPT]
        self.accepted = frozenset(row.concept_id for row in self._accepted_rows)
        self._by_term = defaultdict[str, dict[str, Decision]](dict)  # rows by language
        self.names: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        preferred: dict[tuple[str, str], Decision] = {}
        for row in rows:
            if row.kind:
                continue
            first = self._by_term[row.term].setdefault(row.language, row)
            if (first.concept_id, first.decision) != (row.concept_id, row.decision):
                problem = f"another decision about this term is in line {first.line}"
                raise self._error(row, problem, "keep one of the two rows")
            if row.preferred:
                earlier = preferred.setdefault((row.concept_id, row.language), row)
                if earlier.term != row.term:
                    problem = f"the preferred term of this id and language is in line {earlier.line}"
                    raise self._error(row, problem, "make one of the two a synonym")
                self.names.setdefault(row.concept_id, row.term)
            if row.parent:
                self.parents.setdefault(row.concept_id, row.parent)
        self.terms = frozenset(self._by_term)

    def find(self, term: str, language: str) -> Decision | None:
        """Return the decision about a term.

        If no row has the language of the term, a decision shared by all its rows applies, so that lists with and
        without languages can share decisions.
        """
        rows = self._by_term.get(collapse_whitespace(term), {})
        is_common = len({(row.concept_id, row.decision) for row in rows.values()}) == 1
        return rows.get(language_tag(language) or "", next(iter(rows.values())) if is_common else None)

    def check_accepted(self, is_known: Callable[[str], bool]) -> None:
        """Raise InputError if an accepted id is neither new nor known, or if a spreadsheet quoted a name."""
        new_or_known = cache(lambda concept_id: concept_id.startswith(NEW_ID) or is_known(concept_id))
        for row in self._accepted_rows:
            if not new_or_known(row.concept_id):
                remedy = f"write the id of a concept that it has, or one that begins with {NEW_ID}"
                raise self._error(row, "the bundle has no concept with this id", remedy)
            # a spreadsheet quotes a cell and doubles the quotes in it
            quoted = len(row.term) > 2 and row.term[0] == row.term[-1] == '"'
            if quoted and '"' not in row.term[1:-1].replace('""', ""):
                remedy = "save the file as TSV without quotes, or remove the quotes"
                raise self._error(row, "the name is in quotes", remedy)

    def _error(self, row: Decision, problem: str, remedy: str) -> InputError:
        return InputError(problem, path=self.path, line=row.line, remedy=remedy)


def read_decisions(path: str | PathLike[str]) -> Decisions:
    """Read a decisions file, plain or ``.gz``; a row may occur twice.

    Raises:
        InputError: the file cannot be read, or is not a table of decisions that agree.
    """
    lines = LineFile(path, Problems())
    return Decisions(lines.path, list(iter_decisions(lines)))


class DecisionsChangedError(InputError):
    """The table changed since it was read; writing it would lose the change."""


class DecisionStore:
    """A table of decisions on disk, which may not exist yet.

    Raises:
        ConfigError: the file would be compressed, or its ending is not ``.tsv``.
        InputError: the table cannot be read, see :func:`medlink.kb.decision_table.iter_decisions`.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        if self.path.suffix == ".gz":
            raise ConfigError("decisions cannot be compressed", path=path, remedy="name a file without .gz")
        format_of_ending(path, {".tsv": "tsv"}, "tsv")
        self._lock = Lock()
        self.rows = self._parse(self.read()[0]) if self.path.exists() else []

    def read(self) -> tuple[bytes, str]:
        """Return the table, or a header if it does not exist, and its hash."""
        data = self.path.read_bytes() if self.path.exists() else HEADER.encode()
        return data, hashlib.sha256(data).hexdigest()

    def write(self, data: bytes, revision: str) -> str:
        """Replace the table whose hash is ``revision``, and return the new hash.

        Raises:
            DecisionsChangedError: the table on disk has another hash; nothing is written.
            InputError: ``data`` is not a table of decisions; nothing is written.
        """
        with self._lock:
            if self.read()[1] != revision:
                remedy = "reload the page, and repeat the decisions that are missing"
                raise DecisionsChangedError("was changed by another page or program", path=self.path, remedy=remedy)
            self._replace(data)
            return hashlib.sha256(data).hexdigest()

    def decide(self, row: Decision) -> None:
        """Replace the decision about the location of a row; a row without a ``decision`` removes it."""
        with self._lock:
            others = [other for other in self._parse(self.read()[0]) if other.location != row.location]
            rows = [*others, row] if row.decision else others
            self._replace((HEADER + "".join("\t".join(format_cells(one)) + "\n" for one in rows)).encode())

    def find(self, item: str) -> list[Decision]:
        """Return the decisions on disk about the mentions of a note."""
        return [row for row in self._parse(self.read()[0]) if row.item == item and row.kind == MENTION]

    def _replace(self, data: bytes) -> None:
        self.rows = self._parse(data)
        with atomic_writer(self.path, "the decisions", private=True) as file:
            file.write(data)

    def _parse(self, data: bytes) -> list[Decision]:
        rows = list(iter_decisions(LineFile(self.path, Problems(), stream=BytesIO(data))))
        Decisions(self.path, rows)
        return rows


def check_offsets(rows: Iterable[Decision], path: StrPath, texts: dict[str, str]) -> None:
    """Raise InputError if the words of a decision are not at its offsets in ``texts``, which map note ids to texts."""
    for row in rows:
        text = texts.get(row.item)
        if text is not None and row.start < row.end and " ".join(text[row.start : row.end].split()) != row.term:
            remedy = "give the notes that were reviewed, or delete the row"
            raise InputError("the words at its offsets in the note differ", path=path, line=row.line, remedy=remedy)
