"""Shared parts of the readers: format declarations, batches, ranked names, and ontology terms."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.folders import StrPath
from medlink.kb.systems import system_by_name, system_by_url
from medlink.language.tags import named_tag
from medlink.records import Concept, Mapping, Name, Record, Retired

MAX_RANK = (1 << 18) - 1
_DEPRECATED = re.compile(r"\s*obsolete[\s_:]", re.IGNORECASE)
_CULTURE = re.compile(r"\s*culture condition\s*:", re.IGNORECASE)
_DEPRECATED_TYPE = re.compile(r"obsolete|deprecated", re.IGNORECASE)
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")  # Unicode categories
_PLAIN_ID = re.compile(r"[!-{}~]+")
_SERVICE = re.compile(r"https?://(?:identifiers\.org|purl\.bioontology\.org/ontology)/(\w+)")
_ENDINGS = (".gz", ".tsv", ".csv", ".xlsx", ".txt", ".jsonl")
# types of exact synonyms, by the last part of the id of the OBO synonym type
_SYNONYM_TYPES = {"layperson": "lay", "abbreviation": "abbreviation", "OMO:0003012": "abbreviation"}


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one class ``kind`` as columns, because one object for each record would dominate the load time.

    ``columns`` has one sequence for each field of the class; ``lines`` are the line numbers in the file ``path``.
    """

    kind: type[Record]
    columns: tuple[Sequence[Any], ...]
    path: Path
    lines: Sequence[int]


def unbatch(records: Iterable[Record | Batch]) -> Iterator[Record]:
    """Yield the records of a stream that may contain batches."""
    for record in records:
        if isinstance(record, Batch):
            yield from map(record.kind, *record.columns)
        else:
            yield record


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be loaded into a knowledge base.

    Attributes:
        name: name of the format.
        read: the reader.
        option, help: option of ``medlink kb build`` and its help text.
        order: formats are loaded in ascending order; if inputs disagree, the earlier one wins.
        extra_paths: argument of the reader for all paths but the first, if several are read as one.
        folder: the path is a folder, not a file.
        read_batches: a faster ``read`` with the same arguments that also yields batches.
    """

    name: str
    read: Callable[..., Iterator[Record]]
    option: str
    help: str
    order: int = 50
    extra_paths: str | None = None
    folder: bool = False
    read_batches: Callable[..., Iterator[Record | Batch]] | None = None


@dataclass(frozen=True, slots=True)
class RankedName(Name):
    """A :class:`~medlink.records.Name` with a ``rank`` up to ``MAX_RANK``; lower is better.

    If several names of one concept and language are marked as preferred (two dialects of SNOMED CT, two sources of one
    CUI), only the lowest rank stays preferred.
    """

    rank: int = 0


def missing_files_error(folder: StrPath, wanted: str, names: Iterable[str], remedy: str) -> InputError:
    """Build the error for a folder without the expected files."""
    present = sorted(set(names))
    more = f" and {len(present) - 10} more" if len(present) > 10 else ""
    message = f"looked for {wanted}; found {', '.join(present[:10]) or 'no files'}{more}"
    return InputError(message, path=folder, remedy=remedy)


def existing_folder(folder: StrPath, remedy: str) -> Path:
    """Return ``folder`` as a path; raises :class:`InputError` if it is not a folder."""
    top = Path(folder)
    if not top.is_dir():
        raise InputError("is not a folder" if top.exists() else "no such folder", path=folder, remedy=remedy)
    return top


def base_name(path: str | PathLike[str]) -> str:
    """Return a file name without folder and extensions; commas, which separate sources in options, become ``_``."""
    name = str(path).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    while any(name.lower().endswith(ending) and len(name) > len(ending) for ending in _ENDINGS):
        name = name.rsplit(".", 1)[0]
    return name.replace(",", "_")


def is_valid_id(text: str) -> bool:
    """Return whether a text has no white space, no invisible character and no ``|``, which separates ids."""
    # most ids are ASCII
    return bool(_PLAIN_ID.fullmatch(text)) or (
        bool(text)
        and not any(mark == "|" or mark.isspace() or unicodedata.category(mark) in _INVISIBLE for mark in text)
    )


def resolve_language(language: str | None) -> str:
    """Return the tag of a language option, ``""`` for none; raises :class:`ConfigError` for an unknown language."""
    return named_tag(language) if language else ""


def is_deprecated(label: str, skipped: Counter[str], what: str = "term") -> bool:
    """Return whether a label marks its term as obsolete or as not a concept; count such terms in ``skipped``.

    The OBO Foundry prefixes labels of deprecated terms with "obsolete "; in translations, this prefix is the only mark.
    The BRENDA Tissue Ontology lists conditions of cell cultures ("culture condition: ...") as tissues.
    """
    reason = f"obsolete {what}" if _DEPRECATED.match(label) else "culture condition" if _CULTURE.match(label) else ""
    if reason:
        skipped[reason] += 1
    return bool(reason)


@dataclass(frozen=True, slots=True)
class Ontology:
    """Builds the records of ontology terms, for all syntaxes."""

    source: str
    language: str
    skipped: Counter[str]

    def term(self, concept_id: str, label: str) -> Iterator[Record]:
        """Yield the concept and its preferred name."""
        yield Concept(concept_id, self.source)
        yield Name(concept_id, label, self.language, "preferred", self.source, True)

    def synonym(self, concept_id: str, text: str, scope: str, type_id: str) -> Iterator[Record]:
        """Yield a synonym with its OBO scope and type id, unless it is obsolete."""
        last = type_id.rsplit("/", 1)[-1].rsplit("#", 1)[-1]
        if _DEPRECATED_TYPE.search(last):
            self.skipped["obsolete synonym"] += 1
        elif not is_deprecated(text, self.skipped, "synonym"):
            kind = scope.lower() or "related"
            kind = _SYNONYM_TYPES.get(last, kind) if kind == "exact" else kind
            yield Name(concept_id, text, self.language, kind, self.source)

    def mappings(self, concept_id: str, references: Iterable[str], exact: Iterable[str]) -> Iterator[Record]:
        """Yield cross-references such as ``UMLS:C0015967``, and the exact matches (``skos:exactMatch``) among them.

        A match may be the URL of a known system. Other URLs are skipped.
        """
        found: dict[tuple[str, str], Mapping] = {}
        for kind, listed in (("exact", exact), ("xref", references)):
            for reference in listed:
                system, _, code = (part.strip() for part in _compact_reference(reference).partition(":"))
                if system and code and not code.startswith("//"):
                    mapping = Mapping(concept_id, system, code, kind, self.source)
                    found.setdefault((system_by_name(system).name, code), mapping)
                else:
                    self.skipped["cross-reference without a system"] += 1
        yield from found.values()

    def retired(self, concept_id: str, replaced_by: Iterable[str], consider: Iterable[str]) -> Iterator[Record]:
        """Yield the retirement of a term with the ids of its replacements and of terms to consider."""
        found = [Retired(concept_id, "replaced_by", other, self.source) for other in replaced_by if other]
        found += [Retired(concept_id, "consider", other, self.source) for other in consider if other]
        yield from found or [Retired(concept_id, "deleted", "", self.source)]


def compact(url: str) -> str:
    """Return the CURIE of an ontology URL, and any other text unchanged."""
    if "://" not in url:
        return url
    tail = url.rsplit("/", 1)[-1].rsplit("#", 1)[-1]
    prefix, mark, local = tail.partition("_")
    return f"{prefix}:{local}" if mark and prefix and local and "#" not in url else tail or url


def _compact_reference(reference: str) -> str:
    """Return a reference as a CURIE if it is the URL of an ontology, a known system or an identifier service."""
    base, _, code = reference.rpartition("/")
    if "://" not in reference or not code:
        return reference
    if ":" in compact(reference):
        return compact(reference)
    if match := _SERVICE.fullmatch(base):
        return f"{match[1].upper()}:{code}"
    system = system_by_url(base)
    return f"{system.name}:{code}" if base in system.urls else reference


def most_frequent_prefix(counts: Counter[str]) -> str:
    """Return the most frequent prefix; ties go to the first in the alphabet."""
    return min(counts, key=lambda prefix: (-counts[prefix], prefix), default="")


def numeric_parts(version: str) -> list[str]:
    """Return the parts of a version URL that contain a digit, such as a date."""
    return [part for part in version.split("/") if any(mark.isdigit() for mark in part)]
