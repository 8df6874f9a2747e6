"""Abbreviations: scispaCy's ``AbbreviationDetector`` (Schwartz and Hearst 2003), in any language."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spacy.tokens import Doc
from spacy.vocab import Vocab

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
                found[short["short_start"], short["short_end"]] = short["long_text"]
            else:
                long: Any = short._.long_form
                found[short.start, short.end] = long if isinstance(long, str) else long.text
        return found
