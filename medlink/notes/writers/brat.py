"""brat standoff: for each note ``NAME.txt`` with ``NAME.ann`` beside it (https://brat.nlplab.org/standoff.html).

``NAME`` is the number of the note in the run, and its id as far as a file can be named so. ``NAME.txt`` has each
character of the note, line ends as they are: offsets are those of the note. A mention that goes over a line end is
written in pieces, as brat demands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from medlink.notes.readers.protocol import Note
from medlink.notes.writers.folder import FolderWriter
from medlink.notes.writers.protocol import LinkedMention, OutputFormat
from medlink.notes.writers.rows import note_name, row

_TYPE = "Mention"
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

    def first(self) -> Iterator[tuple[str, bytes]]:
        """What brat is told of the annotations."""
        attributes = "".join(f"{name}\tArg:{_TYPE}, Value:{'|'.join(values)}\n" for name, values in _ATTRIBUTES.items())
        conf = f"[entities]\n{_TYPE}\n[relations]\n[events]\n[attributes]\n{attributes}"
        yield "annotation.conf", conf.encode()

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the files of one note."""
        self.written += 1
        # the end of a path says more than its beginning
        short = _NO_NAME.sub("_", note_name(note))[-_LONGEST:].removesuffix(".txt")
        name = f"{self.written:08}-{short}"
        # the limit of a file's name is in bytes
        while len(name.encode()) > 200:
            name = name[:-1]
        self.add(f"{name}.txt", note.text.encode())
        lines = [line for at, one in enumerate(mentions, 1) for line in self._lines(at, note, language, one)]
        self.add(f"{name}.ann", "".join(f"{line}\n" for line in lines).encode())

    def _lines(self, at: int, note: Note, language: str, mention: LinkedMention) -> Iterator[str]:
        """The lines of one mention, the ``at``-th of its note."""
        pieces = [
            (mention.start + one.start(), mention.start + one.end())
            for one in _PIECE.finditer(note.text[mention.start : mention.end])
        ]
        spans = ";".join(f"{start} {end}" for start, end in pieces)
        yield f"T{at}\t{_TYPE} {spans}\t{' '.join(note.text[start:end] for start, end in pieces)}"
        said = row(note, language, mention, self.bundle)
        for number, name in enumerate(_ATTRIBUTES):
            if said[name.lower()] is not None:
                yield f"A{(at - 1) * len(_ATTRIBUTES) + number + 1}\t{name} T{at} {said[name.lower()]}"
        if not mention.link.nil:
            best = mention.link.candidates[0]
            source = _BLANKS.sub("_", best.source.replace(":", "_")) or "medlink"
            concept = _BLANKS.sub("_", best.concept_id)
            yield f"N{at}\tReference T{at} {source}:{concept}\t{_BLANKS.sub(' ', best.preferred_name)}"
        yield f"#{at}\tMedlink T{at}\t{json.dumps(said, ensure_ascii=False)}"


FORMAT = OutputFormat((), lambda out, options: BratWriter(out))
