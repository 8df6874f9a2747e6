"""``medlink_mentions``: the mentions of a bundle's concepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from medlink.notes.learned import open_learned
from medlink.reading.abbreviations import detector
from medlink.reading.finder import MentionFinder
from medlink.reading.status import is_kept, status_reader
from medlink.reading.values import as_measured
from medlink.spacy_components.component import HANDED, Component, Handed, logger
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
        self._finder = MentionFinder(self.bundle, self.language, self.options, learned=learned)
        self._long_forms = detector(self.options.abbreviations, vocab)
        present_only = self.options.present_only
        self._status = status_reader(self.language, present_only=present_only) if self.options.qualifiers else None

    def __call__(self, doc: Doc) -> Doc:
        self._find([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the mentions of documents in batches: what several of them share is looked at once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self._find(batch)
            yield from batch

    def _find(self, docs: list[Doc]) -> None:
        long_forms = None if self._long_forms is None else [self._long_forms(doc) for doc in docs]
        everything = self._finder.find(docs, long_forms or [{}] * len(docs))
        for number, (doc, found) in enumerate(zip(docs, everything, strict=True)):
            spans = [Span(doc, start, end, label=LABEL) for start, end in found]
            note = None if self._status is None else self._status.read(doc.text)
            if note is not None:
                places = [(span.start_char, span.end_char) for span in spans]
                loose = {place for place, known in zip(places, found.values(), strict=True) if known.loose}
                said = note.said_of(places, loose)
                kept = zip(spans, as_measured(said, (one.value for one in found.values())), strict=True)
                spans = [span for span, q in kept if is_kept(q, present_only=self.options.present_only)]
            doc.spans[self.options.spans_key] = spans
            if not doc.ents:
                doc.set_ents(spans)
            explained = None if long_forms is None else long_forms[number]
            HANDED[doc] = Handed(self.bundle, self.language, found, explained, note)
