"""Abbreviations that a note defines, ``long form (SHORT)`` or ``SHORT (long form)``, and letters with slashes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from medlink.errors import needs_extra
from medlink.language.languages import stop_words
from medlink.language.lexicon.abbreviation_table import AbbreviationTable
from medlink.language.lexicon.tables import Abbreviation
from medlink.language.scan import Place, ScannedText
from medlink.language.scope_rules import scopes
from medlink.language.text import normalise

if TYPE_CHECKING:
    from spacy.tokens import Doc

LongForms = dict[tuple[int, int], str]
"""Long forms by the character spans of their short forms."""

_BRACKETS = re.compile(r"\(([^()]{2,80})\)|\[([^\[\]]{2,80})\]")
_MAX_TOKENS = 12  # between the brackets
_NO_PHRASE = re.compile(r"[\d()\[\]<>=;:.]")
# separates an abbreviation from further words in its bracket: "(COPD, seit 2010)"
_SEPARATOR = re.compile(r"\s*[,;]\s|\s+[-–]\s")
# never inside a long form: an empty line, the end of a sentence, a comma without a blank, a bracket
_BREAK = re.compile(r"\n\s*\n|[.;:!?]\s|[.,](?=[^\W\d])|[()\[\]]")
_SHAPE = re.compile(r"(?!I+$)[^\W_](?:[^\W_]|[-–&/.+]){1,9}")
_BEGINNING = 4  # least letters of a short form that is the beginning of a word
_WINDOW = 400  # characters before a bracket that are searched for its long form
_MAX_SLASHED = 6  # words with slashes between them
_LEAST_SLASHED = 0.7  # least share of uses with this meaning, for such an abbreviation to be read
_FINDINGS = frozenset(("finding", "disease"))
_LETTERS = re.compile(r"[^\W\d_]{1,5}")


def make_detector(choice: str, language: str) -> Callable[[str], LongForms] | None:
    """Make the abbreviation detector of the option ``abbreviations``, ``None`` for none.

    Raises:
        ConfigError: scispaCy is selected and not installed.
    """
    if choice == "none":
        return None
    if choice == "scispacy":
        return _scispacy(language)
    weak = stop_words(language)
    return lambda text: long_forms(text, weak)


def long_forms(text: str, weak: Collection[str] = ()) -> LongForms:
    """Find abbreviations by the algorithm of Schwartz and Hearst (2003), section 2.

    Differences: a short form is one word and not II or III, letters are compared without accents, text after a comma in
    the brackets is ignored, a long form does not extend beyond its sentence or paragraph nor begin with one of the
    ``weak`` words ("desprendimiento de retina (DR)"), and pairs must be :func:`plausible`.
    """
    pairs = list(_pairs(text, weak))
    return {
        match.span(): long
        for short, long in {**dict(pairs), **dict(reversed(pairs))}.items()  # the first definition counts
        for match in re.finditer(rf"(?<!\w){re.escape(short)}(?!\w)", text)
    }


def _pairs(text: str, weak: Collection[str]) -> Iterator[tuple[str, str]]:
    for bracket in _BRACKETS.finditer(text):
        before = _BREAK.split(text[max(0, bracket.start() - _WINDOW) : bracket.start()])[-1].split()
        inside = _SEPARATOR.split((bracket[1] or bracket[2]).strip(), maxsplit=1)[0]
        limit = min(len(inside) + 5, len(inside) * 2)
        for short, words in ((inside, " ".join(before[-limit:])), (" ".join(before[-1:]), inside)):
            long = best_long_form(short, words, weak) if _SHAPE.fullmatch(short) else None
            if long and plausible(short, long):
                yield short, long
                break


def best_long_form(short: str, words: str, weak: Collection[str] = ()) -> str | None:
    """Find the shortest suffix of ``words`` with the letters of ``short`` in order, the first at the start of a word.

    It does not begin with one of the ``weak`` words.

    Schwartz and Hearst (2003), figure 1.
    """
    plain = _plain(words)
    at = len(plain)
    for i, letter in reversed(list(enumerate(_plain(short)))):
        if not letter.isalnum():
            continue
        at = plain.rfind(letter, 0, at)
        while i == 0 and at >= 0 and not _begins_strong_word(words, plain, at, weak):
            at = plain.rfind(letter, 0, at)
        if at < 0:
            return None
    long = words[words.rfind(" ", 0, at) + 1 :]
    # "PSA (PSA im Serum)" defines nothing
    return None if len(long) <= len(short) or short in long.split() else long


def _begins_strong_word(words: str, plain: str, at: int, weak: Collection[str]) -> bool:
    if at > 0 and plain[at - 1].isalnum():
        return False
    return not weak or words[at:].partition(" ")[0].casefold() not in weak


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFD", character)[0].lower()[:1] for character in text)


def plausible(short: str, long: str) -> bool:
    """Return whether a short form may stand for a long form; in notes, many pairs that the algorithm finds are not
    abbreviations.

    A short form has two upper-case letters, or is the beginning of a word (*Hydrocephalus (Hydro)*). A long form has
    letters only, at most two words for each letter of the short form plus one, and the same first letter.
    """
    is_beginning = len(short) >= _BEGINNING and " " not in long and normalise(long).startswith(normalise(short))
    if (sum(map(str.isupper, short)) < 2 and not is_beginning) or _NO_PHRASE.search(long):
        return False
    first = normalise(long)[:1]
    return len(long.split()) <= 2 * sum(map(str.isalpha, short)) + 1 and first != "" and normalise(short)[:1] == first


def long_forms_of_doc(doc: Doc) -> LongForms:
    """Return the long forms that an ``abbreviation_detector`` stored in a document, as spans or as plain data."""
    forms: LongForms = {}
    for short in doc._.abbreviations if doc.has_extension("abbreviations") else ():
        if isinstance(short, dict):
            span, text, long = doc[short["short_start"] : short["short_end"]], short["short_text"], short["long_text"]
        else:
            form: Any = short._.long_form
            span, text, long = short, short.text, getattr(form, "text", form)
        if plausible(text, long):
            forms[span.start_char, span.end_char] = long
    return forms


def check_detector(choice: str) -> None:
    """Fail before the first note if the detector is not installed; see :func:`make_detector`."""
    if choice == "scispacy":
        _scispacy_detector()


def _scispacy_detector() -> Any:
    with needs_extra("scispacy", "scispaCy's abbreviation detector"):
        from scispacy.abbreviation import AbbreviationDetector
    return AbbreviationDetector


def _scispacy(language: str) -> Callable[[str], LongForms]:
    import spacy  # heavy, and rarely needed

    nlp = spacy.blank(language)
    # the detector needs nothing of a pipeline but its vocabulary
    scispacy = _scispacy_detector()(SimpleNamespace(vocab=nlp.vocab), make_serializable=True)
    # the original pattern pairs every '(' with every later ')': quadratic in long notes
    scispacy.matcher.remove("parenthesis")
    inside = {"ORTH": {"NOT_IN": ["(", ")"]}, "OP": f"{{1,{_MAX_TOKENS}}}"}
    scispacy.matcher.add("parenthesis", [[{"ORTH": "("}, inside, {"ORTH": ")"}]])
    # avoids spaCy's warning about a matcher without patterns, as in every note without an abbreviation; this pattern
    # never matches
    scispacy.global_matcher.add("no token", [[{"ORTH": "no token"}]])
    return lambda text: long_forms_of_doc(scispacy(nlp.make_doc(text)))


class SlashReader:
    """Reads findings written as letters with slashes, *N/V/D*, *F/C*, *c/c/e*: each letter is a separate mention."""

    def __init__(self, language: str, abbreviations: AbbreviationTable) -> None:
        self._abbreviations = abbreviations
        rules = scopes(language)
        words = "|".join(map(re.escape, sorted(rules.joins | rules.either, key=len, reverse=True)))
        self._joins = re.compile(rf",\s*(?:(?:{words})\s)?|\s(?:{words})\s")
        self._members = lru_cache(1 << 12)(self._find)

    def read(self, text: ScannedText) -> Iterator[tuple[Place, Abbreviation]]:
        """Yield each member of these abbreviations with its meaning; an abbreviation for one finding stays whole."""
        if "/" not in text.text:
            return
        at, words = 0, text.words
        while at < len(words):
            stop = at + 1
            while stop < len(words) and text.text[words[stop - 1].end : words[stop].start] == "/":
                stop += 1
            if 1 < stop - at <= _MAX_SLASHED:
                members = self._members(text.text[words[at].start : words[stop - 1].end])
                if len(members) == stop - at:
                    yield from (((at + number, at + number + 1), member) for number, member in enumerate(members))
                elif len(members) == 1:
                    yield (at, stop), members[0]
            at = stop

    def _find(self, written: str) -> tuple[Abbreviation, ...]:
        """The members of the long form, none if the abbreviation usually means something other than findings."""
        if not all(map(_LETTERS.fullmatch, written.split("/"))):
            return ()
        known = self._abbreviations.slashed(written)
        if known is None or known.kind not in _FINDINGS or known.weight < _LEAST_SLASHED:
            return ()
        members = [member.strip() for member in self._joins.split(known.long)]
        return tuple(replace(known, long=member, english="", safe=True) for member in members if member)
