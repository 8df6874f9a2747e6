"""``medlink_mentions``: the mentions of a bundle's concepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from medlink.notes.learned import open_learned
from medlink.reading.abbreviations import of_doc
from medlink.reading.reader import ReadMention, TextReader
from medlink.spacy_components.component import Component, logger
from medlink.spacy_components.handover import hand_over
from medlink.spacy_components.options import MentionsOptions

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

    def __call__(self, doc: Doc) -> Doc:
        self._find([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the mentions of documents in batches: what several of them share is ranked once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self._find(batch)
            yield from batch

    def _find(self, docs: list[Doc]) -> None:
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
            known = [((span.start_char, span.end_char), one) for span, one in spans]
            hand_over(doc, self.bundle.manifest["hash"], self.language, known)
