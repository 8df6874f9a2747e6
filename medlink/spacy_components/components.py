"""``medlink_mentions`` finds mentions of the concepts of a bundle, ``biolord_linker`` links them.

``medlink_mentions`` stores its mentions in the document as plain data, which can be sent to other processes and saved.
``biolord_linker`` removes and uses these data, so that it does not score the mentions again.
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
from medlink.language.tags import base, language_tag
from medlink.linking import Linker, Mention
from medlink.linking.demo import BUNDLE_VARIABLE, demo_bundle
from medlink.notes.language import describe_missing
from medlink.notes.learned import open_learned
from medlink.notes.options import linker_options
from medlink.notes.pipeline import linked_mention
from medlink.reading.abbreviations import long_forms_of_doc
from medlink.reading.options import FinderOptions
from medlink.reading.protocols import Span as Characters
from medlink.reading.reader import ReadMention, TextReader, context_around
from medlink.records import Attribute, LinkedMention, Qualifiers, Value
from medlink.spacy_components.factories import SPANS_KEY, LinkerOptions, MentionsOptions

logger = logging.getLogger("medlink")
_FILE = "medlink.json"
_BUNDLES: WeakValueDictionary[tuple[str, int, int], Bundle] = WeakValueDictionary()
"""By folder, inode and time of the manifest, so that both components share a bundle."""
_KEY = ("medlink", "mentions")
LABEL = "MENTION"
NIL = "NIL"
"""``kb_id_`` of a mention without a concept, as in spaCy's own entity linker."""
TokenSpan = tuple[int, int]
"""Start and end of a span, in tokens; the end is exclusive."""


def open_bundle(name: str, bundle: str | None) -> Bundle:
    """Open the given bundle, else the bundle of ``MEDLINK_BUNDLE``, else the demo bundle with a warning."""
    given = bundle or os.environ.get(BUNDLE_VARIABLE)
    folder = Path(given or demo_bundle())
    if not given:
        message = f"no bundle given and {BUNDLE_VARIABLE} is not set; using the demo terminology in {folder}"
        logger.warning("%s: %s, which is not for clinical use", name, message)
    if not folder.is_dir():
        override = f'for a saved pipeline: spacy.load(PIPELINE, config={{"components.{name}.bundle": FOLDER}})'
        remedy = f"name its folder; {override}" if bundle else f"set {BUNDLE_VARIABLE} to the folder of a bundle"
        raise BundleError("no such bundle", path=folder, remedy=remedy)
    try:
        status = (folder / "manifest.json").stat()
    except OSError:
        return Bundle(folder)  # raises an error that names what is missing
    key = (str(folder.absolute()), status.st_ino, status.st_mtime_ns)
    return _BUNDLES.get(key) or _BUNDLES.setdefault(key, Bundle(folder))


class Component(ABC):
    """Base class of both components.

    Saving or pickling a component stores the path of its bundle; loading checks that the bundle is the same.
    """

    def __init__(self, vocab: Vocab, name: str, options: MentionsOptions | LinkerOptions) -> None:
        self.vocab, self.name = vocab, name
        tag = language_tag(options.language or vocab.lang)
        if tag is None:
            raise ConfigError(f"{vocab.lang!r} is not a language", remedy=f"set language in the config of {name}")
        self.language: str = tag
        self.bundle = open_bundle(name, options.bundle)
        # an absolute path: another process must open the same folder, whatever its environment
        self.settings = options.to_dict() | {"bundle": str(self.bundle.folder)}

    @abstractmethod
    def _annotate(self, docs: Sequence[Doc]) -> None: ...

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents in batches; a mention that occurs in several documents of a batch is ranked once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self._annotate(batch)
            yield from batch

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.vocab, self.name, **self.settings), ()

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the versions of the bundle; spaCy itself saves the configuration."""
        return json.dumps(self.bundle.versions, sort_keys=True).encode("utf-8")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Raise a BundleError unless the pipeline was saved with this bundle."""
        saved = json.loads(data)
        for part in ("kb", "encoder"):
            if saved.get(part) != self.bundle.versions[part]:
                raise BundleError(
                    f"{self.name} was saved with another bundle: its {part} differs",
                    path=self.bundle.folder,
                    remedy="name the bundle it was saved with, or add the component again",
                )
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        return self.from_bytes((Path(path) / _FILE).read_bytes())


class MedlinkMentions(Component):
    """Find mentions of the concepts of a bundle in running text; the pipeline needs only a tokeniser.

    Writes ``doc.spans[spans_key]`` and, if ``doc.ents`` is empty, ``doc.ents``. Mentions do not overlap. Headings are
    not mentions. ``present_only`` also excludes findings that are absent, uncertain, hypothetical or of other persons.
    Options are the fields of :class:`~medlink.spacy_components.factories.MentionsOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names something that the bundle lacks.
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
        for doc, mentions in zip(docs, self._reader.read(texts, list(map(long_forms_of_doc, docs))), strict=True):
            spans, stored = list[Span](), list[list[Any]]()
            for mention in mentions:
                span = doc.char_span(mention.start, mention.end, LABEL, alignment_mode="expand")
                if span is None or (spans and span.start < spans[-1].end):  # two mentions may share a token
                    continue
                spans.append(span)
                # without matches of the dictionary and context, which can be restored
                plain = asdict(replace(mention, mention=replace(mention.mention, match=None), context=""))
                stored.append([span.start_char, span.end_char, plain])
            doc.spans[self.options.spans_key] = spans
            if not doc.ents:
                doc.set_ents(spans)
            user_data: dict[Any, Any] = doc.user_data
            user_data[_KEY] = {"bundle": self.bundle.manifest["hash"], "language": self.language, "mentions": stored}


def _from_plain(text: str, plain: dict[str, Any], language: str) -> ReadMention:
    attributes = plain["attributes"]
    fields = {
        "mention": Mention(**plain["mention"] | {"language": language}),
        "context": context_around(text, plain["start"], plain["end"]),
        "value": plain["value"] and Value(**plain["value"]),
        "attributes": None if attributes is None else tuple(Attribute(**attribute) for attribute in attributes),
        "qualifiers": plain["qualifiers"] and Qualifiers(**plain["qualifiers"]),
    }
    return ReadMention(**plain | fields)


def _add_extension(name: str, convert: Callable[[Any], Any]) -> None:
    """Add ``span._.name``, stored as spaCy does, unless it exists.

    ``convert`` restores values: when spaCy serialises a document, it turns tuples into lists and lists into tuples.
    """
    if not Span.has_extension(name):
        Span.set_extension(name, getter=partial(_get, name, convert), setter=partial(_set, name))


def _get(name: str, convert: Callable[[Any], Any], span: Span) -> Any:
    user_data: dict[Any, Any] = span.doc.user_data
    value = user_data.get(("._.", name, span.start_char, span.end_char))
    return None if value is None else convert(value)


def _set(name: str, span: Span, value: Any) -> None:
    user_data: dict[Any, Any] = span.doc.user_data
    user_data["._.", name, span.start_char, span.end_char] = value


def _to_tuples(pairs: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    return list(map(tuple, pairs))


def _to_lists(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _to_lists(value) for key, value in data.items()}
    return [_to_lists(value) for value in data] if isinstance(data, list | tuple) else data


class BiolordLinker(Component):
    """Link entities and spans to concepts.

    Sets ``kb_id_`` of each span, ``span._.kb_ents`` (id and score of the candidates that reach the threshold, as
    scispaCy's linker does) and ``span._.medlink`` (the :class:`~medlink.records.Link` with its
    :class:`~medlink.records.Qualifiers`, attributes and value, as plain data). Options are the fields of
    :class:`~medlink.spacy_components.factories.LinkerOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names something that the bundle lacks.
    """

    def __init__(self, vocab: Vocab, name: str = "biolord_linker", **options: Any) -> None:
        self.options = LinkerOptions(**options)
        super().__init__(vocab, name, self.options)
        self.linker = Linker(self.bundle, **linker_options(self.options, self.language))
        finder = FinderOptions(abbreviations=self.options.abbreviations, qualifiers=self.options.qualifiers)
        self._reader = TextReader(self.bundle, self.language, finder, linker=self.linker)
        if missing := "; ".join(describe_missing(base(self.language), self.bundle.index.languages)):
            logger.warning("%s: language %r: %s", name, self.language, missing)
        _add_extension("kb_ents", _to_tuples)
        _add_extension("medlink", _to_lists)

    def _annotate(self, docs: Sequence[Doc]) -> None:
        self.set_annotations(docs, self.predict(docs))

    def predict(self, docs: Sequence[Doc]) -> list[dict[TokenSpan, LinkedMention]]:
        """Return the links of each document, keyed by the token spans of its mentions.

        Mentions of ``medlink_mentions`` keep their scores; other spans are scored in their text. If the options
        restrict the concepts, all spans are, because a stored score is for the best of all concepts.
        """
        spans = [{(span.start, span.end): (span.start_char, span.end_char) for span in self._spans(d)} for d in docs]
        known = [self._pop_mentions(doc) for doc in docs]
        new = [at for at, own in enumerate(spans) if not set(own.values()) <= known[at].keys()]
        texts, given = [docs[at].text for at in new], [sorted(set(spans[at].values())) for at in new]
        judged = self._reader.judge(texts, given, [long_forms_of_doc(docs[at]) for at in new])
        for at, own, read in zip(new, given, judged, strict=True):
            known[at] = dict(zip(own, read, strict=True)) | known[at]
        mentions = [
            [(tokens, read[characters]) for tokens, characters in sorted(own.items())]
            for own, read in zip(spans, known, strict=True)
        ]
        flat = [mention for own in mentions for _, mention in own]
        links = iter(self.linker.link([mention.mention for mention in flat], [mention.context for mention in flat]))
        return [{tokens: linked_mention(mention, next(links)) for tokens, mention in own} for own in mentions]

    def _pop_mentions(self, doc: Doc) -> dict[Characters, ReadMention]:
        """Remove the stored mentions from a document; return them if their scores are valid here."""
        user_data: dict[Any, Any] = doc.user_data
        stored = user_data.pop(_KEY, None)
        own = (self.bundle.manifest["hash"], self.language)
        if self.linker.selection is not None or stored is None or (stored["bundle"], stored["language"]) != own:
            return {}
        text = doc.text  # spaCy assembles it on every access
        known = {(start, end): _from_plain(text, plain, self.language) for start, end, plain in stored["mentions"]}
        if self.options.abbreviations == "none":
            known = {span: read for span, read in known.items() if read.mention.expanded is None or read.value}
        if not self.options.qualifiers:
            known = {span: replace(read, qualifiers=None) for span, read in known.items()}
        return known

    def set_annotations(self, docs: Iterable[Doc], links: list[dict[TokenSpan, LinkedMention]]) -> None:
        for doc, linked_mentions in zip(docs, links, strict=True):
            if self.options.spans_key is None:
                doc.set_ents([self._linked(span, linked_mentions) for span in doc.ents], default="unmodified")
            for key in self._keys(doc):
                old = doc.spans[key]
                linked = [self._linked(span, linked_mentions) for span in old]
                doc.spans[key] = SpanGroup(doc, name=key, attrs=dict(old.attrs), spans=linked)

    def _keys(self, doc: Doc) -> list[str]:
        key = self.options.spans_key
        if key is not None and key not in doc.spans:
            message = f"{self.name}: the document has no span group {key!r}"
            remedy = f"put the component that writes it before {self.name}, or leave spans_key out"
            raise ConfigError(message, remedy=remedy)
        return [name for name in (key or SPANS_KEY,) if name in doc.spans]

    def _spans(self, doc: Doc) -> list[Span]:
        spans = [span for key in self._keys(doc) for span in doc.spans[key]]
        return spans if self.options.spans_key is not None else [*spans, *doc.ents]

    def _linked(self, span: Span, links: dict[TokenSpan, LinkedMention]) -> Span:
        mention = links[span.start, span.end]
        link = mention.link
        out = Span(span.doc, span.start, span.end, label=span.label, kb_id=link.concept_id or NIL, span_id=span.id)
        out._.kb_ents = [(c.concept_id, c.score) for c in link.candidates if c.score >= self.options.threshold]
        out._.medlink = link.to_dict() | mention.readings()
        return out
