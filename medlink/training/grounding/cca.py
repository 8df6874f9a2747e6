"""The linear constraint: canonical correlation analysis of names and their concepts, in closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError

Floats = NDArray[np.float64]
_RIDGE = 1e-3  # added to the variance of names in every direction, as a share of its mean: names may be few


class ConceptMap(NamedTuple):
    """Maps ``(x - mean) @ names`` of names and ``(u - mean) @ concepts`` of concepts, d numbers to d.

    ``mean`` is ``(d,)``, the matrices are ``(d, d)`` with a column for each variate, and ``correlations`` ``(d,)``
    descend.
    """

    mean: Floats
    names: Floats
    concepts: Floats
    correlations: Floats


def concept_means(vectors: NDArray[np.float32], owner: NDArray[np.int64]) -> Floats:
    """Mean of the names of each concept, ``(concepts, d)``: u_p of Fivez et al. 2021, equation 2.

    Raises:
        EncoderError: an embedding is NaN or infinite.

    >>> concept_means(np.array([[1, 0], [0, 1], [0, 4]], dtype=np.float32), np.array([0, 0, 1])).tolist()
    [[0.5, 0.5], [0.0, 4.0]]
    """
    if not np.isfinite(vectors).all():
        raise EncoderError("an embedding of a name is NaN or infinite", remedy="start from another encoder")
    sums = np.zeros((int(owner.max()) + 1, vectors.shape[1]))
    np.add.at(sums, owner, vectors)
    return np.asarray(sums / np.bincount(owner)[:, None])


def fit_map(vectors: NDArray[np.float32], owner: NDArray[np.int64], ridge: float = _RIDGE) -> ConceptMap:
    """CCA of names and the mean of the names of their concepts (Fivez et al. 2021, sections 3.2 and 5.3).

    The map keeps the full dimension, as the paper's does. The paper names neither the algorithm nor the scale of the
    variates. As the second variable is the mean of the first within each concept, the covariance of both is that of the
    second, and the axes are the eigenvectors of one symmetric problem: ``between a = s^2 total a``. Both variates of a
    pair, ``a x`` and ``a u / s``, have unit variance, and each is weighted here by its correlation s, so that what
    names share with their concept counts most.

    Args:
        vectors: ``(n, d)`` names.
        owner: ``(n,)`` number of the concept of each, from 0, none left out.

    Raises:
        ConfigError: there is one concept, or all are embedded alike.
        EncoderError: an embedding is NaN or infinite.

    >>> names = np.array([[1, 3], [1, -3], [-1, 3], [-1, -3]], dtype=np.float32)
    >>> fit_map(names, np.array([0, 0, 1, 1]), ridge=0).correlations.round(6).tolist()  # concepts differ in the first
    [1.0, 0.0]
    """
    from scipy.linalg import eigh

    means = concept_means(vectors, owner)
    n, mean = len(vectors), vectors.mean(axis=0, dtype=np.float64)
    names, concepts = vectors - mean, means - mean
    total, between = names.T @ names / n, (concepts.T * np.bincount(owner)) @ concepts / n
    spread = float(np.trace(total)) / len(total)
    if float(np.trace(between)) <= 1e-12:
        remedy = "train on several concepts, from an encoder that tells them apart"
        raise ConfigError("all concepts are embedded alike", remedy=remedy)
    values, axes = eigh(between, total + ridge * spread * np.eye(len(total)))
    values, axes = values[::-1], axes[:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(total))])
    correlations = np.sqrt(np.clip(values, 0, 1))
    return ConceptMap(mean, axes * correlations, axes, correlations)
