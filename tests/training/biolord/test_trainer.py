"""BioLordTrainer: from a knowledge base and tables to encoders' folders, resumed, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticConfig, StaticEncoder, load_encoder
from medlink.training import BioLordTrainer
from medlink.training.data.pairs import KnowledgeBasePairs, Pair
from medlink.training.data.view import TrainingView
from medlink.training.recipes import ContrastiveRecipe, DistillationRecipe, PairRecipe, PhaseRecipe, StsRecipe
from medlink.training.static.student import random_student
from tests.training.biolord.test_contrastive import Row
from tests.training.data.pairs_kb import random_kb
from tests.training.small_bert import Killed, small_bert

RECIPE = ContrastiveRecipe(batch_size=8, learning_rate=1e-2, seed=3)
TABLES = {"letters": [Row(f"{chr(97 + i)} stone", f"{chr(97 + i // 2)} stone", float(i % 5)) for i in range(20)]}
STS = StsRecipe(epochs=2, batch_size=8, learning_rate=1e-2)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBasePairs:
    """Pairs of a small knowledge base."""
    with random_kb(tmp_path_factory.mktemp("kb"), concepts=120) as kb:
        return KnowledgeBasePairs(TrainingView(kb), PairRecipe(pairs=80))


def kill_at(step: int) -> object:
    def kill(line: str) -> None:
        if line.startswith(f"step {step}/"):
            raise Killed

    return kill


def test_contrastive_from_a_knowledge_base(start: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    lines: list[str] = []
    trainer = BioLordTrainer(pairs, start, RECIPE, about={"knowledge base": "`abc`"})
    encoder = trainer.train(tmp_path / "out", progress=lines.append)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert lines[-1].startswith("step 10/10 loss ")
    assert encoder.fingerprint not in ("", load_encoder(start).fingerprint)
    # any tool that reads sentence-transformers opens it
    assert SentenceTransformer(str(tmp_path / "out")).get_embedding_dimension() == encoder.dimension == 16
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".bin", ".pt", ".pth")]
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in (
        "contrastive phase",
        encoder.fingerprint,
        load_encoder(start).fingerprint,
        "- knowledge base: `abc`",
        "- pairs of an epoch: 80",
        "- steps: 10",
        "- hours: 0.00",
        '"seed": 3',
        "Licence: to be filled in",
    ):
        assert fact in card, fact
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_a_killed_phase_goes_on_to_the_same_weights(start: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    alone = BioLordTrainer(pairs, start, RECIPE).train(tmp_path / "alone")
    with pytest.raises(Killed):
        BioLordTrainer(pairs, start, RECIPE).train(tmp_path / "out", progress=kill_at(4), checkpoint_steps=2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"out\.checkpoints: the folder holds an unfinished run"):
        BioLordTrainer(pairs, start, RECIPE).train(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"temperature 0\.05 \(now 0\.1\)"):
        BioLordTrainer(pairs, start, RECIPE.replace(temperature=0.1)).train(tmp_path / "out", resume=True)
    resumed = BioLordTrainer(pairs, start, RECIPE).train(tmp_path / "out", resume=True)
    assert resumed.fingerprint == alone.fingerprint
    other = BioLordTrainer(pairs, start, RECIPE.replace(temperature=0.1)).train(tmp_path / "other")
    assert other.fingerprint != alone.fingerprint


def test_sts_keeps_the_best_by_a_measure(start: Path, tmp_path: Path) -> None:
    measures = [0.2, 0.1]
    trainer = BioLordTrainer(TABLES, start, STS)
    encoder = trainer.train(tmp_path / "out", evaluate=lambda _: measures.pop(0))
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in (
        "STS adaptation",
        "- letters: 20 rated pairs",
        "- best development measure: 0.2",
        "- step of the best: 3",
    ):
        assert fact in card, fact
    assert trainer.train(tmp_path / "last").fingerprint != encoder.fingerprint
    cosent = BioLordTrainer(TABLES, start, STS.replace(loss="cosent")).train(tmp_path / "cosent")
    assert cosent.fingerprint != load_encoder(tmp_path / "last").fingerprint


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static encoder with random weights."""
    shape = StaticConfig(rows=256, dimension=16, hidden=8)
    return random_student(shape, 0.0, 1).encoder().save(tmp_path_factory.mktemp("static"))


class Said:
    """What is said of four names; the same in every epoch."""

    digest = "said"
    pairs_per_epoch = 4
    names = ("Nierenstein", "stroke", "hay fever", "ulcer")
    texts = ("a hard lump in the kidney", "a clot in the brain", "an allergy to pollen", "an open sore")

    def batches(self, epoch: int, size: int, start: int = 0) -> Iterator[list[Pair]]:
        yield [Pair(name, name, text, "definition") for name, text in zip(self.names, self.texts, strict=True)]


def test_a_static_encoder_learns_what_is_said_of_names(small: Path, tmp_path: Path) -> None:
    measures = [0.1, 0.3, 0.2]
    recipe = RECIPE.replace(epochs=60, batch_size=4, evaluate_steps=20)
    encoder = BioLordTrainer(Said(), small, recipe).train(tmp_path / "out", evaluate=lambda _: measures.pop(0))
    assert isinstance(encoder, StaticEncoder)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"README.md", *(p.name for p in small.iterdir())}
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in ("contrastive phase", load_encoder(small).fingerprint, encoder.fingerprint, "step of the best: 40"):
        assert fact in card, fact
    cosines = encoder.encode(Said.names) @ encoder.encode(Said.texts).T
    assert (cosines.argmax(axis=1) == np.arange(4)).all()
    assert np.diag(cosines).min() > cosines[~np.eye(4, dtype=bool)].max() + 0.15


def test_the_recipe_follows_the_encoder(start: Path, small: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    assert BioLordTrainer(pairs, start).recipe == ContrastiveRecipe()
    assert BioLordTrainer(pairs, small).recipe == BioLordTrainer(pairs, "builtin").recipe == ContrastiveRecipe.static()
    given = ContrastiveRecipe(seed=4, learning_rate=2e-5)
    assert given.suited(small) == ContrastiveRecipe.static().replace(seed=4, learning_rate=2e-5)
    assert given.suited(start) == given
    with pytest.raises(ConfigError, match=r"feature_dropout is for a static encoder\. Remedy: leave it at 0"):
        BioLordTrainer(pairs, start, RECIPE.replace(feature_dropout=0.1)).train(tmp_path / "out")
    for name in ("mini_batch", "max_tokens"):
        with pytest.raises(ConfigError, match=rf"{name} is for a transformer\. Remedy: leave it at 0"):
            BioLordTrainer(pairs, small, RECIPE.replace(**{name: 8})).train(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_what_is_refused(start: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    with pytest.raises(
        EncoderError, match=r"a static encoder cannot be trained by this phase\. Remedy: name the .*, or hf:"
    ):
        BioLordTrainer(TABLES, "builtin", STS).train(tmp_path / "out")
    with pytest.raises(EncoderError, match="no such encoder folder"):
        BioLordTrainer(pairs, "./nowhere", RECIPE).train(tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="there is a file of that name"):
        BioLordTrainer(TABLES, start, STS).train(tmp_path / "file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    with pytest.raises(ConfigError, match="the folder is not empty and holds no encoder"):
        BioLordTrainer(TABLES, start, STS).train(tmp_path / "full")
    with pytest.raises(ConfigError, match="a teacher is missing"):
        BioLordTrainer(list, start, DistillationRecipe())
    with pytest.raises(ConfigError, match="StsRecipe has no use for a teacher"):
        BioLordTrainer(TABLES, start, STS, teacher=start)
    with pytest.raises(ConfigError, match="PhaseRecipe is the recipe of no phase"):
        BioLordTrainer(TABLES, start, PhaseRecipe()).train(tmp_path / "out")
