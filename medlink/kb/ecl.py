"""Expression constraints: a small part of the Expression Constraint Language of SNOMED International (ECL 2.2).

What is read, for any terminology and not for SNOMED CT alone::

    < 404684003                         all below a concept
    << 404684003 |Clinical finding|     the concept as well; what stands between bars is a remark
    404684003                           the concept alone
    A AND B, A OR B, A MINUS B          both, either, the first without the second
    (A OR B) MINUS C                    parentheses; AND, OR, MINUS and attributes do not mix without them
    << A : 363698007 = << B             those with an attribute whose value is one of B

What else ECL has (``>``, ``^``, ``*``, cardinality, groups, several attributes, filters) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from medlink.errors import ConfigError
from medlink.kb.store import KnowledgeBase
from medlink.records import FSN

_ID = r"[^\s|()<>=:,{}\[\]^*!\"]+"
_TOKEN = re.compile(rf"\s*(?:(<<|<|\(|\)|:|=)|\|[^|]*\||({_ID}(?::{_ID})*)|(.))")
_WORDS = ("AND", "OR", "MINUS")
_TAG = re.compile(r"\s*\([^()]+\)\s*$")
_DEEPEST = 50
_REMEDY = "write for example: (<< 404684003 MINUS << 64572001) : 363698007 = << 39057004"


def select_concepts(kb: KnowledgeBase, constraint: str) -> set[str]:
    """The ids of the concepts that a constraint describes.

    An attribute is named by its id, and stands for the relations that are called as it is: by the id itself, or by its
    fully specified or preferred English name without the tag, in lower case, as the reader of SNOMED CT calls them.

    Raises:
        ConfigError: the constraint cannot be read, or names a concept that the knowledge base has not.
    """
    reader = _Reader(kb, constraint)
    asked = reader.expression(0)
    reader.expect("")
    return set(reader.found(asked))


Part = tuple[Any, ...]
"""A part of a constraint: what it does, and the parts or the id with which it does that."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    at: int
    is_id: bool


class _Reader:
    def __init__(self, kb: KnowledgeBase, text: str) -> None:
        self.kb, self.text = kb, text
        self._tokens = list(self._split())
        self._next = 0
        self._known = set[str]()
        self._found: dict[Part, frozenset[str]] = {}

    def found(self, part: Part) -> frozenset[str]:
        if part not in self._found:
            kind, *of = part
            self._found[part] = self._look_up(kind, *of)
        return self._found[part]

    def _look_up(self, kind: str, first: Any, *others: Any) -> frozenset[str]:
        if kind == "id":
            return frozenset([first])
        roots = self.found(first)
        if kind == "()":
            return roots
        if kind in ("<", "<<"):
            return frozenset(self.kb.below(roots)) | (roots if kind == "<<" else frozenset())
        if kind == ":":
            types, values = others[0], self.found(others[1])
            return roots & {one.head for one in self.kb.iter_relations(types=types) if one.tail in values}
        sets = list(map(self.found, others))
        if kind == "AND":
            return roots.intersection(*sets)
        return roots.union(*sets) if kind == "OR" else roots.difference(*sets)

    def _split(self) -> Iterator[_Token]:
        for found in _TOKEN.finditer(self.text.rstrip()):
            mark, word, other = found.groups()
            if other:
                raise self._error(f"{other!r} at character {found.start(3) + 1} is not read")
            if word and word.upper() in _WORDS:
                yield _Token(word.upper(), found.start(2), False)
            elif word:
                yield from self._ids(word, found.start(2))
            elif mark:
                yield _Token(mark, found.start(1), False)
        yield _Token("", len(self.text), False)

    def _ids(self, word: str, at: int) -> Iterator[_Token]:
        # an id, or two with the colon of an attribute between them: ids have colons as well
        for colon in (place for place, mark in enumerate(word) if mark == ":" and word not in self.kb):
            if word[:colon] in self.kb and word[colon + 1 :] in self.kb:
                yield _Token(word[:colon], at, True)
                yield _Token(":", at + colon, False)
                word, at = word[colon + 1 :], at + colon + 1
                break
        yield _Token(word, at, True)

    def _error(self, message: str) -> ConfigError:
        return ConfigError(f"expression constraint: {message}", remedy=_REMEDY)

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.text != ""
        return token

    def expect(self, text: str) -> None:
        """Read a mark that must come now; the empty one is the end."""
        token = self._take()
        if token.text != text or token.is_id:
            wanted, there = (repr(one) if one else "the end" for one in (text, token.text))
            raise self._error(f"{wanted} is expected at character {token.at + 1}, not {there}")

    def _is(self, *texts: str) -> bool:
        token = self._tokens[self._next]
        return token.text in texts and not token.is_id

    def expression(self, depth: int) -> Part:
        if depth > _DEEPEST:
            raise self._error(f"parentheses are more than {_DEEPEST} deep")
        parts, first = [self._refined(depth)], ""
        while self._is(*_WORDS):
            word = self._take().text
            if first and (word != first or word == "MINUS"):
                raise self._error(f"{first} and {word} stand side by side; put parentheses")
            first = word
            parts.append(self._refined(depth))
            if any(part[0] == ":" for part in (parts[0], parts[-1])):
                raise self._error(f"{word} stands beside an attribute; put parentheses")
        return (first, *dict.fromkeys(parts)) if first in ("AND", "OR") else (first, *parts) if first else parts[0]

    def _refined(self, depth: int) -> Part:
        term = self._term(depth)
        if not self._is(":"):
            return term
        self._take()
        types = self._types(self._concept())
        self.expect("=")
        return ":", term, types, self._term(depth)

    def _term(self, depth: int) -> Part:
        operator = self._take().text if self._is("<", "<<") else ""
        if self._is("("):
            self._take()
            roots: Part = ("()", self.expression(depth + 1))
            self.expect(")")
        else:
            roots = ("id", self._concept())
        return (operator, roots) if operator else roots

    def _concept(self) -> str:
        token = self._take()
        if not token.is_id:
            raise self._error(f"a concept is expected at character {token.at + 1}, not {token.text or 'the end'!r}")
        if token.text not in self._known:
            if token.text not in self.kb:
                raise self._error(f"there is no concept {token.text}")
            self._known.add(token.text)
        return token.text

    def _types(self, attribute: str) -> tuple[str, ...]:
        names = (one for one in self.kb.names(attribute) if one.language.partition("-")[0] in ("", "en"))
        called = {_TAG.sub("", one.text).lower() for one in names if one.type == FSN or one.preferred}
        return (attribute, *sorted(called))
