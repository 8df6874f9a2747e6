"""Decisions as training pairs, and as annotated notes that ``medlink evaluate notes`` reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from medlink.curation.work import CLUSTER, Work
from medlink.errors import InputError
from medlink.files.escapes import visible
from medlink.files.folders import StrPath
from medlink.files.json import json_line
from medlink.files.whole import whole_text
from medlink.kb import KnowledgeBase
from medlink.kb.decided import ACCEPT, MENTION, NONE, NOTE, REJECT, Decision

PAIRS = ("text_1", "text_2", "score", "id_1", "id_2")
"""Columns of rated pairs as ``medlink train`` reads them."""
_AGAIN = "decide about mentions first"


def write_pairs(path: StrPath, rows: Iterable[Decision], work: Work, kb: KnowledgeBase) -> int:
    """Write pairs of a reviewed name and the name of a concept; returns their number.

    A pair with the accepted concept has the score 1. One with a concept that was offered and not taken has 0, unless
    it is the same in another source. ``id_1`` is the concept of the name, empty where it has none.

    Raises:
        InputError: nothing was decided that gives a pair.
        ConfigError: the file cannot be written.
    """
    offered = _offered(work)
    pairs: dict[tuple[str, str, int, str, str], None] = {}
    for row in rows:
        if row.decision not in (ACCEPT, NONE):
            continue
        others = [row.proposed] * bool(row.proposed) + [one for one, _ in offered.get(row.place, ())]
        same = {twin for one, twins in offered.get(row.place, ()) if one == row.concept_id for twin in twins}
        wrong = [one for one in dict.fromkeys(others) if one != row.concept_id and one not in same]
        right = [row.concept_id] if row.decision == ACCEPT else []
        names = kb.preferred_names([*right, *wrong], row.language or None)
        for concept in (*right, *wrong):
            name = names.get(concept, "")
            if name and (concept in right or name != row.term):
                pairs[row.term, " ".join(name.split()), int(concept in right), row.concept_id, concept] = None
    if not pairs:
        raise InputError("no decision gives a training pair", path=work.path, remedy=_AGAIN)
    with whole_text(path, "the pairs") as file:
        file.write("\t".join(PAIRS) + "\n")
        file.writelines("\t".join(map(str, pair)) + "\n" for pair in pairs)
    return len(pairs)


def write_gold(path: StrPath, rows: Iterable[Decision], work: Work) -> int:
    """Write the notes with what was decided in them, a line for each; returns their number.

    Notes about which nothing was decided are left out. A note is ``complete`` where a reader said that all of it is
    annotated. Whether a finding is present was not decided, and is not said.

    Raises:
        InputError: the work has no notes, nothing was decided about a mention of them, or other words stand there.
        ConfigError: the file cannot be written.
    """
    if work.kind != MENTION:
        remedy = "give links of notes, and the notes"
        raise InputError(f"{work.kind}s are no gold for notes", path=work.path, remedy=remedy)
    by_note: defaultdict[str, list[Decision]] = defaultdict(list)
    for row in rows:
        if row.kind in (MENTION, NOTE):
            by_note[row.item].append(row)
    items, languages = work.items, work.languages
    decided = [(items[item], found) for item, found in by_note.items() if item in items]
    if not any(_findings(found) for _, found in decided):
        raise InputError("nothing was decided about a mention of these notes", path=work.path, remedy=_AGAIN)
    with whole_text(path, "the gold") as file:
        for note, found in decided:
            line = {
                "id": note.note_id,
                "text": note.text,
                "language": languages.get(found[0].item) or note.language or "",
                "complete": any(row.kind == NOTE for row in found),
                "findings": _findings(found),
            }
            file.write(visible(json_line(line).rstrip("\n")) + "\n")
    return len(decided)


def _findings(rows: Sequence[Decision]) -> list[dict[str, list[list[int]] | list[str]]]:
    found = sorted((row for row in rows if row.kind == MENTION and row.decision != REJECT), key=lambda row: row.place)
    return [
        {"pieces": [[row.start, row.end]], "concepts": [row.concept_id] if row.decision == ACCEPT else []}
        for row in found
    ]


def _offered(work: Work) -> Mapping[tuple[str, str, int, int], list[tuple[str, list[str]]]]:
    if work.kind == CLUSTER:
        return {}
    return {
        (work.kind, row["item"], row.get("start", 0), row.get("end", 0)): [
            (one["concept_id"], one["same_as"]) for one in row["candidates"]
        ]
        for _, row in work.rows
    }
