"""``JsonlWriter``: one JSON object a line for each code, as the page of reviews reads it."""

from __future__ import annotations

import json
from typing import TextIO

from medlink.files.escapes import visible
from medlink.mapping.codes import CodeMapping
from medlink.mapping.writers.protocol import Context
from medlink.records import LINKED


class JsonlWriter:
    """Code, description, target and candidates, then what Usagi's file says of them."""

    def __init__(self, file: TextIO, context: Context) -> None:
        self._file, self._language = file, context.options.language

    def write(self, one: CodeMapping) -> None:
        """The line of a code."""
        source, target = one.source, one.target
        shown = next((c for c in one.candidates if target is not None and c.concept_id == target.concept_id), None)
        line = {
            "kind": "code",
            "id": source.code,
            "text": source.name,
            "language": source.language or self._language or "",
            "frequency": source.frequency,
            "concept_id": target.concept_id if target else None,
            "preferred_name": shown.preferred_name if shown else target.name if target else None,
            "score": one.score,
            "status": LINKED if target and one.decided else one.link,
            "candidates": [candidate.to_dict() for candidate in one.candidates],
            "unit": source.unit,
            "targets": [{"concept_id": t.concept_id, "name": t.name, "kind": t.kind} for t in one.targets],
            "mapping_status": one.status,
            "equivalence": one.equivalence,
            "evidence": one.evidence,
            "change": one.change,
            "comment": one.comment,
            "added": dict(source.added),
        }
        self._file.write(visible(json.dumps(line, ensure_ascii=False)) + "\n")

    def close(self) -> None:
        """Nothing is left to say."""
