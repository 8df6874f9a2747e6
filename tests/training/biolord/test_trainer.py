"""BioLordTrainer: from a knowledge base and tables to encoder folders, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticEncoder
from medlink.training import BioLordTrainer
from medlink.training.data.batches import Batch, TextList
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.pairs import KnowledgeBasePairs
from medlink.training.data.view import TrainingView
from medlink.training.recipes import ContrastiveRecipe, DistillationRecipe, PhaseRecipe, StsRecipe
from tests.training.biolord.test_sts import rated
from tests.training.data.pairs_kb import random_kb
from tests.training.trained import fingerprint, missing, recipe_on_card

RECIPE = ContrastiveRecipe(batch_size=8, learning_rate=1e-2, seed=3)
TABLES = {"letters": rated(*((f"{chr(97 + i)} stone", f"{chr(97 + i // 2)} stone", float(i % 5)) for i in range(20)))}
STS = StsRecipe(epochs=2, batch_size=8, learning_rate=1e-2)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBasePairs:
    """Pairs of a small knowledge base."""
    with random_kb(tmp_path_factory.mktemp("kb"), concepts=120) as kb:
        return KnowledgeBasePairs(TrainingView(kb), PairRecipe(pairs=80))


@pytest.mark.slow
def test_contrastive_from_a_knowledge_base(bert: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    lines: list[str] = []
    trainer = BioLordTrainer(pairs, bert, RECIPE, about={"knowledge base": "`abc`"})
    encoder = trainer.train(tmp_path / "out", progress=lines.append)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert lines[-1].startswith("step 10/10 loss ")
    assert encoder.fingerprint not in ("", fingerprint(bert))
    # any tool that reads sentence-transformers opens it
    assert SentenceTransformer(str(tmp_path / "out")).get_embedding_dimension() == encoder.dimension == 16
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".bin", ".pt", ".pth")]
    facts = ("contrastive phase", "- knowledge base: `abc`", "- pairs of an epoch: 80", "- steps: 10", "- hours: 0.00")
    assert not missing(tmp_path / "out", encoder.fingerprint, fingerprint(bert), *facts, "Licence: to be filled in")
    assert recipe_on_card(tmp_path / "out") == RECIPE.to_dict()
    other = BioLordTrainer(pairs, bert, RECIPE.replace(temperature=0.1)).train(tmp_path / "other")
    assert other.fingerprint != encoder.fingerprint


@pytest.mark.slow
def test_sts_writes_the_best_weights(bert: Path, tmp_path: Path) -> None:
    measures = [0.2, 0.1]
    trainer = BioLordTrainer(TABLES, bert, STS)
    encoder = trainer.train(tmp_path / "out", evaluate=lambda _: measures.pop(0))
    facts = ("STS adaptation", "- letters: 20 rated pairs", "- best development measure: 0.2", "- step of the best: 3")
    assert not missing(tmp_path / "out", *facts)
    last = trainer.train(tmp_path / "last")
    cosent = BioLordTrainer(TABLES, bert, STS.replace(loss="cosent")).train(tmp_path / "cosent")
    assert len({encoder.fingerprint, last.fingerprint, cosent.fingerprint}) == 3


class FourDescriptions:
    """A description of each of four names; the same in every epoch."""

    digest = "four"
    pairs_per_epoch = 4
    names = ("Nierenstein", "stroke", "hay fever", "ulcer")
    descriptions = ("a hard lump in the kidney", "a clot in the brain", "an allergy to pollen", "an open sore")
    texts = TextList([*names, *descriptions], "four")

    def batches(self, size: int) -> FourDescriptions:
        return self

    def batches_per_epoch(self) -> int:
        return 1

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        yield Batch((np.arange(4), np.arange(4, 8)), np.eye(4, dtype=bool))


@pytest.mark.slow
def test_a_static_encoder_learns_descriptions(static_encoder: Path, tmp_path: Path) -> None:
    measures = [0.1, 0.3, 0.2]
    recipe = RECIPE.replace(epochs=30, batch_size=4, evaluate_steps=10, learning_rate=2e-2)
    trainer = BioLordTrainer(FourDescriptions(), static_encoder, recipe)
    encoder = trainer.train(tmp_path / "out", evaluate=lambda _: measures.pop(0))
    assert isinstance(encoder, StaticEncoder)
    files = {path.name for path in static_encoder.iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"README.md", *files}
    assert not missing(tmp_path / "out", fingerprint(static_encoder), encoder.fingerprint, "step of the best: 20")
    cosines = encoder.encode(FourDescriptions.names) @ encoder.encode(FourDescriptions.descriptions).T
    assert (cosines.argmax(axis=1) == np.arange(4)).all()
    assert np.diag(cosines).min() > cosines[~np.eye(4, dtype=bool)].max() + 0.15


def test_the_recipe_depends_on_the_encoder(
    bert: Path, static_encoder: Path, pairs: KnowledgeBasePairs, tmp_path: Path
) -> None:
    static = ContrastiveRecipe.static()
    assert BioLordTrainer(pairs, bert).recipe == ContrastiveRecipe()
    assert BioLordTrainer(pairs, static_encoder).recipe == BioLordTrainer(pairs, "builtin").recipe == static
    given = ContrastiveRecipe(seed=4, learning_rate=2e-5)
    assert given.for_encoder(static_encoder) == static.replace(seed=4, learning_rate=2e-5)
    assert given.for_encoder(bert) == given
    for name, start, kind in (
        ("feature_dropout", bert, "a static encoder"),
        ("mini_batch", static_encoder, "a transformer"),
        ("max_tokens", static_encoder, "a transformer"),
    ):
        recipe = RECIPE.replace(**{name: 0.1 if name == "feature_dropout" else 8})
        with pytest.raises(ConfigError, match=f"{name} is for {kind}"):
            BioLordTrainer(pairs, start, recipe).train(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_refusals(bert: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="a static encoder cannot be trained by this phase"):
        BioLordTrainer(TABLES, "builtin", STS).train(tmp_path / "out")
    with pytest.raises(EncoderError, match="no such encoder folder"):
        BioLordTrainer(pairs, "./nowhere", RECIPE).train(tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="the folder is not empty and holds no encoder"):
        BioLordTrainer(TABLES, bert, STS).train(tmp_path)
    with pytest.raises(ConfigError, match="a teacher is missing"):
        BioLordTrainer(list, bert, DistillationRecipe())
    with pytest.raises(ConfigError, match="StsRecipe has no use for a teacher"):
        BioLordTrainer(TABLES, bert, STS, teacher=bert)
    with pytest.raises(ConfigError, match="PhaseRecipe is the recipe of no phase"):
        BioLordTrainer(TABLES, bert, PhaseRecipe()).train(tmp_path / "out")
