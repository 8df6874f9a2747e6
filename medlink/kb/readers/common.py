"""What the readers share: how a format is announced, names with a rank, and what is deprecated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from medlink.errors import InputError
from medlink.files.folders import StrPath
from medlink.records import Name, Record

MAX_RANK = (1 << 18) - 1
_DEPRECATED = re.compile(r"\s*obsolete[\s_:]", re.IGNORECASE)
_CULTURE = re.compile(r"\s*culture condition\s*:", re.IGNORECASE)
_DEPRECATED_TYPE = re.compile(r"obsolete|deprecated", re.IGNORECASE)
# Types of synonyms that say more than their scope, by the last part of their id.
_SYNONYM_TYPES = {"layperson": "lay", "abbreviation": "abbreviation", "OMO:0003012": "abbreviation"}


@dataclass(frozen=True, slots=True)
class Format:
    """A foreign format that a knowledge base takes in.

    Attributes:
        name: what :class:`medlink.kb.Input` calls it.
        read: its reader, as :mod:`medlink.kb.readers` describes it.
        option: its option of ``medlink kb build``.
        help: what the option takes.
        order: the command line reads formats in ascending order; where inputs disagree the earlier one wins.
        further: the argument of ``read`` that takes all paths but the first, where they are read as one.
    """

    name: str
    read: Callable[..., Iterator[Record]]
    option: str
    help: str
    order: int = 50
    further: str | None = None


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
    """``folder`` if it is one.

    Raises:
        InputError: there is no such folder.
    """
    top = Path(folder)
    if not top.is_dir():
        raise InputError("is no folder" if top.exists() else "no such folder", path=folder, remedy=remedy)
    return top


def deprecated(label: str, skipped: Counter[str], what: str = "term") -> bool:
    """Whether a label says that its term is no content any more, or never was: then it is counted.

    The OBO Foundry puts "obsolete " before the label of a deprecated term, and translations keep such terms without a
    mark of their own. The BRENDA Tissue Ontology lists conditions of cell cultures ("culture condition: ...") among
    its tissues.

    >>> skipped = Counter()
    >>> [deprecated(label, skipped) for label in ("obsolete Clitoromegaly", "culture condition:acetate-grown", "cell")]
    [True, True, False]
    >>> sorted(skipped)
    ['culture condition', 'obsolete term']
    """
    reason = f"obsolete {what}" if _DEPRECATED.match(label) else "culture condition" if _CULTURE.match(label) else ""
    if reason:
        skipped[reason] += 1
    return bool(reason)


def synonym_type(scope: str, marked: str) -> str | None:
    """The type of a synonym from its scope and the id of its type; ``None`` where the type says that it is obsolete.

    >>> synonym_type("EXACT", "hp#layperson"), synonym_type("broad", "hp#layperson"), synonym_type("", "")
    ('lay', 'broad', 'related')
    """
    last = marked.rsplit("/", 1)[-1].rsplit("#", 1)[-1]
    if _DEPRECATED_TYPE.search(last):
        return None
    kind = scope.lower() or "related"
    return _SYNONYM_TYPES.get(last, kind) if kind == "exact" else kind
