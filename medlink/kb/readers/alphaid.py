"""Reader of the German terms of ICD-10-GM: the Alphabet, Alpha-ID and Alpha-ID-SE of BfArM.

A code of ICD-10-GM is a class: the terms that are coded with it are siblings, often no synonyms (I21.9 is the code of a
heart attack and of a heart rupture). So a term is a concept of its own, below the concept of its code (``isa``), and
has its code as a mapping of type ``broad``. A code with ``!`` that stands beside another one says something further of
the case, such as its germ: it is a mapping of type ``related``. ORPHA codes of Alpha-ID-SE are exact: terms with one
are names of that disease, ``Orphanet:173``, which is also its id in ORDO.

Alpha-ID has the columns valid, Alpha-ID, primary code, star code, additional code, second primary code, in Alpha-ID-SE
the ORPHA code, and text, parted by ``|``. The older Alphabet has the columns kind, number, printed or not, primary,
star and additional code and text, parted by ``;``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Rows, read_rows
from medlink.kb.readers.bfarm import code_of, open_bfarm
from medlink.kb.readers.common import Format, is_id, stem
from medlink.kb.systems import named
from medlink.records import Concept, Mapping, Name, Record, Relation, Source

_ALPHA, _ICD, _ORPHA = named("Alpha-ID"), named("ICD-10-GM"), named("Orphanet")
_KINDS = ("0", "1", "2", "3", "4", "5")  # which codes a row of the Alphabet has; 0 has none
_LAYOUTS = (("|", 7), ("|", 8), (";", 7), (";", 8))


def read_alphaid(
    path: str | PathLike[str], *, source: str | None = None, version: str = "", problems: Problems | None = None
) -> Iterator[Record]:
    """Read the Alphabet, Alpha-ID or Alpha-ID-SE.

    Terms that are no longer valid, and references to other terms (*Achsel - s. Achselhöhle*), which have no code, are
    left out and counted. Older files are ISO-8859-1, which is found out. Memory grows with the ORPHA codes.

    Without ``source`` it is named ``Alpha-ID``, and the Alphabet ``Alphabet``.
    """
    problems = problems or Problems()
    lines = open_bfarm(path, problems)
    alphabet, rows = _open(lines)
    name = source or ("Alphabet" if alphabet else _ALPHA.name)
    yield Source(name, version, stem(path))
    announced = set[str]()
    for line, written in rows:
        problems.at = lines.path, line
        term = (_of_alphabet if alphabet else _of_alpha_id)([cell.strip() for cell in written])
        if term is None:
            lines.bad("no term with a number and codes", line)
        elif not term.valid:
            problems.skipped["term that is no longer valid"] += 1
        elif not term.codes and not term.orpha:
            problems.skipped["reference to another term"] += 1
        else:
            if not term.orpha or term.concept_id not in announced:
                announced.update([term.concept_id] if term.orpha else [])
                yield Concept(term.concept_id, name)
            yield from term.records(name)


@dataclass(frozen=True, slots=True)
class _Term:
    """A row: the codes are those of the classes that it falls under, ``further`` those beside them."""

    concept_id: str
    alpha_id: str
    text: str
    codes: tuple[str, ...]
    further: tuple[str, ...]
    orpha: str = ""
    valid: bool = True

    def records(self, source: str) -> Iterator[Record]:
        """Name, mappings and classes."""
        kind = "exact" if self.orpha else "preferred"
        yield Name(self.concept_id, self.text, "de", kind, source, not self.orpha)
        yield from (Mapping(self.concept_id, _ICD.name, code, "broad", source) for code in self.codes)
        yield from (Mapping(self.concept_id, _ICD.name, code, "related", source) for code in self.further)
        if self.orpha:
            yield Mapping(self.concept_id, _ORPHA.name, self.orpha, "exact", source)
        if self.alpha_id:
            yield Mapping(self.concept_id, _ALPHA.name, self.alpha_id, "code", source)
        yield from (Relation(self.concept_id, "isa", _ICD.concept_id(code), source) for code in self.codes)


def _open(lines: LineFile) -> tuple[bool, Rows]:
    """Whether a file is the Alphabet, and its rows."""
    numbered = iter(lines)
    number, first = next(numbered, (1, ""))
    separator = "|" if "|" in first else ";"
    columns = first.count(separator) + 1
    if (separator, columns) not in _LAYOUTS:
        message = f"looked for 7 or 8 columns, parted by | or by semicolons; found {columns}"
        remedy = "give the EDV file of Alpha-ID, Alpha-ID-SE or the Alphabet of ICD-10-GM"
        raise InputError(message, path=lines.path, line=1, remedy=remedy)

    def texts() -> Iterator[tuple[int, str]]:
        """All lines."""
        yield number, first
        yield from numbered

    return separator == ";", read_rows(lines, columns, separator, numbered=texts())


def _of_alphabet(cells: Sequence[str]) -> _Term | None:
    """The term of a row of the Alphabet, which has numbers of its own; ``None`` where it cannot be used."""
    kind, number, _, primary, star, additional, text = cells[:7]
    codes, further = _codes((primary, star), additional)
    usable = kind in _KINDS and is_id(number) and text and all(map(is_id, (*codes, *further)))
    return _Term(f"ALPHABET:{number}", "", text, codes, further) if usable else None


def _of_alpha_id(cells: Sequence[str]) -> _Term | None:
    """The term of a row of Alpha-ID; ``None`` where it cannot be used."""
    valid, number, primary, star, additional, second, *orpha, text = cells
    codes, further = _codes((primary, star, second), additional)
    known = orpha[0] if orpha else ""
    if valid not in ("0", "1") or not text or not all(map(is_id, (number, known or "-", *codes, *further))):
        return None
    concept_id = _ORPHA.concept_id(known) if known else _ALPHA.concept_id(number)
    return _Term(concept_id, number, text, codes, further, known, valid == "1")


def _codes(classes: Sequence[str], additional: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The codes of classes, and the additional one beside them; alone it is that of a class."""
    codes = tuple(code_of(code) for code in classes if code)
    further = (code_of(additional),) if additional else ()
    return (codes, further) if codes else (further, ())


FORMAT = Format("alphaid", read_alphaid, "--alphaid", "German terms of ICD-10-GM: Alpha-ID, Alpha-ID-SE, Alphabet.", 45)
