"""Signs and columns that answer for a finding: "+ cough, - fever", "Fever: -", and a table with yes and no."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from medlink.language.cues import Cue
from medlink.reading.clauses import Layout
from medlink.reading.scope_structure import Match, WordSpan

_SIGNS = {"+": Cue("present", "before", 3, "+"), "-": Cue("absent", "before", 3, "-")}
_AFTER_SIGN = frozenset(",;.)/")
_TICKS = frozenset(("x", "+", "✓", "✔", "✗", "✘", "×", "☑", "☒"))
_LABEL = 5  # most words between the finding of a row and its tick
_HEADER = Cue("pseudo", "", None, "column")


def signs(text: str, layout: Layout) -> Iterator[Match]:
    """The signs of a line that has both: "+ cough, - fever", "Fieber +, Husten -", "+nausea -diarrhea".

    A sign acts on what follows it, or on what precedes it if a comma, a full stop or the end of the line follows. Lists
    with dashes alone have no signs, except one that answers a colon or fills a cell: "Fever: -".
    """
    words = layout.words
    for start, end in pairwise([*layout.breaks, len(words)]):
        found = {at: words[at].low for at in range(start, end) if words[at].low in _SIGNS}
        answers = {at for at in found if at > start and (words[at - 1].low == ":" or "\t" in _gap(text, layout, at))}
        glued = {at for at in found if at > start and words[at - 1].end == words[at].start} - answers
        found = {at: low for at, low in found.items() if at not in glued or words[at - 1].low in ("(", low)}
        both, last = len(set(found.values())) == len(_SIGNS), -1
        for at, sign in found.items():
            if at <= last:
                continue  # a member of a row of signs
            last = at
            while last + 1 < end and words[last + 1].low == sign:
                last += 1
            follows = last + 1 == end or words[last + 1].low in _AFTER_SIGN
            if both or (follows and at in answers):
                cue = _SIGNS[sign]._replace(side="after") if follows else _SIGNS[sign]
                yield Match(at, last + 1, (WordSpan(at, last + 1),), [cue])


def columns(text: str, layout: Layout) -> Iterator[Match]:
    """The ticks of a table whose header has an answer for each column: "Symptom, ja, nein"."""
    if "\t" not in text:
        return
    words, header = layout.words, dict[int, Cue]()
    for start, end in pairwise([*layout.breaks, len(words)]):
        column, behind, answers = 0, text.rfind("\n", 0, words[start].start) + 1, dict[int, int]()
        for at in range(start, end):
            column += text.count("\t", behind, words[at].start)
            behind = words[at].end
            if column:
                answers[at] = column
        if not answers or layout.lines[start] > 1:
            header = {}
        lows = {words[at].low for at in answers}
        if lows <= layout.rules.answers and not lows.isdisjoint(layout.rules.nothing) and len(lows) > 1:
            nothing = layout.rules.nothing
            header = {
                column: Cue("absent" if words[at].low in nothing else "present", "after", _LABEL, words[at].low)
                for at, column in answers.items()
            }
            yield Match(min(answers), end, (WordSpan(min(answers), end),), [_HEADER])
            continue
        for at, column in answers.items():
            if column in header and words[at].low in _TICKS:
                yield Match(at, at + 1, (WordSpan(at, at + 1),), [header[column]])


def _gap(text: str, layout: Layout, at: int) -> str:
    return text[layout.words[at - 1].end : layout.words[at].start]
