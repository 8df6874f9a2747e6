"""``UsagiWriter``: the save file of Usagi, with what medlink says of each code in columns of its own."""

from __future__ import annotations

import csv
from typing import TextIO

from medlink.mapping.codes import CodeMapping, Target
from medlink.mapping.reading import ADDED, OWN, USAGI
from medlink.mapping.writers.protocol import Context, as_text

_SOURCE = 4  # columns of the code itself, before those that a list added
_NOBODY = Target("", "")
BETWEEN = " | "
"""What parts candidates in a cell."""


class UsagiWriter:
    """A row for each target, one row for a code without any."""

    def __init__(self, file: TextIO, context: Context) -> None:
        self._context = context
        self._table = csv.writer(file, lineterminator="\n")
        own = ["status", "evidence", "candidates", *(["change"] if context.carried else [])]
        titles = ["unit", "language", *context.added, *(f"{OWN}{title}" for title in own)]
        self._table.writerow([*USAGI[:_SOURCE], *(as_text(f"{ADDED}{title}") for title in titles), *USAGI[_SOURCE:]])

    def write(self, one: CodeMapping) -> None:
        """The rows of a code."""
        source, written = one.source, self._context.targets.written
        added = dict(source.added)
        ranked = BETWEEN.join(f"{written(c.concept_id)} {c.preferred_name} ({c.score:.2f})" for c in one.candidates)
        own = [one.link if one.candidates or not one.decided else "", one.evidence, ranked]
        first = [
            as_text(source.code),
            as_text(source.name),
            str(-1 if source.frequency is None else source.frequency),
            ";".join(source.assigned),
            *map(as_text, (source.unit, source.language)),
            *(as_text(added.get(title, "")) for title in self._context.added),
            *map(as_text, own),
            *([as_text(one.change)] if self._context.carried else []),
            f"{one.score:g}",
            one.status,
            one.equivalence,
            as_text(one.set_by),
            str(one.set_on),
        ]
        for target in one.targets or (_NOBODY,):
            self._table.writerow(
                [
                    *first,
                    as_text(written(target.concept_id)),
                    as_text(target.name),
                    as_text(target.domain),
                    target.kind,
                    as_text(one.comment),
                    as_text(target.created_by),
                    str(target.created_on),
                    as_text(one.reviewer),
                ]
            )

    def close(self) -> None:
        """Nothing is left to say."""
