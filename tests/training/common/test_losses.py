"""InfoNCE with its mask, by hand and against the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from medlink.training.biolord.contrastive import InfoNceLoss
from medlink.training.common.losses import info_nce


def unit_info_nce(names: Tensor, texts: Tensor, same: Tensor, temperature: float) -> Tensor:
    return info_nce(functional.normalize(names, dim=-1), functional.normalize(texts, dim=-1), same, temperature)


def naive(names: np.ndarray, texts: np.ndarray, same: np.ndarray, temperature: float) -> float:
    """The definition, one row after the other."""
    total = 0.0
    for i, name in enumerate(names):
        cosines = [float(name @ text / np.linalg.norm(name) / np.linalg.norm(text)) for text in texts]
        below = sum(math.exp(s / temperature) for j, s in enumerate(cosines) if j == i or not same[i][j])
        total -= math.log(math.exp(cosines[i] / temperature) / below)
    return total / len(names)


def test_by_hand() -> None:
    # cosines 0.6 and 0.8 to the two texts, and 0.8 and 0.6: each row is log(1 + exp(0.2 / 0.5))
    names = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    texts = torch.tensor([[3.0, 4.0], [8.0, 6.0]])
    none = torch.zeros(2, 2, dtype=torch.bool)
    expected = math.log(1 + math.exp(0.4))
    assert float(unit_info_nce(names, texts, none, 0.5)) == pytest.approx(expected)
    # the first row has no negative left
    mask = torch.tensor([[False, True], [False, False]])
    assert float(unit_info_nce(names, texts, mask, 0.5)) == pytest.approx(expected / 2)


def test_against_the_definition() -> None:
    rng = np.random.default_rng(0)
    names, texts = rng.normal(size=(2, 9, 4))
    same = rng.random((9, 9)) < 0.3
    given = (torch.tensor(x) for x in (names, texts, same))
    assert float(unit_info_nce(*given, 0.2)) == pytest.approx(naive(names, texts, same, 0.2))


def test_without_a_mask_as_in_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    torch.manual_seed(0)
    names, texts = torch.randn(2, 6, 5)
    theirs = MultipleNegativesRankingLoss(torch.nn.Identity())  # type: ignore[arg-type]  # it uses no model
    expected = theirs.compute_loss_from_embeddings([names, texts], None)
    ours = InfoNceLoss(0.05).compute_loss_from_embeddings([names, texts], torch.eye(6).bool())
    torch.testing.assert_close(ours, expected)


def test_both_ways() -> None:
    torch.manual_seed(0)
    one, other = functional.normalize(torch.randn(2, 6, 5), dim=-1)
    same = torch.tensor([0, 1, 0, 2, 3, 4])[:, None] == torch.tensor([0, 1, 0, 2, 3, 4])
    halves = info_nce(one, other, same, 0.1) + info_nce(other, one, same, 0.1)
    torch.testing.assert_close(info_nce(one, other, same, 0.1, both_ways=True), halves / 2)
