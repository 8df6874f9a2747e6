"""XML of others, read element by element: nothing is expanded, nothing fetched, nothing held but one element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from medlink.errors import InputError
from medlink.files.streams import LONGEST_LINE, LineFile

DEEPEST = 100
"""Elements that may stand in each other."""


@dataclass(slots=True)
class Element:
    """An element: its name, attributes and the line it begins in; ``parts`` are texts and elements, in order."""

    tag: str
    attributes: dict[str, str]
    line: int
    parts: list[str | Element] = field(default_factory=list)

    def get(self, name: str) -> str:
        return self.attributes.get(name, "").strip()

    def children(self, tag: str) -> Iterator[Element]:
        return (part for part in self.parts if isinstance(part, Element) and part.tag == tag)


def read_elements(lines: LineFile, root: str, wanted: frozenset[str], encoding: str | None = None) -> Iterator[Element]:
    """The elements of some names right below the ``root`` of a file, one at a time, as they end.

    Memory grows with one element only. An ``encoding`` that is given counts, whatever the file declares.
    :class:`InputError` for a file that is no XML or is cut off, has another root, is nested more than ``DEEPEST`` deep,
    has an element of more than ``LONGEST_LINE`` bytes, or declares entities: they can unpack to any size, and reach for
    other files. The address of a document type is never opened.
    """
    reader = _Elements(lines, root, wanted, encoding)
    given = 0
    try:
        for block in lines.blocks():
            given += len(block)
            reader.parser.Parse(block)
            reader.weigh(given - max(reader.parser.CurrentByteIndex, 0))
            yield from reader.done
            reader.done.clear()
        reader.parser.Parse(b"", True)
        yield from reader.done
    except expat.ExpatError as error:
        message = f"is no XML, or is cut off: {expat.ErrorString(error.code)}"
        raise lines.refused(message, "fetch it again", error.lineno) from error
    except (LookupError, ValueError) as error:
        raise lines.refused("its encoding is not known", "give the file as UTF-8", 1) from error


class _Elements:
    def __init__(self, lines: LineFile, root: str, wanted: frozenset[str], encoding: str | None) -> None:
        self.lines, self.root, self.wanted = lines, root, wanted
        self.done: list[Element] = []
        self._open: list[Element] = []
        self._depth = self._weight = 0
        self.parser = expat.ParserCreate(encoding)
        self.parser.buffer_text = True
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self.parser.SkippedEntityHandler = self._entity

    def weigh(self, waiting: int = 0) -> None:
        if self._weight + waiting > LONGEST_LINE:
            raise self._refused(f"an element is longer than {LONGEST_LINE:,} bytes")

    def _refused(self, message: str, remedy: str = "fetch or export it again") -> InputError:
        return self.lines.refused(message, remedy, self.parser.CurrentLineNumber)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._refused(f"is nested more than {DEEPEST} deep")
        if self._depth == 1 and tag != self.root:
            raise self._refused(f"looked for {self.root}; found {tag[:40]}", f"give a file of {self.root}")
        if self._open or (self._depth == 2 and tag in self.wanted):
            # <a/> and b="" are the shortest
            self._weight += len(tag) + 3 + sum(len(key) + len(value) + 4 for key, value in attributes.items())
            self.weigh()
            element = Element(tag, attributes, self.parser.CurrentLineNumber)
            if self._open:
                self._open[-1].parts.append(element)
            self._open.append(element)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if self._open:
            element = self._open.pop()
            if not self._open:
                self.done.append(element)
                self._weight = 0

    def _text(self, text: str) -> None:
        if self._open:
            self._weight += len(text)
            self.weigh()
            self._open[-1].parts.append(text)

    def _entity(self, *_: object) -> None:
        raise self._refused("has entities of its own", "replace them by what they stand for")
