"""Training the static encoder from nothing: that it learns, and what decides the weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticConfig
from medlink.records import Name
from medlink.training.recipes import StaticRecipe
from medlink.training.static.trainer import StaticTrainer

CONFIG = StaticConfig(families=False, rows=512, dimension=32, hidden=16)


def names() -> list[Name]:
    texts = [
        ("kidney stone", "renal calculus", "Nierenstein"),
        ("heart attack", "myocardial infarction", "Herzinfarkt"),
        ("stroke", "apoplexy", "Schlaganfall"),
        ("hay fever", "pollinosis", "Heuschnupfen"),
        ("single name",),
    ]
    tags = ("en", "en", "de")
    return [Name(f"C{i}", *pair) for i, row in enumerate(texts, 1) for pair in zip(row, tags, strict=False)]


RECIPE = StaticRecipe(epochs=20, batch_size=4, hard_epochs=5, learning_rate=0.01, seed=3)


@pytest.mark.slow
def test_training_learns_synonyms_without_common_letters(tmp_path: Path) -> None:
    lines: list[str] = []
    encoder = StaticTrainer(names(), CONFIG, RECIPE).train(tmp_path / "out", progress=lines.append)
    texts = ["Nierenstein", "renal calculus", "myocardial infarction", "apoplexy", "pollinosis"]
    cosines = encoder.encode(texts) @ encoder.encode(texts).T
    assert cosines[0, 1] > cosines[0, 2:].max() + 0.2
    assert lines[-1].startswith("epoch 20/20")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in (encoder.fingerprint, "names: 13", "concepts: 5", "`medlink train static`", "- steps: "):
        assert fact in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_small_languages_are_anchors_more_often() -> None:
    many = [Name(f"C{i}", f"{word} {i}", "en") for i in range(40) for word in ("one", "two")]
    trainer = StaticTrainer([*many, Name("C0", "eins null", "de")], CONFIG, RECIPE)
    german = [i for i, text in enumerate(trainer.data.text) if text == "eins null"]
    assert np.isin(trainer._anchors(), german).sum() == RECIPE.language_boost


def in_languages(count: int) -> list[Name]:
    """Concepts with six English names, two of them from regions, one German and two Spanish; one has English alone."""
    tags = ["en", "en", "en", "en", "en-gb", "en-us", "de", "es", "es"]
    found = [Name(f"C{i}", f"name {i} {j}", tag) for i in range(count) for j, tag in enumerate(tags)]
    return [*found, Name("D", "ulcer", "en"), Name("D", "sore", "en"), Name("D", "raw spot", "en-gb")]


def test_positives_in_each_other_language() -> None:
    data = StaticTrainer(in_languages(400), CONFIG).data
    anchors = np.arange(len(data.text))
    partners = data.draw_positives(anchors, 1.0, np.random.default_rng(5))
    tongue, concept = np.array(["de", "en", "es"])[data.language], data.concept
    assert (concept[partners] == concept[anchors]).all()
    assert (partners != anchors).all()
    several = anchors < 400 * 9
    assert (tongue[partners] != tongue)[several].all()
    # each language as often, however many names it has, and each name of it
    assert abs(np.mean(tongue[partners[several & (tongue == "en")]] == "de") - 0.5) < 0.05
    assert abs(np.mean(tongue[partners[tongue == "es"]] == "de") - 0.5) < 0.06
    met = np.bincount(partners[several] % 9, minlength=9)
    assert met[[1, 2, 3, 4, 5, 6]].std() < 0.15 * met[[1, 2, 3, 4, 5, 6]].mean()
    # regions are no other languages: what has English alone meets English
    assert {data.text[i] for i in partners[~several]} <= {"ulcer", "sore", "raw spot"}


def test_names_of_one_form_share_their_concepts() -> None:
    given = [
        Name("cool", "cold", "en"), Name("cool", "low temperature", "en"),
        Name("rhinitis", "Cold", "en"), Name("rhinitis", "coryza", "en"), Name("rhinitis", "Schnupfen", "de"),
        Name("stroke", "apoplexy", "en"), Name("stroke", "stroke", "en"),
    ]  # fmt: skip
    data = StaticTrainer(given, CONFIG).data
    place = {text: i for i, text in enumerate(data.text)}
    ones, others = (np.array([place[text] for text in texts]) for texts in (
        ["cold", "low temperature", "Cold", "stroke"], ["low temperature", "cold", "coryza", "Schnupfen", "apoplexy"]
    ))  # fmt: skip
    assert data.share_concept(ones, others).astype(int).tolist() == [
        [1, 1, 1, 1, 0],  # spelt like a name of the second concept, it has its names too
        [1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ]


CODES = {
    "K35": ["Appendizitis", "Blinddarmreizung", "Perityphlitis"],
    "J45": ["Asthma", "Bronchospasmus", "Luftnot im Anfall"],
    "G43": ["Flimmerskotom", "Hemikranie", "Kopfweh mit Aura"],
    "L40": ["Psoriasis", "Schuppenflechte"],
}
COARSE = [Name(code, text, "de") for code, texts in CODES.items() for text in texts]


@pytest.mark.slow
def test_coarse_names_are_drawn_near_each_other(tmp_path: Path) -> None:
    trainer = StaticTrainer(names(), CONFIG, RECIPE, COARSE)
    encoder = trainer.train(tmp_path / "out")
    texts = ["Blinddarmreizung", "Perityphlitis", "Flimmerskotom", "Luftnot im Anfall"]
    alone = StaticTrainer(names(), CONFIG, RECIPE).train(tmp_path / "alone")
    near, before = (one.encode(texts) @ one.encode(texts).T for one in (encoder, alone))
    assert near[0, 1] > near[0, 2:].max() + 0.3
    assert before[0, 1] < near[0, 1] - 0.3
    # synonyms are still learned
    assert float(encoder.encode(["Nierenstein"])[0] @ encoder.encode(["renal calculus"])[0]) > 0.5
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in ("- names: 13", "- coarse names: 11", "- coarse concepts: 4", "- coarse SHA-256 of the names"):
        assert fact in card
    seen = set()
    for i, change in enumerate(({}, {"coarse_share": 0.4}, {"coarse_temperature": 0.3})):
        short = RECIPE.replace(epochs=1, hard_epochs=0, **change)
        other = StaticTrainer(names(), CONFIG, short, COARSE).train(tmp_path / str(i))
        seen.add(other.fingerprint)
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("given", "message"), [([], "no names"), ([Name("C1", "a"), Name("C2", "b")], "fewer than two concepts")]
)
def test_nothing_to_learn(given: list[Name], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StaticTrainer(given, CONFIG)


def test_a_loss_that_is_nan_stops(tmp_path: Path) -> None:
    trainer = StaticTrainer(names(), CONFIG, StaticRecipe(epochs=1, batch_size=4, temperature=1e-42))
    with pytest.raises(EncoderError, match=r"the loss is nan at step 0 of epoch 1.*Remedy: lower the learning rate"):
        trainer.train(tmp_path / "out")
    assert not any(tmp_path.iterdir())
