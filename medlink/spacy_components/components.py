"""``medlink_mentions``, the mentions of a bundle's concepts, and ``biolord_linker``, mentions to concepts.

What the first found travels as plain data with the document, between processes and to disk, until the second takes it
out and judges nothing again.
"""

from __future__ import annotations

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab

from medlink.errors import BundleError, ConfigError
from medlink.index import Bundle
from medlink.language.tags import language_tag
from medlink.linking import Linker, Mention
from medlink.linking.demo import BUNDLE_VARIABLE, demo_bundle
from medlink.notes.learned import open_learned
from medlink.notes.options import for_linker
from medlink.notes.pipeline import LinkedMention
from medlink.reading.abbreviations import of_doc
from medlink.reading.options import FinderOptions
from medlink.reading.protocols import Span as Characters
from medlink.reading.reader import ReadMention, TextReader, around
from medlink.records import Attribute, Qualifiers, Value, attributed, qualified, valued
from medlink.spacy_components.factories import SPANS_KEY, LinkerOptions, MentionsOptions

logger = logging.getLogger("medlink")
_FILE = "medlink.json"
_OPENED: WeakValueDictionary[tuple[str, int, int], Bundle] = WeakValueDictionary()
"""Bundles that a component has open, by folder and by inode and time of the manifest: both components share one."""
_KEY = ("medlink", "mentions")
LABEL = "MENTION"
NIL = "NIL"
"""``kb_id_`` of a mention that no concept fits, as in spaCy's own entity linker."""
Place = tuple[int, int]
"""The first token of a span and the one behind its last."""


def open_bundle(name: str, bundle: str | None) -> Bundle:
    """The bundle of a component: the one it was given, else ``MEDLINK_BUNDLE``, else the demo bundle, which is said."""
    folder = Path(bundle or os.environ.get(BUNDLE_VARIABLE) or demo_bundle())
    if not bundle and not os.environ.get(BUNDLE_VARIABLE):
        said = f"no bundle given and {BUNDLE_VARIABLE} is not set; using the demo terminology in {folder}"
        logger.warning("%s: %s, which is not for clinical use", name, said)
    if not folder.is_dir():
        override = f'for a saved pipeline: spacy.load(PIPELINE, config={{"components.{name}.bundle": FOLDER}})'
        remedy = f"name its folder; {override}" if bundle else f"set {BUNDLE_VARIABLE} to the folder of a bundle"
        raise BundleError("no such bundle", path=folder, remedy=remedy)
    try:
        status = (folder / "manifest.json").stat()
    except OSError:
        return Bundle(folder)  # says what is missing
    key = (str(folder.absolute()), status.st_ino, status.st_mtime_ns)
    return _OPENED.get(key) or _OPENED.setdefault(key, Bundle(folder))


class Component(ABC):
    """Base of both components: a bundle opened by path, saved and pickled by reference and checked when it comes back.

    ``name`` is that of the component in a pipeline with the vocabulary ``vocab``.
    """

    def __init__(self, vocab: Vocab, name: str, options: MentionsOptions | LinkerOptions) -> None:
        self.vocab = vocab
        self.name = name
        given = options.language or vocab.lang
        self.language: str = language_tag(given) or given
        self.bundle = open_bundle(name, options.bundle)
        # Another process must open the same folder, whatever its environment says.
        self.settings = options.to_dict() | {"bundle": str(self.bundle.folder)}

    @abstractmethod
    def _annotate(self, docs: Sequence[Doc]) -> None: ...

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents in batches: what several of them share is ranked once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self._annotate(batch)
            yield from batch

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.vocab, self.name, **self.settings), ()

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The versions of the bundle, its contents and not its place; the configuration is spaCy's to save."""
        return json.dumps(self.bundle.versions, sort_keys=True).encode("utf-8")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Check that the bundle at hand is the one the pipeline was saved with; BundleError if not."""
        saved = json.loads(data)
        for part in ("kb", "encoder"):
            if saved.get(part) != self.bundle.versions[part]:
                raise BundleError(
                    f"{self.name} was saved with another bundle: its {part} differs",
                    path=self.bundle.folder,
                    remedy="name the bundle it was saved with, or add the component anew",
                )
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        return self.from_bytes((Path(path) / _FILE).read_bytes())


class MedlinkMentions(Component):
    """Find mentions of the concepts of a bundle in running text; any pipeline with a tokeniser will do.

    Writes ``doc.spans[spans_key]`` and, when ``doc.ents`` is empty, ``doc.ents``. Mentions do not overlap. Headings are
    no mentions; with ``present_only`` neither is what is absent, uncertain, hypothetical or of others.
    Options are the fields of :class:`~medlink.spacy_components.factories.MentionsOptions`.

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
                span = doc.char_span(one.start, one.end, LABEL, alignment_mode="expand")
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
    return asdict(replace(one, mention=replace(one.mention, found=None), context=""))


def _mention(text: str, plain: dict[str, Any], language: str) -> ReadMention:
    attributes = plain["attributes"]
    found = {
        "mention": Mention(**plain["mention"] | {"language": language}),
        "context": around(text, plain["start"], plain["end"]),
        "value": plain["value"] and Value(**plain["value"]),
        "attributes": None if attributes is None else tuple([Attribute(**one) for one in attributes]),
        "qualifiers": plain["qualifiers"] and Qualifiers(**plain["qualifiers"]),
    }
    return ReadMention(**plain | found)


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
    return [tuple(pair) for pair in found]


def _data(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _data(value) for key, value in found.items()}
    return [_data(value) for value in found] if isinstance(found, list | tuple) else found


class BiolordLinker(Component):
    """Link entities and spans to concepts.

    Sets ``kb_id_`` of every linked span, ``span._.kb_ents`` (id and score of the candidates that reach the threshold,
    as scispaCy's linker does) and ``span._.medlink`` (the whole :class:`~medlink.records.Link` with its
    :class:`~medlink.records.Qualifiers`, attributes and value, as plain data). Options are the fields of
    :class:`~medlink.spacy_components.factories.LinkerOptions`.

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
        _extend("medlink", _data)

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
        found = [one for of in ordered for _, one in of]
        links = iter(self.linker.link([one.mention for one in found], [one.context for one in found]))
        return [{at: LinkedMention.of(one, next(links)) for at, one in of} for of in ordered]

    def _handed_over(self, doc: Doc) -> dict[Characters, ReadMention]:
        known = take_over(doc, self.bundle.manifest["hash"], self.language)
        if self.options.abbreviations == "none":
            known = {at: one for at, one in known.items() if one.mention.expanded is None or one.value}
        if not self.options.qualifiers:
            known = {at: replace(one, qualifiers=None) for at, one in known.items()}
        return known

    def set_annotations(self, docs: Iterable[Doc], links: list[dict[Place, LinkedMention]]) -> None:
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
