"""``TextReader``: what texts say, from text to mentions with their qualifiers, for one language.

Everything that reads notes calls it: :class:`medlink.NotePipeline`, the spaCy components, Spark and the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from medlink.index import Bundle
from medlink.language.scan import ScannedText
from medlink.linking import Linker
from medlink.processes import collection_paused
from medlink.reading.abbreviations import LongForms, detector
from medlink.reading.classifier import SpanClassifier
from medlink.reading.finder import BuiltinFinder, FoundMention
from medlink.reading.learned import Learned
from medlink.reading.options import FinderOptions
from medlink.reading.protocols import MentionFinder, Qualifier, Span
from medlink.reading.status import is_kept, status_reader
from medlink.reading.values import as_measured
from medlink.records import Qualifiers

_Explained = Sequence[LongForms | None] | None


@dataclass(frozen=True, slots=True)
class ReadMention:
    """A mention with its qualifiers, ``None`` where they were not read."""

    found: FoundMention
    qualifiers: Qualifiers | None


class TextReader:
    """Read texts of one language. Threads may share a reader; they take turns, as its words have numbers by turns.

    Args:
        bundle: whose concepts are looked for.
        language: of the texts, BCP 47.
        options: of finding mentions; their ``language`` is not looked at.
        classifier: what decides which spans are mentions; the weights that ship when left out.
        linker: what links them; one for the options when left out.
        learned: learned mentions.
        finder: what finds mentions in place of medlink, which judges and links them.
        qualifier: what reads their qualifiers in place of medlink.

    Raises:
        ConfigError: the language has no cues, so that nobody knows which mentions are ``present_only``.
    """

    def __init__(
        self,
        bundle: Bundle,
        language: str,
        options: FinderOptions,
        classifier: SpanClassifier | None = None,
        linker: Linker | None = None,
        learned: Learned | None = None,
        finder: MentionFinder | None = None,
        qualifier: Qualifier | None = None,
    ) -> None:
        self._language, self._given, self._qualifier = language, finder, qualifier
        self._finder = BuiltinFinder(bundle, language, options, classifier, linker, learned)
        self._long_forms = detector(options.abbreviations, language)
        self._status = status_reader(language, present_only=options.present_only) if options.qualifiers else None
        self._present_only = options.present_only
        self._lock = Lock()

    @collection_paused()
    def read(self, texts: Sequence[str], explained: _Explained = None) -> list[list[ReadMention]]:
        """The mentions of n texts, without headings and what is not wanted.

        Args:
            texts: n texts.
            explained: the long forms of those whose abbreviations are known.
        """
        with self._lock:
            scanned, known = self._scanned(texts, explained)
            if self._given is None:
                found = self._finder.find(scanned, known)
            else:
                given = [sorted(set(spans)) for spans in self._given.find(texts, self._language)]
                found = self._finder.judge(scanned, known, given)
            read = self._qualified(scanned, found)
        if self._status is None and self._qualifier is None:
            return read
        return [[one for one in of if is_kept(one.qualifiers, present_only=self._present_only)] for of in read]

    @collection_paused()
    def judge(
        self, texts: Sequence[str], given: Sequence[Sequence[Span]], explained: _Explained = None
    ) -> list[list[ReadMention]]:
        """The given spans of n texts, by their characters, as mentions: what another recogniser found, judged and
        qualified as own ones are; ``explained`` as :meth:`read` takes them."""
        with self._lock:
            scanned, known = self._scanned(texts, explained)
            return self._qualified(scanned, self._finder.judge(scanned, known, given), headings=True)

    def _scanned(self, texts: Sequence[str], explained: _Explained) -> tuple[list[ScannedText], list[LongForms]]:
        find = self._long_forms
        pairs = zip(texts, explained or [None] * len(texts), strict=True)
        known = [{} if find is None else found or find(text) for text, found in pairs]
        return self._finder.scan(texts), known

    def _qualified(
        self, texts: Sequence[ScannedText], mentions: Sequence[Sequence[FoundMention]], *, headings: bool = False
    ) -> list[list[ReadMention]]:
        """Mentions with their qualifiers; those of a mention in a heading are ``None`` unless ``headings`` count."""
        read = []
        for text, found in zip(texts, mentions, strict=True):
            spans = [(one.start, one.end) for one in found]
            said: list[Qualifiers | None] = [None] * len(spans)
            if spans and self._qualifier is not None:
                said = list(self._qualifier.qualify(text.text, spans))
            elif spans and self._status is not None:
                apart = {span for span, one in zip(spans, found, strict=True) if one.discontinuous}
                note = self._status.read_once(text)
                said = list(note.qualifiers(spans, apart)) if headings else note.qualify(spans, apart)
            measured = as_measured(said, (one.value for one in found))
            read.append(list(map(ReadMention, found, measured)))
        return read
