"""Signs, words and columns that answer for a finding: "+ cough, - fever", "Fever - N", tables of answers or persons."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from medlink.language.cues import Cue, Phrases, Reads, is_number
from medlink.reading.clauses import DASHES, PARAGRAPH, Layout, begins_item
from medlink.reading.matches import Match, WordSpan

_SIGNS = {"+": Cue("present", "before", 3, "+"), "-": Cue("absent", "before", 3, "-")}
_QUESTION = Cue("uncertain", "before", 4, "?")
_AFTER_SIGN = frozenset(",;.)/")
_CLOSING = frozenset(",;.")
_TICKS = frozenset(("x", "+", "✓", "✔", "✗", "✘", "×", "☑", "☒"))
_MARKS = frozenset((":", "=", *DASHES))  # between a question of a form and its answer
_CLOSED = frozenset(",;/()")
_ANSWERED = 4  # most words between a finding and the answer behind it
_LABEL = 5  # most words between the finding of a row and its tick
_HEADER = Cue("pseudo", "", None, "column")
_NOTHING = frozenset((*DASHES, "0"))
_HEAD = 4  # most words of the head of a column


def signs(text: str, layout: Layout) -> Iterator[Match]:
    """The signs of a line that has both: "+ cough, - fever", "Fieber +, Husten -", "+nausea -diarrhea".

    A sign acts on what follows it, or on what precedes it if a comma, a full stop or the end of the line follows, or if
    no blank is before it: "nausea+ vomiting-". Lists with dashes alone have no signs, except one that answers a colon
    or fills a cell: "Fever: -", and several behind commas: "- fever, - cough".
    """
    words, joins = layout.words, layout.rules.joins - _AFTER_SIGN
    for start, end in pairwise([*layout.breaks, len(words)]):
        found = {at: words[at].low for at in range(start, end) if words[at].low in _SIGNS}
        answers = {at for at in found if at > start and (words[at - 1].low == ":" or "\t" in _gap(text, layout, at))}
        glued = {at for at in found if at > start and words[at - 1].end == words[at].start} - answers
        ends = {
            at
            for at in glued
            if at + 1 == end or words[at].end < words[at + 1].start or words[at + 1].low in _AFTER_SIGN
        }
        # "head- and backache" has no signs
        joined = any(found[at] == "-" and at + 1 < end and words[at + 1].low in joins for at in ends)
        ends = ends if {found[at] for at in ends} == _SIGNS.keys() and not joined else set()
        glued -= ends
        found = {at: low for at, low in found.items() if at not in glued or words[at - 1].low in ("(", low)}
        # "clubbing -, weight loss -.": a minus before a comma in a row of such signs
        spaced = {at for at in found if at > start and words[at - 1].end < words[at].start and layout.plain[at - 1]}
        spaced = {at for at in spaced if at + 1 == end or words[at + 1].low in _CLOSING}
        answers |= spaced if any(at + 1 < end and words[at + 1].low == "," for at in spaced) else set()
        both, last = len(set(found.values())) == len(_SIGNS) or _is_list_of_denials(layout, start, list(found)), -1
        for at, sign in found.items():
            if at <= last:
                continue  # a member of a row of signs
            last = at
            while last + 1 < end and words[last + 1].low == sign:
                last += 1
            follows = last + 1 == end or words[last + 1].low in _AFTER_SIGN or at in ends
            if both or (follows and at in answers):
                cue = _SIGNS[sign]._replace(side="after") if follows else _SIGNS[sign]
                yield Match(at, last + 1, (WordSpan(at, last + 1),), [cue])


def _is_list_of_denials(layout: Layout, start: int, found: Sequence[int]) -> bool:
    """Whether each sign of a line is a minus before a word, the first at its start or a colon, the others at commas."""
    words = layout.words
    marks = [words[at - 1].low if at > start else ":" for at in found]
    named = all(
        words[at].low == "-" and at + 1 < len(words) and words[at + 1].low[:1].isalpha() and not layout.lines[at + 1]
        for at in found
    )
    return len(found) > 1 and named and marks == [":", *[","] * (len(found) - 1)]


def answers(layout: Layout) -> Iterator[Match]:
    """The answers of a form: "chest pain - N", "Diabetes: NO". A single letter is a capital.

    A mark, the end of the line or the next question follows.
    """
    words, rules = layout.words, layout.rules
    for at in layout.places_of(rules.affirmed | (rules.answers & rules.nothing)):
        word, behind = words[at], at + 1
        ends = behind == len(words) or layout.lines[behind] > 0
        if at < 2 or any(layout.lines[at - 1 : behind]) or words[at - 1].low not in _MARKS:
            continue
        is_joined = words[at - 1].low in DASHES and words[at - 2].end == words[at - 1].start  # "Nicht-Raucher"
        if is_joined or (len(word.low) == 1 and not word.text.isupper()):
            continue
        if not ends and words[behind].low == ".":
            ends = (
                len(word.low) > 1 or layout.begins_line(at + 2) or at + 2 == len(words) or begins_item(layout, at + 2)
            )
        if ends or words[behind].low in _CLOSED:
            reads: Reads = "present" if word.low in rules.affirmed else "absent"
            yield Match(at - 1, behind, (WordSpan(at - 1, behind),), [Cue(reads, "after", _ANSWERED, word.low)])


def questions(layout: Layout) -> Iterator[Match]:
    """Question marks before what is asked, at the start of a line or behind a mark: "PVCs, ? short run of VT"."""
    words = layout.words
    for at in layout.places.get("?", ()):
        opens = at == 0 or layout.lines[at] or (words[at - 1].is_mark and words[at - 1].end < words[at].start)
        if opens and at + 1 < len(words) and layout.plain[at + 1]:
            yield Match(at, at + 1, (WordSpan(at, at + 1),), [_QUESTION])


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


def person_columns(text: str, layout: Layout, relatives: Phrases[str]) -> Iterator[Match]:
    """The rows of a table with a column for each person or visit: "Symptom | Patient | Brother".

    The cell of the patient, or of the last visit, answers for the finding of its row; other cells have no effect.
    """
    words, rules, breaks, last = layout.words, layout.rules, [*layout.breaks, len(layout.words)], -1
    answers = rules.answers | rules.nothing | _SIGNS.keys() | _TICKS | _NOTHING
    for place in layout.places_of(rules.patients | rules.visits):
        line = bisect_right(breaks, place) - 1
        if line <= last:
            continue
        last, header = line, _cells(text, layout, *breaks[line : line + 2])
        if line + 2 < len(breaks) and len(_cells(text, layout, *breaks[line + 1 : line + 3])) == len(header) + 1:
            header = [[], *header]  # the first head is empty
        rows, column = [header], _column(layout, relatives, header)
        while column and last + 2 < len(breaks) and layout.lines[breaks[last + 1]] != PARAGRAPH:
            row = _cells(text, layout, *breaks[last + 1 : last + 3])
            if len(row) != len(rows[0]):
                break
            rows.append(row)
            last += 1
        read = [words[row[column][0]].low if row[column] else "" for row in rows]
        for at, (row, answer) in enumerate(zip(rows, read, strict=True) if answers.intersection(read[1:]) else ()):
            end = breaks[line + at + 1]
            first = min((place for cell in row[1:] for place in cell), default=end - 1)
            is_absent = answer in _NOTHING or answer in rules.nothing
            reads: Reads = "absent" if is_absent else "uncertain" if answer == "?" else "present"
            cue = Cue(reads, "after", _LABEL, "column") if at and answer else _HEADER
            yield Match(first, end, (WordSpan(first, end),), [cue])


def _cells(text: str, layout: Layout, start: int, end: int) -> list[list[int]]:
    """The words of each cell of a line: cells end at a bar, else at a tab, else at several blanks."""
    cells, words = [list[int]()], layout.words
    bars, framed = any(words[at].low == "|" for at in range(start, end)), words[start].low == "|"
    for at in range(start, end):
        if words[at].low == "|":
            cells += [[]] if at > start and (at + 1 < end or not framed) else []
            continue
        gap = "" if bars or at == start else _gap(text, layout, at)
        cells += [[] for _ in range(gap.count("\t") or int("  " in gap))]
        cells[-1].append(at)
    return cells


def _column(layout: Layout, relatives: Phrases[str], cells: Sequence[Sequence[int]]) -> int:
    """The column that tells of the patient now, by the header of a table; 0 for none."""
    words, rules = layout.words, layout.rules
    heads = [[words[at].low for at in cell if layout.plain[at]] for cell in cells[1:]]
    if len(heads) < 2 or not all(0 < len(head) <= _HEAD for head in heads):
        return 0
    if all(rules.visits.intersection(head) or is_number(head[0]) for head in heads):
        return len(heads)
    others = [any(any(relatives.at(words, at)) for at in cell) for cell in cells[1:]]
    patients = [  # "Kind" and "child" are relatives elsewhere
        column
        for column, (head, other) in enumerate(zip(heads, others, strict=True))
        if rules.patients.issuperset(head) or not (other or rules.patients.isdisjoint(head))
    ]
    known = all(other or column in patients for column, other in enumerate(others))
    return patients[0] + 1 if known and len(patients) == 1 else 0


def _gap(text: str, layout: Layout, at: int) -> str:
    return text[layout.words[at - 1].end : layout.words[at].start]
