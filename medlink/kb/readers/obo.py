"""Reader of OBO flat files, versions 1.2 and 1.4."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import Format, Ontology, is_deprecated, most_frequent_prefix, numeric_parts
from medlink.records import Definition, Record, Relation, Retired, SemanticType, Source

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(\w+)?\s*([^\s\[{]+)?')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": " ", "W": " ", "t": " "}


@dataclass(slots=True)
class _Stanza:
    kind: str
    line: int
    tags: list[tuple[str, str, int]] = field(default_factory=list)

    def values(self, tag: str) -> list[str]:
        return [value for name, value, _ in self.tags if name == tag]

    def value(self, tag: str) -> str:
        return next(iter(self.values(tag)), "")

    @property
    def obsolete(self) -> bool:
        return self.value("is_obsolete").startswith("true")


def read_obo(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    language: str = "en",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read an OBO file: the terms with the most frequent id prefix.

    The type of a synonym is its scope (``exact``, ``narrow``, ``broad``, ``related``), or ``lay`` or ``abbreviation``
    for an exact synonym of that type. A ``relationship`` is named by its ``Typedef``. Obsolete terms become retired
    concepts with their ``replaced_by`` and ``consider``; an ``alt_id`` is retired as the same as its term.

    The file is read twice, first for prefixes and relation names; memory does not grow with it. ``source`` defaults to
    the prefix, such as ``DOID``, and ``version`` defaults to the date or number in ``data-version``.
    """
    problems = problems or Problems()
    header, relations, prefixes = _scan(path)
    lines, prefix = LineFile(path, problems), most_frequent_prefix(prefixes)
    name = source or prefix
    if not prefixes:
        message = "looked for [Term] stanzas that are not obsolete; found none"
        raise InputError(message, path=lines.path, remedy="give an OBO file")
    if version is None:
        stated = header.value("data-version")
        version = next(iter(numeric_parts(stated)), stated)
    title = next((value for value in header.values("property_value") if "title " in value), "")
    # from the first quote on, since trying every quote takes quadratic time
    match = _QUOTED.match(title, title.find('"') if '"' in title else 0)
    yield Source(name, version, _text(match[1]) if match else name)
    namespace = header.value("default-namespace")
    ontology = Ontology(name, language, problems.skipped)
    for stanza in _stanzas(lines):
        if stanza.kind != "Term":
            if stanza.kind:
                problems.skipped["stanza that is not a term"] += 1
            continue
        concept_id, label = _plain(stanza.value("id")), _text(stanza.value("name"))
        if stanza.obsolete:
            problems.skipped["obsolete term"] += 1
            if concept_id.partition(":")[0] == prefix:
                yield from _retirement(ontology, concept_id, stanza)
        elif not concept_id or not label:
            lines.bad_row("term without id or name", stanza.line)
        elif concept_id.partition(":")[0] != prefix:
            problems.skipped["term of another ontology"] += 1
        elif not is_deprecated(label, problems.skipped):
            yield from ontology.term(concept_id, label)
            for tag, value, line in stanza.tags:
                problems.position = lines.path, line
                yield from _records(lines, ontology, relations, concept_id, tag, value, line)
            matches = (_plain(value).split() for value in stanza.values("property_value"))
            exact = [parts[1] for parts in matches if parts[:1] == ["skos:exactMatch"] and parts[1:]]
            references = map(_plain, stanza.values("xref"))
            usable = ("" if " " in reference.partition(":")[0] else reference for reference in references)
            yield from ontology.mappings(concept_id, usable, exact)
            if namespace and not stanza.values("namespace"):
                yield SemanticType(concept_id, namespace, "", name)
        else:
            yield from _retirement(ontology, concept_id, stanza)


def _scan(path: str | PathLike[str]) -> tuple[_Stanza, dict[str, str], Counter[str]]:
    prefixes: Counter[str] = Counter()
    relations: dict[str, str] = {}
    header = _Stanza("", 0)
    for stanza in _stanzas(LineFile(path, Problems(1.0))):
        if not stanza.kind:
            header = stanza
        elif stanza.kind == "Typedef" and stanza.value("name"):
            relations[_plain(stanza.value("id"))] = _text(stanza.value("name"))
        elif stanza.kind == "Term" and not stanza.obsolete:
            prefixes[_plain(stanza.value("id")).partition(":")[0]] += 1
    return header, relations, prefixes


def _stanzas(lines: LineFile) -> Iterator[_Stanza]:
    stanza = _Stanza("", 1)
    for number, raw in lines:
        line = raw.strip()
        if not line or line.startswith("!"):
            continue
        if line.startswith("[") and line.endswith("]"):
            yield stanza
            stanza = _Stanza(line[1:-1], number)
            continue
        tag, mark, value = line.partition(":")
        if not mark or not tag:
            lines.bad_row("line without a tag", number)
            continue
        stanza.tags.append((tag.strip(), value.strip(), number))
    yield stanza


def _records(
    lines: LineFile, ontology: Ontology, relations: dict[str, str], concept_id: str, tag: str, value: str, line: int
) -> Iterator[Record]:
    if tag in ("synonym", "def"):
        match = _QUOTED.match(value)
        text = _text(match[1]) if match else ""
        if match is None or not text:
            lines.bad_row("broken quoting" if match is None else "empty text", line, tag)
        elif tag == "def":
            yield Definition(concept_id, text, ontology.language, ontology.source)
        else:
            yield from ontology.synonym(concept_id, text, match[2] or "", match[3] or "")
    elif tag == "relationship":
        kind, _, tail = _plain(value).partition(" ")
        if tail.strip():
            yield Relation(concept_id, relations.get(kind, kind), tail.strip(), ontology.source)
        else:
            lines.bad_row("relationship without a target", line)
    elif tag == "is_a":
        yield Relation(concept_id, "isa", _plain(value), ontology.source)
    elif tag == "alt_id" and _plain(value):
        yield Retired(_plain(value), "same_as", concept_id, ontology.source)
    elif tag == "namespace":
        yield SemanticType(concept_id, _text(value), "", ontology.source)


def _retirement(ontology: Ontology, concept_id: str, stanza: _Stanza) -> Iterator[Record]:
    yield from ontology.retired(concept_id, *(map(_plain, stanza.values(tag)) for tag in ("replaced_by", "consider")))


def _text(value: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value).strip()


def _plain(value: str) -> str:
    """Return an id or reference without comment, trailing modifiers, description and escapes."""
    return _text(re.split(r'(?<!\\)[!{"]', value, maxsplit=1)[0])


FORMAT = Format("obo", read_obo, "--obo", "Ontology as an OBO text file.", 30)
