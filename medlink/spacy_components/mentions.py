"""``medlink_mentions``: the mentions of a bundle's concepts.

What it found travels as plain data with the document, between processes and to disk, until ``biolord_linker`` takes it
out and judges nothing again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from medlink.linking import Mention
from medlink.notes.learned import open_learned
from medlink.reading.abbreviations import of_doc
from medlink.reading.protocols import Span as Characters
from medlink.reading.reader import FoundMention, ReadMention, TextReader, around
from medlink.records import Attribute, Qualifiers, Value
from medlink.spacy_components.component import Component, logger
from medlink.spacy_components.options import MentionsOptions

_KEY = ("medlink", "mentions")
LABEL = "MENTION"


class MedlinkMentions(Component):
    """Find mentions of the concepts of a bundle in running text; any pipeline with a tokeniser will do.

    Writes ``doc.spans[spans_key]`` and, when ``doc.ents`` is empty, ``doc.ents``. Mentions do not overlap. Headings are
    no mentions; with ``present_only`` neither is what is absent, uncertain, hypothetical or of others.
    Options are the fields of :class:`~medlink.spacy_components.options.MentionsOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names what the bundle does not have.
    """

    def __init__(self, vocab: Vocab, name: str = "medlink_mentions", **options: Any) -> None:
        self.options = MentionsOptions(**options)
        super().__init__(vocab, name, self.options)
        learned = None if self.options.learned is None else open_learned(self.options.learned, self.bundle)
        for sentence in () if learned is None else learned.gaps():
            logger.warning("%s: %s", name, sentence)
        self._reader = TextReader(self.bundle, self.language, self.options, learned=learned)

    def _annotate(self, docs: Sequence[Doc]) -> None:
        texts = [doc.text for doc in docs]
        for doc, found in zip(docs, self._reader.read(texts, [of_doc(doc) for doc in docs]), strict=True):
            spans, behind = list[tuple[Span, ReadMention]](), 0
            for one in found:
                span = doc.char_span(one.found.start, one.found.end, LABEL, alignment_mode="expand")
                if span is not None and span.start >= behind:  # two mentions may share a token
                    spans.append((span, one))
                    behind = span.end
            doc.spans[self.options.spans_key] = [span for span, _ in spans]
            if not doc.ents:
                doc.set_ents([span for span, _ in spans])
            held: dict[Any, Any] = doc.user_data
            known = [[span.start_char, span.end_char, _plain(one)] for span, one in spans]
            held[_KEY] = {"bundle": self.bundle.manifest["hash"], "language": self.language, "mentions": known}


def take_over(doc: Doc, bundle: str, language: str) -> dict[Characters, ReadMention]:
    """Take the mentions out of a document; none where they are of another bundle or language."""
    user_data: dict[Any, Any] = doc.user_data
    held = user_data.pop(_KEY, None)
    if held is None or (held["bundle"], held["language"]) != (bundle, language):
        return {}
    text = doc.text  # which spaCy puts together anew each time
    return {(start, end): _mention(text, plain, language) for start, end, plain in held["mentions"]}


def _plain(one: ReadMention) -> dict[str, Any]:
    # neither what the dictionary has of it nor the text around it
    mention = replace(one.found.mention, found=None)
    return asdict(replace(one, found=replace(one.found, mention=mention, context="")))


def _mention(text: str, plain: dict[str, Any], language: str) -> ReadMention:
    found, qualifiers = plain["found"], plain["qualifiers"]
    attributes = found["attributes"]
    found = found | {
        "mention": Mention(**found["mention"] | {"language": language}),
        "context": around(text, found["start"], found["end"]),
        "value": found["value"] and Value(**found["value"]),
        "attributes": None if attributes is None else tuple([Attribute(**one) for one in attributes]),
    }
    return ReadMention(FoundMention(**found), qualifiers and Qualifiers(**qualifiers))
