"""The multi-similarity loss: hand-worked values, the double loop of the paper, gradients, edges."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from medlink.models import load_encoder
from medlink.training.coderpp.loss import MultiSimilarityLoss, informative_pairs
from medlink.training.common.inputs import InputParts, open_inputs, write_inputs
from medlink.training.common.losses import EmbeddingLoss
from medlink.training.data.batches import TextList


def naive(
    embeddings: np.ndarray, concepts: list[set[str]], alpha: float, beta: float, threshold: float, epsilon: float
) -> float:
    """Zeng et al. 2022, section 4.2, term by term."""
    unit = [vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in embeddings]
    total = 0.0
    for i, one in enumerate(unit):
        others = [(float(one @ other), bool(concepts[i] & concepts[j])) for j, other in enumerate(unit) if j != i]
        least = min((s for s, shared in others if shared), default=math.inf)
        most = max((s for s, shared in others if not shared), default=-math.inf)
        positives = [s for s, shared in others if shared and s < most + epsilon]
        negatives = [s for s, shared in others if not shared and s > least - epsilon]
        total += math.log(1 + sum(math.exp(-alpha * (s - threshold)) for s in positives)) / alpha
        total += math.log(1 + sum(math.exp(beta * (s - threshold)) for s in negatives)) / beta
    return total / len(unit)


def multi_similarity(embeddings: torch.Tensor, same: torch.Tensor, **numbers: float) -> torch.Tensor:
    return MultiSimilarityLoss(**numbers).compute_loss_from_embeddings([embeddings], same)


def relation(concepts: list[set[str]]) -> torch.Tensor:
    return torch.tensor([[bool(a & b) for b in concepts] for a in concepts])


def batch(seed: int, n: int = 12) -> tuple[np.ndarray, list[set[str]]]:
    rng = np.random.default_rng(seed)
    embeddings = rng.standard_normal((n, 3))
    embeddings[3] = embeddings[4]  # a tie
    concepts = [set(rng.choice(list("ABCDE"), rng.integers(1, 3), replace=False).tolist()) for _ in range(n)]
    return embeddings, concepts


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("numbers", [(2.0, 50.0, 0.5, 0.1), (1.0, 60.0, 0.5, 0.2), (3.0, 5.0, 0.9, 0.0)])
def test_against_the_double_loop(seed: int, numbers: tuple[float, float, float, float]) -> None:
    embeddings, concepts = batch(seed)
    alpha, beta, threshold, epsilon = numbers
    got = multi_similarity(
        torch.from_numpy(embeddings), relation(concepts), alpha=alpha, beta=beta, threshold=threshold, epsilon=epsilon
    )
    assert float(got) == pytest.approx(naive(embeddings, concepts, *numbers), rel=1e-9)


def test_a_value_worked_by_hand() -> None:
    # cosines 0.6 to the positive and 0.8 to the negative; the two others are at 0
    embeddings = torch.tensor([[1.0, 0, 0], [0.6, 0.8, 0], [0.8, 0, 0.6]], dtype=torch.float64)
    same = relation([{"A"}, {"A"}, {"B"}])
    # row 0: both informative; row 1: its negative is at 0.48 > 0.6 - 0.2, its positive at 0.6 < 0.48 + 0.2
    # row 2 has no positive, so no negative of it lies above a minimum over nothing
    first = math.log(1 + math.exp(-1 * (0.6 - 0.5))) / 1 + math.log(1 + math.exp(10 * (0.8 - 0.5))) / 10
    second = math.log(1 + math.exp(-1 * (0.6 - 0.5))) / 1 + math.log(1 + math.exp(10 * (0.48 - 0.5))) / 10
    got = multi_similarity(embeddings, same, alpha=1, beta=10, threshold=0.5, epsilon=0.2)
    assert float(got) == pytest.approx((first + second) / 3, abs=1e-12)


def test_mining_is_strict_at_the_margin() -> None:
    similarities = torch.tensor([[1.0, 0.5, 0.25], [0.5, 1.0, 0.25], [0.25, 0.25, 1.0]])
    same = relation([{"A"}, {"A"}, {"B"}])
    positive, negative = informative_pairs(similarities, same, 0.25)
    assert not positive.any()
    assert not negative.any()
    positive, negative = informative_pairs(similarities, same, 0.26)
    assert positive.int().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert negative.int().tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_gradient_against_finite_differences() -> None:
    embeddings, concepts = batch(2, n=7)
    vectors = torch.from_numpy(embeddings + 0.1 * np.arange(21).reshape(7, 3)).requires_grad_()
    same = relation(concepts)
    assert torch.autograd.gradcheck(lambda x: multi_similarity(x, same, beta=5.0), (vectors,))


@pytest.mark.parametrize(
    "concepts",
    [[], [{"A"}], [{"A"}, {"B"}, {"C"}], [{"A"}, {"A"}, {"A"}]],
    ids=["empty", "one row", "no positives", "no negatives"],
)
def test_without_informative_pairs_there_is_no_loss_and_no_gradient(concepts: list[set[str]]) -> None:
    vectors = torch.randn(len(concepts), 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    same = relation(concepts).reshape(len(concepts), len(concepts)).bool()
    loss = multi_similarity(vectors, same)
    torch.autograd.backward(loss)
    assert float(loss.detach()) == 0
    assert vectors.grad is not None
    assert not vectors.grad.any()


def test_sums_have_32_bits_and_pairs_are_counted() -> None:
    embeddings, concepts = batch(3)
    vectors, same = torch.from_numpy(embeddings).float(), relation(concepts)

    class Echo(torch.nn.Module):
        def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"sentence_embedding": features["input_ids"].to(torch.bfloat16)}

    pairs = MultiSimilarityLoss(epsilon=0.2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = EmbeddingLoss(Echo(), pairs, 0, shared=False)((InputParts([{"input_ids": vectors}]), 1), same)
    rounded = vectors.to(torch.bfloat16).float()
    torch.testing.assert_close(got, multi_similarity(rounded, same, epsilon=0.2))
    unit = torch.nn.functional.normalize(rounded, dim=1)
    positive, negative = informative_pairs(unit @ unit.T, same, 0.2)
    assert pairs.take_counts() == (pytest.approx(int((positive | negative).sum()) / (12 * 11)), 12)
    assert pairs.take_counts() == (0, 0)


def test_few_terms_at_a_time_have_the_gradient_of_the_batch(bert: Path, tmp_path: Path) -> None:
    model = load_encoder(bert, device="cpu").model.train()  # type: ignore[attr-defined]
    texts = [f"{word} {chr(97 + i)}" for i in range(5) for word in ("kidney", "renal", "nephros stone")]
    same = relation([{str(i)} for i in range(5) for _ in range(3)])
    # the same parts, for the same random numbers of dropout, with the graph of all of them in memory
    write_inputs(model, TextList(texts, ""), tmp_path / "inputs", print)
    inputs = open_inputs(model, tmp_path / "inputs").take(np.arange(15))
    [rows], positions = inputs.parts, inputs.positions
    torch.manual_seed(7)
    widths = rows["attention_mask"].sum(dim=1)
    parts = [
        model({name: value[i : i + 4, : widths[i : i + 4].max()] for name, value in rows.items()})
        for i in range(0, 15, 4)
    ]
    embeddings = torch.cat([part["sentence_embedding"] for part in parts])[positions]
    expected = multi_similarity(embeddings, same)
    model.zero_grad()
    torch.autograd.backward(expected)
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert max(float(gradient.abs().max()) for gradient in gradients) > 1e-2
    pairs = MultiSimilarityLoss()
    model.zero_grad()
    torch.manual_seed(7)
    value = EmbeddingLoss(model, pairs, 4, shared=False)((inputs, 1), same)
    torch.autograd.backward(value)
    assert pairs.take_counts()[1] == 15
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    for gradient, parameter in zip(gradients, (p for p in model.parameters() if p.grad is not None), strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)
