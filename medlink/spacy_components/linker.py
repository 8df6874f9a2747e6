"""``biolord_linker``: mentions of a pipeline to concepts of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab

from medlink.errors import ConfigError
from medlink.linking import Linker
from medlink.notes.options import for_linker
from medlink.notes.writers.protocol import LinkedMention
from medlink.reading.abbreviations import LongForms, Place, detector
from medlink.reading.choice import Found
from medlink.reading.finder import Described, Mentions, describe
from medlink.reading.status import ReadNote, status_reader
from medlink.reading.values import as_measured
from medlink.records import Attribute, Qualifiers, attributed, qualified, valued
from medlink.spacy_components.component import HANDED, Component
from medlink.spacy_components.options import SPANS_KEY, LinkerOptions

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
        self._long_forms = detector(self.options.abbreviations, vocab)
        self._status = status_reader(self.language) if self.options.qualifiers else None
        _extend("kb_ents", _pairs)
        _extend("medlink", _plain)

    def __call__(self, doc: Doc) -> Doc:
        self.set_annotations([doc], self.predict([doc]))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Link documents in batches: a mention that several of them share is linked once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self.set_annotations(batch, self.predict(batch))
            yield from batch

    def predict(self, docs: Iterable[Doc]) -> list[dict[Place, LinkedMention]]:
        """Links of each document by the token offsets of their mentions; the documents stay as they are."""
        described: list[dict[Place, Described]] = []
        qualifiers: list[Qualifiers | None] = []
        attributes: list[tuple[Attribute, ...] | None] = []
        for doc in docs:
            text = doc.text  # made anew by spaCy at every call
            known, long_forms, note = self._known(doc, text)
            places = sorted({(span.start, span.end) for span in self._spans(doc)})
            found = {
                at: describe(doc, text, at, self.language, known.get(at) or Found(expanded=long_forms.get(at)))
                for at in places
            }
            at_characters = [(one.start, one.end) for one in found.values()]
            loose = [(one.start, one.end) for at, one in found.items() if at in known and known[at].loose]
            said: Sequence[Qualifiers | None] = (
                [None] * len(found) if note is None else note.qualifiers(at_characters, loose)
            )
            qualifiers += as_measured(said, (one.value for one in found.values()))
            attributes += [known[at].attributes if at in known else None for at in found]
            described.append(found)
        mentions = [one for found in described for one in found.values()]
        links = self.linker.link([m.mention for m in mentions], [m.context for m in mentions])
        linked = zip(links, qualifiers, attributes, strict=True)
        return [
            {at: LinkedMention(m.start, m.end, *next(linked), m.value) for at, m in found.items()}
            for found in described
        ]

    def _known(self, doc: Doc, text: str) -> tuple[Mentions, LongForms, ReadNote | None]:
        """What mentions name, the long forms of abbreviations, and the note: what the finder handed on, else read."""
        handed = HANDED.pop(doc, None)
        of_mine = handed is not None and (handed.bundle, handed.language) == (self.bundle, self.language)
        found = handed.found if handed and of_mine else {}
        note = None
        if self._status is not None:
            note = handed.note if handed and handed.note and of_mine else self._status.read(text)
        if self._long_forms is None:
            # what was judged by its long form is not what is linked
            plain = {
                at: Found(one.match, attributes=one.attributes, loose=one.loose)
                if one.expanded and one.value is None
                else one
                for at, one in found.items()
            }
            return plain, {}, note
        long_forms = handed.long_forms if handed else None
        return found, self._long_forms(doc) if long_forms is None else long_forms, note

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
            raise ConfigError(
                f"{self.name}: the document has no span group {key!r}",
                remedy=f"put the component that writes it before {self.name}, or leave spans_key out",
            )
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
