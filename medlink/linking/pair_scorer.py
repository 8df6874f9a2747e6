"""A ranker that has pairs of texts scored, such as by a regressor that reads both: too slow for all candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medlink.linking.candidates import Mention
from medlink.linking.features import Evidence
from medlink.linking.ranking import Ranker

Score = Callable[[Sequence[str], Sequence[str]], ArrayLike]
"""n texts and n others to ``(n,)`` scores, higher for more alike, as :meth:`medlink.MlteRegressor.score` gives them."""


class PairRanker:
    """The first k names that another ranker finds for a mention, in the order of the scores of their pairs.

    They share the rank scores that they had, so that these mean what they meant to a calibration; a name that is the
    mention keeps its own. Of equal scores the name that ranked higher stays first. Names are compared in their exact
    forms, which have no capitals and no accents.
    The other ranker is ``first``, such as that of a :class:`medlink.Linker`.
    """

    uses_context = False

    def __init__(self, score: Score, first: Ranker, k: int = 8) -> None:
        self._score, self._first, self._k = score, first, k

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)``: those of the first ranker, handed round among the first k of each mention."""
        ranks = self._first.rank(mentions, None, candidates)
        free = np.flatnonzero(~candidates.named)
        best = free[np.lexsort((-ranks[free], candidates.mention[free]))]
        mention = candidates.mention[best]
        place = np.arange(len(best)) - np.searchsorted(mention, mention)
        first, mention = best[place < self._k], mention[place < self._k]
        texts = [[side[row] for row in first.tolist()] for side in (candidates.queries, candidates.norms)]
        scores = np.asarray(self._score(*texts), dtype=np.float64)
        given = np.array(ranks)
        given[first[np.lexsort((-scores, mention))]] = ranks[first]
        return given
