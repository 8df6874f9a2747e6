"""``medlink_mentions``: mentions by longest match with the names of a bundle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacy.tokens import Doc, Span
from spacy.util import filter_spans, get_lang_class
from spacy.vocab import Vocab

from medlink.index import Filter
from medlink.index.dictionary import Match
from medlink.language.text import language_rules, same_letters
from medlink.spacy_components.abbreviations import Abbreviations
from medlink.spacy_components.settings import Component

LABEL = "MENTION"
# A name of so few letters is as a rule an abbreviation: it counts only in upper case.
_SHORT = 3
# A single word of another language's names must be so long, because short words mean other things elsewhere.
_FOREIGN = 6
# Characters before a mention in which a title is looked for.
_TITLE = 60


@dataclass(frozen=True, slots=True)
class _Place:
    """A mention with what decides between overlapping ones."""

    span: Span
    own: bool


class MentionFinder(Component):
    """Find the names of a bundle in running text, inflected forms included.

    Writes ``doc.spans[spans_key]`` and, when ``doc.ents`` is empty, ``doc.ents``. At each place the longest name wins;
    between equals the pipeline's own language, then the first.

    Args:
        vocab: vocabulary of the pipeline; any pipeline with a tokeniser will do.
        name: name of the component.
        bundle: folder of the bundle; default ``MEDLINK_BUNDLE``, else the demo bundle.
        language: language of the notes; default that of the pipeline.
        other_languages: also find names of the bundle's other languages: Latin and English terms in a German note.
        semantic_types: only names of concepts with one of these.
        abbreviations: also mark abbreviations that the note explains.
        spans_key: span group that is written.
    """

    def __init__(
        self,
        vocab: Vocab,
        name: str = "medlink_mentions",
        *,
        bundle: str | None = None,
        language: str | None = None,
        other_languages: bool = True,
        semantic_types: Iterable[str] = (),
        abbreviations: bool = True,
        spans_key: str = "medlink",
    ) -> None:
        super().__init__(
            vocab,
            name,
            bundle=bundle,
            language=language,
            other_languages=other_languages,
            semantic_types=sorted(semantic_types),
            abbreviations=abbreviations,
            spans_key=spans_key,
        )
        self._stop_words = {word.casefold() for word in get_lang_class(vocab.lang).Defaults.stop_words}
        rules = language_rules(self.language)
        self._person_cues = rules.person_cues if rules else frozenset()
        self._abbreviations = Abbreviations(vocab) if abbreviations else None
        self._selection = self.bundle.index.select(Filter(semantic_types=tuple(self.settings["semantic_types"])))

    def __call__(self, doc: Doc) -> Doc:
        self.set_annotations(doc, self.predict(doc))
        return doc

    def predict(self, doc: Doc) -> list[Span]:
        """Mentions of a document, without overlap, in order."""
        text = doc.text  # made anew by spaCy at every call
        places: list[_Place] = []
        languages = [self.language]
        if self.settings["other_languages"]:
            languages += [la for la in self.bundle.index.languages if la != self.language]
        for language in languages:
            # a name whose language is not stated, or of another region, is one of the note's own
            own = not language or language.partition("-")[0] == self.language.partition("-")[0]
            for match in self.bundle.index.find(text, language):
                if self._names_a_person(text, match):
                    continue
                span = self._span(doc, text[match.start : match.end], match, own)
                if span is not None:
                    places.append(_Place(span, own))
        if self._abbreviations is not None:
            for start, end in self._abbreviations.long_forms(doc):
                places.append(_Place(Span(doc, start, end, label=LABEL), True))
        # filter_spans takes the longest and, of equals, the first of the list
        ordered = sorted(places, key=lambda p: (not p.own, p.span.start, -p.span.end))
        return sorted(filter_spans([place.span for place in ordered]), key=lambda span: span.start)

    def set_annotations(self, doc: Doc, spans: list[Span]) -> None:
        """Write the mentions."""
        doc.spans[self.settings["spans_key"]] = spans
        if not doc.ents:
            doc.set_ents(spans)

    def _span(self, doc: Doc, text: str, match: Match, own: bool) -> Span | None:
        """The span of a match and its text, ``None`` where it is no mention."""
        letters = sum(map(str.isalpha, text))
        if not letters or (match.words == 1 and letters == 1 and len(text) == 1):
            return None
        if match.words == 1:
            if text.casefold() in self._stop_words and not (text.isupper() and letters > 1):
                return None
            if letters <= _SHORT and not text.isupper():
                return None
            if not own and letters < _FOREIGN:
                return None
        if not any(self._spelt_so(row, text, match.language) for row in match.rows):
            return None
        return doc.char_span(match.start, match.end, label=LABEL, alignment_mode="expand")

    def _spelt_so(self, row: float, text: str, language: str) -> bool:
        """Whether a row has a name that ``text`` may stand for: an upper-case name stands for upper-case text only."""
        for entry in self.bundle.index.entries_of(row, self._selection):
            if (
                entry.language == language
                and (text.isupper() or not entry.text.isupper())
                and same_letters(text, entry.text, language)
            ):
                return True
        return False

    def _names_a_person(self, text: str, match: Match) -> bool:
        """Whether one capitalised word follows a title ("Frau Alzheimer", "Dr. med. Anna Alzheimer")."""
        if match.words > 1 or not text[match.start].isupper() or text[match.start : match.end].isupper():
            return False
        before = text[max(0, match.start - _TITLE) : match.start].rpartition("\n")[2].split()
        for word in reversed(before[-4:]):
            if word in self._person_cues:
                return True
            if not word[0].isupper() or not word[-1].isalpha():
                return False
        return False
