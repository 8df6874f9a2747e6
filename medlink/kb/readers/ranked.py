"""A name with its rank, for sources whose preferred name is decided across rows."""

from __future__ import annotations

from dataclasses import dataclass

from medlink.records import Name

MAX_RANK = (1 << 18) - 1


@dataclass(frozen=True, slots=True)
class RankedName(Name):
    """A :class:`~medlink.records.Name` with ``rank``, lower is better, at most ``MAX_RANK``.

    Where several names of one concept and language call themselves preferred (two dialects of SNOMED CT,
    two sources of one CUI), the store keeps the flag of the one with the lowest rank.
    """

    rank: int = 0
