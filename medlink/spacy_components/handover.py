"""What ``medlink_mentions`` found, as plain data in a document: ``biolord_linker`` behind it judges nothing again.

It travels with the document, between processes and to disk, until the linker takes it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spacy.tokens import Doc

from medlink.linking import Mention
from medlink.reading.finder import FoundMention, around
from medlink.reading.protocols import Span
from medlink.reading.reader import ReadMention
from medlink.records import Attribute, Qualifiers, Value

_KEY = ("medlink", "mentions")


def hand_over(doc: Doc, bundle: str, language: str, found: Sequence[tuple[Span, ReadMention]]) -> None:
    """Put mentions into a document, by the characters of their spans; ``bundle`` is the hash of its content."""
    held: dict[Any, Any] = doc.user_data
    held[_KEY] = {"bundle": bundle, "language": language, "mentions": [[*span, _plain(one)] for span, one in found]}


def take_over(doc: Doc, bundle: str, language: str) -> dict[Span, ReadMention]:
    """Take the mentions out of a document; none where they are of another bundle or language."""
    user_data: dict[Any, Any] = doc.user_data
    held = user_data.pop(_KEY, None)
    if held is None or (held["bundle"], held["language"]) != (bundle, language):
        return {}
    text = doc.text  # which spaCy puts together anew each time
    return {(start, end): _mention(text, plain, language) for start, end, plain in held["mentions"]}


def _plain(one: ReadMention) -> dict[str, Any]:
    found, mention = one.found, one.found.mention
    return {
        "span": [found.start, found.end],
        "text": mention.text,
        "expanded": mention.expanded,
        "likely": mention.likely,
        "learned": mention.taught,
        "value": None if found.value is None else found.value.to_dict(),
        "attributes": None if found.attributes is None else [asdict(attribute) for attribute in found.attributes],
        "discontinuous": found.discontinuous,
        "qualifiers": None if one.qualifiers is None else asdict(one.qualifiers),
    }


def _mention(text: str, plain: dict[str, Any], language: str) -> ReadMention:
    start, end = plain["span"]
    mention = Mention(plain["text"], language, plain["expanded"], likely=plain["likely"], taught=plain["learned"])
    value, attributes, qualifiers = plain["value"], plain["attributes"], plain["qualifiers"]
    found = FoundMention(
        start,
        end,
        mention,
        around(text, start, end),
        None if value is None else Value(**value),
        None if attributes is None else tuple([Attribute(**attribute) for attribute in attributes]),
        plain["discontinuous"],
    )
    return ReadMention(found, None if qualifiers is None else Qualifiers(**qualifiers))
