"""What the readers of annotated notes give."""

from __future__ import annotations

from dataclasses import dataclass

Piece = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is marked in a note.

    Attributes:
        pieces: its pieces by characters; none where the file has no text of the note.
        text: what it covers, as it stands in the note.
        concepts: ids as they are written, the likeliest first; none where it has no concept.
        rejected: whether a reader said that it is no mention.
        section: kind of the section that it stands in, where the file says it.
    """

    pieces: tuple[Piece, ...]
    text: str
    concepts: tuple[str, ...] = ()
    rejected: bool = False
    section: str = ""


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note with what is marked in it; ``text`` and ``language`` are ``None`` where the file does not have them."""

    note_id: str
    text: str | None
    language: str | None
    annotations: tuple[Annotation, ...]
