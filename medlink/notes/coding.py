"""The codes of a note as a whole, learned from annotated notes.

Annotators code a note, not each of its mentions: they code *vómitos* inside *náuseas y vómitos*, skip findings that are
trivial beside a diagnosis, and may code negated findings. Candidates are the concepts of the linked mentions, and all
concepts that the words of the note had in the annotated notes, even inside longer mentions. A logistic regression
estimates from the evidence for each candidate the probability that annotators would code it. It is fitted on the
candidates that notes get from mentions learned on other notes (stacking; Wolpert 1992, "Stacked generalization", Neural
Networks 5:241-259).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.language.text import exact_words
from medlink.reading.candidates import NO_CONCEPT, NO_MENTION
from medlink.reading.classifier import LogisticModel
from medlink.reading.features import log_odds
from medlink.reading.learned import CodeWeights, Entries, Forms, Learned
from medlink.records import LinkedMention

COLUMNS = (
    "learned", "share", "count", "linked", "score", "route", "rate", "annotated", "rival", "characters", "position",
    "absent", "present",
)  # fmt: skip
"""Columns of a candidate.

``learned``: words of the note had the concept; ``share``, ``count``: for the words with the highest share of
occurrences with the concept, log odds of this share, and log of one plus their number; ``linked``: a mention is linked
to the concept; ``score``: log odds of the highest score; ``route``: a learned mention is linked to the concept;
``rate``: log odds of the share of annotated occurrences of all its words; ``annotated``: log of one plus the number of
its annotations; ``rival``: each of its spans had another concept more often; ``characters``: log of the length of its
longest span; ``position``: start of its first span, as share of the note; ``absent``: all of its mentions are absent;
``present``: some are present.
"""
_PENALTY = 1.0  # of squared weights of standardised columns, as in the prior of a normal distribution
_STEPS, _TOLERANCE, _DIGITS = 50, 1e-8, 4


class NoteCode(NamedTuple):
    """A concept that a note would be coded with, its probability, and the character spans that support it."""

    concept_id: str
    probability: float
    spans: tuple[tuple[int, int], ...]


class Candidate(NamedTuple):
    """A concept with its spans and the values of :data:`COLUMNS`."""

    concept_id: str
    spans: tuple[tuple[int, int], ...]
    columns: tuple[float, ...]


class _Occurrence(NamedTuple):
    start: int
    end: int
    share: float
    number: int


class NoteCoder:
    """Propose the codes of notes by learned mentions and the links of a note."""

    def __init__(self, entries: Entries, weights: CodeWeights | None = None, unknown: Set[str] = frozenset()) -> None:
        self._no_codes = {NO_CONCEPT, NO_MENTION, *unknown}
        self._seen = defaultdict[str, dict[str, Counter[str]]](dict)  # by language and mention
        annotated, unannotated = Counter[str](), defaultdict[str, float](float)
        for (mention, language), entry in sorted(entries.items()):
            seen = entry.everywhere
            self._seen[language][mention] = seen
            concepts = {label: number for label, number in seen.items() if label not in self._no_codes}
            annotated.update(concepts)
            for concept, number in concepts.items():  # several concepts share the occurrence
                unannotated[concept] += seen[NO_MENTION] * number / sum(concepts.values())
        self._forms = {language: Forms(seen) for language, seen in self._seen.items()}
        self._annotated, self._unannotated = annotated, unannotated
        self._least = 0.0 if weights is None else weights.least
        self._model = None if weights is None else LogisticModel.from_dict(weights.model_dump(), COLUMNS)

    @classmethod
    def of(cls, learned: Learned) -> NoteCoder:
        """Return the coder of learned mentions, for the concepts that the bundle has."""
        return cls(learned.entries, learned.head.codes, learned.unknown)

    def codes(self, text: str, language: str, mentions: Sequence[LinkedMention]) -> tuple[NoteCode, ...]:
        """Return the codes of a note, likeliest first; none without weights."""
        if self._model is None:
            return ()
        candidates = list(self.candidates(text, language, mentions))
        probabilities = self._model.predict_proba([one.columns for one in candidates])
        codes = (NoteCode(one.concept_id, p, one.spans) for one, p in zip(candidates, probabilities, strict=True))
        return tuple(sorted((code for code in codes if code.probability >= self._least), key=lambda c: (-c[1], c[0])))

    def candidates(self, text: str, language: str, mentions: Sequence[LinkedMention]) -> Iterator[Candidate]:
        """Yield the candidates of a note in the order of their ids."""
        learned, shares = self._occurrences(text, language)
        linked = defaultdict[str, list[LinkedMention]](list)
        for mention in mentions:
            if mention.link.concept_id is not None:
                linked[mention.link.concept_id].append(mention)
        for concept in sorted(learned.keys() | linked.keys()):
            own, links = learned[concept], linked[concept]
            best = max(own, key=lambda one: (one.share, one.number), default=None)
            spans = sorted({(one.start, one.end) for one in own} | {(one.start, one.end) for one in links})
            known = self._annotated[concept]
            best_links = [mention.link.candidates[0] for mention in links]
            # qualifiers of mentions that overlap its spans
            qualifiers = [
                m.qualifiers for m in mentions if m.qualifiers and any(s < m.end and m.start < e for s, e in spans)
            ]
            columns = (
                bool(own), log_odds(best.share) if best else 0.0, log(1 + best.number) if best else 0.0,
                bool(links), max((log_odds(one.score) for one in best_links), default=0.0),
                any(one.route == "learned" for one in best_links),
                log_odds((known + 1) / (known + self._unannotated[concept] + 2)), log(1 + known),
                bool(own) and all(shares[one.start, one.end] > one.share for one in own),
                log(max(end - start for start, end in spans)), spans[0][0] / len(text),
                bool(qualifiers) and all(q.presence == "absent" for q in qualifiers),
                not qualifiers or any(q.is_present for q in qualifiers),
            )  # fmt: skip
            yield Candidate(concept, tuple(spans), tuple(map(float, columns)))

    def _occurrences(
        self, text: str, language: str
    ) -> tuple[defaultdict[str, list[_Occurrence]], dict[tuple[int, int], float]]:
        """The learned mentions in a text by concept, and the highest share of a concept at each span."""
        found, shares = defaultdict[str, list[_Occurrence]](list), dict[tuple[int, int], float]()
        if language in self._forms:
            for mention, start, end in self._forms[language].places(text, exact_words(text, language)):
                seen = self._seen[language][mention]
                for label, count in seen.items():
                    if label not in self._no_codes:
                        # each outcome starts with half an occurrence (Krichevsky and Trofimov 1981)
                        share = (count + 0.5) / (seen.total() + 1)
                        found[label].append(_Occurrence(start, end, share, count))
                        shares[start, end] = max(share, shares.get((start, end), 0.0))
        return found, shares


def fit_weights(notes: Sequence[tuple[int, Sequence[Candidate], frozenset[str]]]) -> CodeWeights | None:
    """Fit the weights on notes, each with its fold, candidates and codes; ``None`` if all or no candidates are right.

    The threshold is the probability with the highest F1 over all codes, if weights of the other folds score each fold.
    """
    x = np.array([one.columns for _, candidates, _ in notes for one in candidates]).reshape(-1, len(COLUMNS))
    y = np.array([float(one.concept_id in codes) for _, candidates, codes in notes for one in candidates])
    fold = np.repeat([fold for fold, _, _ in notes], [len(candidates) for _, candidates, _ in notes])
    if not 0 < y.sum() < len(y):
        return None
    probability = np.zeros(len(y))
    for number in np.unique(fold):
        weights, offset = _logistic(x[fold != number], y[fold != number])
        probability[fold == number] = 1 / (1 + np.exp(-(x[fold == number] @ weights + offset)))
    order = np.argsort(-probability, kind="stable")
    f1 = 2 * np.cumsum(y[order]) / (np.arange(1, len(y) + 1) + sum(len(codes) for _, _, codes in notes))
    weights, offset = _logistic(x, y)
    columns = zip(weights, x.min(0), x.max(0), strict=True)
    least, pairs = probability[order][f1.argmax()], zip(COLUMNS, columns, strict=True)
    rounded = {name: [_rounded(value) for value in own] for name, own in pairs}
    return CodeWeights(offset=_rounded(offset), least=_rounded(least), columns=rounded)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")  # the last digits of a matrix product differ between processors


def _logistic(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Weights for columns ``x (n, c)``, and offset, of a logistic regression of ``y (n,)`` with a ridge penalty.

    Newton's method (Bishop 2006, Pattern Recognition and Machine Learning, equations 4.92 to 4.100) on standardised
    columns; the offset has no penalty.
    """
    mean, deviation = x.mean(0), x.std(0)
    deviation[deviation == 0] = 1.0
    z = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    penalty = np.diag([*[_PENALTY] * x.shape[1], 1e-6])
    w = np.zeros(z.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
        step = np.linalg.solve((z * (p * (1 - p))[:, None]).T @ z + penalty, z.T @ (p - y) + penalty @ w)
        w -= step
        if np.abs(step).max() < _TOLERANCE:
            break
    weights = w[:-1] / deviation
    return weights, float(w[-1] - weights @ mean)
