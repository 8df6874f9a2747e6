"""Abbreviations: scispaCy's ``AbbreviationDetector`` (Schwartz and Hearst 2003), in any language."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from spacy.tokens import Doc
from spacy.vocab import Vocab

from medlink.language.text import normalise

_NO_PHRASE = re.compile(r"[\d()\[\]<>=;:.]")
_LONGEST = 12  # tokens between the brackets


class Abbreviations:
    """Finds ``long form (SHORT)`` and every later SHORT.

    What a pipeline's own ``abbreviation_detector`` found before is used as it is.

    Args:
        vocab: vocabulary of the pipeline.
    """

    def __init__(self, vocab: Vocab) -> None:
        from scispacy.abbreviation import AbbreviationDetector

        # the detector needs nothing of a pipeline but its vocabulary
        self._detector = AbbreviationDetector(SimpleNamespace(vocab=vocab), make_serializable=True)
        # As it comes the pattern pairs every '(' of a note with every later ')': quadratic in a long note.
        self._detector.matcher.remove("parenthesis")
        inside = {"ORTH": {"NOT_IN": ["(", ")"]}, "OP": f"{{1,{_LONGEST}}}"}
        self._detector.matcher.add("parenthesis", [[{"ORTH": "("}, inside, {"ORTH": ")"}]])
        # spaCy warns of a matcher without patterns, which this one is in every note without an abbreviation; no token
        # is two words.
        self._detector.global_matcher.add("no token", [[{"ORTH": "no token"}]])

    def long_forms(self, doc: Doc) -> dict[tuple[int, int], str]:
        """Long forms by the token offsets of their short forms."""
        if not doc._.abbreviations:
            self._detector(doc)
        found: dict[tuple[int, int], str] = {}
        for short in doc._.abbreviations:
            if isinstance(short, dict):
                place, text, long = (short["short_start"], short["short_end"]), short["short_text"], short["long_text"]
            else:
                form: Any = short._.long_form
                place, text = (short.start, short.end), short.text
                long = form if isinstance(form, str) else form.text
            if plausible(text, long):
                found[place] = long
        return found


def plausible(short: str, long: str) -> bool:
    """Whether a short form may stand for a long one: what the detector pairs in a note is often no abbreviation.

    A short form has two upper-case letters; a long form is one phrase of letters, with at most two words for each
    letter of the short form and one more, and begins as the short form does.

    >>> plausible("COPD", "chronisch obstruktive Lungenerkrankung"), plausible("kg", "kg > P97")
    (True, False)
    >>> plausible("ALT", "AST) 17 Uli; GPT"), plausible("PEEP", "positiva al final de la espiración")
    (False, True)
    """
    letters = sum(map(str.isalpha, short))
    phrase = normalise(long)
    return (
        sum(map(str.isupper, short)) >= 2
        and not _NO_PHRASE.search(long)
        and len(long.split()) <= 2 * letters + 1
        and bool(phrase)
        and phrase[0] == normalise(short)[:1]
    )
