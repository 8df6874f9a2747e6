"""The folder of a run: locked by one process, bound to the inputs of the run, and removed at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.training.common.run import open_run_folder, read_neighbours, training_run
from medlink.training.recipes import PhaseRecipe, RunOptions
from tests.training.small_bert import Killed

OPTIONS, RESUME = RunOptions(), RunOptions(resume=True)


def refuse(message: str, folder: Path, options: RunOptions = OPTIONS, seed: int = 1, **facts: str) -> None:
    """The run cannot be opened, or its inputs are others."""
    with pytest.raises((ConfigError, EncoderError), match=message), open_run_folder(folder, options) as run:
        run.bind(PhaseRecipe(seed=seed), **facts)


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    with open_run_folder(tmp_path / "work", OPTIONS):
        refuse(r"work: another process is writing the checkpoints\. Remedy: wait", tmp_path / "work")
    with open_run_folder(tmp_path / "work", OPTIONS):
        pass


def test_a_run_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    (tmp_path / ".writing-0f-5").mkdir()
    (tmp_path / "neighbours-0.npy").write_text("of other terms")
    for options in (OPTIONS, RESUME):
        with open_run_folder(tmp_path, options) as run:
            run.bind(PhaseRecipe(), names="x")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "run.json"]
    record = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert record["names"] == "x"
    assert record["processes"] == 1
    assert record["recipe"]["epochs"] == 1


def test_an_unfinished_run_rejects_other_inputs(tmp_path: Path) -> None:
    with open_run_folder(tmp_path, OPTIONS) as run:
        run.bind(PhaseRecipe(), data="a", teacher="b")
        (tmp_path / "targets").mkdir()
    refuse(r"holds an unfinished run\. Remedy: resume it with resume=", tmp_path)
    other = r"has other data, another teacher, seed 1 \(now 2\)\. Remedy: resume with"
    refuse(other, tmp_path, RESUME, seed=2, data="x", teacher="y")
    with open_run_folder(tmp_path, RESUME) as run:
        run.bind(PhaseRecipe(), data="a", teacher="b")
    (tmp_path / "run.json").write_text("{}")
    refuse(r"run\.json: the checkpoint cannot be read: no 'data'", tmp_path, RESUME, data="a")


def test_folders_that_may_not_be_overwritten(tmp_path: Path) -> None:
    for name in ("lock", ".writing-0f-1"):
        (tmp_path / name).touch()
    with open_run_folder(tmp_path, OPTIONS):
        pass
    (tmp_path / "file").touch()
    refuse("there is a file of that name", tmp_path / "file")
    refuse("cannot be written: ", tmp_path / "file" / "a")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").touch()
    refuse("not empty and holds no run", tmp_path / "other")


def test_the_encoder_is_written_with_its_card_and_the_run_folder_removed(static_encoder: Path, tmp_path: Path) -> None:
    encoder = load_encoder(static_encoder)
    with training_run(tmp_path / "out", PhaseRecipe(), OPTIONS) as run:
        run.bind(PhaseRecipe(), data="a")
        run.write(encoder.save, title="A title", summary="a summary", command="a command", data={"names": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert load_encoder(tmp_path / "out").fingerprint == encoder.fingerprint
    assert "# A title" in (tmp_path / "out" / "README.md").read_text("utf-8")
    with pytest.raises(Killed), training_run(tmp_path / "two", PhaseRecipe(), OPTIONS):
        raise Killed
    # without any progress
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (None, "No such file"),
        (np.array([{}], dtype=object), ""),
        (np.zeros((1, 2), np.int32), r"\(1, 2\) int32, lists of 2 terms expected"),
        (np.zeros((2, 2)), "lists of 2 terms expected"),
        (np.array([[2], [0]], np.int32), "a term of number 2, below 2 expected"),
    ],
)
def test_damaged_neighbours_are_named(lists: Any, message: str, tmp_path: Path) -> None:
    if lists is not None:
        np.save(tmp_path / "neighbours-4.npy", lists, allow_pickle=True)
    with pytest.raises(EncoderError, match=rf"neighbours-4\.npy: the checkpoint cannot be read: .*{message}"):
        read_neighbours(tmp_path, 4, 2)
