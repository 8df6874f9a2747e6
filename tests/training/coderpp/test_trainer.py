"""CODER++ from names to a folder: it learns, it resumes to the same weights, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticEncoder, load_encoder
from medlink.models.transformer import TransformerEncoder
from medlink.records import Name
from medlink.training import CoderPlusPlusTrainer
from medlink.training.coderpp.trainer import CoderPlusPlusLoop
from medlink.training.common.inputs import InputParts
from medlink.training.common.loader import EpochLoader
from medlink.training.recipes import CoderPlusPlusRecipe
from tests.training.small_bert import Killed, kill_at, two_processes
from tests.training.trained import fingerprint, missing, recipe_on_card

WORDS = ("kidney", "renal", "nephros", "Niere")
NAMES = [Name(f"C{i}", f"{word} {chr(97 + i)}{chr(105 + i)}") for i in range(6) for word in WORDS]
RECIPE = CoderPlusPlusRecipe(
    positives=3, neighbours=4, anchors=4, accumulation=2, epochs=4, learning_rate=1e-2, warmup=0.1, seed=3
)
STEPS = 12  # 24 terms, 8 anchors a step, 4 epochs


@pytest.fixture(scope="module")
def uninterrupted(static_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The output folder, and the log."""
    lines: list[str] = []
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    train(static_encoder, out, progress=lines.append)
    return out, lines


def train(start: Path, out: Path, recipe: CoderPlusPlusRecipe = RECIPE, **options: Any) -> str:
    return CoderPlusPlusTrainer(NAMES, start, recipe).train(out, **options).fingerprint


@pytest.mark.slow
def test_training_separates_concepts(static_encoder: Path, tmp_path: Path) -> None:
    train(static_encoder, tmp_path / "out", RECIPE.replace(epochs=12, learning_rate=2e-2))
    same = np.array([[a.concept_id == b.concept_id for a in NAMES] for b in NAMES])
    gaps = []
    for folder in (static_encoder, tmp_path / "out"):
        vectors = load_encoder(folder).encode([name.text for name in NAMES])
        cosines = vectors @ vectors.T
        gaps.append(cosines[same].mean() - cosines[~same].mean())
    assert gaps[1] > gaps[0] + 0.3


def test_the_folder_the_card_and_the_log(static_encoder: Path, uninterrupted: tuple[Path, list[str]]) -> None:
    out, lines = uninterrupted
    assert isinstance(load_encoder(out), StaticEncoder)
    assert sorted(path.name for path in out.parent.iterdir()) == ["out"]
    facts = ("names: 24", "concepts: 6", "distinct terms: 24", f"- steps: {STEPS}\n- loss over the last of them: ")
    prints = (fingerprint(out), fingerprint(static_encoder))
    assert not missing(out, *facts, *prints, "- informative pairs among them: ", "Licence: to be filled in")
    assert recipe_on_card(out) == RECIPE.to_dict()
    rounds = [line for line in lines if line.startswith("round")]
    assert [line.split(":")[0] for line in rounds] == ["round 1", "round 2", "round 3", "round 4"]
    assert "neighbours of 24 terms found in" in rounds[0]
    assert lines[-1].startswith(f"step {STEPS}/{STEPS} loss ")
    assert "informative pairs" in lines[-1]
    assert not any(name.text in line for line in lines for name in NAMES)


# within a round of 3 steps, and in the last round of 2 steps
@pytest.mark.slow
@pytest.mark.parametrize(("refresh", "step"), [("epoch", 7), (2, 11)])
def test_a_killed_run_resumes_to_the_same_weights(
    step: int, refresh: str | int, static_encoder: Path, tmp_path: Path
) -> None:
    recipe = RECIPE.replace(refresh=refresh, feature_dropout=0.2)
    with pytest.raises(Killed):
        train(static_encoder, tmp_path / "out", recipe, checkpoint_steps=2, progress=kill_at(f"step {step}/"))
    assert not (tmp_path / "out").exists()
    lines: list[str] = []
    options: dict[str, Any] = {"resume": True, "checkpoint_steps": 2, "progress": lines.append}
    resumed = train(static_encoder, tmp_path / "out", recipe, **options)
    begun = (step - 1) // 2 * 2 + 1
    assert next(line for line in lines if line.startswith("step")).startswith(f"step {begun}/")
    assert resumed == train(static_encoder, tmp_path / "alone", recipe)


@pytest.mark.slow
def test_a_transformer(bert: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(learning_rate=1e-3, epochs=1, max_tokens=9)
    encoder = CoderPlusPlusTrainer(NAMES, bert, recipe).train(tmp_path / "out")
    assert isinstance(encoder, TransformerEncoder)
    assert not missing(tmp_path / "out", encoder.fingerprint)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".bin", ".pt", ".pth")]
    # 9 tokens are 7 letters and two marks
    np.testing.assert_allclose(encoder.encode(["abcdefg"]), encoder.encode(["abcdefghij"]), atol=1e-6)
    # cached gradients draw other random numbers for dropout
    changed = (
        train(bert, tmp_path / name, recipe.replace(**{name: n})) for name, n in (("mini_batch", 3), ("max_tokens", 20))
    )
    assert len({encoder.fingerprint, fingerprint(bert), *changed}) == 4


@pytest.mark.slow
def test_neighbours_of_earlier_rounds_are_deleted(static_encoder: Path, tmp_path: Path) -> None:
    seen = {}

    def look(line: str) -> None:
        if line.startswith("step"):
            files = (tmp_path / "out.checkpoints").glob("neighbours-*.npy")
            seen[line.partition("/")[0]] = sorted(path.stem.removeprefix("neighbours-") for path in files)

    # a round has 3 steps: the checkpoint of step 5 is in the one that is numbered 1
    train(static_encoder, tmp_path / "out", checkpoint_steps=5, progress=look)
    assert [seen["step 8"], seen["step 12"]] == [["1", "2"], ["1", "3"]]


@pytest.mark.slow
def test_infinite_weights_leave_the_last_good_checkpoint(
    static_encoder: Path, uninterrupted: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(loop: CoderPlusPlusLoop, *_: object) -> None:
        if loop.state.global_step == STEPS:
            # what is logged is the step just made; no term has this row
            loop.model.state_dict()["0.table.weight"][-1, 0] = float("inf")

    monkeypatch.setattr(CoderPlusPlusLoop, "log", spoil)
    message = (
        r"checkpoint-10: weights or embeddings are NaN or infinite after step 12\. Remedy: lower .* good weights\.$"
    )
    with pytest.raises(EncoderError, match=message):
        train(static_encoder, tmp_path / "out", checkpoint_steps=5)
    assert [path.name for path in tmp_path.iterdir()] == ["out.checkpoints"]
    monkeypatch.undo()
    assert train(static_encoder, tmp_path / "out", resume=True) == fingerprint(uninterrupted[0])


# a round of 5 steps is not complete at step 12, and must not be continued
@pytest.mark.slow
def test_a_kill_between_the_renames(static_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, killed = os.replace, []

    def kill(source: Path, target: Path) -> None:
        if Path(target).name == "out" and not killed:
            killed.append(target)
            raise Killed
        real(source, target)

    recipe = RECIPE.replace(refresh=5)
    load_encoder(static_encoder).save(tmp_path / "out")
    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(Killed):
        train(static_encoder, tmp_path / "out", recipe, checkpoint_steps=5)
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.checkpoints"]
    assert fingerprint(tmp_path / "out") == fingerprint(static_encoder)
    resumed = train(static_encoder, tmp_path / "out", recipe, resume=True)
    assert resumed == train(static_encoder, tmp_path / "alone", recipe)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "out"]


def two(start: Path, out: Path) -> list[int | None]:
    """Train by two processes, each of which records the terms that it embeds; their exit codes."""
    parts = out.with_name(f"{out.name}.parts")
    parts.mkdir()

    def work(rank: int) -> None:
        trainer, take = CoderPlusPlusTrainer(NAMES, start, RECIPE), EpochLoader.take

        def record_and_take(loader: EpochLoader, texts: np.ndarray) -> InputParts:
            # texts to embed, in contrast to those of a batch
            if texts.ndim == 1 and len(texts) == len(NAMES) // 2:
                with open(parts / str(rank), "a") as file:
                    np.savetxt(file, texts, fmt="%d")
            return take(loader, texts)

        EpochLoader.take = record_and_take  # type: ignore[method-assign]  # in this process alone
        trainer.train(out, checkpoint_steps=2)

    return two_processes(work)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
def test_two_processes_share_the_terms(
    static_encoder: Path, uninterrupted: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """Resuming with two processes is that of the common trainer."""
    assert two(static_encoder, tmp_path / "alone") == [0, 0]
    assert fingerprint(tmp_path / "alone") != fingerprint(uninterrupted[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "alone.parts"]
    both = [np.loadtxt(tmp_path / "alone.parts" / str(rank), dtype=int).tolist() for rank in (0, 1)]
    assert both == [[*range(12)] * 4, [*range(12, 24)] * 4], "each embeds its part of the terms, in each round"


@pytest.mark.slow
def test_the_recipe_follows_the_encoder(static_encoder: Path, bert: Path, tmp_path: Path) -> None:
    assert CoderPlusPlusTrainer(NAMES, static_encoder).recipe == CoderPlusPlusRecipe.static()
    assert CoderPlusPlusTrainer(NAMES, bert).recipe == CoderPlusPlusRecipe()
    with pytest.raises(ConfigError, match="feature_dropout is for a static encoder"):
        train(bert, tmp_path / "out", RECIPE.replace(feature_dropout=0.1))
    with pytest.raises(ConfigError, match=r"mini_batch is for a transformer\. Remedy: leave it at 0; a static encoder"):
        train(static_encoder, tmp_path / "out", RECIPE.replace(mini_batch=4))
    with pytest.raises(ConfigError, match=r"CODER\+\+ is trained without a development measure"):
        train(static_encoder, tmp_path / "out", evaluate=lambda _: 1.0)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("precision", "gpu", "message"), [("fp16", False, "fp16 needs a GPU"), ("bf16", True, "no bf16")]
)
def test_a_precision_that_the_machine_lacks(
    precision: str, gpu: bool, message: str, static_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(ConfigError, match=message):
        train(static_encoder, tmp_path / "out", RECIPE.replace(precision=precision))
    assert not any(tmp_path.iterdir())
