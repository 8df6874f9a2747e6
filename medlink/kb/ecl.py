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
    found = reader.expression(0)
    reader.expect("")
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    at: int
    is_id: bool


class _Reader:
    """Reads a constraint from left to right, and looks up what each part of it describes."""

    def __init__(self, kb: KnowledgeBase, text: str) -> None:
        self.kb, self.text = kb, text
        self._tokens = list(self._split())
        self._next = 0

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
        """An id, or two with the colon of an attribute between them: ids have colons as well."""
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

    def expression(self, depth: int) -> set[str]:
        """Terms with one kind of word between them."""
        if depth > _DEEPEST:
            raise self._error(f"parentheses are more than {_DEEPEST} deep")
        (found, refined), first = self._refined(depth), ""
        while self._is(*_WORDS):
            word = self._take().text
            if first and (word != first or word == "MINUS"):
                raise self._error(f"{first} and {word} stand side by side; put parentheses")
            first = word
            other, also = self._refined(depth)
            if refined or also:
                raise self._error(f"{word} stands beside an attribute; put parentheses")
            found = found & other if word == "AND" else found | other if word == "OR" else found - other
        return found

    def _refined(self, depth: int) -> tuple[set[str], bool]:
        """A term, with the attribute that its concepts must have, if any, and whether there is one."""
        found = self._term(depth)
        if not self._is(":"):
            return found, False
        self._take()
        types = self._types(self._concept())
        self.expect("=")
        values = self._term(depth)
        heads = {one.head for one in self.kb.iter_relations(types=types) if one.tail in values}
        return found & heads, True

    def _term(self, depth: int) -> set[str]:
        """A concept, those below it, or an expression in parentheses."""
        operator = self._take().text if self._is("<", "<<") else ""
        if self._is("("):
            self._take()
            roots = self.expression(depth + 1)
            self.expect(")")
        else:
            roots = {self._concept()}
        if not operator:
            return roots
        return self.kb.below(roots) | roots if operator == "<<" else self.kb.below(roots)

    def _concept(self) -> str:
        token = self._take()
        if not token.is_id:
            raise self._error(f"a concept is expected at character {token.at + 1}, not {token.text or 'the end'!r}")
        if token.text not in self.kb:
            raise self._error(f"there is no concept {token.text}")
        return token.text

    def _types(self, attribute: str) -> list[str]:
        """What relations of an attribute may be called."""
        names = (one for one in self.kb.names(attribute) if one.language.partition("-")[0] in ("", "en"))
        called = {_TAG.sub("", one.text).lower() for one in names if one.type == FSN or one.preferred}
        return [attribute, *sorted(called)]
