"""CODER++ from names to a folder: it learns, it resumes to the same weights, and what it refuses."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import warnings
from pathlib import Path

import faiss
import numpy as np
import pytest
import torch

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticConfig, StaticEncoder, load_encoder
from medlink.models.static.encoder import quantise
from medlink.models.static.module import StaticEmbedding
from medlink.models.transformer import TransformerEncoder
from medlink.records import Name
from medlink.training import CoderPlusPlusTrainer
from medlink.training.recipes import CoderPlusPlusRecipe
from medlink.training.static.bags import Bags
from tests.training.small_bert import small_bert

WORDS = ("kidney", "renal", "nephros", "Niere")
NAMES = [Name(f"C{i}", f"{word} {chr(97 + i)}{chr(105 + i)}") for i in range(6) for word in WORDS]
RECIPE = CoderPlusPlusRecipe(
    positives=3, neighbours=4, anchors=4, accumulation=2, epochs=4, learning_rate=1e-2, warmup=0.1, seed=3
)
STEPS = 12  # 24 terms, 8 anchors a step, 4 epochs


class Killed(Exception):
    """The end of a process, as its log saw it."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static encoder with random weights."""
    torch.manual_seed(0)
    config = StaticConfig(families=False, rows=256, dimension=16, hidden=8)
    state = {name: value.detach().numpy().copy() for name, value in StaticEmbedding(config).state_dict().items()}
    codes, scale = quantise(state.pop("table.weight"))
    folder = tmp_path_factory.mktemp("start") / "encoder"
    return StaticEncoder(config, {"table": codes, "scale": scale, **state}).save(folder)


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights and dropout."""
    return small_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def whole(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run left alone, and its log."""
    lines: list[str] = []
    out = tmp_path_factory.mktemp("whole") / "out"
    CoderPlusPlusTrainer(NAMES, start, RECIPE).train(out, progress=lines.append)
    return out, lines


def fingerprint(start: Path, out: Path, recipe: CoderPlusPlusRecipe) -> str:
    return CoderPlusPlusTrainer(NAMES, start, recipe).train(out).fingerprint


def test_it_pulls_concepts_together_and_others_apart(start: Path, tmp_path: Path) -> None:
    CoderPlusPlusTrainer(NAMES, start, RECIPE.replace(epochs=40)).train(tmp_path / "out")
    texts = [name.text for name in NAMES]
    same = np.array([[a.concept_id == b.concept_id for a in NAMES] for b in NAMES])
    gaps = []
    for folder in (start, tmp_path / "out"):
        vectors = load_encoder(folder).encode(texts)
        cosines = vectors @ vectors.T
        gaps.append(cosines[same].mean() - cosines[~same].mean())
    assert gaps[1] > gaps[0] + 0.3


def test_the_folder_is_a_static_encoder_with_a_card(start: Path, whole: tuple[Path, list[str]]) -> None:
    out, _ = whole
    encoder = load_encoder(out)
    assert isinstance(encoder, StaticEncoder)
    assert sorted(path.name for path in out.parent.iterdir()) == ["out"]
    card = (out / "README.md").read_text("utf-8")
    for fact in (
        encoder.fingerprint,
        load_encoder(start).fingerprint,
        "names: 24",
        "concepts: 6",
        "distinct terms: 24",
    ):
        assert fact in card
    assert f"- steps: {STEPS}\n- loss over the last of them: " in card
    assert "- informative pairs among them: " in card
    assert "Licence: to be filled in" in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_the_log_tells_of_loss_pairs_and_neighbours(whole: tuple[Path, list[str]]) -> None:
    _, lines = whole
    rounds = [line for line in lines if line.startswith("round")]
    assert [line.split(":")[0] for line in rounds] == ["round 1", "round 2", "round 3", "round 4"]
    assert "neighbours of 24 terms found in" in rounds[0]
    assert lines[-1].startswith(f"step {STEPS}/{STEPS} loss ")
    assert "informative pairs" in lines[-1]
    assert "terms/s" in lines[-1]
    assert not any(name.text in line for line in lines for name in NAMES)


# rounds are of 3 steps, and of 2 where they are counted: before a checkpoint, within a round, at its end, in the last
@pytest.mark.parametrize(("refresh", "step"), [("epoch", 1), ("epoch", 7), ("never", 6), (2, 11)])
def test_a_killed_run_goes_on_to_the_same_weights(step: int, refresh: str | int, start: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(refresh=refresh, feature_dropout=0.2)

    def kill(line: str) -> None:
        if line.startswith(f"step {step}/"):
            raise Killed

    with pytest.raises(Killed):
        CoderPlusPlusTrainer(NAMES, start, recipe).train(tmp_path / "out", checkpoint_steps=2, progress=kill)
    assert not (tmp_path / "out").exists()
    lines: list[str] = []
    resumed = CoderPlusPlusTrainer(NAMES, start, recipe).train(
        tmp_path / "out", resume=True, checkpoint_steps=2, progress=lines.append
    )
    begun = (step - 1) // 2 * 2 + 1
    assert next(line for line in lines if line.startswith("step")).startswith(f"step {begun}/")
    assert resumed.fingerprint == fingerprint(start, tmp_path / "alone", recipe)


def test_a_transformer_goes_on_to_the_same_weights(transformer: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(learning_rate=1e-3, epochs=2, max_tokens=9)

    def kill(line: str) -> None:
        if line.startswith("step 4/"):
            raise Killed

    trainer = CoderPlusPlusTrainer(NAMES, transformer, recipe)
    with pytest.raises(Killed):
        trainer.train(tmp_path / "out", checkpoint_steps=1, progress=kill)
    with pytest.raises(ConfigError, match=r"the unfinished run has precision fp32 \(now bf16\)"):
        CoderPlusPlusTrainer(NAMES, transformer, recipe.replace(precision="bf16")).train(tmp_path / "out", resume=True)
    CoderPlusPlusTrainer(NAMES, transformer, recipe).train(tmp_path / "out", resume=True)
    alone = CoderPlusPlusTrainer(NAMES, transformer, recipe).train(tmp_path / "alone")
    resumed = load_encoder(tmp_path / "out")
    assert isinstance(resumed, TransformerEncoder)
    assert resumed.fingerprint == alone.fingerprint != load_encoder(transformer).fingerprint
    assert resumed.fingerprint in (tmp_path / "out" / "README.md").read_text("utf-8")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".bin", ".pt", ".pth")]
    # 9 tokens are 7 letters and two marks
    np.testing.assert_allclose(resumed.encode(["abcdefg"]), resumed.encode(["abcdefghij"]), atol=1e-6)
    few = recipe.replace(mini_batch=3)
    cached = CoderPlusPlusTrainer(NAMES, transformer, few).train(tmp_path / "few")
    # they draw other random numbers for dropout
    assert cached.fingerprint != alone.fingerprint
    longer = recipe.replace(max_tokens=20)
    assert CoderPlusPlusTrainer(NAMES, transformer, longer).train(tmp_path / "longer").fingerprint != alone.fingerprint


@pytest.mark.parametrize(("every", "kept"), [(100, [["2"], ["3"]]), (5, [["1", "2"], ["1", "3"]])])
def test_neighbours_of_earlier_rounds_are_deleted(
    every: int, kept: list[list[str]], start: Path, tmp_path: Path
) -> None:
    seen = {}

    def look(line: str) -> None:
        if line.startswith("step"):
            files = (tmp_path / "out.checkpoints").glob("neighbours-*.npy")
            seen[line.partition("/")[0]] = sorted(path.stem.removeprefix("neighbours-") for path in files)

    # a round has 3 steps: the checkpoint of step 5 is in the one that is numbered 1
    CoderPlusPlusTrainer(NAMES, start, RECIPE).train(tmp_path / "out", checkpoint_steps=every, progress=look)
    assert [seen["step 8"], seen["step 12"]] == kept


def test_a_loss_that_is_no_number_keeps_the_last_good_checkpoint(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medlink.training.coderpp import loss as multi_similarity

    real, calls = multi_similarity.pair_loss, []

    def broken(*args: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        # two batches a step: the first of step 6
        return real(*args) * (float("nan") if len(calls) == 11 else 1)  # type: ignore[arg-type]  # numbers follow

    monkeypatch.setattr(multi_similarity, "pair_loss", broken)
    trainer = CoderPlusPlusTrainer(NAMES, start, RECIPE)
    with pytest.raises(EncoderError) as error:
        trainer.train(tmp_path / "out", checkpoint_steps=5)
    assert "checkpoint-5: the loss is nan at step 6. Remedy: lower the learning rate" in str(error.value)
    monkeypatch.undo()
    assert trainer.train(tmp_path / "out", resume=True).fingerprint == fingerprint(start, tmp_path / "alone", RECIPE)


def test_weights_that_are_no_numbers_keep_the_last_good_checkpoint(
    start: Path, whole: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        CoderPlusPlusTrainer(NAMES, start, RECIPE).train(tmp_path / "out", checkpoint_steps=5)
    assert [path.name for path in tmp_path.iterdir()] == ["out.checkpoints"]
    monkeypatch.undo()
    resumed = CoderPlusPlusTrainer(NAMES, start, RECIPE).train(tmp_path / "out", resume=True)
    assert resumed.fingerprint == load_encoder(whole[0]).fingerprint


# a round of 5 steps is not at its end at step 12: one more must not be made
@pytest.mark.parametrize("refresh", ["epoch", 5])
def test_a_kill_between_the_renames(
    refresh: str | int, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, killed = os.replace, []

    def kill(source: Path, target: Path) -> None:
        if Path(target).name == "out" and not killed:
            killed.append(target)
            raise Killed
        real(source, target)

    recipe = RECIPE.replace(refresh=refresh)
    load_encoder(start).save(tmp_path / "out")
    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(Killed):
        CoderPlusPlusTrainer(NAMES, start, recipe).train(tmp_path / "out", checkpoint_steps=5)
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.checkpoints"]
    assert load_encoder(tmp_path / "out").fingerprint == load_encoder(start).fingerprint
    resumed = CoderPlusPlusTrainer(NAMES, start, recipe).train(tmp_path / "out", resume=True)
    assert resumed.fingerprint == fingerprint(start, tmp_path / "alone", recipe)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "out"]


def one_of_two(rank: int, port: int, start: Path, out: Path, stop: int, resume: bool) -> None:
    """A process of a run in which both end at a step."""
    from accelerate import PartialState

    # what the copy of the test's process knows of itself
    PartialState._shared_state.clear()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    warnings.simplefilter("ignore")
    given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ.update({**{name: str(value) for name, value in given.items()}, "MASTER_ADDR": "127.0.0.1"})
    trainer = CoderPlusPlusTrainer(NAMES, start, RECIPE)
    if stop:
        from medlink.training.coderpp.loop import CoderPlusPlusLoop

        step = CoderPlusPlusLoop.training_step

        def training_step(loop: CoderPlusPlusLoop, *args: object, **kwargs: object) -> torch.Tensor:
            if loop.state.global_step == stop:
                os._exit(9)
            return step(loop, *args, **kwargs)

        CoderPlusPlusLoop.training_step = training_step  # type: ignore[method-assign]  # in this process alone
    embed, parts = Bags.embedded, out.with_name(f"{out.name}.parts")
    parts.mkdir(exist_ok=True)

    def embedded(bags: Bags, module: StaticEmbedding, texts: np.ndarray) -> np.ndarray:
        with open(parts / str(rank), "a") as file:
            np.savetxt(file, texts, fmt="%d")
        return embed(bags, module, texts)

    Bags.embedded = embedded  # type: ignore[method-assign,assignment]  # in this process alone
    trainer.train(out, resume=resume, checkpoint_steps=2)


def two(start: Path, out: Path, stop: int = 0, resume: bool = False) -> list[int | None]:
    """Train by two processes; their exit codes, not 0 for one that was left waiting."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=one_of_two, args=(rank, port, start, out, stop, resume)) for rank in (0, 1)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
        process.kill()
    return [process.exitcode for process in both]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from Python 3.12 on
def test_two_processes_go_on_to_the_same_weights(start: Path, whole: tuple[Path, list[str]], tmp_path: Path) -> None:
    assert 0 not in two(start, tmp_path / "out", stop=3)
    with pytest.raises(ConfigError, match=r"the unfinished run has processes 2 \(now 1\)\. Remedy: resume with"):
        CoderPlusPlusTrainer(NAMES, start, RECIPE).train(tmp_path / "out", resume=True)
    assert two(start, tmp_path / "out", resume=True) == [0, 0]
    assert two(start, tmp_path / "alone") == [0, 0]
    fingerprints = [load_encoder(path).fingerprint for path in (tmp_path / "out", tmp_path / "alone", whole[0])]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "alone.parts", "out", "out.parts"]
    both = [np.loadtxt(tmp_path / "alone.parts" / str(rank), dtype=int).tolist() for rank in (0, 1)]
    assert both == [[*range(12)] * 4, [*range(12, 24)] * 4], "each embeds its part of the terms, in each round"


def test_the_recipe_follows_the_encoder(start: Path, transformer: Path, tmp_path: Path) -> None:
    assert CoderPlusPlusTrainer(NAMES, start).recipe == CoderPlusPlusRecipe.static()
    assert CoderPlusPlusTrainer(NAMES, transformer).recipe == CoderPlusPlusRecipe()
    with pytest.raises(ConfigError, match="feature_dropout is for a static encoder"):
        CoderPlusPlusTrainer(NAMES, transformer, RECIPE.replace(feature_dropout=0.1)).train(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"mini_batch is for a transformer\. Remedy: leave it at 0; a static encoder"):
        CoderPlusPlusTrainer(NAMES, start, RECIPE.replace(mini_batch=4)).train(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"CODER\+\+ is trained without a development measure"):
        CoderPlusPlusTrainer(NAMES, start, RECIPE).train(tmp_path / "out", evaluate=lambda _: 1.0)
    assert not list(tmp_path.glob("out*"))


def test_fp16_needs_a_gpu(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="fp16 needs a GPU"):
        CoderPlusPlusTrainer(NAMES, start, RECIPE.replace(precision="fp16")).train(tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_bf16_needs_a_gpu_that_has_it(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(ConfigError, match="this GPU has no bf16"):
        CoderPlusPlusTrainer(NAMES, start, RECIPE.replace(precision="bf16")).train(tmp_path / "out")
    assert not any(tmp_path.iterdir())
