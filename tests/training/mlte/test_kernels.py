"""The features of a pair: by hand, against loops, scikit-learn's kernels and the library's own mean pooling."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.training.mlte import regressor as module
from medlink.training.mlte.regressor import KERNELS, block_means, kernels, pair_features, reader_of
from tests.training.small_bert import small_bert

TEXTS = ["fever", "a b", "left arm of the man", "", "cough and fever"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return reader_of(load_encoder(small_bert(tmp_path_factory.mktemp("bert"), layers=3)))[1]


def test_kernels_by_hand() -> None:
    one, other = np.array([[[3.0, 4.0], [1.0, 0.0]]]), np.array([[[0.0, 2.0], [0.0, 0.0]]])
    # products 8 and 0, over 2 dimensions 4 and 0
    first = [8 / 10, 5, math.sqrt(9 + 4), 5**3, math.tanh(5)]
    np.testing.assert_allclose(kernels(one, other), [[*first, 0, 1, 1, 1, math.tanh(1)]])
    assert kernels(one[:0], other[:0]).shape == (0, 10)
    with pytest.raises(ConfigError, match=r"states of shape \(1, 2, 2\) and \(1, 1, 2\), the same"):
        kernels(one, other[:, :1])


def test_kernels_against_scikit_learn_and_a_loop() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 7, 3, 5))
    found = kernels(one, other).reshape(7, 3, 5)
    theirs = (
        pairwise.cosine_similarity,
        pairwise.manhattan_distances,
        pairwise.euclidean_distances,
        pairwise.polynomial_kernel,
        pairwise.sigmoid_kernel,
    )
    assert [function.__name__.partition("_")[0] for function in theirs] == list(KERNELS)
    for block in range(3):
        for i, function in enumerate(theirs):
            np.testing.assert_allclose(found[:, block, i], np.diag(function(one[:, block], other[:, block])))
    for row in range(7):
        for block in range(3):
            x, y = one[row, block].tolist(), other[row, block].tolist()
            product = sum(a * b for a, b in zip(x, y, strict=True)) / 5 + 1
            apart = sum(abs(a - b) for a, b in zip(x, y, strict=True))
            np.testing.assert_allclose(found[row, block, [1, 3, 4]], [apart, product**3, math.tanh(product)])


def test_means_are_those_of_each_text_alone(model, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "_TEXTS", 2)
    found = block_means(model, TEXTS)
    assert found.shape == (5, 3, 16)
    for text, rows in zip(TEXTS, found, strict=True):
        read = model.tokenizer([text], return_tensors="pt")
        with torch.no_grad():
            states = model[0].auto_model(**read, output_hidden_states=True).hidden_states
        np.testing.assert_allclose(rows, [block[0].mean(dim=0) for block in states[1:]], atol=1e-6)
    # the library's mean pooling of the last block
    np.testing.assert_allclose(found[:, -1], model.encode(TEXTS), atol=1e-6)
    # a dropout that is on changes nothing
    np.testing.assert_allclose(block_means(model.train(), TEXTS), found)


def test_features_of_pairs_in_parts(model, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    others = [*TEXTS[1:], TEXTS[0]]
    whole = pair_features(model, TEXTS, others)
    assert whole.shape == (5, 15)
    np.testing.assert_allclose(whole, kernels(block_means(model, TEXTS), block_means(model, others)), rtol=1e-4)
    monkeypatch.setattr(module, "_PAIRS", 2)
    np.testing.assert_allclose(pair_features(model, TEXTS, others), whole, rtol=1e-4, atol=1e-5)
    assert pair_features(model, [], []).shape == (0, 0)
    with pytest.raises(ConfigError, match="1 texts beside 2, as many expected"):
        pair_features(model, ["a"], ["a", "b"])


def test_encoders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        EncoderError, match=r"reads the blocks of a transformer, and a static encoder has none\. Remedy"
    ):
        reader_of(load_encoder())
    broken = reader_of(load_encoder(small_bert(tmp_path)))[1]
    with torch.no_grad():
        next(broken.parameters()).fill_(float("nan"))
    with pytest.raises(EncoderError, match="states of the encoder are NaN or infinite"):
        block_means(broken, ["fever"])
    with pytest.raises(EncoderError, match="the blocks of this encoder cannot be read"):
        block_means(torch.nn.Sequential(torch.nn.Identity()), ["fever"])  # type: ignore[arg-type]  # has no blocks
