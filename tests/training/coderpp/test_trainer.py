"""CODER++ from names to a folder: it learns, it resumes to the same weights, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticEncoder, load_encoder
from medlink.models.transformer import TransformerEncoder
from medlink.records import Name
from medlink.training import CoderPlusPlusTrainer
from medlink.training.common.inputs import InputParts
from medlink.training.common.loader import EpochLoader
from medlink.training.recipes import CoderPlusPlusRecipe
from tests.training.small_bert import Killed, kill_at, two_processes

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
    CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE).train(out, progress=lines.append)
    return out, lines


def fingerprint(static_encoder: Path, out: Path, recipe: CoderPlusPlusRecipe) -> str:
    return CoderPlusPlusTrainer(NAMES, static_encoder, recipe).train(out).fingerprint


@pytest.mark.slow
def test_training_separates_concepts(static_encoder: Path, tmp_path: Path) -> None:
    CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE.replace(epochs=12, learning_rate=2e-2)).train(tmp_path / "out")
    texts = [name.text for name in NAMES]
    same = np.array([[a.concept_id == b.concept_id for a in NAMES] for b in NAMES])
    gaps = []
    for folder in (static_encoder, tmp_path / "out"):
        vectors = load_encoder(folder).encode(texts)
        cosines = vectors @ vectors.T
        gaps.append(cosines[same].mean() - cosines[~same].mean())
    assert gaps[1] > gaps[0] + 0.3


@pytest.mark.slow
def test_the_folder_is_a_static_encoder_with_a_card(
    static_encoder: Path, uninterrupted: tuple[Path, list[str]]
) -> None:
    out, _ = uninterrupted
    encoder = load_encoder(out)
    assert isinstance(encoder, StaticEncoder)
    assert sorted(path.name for path in out.parent.iterdir()) == ["out"]
    card = (out / "README.md").read_text("utf-8")
    for fact in (
        encoder.fingerprint,
        load_encoder(static_encoder).fingerprint,
        "names: 24",
        "concepts: 6",
        "distinct terms: 24",
    ):
        assert fact in card
    assert f"- steps: {STEPS}\n- loss over the last of them: " in card
    assert "- informative pairs among them: " in card
    assert "Licence: to be filled in" in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_the_log_has_loss_pairs_and_neighbours(uninterrupted: tuple[Path, list[str]]) -> None:
    _, lines = uninterrupted
    rounds = [line for line in lines if line.startswith("round")]
    assert [line.split(":")[0] for line in rounds] == ["round 1", "round 2", "round 3", "round 4"]
    assert "neighbours of 24 terms found in" in rounds[0]
    assert lines[-1].startswith(f"step {STEPS}/{STEPS} loss ")
    assert "informative pairs" in lines[-1]
    assert "terms/s" in lines[-1]
    assert not any(name.text in line for line in lines for name in NAMES)


@pytest.mark.slow
def test_progress_before_the_first_step(static_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.training.common.inputs._FIRST_LINE", -1.0)
    monkeypatch.setattr("medlink.training.common.inputs._NEXT_LINE", -1.0)
    lines: list[str] = []
    CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE).train(tmp_path / "out", progress=lines.append)
    assert lines[:3] == [
        "0 texts read",
        "round 1: 24 of 24 terms embedded",
        "round 1: neighbours of 24 of 24 different terms found",
    ]


# within a round of 3 steps, and in the last round of 2 steps
@pytest.mark.slow
@pytest.mark.parametrize(("refresh", "step"), [("epoch", 7), (2, 11)])
def test_a_killed_run_resumes_to_the_same_weights(
    step: int, refresh: str | int, static_encoder: Path, tmp_path: Path
) -> None:
    recipe = RECIPE.replace(refresh=refresh, feature_dropout=0.2)
    with pytest.raises(Killed):
        CoderPlusPlusTrainer(NAMES, static_encoder, recipe).train(
            tmp_path / "out", checkpoint_steps=2, progress=kill_at(f"step {step}/")
        )
    assert not (tmp_path / "out").exists()
    lines: list[str] = []
    resumed = CoderPlusPlusTrainer(NAMES, static_encoder, recipe).train(
        tmp_path / "out", resume=True, checkpoint_steps=2, progress=lines.append
    )
    begun = (step - 1) // 2 * 2 + 1
    assert next(line for line in lines if line.startswith("step")).startswith(f"step {begun}/")
    assert resumed.fingerprint == fingerprint(static_encoder, tmp_path / "alone", recipe)


@pytest.mark.slow
def test_a_transformer(bert: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(learning_rate=1e-3, epochs=1, max_tokens=9)
    encoder = CoderPlusPlusTrainer(NAMES, bert, recipe).train(tmp_path / "out")
    assert isinstance(encoder, TransformerEncoder)
    assert encoder.fingerprint in (tmp_path / "out" / "README.md").read_text("utf-8")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".bin", ".pt", ".pth")]
    # 9 tokens are 7 letters and two marks
    np.testing.assert_allclose(encoder.encode(["abcdefg"]), encoder.encode(["abcdefghij"]), atol=1e-6)
    # cached gradients draw other random numbers for dropout
    seen = {encoder.fingerprint, load_encoder(bert).fingerprint}
    for change in ({"mini_batch": 3}, {"max_tokens": 20}):
        other = CoderPlusPlusTrainer(NAMES, bert, recipe.replace(**change)).train(tmp_path / next(iter(change)))
        seen.add(other.fingerprint)
    assert len(seen) == 4


@pytest.mark.slow
@pytest.mark.parametrize(("every", "numbers"), [(5, [["1", "2"], ["1", "3"]])])
def test_neighbours_of_earlier_rounds_are_deleted(
    every: int, numbers: list[list[str]], static_encoder: Path, tmp_path: Path
) -> None:
    seen = {}

    def look(line: str) -> None:
        if line.startswith("step"):
            files = (tmp_path / "out.checkpoints").glob("neighbours-*.npy")
            seen[line.partition("/")[0]] = sorted(path.stem.removeprefix("neighbours-") for path in files)

    # a round has 3 steps: the checkpoint of step 5 is in the one that is numbered 1
    CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE).train(tmp_path / "out", checkpoint_steps=every, progress=look)
    assert [seen["step 8"], seen["step 12"]] == numbers


@pytest.mark.slow
def test_infinite_weights_leave_the_last_good_checkpoint(
    static_encoder: Path, uninterrupted: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medlink.training.coderpp.loop import CoderPlusPlusLoop

    def spoil(loop: CoderPlusPlusLoop, *_: object) -> None:
        if loop.state.global_step == STEPS:
            # what is logged is the step just made; no term has this row
            loop.model.state_dict()["0.table.weight"][-1, 0] = float("inf")

    monkeypatch.setattr(CoderPlusPlusLoop, "log", spoil)
    message = (
        r"checkpoint-10: weights or embeddings are NaN or infinite after step 12\. Remedy: lower .* good weights\.$"
    )
    with pytest.raises(EncoderError, match=message):
        CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE).train(tmp_path / "out", checkpoint_steps=5)
    assert [path.name for path in tmp_path.iterdir()] == ["out.checkpoints"]
    monkeypatch.undo()
    resumed = CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE).train(tmp_path / "out", resume=True)
    assert resumed.fingerprint == load_encoder(uninterrupted[0]).fingerprint


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
        CoderPlusPlusTrainer(NAMES, static_encoder, recipe).train(tmp_path / "out", checkpoint_steps=5)
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.checkpoints"]
    assert load_encoder(tmp_path / "out").fingerprint == load_encoder(static_encoder).fingerprint
    resumed = CoderPlusPlusTrainer(NAMES, static_encoder, recipe).train(tmp_path / "out", resume=True)
    assert resumed.fingerprint == fingerprint(static_encoder, tmp_path / "alone", recipe)
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
    assert load_encoder(tmp_path / "alone").fingerprint != load_encoder(uninterrupted[0]).fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "alone.parts"]
    both = [np.loadtxt(tmp_path / "alone.parts" / str(rank), dtype=int).tolist() for rank in (0, 1)]
    assert both == [[*range(12)] * 4, [*range(12, 24)] * 4], "each embeds its part of the terms, in each round"


@pytest.mark.slow
def test_the_recipe_follows_the_encoder(static_encoder: Path, bert: Path, tmp_path: Path) -> None:
    assert CoderPlusPlusTrainer(NAMES, static_encoder).recipe == CoderPlusPlusRecipe.static()
    assert CoderPlusPlusTrainer(NAMES, bert).recipe == CoderPlusPlusRecipe()
    with pytest.raises(ConfigError, match="feature_dropout is for a static encoder"):
        CoderPlusPlusTrainer(NAMES, bert, RECIPE.replace(feature_dropout=0.1)).train(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"mini_batch is for a transformer\. Remedy: leave it at 0; a static encoder"):
        CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE.replace(mini_batch=4)).train(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"CODER\+\+ is trained without a development measure"):
        CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE).train(tmp_path / "out", evaluate=lambda _: 1.0)
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
        CoderPlusPlusTrainer(NAMES, static_encoder, RECIPE.replace(precision=precision)).train(tmp_path / "out")
    assert not any(tmp_path.iterdir())
