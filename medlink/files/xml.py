"""Incremental XML reading: expands no entity, fetches nothing, and holds one element at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from medlink.errors import InputError
from medlink.files.streams import MAX_LINE_BYTES, LineFile

MAX_DEPTH = 100
"""Levels of nested elements."""


@dataclass(slots=True)
class Element:
    """An XML element; ``parts`` are its texts and child elements, in order."""

    tag: str
    attributes: dict[str, str]
    line: int
    parts: list[str | Element] = field(default_factory=list)

    def get(self, name: str) -> str:
        return self.attributes.get(name, "").strip()

    def children(self, tag: str) -> Iterator[Element]:
        return (part for part in self.parts if isinstance(part, Element) and part.tag == tag)


def iter_elements(lines: LineFile, root: str, wanted: frozenset[str], encoding: str | None = None) -> Iterator[Element]:
    """Yield the children of the ``root`` element whose names are ``wanted``.

    Memory grows with one element only. ``encoding`` overrides the declared encoding. Document types are never fetched.

    Raises:
        InputError: the file is not XML or is cut off, has another root, is nested more than ``MAX_DEPTH`` deep, has an
            element of more than ``MAX_LINE_BYTES`` bytes, or declares entities, which can expand to any size and read
            other files.
    """
    reader = _Elements(lines, root, wanted, encoding)
    given = 0
    try:
        for block in lines.iter_blocks():
            given += len(block)
            reader.parser.Parse(block)
            reader.check_size(given - max(reader.parser.CurrentByteIndex, 0))
            yield from reader.done
            reader.done.clear()
        reader.parser.Parse(b"", True)
        yield from reader.done
    except expat.ExpatError as error:
        message = f"is not XML, or is cut off: {expat.ErrorString(error.code)}"
        raise lines.error(message, "fetch it again", error.lineno) from error
    except (LookupError, ValueError) as error:
        raise lines.error("its encoding is not known", "give the file as UTF-8", 1) from error


class _Elements:
    def __init__(self, lines: LineFile, root: str, wanted: frozenset[str], encoding: str | None) -> None:
        self.lines, self.root, self.wanted = lines, root, wanted
        self.done: list[Element] = []
        self._open: list[Element] = []
        self._depth = self._size = 0
        self.parser = expat.ParserCreate(encoding)
        self.parser.buffer_text = True
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self.parser.SkippedEntityHandler = self._entity

    def check_size(self, unparsed: int = 0) -> None:
        if self._size + unparsed > MAX_LINE_BYTES:
            raise self._error(f"an element is longer than {MAX_LINE_BYTES:,} bytes")

    def _error(self, message: str, remedy: str = "fetch or export it again") -> InputError:
        return self.lines.error(message, remedy, self.parser.CurrentLineNumber)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"is nested more than {MAX_DEPTH} deep")
        if self._depth == 1 and tag != self.root:
            raise self._error(f"looked for {self.root}; found {tag[:40]}", f"give a file of {self.root}")
        if self._open or (self._depth == 2 and tag in self.wanted):
            # the shortest forms are <a/> and b=""
            self._size += len(tag) + 3 + sum(len(key) + len(value) + 4 for key, value in attributes.items())
            self.check_size()
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
                self._size = 0

    def _text(self, text: str) -> None:
        if self._open:
            self._size += len(text)
            self.check_size()
            self._open[-1].parts.append(text)

    def _entity(self, *_: object) -> None:
        raise self._error("has entities of its own", "replace them with their text")
