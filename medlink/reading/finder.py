"""``BuiltinFinder``: the mentions of texts, and what the linker is told of them.

Candidate spans (:mod:`medlink.reading.generation`) are ranked together, and by their concepts and the words around them
it is decided which are mentions (:mod:`medlink.reading.classifier`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from medlink.index import Bundle
from medlink.language.languages import stop_words
from medlink.language.lexicon.reading import shared_reader
from medlink.language.scan import ScannedText, Scanner
from medlink.linking import Linker, Mention
from medlink.linking.candidates import LEARNED
from medlink.reading.abbreviations import LongForms
from medlink.reading.attributes import AttributeReader, asks_for_attributes, says_an_attribute
from medlink.reading.candidates import CandidateSpan
from medlink.reading.classifier import SelectedSpan, SpanClassifier, best_apart, by_first_names, shipped_classifier
from medlink.reading.features import ScoredSpan
from medlink.reading.generation import CandidateGenerator
from medlink.reading.learned import Learned
from medlink.reading.names import NameFinder
from medlink.reading.options import FinderOptions
from medlink.reading.placeholders import in_placeholder
from medlink.reading.protocols import Span
from medlink.records import Attribute, Value

_AROUND = 200  # characters of context on each side


@dataclass(frozen=True, slots=True)
class FoundMention:
    """A mention of a text, as the linker takes it.

    Attributes:
        start: its first character.
        end: the character behind its last.
        mention: what is linked.
        context: the text around it.
        value: the measured value that it is.
        attributes: its attributes, ``None`` where they were not read.
        discontinuous: whether its words are no name and no fixed phrase.
    """

    start: int
    end: int
    mention: Mention
    context: str
    value: Value | None = None
    attributes: tuple[Attribute, ...] | None = None
    discontinuous: bool = False


class BuiltinFinder:
    """Find the mentions of texts of one language.

    Args:
        bundle: whose names are looked for.
        language: language of the texts, BCP 47.
        options: further options; their ``language`` is not looked at.
        classifier: what decides which spans are mentions; the weights that ship when left out.
        linker: what links them; who links the mentions anyway gives it, so that nothing is ranked twice and what is
            judged is what will be linked. A linker for the options when left out.
        learned: mentions of notes that were read; what they were there they are here.
    """

    def __init__(
        self,
        bundle: Bundle,
        language: str,
        options: FinderOptions | None = None,
        classifier: SpanClassifier | None = None,
        linker: Linker | None = None,
        learned: Learned | None = None,
    ) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._options = bundle.index, language, options
        names = NameFinder(bundle.index, language, stop_words(language), options)
        if linker is None or not options.other_languages:
            own = () if options.other_languages else tuple(sorted(filter(None, names.own)))
            linker = Linker(bundle, language=language, languages=own, semantic_types=options.semantic_types)
        self._linker, self._classifier = linker, classifier
        self._scanner = Scanner(
            language, shared_reader(bundle.index.forms), lambda word: bool(bundle.index.lookup(word))
        )
        self.generator = CandidateGenerator(
            bundle.index, language, self._scanner, names, options, linker.selection, learned
        )
        self._attributes = AttributeReader(bundle, language, linker)
        self._wants_attributes = asks_for_attributes(linker.options.semantic_types)

    def scan(self, texts: Sequence[str]) -> list[ScannedText]:
        """Scan texts together, as :meth:`find` takes them."""
        return self._scanner.scan_all(texts)

    def find(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[FoundMention]]:
        """The mentions of texts, in order and without overlap.

        Args:
            texts: n texts.
            explained: the long forms of the abbreviations that each explains.
        """
        if self._options.verbatim:
            names = [self.generator.verbatim(*pair) for pair in zip(texts, explained, strict=True)]
            spans = [[SelectedSpan(one, None) for one in found] for found in names]
            return [self._described(*pair) for pair in zip(texts, spans, strict=True)]
        scored, attributes = self.scored(texts, self.generator.candidates(texts, explained))
        selected = (self._classifier or shipped_classifier()).select(scored)
        columns = zip(texts, selected, attributes, strict=True)
        return [self._described(text, spans, self._attributes.read(text, spans, of)) for text, spans, of in columns]

    def judge(
        self, texts: Sequence[ScannedText], explained: Sequence[LongForms], given: Sequence[Sequence[Span]]
    ) -> list[list[FoundMention]]:
        """The given spans of texts as mentions, each with the score that :meth:`find` would give it.

        Args:
            texts: n texts.
            explained: the long forms of the abbreviations that each explains.
            given: the spans of each by their characters.

        Returns:
            A mention for each given span, in their order.
        """
        places = [[text.place(*span) for span in spans] for text, spans in zip(texts, given, strict=True)]
        candidates = self.generator.candidates(texts, explained)
        scored, attributes = self.scored(texts, self.generator.with_given(texts, candidates, places))
        found = []
        for text, ranked, wanted, own, of in zip(texts, scored, places, given, attributes, strict=True):
            known = {one.candidate.place for one in ranked}  # an attribute is what nothing else is
            more = (one for one in of if one.candidate.place not in known)
            held = sorted([*ranked, *more], key=lambda one: one.candidate.place)
            selected = (self._classifier or shipped_classifier()).score_given(held, wanted)
            apart = best_apart(list(selected.values()), 0.0)  # what has attributes does not overlap
            read = dict(zip((one.place for one in apart), self._attributes.read(text, apart, of), strict=True))
            pairs = zip(own, wanted, strict=True)
            found.append([self._found(text, span, selected.get(place), read.get(place, ())) for span, place in pairs])
        return found

    def scored(
        self, texts: Sequence[ScannedText], candidates: Sequence[Sequence[CandidateSpan]]
    ) -> tuple[list[list[ScoredSpan]], list[list[ScoredSpan]]]:
        """The spans of each of n texts with their likeliest concepts, and those whose concept is an attribute."""
        pairs = [(text, one) for text, spans in zip(texts, candidates, strict=True) for one in spans]
        best = self._linker.best([self._mention(text, one) for text, one in pairs])
        known = [found for found in best if found is not None]
        names = self._index.attributes(np.array([found.ranked.name for found in known]))
        concepts = np.array([says_an_attribute(found.concept_id) for found in known], dtype=bool)
        attribute = iter(((names | concepts) & (not self._wants_attributes)).tolist())
        ranked, spans_of, attributes_of = (iter(best), list[list[ScoredSpan]](), list[list[ScoredSpan]]())
        for spans in candidates:
            apart: tuple[list[ScoredSpan], list[ScoredSpan]] = [], []
            for one in spans:
                if (found := next(ranked)) is not None:
                    is_attribute, scored = (next(attribute), _learned(ScoredSpan(one, found)))
                    if scored is not None:
                        apart[is_attribute].append(scored)
            spans_of.append(by_first_names(self._without_rewordings(apart[0])))
            attributes_of.append(apart[1])
        return spans_of, attributes_of

    def _without_rewordings(self, spans: list[ScoredSpan]) -> list[ScoredSpan]:
        """Spans, without other words for concepts that have what is written as a name too.

        So *Herzinfarkt* is read as the name that two terminologies have, not as the *Myokardinfarkt* of one of them.
        Abbreviations are read as their long forms, which say more.
        """
        others = {one.candidate.place for one in spans if _is_reworded(one)}
        named = {
            one.candidate.place: self._named(one.candidate)
            for one in spans
            if one.candidate.expanded is None and one.is_name and one.candidate.place in others
        }
        return [
            one
            for one in spans
            if not (_is_reworded(one) and one.best.concept_id in named.get(one.candidate.place, ()))
        ]

    def _named(self, candidate: CandidateSpan) -> set[str]:
        """The concepts that have a span as a name."""
        rows = () if candidate.match is None else candidate.match.rows
        return {entry.concept_id for row in rows for entry in self._index.entries_of(row, self._linker.selection)}

    def _described(
        self, text: ScannedText, spans: Sequence[SelectedSpan], attributes: Sequence[Sequence[Attribute]] | None = None
    ) -> list[FoundMention]:
        """Mentions as the linker takes them, without what stands for a name or a date that was taken out of a text."""
        inside = in_placeholder(text.text)
        pairs = zip(spans, [None] * len(spans) if attributes is None else attributes, strict=True)
        described = (self._found(text, _span(text, one.candidate), one, own) for one, own in pairs)
        return [one for one in described if not inside(one.start, one.end)]

    def _found(
        self, text: ScannedText, span: Span, one: SelectedSpan | None, attributes: Sequence[Attribute] | None
    ) -> FoundMention:
        """A mention as the linker takes it; a span without words has no candidate."""
        start, end = span
        context = around(text.text, start, end)
        if one is None:
            return FoundMention(start, end, Mention(text.text[start:end], self._language), context)
        mention = self._mention(text, one.candidate)
        mention = mention if one.score is None else replace(mention, likely=one.score)
        own = None if attributes is None else tuple(attributes)
        return FoundMention(start, end, mention, context, one.candidate.value, own, one.candidate.discontinuous)

    def _mention(self, text: ScannedText, one: CandidateSpan) -> Mention:
        match = None if one.expanded else one.match
        written = text.text[slice(*_span(text, one))]
        return Mention(written, self._language, one.expanded, match, one.learned_share, one.learned or None)


def _span(text: ScannedText, one: CandidateSpan) -> Span:
    """The characters of a candidate."""
    return text.span(one.place) if one.span is None else one.span


def around(text: str, start: int, end: int) -> str:
    """The context of a mention."""
    return text[max(0, start - _AROUND) : end + _AROUND]


def _learned(one: ScoredSpan) -> ScoredSpan | None:
    """A span, with the score that was learned for it; ``None`` where the learned concept may be no candidate."""
    if not one.candidate.learned:
        return one
    score = one.candidate.learned_share or 0.0
    return None if one.best.ranked.route != LEARNED else ScoredSpan(one.candidate, one.best._replace(score=score))


def _is_reworded(one: ScoredSpan) -> bool:
    """Whether a span is read as other words that say the same, and is no abbreviation."""
    return one.candidate.expanded is not None and not one.is_short
