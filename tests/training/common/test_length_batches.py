from __future__ import annotations

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from medlink.training.common.losses import embed
from tests.training.small_bert import small_bert

TEXTS = ["b" * (1 + (7 * i) % 19) for i in range(40)]


class Seen(torch.nn.Module):
    """A model that notes the shape of what it is given; a text's embedding is its first token and its length."""

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
    model = Seen()
    found = embed(model, features(lengths, width=30))
    assert model.shapes == [(31, 5), (1, 30)]
    assert found.tolist() == [[i, n] for i, n in enumerate(lengths)]


def test_a_part_holds_no_more_tokens_than_suit_the_machine() -> None:
    model = Seen()
    found = embed(model, features([*[200] * 3, *[100] * 6, 600], width=600))
    assert found[:, 0].tolist() == list(range(10))
    assert model.shapes == [(5, 100), (2, 200), (2, 200), (1, 600)]


def test_padding_before_a_text_is_kept() -> None:
    model = Seen()
    embed(model, features([1, 4, 2], width=6, left=True))
    assert model.shapes == [(3, 6)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return SentenceTransformer(str(small_bert(tmp_path_factory.mktemp("bert"), dropout=0.0)), device="cpu")


def test_embeddings_are_those_of_the_whole_batch(model: SentenceTransformer) -> None:
    read = {name: value for name, value in model.preprocess(TEXTS).items() if isinstance(value, Tensor)}
    with torch.no_grad():
        expected = model(dict(read))["sentence_embedding"]
        torch.testing.assert_close(embed(model, read), expected, rtol=1e-5, atol=1e-6)
