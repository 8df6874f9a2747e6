"""InfoNCE with its mask, against values worked by hand and a naive count, and the batches of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from medlink.training.biolord.contrastive import InfoNceLoss, PairBatches, info_nce, no_negatives
from medlink.training.common.loop import SeekableBatches
from medlink.training.data.pairs import Pair


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
    assert float(info_nce(names, texts, none, 0.5)) == pytest.approx(expected)
    # the first row has no negative left
    mask = torch.tensor([[False, True], [False, False]])
    assert float(info_nce(names, texts, mask, 0.5)) == pytest.approx(expected / 2)


@pytest.mark.parametrize("seed", range(5))
def test_against_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names, texts = rng.normal(size=(2, 9, 4))
    same = rng.random((9, 9)) < 0.3
    given = (torch.tensor(x) for x in (names, texts, same))
    assert float(info_nce(*given, temperature=0.2)) == pytest.approx(naive(names, texts, same, 0.2))


def test_without_a_mask_it_is_the_librarys() -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    torch.manual_seed(0)
    names, texts = torch.randn(2, 6, 5)
    theirs = MultipleNegativesRankingLoss(torch.nn.Identity())  # type: ignore[arg-type]  # no model is asked
    expected = theirs.compute_loss_from_embeddings([names, texts], None)
    ours = InfoNceLoss(torch.nn.Identity()).compute_loss_from_embeddings([names, texts], torch.eye(6).bool())
    torch.testing.assert_close(ours, expected)


def test_edges() -> None:
    one = torch.ones(1, 3, requires_grad=True)
    loss = info_nce(one, one, torch.ones(1, 1, dtype=torch.bool))
    torch.autograd.backward(loss)
    assert loss.item() == 0
    assert one.grad is not None
    assert bool(torch.isfinite(one.grad).all())
    with pytest.raises(ValueError, match=r"a mask of shape \(2, 2\) for 1 rows"):
        info_nce(one, one, torch.zeros(2, 2).bool())
    with pytest.raises(ValueError, match="for 0 rows"):
        info_nce(torch.zeros(0, 3), torch.zeros(0, 3), torch.zeros(0, 0).bool())
    assert float(info_nce(*torch.eye(2)[None].repeat(2, 1, 1), torch.zeros(2, 2).bool(), 0.01)) < 1e-6


def test_what_is_no_negative() -> None:
    pairs = [
        Pair("A", "kidney stone", "a stone", "definition"),
        Pair("A", "renal calculus", "what hurts", "description"),
        Pair("B", "Kidney-Stone", "what aches", "description"),
        Pair("C", "ulcer", "A Stone", "definition"),
        Pair("D", "fever", "renal calculus", "name"),
        Pair("E", "A", "B", "description"),
    ]
    expected = [
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],  # the text of the fifth is its name
        [1, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],  # ids are no texts
    ]
    assert no_negatives(pairs).astype(int).tolist() == expected
    assert no_negatives([]).shape == (0, 0)


class Source:
    """Ten pairs an epoch."""

    digest = "ten"
    pairs_per_epoch = 10

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        for first in range(start * size, 10, size):
            yield [Pair(f"C{i}", f"name {i}", f"text {i} {epoch}", "name") for i in range(first, min(10, first + size))]


def test_batches() -> None:
    batches = PairBatches(Source(), 4)
    assert batches.batches_per_epoch() == 2
    first, second = batches.epoch(1)
    assert first.columns == ([f"name {i}" for i in range(4)], [f"text {i} 1" for i in range(4)])
    assert second.columns[0] == [f"name {i}" for i in range(4, 8)]
    np.testing.assert_array_equal(first.labels, np.eye(4, dtype=bool))
    (again,) = batches.epoch_from(1, 1)
    assert again.columns == second.columns
    assert isinstance(batches, SeekableBatches)
    assert PairBatches(Source(), 5).digest != batches.digest == PairBatches(Source(), 4).digest
    # fewer pairs than a batch has rows are one batch
    assert PairBatches(Source(), 16).batches_per_epoch() == 1
    assert [len(batch.columns[0]) for batch in PairBatches(Source(), 16).epoch(0)] == [10]
