"""BioLordTrainer: from a knowledge base and tables to encoders' folders, resumed, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

import medlink
from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.training import BioLordTrainer
from medlink.training.biolord.recipes import ContrastiveRecipe, StsRecipe
from medlink.training.data.pairs import KnowledgeBasePairs, PairRecipe
from medlink.training.data.view import TrainingView
from tests.training.biolord.test_sts import Row
from tests.training.data.pairs_kb import random_kb
from tests.training.small_bert import Killed, small_bert

pytestmark = pytest.mark.usefixtures("frozen")

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
    trainer = BioLordTrainer(start, lines.append)
    encoder = trainer.contrastive(pairs, tmp_path / "out", RECIPE, data={"knowledge base": "`abc`"})
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
    alone = BioLordTrainer(start).contrastive(pairs, tmp_path / "alone", RECIPE)
    with pytest.raises(Killed):
        BioLordTrainer(start, kill_at(4), checkpoint_steps=2).contrastive(pairs, tmp_path / "out", RECIPE)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"out\.checkpoints: the folder holds an unfinished run"):
        BioLordTrainer(start).contrastive(pairs, tmp_path / "out", RECIPE)
    again = BioLordTrainer(start, resume=True)
    with pytest.raises(ConfigError, match=r"temperature 0\.05 \(now 0\.1\)"):
        again.contrastive(pairs, tmp_path / "out", RECIPE.replace(temperature=0.1))
    resumed = again.contrastive(pairs, tmp_path / "out", RECIPE)
    assert resumed.fingerprint == alone.fingerprint
    other = BioLordTrainer(start).contrastive(pairs, tmp_path / "other", RECIPE.replace(temperature=0.1))
    assert other.fingerprint != alone.fingerprint


def test_a_disk_that_is_full_at_the_end(
    start: Path, pairs: KnowledgeBasePairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SentenceTransformer, "save", full)
    with pytest.raises(EncoderError, match=r"\.out\.writing: the encoder cannot be written: No space left on device"):
        BioLordTrainer(start).contrastive(pairs, tmp_path / "out", RECIPE)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["out.checkpoints"]
    lines: list[str] = []
    resumed = BioLordTrainer(start, lines.append, resume=True).contrastive(pairs, tmp_path / "out", RECIPE)
    # nothing is trained again
    assert not lines
    assert resumed.fingerprint == BioLordTrainer(start).contrastive(pairs, tmp_path / "alone", RECIPE).fingerprint


def test_sts_keeps_the_best_by_a_measure(start: Path, tmp_path: Path) -> None:
    measures = [0.2, 0.1]
    trainer = BioLordTrainer(start)
    encoder = trainer.sts(TABLES, tmp_path / "out", STS, evaluate=lambda _: measures.pop(0))
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in (
        "STS adaptation",
        "- letters: 20 rated pairs",
        "- best development measure: 0.2",
        "- step of the best: 3",
    ):
        assert fact in card, fact
    assert trainer.sts(TABLES, tmp_path / "last", STS).fingerprint != encoder.fingerprint
    cosent = trainer.sts(TABLES, tmp_path / "cosent", STS.replace(loss="cosent"))
    assert cosent.fingerprint != load_encoder(tmp_path / "last").fingerprint


def test_what_is_refused(start: Path, pairs: KnowledgeBasePairs, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"a static encoder cannot be trained by this phase\. Remedy: name a"):
        BioLordTrainer("builtin").contrastive(pairs, tmp_path / "out", RECIPE)
    with pytest.raises(EncoderError, match="no such encoder folder"):
        BioLordTrainer("./nowhere").contrastive(pairs, tmp_path / "out", RECIPE)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="there is a file of that name"):
        BioLordTrainer(start).sts(TABLES, tmp_path / "file", STS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    with pytest.raises(ConfigError, match="the folder is not empty and holds no encoder"):
        BioLordTrainer(start).sts(TABLES, tmp_path / "full", STS)


@pytest.mark.parametrize("library", ["accelerate", "sentence_transformers"])
def test_a_library_is_missing(library: str, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("common.trainer", "common.loop", "common.phase", "biolord.sts"):
        monkeypatch.delitem(sys.modules, f"medlink.training.{module}", raising=False)
    with pytest.raises(ConfigError, match=rf"{library}\. Remedy: install medlink\[train\]"):
        BioLordTrainer(start).sts(TABLES, tmp_path / "out", STS)


def test_it_is_offered_at_the_top() -> None:
    assert medlink.BioLordTrainer is BioLordTrainer
