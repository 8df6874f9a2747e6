"""Exact and inflected lookup of names, and longest matches in running text, by one memory-mapped trie."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import marisa_trie
import numpy as np

from medlink.errors import BundleError
from medlink.files.folders import remove
from medlink.index.arrays import REBUILD, RaggedArray, StringArray, StringWriter, save_array
from medlink.index.names import NameTable
from medlink.language.lexicon.forms import SHORT, WORD, LexiconForms
from medlink.language.tags import base
from medlink.language.text import Inflector, is_inflection, normalise

_TRIE = "forms.marisa"
_DRAFT = "forms"  # folder of the forms while the trie is built
_EXACT = "=:"  # prefix of the key of an exact form, which has no language


@dataclass(frozen=True, slots=True)
class Match:
    """A span of text, by character offsets, that is a name of ``language``; ``rows`` maps the keys of the names to
    ``exact`` or ``inflected``."""

    start: int
    end: int
    language: str
    words: int
    rows: dict[int, str]


class NameDictionary:
    """Stemmed forms of all names, each by the rules of its language.

    The key of a stemmed form is ``language:form `` with a blank after every word, so a prefix that is a key ends with a
    word. The key of an exact form is ``=:form``. A region counts as its language, and a name without a language belongs
    to every language.
    """

    def __init__(self, folder: Path, names: NameTable) -> None:
        self._trie, self._rows, self._names = _open_trie(folder), RaggedArray.open(folder, "form_rows"), names
        self._tags: dict[str | None, list[str]] = {}

    @classmethod
    def build(cls, folder: Path, names: NameTable, lexicon: LexiconForms) -> NameDictionary:
        """Fill a folder from a table of names; a file holds the forms until the trie numbers them.

        A clipped word is not inflected: *Thrombos* (platelets) is not a form of *Thrombose*.
        """
        (folder / _DRAFT).mkdir()
        owner = array("i")
        with StringWriter(folder / _DRAFT, "forms") as writer:
            for row, form in _iter_keys(names, lexicon):
                writer.append(form)
                owner.append(row)
        forms = StringArray(folder / _DRAFT, "forms")
        trie = marisa_trie.Trie(forms)
        (folder / _TRIE).write_bytes(trie.tobytes())
        number = np.fromiter(map(trie.key_id, forms), np.int32, len(forms))
        del forms
        remove(folder / _DRAFT)
        pairs = np.unique(number.astype(np.int64) * max(len(names), 1) + np.array(owner, np.int64))
        number, rows = np.divmod(pairs, max(len(names), 1))
        save_array(folder, "form_rows.ends", np.searchsorted(number, np.arange(len(trie) + 1)))
        save_array(folder, "form_rows.values", rows.astype(np.int32))
        return cls(folder, names)

    def tags(self, language: str | None) -> list[str]:
        """Return the tags of names that count as names of a language; all tags without a language."""
        if language not in self._tags:
            known = self._names.languages
            self._tags[language] = [t for t in known if language is None or not t or base(t) == base(language)]
        return self._tags[language]

    def lookup(
        self, text: str, language: str | None, norm: str, inflector: Callable[[str], Inflector]
    ) -> dict[int, str]:
        """Return the rows of a mention with their routes; see :meth:`medlink.index.ConceptIndex.lookup`."""
        routes = dict.fromkeys(self._rows_of(_EXACT + norm), "exact")
        for tag in self.tags(language):
            for row in self._rows_of(f"{tag}:{inflector(tag).form(text)} "):
                if row not in routes and self._is_inflected(text, row, tag):
                    routes[row] = "inflected"
        return routes

    def _rows_of(self, key: str) -> Sequence[int]:
        number = self._trie.get(key)
        return () if number is None else self._rows[number]

    def _is_inflected(self, text: str, row: int, tag: str) -> bool:
        return any(is_inflection(text, name, tag) for name in self._names.spellings(row, tag))

    def begins(self, tag: str, forms: Sequence[str]) -> bool:
        """Return whether a name of a language begins with these stemmed words."""
        return next(self._trie.iterkeys(f"{tag}:{' '.join(forms)} "), None) is not None

    def has(self, tag: str, form: str) -> bool:
        """Return whether a name of a language has this stemmed form."""
        return f"{tag}:{form} " in self._trie

    def beginning(self, letters: str, limit: int) -> list[str]:
        """Return at most ``limit`` normalised names that begin with the given letters."""
        return [key[len(_EXACT) :] for key in islice(self._trie.iterkeys(_EXACT + letters), limit)]

    def lengths(self, tag: str, forms: Sequence[str]) -> list[int]:
        """Return the numbers of leading words that together are the stemmed form of a name, largest first."""
        prefixes = self._trie.prefixes(f"{tag}:" + "".join([f"{form} " for form in forms]))
        return [key.count(" ") for key in reversed(prefixes)]

    def named(self, tag: str, form: str, text: str) -> dict[int, str]:
        """Look up a text by its stemmed form; return rows and routes, with exact matches in any language."""
        rows = self._rows_of(f"{tag}:{form} ")
        exact = dict.fromkeys(self._rows_of(_EXACT + normalise(text)), "exact")
        named = {row: "inflected" for row in rows if row not in exact and self._is_inflected(text, row, tag)}
        return {**exact, **named} if named or not exact.keys().isdisjoint(rows) else {}


def _iter_keys(names: NameTable, lexicon: LexiconForms) -> Iterator[tuple[int, str]]:
    inflectors = {language: Inflector(language) for language in names.languages}
    languages = [names.languages[code] for code in names.language.tolist()]
    for row, norm in enumerate(names.norms):
        yield row, _EXACT + norm
        for number in names.rows[row]:
            text, tag = names.texts[number], languages[number]
            form = inflectors[tag].form(text)
            if form and not (text.istitle() and _is_clipped(norm, tag, lexicon)):
                yield row, f"{tag}:{form} "


def _is_clipped(norm: str, tag: str, lexicon: LexiconForms) -> bool:
    """Whether the lexicon has a word only as an abbreviation."""
    known = lexicon.find(WORD, base(tag), norm)
    return bool(known) and all(form.marks & SHORT for form in known)


def _open_trie(folder: Path) -> marisa_trie.Trie:
    trie, path = marisa_trie.Trie(), folder / _TRIE
    try:
        trie.mmap(str(path))
    except (OSError, RuntimeError) as error:
        raise BundleError(f"the dictionary cannot be read: {error}", path=path, remedy=REBUILD) from error
    return trie
