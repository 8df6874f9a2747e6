"""``OmopWriter``: the table ``source_to_concept_map`` of OMOP's common data model 5.4."""

from __future__ import annotations

import csv
from typing import TextIO

from medlink.mapping.codes import APPROVED, MAPS_TO, CodeMapping
from medlink.mapping.reading import OMOP
from medlink.mapping.targets import NONE
from medlink.mapping.writers.protocol import Context, as_text

_FIRST, _LAST = "1970-01-01", "2099-12-31"


class OmopWriter:
    """A row for each concept that a code maps to.

    What is approved is written, and what is proposed where the options say so. The table has no place for the concepts
    of values and units, which are left out.
    """

    def __init__(self, file: TextIO, context: Context) -> None:
        self._context = context
        self._start = context.options.day.isoformat() if context.options.day else _FIRST
        self._table = csv.writer(file, lineterminator="\n")
        self._table.writerow(OMOP)

    def write(self, one: CodeMapping) -> None:
        """The rows of a code."""
        if one.status != APPROVED and (one.decided or not self._context.options.unreviewed):
            return
        targets = [target for target in one.targets if target.kind == MAPS_TO]
        vocabularies = self._context.targets.vocabularies(target.concept_id for target in targets)
        for target in targets:
            self._table.writerow(
                [
                    as_text(one.source.code),
                    NONE,
                    self._context.options.vocabulary,
                    as_text(one.source.name),
                    as_text(self._context.targets.written(target.concept_id)),
                    as_text(vocabularies.get(target.concept_id, "")),
                    self._start,
                    _LAST,
                    "",
                ]
            )

    def close(self) -> None:
        """Nothing is left to say."""
