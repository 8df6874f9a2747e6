"""Reader of LOINC: its main table and the linguistic variants, which have the same columns.

The columns are those of the LOINC table (LOINC Users' Guide, appendix A). The long common name is the preferred name,
``SHORTNAME``, ``DisplayName``, ``CONSUMER_NAME`` and ``LinguisticVariantDisplayName`` are further names. Component,
property, time, system, scale and method, parted by colons, are the fully specified name. ``CLASS`` is the semantic
type. ``RELATEDNAMES2`` is left out: it lists words of the parts of a name, which are no names of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike

from medlink.files.problems import Problems
from medlink.files.streams import existing_file
from medlink.files.tables import found_columns, open_table
from medlink.kb.readers.common import Format, is_id, known_language
from medlink.kb.systems import named
from medlink.language.tags import language_tag
from medlink.records import FSN, Concept, Mapping, Name, Record, SemanticType, Source

_LOINC = named("LOINC")
_PARTS = ("COMPONENT", "PROPERTY", "TIME_ASPCT", "SYSTEM", "SCALE_TYP", "METHOD_TYP")
_NAMES = {
    "LONG_COMMON_NAME": "preferred",
    "LinguisticVariantDisplayName": "synonym",
    "DisplayName": "synonym",
    "SHORTNAME": "abbreviation",
    "CONSUMER_NAME": "lay",
}
_VARIANT = re.compile(r"([a-z]{2})([A-Z]{2})\d+LinguisticVariant\.csv", re.IGNORECASE)


def read_loinc(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str = "",
    language: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read ``Loinc.csv`` or a linguistic variant such as ``deDE15LinguisticVariant.csv``.

    Where the long common name is empty, as in some variants, the first other name is preferred. Terms of status
    ``DEPRECATED`` are left out and counted. Memory does not grow with the file.

    Without ``source`` it is ``LOINC``; the table does not say its version. Without ``language`` it is that of the name
    of the file (``de-de``), English for any other name.
    """
    problems = problems or Problems()
    found = _VARIANT.fullmatch(existing_file(path).name.removesuffix(".gz"))
    variant = language_tag(f"{found[1].lower()}-{found[2].upper()}") if found else None
    tag = (variant or "en") if language is None else known_language(language)
    table = open_table(path, problems)
    if not table.has(["LOINC_NUM", *_PARTS]):
        message = f"looked for the columns LOINC_NUM, {', '.join(_PARTS)}; found {found_columns(table.first)}"
        raise table.error(message, "give Loinc.csv or a linguistic variant of LOINC")
    (number_at,), parts_at = table.places(["LOINC_NUM"]), table.places(_PARTS)
    names_at = [(table.places([column])[0], kind) for column, kind in _NAMES.items() if table.has([column])]
    (class_at,) = table.places(["CLASS"]) if table.has(["CLASS"]) else (None,)
    (status_at,) = table.places(["STATUS"]) if table.has(["STATUS"]) else (None,)
    name = source or _LOINC.name
    yield Source(name, version, "Logical Observation Identifiers Names and Codes")
    for line, cells in table.rows:
        problems.at = table.lines.path, line
        code = cells[number_at].strip()
        full = ":".join(cells[place].strip() for place in parts_at).rstrip(":")
        names = [(text, kind) for place, kind in names_at if (text := cells[place].strip())]
        if not is_id(code) or not (names or full):
            table.lines.bad("no LOINC number, or no name", line)
        elif status_at is not None and cells[status_at].strip() == "DEPRECATED":
            problems.skipped["deprecated term"] += 1
        else:
            concept_id = _LOINC.concept_id(code)
            yield Concept(concept_id, name)
            for text, kind in names:
                yield Name(concept_id, text, tag, kind, name, kind == "preferred")
            if full:
                yield Name(concept_id, full, tag, FSN, name)
            if class_at is not None and cells[class_at].strip():
                yield SemanticType(concept_id, cells[class_at].strip(), "", name)
            yield Mapping(concept_id, _LOINC.name, code, "code", name)


FORMAT = Format("loinc", read_loinc, "--loinc", "LOINC: Loinc.csv or a linguistic variant.", 37)
