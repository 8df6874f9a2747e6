"""What a reader decided about clusters: the file that the page of :mod:`medlink.curation.page` writes.

It is a TSV that a person can edit. Each row is one term: ``id``, ``name``, ``language``, ``type`` (``preferred`` or
``synonym``), ``parent`` and ``decision``:

- ``accept``: the term is a name of the concept ``id``;
- ``group``: the terms of this ``id`` belong together, and nobody has said yet that they are a concept;
- ``reject``: the term is no name of any concept; ``id`` is empty.

``medlink kb build --table`` reads the same file and takes in the accepted rows. Decisions are applied after the
clusterer and not given to it as links it must or must not make: what a person decided holds for exactly these terms,
and a list of a million terms with a few decisions costs no more than without them.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath

from medlink.errors import InputError
from medlink.files.escapes import from_cell
from medlink.files.problems import Problems
from medlink.files.tables import Table, open_table
from medlink.kb.readers.common import is_id
from medlink.language.tags import language_tag

ACCEPT, GROUP, REJECT = "accept", "group", "reject"
NEW_ID = "NEW:"
"""Ids of concepts that no terminology has begin with this."""
COLUMNS = ("id", "name", "language", "type", "parent", "decision")
_TYPES = ("preferred", "synonym")


def clean(term: str) -> str:
    """A term as it stands in the file: runs of white space, which may hold a tab, are one blank.

    >>> clean(" left\\tarm ")
    'left arm'
    """
    return " ".join(term.split())


def term_hash(term: str) -> str:
    """16 hex digits for a term, the same for any case and Unicode form of it.

    The id of a new concept is ``NEW:`` and the exclusive or of the distinct hashes of its terms, so it depends on the
    set of terms alone. The page combines the hashes, for the reader splits and merges there.

    >>> term_hash("Fieber") == term_hash("FIEBER"), term_hash("Uña") == term_hash("una")
    (True, False)
    """
    form = unicodedata.normalize("NFC", clean(term).casefold())
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of the file; ``line`` is where it stands."""

    concept_id: str
    term: str
    language: str
    preferred: bool
    parent: str
    decision: str
    line: int


class Decisions:
    """The rows of a decisions file, found by term; equal ones count once. ``path`` is the file, for errors.

    ``accepted`` are ids; ``names`` and ``parents`` hold the preferred name and the parent that the file gives to an id;
    ``terms`` are those that something was decided about.

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
        InputError: the file cannot be read, is not UTF-8, lacks a column or has one twice; a row has no name, no usable
            id, or an unknown decision, type or language; a term is decided in two ways; an id has two preferred terms
            of one language.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
    ...     _ = file.write("\\t".join(COLUMNS) + "\\n\\tn/a\\t\\t\\t\\treject\\n")
    ...     file.flush()
    ...     read_decisions(file.name).of("n/a", "de").decision
    'reject'
    """
    # A decision that is lost without a word is worse than a file that must be mended, so no bad row is let through.
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    if "concept_id" in table.header and table.places(COLUMNS):
        raise table.error("there are the columns id and concept_id", "leave id and take off the other")
    return Decisions(table.lines.path, list(_read(table)))


def _read(table: Table) -> Iterator[Decision]:
    """The decisions of a file."""
    at = table.places(COLUMNS)
    for line, cells in table.rows:
        concept_id, name, language, kind, parent, decision = (cells[index].strip() for index in at)
        tag = language_tag(language) if language else ""
        problem = ""
        if decision not in (ACCEPT, GROUP, REJECT):
            problem, remedy = "unknown word in the column decision", f"use {ACCEPT}, {GROUP} or {REJECT}"
        elif not name:
            problem, remedy = "there is no name", "write the term into the column name, or delete the row"
        elif not concept_id and decision != REJECT:
            problem, remedy = "there is no id", f"write the concept's id, or the decision {REJECT}"
        elif decision != REJECT and not is_id(concept_id):
            problem = "the id has a blank, | or an invisible character"
            remedy = "write an id without them; the columns may have changed places"
        elif decision != REJECT and not all(is_id(one.strip()) for one in parent.split("|") if one.strip()):
            problem, remedy = "the parent is no id", "write the id of one concept, or leave it empty"
        elif kind not in _TYPES and decision != REJECT:
            problem, remedy = "unknown word in the column type", "use preferred or synonym"
        elif tag is None:
            problem, remedy = "unknown language", "give a BCP 47 tag, such as de, or leave it empty"
        if problem:
            raise InputError(problem, path=table.lines.path, line=line, remedy=remedy)
        if decision == REJECT:
            concept_id = kind = parent = ""
        yield Decision(concept_id, clean(from_cell(name)), tag or "", kind == "preferred", parent, decision, line)
