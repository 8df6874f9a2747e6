"""What the readers share: how a format is announced, names with a rank, and what is deprecated."""

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
from medlink.language.tags import named_tag
from medlink.records import Concept, Mapping, Name, Record, Retired

MAX_RANK = (1 << 18) - 1
_DEPRECATED = re.compile(r"\s*obsolete[\s_:]", re.IGNORECASE)
_CULTURE = re.compile(r"\s*culture condition\s*:", re.IGNORECASE)
_DEPRECATED_TYPE = re.compile(r"obsolete|deprecated", re.IGNORECASE)
_NOT_SEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories of characters without a look of their own
_PLAIN_ID = re.compile(r"[!-{}~]+")
_ENDINGS = (".gz", ".tsv", ".csv", ".txt", ".jsonl")
# Types of synonyms that say more than their scope, by the last part of their id.
_SYNONYM_TYPES = {"layperson": "lay", "abbreviation": "abbreviation", "OMO:0003012": "abbreviation"}


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one kind, by column, in the order in which they were read: to make an object of each takes longer than
    to read and to store it.

    Attributes:
        kind: their class.
        columns: the fields of the class, in its order, each with the values of all records.
        path: the file that they were read from.
        lines: their lines in it.
    """

    kind: type[Record]
    columns: tuple[Sequence[Any], ...]
    path: Path
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def records(self) -> Iterator[Record]:
        """The records, one by one."""
        return map(self.kind, *self.columns)


def one_by_one(records: Iterable[Record | Batch]) -> Iterator[Record]:
    """The records of a stream that has batches among them."""
    for record in records:
        if isinstance(record, Batch):
            yield from record.records()
        else:
            yield record


@dataclass(frozen=True, slots=True)
class Format:
    """A foreign format that a knowledge base takes in.

    ``option`` and ``help`` are those of ``medlink kb build``, which reads formats in ascending ``order``: where inputs
    disagree the earlier one wins. ``further`` is the argument of the reader that takes all paths but the first, where
    they are read as one. ``folder`` says that it takes a folder, not a file. ``in_bulk`` is ``read`` for releases of
    millions of rows: it takes the same arguments, and has batches among its records.
    """

    name: str
    read: Callable[..., Iterator[Record]]
    option: str
    help: str
    order: int = 50
    further: str | None = None
    folder: bool = False
    in_bulk: Callable[..., Iterator[Record | Batch]] | None = None


@dataclass(frozen=True, slots=True)
class RankedName(Name):
    """A :class:`~medlink.records.Name` with ``rank``, lower is better, at most ``MAX_RANK``.

    Where several names of one concept and language call themselves preferred (two dialects of SNOMED CT,
    two sources of one CUI), the store keeps the flag of the one with the lowest rank.
    """

    rank: int = 0


def nothing_found(folder: StrPath, wanted: str, names: Iterable[str], remedy: str) -> InputError:
    """What to raise where a folder does not hold the files that were looked for."""
    found = sorted(set(names))
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return InputError(
        f"looked for {wanted}; found {', '.join(found[:10]) or 'no files'}{more}", path=folder, remedy=remedy
    )


def existing_folder(folder: StrPath, remedy: str) -> Path:
    """``folder`` if it is one; otherwise an :class:`InputError` is raised."""
    top = Path(folder)
    if not top.is_dir():
        raise InputError("is no folder" if top.exists() else "no such folder", path=folder, remedy=remedy)
    return top


def stem(path: str | PathLike[str]) -> str:
    """Name of a file without its folder and its endings; commas part the sources in options, and become ``_``."""
    name = str(path).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    while any(name.lower().endswith(ending) and len(name) > len(ending) for ending in _ENDINGS):
        name = name.rsplit(".", 1)[0]
    return name.replace(",", "_")


def is_id(text: str) -> bool:
    """Whether a text can be an id: it has no white space, no ``|``, which parts ids, and no invisible character."""
    # most ids are of ASCII
    return bool(_PLAIN_ID.fullmatch(text)) or (
        bool(text)
        and not any(mark == "|" or mark.isspace() or unicodedata.category(mark) in _NOT_SEEN for mark in text)
    )


def known_language(language: str) -> str:
    """The tag of a language that the user named, ``""`` for none; raises :class:`ConfigError` for what is no tag."""
    return named_tag(language) if language else ""


def deprecated(label: str, skipped: Counter[str], what: str = "term") -> bool:
    """Whether a label says that its term is no content any more, or never was: then it is counted.

    The OBO Foundry puts "obsolete " before the label of a deprecated term, and translations keep such terms without a
    mark of their own. The BRENDA Tissue Ontology lists conditions of cell cultures ("culture condition: ...") among
    its tissues.
    """
    reason = f"obsolete {what}" if _DEPRECATED.match(label) else "culture condition" if _CULTURE.match(label) else ""
    if reason:
        skipped[reason] += 1
    return bool(reason)


def synonym_type(scope: str, marked: str) -> str | None:
    """The type of a synonym from its scope and the id of its type; ``None`` where the type says that it is obsolete."""
    last = marked.rsplit("/", 1)[-1].rsplit("#", 1)[-1]
    if _DEPRECATED_TYPE.search(last):
        return None
    kind = scope.lower() or "related"
    return _SYNONYM_TYPES.get(last, kind) if kind == "exact" else kind


@dataclass(frozen=True, slots=True)
class Ontology:
    """What an ontology says of a term, as records of one source, whatever the syntax it was read from."""

    source: str
    language: str
    skipped: Counter[str]

    def term(self, concept_id: str, label: str) -> Iterator[Record]:
        """The concept and its preferred name."""
        yield Concept(concept_id, self.source)
        yield Name(concept_id, label, self.language, "preferred", self.source, True)

    def synonym(self, concept_id: str, text: str, scope: str, marked: str) -> Iterator[Record]:
        """A synonym, unless it is obsolete; ``scope`` and ``marked`` as for :func:`synonym_type`."""
        kind = synonym_type(scope, marked)
        if kind is None:
            self.skipped["obsolete synonym"] += 1
        elif not deprecated(text, self.skipped, "synonym"):
            yield Name(concept_id, text, self.language, kind, self.source)

    def mapping(self, concept_id: str, reference: str) -> Iterator[Record]:
        """A cross-reference such as ``UMLS:C0015967``; an address of the web is none."""
        system, _, code = (part.strip() for part in reference.partition(":"))
        if system and code and not code.startswith("//"):
            yield Mapping(concept_id, system, code, "xref", self.source)
        else:
            self.skipped["cross-reference without a system"] += 1

    def retired(self, concept_id: str, replaced_by: Iterable[str], consider: Iterable[str]) -> Iterator[Record]:
        """A term that is obsolete, and the ids of those that stand for it, or that a reader should look at."""
        found = [Retired(concept_id, "replaced_by", other, self.source) for other in replaced_by if other]
        found += [Retired(concept_id, "consider", other, self.source) for other in consider if other]
        yield from found or [Retired(concept_id, "deleted", "", self.source)]


def own_prefix(counts: Counter[str]) -> str:
    """The most frequent prefix; of two with the same count the first in the alphabet."""
    return min(counts, key=lambda prefix: (-counts[prefix], prefix), default="")


def parts_with_numbers(version: str) -> list[str]:
    """The parts of a version that is a path or an address which may be a date or a number."""
    return [part for part in version.split("/") if any(mark.isdigit() for mark in part)]
