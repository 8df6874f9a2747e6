"""What a reader decided about the terms of a list: the rows of a table that concern no note and no code.

``medlink kb build --table`` reads the same file and takes in the accepted rows. Decisions are applied after the
clusterer and not given to it as links it must or must not make: what a person decided holds for exactly these terms,
and a list of a million terms with a few decisions costs no more than without them. A review keeps its table on the
disk, written whole after each decision, and never over a change that was not read.
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
from medlink.files.atomic import whole_file
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.decision_table import ACCEPT, COLUMNS, GROUP, PLACE, REJECT, Decision, clean, read_decided
from medlink.language.tags import language_tag

__all__ = [
    "ACCEPT", "COLUMNS", "GROUP", "NEW_ID", "REJECT", "Decision", "Decisions", "clean", "read_decisions", "term_hash",
]  # fmt: skip
NEW_ID = "NEW:"
"""Ids of concepts that no terminology has begin with this."""
HEADER = "\t".join((*COLUMNS, *PLACE)) + "\n"


def term_hash(term: str) -> str:
    """16 hex digits for a term, the same for any case and Unicode form of it.

    The id of a new concept is ``NEW:`` and the exclusive or of the distinct hashes of its terms, so it depends on the
    set of terms alone. The page combines the hashes, for the reader splits and merges there.

    >>> term_hash("Fieber") == term_hash("FIEBER"), term_hash("Uña") == term_hash("una")
    (True, False)
    """
    form = unicodedata.normalize("NFC", clean(term).casefold())
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Decisions:
    """The rows of a decisions file, found by term; equal ones count once. ``path`` is the file, for errors.

    ``accepted`` are ids, also of mentions and codes, whose rows are no terms; ``names`` and ``parents`` hold the
    preferred name and the parent that the file gives to an id; ``terms`` are those that something was decided about.

    Raises:
        InputError: a term is decided in two ways, or an id has two preferred terms of one language.

    >>> row = Decision("H:1", "fit", "en", False, "", ACCEPT, 2)
    >>> Decisions("d.tsv", [row]).of("fit", "en").concept_id
    'H:1'
    """

    def __init__(self, path: str | PathLike[str], rows: Sequence[Decision]) -> None:
        self.path = fspath(path)
        self.accepted = frozenset(row.concept_id for row in rows if row.decision == ACCEPT)
        self._accepted_rows = tuple(row for row in rows if row.decision == ACCEPT)
        self._exact: dict[tuple[str, str], Decision] = {}
        self._by_term: defaultdict[str, list[Decision]] = defaultdict(list)
        self.names: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        preferred: dict[tuple[str, str], Decision] = {}
        for row in rows:
            if row.kind:
                continue
            first = self._exact.setdefault((row.term, row.language), row)
            if (first.concept_id, first.decision) != (row.concept_id, row.decision):
                problem = f"this term is decided otherwise in line {first.line}"
                raise self._refused(row, problem, "keep one of the two rows")
            if first is row:
                self._by_term[row.term].append(row)
            if row.preferred:
                other = preferred.setdefault((row.concept_id, row.language), row)
                if other.term != row.term:
                    problem = f"the preferred term of this id and language is in line {other.line}"
                    raise self._refused(row, problem, "make one of the two a synonym")
                self.names.setdefault(row.concept_id, row.term)
            if row.parent:
                self.parents.setdefault(row.concept_id, row.parent)
        self.terms = frozenset(self._by_term)

    def of(self, term: str, language: str) -> Decision | None:
        """What was decided about a term.

        A list with a language column and one without speak of the same terms: where no row has the language of the
        term, a decision that all rows of the term share holds for it.
        """
        found = self._by_term.get(clean(term))
        if found is None:
            return None
        one = found[0] if len({(row.concept_id, row.decision) for row in found}) == 1 else None
        return self._exact.get((clean(term), language_tag(language) or ""), one)

    def check_accepted(self, is_known: Callable[[str], bool]) -> None:
        """Refuse what would make wrong names in a terminology.

        Raises:
            InputError: an accepted id is neither new nor known, or a name stands in the quotes of a spreadsheet.
        """
        new_or_known = cache(lambda one: one.startswith(NEW_ID) or is_known(one))
        for row in self._accepted_rows:
            if not new_or_known(row.concept_id):
                remedy = f"write the id of a concept that it has, or one that begins with {NEW_ID}"
                raise self._refused(row, "the bundle has no concept with this id", remedy)
            # as a spreadsheet writes a cell: in quotes, and those within it twice
            quoted = len(row.term) > 2 and row.term[0] == row.term[-1] == '"'
            if quoted and '"' not in row.term[1:-1].replace('""', ""):
                remedy = "save the file as TSV without quotes, or take them off"
                raise self._refused(row, "the name stands in quotes", remedy)

    def _refused(self, row: Decision, problem: str, remedy: str) -> InputError:
        return InputError(problem, path=self.path, line=row.line, remedy=remedy)


def read_decisions(path: str | PathLike[str]) -> Decisions:
    """Read a decisions file, plain or ``.gz``; a row may stand in it twice.

    Raises:
        InputError: the file cannot be read, or :func:`medlink.kb.decision_table.read_decided` or :class:`Decisions`
            refuses it.
    """
    lines = LineFile(path, Problems())
    return Decisions(lines.path, list(read_decided(lines)))


class Changed(InputError):
    """The table is not what was read, so that writing it would lose what another program wrote."""


class Kept:
    """A table of decisions on the disk; it need not be there.

    Raises:
        ConfigError: its name is one of a packed file.
        InputError: it is there and cannot be read, see :func:`medlink.kb.decision_table.read_decided`.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        if self.path.suffix == ".gz":
            raise ConfigError("decisions are not packed", path=path, remedy="name a file without .gz")
        self._lock = Lock()
        self.rows = self._checked(self.content()[0]) if self.path.exists() else []

    def content(self) -> tuple[bytes, str]:
        """The table as it is now, and its hash; a header where it is not there."""
        data = self.path.read_bytes() if self.path.exists() else HEADER.encode()
        return data, hashlib.sha256(data).hexdigest()

    def put(self, data: bytes, revision: str) -> str:
        """Write the table, whole, in place of the one whose hash is ``revision``, and give its hash.

        Raises:
            Changed: the table on the disk is another one; nothing is written.
            InputError: ``data`` is no table of decisions; nothing is written.
            ConfigError: it cannot be written.
        """
        with self._lock:
            if self.content()[1] != revision:
                remedy = "reload the page, and decide again what it does not show"
                raise Changed("was changed by another page or program", path=self.path, remedy=remedy)
            self.rows = self._checked(data)
            with whole_file(self.path, "the decisions", private=True) as file:
                file.write(data)
            return hashlib.sha256(data).hexdigest()

    def _checked(self, data: bytes) -> list[Decision]:
        rows = list(read_decided(LineFile(self.path, Problems(), stream=BytesIO(data))))
        Decisions(self.path, rows)
        return rows


def check_places(rows: Iterable[Decision], path: StrPath, texts: dict[str, str]) -> None:
    """Refuse decisions about mentions whose words do not stand at their places in ``texts``, by the ids of notes.

    Raises:
        InputError: other words stand there.
    """
    for row in rows:
        if (
            row.start < row.end
            and row.item in texts
            and " ".join(texts[row.item][row.start : row.end].split()) != row.term
        ):
            remedy = "give the notes that were reviewed, or take the row out"
            raise InputError("other words stand at its place in the note", path=path, line=row.line, remedy=remedy)
