"""Which format a file or a folder is of, by the names of files and by how they begin.

All clues stand here and not in the readers: to tell formats apart they have to be seen together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from medlink.errors import InputError
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, existing_file
from medlink.kb.readers import formats
from medlink.kb.readers.common import nothing_found
from medlink.kb.readers.descriptions import Description, descriptions

_LOOKED_AT = 1 << 22  # bytes: a JSON file may say late what it is
_RESOURCE = re.compile(r'"resourceType"\s*:\s*"(?:CodeSystem|ValueSet|ConceptMap|Bundle)"')
_SCISPACY = re.compile(r'\{.*"canonical_name"\s*:')
_OBO = re.compile(r"(?m)^(?:format-version:|\[Term\]\s*$)")
_OWL = re.compile(r"<rdf:RDF|<Ontology|@prefix owl:|^Prefix\(")
# Of a folder: the file by whose name its format is known.
_MARKS = {
    "rrf": re.compile(r"MRCONSO\.RRF(\.gz)?"),
    "rf2": re.compile(r"x?sct2_Concept_\w*Snapshot[-_.].*\.txt(\.gz)?", re.IGNORECASE),
    "omop": re.compile(r"CONCEPT\.csv(\.gz)?", re.IGNORECASE),
    **{one.name: one.mark() for one in descriptions() if one.in_folder},
}


@dataclass(frozen=True, slots=True)
class _Beginning:
    text: str
    first: str
    cells: frozenset[str]

    @property
    def is_object(self) -> bool:
        return self.text.lstrip().startswith("{")


def _described_by(description: Description) -> Callable[[_Beginning], bool]:
    return lambda begin: description.fits(begin.first, begin.cells)


# Format -> whether a file is of it, by how it begins.
_CLUES: dict[str, Callable[[_Beginning], bool]] = {
    "obo": lambda begin: bool(_OBO.search(begin.text)) and not begin.is_object,
    "obograph": lambda begin: begin.is_object and '"graphs"' in begin.text and not _RESOURCE.search(begin.text),
    "fhir": lambda begin: begin.is_object and bool(_RESOURCE.search(begin.text)),
    "scispacy": lambda begin: '"concept_id"' in begin.first and bool(_SCISPACY.match(begin.first)),
    "claml": lambda begin: "<ClaML" in begin.text,
    **{one.name: _described_by(one) for one in descriptions() if not one.in_folder},
}


@dataclass(frozen=True, slots=True)
class Recognised:
    """An input, and the name of its format (:func:`medlink.kb.readers.formats`)."""

    format: str
    path: Path


def recognise(path: StrPath) -> tuple[list[Recognised], list[Path]]:
    """What a file or a folder holds, and the files of a folder that are of no format or may be of several.

    A folder may hold a release, several, or single files, also beside a release. Files of a release, and hidden ones,
    are not named one by one. A file of a release that is named alone stands for its folder.

    Raises:
        InputError: there is nothing at ``path``; a file is of no known format, or may be of several; a folder holds
            nothing that is known.
    """
    top = Path(path)
    if not top.is_dir():
        file = existing_file(top)
        marked = [kind for kind, mark in _MARKS.items() if mark.fullmatch(file.name)]
        return [Recognised(marked[0], file.parent) if marked else Recognised(_format_of(file, top), top)], []
    below = sorted(file for file in top.rglob("*") if file.is_file() and not _hidden(file, top))
    found: dict[tuple[str, Path], None] = {}
    for file in below:
        for kind, mark in _MARKS.items():
            if mark.fullmatch(file.name):
                # all of SNOMED CT below a folder is read as one
                found[kind, top if kind == "rf2" else file.parent] = None
    folders = {folder for kind, folder in found if kind != "rf2"}
    left = []
    for file in below:
        if ("rf2", top) in found and re.match(r"x?(sct2|der2)_", file.name):
            continue
        try:
            found[_format_of(file, file), file] = None
        except InputError:
            # a release has files that nobody reads
            if file.parent not in folders:
                left.append(file)
    if not found:
        names = (file.name for file in below)
        raise nothing_found(path, "releases and files of terminologies", names, _REMEDY)
    return [Recognised(kind, where) for kind, where in found], left


_REMEDY = "name its format, such as table=..., one of those of build_kb()"


def _hidden(file: Path, top: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(top).parts)


def _format_of(file: Path, shown: Path) -> str:
    begin = _beginning(file)
    fitting = [name for name in formats() if name in _CLUES and _CLUES[name](begin)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        options = " or ".join(formats()[name].option for name in fitting)
        raise InputError(f"may be of {len(fitting)} formats", path=shown, remedy=f"say {options}")
    if _OWL.search(begin.text):
        remedy = "convert it to OBO-graphs JSON, for example: robot convert -i FILE -o FILE.json"
        raise InputError("is OWL, which is not read", path=shown, remedy=remedy)
    known = ", ".join(form.option for form in formats().values())
    raise InputError(f"is of no format that its beginning tells; options are {known}", path=shown, remedy=_REMEDY)


def _beginning(file: Path) -> _Beginning:
    held = b""
    for block in LineFile(file, Problems(1.0)).blocks():
        held += block
        # only JSON, whose keys have no order, is looked at for long
        if len(held) >= _LOOKED_AT or not held.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            break
    text = held.decode("utf-8", "replace").removeprefix("\ufeff")
    first = text.split("\n", 1)[0].rstrip("\r")
    cells = (cell.strip().strip('"').strip().lower() for cell in re.split("[\t,;]", first))
    return _Beginning(text, first, frozenset(cells))
