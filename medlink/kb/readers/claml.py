"""Reader of ClaML, the XML of classifications (EN 14463): ICD-10-GM, ICD-10, ICD-O-3, OPS.

A term without a qualifier means the unspecified code (ICD-10, volume 2, section 3.1.4: NOS), so *Fibrosarkom o.n.A.*
also gives the name *Fibrosarkom* of type ``unqualified``. Inclusions are ``narrow``: more specific than their class.
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
from medlink.files.xml import Element, iter_elements
from medlink.kb.readers.common import Format, is_valid_id, resolve_language
from medlink.kb.systems import System, system_by_name
from medlink.language.tags import language_tag
from medlink.records import Concept, Definition, Mapping, Name, Record, Relation, SemanticType, Source

_WANTED = frozenset({"Title", "Meta", "Modifier", "ModifierClass", "Class"})
_TITLES = ("preferredLong", "preferred")
_MAX_COMBINATIONS = 10_000  # modified codes of one class
_NOT_AFTER = "excludeOnPrecedingModifier"
# (Exkl.: ...), (Hinw.: ... (...)) and (siehe Liste unter ...) in the text of a label
_PARENTHESES = re.compile(r"\s*\((?:(?:Exkl|Excl|Inkl|Incl|Hinw|siehe|see)\b(?:[^()]|\([^()]*\))*|\s*)\)")
# not otherwise specified, and obsolete
_MARKS = re.compile(r"(?<=\S)(?:,?\s+(?:o\.\s?n\.\s?A\.?|NOS|SAI|\[obs\.\]))+$")
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

    The name in ``Title``, such as ``ICD-10-GM``, determines the prefix of the ids (``ICD10GM:A00.9``), and by default
    the name and version of the source. ``language`` applies to labels without a language.
    """
    problems = problems or Problems()
    lines, encoding = open_claml(path, problems)
    reader = _Reader(lines, resolve_language(language), problems.skipped)
    for element in iter_elements(lines, "ClaML", _WANTED, encoding):
        problems.position = lines.path, element.line
        is_row = element.tag in ("ModifierClass", "Class")
        lines.rows += is_row
        problems.rows += is_row
        match element.tag:
            case "Title":
                reader.set_title(element, source, version)
            case "Meta" if element.get("name").lower() == "lang" and not language:
                reader.language = language_tag(element.get("value")) or reader.language
            case "ModifierClass":
                reader.add_modifier(element)
            case "Class":
                yield from reader.concept(element)
    if reader.system is None:
        remedy = "give a file of classes, such as ICD-10-GM or OPS in ClaML"
        raise InputError("looked for a Title and classes; found none", path=lines.path, remedy=remedy)
    problems.position = None
    yield from reader.finish()
    problems.check_bad_share(lines.path, lines.rows)


def open_claml(path: str | PathLike[str], problems: Problems) -> tuple[LineFile, str | None]:
    """Open a file; also returns the encoding if it is not the declared one: UTF-16 text is read as UTF-8."""
    file = existing_file(path)
    opener = gzip.open if file.suffix == ".gz" else open
    with suppress(OSError, EOFError, zlib.error), opener(file, "rb") as stream:
        start = stream.read(200)
        if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            return LineFile(path, problems, encoding="utf-16"), "utf-8"
        if b'encoding="utf-16"' in start.lower().replace(b"'", b'"'):
            return LineFile(path, problems), "utf-8"
    return LineFile(path, problems), None


@dataclass(slots=True)
class _Reader:
    lines: LineFile
    language: str
    skipped: Counter[str]
    system: System | None = None
    source_yielded: bool = False
    source: Source = field(default_factory=lambda: Source(""))
    # code, title, and the ends of codes that it does not follow
    modifiers: dict[str, list[tuple[str, str, tuple[str, ...]]]] = field(default_factory=dict)
    # code, title, language and line of a class, and the modifiers appended to its code, in order, each with its valid
    # codes, None for all
    modified: list[tuple[str, str, str, int, list[tuple[str, frozenset[str] | None]]]] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    def set_title(self, element: Element, source: str | None, version: str | None) -> None:
        name = _YEAR.sub("", element.get("name")) or "ClaML"
        self.system = system_by_name(name)
        stated = element.get("version") or element.get("date")
        self.source = Source(source or self.system.name, stated if version is None else version, _text(element) or name)

    def add_modifier(self, element: Element) -> None:
        code, title = element.get("code"), next((text for _, text in self.labels(element, _TITLES)), "")
        if not is_valid_id(code) or not title:
            self.lines.bad_row("modifier without a code or a title", element.line)
            return
        rules = (meta.get("value").split() for meta in element.children("Meta") if meta.get("name") == _NOT_AFTER)
        not_after = tuple(rule[-1] for rule in rules if rule)
        self.modifiers.setdefault(element.get("modifier"), []).append((code, title, not_after))
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
            self.lines.bad_row("class before the title", element.line)
            return
        code = self.system.usual_code(element.get("code"))
        titles: dict[str, str] = {}
        for tag, text in self.labels(element, _TITLES):
            titles.setdefault(tag, text)
        if not titles or not is_valid_id(code):
            self.lines.bad_row("class without a code or a title", element.line)
            return
        if code in self.titles:
            self.skipped["class repeated, kept once"] += 1
            return
        first_tag = next(iter(titles))
        self.titles[code] = titles[first_tag]
        yield from self.class_records(code, titles)
        concept_id, name = self.system.concept_id(code), self.source.name
        inclusions = [*self.labels(element, ("inclusion",))]
        for tag, text in inclusions:
            yield Name(concept_id, text, tag, "narrow", name)
        names = {*titles.items(), *inclusions} if element.get("kind") == "category" else set()
        plain = {(tag, _MARKS.sub("", text)) for tag, text in names}
        for tag, text in sorted(plain - names):
            yield Name(concept_id, text, tag, "unqualified", name)
        for tag, text in self.labels(element, ("definition",)):
            yield Definition(concept_id, text, tag, name)
        for parent in element.children("SuperClass"):
            if above := self.system.usual_code(parent.get("code")):
                self.parents.setdefault(code, above)
                yield Relation(concept_id, "isa", self.system.concept_id(above), name)
        kinds = [rubric.get("kind") for rubric in element.children("Rubric")]
        for kind in kinds:
            if kind == "preferred" and "preferredLong" in kinds:
                self.skipped["short title beside a long one"] += 1
            elif kind not in (*_TITLES, "inclusion", "definition"):
                self.skipped[f"rubric of kind {kind[:40]}"] += 1
        modifiers: list[tuple[str, frozenset[str] | None]] = []
        for modifier in element.children("ModifiedBy"):
            valid = frozenset(child.get("code") for child in modifier.children("ValidModifierClass"))
            modifiers.append((modifier.get("code"), valid if modifier.get("all").lower() == "false" else None))
        if modifiers:
            self.modified.append((code, titles[first_tag], first_tag, element.line, modifiers))

    def class_records(self, code: str, titles: dict[str, str]) -> Iterator[Record]:
        assert self.system is not None
        concept_id, name = self.system.concept_id(code), self.source.name
        if not self.source_yielded:
            self.source_yielded = True
            yield self.source
        yield Concept(concept_id, name)
        for tag, text in titles.items():
            yield Name(concept_id, text, tag, "preferred", name, True)
        yield Mapping(concept_id, self.system.name, code, "code", name)

    def finish(self) -> Iterator[Record]:
        assert self.system is not None
        if not self.source_yielded:
            yield self.source
        for first_code, first_title, tag, line, modifiers in self.modified:
            codes = [(first_code, first_title, "")]
            for modifier, valid in modifiers:
                combined = (
                    (shorter + end, f"{title}: {end_title}", shorter)
                    for shorter, title, _ in codes
                    for end, end_title, not_after in self.modifiers.get(modifier, ())
                    if (valid is None or end in valid) and not shorter.endswith(not_after)
                )
                codes = list(islice(combined, _MAX_COMBINATIONS + 1))
                if len(codes) > _MAX_COMBINATIONS:
                    self.lines.bad_row(f"class with more than {_MAX_COMBINATIONS:,} modified codes", line)
                    break
                for code, title, parent in codes:
                    if code not in self.titles:
                        self.titles[code], self.parents[code] = title, parent
                        yield from self.class_records(code, {tag: title})
                        head, tail = self.system.concept_id(code), self.system.concept_id(parent)
                        yield Relation(head, "isa", tail, self.source.name)
        for code in self.titles:
            top, seen = code, {code}
            while (above := self.parents.get(top)) in self.titles and above not in seen:
                seen.add(above)
                top = above
            if top != code:
                yield SemanticType(self.system.concept_id(code), self.titles[top], "", self.source.name)


def _texts(label: Element) -> list[str]:
    fragments = list(label.children("Fragment"))
    if any(fragment.get("class") == "synlist" for fragment in fragments):
        return [_text(fragment) for fragment in fragments]
    return [_text(label)]


def _text(element: Element) -> str:
    return _PARENTHESES.sub("", _BLANKS.sub(" ", "".join(_iter_texts(element)))).strip()


def _iter_texts(element: Element) -> Iterator[str]:
    for part in element.parts:
        if isinstance(part, str):
            yield part
        elif part.tag != "Reference":
            # paragraphs and fragments are separated, a term is part of its sentence
            between = "" if part.tag == "Term" else " "
            yield between
            yield from _iter_texts(part)
            yield between


FORMAT = Format("claml", read_claml, "--claml", "Classification in ClaML, such as ICD-10-GM, ICD-O-3 or OPS.", 32)
