"""``medlink_mentions``: mentions by longest match with the names of a bundle."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from medlink.language.languages import stop_words
from medlink.notes.abbreviations import detector
from medlink.notes.finder import MentionFinder
from medlink.notes.status import is_kept, status_reader
from medlink.spacy_components.component import HANDED, Component, Handed
from medlink.spacy_components.options import MentionsOptions

LABEL = "MENTION"


class MedlinkMentions(Component):
    """Find the names of a bundle in running text, inflected forms included; any pipeline with a tokeniser will do.

    Writes ``doc.spans[spans_key]`` and, when ``doc.ents`` is empty, ``doc.ents``. At each place the longest name wins.
    Headings are no mentions; with ``present_only`` neither is what is absent, uncertain, hypothetical or of others.
    Options are the fields of :class:`~medlink.spacy_components.options.MentionsOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names what the bundle does not have.
    """

    def __init__(self, vocab: Vocab, name: str = "medlink_mentions", **options: Any) -> None:
        self.options = MentionsOptions(**options)
        super().__init__(vocab, name, self.options)
        self._finder = MentionFinder(self.bundle.index, self.language, stop_words(vocab.lang), self.options)
        self._long_forms = detector(self.options.abbreviations, vocab)
        present_only = self.options.present_only
        self._status = status_reader(self.language, present_only=present_only) if self.options.qualifiers else None

    def __call__(self, doc: Doc) -> Doc:
        long_forms = None if self._long_forms is None else self._long_forms(doc)
        found = self._finder.find(doc, long_forms or ())
        spans = [Span(doc, start, end, label=LABEL) for start, end in found]
        note = None if self._status is None else self._status.read(doc.text)
        if note is not None:
            said = note.said_of([(span.start_char, span.end_char) for span in spans])
            spans = [s for s, q in zip(spans, said, strict=True) if is_kept(q, present_only=self.options.present_only)]
        doc.spans[self.options.spans_key] = spans
        if not doc.ents:
            doc.set_ents(spans)
        HANDED[doc] = Handed(self.bundle, self.language, found, long_forms, note)
        return doc
