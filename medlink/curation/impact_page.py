"""The page of what a new release changes in links: a row for each change, however many links have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from medlink.curation.page import json_list, short, to_json, write_page

if TYPE_CHECKING:
    from medlink.curation.impact import Impact

_SHOWN = 12  # texts, and as many notes, of a change that the page shows
_FIELDS = (
    "result", "reason", "concept_id", "preferred_name", "score", "new_concept_id", "new_preferred_name", "new_score",
    "replaced_by", "how", "links", "notes", "texts", "more_texts", "some_notes",
)  # fmt: skip


@dataclass(slots=True)
class _Group:
    """Links that change in one way: the first of them, how many there are, and what some of them are."""

    first: Impact
    links: int = 0
    score: float = 0.0
    new_score: float = 0.0
    texts: Counter[str] = field(default_factory=Counter)
    other_texts: int = 0
    notes: list[str] = field(default_factory=list)
    note_count: int = 0
    last_note: str = ""


class Groups:
    """Links by what becomes of them: memory grows with the different changes."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _Group] = {}

    def add(self, one: Impact) -> None:
        """Take in a link; those of one note stand together."""
        key = (one.result, one.reason, one.concept_id, one.new_concept_id or one.new_preferred_name)
        group = self._groups.setdefault(key, _Group(one))
        group.links += 1
        group.score += one.score
        group.new_score += one.new_score or 0.0
        if one.text in group.texts or len(group.texts) < _SHOWN:
            group.texts[one.text] += 1
        else:
            group.other_texts += 1
        if not group.note_count or one.note != group.last_note:
            group.note_count += 1
            group.last_note = one.note
            if len(group.notes) < _SHOWN:
                group.notes.append(one.note)

    def rows(self) -> Iterator[list[Any]]:
        """A row for each change, the most frequent first; scores are means."""
        for group in sorted(self._groups.values(), key=lambda one: (-one.links, one.first.concept_id)):
            first = group.first
            yield [
                *(first.result, first.reason, first.concept_id, first.preferred_name, short(group.score / group.links)),
                *(first.new_concept_id, first.new_preferred_name),
                None if first.new_score is None else short(group.new_score / group.links),
                *(first.replaced_by, first.how, group.links, group.note_count),
                [text for text, _ in group.texts.most_common()],
                *(group.other_texts, group.notes),
            ]


def write_impact(path: str | PathLike[str], groups: Groups, report: dict[str, Any], releases: Sequence[str]) -> None:
    """Write the page; it appears under its name when it is complete.

    Args:
        path: the HTML file to write; an existing one is replaced.
        groups: the changes.
        report: the counts, as plain data of :class:`~medlink.curation.impact.ImpactReport`.
        releases: what the old and the new bundle hold.

    Raises:
        ConfigError: the file cannot be written.
    """

    def data() -> Iterator[str]:
        yield to_json({"fields": _FIELDS, "report": report, "releases": list(releases)})[:-1] + ',"changes":'
        yield from json_list(groups.rows())
        yield "}"

    write_page(path, "impact", ("page.js",), "What the new release changes", data())
