"""Adjust the probabilities of pairs to the share of synonyms in their list.

The model of pairs was fitted on some lists. Another list may have more synonyms, as the names of a terminology, or
nearly none, as a list of codes. Expectation maximisation estimates the share from the probabilities themselves
(Saerens, Latinne and Decaestecker 2002, "Adjusting the outputs of a classifier to new a priori probabilities",
section 2.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PAIRS = 18  # compared pairs for each term in the lists that the model was fitted on
_FITTED_SHARE = 0.03  # of synonyms among these pairs
_TRUST = 0.3  # weight of this share against that of the list
_MIN_TRUST = 500.0  # pairs; a short list says little about its share
_BINS = 4_096
_MAX_LOG_ODDS = 16.0
_ROUNDS = 200


def adjust_to_list(probability: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Return the probabilities ``(p,)`` of being one concept, adjusted to a list of so many terms."""
    probability = np.clip(probability, 1e-9, 1 - 1e-9)
    log_odds = np.log(probability / (1 - probability))
    # a round over bins costs the same for a list of any length
    counts, edges = np.histogram(log_odds, _BINS, (-_MAX_LOG_ODDS, _MAX_LOG_ODDS))
    centres, fitted = (edges[:-1] + edges[1:]) / 2, np.log(_FITTED_SHARE / (1 - _FITTED_SHARE))
    pairs = float(_PAIRS * terms)
    trusted = _TRUST * pairs + _MIN_TRUST
    shift = 0.0
    for _ in range(_ROUNDS):
        synonyms = counts @ (1 / (1 + np.exp(-centres - shift)))
        share = (synonyms + trusted * _FITTED_SHARE) / (pairs + trusted)
        before, shift = shift, float(np.log(share / (1 - share)) - fitted)
        if abs(shift - before) < 1e-6:
            break
    return np.asarray(1 / (1 + np.exp(-log_odds - shift)))
