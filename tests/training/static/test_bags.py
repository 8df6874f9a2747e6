"""Bags embed as the encoder does, and the steps are those of SparseAdam."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from medlink.models import StaticConfig, StaticEncoder
from medlink.models.static.module import StaticEmbedding, _sums
from medlink.training.common.inputs import Bags
from medlink.training.static.student import random_student
from medlink.training.static.trainer import RowAdam

CONFIG = StaticConfig(families=False, rows=512, dimension=16, hidden=8)
TEXTS = ["renal calculus", "Nierenstein", "", "kidney stone 2b", "x"]


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return random_student(CONFIG, 0.0, 1).encoder()


def test_bags_embed_as_the_encoder_does(encoder: StaticEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.training.common.inputs._BAGS", 2)
    monkeypatch.setattr("medlink.training.common.inputs._TEXTS", 3)
    bags, module = Bags.of(TEXTS, CONFIG), StaticEmbedding.of(encoder, dropout=0.5)
    module.train()
    assert len(bags) == 5
    np.testing.assert_allclose(bags.embed(module), encoder.encode(TEXTS), atol=1e-6)
    assert module.training


def test_bags_of_parts() -> None:
    parts, whole = Bags.of(TEXTS, CONFIG), Bags.of(["kidney stone 2b x", "Nierenstein"], CONFIG)
    for joined, expected in zip(parts.take(np.array([[3, 4, -1], [2, 1, -1]])), whole.take(np.arange(2)), strict=True):
        assert joined.offsets.tolist() == expected.offsets.tolist()
        for bags in (joined, expected):
            for start, stop in pairwise(bags.offsets):
                bags.values[start:stop].sort()
        assert joined.values.tolist() == expected.values.tolist()


def test_dropout_of_whole_n_grams_in_training_only(encoder: StaticEncoder) -> None:
    bags = Bags.of(["kidney"], CONFIG)
    module = StaticEmbedding.of(encoder, 0.5)
    expected = StaticEmbedding.of(encoder, 0.0)(bags(np.array([0])))["sentence_embedding"]
    torch.testing.assert_close(module.eval()(bags(np.array([0])))["sentence_embedding"], expected)
    module.train()
    torch.manual_seed(0)
    changed = module(bags(np.array([0])))["sentence_embedding"]
    assert not torch.allclose(changed, expected)
    # the same n-grams left out by hand: both probes of each, the rest weighted up
    torch.manual_seed(0)
    ids = bags(np.array([0]))["input_ids"].reshape(-1, 2)
    remains = torch.rand(len(ids)) >= 0.5
    x = module.table(ids[remains].long()).sum(dim=(0, 1)) / len(ids) / 0.5
    y = x + module.down(torch.nn.functional.gelu(module.up(module.norm(x)), approximate="tanh"))
    torch.testing.assert_close(changed[0], torch.nn.functional.normalize(y, dim=-1))


def test_markers_drop_out_half_as_often(encoder: StaticEncoder) -> None:
    bags, module = Bags.of(["grade 7"] * 4000, CONFIG), StaticEmbedding.of(encoder)
    torch.manual_seed(0)
    features = bags(np.arange(4000))
    weights = module.dropout_weights(features, 0.6, torch.rand)[1]
    m = _sums(module.table.weight, features["marker_ids"], features["marker_lengths"], weights)
    assert float((m == 0).all(dim=1).float().mean()) == pytest.approx(0.3, abs=0.03)


def test_the_steps_are_those_of_sparse_adam() -> None:
    torch.manual_seed(1)
    start = torch.randn(50, 8)
    mine, theirs = start.clone(), start.clone()
    rows, reference = RowAdam(mine), torch.optim.SparseAdam([theirs])
    for step in range(20):
        index = torch.randperm(50)[: 1 + step % 7]
        gradient = torch.randn(len(index), 8)
        assert torch.equal(rows.rows(index), mine[index])
        reference.param_groups[0]["lr"] = rate = 0.01 * (step + 1)
        theirs.grad = torch.sparse_coo_tensor(index[None], gradient, theirs.shape, check_invariants=False).coalesce()
        rows.step(gradient, rate)
        reference.step()
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
