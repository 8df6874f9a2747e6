"""Training the static encoder from nothing: that it learns, and what decides the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticConfig
from medlink.records import Name
from medlink.training.static.recipes import StaticRecipe
from medlink.training.static.trainer import StaticTrainer

CONFIG = StaticConfig(rows=512, dimension=32, hidden=16)


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


def test_it_learns_names_that_share_no_letter(tmp_path: Path) -> None:
    lines: list[str] = []
    encoder = StaticTrainer(names(), CONFIG, RECIPE).train(tmp_path / "out", progress=lines.append)
    texts = ["Nierenstein", "renal calculus", "myocardial infarction", "apoplexy", "pollinosis"]
    cosines = encoder.encode(texts) @ encoder.encode(texts).T
    assert cosines[0, 1] > cosines[0, 2:].max() + 0.2
    assert lines[-1].startswith("epoch 30/30")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in (encoder.fingerprint, "names: 13", "concepts: 5", "`medlink train static`", "- steps: "):
        assert fact in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_every_option_changes_the_weights(tmp_path: Path) -> None:
    short = RECIPE.replace(epochs=4, hard_epochs=2)
    one, again = (StaticTrainer(names(), CONFIG, short).train(tmp_path / "out") for _ in range(2))
    assert one.fingerprint == again.fingerprint
    seen = {one.fingerprint}
    changes: dict[str, Any] = {
        "epochs": 5, "hard_epochs": 1, "hard_neighbours": 1, "batch_size": 3, "temperature": 0.1, "warmup": 0.2,
        "learning_rate": 0.02, "feature_dropout": 0.1, "seed": 4,
    }  # fmt: skip
    for name, value in changes.items():
        seen.add(StaticTrainer(names(), CONFIG, short.replace(**{name: value})).train(tmp_path / "out").fingerprint)
    assert len(seen) == 1 + len(changes)


def test_hard_epochs_are_among_the_epochs() -> None:
    assert StaticRecipe(epochs=2).hard_epochs == 2
    assert StaticRecipe(epochs=2, hard_epochs=0).hard_epochs == 0
    for change in ({"epochs": 2, "hard_epochs": 3}, {"hard_epochs": 9}):
        with pytest.raises(ConfigError, match=r"hard_epochs is \d, at most the \d epochs expected"):
            StaticRecipe(**change)


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


def test_a_loss_that_is_nan_stops(tmp_path: Path) -> None:
    trainer = StaticTrainer(names(), CONFIG, StaticRecipe(epochs=1, batch_size=4, temperature=1e-42))
    with pytest.raises(EncoderError, match=r"the loss is nan at step 0 of epoch 1.*Remedy: lower the learning rate"):
        trainer.train(tmp_path / "out")
    assert not any(tmp_path.iterdir())
