"""``JsonLinesWriter``: one JSON object a line for each mention."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from medlink.files.escapes import visible
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention
from medlink.notes.writers.rows import whole
from medlink.notes.writers.text import TextWriter


class JsonLinesWriter(TextWriter):
    """Note, offsets, language, concept, score, status, attributes, value, candidates, and what the link depends on."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """Lines of one note."""
        for one in mentions:
            yield visible(json.dumps(whole(note, language, one, self.bundle, self.versions), ensure_ascii=False))
