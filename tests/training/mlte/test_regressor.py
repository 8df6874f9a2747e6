"""Features, losses and heads of MLTE: by hand, against loops and scikit-learn."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, pairwise

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.training.mlte import regressor as module
from medlink.training.mlte.regressor import (
    KERNELS,
    ExtraFeature,
    Head,
    block_means,
    kernels,
    pair_features,
    transform_extras,
    unwrap_encoder,
)
from medlink.training.mlte.trainer import fit_heads, head_loss, order_penalty, score_quality
from medlink.training.recipes import MlteRecipe
from tests.training.small_bert import small_bert

TEXTS = ["fever", "a b", "left arm of the man", "", "cough and fever"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return unwrap_encoder(load_encoder(small_bert(tmp_path_factory.mktemp("bert"), layers=3)))[1]


def test_kernels_by_hand() -> None:
    one, other = np.array([[[3.0, 4.0], [1.0, 0.0]]]), np.array([[[0.0, 2.0], [0.0, 0.0]]])
    # products 8 and 0, over 2 dimensions 4 and 0
    first = [8 / 10, 5, math.sqrt(9 + 4), 5**3, math.tanh(5)]
    np.testing.assert_allclose(kernels(one, other), [[*first, 0, 1, 1, 1, math.tanh(1)]])
    assert kernels(one[:0], other[:0]).shape == (0, 10)


def test_kernels_against_scikit_learn() -> None:
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


@pytest.mark.slow
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
    features = pair_features(model, TEXTS, others)
    assert features.shape == (5, 15)
    np.testing.assert_allclose(features, kernels(block_means(model, TEXTS), block_means(model, others)), rtol=1e-4)
    monkeypatch.setattr(module, "_PAIRS", 2)
    np.testing.assert_allclose(pair_features(model, TEXTS, others), features, rtol=1e-4, atol=1e-5)
    assert pair_features(model, [], []).shape == (0, 0)
    with pytest.raises(ConfigError, match="1 texts beside 2, as many expected"):
        pair_features(model, ["a"], ["a", "b"])


@pytest.mark.slow
def test_encoders_that_cannot_be_read(tmp_path: Path) -> None:
    broken = unwrap_encoder(load_encoder(small_bert(tmp_path)))[1]
    with torch.no_grad():
        next(broken.parameters()).fill_(float("nan"))
    with pytest.raises(EncoderError, match="states of the encoder are NaN or infinite"):
        block_means(broken, ["fever"])
    with pytest.raises(EncoderError, match="the blocks of this encoder cannot be read"):
        block_means(torch.nn.Sequential(torch.nn.Identity()), ["fever"])  # type: ignore[arg-type]  # has no blocks


RNG = np.random.default_rng(5)
FEATURES, EXTRA = RNG.normal(size=(60, 10)) * 3 + 2, RNG.normal(size=(60, 2))
GOLD = np.round(np.clip(FEATURES[:, 0] - 2 + EXTRA[:, 0], -4, 4))
NONE = np.zeros((60, 0))
RECIPE = MlteRecipe(head_epochs=4, hidden=3, seed=2)


def test_the_penalty_by_hand() -> None:
    # sorted by gold 1 2 2 5 the predictions are 4 1 3 2: 4 > 1 by 3, 3 > 2 by 1
    predicted, gold = torch.tensor([2.0, 1.0, 4.0, 3.0]), torch.tensor([5.0, 2.0, 1.0, 2.0])
    assert order_penalty(predicted, gold).item() == 4
    # and with beta 1/2: errors 3, 1, 3, 1
    assert head_loss(predicted, gold, 0.5, "regressor").item() == (9 + 1 + 9 + 1) / 4 + 2
    assert order_penalty(gold, gold).item() == 0
    assert order_penalty(predicted[:1], gold[:1]).item() == 0


def test_a_head_by_hand() -> None:
    head = Head(*(np.array(part) for part in ([1.0, 0.0], [2.0, 1.0], [[1.0], [3.0]], [0.5], [2.0, -1.0], [0.25])))
    # (5 - 1) / 2 + 3 * 1 + 1/2 = 5.5, then 2 * 5.5 - 4 + 1/4; -2.5 is cut to 0
    np.testing.assert_allclose(head(np.array([[5.0, 1.0], [1.0, -1.0]]), np.array([[4.0], [4.0]])), [7.25, -3.75])


@pytest.mark.slow
def test_betas_do_not_affect_each_other() -> None:
    together = fit_heads(FEATURES, EXTRA, GOLD, RECIPE)
    assert len(together) == 7
    for beta, head in zip(RECIPE.beta, together, strict=True):
        alone = fit_heads(FEATURES, EXTRA, GOLD, RECIPE.replace(beta=(beta,)))[0]
        np.testing.assert_allclose(alone(FEATURES, EXTRA), head(FEATURES, EXTRA), rtol=1e-9)
    assert len({head(FEATURES, EXTRA)[0] for head in together}) == 7


def test_a_head_is_trained_as_torch_would() -> None:
    recipe = RECIPE.replace(beta=(1.0,), head_epochs=3)
    torch.manual_seed(recipe.seed)
    first, second = torch.nn.Linear(10, 3).double(), torch.nn.Linear(5, 1).double()
    optimiser = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.02, weight_decay=0.001)
    x = torch.from_numpy((FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0))
    c, y = torch.from_numpy(EXTRA), torch.from_numpy(GOLD)
    for epoch in range(3):
        order = np.random.default_rng([2, epoch]).permutation(60)
        for start in (0, 24, 48):
            rows = order[start : start + 24]
            predicted = second(torch.cat([first(x[rows]).relu(), c[rows]], dim=1))[:, 0]
            optimiser.zero_grad()
            head_loss(predicted, y[rows], 1.0, "regressor").backward()
            optimiser.step()
    expected = second(torch.cat([first(x).relu(), c], dim=1))[:, 0].detach()
    np.testing.assert_allclose(fit_heads(FEATURES, EXTRA, GOLD, recipe)[0](FEATURES, EXTRA), expected, rtol=1e-6)


@pytest.mark.slow
def test_training_learns_and_extra_features_help() -> None:
    recipe = MlteRecipe(beta=(0.0,))
    blind, seeing = fit_heads(FEATURES, NONE, GOLD, recipe)[0], fit_heads(FEATURES, EXTRA, GOLD, recipe)[0]
    knowing = score_quality(seeing(FEATURES, EXTRA), GOLD, "regressor")
    assert knowing > 0.95
    assert knowing > score_quality(blind(FEATURES, NONE), GOLD, "regressor")
    labels = (GOLD > 0).astype(float)
    sorter = fit_heads(FEATURES, EXTRA, labels, recipe.replace(kind="classifier"))[0]
    assert score_quality(1 / (1 + np.exp(-sorter(FEATURES, EXTRA))), labels, "classifier") > 0.9


def test_quality_by_hand_and_against_scikit_learn() -> None:
    found = score_quality(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0]), "regressor")
    assert found == pytest.approx(5 / math.sqrt(28))
    assert math.isnan(score_quality(np.array([1.0, 1.0]), np.array([1.0, 2.0]), "regressor"))
    for labels in (np.array([1.0, 0, 0, 1, 1, 0]), np.zeros(6)):
        scores = np.array([0.9, 0.2, 0.6, 0.4, 0.7, 0.1])
        expected = f1_score(labels, scores > 0.5, average="macro", labels=[0, 1])
        assert score_quality(scores, labels, "classifier") == pytest.approx(expected)


def test_extra_features_by_hand() -> None:
    words, numbers = ExtraFeature.fit("kind", ["b", "a", "b"]), ExtraFeature.fit("age", ["1", "3", "5"])
    assert (words.words, numbers.words, numbers.mean) == (("a", "b"), (), 3.0)
    assert ExtraFeature.fit("flat", ["2", "2"]).deviation == 1
    found = transform_extras((words, numbers), [("a", "3"), ("new", "5")], 2)
    np.testing.assert_allclose(found, [[1, 0, 0], [0, 0, 2 / math.sqrt(8 / 3)]])
    assert transform_extras((words, numbers), (), 0).shape == (0, 3)
    assert transform_extras((), (), 4).shape == (4, 0)
    for extras, rows, message in (
        (
            (numbers,),
            [("3",), ("nan",)],
            r"age of pair 2 is not a finite number\. Remedy: give numbers, as in training",
        ),
        ((words, numbers), [("a", "3")], "1 rows of extra features, 2 of kind, age expected"),
        ((words,), [("a", "3"), ("a", "3")], "2 rows of extra features, 2 of kind expected"),
    ):
        with pytest.raises(ConfigError, match=message):
            transform_extras(extras, rows, 2)
