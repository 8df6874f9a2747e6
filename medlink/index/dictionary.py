"""Exact and inflected lookup of names, and longest matches in running text, by one memory-mapped trie."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import marisa_trie

from medlink.errors import BundleError
from medlink.index.arrays import Groups, save_groups
from medlink.index.names import NameTable
from medlink.language.text import Inflector, Token, is_inflection, match_form, normalise

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
        added: folder with the forms of names that came later; they are looked up in both.
    """

    def __init__(self, folder: Path, names: NameTable, added: Path | None = None) -> None:
        self._trie, self._rows = _open_trie(folder), Groups(folder, "form_rows")
        self._added = None if added is None else (_open_trie(added), Groups(added, "form_rows"))
        # without an added part no further call stands between a text and its prefixes
        self._prefixes: Callable[[str], list[str]] = self._trie.prefixes if added is None else self._prefixes_of_both
        self._names = names

    @classmethod
    def build(cls, folder: Path, names: NameTable) -> NameDictionary:
        """Fill a folder from a table of names."""
        _save_forms(folder, _forms(names, range(len(names)), 0))
        return cls(folder, names)

    def build_added(self, folder: Path, names: NameTable, rows: Iterable[int]) -> None:
        """Fill a folder with the forms that names brought later and that this dictionary does not hold.

        Args:
            folder: where they go.
            names: the table of names with the added ones.
            rows: names of it that are new, or have new entries.
        """
        forms = _forms(names, rows, self._names.entry_count)
        _save_forms(folder, {key: found.difference(self._rows_of(key)) for key, found in forms.items()})

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

    def _rows_of(self, key: str) -> Sequence[int]:
        number = self._trie.get(key)
        found = [] if number is None else self._rows[number]
        if self._added is not None:
            trie, rows = self._added
            number = trie.get(key)
            found = found if number is None else [*found, *rows[number]]
        return found

    def _prefixes_of_both(self, text: str) -> list[str]:
        """Keys of both parts that a text begins with, the shortest first."""
        added = self._added[0].prefixes(text) if self._added is not None else []
        return sorted({*self._trie.prefixes(text), *added}, key=len)

    def find(self, text: str, language: str) -> list[Match]:
        """Every name in a text, at each place the longest per language; they may overlap.

        A mention does not cross a punctuation mark, but for a comma before a word such as *type* or *Stadium*. Words
        may be inflected, not derived (:func:`medlink.language.text.is_inflection`).

        Args:
            text: running text.
            language: BCP 47 tag whose names are looked for, by that language's rules.

        Returns:
            Matches in the order of their start.
        """
        if language not in self._names.languages:
            return []
        inflector = Inflector(language)
        tokens = inflector.tokens(text)
        ends = self._runs(text, tokens, inflector)
        found: list[Match] = []
        for i, token in enumerate(tokens):
            if i and tokens[i - 1].start == token.start:
                continue  # the inside of one word ("t 2" of T2) starts no name
            window = tokens[i : min(ends[i], i + _LONGEST)]
            prefixes = self._prefixes(f"{language}:" + "".join(f"{part.text} " for part in window))
            for key in reversed(prefixes):
                count = key.count(" ")
                last = window[count - 1]
                if i + count < len(tokens) and tokens[i + count].start == last.start:
                    continue  # ends inside a word
                rows = self._inflected(text[token.start : last.end], self._rows_of(key), language)
                if rows:
                    found.append(Match(token.start, last.end, language, count, rows))
                    break
        return found

    @staticmethod
    def _runs(text: str, tokens: list[Token], inflector: Inflector) -> list[int]:
        """For each word the end of the run of words, from it on, that one mention may hold."""
        ends = [len(tokens)] * len(tokens)
        for i in range(len(tokens) - 2, -1, -1):
            one, other = tokens[i], tokens[i + 1]
            between = inflector.gap(text, one, other)
            joined = (
                one.start == other.start
                or between in (" ", "-")
                or (len(between) <= _WIDEST and _INSIDE.fullmatch(between) is not None)
            )
            if not joined and _COMMA.fullmatch(between):
                joined = normalise(text[other.start : other.end]) in inflector.numeral_cues
            ends[i] = ends[i + 1] if joined else i + 1
        return ends

    def _inflected(self, text: str, rows: Sequence[int], language: str) -> tuple[int, ...]:
        norm = normalise(text)
        return tuple(
            row
            for row in rows
            if self._names.norms[row] == norm
            or any(e.language == language and is_inflection(text, e.text, language) for e in self._names.entries(row))
        )


def _open_trie(folder: Path) -> marisa_trie.Trie:
    """The trie of a folder, memory-mapped."""
    trie, path = marisa_trie.Trie(), folder / _TRIE
    try:
        trie.mmap(str(path))
    except (OSError, RuntimeError) as error:
        raise BundleError(
            f"the dictionary cannot be read: {error}", path=path, remedy="build the index again"
        ) from error
    return trie


def _forms(names: NameTable, rows: Iterable[int], since: int) -> dict[str, set[int]]:
    """Rows by the keys of their forms, from the entries whose number is ``since`` or above."""
    forms: dict[str, set[int]] = defaultdict(set)
    inflectors = {language: Inflector(language) for language in names.languages}
    for row in rows:
        forms[_EXACT + names.norms[row]].add(row)
        for number in names.numbers(row):
            if number >= since:
                entry = names.entry(row, number)
                form = inflectors[entry.language].form(entry.text)
                if form:
                    forms[f"{entry.language}:{form} "].add(row)
    return forms


def _save_forms(folder: Path, forms: Mapping[str, set[int]]) -> None:
    """Write the trie of keys and the rows of each."""
    forms = {key: rows for key, rows in forms.items() if rows}
    trie = marisa_trie.Trie(sorted(forms))
    trie.save(str(folder / _TRIE))
    by_id = sorted((trie.key_id(key), sorted(rows)) for key, rows in forms.items())
    save_groups(folder, "form_rows", [rows for _, rows in by_id])
