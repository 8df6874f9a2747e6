"""Reader of SNOMED CT snapshots in Release Format 2 (RF2); inactive rows are only counted.

Files are found by their names, anywhere below the folders (SNOMED CT Release File Specifications); Full and Delta files
are not read. Successors of inactive concepts come from the historical association reference sets (5.2.5.1).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from medlink.errors import InputError
from medlink.files.json import parse_json
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, open_table
from medlink.kb.readers.common import MAX_RANK, Format, RankedName, existing_folder, missing_files_error
from medlink.language.tags import language_filter, language_tag, wanted
from medlink.records import FSN, Concept, Definition, Mapping, Record, Relation, Retired, SemanticType, Source

SOURCE = "SNOMEDCT"
_FSN, _DEFINITION, _PREFERRED = "900000000000003001", "900000000000550004", "900000000000548007"
_IS_A, _INFERRED = "116680003", "900000000000011006"
_US, _GB = "900000000000509007", "900000000000508004"
_SYSTEMS = {"447562003": "ICD-10", "446608001": "ICD-O", "900000000000497000": "CTV3", "6011000124106": "ICD-10-CM"}
_STATE = ("id", "effectiveTime", "active")
_CHANGING = ("Description", "TextDefinition", "Language")
"""Kinds of files in which a row replaces an earlier one if it is active and has a later date."""
_TAG = re.compile(r"\(([^()]+)\)\s*$")
_PACKAGE = re.compile(r"release[-_]package[-_]information.*\.json", re.IGNORECASE)
_NAMING = frozenset({"attribute", "foundation metadata concept"})

_MAPS = {"SimpleMap": "simple_map", "ComplexMap": "complex_map", "ExtendedMap": "extended_map"}
_ASSOCIATION = "Association"
_RETIREMENT_BY_REFSET = {
    "900000000000527005": "same_as",
    "900000000000526001": "replaced_by",
    "900000000000523009": "possibly_equivalent_to",
    "1186921001": "possibly_replaced_by",
    "1186924009": "partially_equivalent_to",
    "900000000000529008": "similar_to",
    "900000000000530003": "alternative",
    "900000000000528000": "was_a",
    "900000000000525002": "moved_from",
    "900000000000524003": "moved_to",
}
_COMPONENTS = ("Concept", "Description", "TextDefinition", "Relationship")
_FILES = {kind: f"sct2_{kind}_" for kind in _COMPONENTS}
_FILES |= {kind: rf"der2_\w*Refset_{kind}" for kind in ("Language", _ASSOCIATION, *_MAPS)}
_PATTERNS = {
    kind: re.compile(rf"x?{name}\w*Snapshot[-_.].*\.txt(?:\.gz)?", re.IGNORECASE) for kind, name in _FILES.items()
}


def read_rf2(
    folder: str | PathLike[str],
    *,
    extensions: Sequence[str | PathLike[str]] = (),
    languages: Iterable[str] | None = None,
    language_refsets: Sequence[str] = (),
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a SNOMED CT snapshot, with any number of national extensions.

    If several files have the same component, an inactive row with a later date withdraws it. For a name, the latest row
    counts. Memory grows with the preferred terms (about 100 bytes each) and the inactive concepts. With several files
    of a kind, it also grows with their inactive rows, and with the names of all files but the largest.

    Args:
        extensions: folders of national extensions of the same release.
        languages: read only names and definitions of these languages.
        language_refsets: ids of language refsets in order of trust, for a language with several preferred terms; by
            default US English, then British English, then by number.
    """
    problems = problems or Problems()
    folders = [folder, *extensions]
    files = _find(folders)
    snapshot = _Snapshot(files, problems, language_filter(languages), [*language_refsets, _US, _GB])
    yield from snapshot.concepts()
    for kind in ("Description", "TextDefinition"):
        yield from snapshot.descriptions(kind)
    yield from snapshot.relations()
    yield from snapshot.maps()
    yield from snapshot.retired_concepts()
    for release in folders:
        problems.notes += _compare_with_package(Path(release), files, snapshot.refsets)


@dataclass(slots=True)
class _Snapshot:
    files: dict[str, list[Path]]
    problems: Problems
    languages: frozenset[str] | None
    refset_order: list[str]
    inactive: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    refsets: set[str] = field(default_factory=set)

    def skip(self, reason: str) -> None:
        self.problems.skipped[reason] += 1

    def active_rows(self, kind: str, columns: Sequence[str]) -> Iterator[tuple[LineFile, int, list[str]]]:
        newer_dates = self.newer_dates(kind)
        if not self.files[kind] and kind not in (_ASSOCIATION, *_MAPS):
            self.problems.notes.append(f"there is no {kind} file")
        for path in self.files[kind]:
            table = _open(path, self.problems)
            id_index, time_index, active_index, *indices = table.column_indices([*_STATE, *columns])
            line = 0
            for line, cells in table.rows:
                if cells[active_index] not in ("0", "1"):
                    table.lines.bad_row("active is neither 0 nor 1", line)
                elif cells[active_index] == "0":
                    if kind == "Concept":
                        self.inactive.add(cells[id_index])
                    self.skip(f"inactive {kind} row")
                elif newer_dates.get(cells[id_index], "") > cells[time_index]:
                    self.skip(f"{kind} row withdrawn by a later file")
                else:
                    if kind == "Concept":
                        newer_dates.pop(cells[id_index], None)
                    self.problems.position = path, line
                    yield table.lines, line, [cells[index] for index in indices]
            if not line:
                self.problems.notes.append(f"{path}: has no rows")
        if kind == "Concept" and len(self.files[kind]) > 1:
            # in any order of the files: inactive concepts that no later row reactivated
            self.inactive = set(newer_dates)

    def newer_dates(self, kind: str) -> dict[str, str]:
        """Return by id the latest date of the rows that replace earlier ones; empty for a single file.

        These are the inactive rows. For names and language refsets, they are also the active rows: the next edition may
        only accept a name that this edition prefers.
        """
        dates: dict[str, str] = {}
        if len(self.files[kind]) < 2:
            return dates
        # an id in two files is in one that is not the largest
        smaller = sorted(self.files[kind], key=lambda path: path.stat().st_size)[:-1] if kind in _CHANGING else []
        repeated = {cells[0] for path in smaller for cells in _states(path)}
        for path in self.files[kind]:
            for component, date, active in _states(path):
                if (active == "0" or component in repeated) and date > dates.get(component, ""):
                    dates[component] = date
        return dates

    def concepts(self) -> Iterator[Record]:
        yield Source(SOURCE, max(_dates(self.files), default=""), "SNOMED CT")
        for _, _, (concept_id,) in self.active_rows("Concept", ["id"]):
            yield Concept(concept_id, SOURCE)

    def preferred_ranks(self) -> dict[str, int]:
        known = {refset: rank for rank, refset in reversed(list(enumerate(self.refset_order)))}

        def order(refset: str) -> tuple[int, int, str]:
            # unranked refsets last, in numerical order
            return known.get(refset, len(known)), len(refset), refset

        best: dict[str, str] = {}
        columns = ["refsetId", "referencedComponentId", "acceptabilityId"]
        for _, _, (refset, description, acceptability) in self.active_rows("Language", columns):
            self.refsets.add(refset)
            if acceptability == _PREFERRED:
                # interned, since millions of terms share few ids
                best[description] = min(sys.intern(refset), best.get(description, refset), key=order)
        ranks = {refset: rank for rank, refset in enumerate(sorted(set(best.values()), key=order))}
        return {description: ranks[refset] for description, refset in best.items()}

    def descriptions(self, kind: str) -> Iterator[Record]:
        preferred = self.preferred_ranks() if kind == "Description" else {}
        columns = ["id", "conceptId", "languageCode", "typeId", "term"]
        for lines, line, (description, concept_id, code, type_id, term) in self.active_rows(kind, columns):
            tag = language_tag(code)
            if tag is None:
                lines.bad_row("unknown language", line, repr(code)[:40])
                continue
            if concept_id in self.inactive:
                self.skip(f"{kind} of an inactive concept")
                continue
            is_fsn, is_definition = type_id == _FSN, type_id == _DEFINITION
            if is_fsn and tag.partition("-")[0] == "en" and (match := _TAG.search(term)):
                yield SemanticType(concept_id, match[1], "", SOURCE)
                if match[1] in _NAMING:
                    self.names[concept_id] = term[: match.start()].strip()
            if not wanted(tag, self.languages):
                self.skip("definition in another language" if is_definition else "name in another language")
            elif is_definition:
                yield Definition(concept_id, term, tag, SOURCE)
            elif is_fsn:
                # the lowest rank, so that it is never preferred
                yield RankedName(concept_id, term, tag, FSN, SOURCE, False, MAX_RANK)
            else:
                rank = preferred.get(description)
                yield RankedName(concept_id, term, tag, "synonym", SOURCE, rank is not None, rank or 0)

    def relations(self) -> Iterator[Record]:
        columns = ["sourceId", "destinationId", "typeId", "characteristicTypeId"]
        for _, _, (head, tail, type_id, characteristic) in self.active_rows("Relationship", columns):
            if characteristic != _INFERRED:
                self.skip("relationship that is not inferred")
            elif head in self.inactive or tail in self.inactive:
                self.skip("relationship of an inactive concept")
            else:
                kind = "isa" if type_id == _IS_A else self.names.get(type_id, type_id).lower()
                yield Relation(head, kind, tail, SOURCE)

    def maps(self) -> Iterator[Record]:
        for kind, label in _MAPS.items():
            columns = ["refsetId", "referencedComponentId", "mapTarget"]
            for _, _, (refset, concept_id, target) in self.active_rows(kind, columns):
                if not target.strip():
                    self.skip("map without a target")
                elif concept_id in self.inactive:
                    self.skip("map of an inactive concept")
                else:
                    system = _SYSTEMS.get(refset) or self.names.get(refset, refset)
                    yield Mapping(concept_id, system, target.strip(), label, SOURCE)

    def retired_concepts(self) -> Iterator[Record]:
        """Yield retirements; associations of descriptions and active concepts are skipped."""
        columns = ("refsetId", "referencedComponentId", "targetComponentId")
        associated: set[str] = set()
        for lines, line, (refset, concept_id, target) in self.active_rows(_ASSOCIATION, columns):
            if refset not in _RETIREMENT_BY_REFSET or concept_id not in self.inactive:
                self.skip("association of a concept that is not inactive")
            elif not target:
                lines.bad_row("no concept that replaces it", line)
            else:
                associated.add(concept_id)
                yield Retired(concept_id, _RETIREMENT_BY_REFSET[refset], target, SOURCE)
        yield from (Retired(concept_id, "deleted", "", SOURCE) for concept_id in sorted(self.inactive - associated))


def _open(path: Path, problems: Problems) -> Table:
    return open_table(LineFile(path, problems, require_line_end=True), separator="\t", comments="#")


def _states(path: Path) -> Iterator[list[str]]:
    """Yield the id, the date and the active flag of each row of a file."""
    table = _open(path, Problems(1.0))
    indices = table.column_indices(_STATE)
    for _, cells in table.rows:
        yield [cells[index] for index in indices]


def _dates(files: dict[str, list[Path]]) -> set[str]:
    return {date for path in files["Concept"] for date in re.findall(r"_(\d{8})\.", path.name)}


def _compare_with_package(folder: Path, files: dict[str, list[Path]], refsets: set[str]) -> Iterator[str]:
    """Yield differences to the package information below a folder, or beside a Snapshot folder."""
    siblings = folder.parent.iterdir() if folder.name.lower() == "snapshot" else ()
    for path in sorted(file for file in (*folder.rglob("*.json"), *siblings) if _PACKAGE.fullmatch(file.name)):
        try:
            information = parse_json(LineFile(path, Problems()).read_text())
        except (InputError, ValueError):
            information = None
        if not isinstance(information, dict):
            yield f"{path}: cannot be read, nothing is checked against it"
            continue
        date, dates = str(information.get("effectiveTime", "")).replace("-", "")[:8], _dates(files)
        if date and date not in dates:
            yield f"{path}: is of {date}, the Concept files are of {', '.join(sorted(dates)) or 'no date'}"
        listed = information.get("languageRefsets")
        for entry in listed if isinstance(listed, list) else []:
            refset = str(entry.get("id", "")) if isinstance(entry, dict) else ""
            if refset and refset not in refsets:
                yield f"{path}: lists the language refset {refset[:40]}, which has no active row"


def _find(folders: Sequence[str | PathLike[str]]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {kind: [] for kind in _PATTERNS}
    for folder in folders:
        top = existing_folder(folder, "name the folder of a SNOMED CT release")
        below = sorted(path for path in top.rglob("*") if path.is_file())
        matches = [(kind, path) for path in below for kind in _PATTERNS if _PATTERNS[kind].fullmatch(path.name)]
        for kind, path in matches:
            if path not in files[kind]:
                files[kind].append(path)
        if not matches:
            wanted_files = "sct2_Concept_*Snapshot*.txt, sct2_Description_*Snapshot*.txt and the like"
            remedy = "name the Snapshot folder of a SNOMED CT release, or the one above it"
            raise missing_files_error(folder, wanted_files, (path.name for path in below), remedy)
    for kind in ("Concept", "Description"):
        if not files[kind]:
            found = (path.name for paths in files.values() for path in paths)
            remedy = "add the folder of the international edition, or unpack the release again"
            raise missing_files_error(folders[0], f"sct2_{kind}_*Snapshot*.txt", found, remedy)
    return files


_HELP = "Folder of a SNOMED CT release (RF2 snapshot); further ones are read as its extensions."
FORMAT = Format("rf2", read_rf2, "--snomed", _HELP, 20, "extensions", folder=True)
