"""Exact and inflected lookup of names, and longest matches in running text, by one memory-mapped trie."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import marisa_trie

from medlink.errors import BundleError
from medlink.index.arrays import Groups, save_groups
from medlink.index.names import NameTable
from medlink.text import Token, is_inflection, language_rules, match_form, match_tokens, normalise

_TRIE = "forms.marisa"
_EXACT = "=:"  # begins the key of an exact form, which has no language
_LONGEST = 16  # words of the longest name that is looked for in running text
# What may stand between two words of one mention: a blank, one line end, hyphens, slashes, apostrophes.
_INSIDE = re.compile(r"(?:[^\S\n]|-|–|/|')*\n?(?:[^\S\n]|-|–|/|')*")
_WIDEST = 20  # characters between two words of one mention
_COMMA = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Match:
    """A stretch of text, by character offsets, that is a name in its inflected form."""

    start: int
    end: int
    language: str
    words: int
    rows: tuple[int, ...]


class NameDictionary:
    """Inflected forms of all names, each language by its own rules.

    The key of an inflected form is ``language:form `` with a blank behind every word, so that a prefix of the key
    always ends with a word; that of an exact form is ``=:form``.

    Args:
        folder: folder that :meth:`build` filled.
        names: the table of names it was built from.
    """

    def __init__(self, folder: Path, names: NameTable) -> None:
        self._trie = marisa_trie.Trie()
        path = folder / _TRIE
        try:
            self._trie.mmap(str(path))
        except (OSError, RuntimeError) as error:
            raise BundleError(
                f"the dictionary cannot be read: {error}", path=path, remedy="build the index again"
            ) from error
        self._rows = Groups(folder, "form_rows")
        self._names = names

    @classmethod
    def build(cls, folder: Path, names: NameTable) -> NameDictionary:
        """Fill a folder from a table of names."""
        rows: dict[str, set[int]] = defaultdict(set)
        for row in range(len(names)):
            rows[_EXACT + names.norms[row]].add(row)
            for entry in names.entries(row):
                form = match_form(entry.text, entry.language)
                if form:
                    rows[f"{entry.language}:{form} "].add(row)
        trie = marisa_trie.Trie(sorted(rows))
        trie.save(str(folder / _TRIE))
        by_id = sorted((trie.key_id(key), sorted(found)) for key, found in rows.items())
        save_groups(folder, "form_rows", [found for _, found in by_id])
        return cls(folder, names)

    def lookup(self, text: str, language: str | None = None, *, norm: str | None = None) -> dict[int, str]:
        """Rows of a mention with their route: ``exact`` (in any language) or ``inflected`` (in its own).

        Args:
            text: the mention.
            language: BCP 47 tag; without it the rules of every language are tried.
            norm: its exact form, where the caller has it.
        """
        found = dict.fromkeys(self._rows_of(_EXACT + (normalise(text) if norm is None else norm)), "exact")
        for tag in self._names.languages:
            if language is not None and language.partition("-")[0] != tag.partition("-")[0]:
                continue
            for row in self._rows_of(f"{tag}:{match_form(text, tag)} "):
                if row not in found and any(
                    entry.language == tag and is_inflection(text, entry.text, tag) for entry in self._names.entries(row)
                ):
                    found[row] = "inflected"
        return found

    def _rows_of(self, key: str) -> list[int]:
        number = self._trie.get(key)
        return [] if number is None else self._rows[number].tolist()

    def find(self, text: str, language: str) -> list[Match]:
        """Every name in a text, at each place the longest per language; they may overlap.

        A mention does not cross a punctuation mark, but for a comma before a word such as *type* or *Stadium*. Words
        may be inflected, not derived (:func:`medlink.text.is_inflection`).

        Args:
            text: running text.
            language: BCP 47 tag whose names are looked for, by that language's rules.

        Returns:
            Matches in the order of their start.
        """
        if language not in self._names.languages:
            return []
        tokens = match_tokens(text, language)
        ends = self._runs(text, tokens, language)
        found: list[Match] = []
        for i, token in enumerate(tokens):
            if i and tokens[i - 1].start == token.start:
                continue  # the inside of one word ("t 2" of T2) starts no name
            window = tokens[i : min(ends[i], i + _LONGEST)]
            prefixes = self._trie.prefixes(f"{language}:" + "".join(f"{part.text} " for part in window))
            for key in reversed(prefixes):
                count = key.count(" ")
                last = window[count - 1]
                if i + count < len(tokens) and tokens[i + count].start == last.start:
                    continue  # ends inside a word
                rows = self._inflected(text[token.start : last.end], self._rows[self._trie[key]].tolist(), language)
                if rows:
                    found.append(Match(token.start, last.end, language, count, rows))
                    break
        return found

    @staticmethod
    def _runs(text: str, tokens: list[Token], language: str) -> list[int]:
        """For each word the end of the run of words, from it on, that one mention may hold."""
        rules = language_rules(language)
        cues = rules.numeral_cues if rules else frozenset()
        ends = [len(tokens)] * len(tokens)
        for i in range(len(tokens) - 2, -1, -1):
            one, other = tokens[i], tokens[i + 1]
            gap = text[one.end : other.start]
            joined = (
                one.start == other.start
                or gap in (" ", "-")
                or (len(gap) <= _WIDEST and _INSIDE.fullmatch(gap) is not None)
            )
            if not joined and _COMMA.fullmatch(gap):
                joined = normalise(text[other.start : other.end]) in cues
            ends[i] = ends[i + 1] if joined else i + 1
        return ends

    def _inflected(self, text: str, rows: list[int], language: str) -> tuple[int, ...]:
        norm = normalise(text)
        return tuple(
            row
            for row in rows
            if self._names.norms[row] == norm
            or any(e.language == language and is_inflection(text, e.text, language) for e in self._names.entries(row))
        )
