"""``TextReader``: from texts of one language to mentions with qualifiers, attributes and values.

:class:`medlink.NotePipeline`, the spaCy components, Spark and the command line all use it. Candidate spans
(:mod:`medlink.reading.generation`) are ranked together; a classifier (:mod:`medlink.reading.classifier`) selects the
mentions by their concepts and the words around them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from threading import Lock

import numpy as np

from medlink.index import Bundle
from medlink.language.lexicon.abbreviation_table import AbbreviationTable
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import FINDING_KINDS, Place, ScannedText, ScannedWord, Scanner
from medlink.language.scope_rules import scopes
from medlink.language.tags import base
from medlink.linking import Linker, Mention
from medlink.linking.candidates import LEARNED
from medlink.processes import gc_disabled
from medlink.reading.abbreviations import LongForms, make_detector
from medlink.reading.attributes import AttributeReader, include_attribute_types, is_attribute_concept
from medlink.reading.candidates import CandidateSpan
from medlink.reading.classifier import (
    SelectedSpan,
    SpanClassifier,
    default_span_classifier,
    weighted_interval_scheduling,
)
from medlink.reading.features import LANGUAGES, ScoredSpan
from medlink.reading.generation import CandidateGenerator
from medlink.reading.learned import Learned
from medlink.reading.names import NameFinder, in_placeholder
from medlink.reading.options import FinderOptions
from medlink.reading.paraphrases import names_finding
from medlink.reading.protocols import MentionFinder, Qualifier, Span
from medlink.reading.qualifiers import qualifier_reader
from medlink.records import Attribute, Qualifiers, Value

_CONTEXT = 200  # characters on each side
# least share of names with a word of a finding: among the selected concepts, in a whole bundle, in one of findings only
_FEW_FINDINGS, _NO_FINDINGS, _ONLY_FINDINGS = 0.5, 0.1, 0.85
_PROCEDURE = "procedure"
_ACTS = frozenset(("substance", _PROCEDURE))
_CACHED_LONG_FORMS = 4096
_RESULTS = "results"  # kind of the sections of examinations
_Explained = Sequence[LongForms | None] | None


@dataclass(frozen=True, slots=True)
class ReadMention:
    """A mention from character ``start`` to ``end`` of a text, as input of the linker, with its context.

    Attributes:
        value: measured value, if any.
        attributes, qualifiers: ``None`` if not read.
        discontinuous: whether it is neither a name nor a fixed phrase.
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
    """Read texts of one language. Threads may share a reader; a lock serialises their calls.

    Args:
        bundle: its concepts are found.
        language: BCP 47 tag of the texts.
        options: their ``language`` is ignored.
        classifier: selects mentions; default: the weights that ship with medlink.
        linker: the linker of the mentions, if any: ranks each span once, and judges the concepts that it will link.
        learned: learned mentions.
        finder: finds mentions in place of medlink, which scores and links them.
        qualifier: determines qualifiers in place of medlink.

    Raises:
        ConfigError: ``present_only`` is set, and the language has no cues.
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
        self._finder, self._qualifier = finder, qualifier
        self._classifier = classifier or default_span_classifier()
        names = NameFinder(bundle.index, language, options)
        if linker is None or not options.other_languages:
            tags = () if options.other_languages else tuple(sorted(filter(None, names.own)))
            given = {} if linker is None else dict(linker.options)
            given |= {"language": language, "languages": tags, "semantic_types": options.semantic_types}
            linker = Linker(bundle, **{name: given[name] for name in given if not name.startswith("ranker")})
        self._linker = linker
        self._scanner = Scanner(
            language, shared_analyser(bundle.index.forms), lambda word: bool(bundle.index.lookup(word))
        )
        self.generator = CandidateGenerator(
            bundle.index, language, self._scanner, names, options, linker.selection, learned
        )
        self._attributes = AttributeReader(bundle, language, linker)
        own, types = linker.options, linker.options.semantic_types
        is_narrow = bool(types or own.under or own.not_under or own.ecl)
        share = bundle.index.share_with_kinds(FINDING_KINDS, linker.selection)
        # a user who selects drugs, procedures or modes of inheritance expects mentions of these
        are_findings = share >= (_FEW_FINDINGS if is_narrow else _NO_FINDINGS)
        knows = are_findings and base(language) in LANGUAGES
        self._classifier = replace(self._classifier, trusts_names=not knows, trusts_things=share < _ONLY_FINDINGS)
        self._links_attributes = not are_findings or include_attribute_types(types)
        self._head_first = scopes(language).head_first
        self._shorthand = AbbreviationTable(language)
        self._has_procedure = lru_cache(_CACHED_LONG_FORMS)(
            lambda long: any(_PROCEDURE in word.entry.kinds for word in self._scanner.scan(long).words)
        )
        self._detect_abbreviations = make_detector(options.abbreviations, language)
        self._qualifier_reader = (
            qualifier_reader(language, present_only=options.present_only) if options.qualifiers else None
        )
        self._lock = Lock()

    @gc_disabled()
    def read(
        self, texts: Sequence[str], explained: _Explained = None, days: Sequence[date | None] | None = None
    ) -> list[list[ReadMention]]:
        """Find the mentions of n texts, without headings and mentions that the options exclude.

        ``explained`` has the long forms of texts with known abbreviations, and ``days`` the dates of the texts.
        """
        with self._lock:
            scanned, long_forms = self._scan(texts, explained)
            for text, day in zip(scanned, days or (), strict=days is not None):
                text.memo["day"] = day
            if self._finder is None:
                mentions = self._find(scanned, long_forms)
            else:
                given = [sorted(set(spans)) for spans in self._finder.find(texts, self._language)]
                mentions = self._judge(scanned, long_forms, given)
            read = self._qualify(scanned, mentions)
        if self._qualifier_reader is None and self._qualifier is None:
            return read
        every = not self._options.present_only
        return [[m for m in own if (q := m.qualifiers) is not None and (every or q.is_present)] for own in read]

    @gc_disabled()
    def judge(
        self, texts: Sequence[str], given: Sequence[Sequence[Span]], explained: _Explained = None
    ) -> list[list[ReadMention]]:
        """Score and qualify the given character spans of n texts like the mentions that medlink finds.

        ``explained`` is as in :meth:`read`.
        """
        with self._lock:
            scanned, long_forms = self._scan(texts, explained)
            return self._qualify(scanned, self._judge(scanned, long_forms, given), headings=True)

    def _scan(self, texts: Sequence[str], explained: _Explained) -> tuple[list[ScannedText], list[LongForms]]:
        detect = self._detect_abbreviations
        pairs = zip(texts, explained or [None] * len(texts), strict=True)
        long_forms = [{} if detect is None else known or detect(text) for text, known in pairs]
        return self.scan(texts), long_forms

    def _qualify(
        self, texts: Sequence[ScannedText], mentions: Sequence[Sequence[ReadMention]], *, headings: bool = False
    ) -> list[list[ReadMention]]:
        """Add qualifiers to mentions: ``None`` for a mention in a heading, unless ``headings`` or it is an examination
        whose result follows (*ECG: AF*).
        """
        qualified = []
        for text, own in zip(texts, mentions, strict=True):
            spans = [(mention.start, mention.end) for mention in own]
            qualifiers: Sequence[Qualifiers | None] = [None] * len(spans)
            if spans and self._qualifier is not None:
                qualifiers = self._qualifier.qualify(text.text, spans)
            elif spans and self._qualifier_reader is not None:
                by_span = dict(zip(spans, own, strict=True))
                discontinuous = {span for span, mention in by_span.items() if mention.discontinuous}
                acts = {span for span, mention in by_span.items() if not self._names_finding(text, mention)}
                procedures = {span for span in acts if self._names_procedure(text, by_span[span])}
                note = self._qualifier_reader.read_once(text)
                qualifiers = note.qualifiers(spans, discontinuous, acts, procedures)
                hidden = set() if headings else {span for span in spans if note.in_heading(*span)}
                if hidden:
                    hidden -= _examinations(text, note.headings, hidden)
                qualifiers = [None if span in hidden else q for span, q in zip(spans, qualifiers, strict=True)]
            qualified.append([_qualified(text, *pair) for pair in zip(own, qualifiers, strict=True)])
        return qualified

    def _names_finding(self, text: ScannedText, mention: ReadMention) -> bool:
        """Whether a mention, or the long form of an abbreviation, may name a finding rather than a drug or an act."""
        words, long = _words(text, (mention.start, mention.end)), mention.mention.expanded
        if names_finding(words):
            is_act = self._is_procedure(words[0 if self._head_first else -1])  # "hernia repair"
            return not is_act and any(word.finds and _PROCEDURE not in self._kinds(word) for word in words)
        words = [*words, *(() if long is None else self._scanner.scan(long).words)]
        return names_finding(words) and all(_ACTS.isdisjoint(word.entry.kinds) for word in words)

    def _names_procedure(self, text: ScannedText, mention: ReadMention) -> bool:
        """Whether a mention that does not name a finding, or its long form, has a word for a procedure."""
        words, long = _words(text, (mention.start, mention.end)), mention.mention.expanded
        acts = [word for word in words if _PROCEDURE in word.entry.kinds]
        if acts:
            return all(map(self._is_procedure, acts))  # not "aortic dissection"
        short = None if long else self._shorthand.abbreviation(words[-1].entry.written)
        long = short.long if short is not None else long
        return bool(long) and self._has_procedure(long)

    def _is_procedure(self, word: ScannedWord) -> bool:
        kinds = self._kinds(word) if word.finds else word.entry.kinds
        return _PROCEDURE in kinds and FINDING_KINDS.isdisjoint(kinds)

    def _kinds(self, word: ScannedWord) -> Set[str]:
        """Kinds of a word itself, or of its last part if the whole is unknown (*Hernienplastik*)."""
        known, parts = self._index.forms.kinds, word.entry.word.parts
        own = word.meanings or (parts[-1] if parts else ())
        return word.entry.kinds & {known[meaning] for meaning in own}

    def scan(self, texts: Sequence[str]) -> list[ScannedText]:
        return self._scanner.scan_all(texts)

    def _find(self, texts: Sequence[ScannedText], long_forms: Sequence[LongForms]) -> list[list[ReadMention]]:
        if self._options.verbatim:
            names = map(self.generator.verbatim, texts, long_forms)
            spans = [[SelectedSpan(candidate, None) for candidate in own] for own in names]
            attributes: list[list[tuple[Attribute, ...] | None]] = [[None] * len(own) for own in spans]
        else:
            scored, modifiers = self.score_candidates(texts, self.generator.candidates(texts, long_forms))
            spans = self._classifier.select(scored)
            attributes = [list(map(tuple, own)) for own in map(self._attributes.read, texts, spans, modifiers)]
        mentions = []
        for text, selected, of_spans in zip(texts, spans, attributes, strict=True):
            inside = in_placeholder(text.text)
            pairs = zip(selected, of_spans, strict=True)
            own = (self._mention(text, _span(text, span.candidate), span, of_span) for span, of_span in pairs)
            mentions.append([mention for mention in own if not inside(mention.start, mention.end)])
        return mentions

    def _judge(
        self, texts: Sequence[ScannedText], long_forms: Sequence[LongForms], given: Sequence[Sequence[Span]]
    ) -> list[list[ReadMention]]:
        places = [[text.place(*span) for span in spans] for text, spans in zip(texts, given, strict=True)]
        scored, modifiers = self.score_candidates(texts, self.generator.candidates(texts, long_forms, places))
        judged = []
        for text, own, wanted, spans, of_text in zip(texts, scored, places, given, modifiers, strict=True):
            known = {span.candidate.place for span in own}  # a modifier counts if nothing else is there
            more = (span for span in of_text if span.candidate.place not in known)
            ordered = sorted([*own, *more], key=lambda span: span.candidate.place)
            selected = self._classifier.score_given(ordered, wanted)
            disjoint = weighted_interval_scheduling(list(selected.values()), 0.0)
            read = self._attributes.read(text, disjoint, of_text)
            attributes = {span.place: tuple(own) for span, own in zip(disjoint, read, strict=True)}
            pairs = zip(spans, wanted, strict=True)
            judged.append([self._mention(text, at, selected.get(p), attributes.get(p, ())) for at, p in pairs])
        return judged

    def score_candidates(
        self, texts: Sequence[ScannedText], candidates: Sequence[Sequence[CandidateSpan]]
    ) -> tuple[list[list[ScoredSpan]], list[list[ScoredSpan]]]:
        """Return for each of n texts the spans with their best concepts, and separately the spans of attributes."""
        best = self._linker.best(
            [self._query(text, span) for text, own in zip(texts, candidates, strict=True) for span in own]
        )
        names = self._index.attributes(np.array([concept.ranked.name for concept in best if concept is not None]))
        ranked, is_attribute_name = iter(best), iter(names.tolist())
        spans_of, attributes_of = list[list[ScoredSpan]](), list[list[ScoredSpan]]()
        for own in candidates:
            spans, attributes = list[ScoredSpan](), list[ScoredSpan]()
            for candidate in own:
                concept = next(ranked)
                if concept is None:
                    continue
                # the INR is a test, whatever the words of its name
                is_attribute = next(is_attribute_name) and not candidate.is_short_for_thing
                is_attribute = is_attribute or is_attribute_concept(concept.concept_id)
                target = attributes if is_attribute and not self._links_attributes else spans
                if not candidate.learned:
                    target.append(ScoredSpan(candidate, concept))
                elif concept.ranked.route == LEARNED:  # the options may exclude the learned concept
                    target.append(ScoredSpan(candidate, concept._replace(score=candidate.learned_share or 0.0)))
            spans_of.append(_first_named_values(self._without_rewordings(spans)))
            attributes_of.append(attributes)
        return spans_of, attributes_of

    def _without_rewordings(self, spans: list[ScoredSpan]) -> list[ScoredSpan]:
        """Drop other wordings of a span whose text is itself a name, if they are not names or have the same concept.

        If two terminologies have *Herzinfarkt* and only one *Myokardinfarkt*, the text keeps the common name. A wording
        that only resembles a name says less than the text. Abbreviations are exempt: long forms are more specific.
        """
        reworded = {id(span): span.candidate.expanded is not None and not span.is_short for span in spans}
        places = {span.candidate.place for span in spans if reworded[id(span)]}
        named = {
            span.candidate.place: {
                entry.concept_id
                for row in (span.candidate.match.rows if span.candidate.match else ())
                for entry in self._index.entries_of(row, self._linker.selection)
            }
            for span in spans
            if span.candidate.expanded is None and span.is_name and span.candidate.place in places
        }

        def is_worse(span: ScoredSpan) -> bool:
            concepts = named.get(span.candidate.place) if reworded[id(span)] else None
            return concepts is not None and (span.best.concept_id in concepts or not span.is_name)

        return [span for span in spans if not is_worse(span)]

    def _mention(
        self, text: ScannedText, span: Span, selected: SelectedSpan | None, attributes: tuple[Attribute, ...] | None
    ) -> ReadMention:
        context = context_around(text.text, *span)
        if selected is None:
            return ReadMention(*span, Mention(text.text[slice(*span)], self._language), context)
        candidate, mention = selected.candidate, self._query(text, selected.candidate)
        mention = mention if selected.score is None else replace(mention, confidence=selected.score)
        return ReadMention(*span, mention, context, candidate.value, attributes, candidate.discontinuous)

    def _query(self, text: ScannedText, candidate: CandidateSpan) -> Mention:
        written, expanded = text.text[slice(*_span(text, candidate))], candidate.expanded
        match, learned = None if expanded else candidate.match, candidate.learned or None
        return Mention(written, self._language, expanded, match, candidate.learned_share, learned)


def _qualified(text: ScannedText, mention: ReadMention, found: Qualifiers | None) -> ReadMention:
    """Add qualifiers to a mention, corrected by its kind.

    A value was measured: negation and doubt around it refer to something else. A finding in a list of allergies is a
    reaction or an allergy, not a substance.
    """
    if found is None:
        return mention
    presence = "present" if mention.value is not None else found.presence
    allergy = found.allergy and not names_finding(_words(text, (mention.start, mention.end)))
    return replace(mention, qualifiers=replace(found, presence=presence, allergy=allergy))


def _words(text: ScannedText, span: Span) -> list[ScannedWord]:
    return text.words[slice(*text.place(*span))]


def _span(text: ScannedText, candidate: CandidateSpan) -> Span:
    return text.span(candidate.place) if candidate.span is None else candidate.span


def _examinations(text: ScannedText, headings: Sequence[tuple[int, int, str]], spans: Collection[Span]) -> set[Span]:
    """Return the spans in headings that are examinations whose result follows."""
    ends = [start for start, _, _ in headings[1:]] + [len(text.text)]
    done = [
        (start, end)
        for (start, end, kind), behind in zip(headings, ends, strict=True)
        if kind == _RESULTS and any(map(str.isalnum, text.text[end:behind]))
    ]
    acts = (span for span in spans if not names_finding(_words(text, span)))
    return {(start, end) for start, end in acts if any(first <= start and end <= last for first, last in done)}


def _first_named_values(spans: Sequence[ScoredSpan]) -> list[ScoredSpan]:
    """Keep only the first reading of each measured value that is a name; all other spans stay."""
    named, remaining = set[Place](), list[ScoredSpan]()
    for span in spans:
        if span.candidate.value is not None:
            if not span.is_name or span.candidate.place in named:
                continue
            named.add(span.candidate.place)
        remaining.append(span)
    return remaining


def context_around(text: str, start: int, end: int) -> str:
    return text[max(0, start - _CONTEXT) : end + _CONTEXT]
