"""Whether what is said of annotated findings is read right: presence, time and person, each by its values.

The findings are given by their places, so that only what is said of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import get_args

from medlink.evaluation.findings import GoldText
from medlink.evaluation.task import Row
from medlink.reading.status import StatusReader
from medlink.records import Experiencer, Presence, Qualifiers, Temporality

FIELDS: dict[str, tuple[str, ...]] = {
    "presence": get_args(Presence),
    "temporality": get_args(Temporality),
    "experiencer": get_args(Experiencer),
}
"""The values of each field, the usual one first."""
HEADING = "heading"
"""What is read as a part of a heading has no status."""
Said = dict[str, tuple[str, str]]
"""Value and cue of each field."""
Pairs = Counter[tuple[str, str]]
"""How often a value that is right is read as a value."""


def read_findings(reader: StatusReader, text: GoldText) -> list[Said]:
    """What a reader reads of each finding of a text; one in several pieces by the first that a cue speaks of."""
    note, pieces = reader.read(text.text), [piece for one in text.findings for piece in one.pieces]
    # of the whole note at once, for lists are made of mentions
    said = iter(zip(note.qualify(pieces), note.cues(pieces), strict=True))
    return [_read(list(islice(said, len(one.pieces)))) for one in text.findings]


def _read(said: list[tuple[Qualifiers | None, dict[str, str]]]) -> Said:
    found = {}
    for field in FIELDS:
        ways = [(getattr(one, field) if one else HEADING, cues.get(field, "")) for one, cues in said]
        found[field] = next((way for way in ways if way[1]), ways[0])
    return found


def value_rates(pairs: Pairs, value: str) -> tuple[float, float, float, int, int]:
    """Precision, recall and F1 of a value, how often it is right, and how often it was read."""
    right, should = pairs[value, value], sum(n for (one, _), n in pairs.items() if one == value)
    said = sum(n for (_, one), n in pairs.items() if one == value)
    return right / max(said, 1), right / max(should, 1), 2 * right / max(said + should, 1), should, said


def status_tables(pairs: Mapping[tuple[str, str], Pairs]) -> dict[str, list[Row]]:
    """Each value with its measures, and as what it was read, from the pairs of each language and field."""
    rates, confusion = list[Row](), list[Row]()
    for (language, field), own in sorted(pairs.items()):
        for value in FIELDS[field]:
            precision, recall, f1, should, said = value_rates(own, value)
            head = {"language": language, "field": field, "value": value}
            if should or said:
                rates.append({**head, "findings": should, "P": precision, "R": recall, "F1": f1})
            read = ((one, own[value, one]) for one in (*FIELDS[field], HEADING))
            confusion += [{**head, "read as": one, "findings": number} for one, number in read if number]
    return {"status": rates, "status as it was read": confusion}
