"""``JsonLinesWriter``: one JSON object a line for each mention."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from medlink.files.escapes import visible
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention, OutputFormat
from medlink.notes.writers.rows import coded, note_name
from medlink.notes.writers.text import TextWriter
from medlink.records import attributed, qualified, valued


class JsonLinesWriter(TextWriter):
    """Note, offsets, language, concept, score, status, attributes, value, candidates, and what the link depends on."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """Lines of one note."""
        for mention in mentions:
            link = mention.link
            best = None if link.nil else link.candidates[0]
            line = {
                "note": note_name(note),
                "start": mention.start,
                "end": mention.end,
                "text": link.mention,
                "language": language,
                "concept_id": link.concept_id,
                "preferred_name": best.preferred_name if best else None,
                "score": best.score if best else None,
                "nil": link.nil,
                "status": link.status,
                **qualified(mention.qualifiers),
                **attributed(mention.attributes),
                **valued(mention.value),
                "same_as": list(best.same_as) if best else [],
                "expanded": link.expanded,
                "codes": coded(mention),
                "candidates": [candidate.to_dict() for candidate in link.candidates],
                "versions": self.versions,
                "bundle": self.bundle,
            }
            yield visible(json.dumps(line, ensure_ascii=False))


FORMAT = OutputFormat((".jsonl", ".ndjson"), lambda out, options: JsonLinesWriter(out))
