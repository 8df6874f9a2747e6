"""Reader of SNOMED CT snapshots in Release Format 2 (RF2).

Files are found by their names anywhere below the folders, as the SNOMED CT Release File Specification names them
(``sct2_Description_Snapshot-en_INT_20260901.txt``, national ones such as
``sct2_Description_SpanishExtensionSnapshot-es_INT_...``). Full and Delta files are not read.

What becomes of the rows (inactive rows are history and only counted):

* Concept: a concept of the source ``SNOMEDCT``.
* Description: a name, of type ``fsn`` (fully specified name, tag included) or ``synonym``. A synonym is preferred
  where a language refset says so; where refsets disagree, see ``language_refsets``. The tag in the last parentheses
  of the English fsn is the semantic type.
* TextDefinition: a definition.
* Relationship: inferred ones only; ``116680003`` is ``isa``, others are named by the English fsn of their type, in
  lower case and without its tag (``finding site``).
* Simple, complex and extended maps: a mapping of type ``simple_map``, ``complex_map`` or ``extended_map``; rows without
  a target are left out, and conditions (``mapRule``) are not kept.
* Association: what an inactive concept is succeeded by, as the historical association reference sets say (SNOMED CT
  Release File Specifications, 5.2.5.1, and two that came later: PARTIALLY EQUIVALENT TO, POSSIBLY REPLACED BY). An
  inactive concept that none speaks of is deleted as far as the release says.

Lines that begin with ``#`` are comments, as some servers export them, and counted. A file whose last line has no line
end is cut off. Where there is ``release_package_information.json``, what it says of date and language refsets is held
against the files, and a note tells what differs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from medlink.errors import InputError
from medlink.files.json import parse_json
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, open_table
from medlink.kb.readers.common import MAX_RANK, Format, RankedName, existing_folder, nothing_found
from medlink.language.tags import language_filter, language_tag, wanted
from medlink.records import FSN, Concept, Definition, Mapping, Record, Relation, Retired, SemanticType, Source

SOURCE = "SNOMEDCT"
_FSN, _DEFINITION, _PREFERRED = "900000000000003001", "900000000000550004", "900000000000548007"
_IS_A, _INFERRED = "116680003", "900000000000011006"
_US, _GB = "900000000000509007", "900000000000508004"
_SYSTEMS = {"447562003": "ICD-10", "446608001": "ICD-O", "900000000000497000": "CTV3", "6011000124106": "ICD-10-CM"}
_STATE = ("id", "effectiveTime", "active")
_TAG = re.compile(r"\(([^()]+)\)\s*$")
_PACKAGE = re.compile(r"release[-_]package[-_]information.*\.json", re.IGNORECASE)
_NAMING = frozenset({"attribute", "foundation metadata concept"})

_MAPS = {"SimpleMap": "simple_map", "ComplexMap": "complex_map", "ExtendedMap": "extended_map"}
_ASSOCIATION = "Association"
_BY_REFSET = {
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
# Kind of file -> its name.
_PATTERNS = {
    kind: re.compile(rf"x?{name}\w*Snapshot[-_.].*\.txt(?:\.gz)?", re.IGNORECASE)
    for kind, name in {
        **{kind: f"sct2_{kind}_" for kind in _COMPONENTS},
        **{kind: rf"der2_\w*Refset_{kind}" for kind in ("Language", _ASSOCIATION, *_MAPS)},
    }.items()
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

    Where the same component stands in several files, an inactive row of a later date withdraws it.

    Memory grows with the preferred terms (about 100 bytes each) and the inactive concepts, and, where there are
    several files of a kind, with the inactive rows of that kind; the rest streams.

    Args:
        extensions: folders of national extensions, read with it as one.
        languages: names and definitions of these languages only.
        language_refsets: ids of language refsets, the most trusted first, where several name different terms of a
            language preferred; by default US English, then British English, then by number.
    """
    problems = problems or Problems()
    folders = [folder, *extensions]
    files, asked = _find(folders), language_filter(languages)
    snapshot = _Snapshot(files, problems, problems.skipped, asked, [*language_refsets, _US, _GB])
    yield from snapshot.concepts()
    for kind in ("Description", "TextDefinition"):
        yield from snapshot.descriptions(kind)
    yield from snapshot.relations()
    yield from snapshot.maps()
    yield from snapshot.withdrawn()
    for one in folders:
        problems.notes += _package(Path(one), files, snapshot.refsets)


@dataclass(slots=True)
class _Snapshot:
    files: dict[str, list[Path]]
    problems: Problems
    skipped: Counter[str]
    languages: frozenset[str] | None
    refset_order: list[str]
    inactive: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    refsets: set[str] = field(default_factory=set)

    def active(self, kind: str, columns: Sequence[str]) -> Iterator[tuple[LineFile, int, list[str]]]:
        retired = self.retired(kind)
        if not self.files[kind] and kind not in (_ASSOCIATION, *_MAPS):
            self.problems.notes.append(f"there is no {kind} file")
        for path in self.files[kind]:
            table = _open(path, self.problems)
            at_id, at_time, at_active, *at = table.places([*_STATE, *columns])
            line = 0
            for line, cells in table.rows:
                if cells[at_active] not in ("0", "1"):
                    table.lines.bad("active is neither 0 nor 1", line)
                elif cells[at_active] == "0":
                    if kind == "Concept":
                        self.inactive.add(cells[at_id])
                    self.skipped[f"inactive {kind} row"] += 1
                elif retired and retired.get(cells[at_id], "") > cells[at_time]:
                    self.skipped[f"{kind} row withdrawn by a later file"] += 1
                else:
                    if retired and kind == "Concept":
                        retired.pop(cells[at_id], None)
                    self.problems.at = path, line
                    yield table.lines, line, [cells[index] for index in at]
            if not line:
                self.problems.notes.append(f"{path}: has no rows")
        if kind == "Concept" and len(self.files[kind]) > 1:
            # Whatever the order of the files: inactive is what no later row made active again.
            self.inactive = set(retired)

    def retired(self, kind: str) -> dict[str, str]:
        """Latest date of the inactive rows by id, where several files may hold the same component."""
        dates: dict[str, str] = {}
        if len(self.files[kind]) < 2:
            return dates
        for path in self.files[kind]:
            table = _open(path, Problems(1.0))
            at_id, at_time, at_active = table.places(_STATE)
            for _, cells in table.rows:
                if cells[at_active] == "0" and cells[at_time] > dates.get(cells[at_id], ""):
                    dates[cells[at_id]] = cells[at_time]
        return dates

    def concepts(self) -> Iterator[Record]:
        dates = [date for path in self.files["Concept"] for date in re.findall(r"_(\d{8})\.", path.name)]
        yield Source(SOURCE, max(dates, default=""), "SNOMED CT")
        for _, _, (concept_id,) in self.active("Concept", ["id"]):
            yield Concept(concept_id, SOURCE)

    def preferred(self) -> dict[str, int]:
        known = {refset: rank for rank, refset in reversed(list(enumerate(self.refset_order)))}

        def order(refset: str) -> tuple[int, int, str]:
            # Those that nobody ranked stand behind, by number, which is not the order of their letters.
            return known.get(refset, len(known)), len(refset), refset

        best: dict[str, str] = {}
        columns = ["refsetId", "referencedComponentId", "acceptabilityId"]
        for _, _, (refset, description, acceptability) in self.active("Language", columns):
            self.refsets.add(refset)
            if acceptability == _PREFERRED:
                # Interned, so that millions of terms share the few ids.
                best[description] = min(sys.intern(refset), best.get(description, refset), key=order)
        ranks = {refset: rank for rank, refset in enumerate(sorted(set(best.values()), key=order))}
        return {description: ranks[refset] for description, refset in best.items()}

    def descriptions(self, kind: str) -> Iterator[Record]:
        preferred = self.preferred() if kind == "Description" else {}
        columns = ["id", "conceptId", "languageCode", "typeId", "term"]
        for lines, line, (description, concept_id, code, type_id, term) in self.active(kind, columns):
            tag = language_tag(code)
            if tag is None:
                lines.bad("unknown language", line, repr(code)[:40])
                continue
            if concept_id in self.inactive:
                self.skipped[f"{kind} of an inactive concept"] += 1
                continue
            fsn = type_id == _FSN
            if fsn and tag.partition("-")[0] == "en":
                found = _TAG.search(term)
                if found:
                    yield SemanticType(concept_id, found[1], "", SOURCE)
                    if found[1] in _NAMING:
                        self.names[concept_id] = term[: found.start()].strip()
            definition = type_id == _DEFINITION
            if not wanted(tag, self.languages):
                self.skipped["definition in another language" if definition else "name in another language"] += 1
            elif definition:
                yield Definition(concept_id, term, tag, SOURCE)
            elif fsn:
                # Never the preferred one, also where a language has no other flagged name.
                yield RankedName(concept_id, term, tag, FSN, SOURCE, False, MAX_RANK)
            else:
                rank = preferred.get(description)
                yield RankedName(concept_id, term, tag, "synonym", SOURCE, rank is not None, rank or 0)

    def relations(self) -> Iterator[Record]:
        columns = ["sourceId", "destinationId", "typeId", "characteristicTypeId"]
        for _, _, (head, tail, type_id, characteristic) in self.active("Relationship", columns):
            if characteristic != _INFERRED:
                self.skipped["relationship that is not inferred"] += 1
            elif head in self.inactive or tail in self.inactive:
                self.skipped["relationship of an inactive concept"] += 1
            else:
                kind = "isa" if type_id == _IS_A else self.names.get(type_id, type_id).lower()
                yield Relation(head, kind, tail, SOURCE)

    def maps(self) -> Iterator[Record]:
        for kind, label in _MAPS.items():
            columns = ["refsetId", "referencedComponentId", "mapTarget"]
            for _, _, (refset, concept_id, target) in self.active(kind, columns):
                if not target.strip():
                    self.skipped["map without a target"] += 1
                elif concept_id in self.inactive:
                    self.skipped["map of an inactive concept"] += 1
                else:
                    system = _SYSTEMS.get(refset) or self.names.get(refset, refset)
                    yield Mapping(concept_id, system, target.strip(), label, SOURCE)

    def withdrawn(self) -> Iterator[Record]:
        """Retired concepts; a refset may associate descriptions as well, or concepts that are not retired."""
        columns = ("refsetId", "referencedComponentId", "targetComponentId")
        told: set[str] = set()
        for lines, line, (refset, concept_id, target) in self.active(_ASSOCIATION, columns):
            if refset not in _BY_REFSET or concept_id not in self.inactive:
                self.skipped["association that is of no inactive concept"] += 1
            elif not target:
                lines.bad("no concept that succeeds it", line)
            else:
                told.add(concept_id)
                yield Retired(concept_id, _BY_REFSET[refset], target, SOURCE)
        for concept_id in sorted(self.inactive):
            if concept_id not in told:
                yield Retired(concept_id, "deleted", "", SOURCE)


def _open(path: Path, problems: Problems) -> Table:
    return open_table(LineFile(path, problems, ended=True), separator="\t", comments="#")


def _package(folder: Path, files: dict[str, list[Path]], refsets: set[str]) -> Iterator[str]:
    """What the package information below a folder says that is not so, or beside it where it is the Snapshot."""
    beside = folder.parent.iterdir() if folder.name.lower() == "snapshot" else ()
    for path in sorted(found for found in (*folder.rglob("*.json"), *beside) if _PACKAGE.fullmatch(found.name)):
        try:
            said = parse_json(LineFile(path, Problems()).text())
        except (InputError, ValueError):
            said = None
        if not isinstance(said, dict):
            yield f"{path}: cannot be read, nothing is checked against it"
            continue
        date, listed = str(said.get("effectiveTime", "")).replace("-", "")[:8], said.get("languageRefsets")
        dates = {found for one in files["Concept"] for found in re.findall(r"_(\d{8})\.", one.name)}
        if date and date not in dates:
            yield f"{path}: is of {date[:8]}, the Concept files are of {', '.join(sorted(dates)) or 'no date'}"
        for one in listed if isinstance(listed, list) else []:
            refset = str(one.get("id", "")) if isinstance(one, dict) else ""
            if refset and refset not in refsets:
                yield f"{path}: lists the language refset {refset[:40]}, of which there is no active row"


def _find(folders: Sequence[str | PathLike[str]]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {kind: [] for kind in _PATTERNS}
    for folder in folders:
        top = existing_folder(folder, "name the folder of a SNOMED CT release")
        below = sorted(path for path in top.rglob("*") if path.is_file())
        found = [(kind, path) for path in below for kind in _PATTERNS if _PATTERNS[kind].fullmatch(path.name)]
        for kind, path in found:
            if path not in files[kind]:
                files[kind].append(path)
        if not found:
            raise nothing_found(
                folder,
                "sct2_Concept_*Snapshot*.txt, sct2_Description_*Snapshot*.txt and the like",
                (path.name for path in below),
                "name the Snapshot folder of a SNOMED CT release, or the one above it",
            )
    for kind in ("Concept", "Description"):
        if not files[kind]:
            raise nothing_found(
                folders[0],
                f"sct2_{kind}_*Snapshot*.txt",
                (path.name for paths in files.values() for path in paths),
                "add the folder of the international edition, or unpack the release again",
            )
    return files


FORMAT = Format(
    "rf2",
    read_rf2,
    "--snomed",
    "Folder of a SNOMED CT release (RF2 snapshot); further ones are read as its extensions.",
    20,
    "extensions",
    folder=True,
)
