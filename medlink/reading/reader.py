"""``TextReader``: what texts say, from text to mentions with their qualifiers, for one language.

Everything that reads notes calls it: :class:`medlink.NotePipeline`, the spaCy components, Spark and the command line.
Candidate spans (:mod:`medlink.reading.generation`) are ranked together, and by their concepts and the words around them
it is decided which are mentions (:mod:`medlink.reading.classifier`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from medlink.index import Bundle
from medlink.language.lexicon.reading import shared_reader
from medlink.language.scan import Place, ScannedText, Scanner
from medlink.linking import Linker, Mention
from medlink.linking.candidates import LEARNED
from medlink.processes import collection_paused
from medlink.reading.abbreviations import LongForms, detector
from medlink.reading.attributes import AttributeReader, asks_for_attributes, says_an_attribute
from medlink.reading.candidates import CandidateSpan
from medlink.reading.classifier import SelectedSpan, SpanClassifier, best_apart, shipped_classifier
from medlink.reading.features import ScoredSpan
from medlink.reading.generation import CandidateGenerator
from medlink.reading.learned import Learned
from medlink.reading.names import NameFinder, in_placeholder
from medlink.reading.options import FinderOptions
from medlink.reading.protocols import MentionFinder, Qualifier, Span
from medlink.reading.status import status_reader
from medlink.records import Attribute, Qualifiers, Value

_AROUND = 200  # characters of context on each side
_Explained = Sequence[LongForms | None] | None


@dataclass(frozen=True, slots=True)
class ReadMention:
    """A mention of a text from one character to another, as the linker takes it, with the text around it.

    Attributes:
        value: the measured value that it is.
        attributes, qualifiers: ``None`` where they were not read.
        discontinuous: whether its words are no name and no fixed phrase.
    """

    start: int
    end: int
    mention: Mention
    context: str
    value: Value | None = None
    attributes: tuple[Attribute, ...] | None = None
    discontinuous: bool = False
    qualifiers: Qualifiers | None = None


class TextReader:
    """Read texts of one language. Threads may share a reader; they take turns, as its words have numbers by turns.

    Args:
        bundle: whose concepts are looked for.
        language: of the texts, BCP 47.
        options: of finding mentions; their ``language`` is not looked at.
        classifier: what decides which spans are mentions; the weights that ship when left out.
        linker: what links them; who links the mentions anyway gives it, so that nothing is ranked twice and what is
            judged is what will be linked.
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
        options: FinderOptions | None = None,
        classifier: SpanClassifier | None = None,
        linker: Linker | None = None,
        learned: Learned | None = None,
        finder: MentionFinder | None = None,
        qualifier: Qualifier | None = None,
    ) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._options = bundle.index, language, options
        self._given, self._qualifier, self._classifier = finder, qualifier, classifier or shipped_classifier()
        names = NameFinder(bundle.index, language, options)
        if linker is None or not options.other_languages:
            own = () if options.other_languages else tuple(sorted(filter(None, names.own)))
            linker = Linker(bundle, language=language, languages=own, semantic_types=options.semantic_types)
        self._linker = linker
        self._scanner = Scanner(
            language, shared_reader(bundle.index.forms), lambda word: bool(bundle.index.lookup(word))
        )
        self.generator = CandidateGenerator(
            bundle.index, language, self._scanner, names, options, linker.selection, learned
        )
        self._attributes = AttributeReader(bundle, language, linker)
        self._wants_attributes = asks_for_attributes(linker.options.semantic_types)
        self._long_forms = detector(options.abbreviations, language)
        self._status = status_reader(language, present_only=options.present_only) if options.qualifiers else None
        self._lock = Lock()

    @collection_paused()
    def read(self, texts: Sequence[str], explained: _Explained = None) -> list[list[ReadMention]]:
        """The mentions of n texts, without headings and what is not wanted; ``explained`` are the long forms of those
        whose abbreviations are known."""
        with self._lock:
            scanned, known = self._scanned(texts, explained)
            if self._given is None:
                found = self._find(scanned, known)
            else:
                given = [sorted(set(spans)) for spans in self._given.find(texts, self._language)]
                found = self._judge(scanned, known, given)
            read = self._qualified(scanned, found)
        if self._status is None and self._qualifier is None:
            return read
        every = not self._options.present_only
        return [[one for one in of if (q := one.qualifiers) is not None and (every or q.is_present)] for of in read]

    @collection_paused()
    def judge(
        self, texts: Sequence[str], given: Sequence[Sequence[Span]], explained: _Explained = None
    ) -> list[list[ReadMention]]:
        """The given spans of n texts, by their characters, as mentions: what another recogniser found, judged and
        qualified as own ones are; ``explained`` as :meth:`read` takes them."""
        with self._lock:
            scanned, known = self._scanned(texts, explained)
            return self._qualified(scanned, self._judge(scanned, known, given), headings=True)

    def _scanned(self, texts: Sequence[str], explained: _Explained) -> tuple[list[ScannedText], list[LongForms]]:
        find = self._long_forms
        pairs = zip(texts, explained or [None] * len(texts), strict=True)
        known = [{} if find is None else found or find(text) for text, found in pairs]
        return self.scan(texts), known

    def _qualified(
        self, texts: Sequence[ScannedText], mentions: Sequence[Sequence[ReadMention]], *, headings: bool = False
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
            # a value was measured: no denial or doubt around it is of it
            measured = [
                (q and one.value and replace(q, presence="present")) or q for q, one in zip(said, found, strict=True)
            ]
            read.append([replace(one, qualifiers=q) for one, q in zip(found, measured, strict=True)])
        return read

    def scan(self, texts: Sequence[str]) -> list[ScannedText]:
        return self._scanner.scan_all(texts)

    def _find(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[ReadMention]]:
        if self._options.verbatim:
            names = map(self.generator.verbatim, texts, explained)
            spans = [[SelectedSpan(one, None) for one in found] for found in names]
            read: list[list[tuple[Attribute, ...] | None]] = [[None] * len(found) for found in spans]
        else:
            scored, attributes = self.scored(texts, self.generator.candidates(texts, explained))
            spans = self._classifier.select(scored)
            read = [list(map(tuple, one)) for one in map(self._attributes.read, texts, spans, attributes)]
        found = []
        for text, selected, own in zip(texts, spans, read, strict=True):
            inside = in_placeholder(text.text)
            pairs = zip(selected, own, strict=True)
            mentions = (self._found(text, _span(text, one.candidate), one, said) for one, said in pairs)
            found.append([one for one in mentions if not inside(one.start, one.end)])
        return found

    def _judge(
        self, texts: Sequence[ScannedText], explained: Sequence[LongForms], given: Sequence[Sequence[Span]]
    ) -> list[list[ReadMention]]:
        places = [[text.place(*span) for span in spans] for text, spans in zip(texts, given, strict=True)]
        scored, attributes = self.scored(texts, self.generator.candidates(texts, explained, places))
        found = []
        for text, ranked, wanted, own, of in zip(texts, scored, places, given, attributes, strict=True):
            known = {one.candidate.place for one in ranked}  # an attribute is what nothing else is
            more = (one for one in of if one.candidate.place not in known)
            held = sorted([*ranked, *more], key=lambda one: one.candidate.place)
            selected = self._classifier.score_given(held, wanted)
            apart = best_apart(list(selected.values()), 0.0)  # what has attributes does not overlap
            read = dict(zip((one.place for one in apart), self._attributes.read(text, apart, of), strict=True))
            pairs = zip(own, wanted, strict=True)
            found.append(
                [self._found(text, span, selected.get(place), tuple(read.get(place, ()))) for span, place in pairs]
            )
        return found

    def scored(
        self, texts: Sequence[ScannedText], candidates: Sequence[Sequence[CandidateSpan]]
    ) -> tuple[list[list[ScoredSpan]], list[list[ScoredSpan]]]:
        """The spans of each of n texts with their likeliest concepts, and those whose concept is an attribute."""
        best = self._linker.best(
            [self._mention(text, one) for text, spans in zip(texts, candidates, strict=True) for one in spans]
        )
        names = self._index.attributes(np.array([found.ranked.name for found in best if found is not None]))
        ranked, attribute = iter(best), iter(names.tolist())
        spans_of, attributes_of = list[list[ScoredSpan]](), list[list[ScoredSpan]]()
        for spans in candidates:
            apart: tuple[list[ScoredSpan], list[ScoredSpan]] = [], []
            for one in spans:
                found = next(ranked)
                if found is None:
                    continue
                says = (next(attribute) or says_an_attribute(found.concept_id)) and not self._wants_attributes
                if not one.learned:
                    apart[says].append(ScoredSpan(one, found))
                elif found.ranked.route == LEARNED:  # else the learned concept may be no candidate
                    apart[says].append(ScoredSpan(one, found._replace(score=one.learned_share or 0.0)))
            spans_of.append(_by_first_names(self._without_rewordings(apart[0])))
            attributes_of.append(apart[1])
        return spans_of, attributes_of

    def _without_rewordings(self, spans: list[ScoredSpan]) -> list[ScoredSpan]:
        """Spans, without other words for concepts that have what is written as a name too.

        So *Herzinfarkt* is read as the name that two terminologies have, not as the *Myokardinfarkt* of one of them.
        Abbreviations are read as their long forms, which say more.
        """
        reworded = {id(one): one.candidate.expanded is not None and not one.is_short for one in spans}
        others = {one.candidate.place for one in spans if reworded[id(one)]}
        named = {
            one.candidate.place: {
                entry.concept_id
                for row in (one.candidate.match.rows if one.candidate.match else ())
                for entry in self._index.entries_of(row, self._linker.selection)
            }
            for one in spans
            if one.candidate.expanded is None and one.is_name and one.candidate.place in others
        }
        return [
            one
            for one in spans
            if not (reworded[id(one)] and one.best.concept_id in named.get(one.candidate.place, ()))
        ]

    def _found(
        self, text: ScannedText, span: Span, one: SelectedSpan | None, attributes: tuple[Attribute, ...] | None
    ) -> ReadMention:
        context = around(text.text, *span)
        if one is None:
            return ReadMention(*span, Mention(text.text[slice(*span)], self._language), context)
        mention = self._mention(text, one.candidate)
        mention = mention if one.score is None else replace(mention, likely=one.score)
        return ReadMention(*span, mention, context, one.candidate.value, attributes, one.candidate.discontinuous)

    def _mention(self, text: ScannedText, one: CandidateSpan) -> Mention:
        match = None if one.expanded else one.match
        written = text.text[slice(*_span(text, one))]
        return Mention(written, self._language, one.expanded, match, one.learned_share, one.learned or None)


def _measured(one: ReadMention, said: Qualifiers | None) -> Qualifiers | None:
    # a value was measured: no denial or doubt around it is of it
    return replace(said, presence="present") if said is not None and one.value is not None else said


def _span(text: ScannedText, one: CandidateSpan) -> Span:
    return text.span(one.place) if one.span is None else one.span


def _by_first_names(spans: Sequence[ScoredSpan]) -> list[ScoredSpan]:
    named, kept = set[Place](), list[ScoredSpan]()
    for one in spans:
        if one.candidate.value is not None:
            if not one.is_name or one.candidate.place in named:
                continue
            named.add(one.candidate.place)
        kept.append(one)
    return kept


def around(text: str, start: int, end: int) -> str:
    return text[max(0, start - _AROUND) : end + _AROUND]
