"""Reader of ClaML, the XML of classifications (EN 14463): ICD-10-GM, ICD-10, ICD-O-3, OPS.

What becomes of it:

* ``Class``: a concept, chapters and blocks too. A code is a class of what is coded with it.
* ``Rubric`` of kind ``preferred``: the preferred name. Where there is ``preferredLong`` as well, that is it, and the
  short title, which means something under its parent's title only, is left out.
* ``inclusion``: a name of type ``narrow``. What is included in a class falls under it, and is no synonym of it nor of
  what else is included. ``definition`` is a definition; rubrics of other kinds (``exclusion``, ``note``,
  ``coding-hint``, ``text``) are left out and counted by kind.
* ``SuperClass``: ``isa``. The semantic type is the title of the class at the top, the chapter.
* ``ModifiedBy``: codes that the file does not write out, such as ``E10.01`` from ``E10`` with ``.0`` and ``1``. Each is
  a concept below the one it is made from, named by both titles (``Diabetes mellitus, Typ 1: Mit Koma``).
"""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, existing_file
from medlink.files.xml import Element, read_elements
from medlink.kb.readers.common import Format, is_id, known_language
from medlink.kb.systems import System, named
from medlink.language.tags import language_tag
from medlink.records import Concept, Definition, Mapping, Name, Record, Relation, SemanticType, Source

_WANTED = frozenset({"Title", "Meta", "Modifier", "ModifierClass", "Class"})
_TITLES = ("preferredLong", "preferred")
_MOST_MADE = 10_000  # codes of as many modifiers that a class has: each more of these multiplies them
_NOT_AFTER = "excludeOnPrecedingModifier"
# (Exkl.: ...) and (siehe Liste unter ...), which a label has in its text; the codes in them are elements of their own
_EXCEPT = re.compile(r"\s*\((?:(?:Exkl|Excl|Inkl|Incl|siehe|see)\b[^()]*|\s*)\)")
_YEAR = re.compile(r"[\s_-]*(?:19|20)\d\d$")
_BLANKS = re.compile(r"\s+")


def read_claml(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    language: str = "",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a classification in ClaML.

    Entities and other files are never read. Memory grows with the codes and their titles.

    The name in its ``Title``, such as ``ICD-10-GM``, gives the ids their prefix (``ICD10GM:A00.9``), and the source its
    name where ``source`` does not; so with ``version``. ``language`` is that of labels that name none.
    """
    problems = problems or Problems()
    lines, encoding = _opened(path, problems)
    reader = _Reader(lines, known_language(language), problems.skipped)
    for element in read_elements(lines, "ClaML", _WANTED, encoding):
        problems.at = lines.path, element.line
        match element.tag:
            case "Title":
                reader.entitled(element, source, version)
            case "Meta" if element.get("name").lower() == "lang" and not language:
                reader.language = language_tag(element.get("value")) or reader.language
            case "ModifierClass":
                reader.count()
                reader.modifier(element)
            case "Class":
                reader.count()
                yield from reader.concept(element)
    if reader.system is None:
        remedy = "give a file of classes, such as ICD-10-GM or OPS in ClaML"
        raise InputError("looked for a Title and classes; found none", path=lines.path, remedy=remedy)
    problems.at = None
    yield from reader.finish()
    problems.judge(lines.path, lines.rows)


def _opened(path: str | PathLike[str], problems: Problems) -> tuple[LineFile, str | None]:
    """A file, and its encoding where that is not what it declares: UTF-16 comes as UTF-8, as iconv writes it too."""
    file = existing_file(path)
    opened = gzip.open if file.suffix == ".gz" else open
    with suppress(OSError, EOFError, zlib.error), opened(file, "rb") as stream:
        begin = stream.read(200)
        if begin.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            return LineFile(path, problems, encoding="utf-16"), "utf-8"
        if b'encoding="utf-16"' in begin.lower().replace(b"'", b'"'):
            return LineFile(path, problems), "utf-8"
    return LineFile(path, problems), None


@dataclass(frozen=True, slots=True)
class _Modifier:
    code: str
    title: str
    not_after: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Modified:
    """A class, and the modifiers that are put behind it, in order, each with the codes that are valid, if not all."""

    code: str
    title: str
    language: str
    line: int
    by: tuple[tuple[str, frozenset[str] | None], ...]


@dataclass(slots=True)
class _Reader:
    lines: LineFile
    language: str
    skipped: Counter[str]
    system: System | None = None
    announced: bool = False
    source: Source = field(default_factory=lambda: Source(""))
    modifiers: dict[str, list[_Modifier]] = field(default_factory=dict)
    modified: list[_Modified] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)

    def count(self) -> None:
        self.lines.rows += 1
        self.lines.problems.rows += 1

    def entitled(self, element: Element, source: str | None, version: str | None) -> None:
        name = _YEAR.sub("", element.get("name")) or "ClaML"
        self.system = named(name)
        said = element.get("version") or element.get("date")
        self.source = Source(source or self.system.name, said if version is None else version, _text(element) or name)

    def modifier(self, element: Element) -> None:
        code, title = element.get("code"), next((text for _, text in self.labels(element, _TITLES)), "")
        if not is_id(code) or not title:
            self.lines.bad("modifier without a code or a title", element.line)
            return
        rules = (meta.get("value").split() for meta in element.children("Meta") if meta.get("name") == _NOT_AFTER)
        not_after = frozenset(rule[-1] for rule in rules if rule)
        self.modifiers.setdefault(element.get("modifier"), []).append(_Modifier(code, title, not_after))
        self.skipped["modifier, which is part of other codes"] += 1

    def labels(self, element: Element, kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for kind in kinds:
            for rubric in element.children("Rubric"):
                if rubric.get("kind") == kind:
                    for label in rubric.children("Label"):
                        tag = language_tag(label.get("xml:lang")) if label.get("xml:lang") else self.language
                        yield from ((tag or self.language, text) for text in _texts(label) if text)

    def concept(self, element: Element) -> Iterator[Record]:
        if self.system is None:
            self.lines.bad("class before the title", element.line)
            return
        code = element.get("code")
        titles: dict[str, str] = {}
        for tag, text in self.labels(element, _TITLES):
            titles.setdefault(tag, text)
        if not titles or not is_id(code):
            self.lines.bad("class without a code or a title", element.line)
            return
        if code in self.titles:
            self.skipped["class given more than once"] += 1
            return
        first_tag = next(iter(titles))
        self.titles[code] = titles[first_tag]
        yield from self.announce(code, titles)
        concept_id, name = self.system.concept_id(code), self.source.name
        for tag, text in self.labels(element, ("inclusion",)):
            yield Name(concept_id, text, tag, "narrow", name)
        for tag, text in self.labels(element, ("definition",)):
            yield Definition(concept_id, text, tag, name)
        for parent in element.children("SuperClass"):
            if parent.get("code"):
                self.above.setdefault(code, parent.get("code"))
                yield Relation(concept_id, "isa", self.system.concept_id(parent.get("code")), name)
        kinds = [rubric.get("kind") for rubric in element.children("Rubric")]
        for kind in kinds:
            if kind == "preferred" and "preferredLong" in kinds:
                self.skipped["short title beside a long one"] += 1
            elif kind not in (*_TITLES, "inclusion", "definition"):
                self.skipped[f"rubric of kind {kind[:40]}"] += 1
        by = tuple((one.get("code"), _valid(one)) for one in element.children("ModifiedBy"))
        if by:
            self.modified.append(_Modified(code, titles[first_tag], first_tag, element.line, by))

    def announce(self, code: str, titles: dict[str, str]) -> Iterator[Record]:
        assert self.system is not None
        concept_id, name = self.system.concept_id(code), self.source.name
        if not self.announced:
            self.announced = True
            yield self.source
        yield Concept(concept_id, name)
        for tag, text in titles.items():
            yield Name(concept_id, text, tag, "preferred", name, True)
        yield Mapping(concept_id, self.system.name, code, "code", name)

    def finish(self) -> Iterator[Record]:
        assert self.system is not None
        if not self.announced:
            yield self.source
        for one in self.modified:
            made = [(one.code, one.title, "")]
            for modifier, valid in one.by:
                found = (one for before in made for one in self._combined(before, modifier, valid))
                made = list(islice(found, _MOST_MADE + 1))
                if len(made) > _MOST_MADE:
                    self.lines.bad(f"class with more than {_MOST_MADE:,} modified codes", one.line)
                    break
                for code, title, below in made:
                    if code not in self.titles:
                        self.titles[code], self.above[code] = title, below
                        yield from self.announce(code, {one.language: title})
                        head, tail = self.system.concept_id(code), self.system.concept_id(below)
                        yield Relation(head, "isa", tail, self.source.name)
        for code in self.titles:
            top, seen = code, {code}
            while (parent := self.above.get(top)) in self.titles and parent not in seen:
                seen.add(parent)
                top = parent
            if top != code:
                yield SemanticType(self.system.concept_id(code), self.titles[top], "", self.source.name)

    def _combined(
        self, before: tuple[str, str, str], modifier: str, valid: frozenset[str] | None
    ) -> Iterator[tuple[str, str, str]]:
        code, title, _ = before
        for one in self.modifiers.get(modifier, ()):
            if (valid is None or one.code in valid) and not any(code.endswith(end) for end in one.not_after):
                yield code + one.code, f"{title}: {one.title}", code


def _valid(element: Element) -> frozenset[str] | None:
    """The codes of a modifier that are valid, ``None`` for all of them."""
    if element.get("all").lower() != "false":
        return None
    return frozenset(one.get("code") for one in element.children("ValidModifierClass"))


def _texts(label: Element) -> list[str]:
    fragments = list(label.children("Fragment"))
    if any(fragment.get("class") == "synlist" for fragment in fragments):
        return [_text(fragment) for fragment in fragments]
    return [_text(label)]


def _text(element: Element) -> str:
    return _EXCEPT.sub("", _BLANKS.sub(" ", "".join(_pieces(element)))).strip()


def _pieces(element: Element) -> Iterator[str]:
    for part in element.parts:
        if isinstance(part, str):
            yield part
        elif part.tag != "Reference":
            # paragraphs and fragments stand apart, a term stands in its sentence
            between = "" if part.tag == "Term" else " "
            yield between
            yield from _pieces(part)
            yield between


FORMAT = Format("claml", read_claml, "--claml", "Classification in ClaML, such as ICD-10-GM, ICD-O-3 or OPS.", 32)
