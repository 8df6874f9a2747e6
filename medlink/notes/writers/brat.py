"""brat standoff: for each note ``NAME.txt`` with ``NAME.ann`` beside it (https://brat.nlplab.org/standoff.html).

``NAME`` is the number of the note in the run, and its id as far as a file can be named so. ``NAME.txt`` has each
character of the note, line ends as they are: offsets are those of the note. A mention that goes over a line end is
written in pieces, as brat demands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from medlink.notes.readers.protocol import Note
from medlink.notes.writers.folder import FolderWriter
from medlink.notes.writers.protocol import LinkedMention
from medlink.notes.writers.rows import note_name, row

_ATTRIBUTES = {
    "Presence": ("present", "absent", "uncertain"),
    "Temporality": ("current", "historical", "hypothetical"),
    "Experiencer": ("patient", "family", "other"),
    "Status": ("linked", "ambiguous", "nil"),
}
_LONGEST = 80  # characters of an id in the name of a file
_PIECE = re.compile(r"[^\r\n]+")
_NO_NAME = re.compile(r"[^\w.-]+")
_BLANKS = re.compile(r"\s+")


class BratWriter(FolderWriter):
    """Two files a note, and ``annotation.conf``, with which brat shows the folder.

    A mention is a ``T``; its concept an ``N``, ``Reference`` to the source and the id of the concept; its status and
    qualifiers are ``A``; all of its row stands as JSON in a note, ``#``, of the type ``Medlink``.
    """

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """The id, the text and the annotations of one note, as JSON."""
        lines = [line for at, one in enumerate(mentions, 1) for line in self._lines(at, note, language, one)]
        yield json.dumps([note_name(note), note.text, "".join(f"{line}\n" for line in lines)], ensure_ascii=False)

    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        """What brat is told of the annotations, and two files a note."""
        attributes = "".join(f"{name}\tArg:Mention, Value:{'|'.join(values)}\n" for name, values in _ATTRIBUTES.items())
        yield "annotation.conf", f"[entities]\nMention\n[relations]\n[events]\n[attributes]\n{attributes}".encode()

        for number, (note_id, text, marked) in enumerate(lines, 1):
            # the end of a path says more than its beginning
            short = _NO_NAME.sub("_", note_id)[-_LONGEST:].removesuffix(".txt")
            # the limit of a file's name is in bytes
            name = f"{number:08}-{short}".encode()[:200].decode(errors="ignore")
            yield f"{name}.txt", text.encode()
            yield f"{name}.ann", marked.encode()

    def _lines(self, at: int, note: Note, language: str, mention: LinkedMention) -> Iterator[str]:
        """The lines of one mention, the ``at``-th of its note."""
        pieces = [one.span() for one in _PIECE.finditer(note.text, mention.start, mention.end)]
        spans = ";".join(f"{start} {end}" for start, end in pieces)
        yield f"T{at}\tMention {spans}\t{' '.join(note.text[start:end] for start, end in pieces)}"
        said = row(note, language, mention, self.bundle)
        for number, name in enumerate(_ATTRIBUTES, (at - 1) * len(_ATTRIBUTES) + 1):
            if said[name.lower()] is not None:
                yield f"A{number}\t{name} T{at} {said[name.lower()]}"
        if not mention.link.nil:
            best = mention.link.candidates[0]
            source = _BLANKS.sub("_", best.source.replace(":", "_")) or "medlink"
            concept = _BLANKS.sub("_", best.concept_id)
            yield f"N{at}\tReference T{at} {source}:{concept}\t{_BLANKS.sub(' ', best.preferred_name)}"
        yield f"#{at}\tMedlink T{at}\t{json.dumps(said, ensure_ascii=False)}"
