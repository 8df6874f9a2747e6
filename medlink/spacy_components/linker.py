"""``biolord_linker``: mentions of a pipeline to concepts of a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab

from medlink.errors import ConfigError
from medlink.linking import Linker, Mention
from medlink.records import Link
from medlink.spacy_components.abbreviations import Abbreviations
from medlink.spacy_components.factories import SPANS_KEY
from medlink.spacy_components.settings import Component

NIL = "NIL"
"""``kb_id_`` of a mention that no concept fits, as in spaCy's own entity linker."""

_AROUND = 200  # characters of context on each side
Place = tuple[int, int]  # token offsets


class BiolordLinker(Component):
    """Link entities and spans to concepts.

    Sets ``kb_id_`` of every linked span, ``span._.kb_ents`` (id and score of the candidates that reach the threshold,
    as scispaCy's linker does) and ``span._.medlink`` (the whole :class:`~medlink.records.Link` as plain data).

    Args:
        vocab: vocabulary of the pipeline.
        name: name of the component.
        bundle: folder of the bundle; default ``MEDLINK_BUNDLE``, else the demo bundle.
        k: candidates kept for each mention.
        threshold: score below which a mention is NIL.
        language: language of the notes; default that of the pipeline.
        languages, sources, semantic_types: restrict the names that may be candidates.
        abbreviations: link an abbreviation that the note explains as its long form.
        spans_key: span group to link; by default the entities, and the group ``medlink`` where there is one.

    Raises:
        ConfigError: a value is out of range, or a filter names what the bundle does not have.
    """

    def __init__(
        self,
        vocab: Vocab,
        name: str = "biolord_linker",
        *,
        bundle: str | None = None,
        k: int = 5,
        threshold: float = 0.5,
        language: str | None = None,
        languages: Iterable[str] = (),
        sources: Iterable[str] = (),
        semantic_types: Iterable[str] = (),
        abbreviations: bool = True,
        spans_key: str | None = None,
    ) -> None:
        if k < 1:
            raise ConfigError(f"{name}: k is {k}, at least 1 expected")
        super().__init__(
            vocab,
            name,
            bundle=bundle,
            k=k,
            threshold=threshold,
            language=language,
            languages=sorted(languages),
            sources=sorted(sources),
            semantic_types=sorted(semantic_types),
            abbreviations=abbreviations,
            spans_key=spans_key,
        )
        self.linker = Linker(
            self.bundle,
            threshold=threshold,
            language=self.language,
            languages=self.settings["languages"],
            sources=self.settings["sources"],
            semantic_types=self.settings["semantic_types"],
        )
        self._abbreviations = Abbreviations(vocab) if abbreviations else None
        for extension in ("kb_ents", "medlink"):
            if not Span.has_extension(extension):
                Span.set_extension(extension, default=None)

    def __call__(self, doc: Doc) -> Doc:
        self.set_annotations([doc], self.predict([doc]))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Link documents in batches: a mention that several of them share is linked once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self.set_annotations(batch, self.predict(batch))
            yield from batch

    def predict(self, docs: Iterable[Doc]) -> list[dict[Place, Link]]:
        """Links of each document by the token offsets of their mentions; the documents stay as they are."""
        places: list[list[Place]] = []
        mentions: list[Mention] = []
        contexts: list[str] = []
        for doc in docs:
            text = doc.text  # made anew by spaCy at every call
            long_forms = self._abbreviations.long_forms(doc) if self._abbreviations is not None else {}
            found = sorted({(span.start, span.end) for span in self._spans(doc)})
            places.append(found)
            for start, end in found:
                span = doc[start:end]
                mentions.append(Mention(span.text, self.language, long_forms.get((start, end))))
                contexts.append(text[max(0, span.start_char - _AROUND) : span.end_char + _AROUND])
        links = iter(self.linker.link(mentions, contexts, k=self.settings["k"]))
        return [{place: next(links) for place in found} for found in places]

    def set_annotations(self, docs: Iterable[Doc], links: list[dict[Place, Link]]) -> None:
        """Write the links of :meth:`predict`."""
        for doc, found in zip(docs, links, strict=True):
            if self.settings["spans_key"] is None:
                doc.set_ents([self._linked(span, found) for span in doc.ents], default="unmodified")
            for key in self._keys(doc):
                old = doc.spans[key]
                linked = [self._linked(span, found) for span in old]
                doc.spans[key] = SpanGroup(doc, name=key, attrs=dict(old.attrs), spans=linked)

    def _keys(self, doc: Doc) -> list[str]:
        key = self.settings["spans_key"]
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
        return spans if self.settings["spans_key"] is not None else [*spans, *doc.ents]

    def _linked(self, span: Span, links: dict[Place, Link]) -> Span:
        link = links[span.start, span.end]
        out = Span(span.doc, span.start, span.end, label=span.label, kb_id=link.concept_id or NIL, span_id=span.id)
        reached: list[Any] = [(c.concept_id, c.score) for c in link.candidates if c.score >= self.settings["threshold"]]
        out._.kb_ents = reached
        out._.medlink = link.to_dict()
        return out
