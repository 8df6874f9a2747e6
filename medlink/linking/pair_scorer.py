"""Re-order the first candidates by a model that scores pairs of texts and is too slow for all candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from medlink.linking.arrays import Floats
from medlink.linking.candidates import Contexts, Mention
from medlink.linking.features import CandidateFeatures
from medlink.linking.ranking import Ranker

PairScorer = Callable[[Sequence[str], Sequence[str]], ArrayLike]
"""Scores ``(n,)`` of n pairs of texts, higher for more alike, such as :meth:`medlink.MlteRegressor.score`."""


class PairRanker:
    """Order the first k names of another ranker by their scores as pairs with the mention.

    The k names exchange their rank scores, which keeps the calibration valid. A name equal to the mention keeps its
    rank score. Names with equal scores stay in order. Texts are exact forms, without capitals and accents.

    Args:
        score: scores pairs of mention and name.
        first: ranks all candidates, such as the ranker of a :class:`medlink.Linker`.
        k: names to score for each mention.
    """

    uses_context = False

    def __init__(self, score: PairScorer, first: Ranker, k: int = 8) -> None:
        self._score, self._first, self._k = score, first, k

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        """Return the rank scores ``(p,)``."""
        ranks = self._first.rank(mentions, None, candidates)
        free = np.flatnonzero(~candidates.is_equal)
        best = free[np.lexsort((-ranks[free], candidates.mention[free]))]
        mention = candidates.mention[best]
        position = np.arange(len(best)) - np.searchsorted(mention, mention)
        first, mention = best[position < self._k], mention[position < self._k]
        texts = [[side[row] for row in first.tolist()] for side in (candidates.queries, candidates.norms)]
        scores = np.asarray(self._score(*texts), dtype=np.float64)
        reordered = np.array(ranks)
        reordered[first[np.lexsort((-scores, mention))]] = ranks[first]
        return reordered
