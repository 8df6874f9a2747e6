"""Training the static encoder: the loss, the optimiser, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from medlink.errors import ConfigError
from medlink.models import StaticConfig
from medlink.records import Name
from medlink.training.static.trainer import StaticRecipe, StaticTrainer, _LazyAdam, info_nce

CONFIG = StaticConfig(rows=512, dimension=32, hidden=16)


def naive_info_nce(a: np.ndarray, b: np.ndarray, concepts: list[int], temperature: float) -> float:
    n, total = len(a), 0.0
    for x, y in ((a, b), (b, a)):
        for i in range(n):
            kept = [j for j in range(n) if j == i or concepts[j] != concepts[i]]
            scores = [math.exp(float(x[i] @ y[j]) / temperature) for j in kept]
            total += -math.log(math.exp(float(x[i] @ y[i]) / temperature) / sum(scores)) / (2 * n)
    return total


def test_info_nce_against_the_double_loop() -> None:
    rng = np.random.default_rng(0)
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in rng.standard_normal((2, 7, 5)))
    concepts = [0, 1, 2, 1, 3, 0, 4]
    got = info_nce(torch.from_numpy(a), torch.from_numpy(b), torch.tensor(concepts), 0.1)
    assert float(got) == pytest.approx(naive_info_nce(a, b, concepts, 0.1), abs=1e-9)


def test_info_nce_gradient_against_finite_differences() -> None:
    torch.manual_seed(0)
    a = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    concepts = torch.tensor([0, 1, 0, 2])
    assert torch.autograd.gradcheck(lambda x, y: info_nce(x, y, concepts, 0.5), (a, b))


def test_lazy_adam_is_adam_on_the_rows_it_touches() -> None:
    torch.manual_seed(0)
    start = torch.randn(5, 3)
    mine, theirs = start.clone(), start[1:3].clone().requires_grad_()
    lazy, adam = _LazyAdam(5, 3), torch.optim.Adam([theirs], lr=0.01)
    for _ in range(6):
        grad = torch.randn(2, 3)
        lazy.step(mine, torch.tensor([1, 2]), grad, 0.01)
        theirs.grad = grad.clone()
        adam.step()
    torch.testing.assert_close(mine[1:3], theirs.detach())
    torch.testing.assert_close(mine[[0, 3, 4]], start[[0, 3, 4]])


def names() -> list[Name]:
    pairs = {
        "C1": [("kidney stone", "en"), ("renal calculus", "en"), ("Nierenstein", "de")],
        "C2": [("heart attack", "en"), ("myocardial infarction", "en"), ("Herzinfarkt", "de")],
        "C3": [("stroke", "en"), ("apoplexy", "en"), ("Schlaganfall", "de")],
        "C4": [("hay fever", "en"), ("pollinosis", "en"), ("Heuschnupfen", "de")],
        "C5": [("single name", "en")],
    }
    return [Name(concept, text, language) for concept, found in pairs.items() for text, language in found]


RECIPE = StaticRecipe(epochs=30, batch_size=4, hard_epochs=10, learning_rate=0.01, seed=3)


def test_it_learns_names_that_share_no_letter() -> None:
    lines: list[str] = []
    encoder = StaticTrainer(names(), CONFIG, RECIPE, lines.append).train()
    texts = ["Nierenstein", "renal calculus", "myocardial infarction", "apoplexy", "pollinosis"]
    cosines = encoder.encode(texts) @ encoder.encode(texts).T
    assert cosines[0, 1] > cosines[0, 2:].max() + 0.2
    assert lines[-1].startswith("epoch 30/30")


def test_same_seed_same_weights() -> None:
    one, again = (StaticTrainer(names(), CONFIG, RECIPE).train() for _ in range(2))
    assert one.fingerprint == again.fingerprint
    other = StaticTrainer(names(), CONFIG, StaticRecipe(epochs=30, batch_size=4, seed=4)).train()
    assert other.fingerprint != one.fingerprint


def test_small_languages_are_anchors_more_often() -> None:
    many = [Name(f"C{i}", f"{word} {i}", "en") for i in range(40) for word in ("one", "two")]
    trainer = StaticTrainer([*many, Name("C0", "eins null", "de")], CONFIG, RECIPE)
    german = [i for i, text in enumerate(trainer.data.text) if text == "eins null"]
    assert np.isin(trainer._anchors(), german).sum() == RECIPE.language_boost


@pytest.mark.parametrize(
    ("given", "message"),
    [([], "no names"), ([Name("C1", "a"), Name("C2", "b")], "fewer than two concepts")],
)
def test_nothing_to_learn(given: list[Name], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StaticTrainer(given, CONFIG)


def test_a_loss_that_is_no_number_stops() -> None:
    trainer = StaticTrainer(names(), CONFIG, StaticRecipe(epochs=1, batch_size=4, temperature=1e-42))
    with pytest.raises(ConfigError, match=r"the loss is nan at step 0 of epoch 1.*Remedy: lower the learning rate"):
        trainer.train()
