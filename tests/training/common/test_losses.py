"""InfoNCE with its mask, by hand and against the definition; and batches embedded in parts of similar length."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional

from medlink.training.biolord.contrastive import InfoNceLoss
from medlink.training.common.losses import embed, info_nce, preprocess_texts


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


@pytest.mark.parametrize("seed", range(3))
def test_against_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
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


class ShapeRecorder(torch.nn.Module):
    """A model that records the shapes of its inputs; the embedding of a text is its first token and its length."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        self.shapes.append(tuple(features["input_ids"].shape))
        lengths = features["attention_mask"].sum(dim=1) if "attention_mask" in features else torch.ones(1).long()
        return {"sentence_embedding": torch.stack([features["input_ids"][:, 0], lengths.expand(self.shapes[-1][0])], 1)}


def features(lengths: list[int], width: int, *, left: bool = False) -> dict[str, Tensor]:
    """Rows that begin with their number."""
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    if left:
        mask = mask.flip(1)
    return {"input_ids": torch.arange(len(lengths))[:, None].expand(-1, width), "attention_mask": mask.long()}


def test_short_rows_are_not_padded_to_the_longest() -> None:
    lengths = [30, *[2] * 16, *[5] * 15]
    model = ShapeRecorder()
    found = embed(model, features(lengths, width=30))
    assert model.shapes == [(31, 5), (1, 30)]
    assert found.tolist() == [[i, n] for i, n in enumerate(lengths)]


def test_the_tokens_of_a_part_are_limited() -> None:
    model = ShapeRecorder()
    found = embed(model, features([*[200] * 3, *[100] * 6, 600], width=600))
    assert found[:, 0].tolist() == list(range(10))
    assert model.shapes == [(5, 100), (2, 200), (2, 200), (1, 600)]


def test_padding_before_a_text_stays() -> None:
    model = ShapeRecorder()
    embed(model, features([1, 4, 2], width=6, left=True))
    assert model.shapes == [(3, 6)]


def test_embeddings_are_those_of_the_whole_batch(still_bert: Path) -> None:
    model = SentenceTransformer(str(still_bert), device="cpu")
    read = preprocess_texts(model, ["b" * (1 + (7 * i) % 19) for i in range(40)])
    with torch.no_grad():
        expected = model(dict(read))["sentence_embedding"]
        torch.testing.assert_close(embed(model, read), expected, rtol=1e-5, atol=1e-6)
