"""Reader of the OMOP standardised vocabularies, as Athena hands them out: tab-separated files without quoting.

Columns are those of the OMOP Common Data Model 5.4, Standardized Vocabularies.

A concept id is ``OMOP:`` and the number (``OMOP:4329847``): the bare number would be taken for a SNOMED CT id, which is
one too, and the code alone is unique within its vocabulary only. The code is a mapping of type ``code`` to its
vocabulary.

What becomes of the rows:

* ``CONCEPT``: valid standard and classification concepts (``standard_concept`` S and C) are concepts. Another one is
  known by its map: it gives its names, and its code as a mapping of type ``maps_to``, to the standard concept that it
  ``Maps to``. One that maps to several is a combination of them and names none. Without a map it is a concept of its
  own, unless it is invalid.
* ``CONCEPT_SYNONYM``: names in their language. Those of SNOMED CT that end in a semantic tag, ``(disorder)``, have the
  type ``fsn``.
* ``CONCEPT_RELATIONSHIP``: ``Is a`` is ``isa``, and ``Maps to`` as above; rows with an ``invalid_reason`` are history.
* ``CONCEPT_ANCESTOR``: pairs one level apart are ``isa``. They bind vocabularies too, drugs to their ATC class.
* ``VOCABULARY``: the version of the release.

A name from a map has the type ``maps_to``: OMOP maps to an equal concept, or to a wider one where there is no equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import open_table
from medlink.kb.readers.common import Format, existing_folder, nothing_found
from medlink.records import (
    CODE,
    FSN,
    NOT_STANDARD,
    Concept,
    Mapping,
    Name,
    Record,
    Relation,
    Retired,
    SemanticType,
    Source,
)

SOURCE = "OMOP"
_PREFIX = "OMOP:"
_LANGUAGES = {"4180186": "en", "4182504": "de", "4182511": "es"}
_UNKNOWN, _DEFAULT = ("", "0"), "en"  # concept_name has no language column, and is English
_REASONS = {"": True, "D": False, "U": False}
_TAGS = (
    "body structure", "cell", "cell structure", "disorder", "environment", "event", "finding", "medicinal product",
    "morphologic abnormality", "observable entity", "organism", "person", "physical object", "procedure", "product",
    "qualifier value", "regime/therapy", "situation", "specimen", "substance",
)  # fmt: skip
_TAGGED = re.compile(rf".*\S \((?:{'|'.join(_TAGS)})\)")
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_CONCEPT = (
    "concept_id", "concept_name", "domain_id", "vocabulary_id", "standard_concept", "concept_code",
    "valid_start_date", "valid_end_date", "invalid_reason",
)  # fmt: skip
_RELATIONSHIP = (
    "concept_id_1", "concept_id_2", "relationship_id", "valid_start_date", "valid_end_date", "invalid_reason",
)  # fmt: skip
# by standard_concept, what the code of a concept is
_CODES = {"S": CODE, "C": NOT_STANDARD[0], "": NOT_STANDARD[1]}
_SEVERAL = 0  # no concept has this id: it stands for what was mapped to several


def read_omop(folder: str | PathLike[str], *, problems: Problems | None = None) -> Iterator[Record]:
    """Read a download of Athena.

    ``CONCEPT.csv`` must be there; ``CONCEPT_RELATIONSHIP``, ``CONCEPT_SYNONYM``, ``CONCEPT_ANCESTOR`` and
    ``VOCABULARY`` are read when they are, and a note tells which are not. Each may have ``.gz`` behind its name.

    Memory grows with the concepts and the maps between them: by 210 bytes for each concept where half of them are
    mapped (measured once, by hand, on 2026-11-23, with 500,000 made-up ones).
    """
    problems = problems or Problems()
    top = existing_folder(folder, "name the folder of a download from Athena")
    if _file(top, "CONCEPT") is None:
        remedy = "name the folder that holds CONCEPT.csv"
        raise nothing_found(folder, "CONCEPT.csv", (entry.name for entry in top.iterdir()), remedy)
    vocabularies = _Vocabularies(top, problems)
    yield Source(SOURCE, vocabularies.version(), "OMOP standardised vocabularies")
    vocabularies.read_maps()
    yield from vocabularies.concepts()
    yield from vocabularies.synonyms()
    yield from vocabularies.relations()
    yield from vocabularies.ancestors()


@dataclass(slots=True)
class _Vocabularies:
    folder: Path
    problems: Problems
    maps: dict[int, int] = field(default_factory=dict)
    # by concept: the one that has its names, and the vocabulary of both
    homes: dict[int, tuple[int, str]] = field(default_factory=dict)
    vocabularies: dict[str, str] = field(default_factory=dict)

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[tuple[LineFile, int, list[str]]]:
        """The asked columns of a file with their line, none where it is not there."""
        path = _file(self.folder, name)
        if path is None:
            self.problems.notes.append(f"{self.folder / name}.csv: is not there")
            return
        # a vocabulary that was not chosen may leave a file with its header alone
        table = open_table(path, self.problems, separator="\t")
        at = table.places(columns)
        for line, cells in table.rows:
            self.problems.at = table.lines.path, line
            yield table.lines, line, [cells[place].strip() for place in at]

    def version(self) -> str:
        """The version of the release, which VOCABULARY says of the vocabulary ``None``."""
        found = ""
        for _, _, (vocabulary, version) in self.rows("VOCABULARY", ("vocabulary_id", "vocabulary_version")):
            found = version if vocabulary == "None" else found
            self.problems.skipped["version of a vocabulary"] += 1
        return found

    def valid(self, lines: LineFile, line: int, start: str, end: str, reason: str) -> bool | None:
        """Whether a row is no history, ``None`` for a bad one."""
        if reason not in _REASONS or not _DATE.fullmatch(start) or not _DATE.fullmatch(end):
            lines.bad("invalid_reason is none of D and U, or a date is none", line)
            return None
        return _REASONS[reason]

    def read_maps(self) -> None:
        # the file is read once more for its relations, where its rows are counted
        again, self.problems = self.problems, Problems(1.0)
        for _, _, (first, second, kind, *_, reason) in self.rows("CONCEPT_RELATIONSHIP", _RELATIONSHIP):
            one, other = _number(first), _number(second)
            if kind == "Maps to" and not reason and one and other and one != other:
                known = self.maps.setdefault(one, other)
                if known != other:
                    self.maps[one] = _SEVERAL
        self.problems = again

    def concepts(self) -> Iterator[Record]:
        skipped = self.problems.skipped
        for lines, line, (digits, text, domain, vocabulary, standard, code, *state) in self.rows("CONCEPT", _CONCEPT):
            number = _number(digits)
            valid = self.valid(lines, line, *state)
            if valid is None:
                continue
            if not number or not text or standard not in ("", "S", "C"):
                lines.bad("no number, no name, or standard_concept is none of S and C", line)
                continue
            if number in self.homes:
                skipped["concept given more than once"] += 1
                continue
            own = valid and standard != ""
            home = number if own else self.maps.get(number, number if valid else None)
            if home is None or home == _SEVERAL:
                skipped["invalid concept" if home is None else "concept that maps to several"] += 1
                continue
            # one text for all concepts of a vocabulary
            self.homes[number] = home, self.vocabularies.setdefault(vocabulary, vocabulary)
            concept_id = f"{_PREFIX}{home}"
            if home == number:
                yield Concept(concept_id, SOURCE)
                yield Name(concept_id, text, _DEFAULT, "preferred", vocabulary, True)
                if domain:
                    yield SemanticType(concept_id, domain, "", SOURCE)
            else:
                yield Name(concept_id, text, _DEFAULT, "maps_to", vocabulary)
                if not valid:
                    # what was upgraded goes on under the other number, what was deleted may be meant by it
                    kind = "replaced_by" if state[-1] == "U" else "alternative"
                    yield Retired(f"{_PREFIX}{number}", kind, concept_id, SOURCE)
            if code:
                kind = _CODES[standard] if home == number else "maps_to"
                yield Mapping(concept_id, vocabulary, code, kind, vocabulary)

    def synonyms(self) -> Iterator[Record]:
        columns = ("concept_id", "concept_synonym_name", "language_concept_id")
        for lines, line, (digits, text, language) in self.rows("CONCEPT_SYNONYM", columns):
            number = _number(digits)
            if not number or not text:
                lines.bad("no number, or no name", line)
            elif number not in self.homes:
                self.problems.skipped["synonym of a concept that is left out"] += 1
            elif language not in _LANGUAGES and language not in _UNKNOWN:
                self.problems.skipped["synonym in another language"] += 1
            else:
                home, vocabulary = self.homes[number]
                kind = "synonym" if home == number else "maps_to"
                if vocabulary == "SNOMED" and _TAGGED.fullmatch(text):
                    kind = FSN
                yield Name(f"{_PREFIX}{home}", text, _LANGUAGES.get(language, ""), kind, vocabulary)

    def relations(self) -> Iterator[Record]:
        skipped = self.problems.skipped
        for lines, line, (first, second, kind, *state) in self.rows("CONCEPT_RELATIONSHIP", _RELATIONSHIP):
            head, tail = _number(first), _number(second)
            valid = self.valid(lines, line, *state)
            if valid is None:
                continue
            if not head or not tail:
                lines.bad("no number", line)
            elif not valid:
                skipped["invalid relationship"] += 1
            elif kind == "Maps to":
                skipped["map of a concept with itself" if head == tail else "map, by which names are given"] += 1
            elif kind != "Is a":
                skipped["relationship of another kind"] += 1
            else:
                yield from self.isa(head, tail)

    def ancestors(self) -> Iterator[Record]:
        columns = ("ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation")
        for lines, line, (above, below, levels) in self.rows("CONCEPT_ANCESTOR", columns):
            tail, head = _number(above), _number(below)
            if not head or not tail or not levels.isdecimal():
                lines.bad("no number", line)
            elif levels != "1":
                self.problems.skipped["ancestor that is no parent"] += 1
            else:
                yield from self.isa(head, tail)

    def isa(self, head: int, tail: int) -> Iterator[Record]:
        if all(self.homes.get(number, (0, ""))[0] == number for number in (head, tail)):
            yield Relation(f"{_PREFIX}{head}", "isa", f"{_PREFIX}{tail}", SOURCE)
        else:
            self.problems.skipped["relationship of a concept that is left out"] += 1


def _number(digits: str) -> int:
    """The number of a concept, 0 for what is none."""
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0


def _file(folder: Path, name: str) -> Path | None:
    wanted = (f"{name}.csv".lower(), f"{name}.csv.gz".lower())
    found = [path for path in sorted(folder.iterdir()) if path.name.lower() in wanted and path.is_file()]
    # the plain file, where it lies beside the packed one
    return min(found, key=lambda path: len(path.name), default=None)


FORMAT = Format("omop", read_omop, "--omop", "Folder of OMOP vocabularies (Athena).", 25, folder=True)
