"""Detection of the format of files and folders by file names and first lines.

The rules of all formats are here, not in the readers, since they must exclude each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from medlink.errors import InputError, MissingLibraryError
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, existing_file
from medlink.files.tables import SEPARATOR_LINE
from medlink.files.workbooks import is_workbook
from medlink.kb.readers import formats
from medlink.kb.readers.claml import open_claml
from medlink.kb.readers.common import missing_files_error
from medlink.kb.readers.descriptions import builtin_descriptions

_MAX_BYTES = 1 << 22  # of a JSON file, whose identifying key may come late
_RESOURCE = re.compile(r'"resourceType"\s*:\s*"(?:CodeSystem|ValueSet|ConceptMap|Bundle)"')
_SCISPACY = re.compile(r'\{.*"canonical_name"\s*:')
_OBO = re.compile(r"(?m)^(?:format-version:|\[Term\]\s*$)")
_OWL = re.compile(r"<rdf:RDF|<Ontology|@prefix owl:|^Prefix\(")
_REMEDY = "name its format, such as table=..., one of those of build_kb()"
# format of a folder, by the name of its main file
_MAIN_FILES = {
    "rrf": re.compile(r"MRCONSO\.RRF(\.gz)?"),
    "rf2": re.compile(r"x?sct2_Concept_\w*Snapshot[-_.].*\.txt(\.gz)?", re.IGNORECASE),
    "omop": re.compile(r"CONCEPT\.csv(\.gz)?", re.IGNORECASE),
    **{description.name: description.main_file() for description in builtin_descriptions() if description.in_folder},
}


@dataclass(frozen=True, slots=True)
class DetectedInput:
    """An input and its format, one of :func:`medlink.kb.readers.formats`."""

    format: str
    path: Path


def detect_formats(path: StrPath) -> tuple[list[DetectedInput], list[Path]]:
    """Detect the inputs at a path; also returns the files of a folder without a unique format.

    A folder may hold releases and single files. The files of a release are one input; a single file of a release also
    stands for its folder. Hidden files are ignored. Raises :class:`InputError` for a file without a unique format, and
    for a folder without any known file.
    """
    top = Path(path)
    if not top.is_dir():
        file = existing_file(top)
        releases = [kind for kind, pattern in _MAIN_FILES.items() if pattern.fullmatch(file.name)]
        return [DetectedInput(releases[0], file.parent) if releases else DetectedInput(_format_of(file, top), top)], []
    files = sorted(file for file in top.rglob("*") if file.is_file())
    below = [file for file in files if not any(part.startswith(".") for part in file.relative_to(top).parts)]
    detected: dict[tuple[str, Path], None] = {}
    for file in below:
        for kind, pattern in _MAIN_FILES.items():
            if pattern.fullmatch(file.name):
                # all SNOMED CT files below a folder are read as one release
                detected[kind, top if kind == "rf2" else file.parent] = None
    folders = {folder for kind, folder in detected if kind != "rf2"}
    has_release = bool(detected)
    unknown = []
    for file in below:
        if ("rf2", top) in detected and re.match(r"x?(sct2|der2)_", file.name):
            continue
        if has_release and is_workbook(file):
            unknown.append(file)  # documents of the release, slow to open
            continue
        try:
            detected[_format_of(file, file), file] = None
        except (InputError, MissingLibraryError):
            # a release also has files that are not read
            if file.parent not in folders:
                unknown.append(file)
    if not detected:
        names = (file.name for file in below)
        raise missing_files_error(path, "releases and files of terminologies", names, _REMEDY)
    return [DetectedInput(kind, location) for kind, location in detected], unknown


def _format_of(file: Path, named: Path) -> str:
    data = b""
    source, utf16 = open_claml(file, Problems(1.0))
    for block in source.iter_blocks():
        data += block
        # only JSON, whose keys have no order, needs more than the first block
        if len(data) >= _MAX_BYTES or not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            break
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = (line.rstrip("\r") for line in text.split("\n") if not line.startswith("#"))
    stated = SEPARATOR_LINE.fullmatch(first := next(lines, ""))
    first = next(lines, "") if stated else first
    parts = first.split(stated[1]) if stated else re.split("[\t,;]", first)
    cells = frozenset(cell.strip().strip('"').strip().lower() for cell in parts)
    is_object, is_resource = text.lstrip().startswith("{"), _RESOURCE.search(text) is not None
    fits = {
        "obo": _OBO.search(text) is not None and not is_object,
        "obograph": is_object and '"graphs"' in text and not is_resource,
        "fhir": is_object and is_resource,
        "scispacy": '"concept_id"' in first and _SCISPACY.match(first) is not None,
        "claml": "<ClaML" in text,
        **{form.name: form.fits(first, cells) for form in builtin_descriptions() if not form.in_folder},
    }
    fitting = [name for name in formats() if fits.get(name)]
    if utf16 and fitting != ["claml"]:
        next(LineFile(file, Problems(1.0)).iter_blocks())  # refuses UTF-16
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        options = " or ".join(formats()[name].option for name in fitting)
        raise InputError(f"may be of {len(fitting)} formats", path=named, remedy=f"use {options}")
    if _OWL.search(text):
        remedy = "convert it to OBO-graphs JSON, for example: robot convert -i FILE -o FILE.json"
        raise InputError("is OWL, which is not supported", path=named, remedy=remedy)
    known = ", ".join(form.option for form in formats().values())
    raise InputError(f"its beginning matches no known format; options are {known}", path=named, remedy=_REMEDY)
