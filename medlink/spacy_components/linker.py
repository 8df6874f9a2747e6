"""``biolord_linker``: mentions of a pipeline to concepts of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab

from medlink.errors import ConfigError
from medlink.linking import Linker
from medlink.notes.options import for_linker
from medlink.notes.writers.protocol import LinkedMention
from medlink.reading.abbreviations import of_doc
from medlink.reading.options import FinderOptions
from medlink.reading.protocols import Span as Characters
from medlink.reading.reader import ReadMention, TextReader
from medlink.records import attributed, qualified, valued
from medlink.spacy_components.component import Component
from medlink.spacy_components.mentions import take_over
from medlink.spacy_components.options import SPANS_KEY, LinkerOptions

Place = tuple[int, int]
"""The first token of a span and the one behind its last."""
NIL = "NIL"
"""``kb_id_`` of a mention that no concept fits, as in spaCy's own entity linker."""


def _extend(name: str, read: Callable[[Any], Any]) -> None:
    """Add ``span._.name``, kept where spaCy keeps it, unless another component did so before.

    What is kept comes back through ``read``: on the way between processes and to disk spaCy makes lists of tuples, or
    tuples of lists.
    """
    if not Span.has_extension(name):
        Span.set_extension(name, getter=partial(_get, name, read), setter=partial(_put, name))


def _get(name: str, read: Callable[[Any], Any], span: Span) -> Any:
    held: dict[Any, Any] = span.doc.user_data
    found = held.get(("._.", name, span.start_char, span.end_char))
    return None if found is None else read(found)


def _put(name: str, span: Span, value: Any) -> None:
    held: dict[Any, Any] = span.doc.user_data
    held["._.", name, span.start_char, span.end_char] = value


def _pairs(found: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Candidates as scispaCy gives them."""
    return [tuple(pair) for pair in found]


def _plain(found: Any) -> Any:
    """Data as JSON has it."""
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    return [_plain(value) for value in found] if isinstance(found, list | tuple) else found


class BiolordLinker(Component):
    """Link entities and spans to concepts.

    Sets ``kb_id_`` of every linked span, ``span._.kb_ents`` (id and score of the candidates that reach the threshold,
    as scispaCy's linker does) and ``span._.medlink`` (the whole :class:`~medlink.records.Link` with its
    :class:`~medlink.records.Qualifiers`, attributes and value, as plain data). Options are the fields of
    :class:`~medlink.spacy_components.options.LinkerOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names what the bundle does not have.
    """

    def __init__(self, vocab: Vocab, name: str = "biolord_linker", **options: Any) -> None:
        self.options = LinkerOptions(**options)
        super().__init__(vocab, name, self.options)
        self.linker = Linker(self.bundle, **for_linker(self.options, self.language))
        of_reader = FinderOptions(abbreviations=self.options.abbreviations, qualifiers=self.options.qualifiers)
        self._reader = TextReader(self.bundle, self.language, of_reader, linker=self.linker)
        _extend("kb_ents", _pairs)
        _extend("medlink", _plain)

    def _annotate(self, docs: Sequence[Doc]) -> None:
        self.set_annotations(docs, self.predict(docs))

    def predict(self, docs: Sequence[Doc]) -> list[dict[Place, LinkedMention]]:
        """Links of each document by the token offsets of their mentions; the documents stay as they are.

        What ``medlink_mentions`` found is linked as it was judged there; other spans are judged by their text.
        """
        places = [{(span.start, span.end): (span.start_char, span.end_char) for span in self._spans(d)} for d in docs]
        known = [self._handed_over(doc) for doc in docs]
        new = [at for at, held in enumerate(places) if not set(held.values()) <= known[at].keys()]
        texts, spans = [docs[at].text for at in new], [sorted(set(places[at].values())) for at in new]
        judged = self._reader.judge(texts, spans, [of_doc(docs[at]) for at in new])
        for at, own, read in zip(new, spans, judged, strict=True):
            known[at] = dict(zip(own, read, strict=True)) | known[at]
        ordered = [
            [(place, read[span]) for place, span in sorted(of.items())] for of, read in zip(places, known, strict=True)
        ]
        found = [one.found for of in ordered for _, one in of]
        links = iter(self.linker.link([one.mention for one in found], [one.context for one in found]))
        return [{at: LinkedMention.of(one, next(links)) for at, one in of} for of in ordered]

    def _handed_over(self, doc: Doc) -> dict[Characters, ReadMention]:
        """What ``medlink_mentions`` found, as far as it was judged with the options of this component."""
        known = take_over(doc, self.bundle.manifest["hash"], self.language)
        if self.options.abbreviations == "none":
            known = {at: one for at, one in known.items() if one.found.mention.expanded is None or one.found.value}
        if not self.options.qualifiers:
            known = {at: replace(one, qualifiers=None) for at, one in known.items()}
        return known

    def set_annotations(self, docs: Iterable[Doc], links: list[dict[Place, LinkedMention]]) -> None:
        """Write the links of :meth:`predict`."""
        for doc, found in zip(docs, links, strict=True):
            if self.options.spans_key is None:
                doc.set_ents([self._linked(span, found) for span in doc.ents], default="unmodified")
            for key in self._keys(doc):
                old = doc.spans[key]
                linked = [self._linked(span, found) for span in old]
                doc.spans[key] = SpanGroup(doc, name=key, attrs=dict(old.attrs), spans=linked)

    def _keys(self, doc: Doc) -> list[str]:
        key = self.options.spans_key
        if key is None:
            return [SPANS_KEY] if SPANS_KEY in doc.spans else []
        if key not in doc.spans:
            message = f"{self.name}: the document has no span group {key!r}"
            remedy = f"put the component that writes it before {self.name}, or leave spans_key out"
            raise ConfigError(message, remedy=remedy)
        return [key]

    def _spans(self, doc: Doc) -> list[Span]:
        spans = [span for key in self._keys(doc) for span in doc.spans[key]]
        return spans if self.options.spans_key is not None else [*spans, *doc.ents]

    def _linked(self, span: Span, links: dict[Place, LinkedMention]) -> Span:
        mention = links[span.start, span.end]
        link = mention.link
        out = Span(span.doc, span.start, span.end, label=span.label, kb_id=link.concept_id or NIL, span_id=span.id)
        out._.kb_ents = [(c.concept_id, c.score) for c in link.candidates if c.score >= self.options.threshold]
        out._.medlink = (
            link.to_dict() | qualified(mention.qualifiers) | attributed(mention.attributes) | valued(mention.value)
        )
        return out
