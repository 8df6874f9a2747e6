"""Abbreviations that a note explains: ``long form (SHORT)`` or ``SHORT (long form)``, and every later SHORT."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from medlink.errors import needs_extra
from medlink.language.text import normalise

if TYPE_CHECKING:
    from spacy.tokens import Doc

LongForms = dict[tuple[int, int], str]
"""Long forms by the characters of their short forms."""

_BRACKETS = re.compile(r"\(([^()]{2,80})\)")
_LONGEST = 12  # tokens between the brackets
_NO_PHRASE = re.compile(r"[\d()\[\]<>=;:.]")
# What parts a bracket's abbreviation from further words: "(COPD, seit 2010)".
_FURTHER = re.compile(r"\s*[,;]\s|\s+[-–]\s")
# What a long form does not reach across: an empty line, the end of a sentence, a comma without a blank, a bracket.
_BREAK = re.compile(r"\n\s*\n|[.;:!?]\s|[.,](?=[^\W\d])|[()\[\]]")
_SHAPE = re.compile(r"(?!I+$)[^\W_](?:[^\W_]|[-–&/.+]){1,9}")
_REACH = 400  # characters before a bracket in which its long form stands


def detector(choice: str, language: str) -> Callable[[str], LongForms] | None:
    """What finds the abbreviations that a text explains: see the options.

    Raises:
        ConfigError: scispaCy is asked for and not installed.
    """
    if choice == "none":
        return None
    return long_forms if choice == "builtin" else _scispacy(language)


def long_forms(text: str) -> LongForms:
    """Abbreviations by the algorithm of Schwartz and Hearst (2003), section 2.

    Where we differ: a short form is one word and not II or III, letters are compared without accents, what follows a
    comma in the brackets is left out, a long form does not reach across the end of a sentence or paragraph, and
    :func:`plausible` has the last word.
    """
    pairs = list(_pairs(text))
    return {
        place.span(): long
        for short, long in {**dict(pairs), **dict(reversed(pairs))}.items()  # the first holds
        for place in re.finditer(rf"(?<!\w){re.escape(short)}(?!\w)", text)
    }


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for bracket in _BRACKETS.finditer(text):
        before = _BREAK.split(text[max(0, bracket.start() - _REACH) : bracket.start()])[-1].split()
        inside = _FURTHER.split(bracket[1].strip(), maxsplit=1)[0]
        reach = min(len(inside) + 5, len(inside) * 2)
        for short, words in ((inside, " ".join(before[-reach:])), (" ".join(before[-1:]), inside)):
            long = best_long_form(short, words) if _SHAPE.fullmatch(short) else None
            if long and plausible(short, long):
                yield short, long
                break


def best_long_form(short: str, words: str) -> str | None:
    """The shortest end of ``words`` that has the letters of ``short`` in their order, the first one at a word's start.

    Schwartz and Hearst (2003), figure 1.
    """
    plain = _plain(words)
    at = len(plain)
    for i, letter in reversed(list(enumerate(_plain(short)))):
        if not letter.isalnum():
            continue
        at = plain.rfind(letter, 0, at)
        while i == 0 and at > 0 and plain[at - 1].isalnum():
            at = plain.rfind(letter, 0, at)
        if at < 0:
            return None
    long = words[words.rfind(" ", 0, at) + 1 :]
    # "PSA (PSA im Serum)" explains nothing
    return None if len(long) <= len(short) or short in long.split() else long


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFD", character)[0].lower()[:1] for character in text)


def plausible(short: str, long: str) -> bool:
    """Whether a short form may stand for a long one: much of what the algorithm pairs in a note is no abbreviation.

    A short form has two upper-case letters; a long form is one phrase of letters, with at most two words for each
    letter of the short form and one more, and begins as the short form does.
    """
    if sum(map(str.isupper, short)) < 2 or _NO_PHRASE.search(long):
        return False
    first = normalise(long)[:1]
    return len(long.split()) <= 2 * sum(map(str.isalpha, short)) + 1 and first != "" and normalise(short)[:1] == first


def of_doc(doc: Doc) -> LongForms:
    """What an ``abbreviation_detector`` wrote into a document, as spans or, made serializable, as plain data."""
    found: LongForms = {}
    for short in doc._.abbreviations if doc.has_extension("abbreviations") else ():
        if isinstance(short, dict):
            span, text, long = doc[short["short_start"] : short["short_end"]], short["short_text"], short["long_text"]
        else:
            form: Any = short._.long_form
            span, text, long = short, short.text, getattr(form, "text", form)
        if plausible(text, long):
            found[span.start_char, span.end_char] = long
    return found


def check_detector(choice: str) -> None:
    """Refuse before a note is read a detector that cannot be had; see :func:`detector`."""
    if choice == "scispacy":
        _scispacy_detector()


def _scispacy_detector() -> Any:
    with needs_extra("scispacy", "scispaCy's abbreviation detector"):
        from scispacy.abbreviation import AbbreviationDetector
    return AbbreviationDetector


def _scispacy(language: str) -> Callable[[str], LongForms]:
    import spacy  # a program that reads notes need not have it open

    nlp = spacy.blank(language)
    # the detector needs nothing of a pipeline but its vocabulary
    scispacy = _scispacy_detector()(SimpleNamespace(vocab=nlp.vocab), make_serializable=True)
    # As it comes the pattern pairs every '(' of a note with every later ')': quadratic in a long note.
    scispacy.matcher.remove("parenthesis")
    inside = {"ORTH": {"NOT_IN": ["(", ")"]}, "OP": f"{{1,{_LONGEST}}}"}
    scispacy.matcher.add("parenthesis", [[{"ORTH": "("}, inside, {"ORTH": ")"}]])
    # spaCy warns of a matcher without patterns, which this one is in every note without an abbreviation; no token
    # is two words.
    scispacy.global_matcher.add("no token", [[{"ORTH": "no token"}]])
    return lambda text: of_doc(scispacy(nlp.make_doc(text)))
