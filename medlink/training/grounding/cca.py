"""The linear constraint: canonical correlation analysis of names and their concepts, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, EncoderError


@dataclass(frozen=True, slots=True)
class ConceptMap:
    """Maps ``s * (x - mean) @ axes`` of names and ``(u - mean) @ axes`` of concepts, d numbers to d.

    ``mean`` is ``(d,)``, ``axes`` ``(d, d)`` with a column for each pair of variates, ``correlations`` ``(d,)`` the s,
    descending.
    """

    mean: NDArray[np.float64]
    axes: NDArray[np.float64]
    correlations: NDArray[np.float64]

    @property
    def weights(self) -> NDArray[np.float64]:
        """The ``(d, d)`` matrix by which centred names are multiplied from the right."""
        return self.axes * self.correlations

    def names(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """CCA(n) of ``(n, d)`` names."""
        return np.asarray((vectors - self.mean) @ self.weights)

    def concepts(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """CCA(u_p) of ``(m, d)`` concepts."""
        return np.asarray((vectors - self.mean) @ self.axes)


def concept_means(vectors: NDArray[np.float32], owner: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean of the names of each concept, ``(concepts, d)``: u_p of Fivez et al. 2021, equation 2.

    >>> concept_means(np.array([[1, 0], [0, 1], [0, 4]], dtype=np.float32), np.array([0, 0, 1])).tolist()
    [[0.5, 0.5], [0.0, 4.0]]
    """
    sums = np.zeros((int(owner.max()) + 1, vectors.shape[1]))
    np.add.at(sums, owner, vectors)
    return np.asarray(sums / np.bincount(owner)[:, None])


def fit_map(vectors: NDArray[np.float32], owner: NDArray[np.int64], ridge: float = 1e-3) -> ConceptMap:
    """CCA of names and the mean of the names of their concepts (Fivez et al. 2021, section 3.2 and 5.3).

    The map keeps the full dimension, as the paper's does. The paper names neither the algorithm nor the scale of the
    variates. As the second variable is the mean of the first within each concept, the covariance of both is that of the
    second, and the axes are the eigenvectors of one symmetric problem, ``between a = s^2 total a`` with ``a total a =
    1``. Both variates of a pair have unit variance then, and each is weighted here by its correlation s, so that what
    names share with their concept counts most.

    Args:
        vectors: ``(n, d)`` names.
        owner: ``(n,)`` number of the concept of each, from 0, none left out.
        ridge: added to the variance of names in every direction, as a share of its mean.

    Raises:
        ConfigError: there is one concept, or all names or all concepts are one point.
        EncoderError: an embedding is NaN or infinite.

    >>> names = np.array([[1, 3], [1, -3], [-1, 3], [-1, -3]], dtype=np.float32)
    >>> fit_map(names, np.array([0, 0, 1, 1]), ridge=0).correlations.round(6).tolist()  # concepts differ in the first
    [1.0, 0.0]
    """
    from scipy.linalg import eigh

    if not np.isfinite(vectors).all():
        raise EncoderError("an embedding of a name is NaN or infinite", remedy="start from another encoder")
    means = concept_means(vectors, owner)
    if len(means) < 2:
        raise ConfigError("the names belong to fewer than two concepts", remedy="train on several concepts")
    mean = vectors.mean(axis=0, dtype=np.float64)
    total = np.cov(vectors, rowvar=False, bias=True, dtype=np.float64)
    between = np.cov(means, rowvar=False, bias=True, fweights=np.bincount(owner))
    total, between = np.atleast_2d(total), np.atleast_2d(between)
    spread = float(np.trace(total)) / len(mean)
    if float(np.trace(between)) <= 1e-12 * max(spread, 1e-12):
        remedy = "start from an encoder that tells them apart"
        raise ConfigError("the encoder embeds all concepts alike", remedy=remedy)
    values, axes = eigh(between, total + max(ridge, 1e-9) * spread * np.eye(len(mean)))
    values, axes = values[::-1], axes[:, ::-1]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(len(mean))]
    return ConceptMap(mean, axes * np.sign(largest), np.sqrt(np.clip(values, 0, 1)))
