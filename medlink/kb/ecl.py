"""Expression constraints: a subset of the Expression Constraint Language of SNOMED International (ECL 2.2).

It works for any terminology, not only SNOMED CT::

    < 404684003                         all descendants of a concept
    << 404684003 |Clinical finding|     with the concept itself; text between bars is a comment
    404684003                           the concept alone
    A AND B, A OR B, A MINUS B          both, either, the first without the second
    (A OR B) MINUS C                    parentheses; AND, OR, MINUS and attributes do not mix without them
    << A : 363698007 = << B             those with an attribute whose value is one of B

Other ECL (``>``, ``^``, ``*``, cardinality, groups, several attributes, filters) raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from medlink.errors import ConfigError
from medlink.kb.store import KnowledgeBase
from medlink.records import FSN

_ID = r"[^\s|()<>=:,{}\[\]^*!\"]+"
_TOKEN = re.compile(rf"\s*(?:(<<|<|\(|\)|:|=)|\|[^|]*\||({_ID}(?::{_ID})*)|(.))")
_OPERATORS = ("AND", "OR", "MINUS")
_TAG = re.compile(r"\s*\([^()]+\)\s*$")
_MAX_DEPTH = 50
_REMEDY = "write for example: (<< 404684003 MINUS << 64572001) : 363698007 = << 39057004"


Concepts = frozenset[str]


def select_concepts(kb: KnowledgeBase, constraint: str) -> set[str]:
    """Return the ids of the concepts that satisfy a constraint.

    An attribute, given by its id, selects the relations whose type is that id, or its fully specified or preferred
    English name as the SNOMED CT reader writes it: in lower case, without the semantic tag.

    Raises:
        ConfigError: the constraint cannot be parsed, or names an unknown concept.
    """
    parser = _Parser(kb, constraint)
    selected = parser.expression(0)
    parser.expect("")
    return set(selected)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    at: int
    is_valid_id: bool


class _Parser:
    """Evaluates a constraint while parsing it; equal parts are evaluated once."""

    def __init__(self, kb: KnowledgeBase, text: str) -> None:
        self.kb, self.text = kb, text
        self._tokens = list(self._tokenize())
        self._next = 0
        self._known = set[str]()
        self._descendants: Callable[[Concepts], Concepts] = cache(lambda roots: frozenset(kb.descendants(roots)))
        self._heads = cache(self._read_heads)

    def _read_heads(self, types: tuple[str, ...], values: Concepts) -> Concepts:
        relations = self.kb.iter_relations(types=types)
        return frozenset(relation.head for relation in relations if relation.tail in values)

    def _tokenize(self) -> Iterator[_Token]:
        for match in _TOKEN.finditer(self.text.rstrip()):
            mark, word, unknown = match.groups()
            if unknown:
                raise self._error(f"{unknown!r} at character {match.start(3) + 1} is not read")
            if word and word.upper() in _OPERATORS:
                yield _Token(word.upper(), match.start(2), False)
            elif word:
                yield from self._ids(word, match.start(2))
            elif mark:
                yield _Token(mark, match.start(1), False)
        yield _Token("", len(self.text), False)

    def _ids(self, word: str, at: int) -> Iterator[_Token]:
        # one id, or two ids around the colon of an attribute, since ids contain colons too
        for colon in (index for index, mark in enumerate(word) if mark == ":" and word not in self.kb):
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
        """Consume the token ``text`` (``""`` for the end), or raise."""
        token = self._take()
        if token.text != text or token.is_valid_id:
            wanted, actual = (repr(word) if word else "the end" for word in (text, token.text))
            raise self._error(f"{wanted} is expected at character {token.at + 1}, not {actual}")

    def _is(self, *texts: str) -> bool:
        token = self._tokens[self._next]
        return token.text in texts and not token.is_valid_id

    def expression(self, depth: int) -> Concepts:
        if depth > _MAX_DEPTH:
            raise self._error(f"parentheses are more than {_MAX_DEPTH} deep")
        (selected, has_attribute), first = self._refined(depth), ""
        parts = {selected}
        while self._is(*_OPERATORS):
            word = self._take().text
            if first and (word != first or word == "MINUS"):
                raise self._error(f"{first} and {word} stand side by side; add parentheses")
            first = word
            part, has_another = self._refined(depth)
            if has_attribute or has_another:
                raise self._error(f"{word} stands beside an attribute; add parentheses")
            if word == "MINUS":
                selected -= part
            elif part not in parts:
                parts.add(part)
                selected = selected & part if word == "AND" else selected | part
        return selected

    def _refined(self, depth: int) -> tuple[Concepts, bool]:
        """Return the concepts of a term, and whether it has an attribute."""
        roots = self._term(depth)
        if not self._is(":"):
            return roots, False
        self._take()
        types = self._types(self._concept())
        self.expect("=")
        return roots & self._heads(types, self._term(depth)), True

    def _term(self, depth: int) -> Concepts:
        operator = self._take().text if self._is("<", "<<") else ""
        if self._is("("):
            self._take()
            roots = self.expression(depth + 1)
            self.expect(")")
        else:
            roots = frozenset([self._concept()])
        below = self._descendants(roots) if operator else roots
        return roots | below if operator == "<<" else below

    def _concept(self) -> str:
        token = self._take()
        if not token.is_valid_id:
            raise self._error(f"a concept is expected at character {token.at + 1}, not {token.text or 'the end'!r}")
        if token.text not in self._known and token.text not in self.kb:
            raise self._error(f"there is no concept {token.text}")
        self._known.add(token.text)
        return token.text

    def _types(self, attribute: str) -> tuple[str, ...]:
        names = (name for name in self.kb.names(attribute) if name.language.partition("-")[0] in ("", "en"))
        types = {_TAG.sub("", name.text).lower() for name in names if name.type == FSN or name.preferred}
        return (attribute, *sorted(types))
