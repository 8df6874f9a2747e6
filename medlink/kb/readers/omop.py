"""Reader of the OMOP standardised vocabularies from Athena (Common Data Model 5.4): tabs, no quoting.

A concept id is ``OMOP:`` and the number, since the bare number could be a SNOMED CT id. Names from a map have the type
``maps_to``: OMOP maps to an equal concept, or to a wider one if there is none.
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
from medlink.kb.readers.common import Format, existing_folder, missing_files_error
from medlink.language.tags import OMOP_LANGUAGES
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
)  # fmt: skip

SOURCE = "OMOP"
_PREFIX = "OMOP:"
_UNKNOWN, _DEFAULT = ("", "0"), "en"  # concept_name is English
_TAGS = (
    "body structure", "cell", "cell structure", "disorder", "environment", "event", "finding", "medicinal product",
    "morphologic abnormality", "observable entity", "organism", "person", "physical object", "procedure", "product",
    "qualifier value", "regime/therapy", "situation", "specimen", "substance",
)  # fmt: skip
_TAGGED = re.compile(rf".*\S \((?:{'|'.join(_TAGS)})\)")
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_STATE = ("valid_start_date", "valid_end_date", "invalid_reason")
_CONCEPT = ("concept_id", "concept_name", "domain_id", "vocabulary_id", "standard_concept", "concept_code", *_STATE)
_RELATIONSHIP = ("concept_id_1", "concept_id_2", "relationship_id", *_STATE)
# mapping type of the code, by standard_concept
_CODE_TYPES = {"S": CODE, "C": NOT_STANDARD[0], "": NOT_STANDARD[1]}
_SEVERAL = 0  # in place of a concept id: maps to several


def read_omop(folder: str | PathLike[str], *, problems: Problems | None = None) -> Iterator[Record]:
    """Read a download of Athena: ``CONCEPT.csv`` and the other tables that it has, plain or ``.gz``.

    Memory grows by 210 bytes for each concept if half of them are mapped (measured by hand on 2026-11-23 with 500,000
    synthetic concepts).
    """
    problems = problems or Problems()
    top = existing_folder(folder, "name the folder of a download from Athena")
    if _file(top, "CONCEPT") is None:
        remedy = "name the folder that holds CONCEPT.csv"
        raise missing_files_error(folder, "CONCEPT.csv", (entry.name for entry in top.iterdir()), remedy)
    vocabularies = _Vocabularies(top, problems)
    yield Source(SOURCE, vocabularies.version(), "OMOP standardised vocabularies")
    vocabularies.read_maps()
    for read in (vocabularies.concepts, vocabularies.synonyms, vocabularies.relations, vocabularies.ancestors):
        yield from read()


@dataclass(slots=True)
class _Vocabularies:
    folder: Path
    problems: Problems
    maps: dict[int, int] = field(default_factory=dict)
    # by concept: the concept that gets its names, and the vocabulary
    targets: dict[int, tuple[int, str]] = field(default_factory=dict)
    vocabularies: dict[str, str] = field(default_factory=dict)

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[tuple[LineFile, int, list[str]]]:
        path = _file(self.folder, name)
        if path is None:
            self.problems.notes.append(f"{self.folder / name}.csv: is not there")
            return
        # without the chosen vocabularies a file may have a header only
        table = open_table(path, self.problems, separator="\t")
        indices = table.column_indices(columns)
        for line, cells in table.rows:
            self.problems.position = table.lines.path, line
            yield table.lines, line, [cells[index].strip() for index in indices]

    def version(self) -> str:
        """Return the version of the release, which is that of the vocabulary named ``None``."""
        release = ""
        for _, _, (vocabulary, version) in self.rows("VOCABULARY", ("vocabulary_id", "vocabulary_version")):
            release = version if vocabulary == "None" else release
            self.problems.skipped["version of a vocabulary"] += 1
        return release

    def valid(self, lines: LineFile, line: int, start: str, end: str, reason: str) -> bool | None:
        """Return whether a row is current, ``None`` for a bad row."""
        if reason in ("", "D", "U") and _DATE.fullmatch(start) and _DATE.fullmatch(end):
            return not reason
        lines.bad_row("invalid_reason is neither D nor U, or a date is invalid", line)
        return None

    def read_maps(self) -> None:
        # relations() reads the file again and counts its rows
        problems, self.problems = self.problems, Problems(1.0)
        for _, _, (first, second, kind, *_, reason) in self.rows("CONCEPT_RELATIONSHIP", _RELATIONSHIP):
            source, target = _number(first), _number(second)
            is_map = kind == "Maps to" and not reason and source and target and source != target
            if is_map and self.maps.setdefault(source, target) != target:
                self.maps[source] = _SEVERAL
        self.problems = problems

    def concepts(self) -> Iterator[Record]:
        skipped = self.problems.skipped
        for lines, line, (digits, text, domain, vocabulary, standard, code, *state) in self.rows("CONCEPT", _CONCEPT):
            number = _number(digits)
            valid = self.valid(lines, line, *state)
            if valid is None:
                continue
            if not number or not text or standard not in ("", "S", "C"):
                lines.bad_row("no number, no name, or standard_concept is neither S nor C", line)
                continue
            if number in self.targets:
                skipped["concept repeated, kept once"] += 1
                continue
            is_standard = valid and standard != ""
            target = number if is_standard else self.maps.get(number, number if valid else None)
            if target is None or target == _SEVERAL:
                skipped["invalid concept" if target is None else "concept that maps to several"] += 1
                continue
            # setdefault, so that all concepts share one string
            self.targets[number] = target, self.vocabularies.setdefault(vocabulary, vocabulary)
            concept_id = f"{_PREFIX}{target}"
            if target == number:
                yield Concept(concept_id, SOURCE)
                yield Name(concept_id, text, _DEFAULT, "preferred", vocabulary, True)
                if domain:
                    yield SemanticType(concept_id, domain, "", SOURCE)
            else:
                yield Name(concept_id, text, _DEFAULT, "maps_to", vocabulary)
                if not valid:
                    # U: upgraded to the other concept; D: deleted
                    kind = "replaced_by" if state[-1] == "U" else "alternative"
                    yield Retired(f"{_PREFIX}{number}", kind, concept_id, SOURCE)
            if code:
                kind = _CODE_TYPES[standard] if target == number else "maps_to"
                yield Mapping(concept_id, vocabulary, code, kind, vocabulary)

    def synonyms(self) -> Iterator[Record]:
        columns = ("concept_id", "concept_synonym_name", "language_concept_id")
        for lines, line, (digits, text, language) in self.rows("CONCEPT_SYNONYM", columns):
            number = _number(digits)
            if not number or not text:
                lines.bad_row("no number, or no name", line)
            elif number not in self.targets:
                self.problems.skipped["synonym of a concept that is left out"] += 1
            elif language not in OMOP_LANGUAGES and language not in _UNKNOWN:
                self.problems.skipped["synonym in another language"] += 1
            else:
                target, vocabulary = self.targets[number]
                kind = "synonym" if target == number else "maps_to"
                if vocabulary == "SNOMED" and _TAGGED.fullmatch(text):
                    kind = FSN
                yield Name(f"{_PREFIX}{target}", text, OMOP_LANGUAGES.get(language, ""), kind, vocabulary)

    def relations(self) -> Iterator[Record]:
        skipped = self.problems.skipped
        for lines, line, (first, second, kind, *state) in self.rows("CONCEPT_RELATIONSHIP", _RELATIONSHIP):
            head, tail = _number(first), _number(second)
            valid = self.valid(lines, line, *state)
            if valid is None:
                continue
            if not head or not tail:
                lines.bad_row("no number", line)
            elif not valid:
                skipped["invalid relationship"] += 1
            elif kind == "Maps to":
                skipped["map of a concept with itself" if head == tail else "map, which adds names"] += 1
            elif kind != "Is a":
                skipped["relationship of another kind"] += 1
            else:
                yield from self.isa(head, tail)

    def ancestors(self) -> Iterator[Record]:
        columns = ("ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation")
        for lines, line, (ancestor, descendant, levels) in self.rows("CONCEPT_ANCESTOR", columns):
            tail, head = _number(ancestor), _number(descendant)
            if not head or not tail or not levels.isdecimal():
                lines.bad_row("no number", line)
            elif levels != "1":
                self.problems.skipped["ancestor that is not a parent"] += 1
            else:
                yield from self.isa(head, tail)

    def isa(self, head: int, tail: int) -> Iterator[Record]:
        if all(self.targets.get(number, (0, ""))[0] == number for number in (head, tail)):
            yield Relation(f"{_PREFIX}{head}", "isa", f"{_PREFIX}{tail}", SOURCE)
        else:
            self.problems.skipped["relationship of a concept that is left out"] += 1


def _number(digits: str) -> int:
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0


def _file(folder: Path, name: str) -> Path | None:
    wanted = (f"{name}.csv".lower(), f"{name}.csv.gz".lower())
    candidates = [path for path in sorted(folder.iterdir()) if path.name.lower() in wanted and path.is_file()]
    # prefer the plain file to the compressed one
    return min(candidates, key=lambda path: len(path.name), default=None)


FORMAT = Format("omop", read_omop, "--omop", "Folder of OMOP vocabularies (Athena).", 25, folder=True)
