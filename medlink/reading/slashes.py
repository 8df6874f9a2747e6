"""Findings written as letters with slashes: *N/V/D*, *F/C*, *c/c/e*; each letter is a separate mention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from medlink.language.lexicon.abbreviation_table import AbbreviationTable
from medlink.language.lexicon.tables import Abbreviation
from medlink.language.scan import Place, ScannedText
from medlink.language.scope_rules import scopes

_MAX_WORDS = 6
_CACHE_SIZE = 1 << 12
_LEAST = 0.7  # share of the uses of such an abbreviation from which it is read
_FINDINGS = frozenset(("finding", "disease"))
_WORD = re.compile(r"[^\W\d_]{1,5}")


class SlashReader:
    """Reads the letters of abbreviations with slashes in texts of one language (BCP 47) as members of a long form."""

    def __init__(self, language: str, abbreviations: AbbreviationTable) -> None:
        self._abbreviations = abbreviations
        words = "|".join(
            map(re.escape, sorted(scopes(language).joins | scopes(language).either, key=len, reverse=True))
        )
        self._joins = re.compile(rf",\s*(?:(?:{words})\s)?|\s(?:{words})\s")
        self._members = lru_cache(_CACHE_SIZE)(self._find)

    def read(self, text: ScannedText) -> Iterator[tuple[Place, Abbreviation]]:
        """Yield each member of these abbreviations with its meaning; an abbreviation for one finding stays whole."""
        if "/" not in text.text:
            return
        at, words = 0, text.words
        while at < len(words):
            stop = at + 1
            while stop < len(words) and text.text[words[stop - 1].end : words[stop].start] == "/":
                stop += 1
            if 1 < stop - at <= _MAX_WORDS:
                members = self._members(text.text[words[at].start : words[stop - 1].end])
                if len(members) == stop - at:
                    yield from (((at + number, at + number + 1), member) for number, member in enumerate(members))
                elif len(members) == 1:
                    yield (at, stop), members[0]
            at = stop

    def _find(self, written: str) -> tuple[Abbreviation, ...]:
        """The members of the long form, none if the abbreviation usually means something other than findings."""
        if not all(map(_WORD.fullmatch, written.split("/"))):
            return ()
        known = self._abbreviations.slashed(written)
        if known is None or known.kind not in _FINDINGS or known.weight < _LEAST:
            return ()
        members = [member.strip() for member in self._joins.split(known.long)]
        return tuple(replace(known, long=member, english="", safe=True) for member in members if member)
