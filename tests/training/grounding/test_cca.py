"""The map in closed form, against a case worked by hand, the definition of CCA, and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.errors import ConfigError, EncoderError
from medlink.training.grounding.network import concept_means, fit_map


def names(seed: int, concepts: int = 30, each: int = 4, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(concepts, d)) * np.array([3, 2, 1, 0.5, 0.1])
    owner = np.repeat(np.arange(concepts), each)
    mixed = (centres[owner] + rng.normal(size=(len(owner), d))) @ rng.normal(size=(d, d))
    return mixed.astype(np.float32), owner


def test_means_are_those_of_a_loop() -> None:
    vectors, owner = names(0)
    expected = [
        np.mean([v for v, o in zip(vectors, owner, strict=True) if o == concept], axis=0) for concept in range(30)
    ]
    np.testing.assert_allclose(concept_means(vectors, owner), expected, atol=1e-6)


def test_by_hand() -> None:
    # in the first direction 4 of 5 parts of the variance are between concepts, in the second none
    vectors = np.array([[3, 1], [1, -1], [-1, 1], [-3, -1]], dtype=np.float32)
    found = fit_map(vectors, np.array([0, 0, 1, 1]), ridge=0)
    assert found.correlations[1] == pytest.approx(0, abs=1e-6)
    # the names lie on (a + b, b) for a = 2, -2 and b = 1, -1: x - y is the concept itself
    assert found.correlations[0] == pytest.approx(1)
    direction = found.concepts[:, 0] / found.concepts[0, 0]
    np.testing.assert_allclose(direction, [1, -1], atol=1e-6)
    # the variance of x - y is 4: its variates have variance 1
    assert abs(found.names[0, 0]) == pytest.approx(1 / 2)


def test_correlations_are_those_of_scikit_learn() -> None:
    from sklearn.cross_decomposition import CCA

    vectors, owner = names(2)
    concepts = concept_means(vectors, owner)[owner]
    x, y = CCA(n_components=5, max_iter=100_000, tol=1e-12).fit_transform(vectors.astype(np.float64), concepts)
    theirs = sorted((abs(np.corrcoef(x[:, i], y[:, i])[0, 1]) for i in range(5)), reverse=True)
    np.testing.assert_allclose(fit_map(vectors, owner, ridge=0).correlations, theirs, atol=1e-3)


@pytest.mark.parametrize("owner", [[0, 0, 0, 0], [0, 1, 0, 1]])
def test_concepts_that_cannot_be_told_apart(owner: list[int]) -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    with pytest.raises(ConfigError, match=r"all concepts are embedded alike\. Remedy: train on several concepts"):
        fit_map(vectors, np.array(owner))


def test_an_embedding_that_is_no_number() -> None:
    vectors = np.array([[1, 0], [np.nan, 1]], dtype=np.float32)
    with pytest.raises(EncoderError, match="an embedding of a name is NaN or infinite"):
        fit_map(vectors, np.array([0, 1]))
