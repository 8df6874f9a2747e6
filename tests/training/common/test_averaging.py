"""Averaging the weights of encoders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.models import StaticConfig, StaticEncoder
from medlink.training.common.averaging import average, soup
from tests.models.test_static import random_encoder
from tests.training.small_bert import small_bert

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def three(bert: Path, other_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Transformers of one shape."""
    return [bert, other_bert, small_bert(tmp_path_factory.mktemp("bert"), seed=1)]


@pytest.fixture
def pair(three: list[Path], tmp_path: Path) -> list[Path]:
    """Two of them, to be changed."""
    return [Path(shutil.copytree(folder, tmp_path / folder.parent.name)) for folder in three[:2]]


def change(folder: Path, name: str, value: torch.Tensor | None) -> None:
    """Put another tensor into a model, or leave one out."""
    tensors = {**load_file(folder / WEIGHTS), name: value}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / WEIGHTS)


def test_the_mean_by_hand() -> None:
    one, other = random_encoder(seed=1), random_encoder(seed=2)
    mean = average([one, other])
    tables = [e.tensors["table"] * e.tensors["scale"][:, None] for e in (one, other, mean)]
    step = mean.tensors["scale"].max()
    assert np.abs(tables[2] - (tables[0] + tables[1]) / 2).max() <= step / 2 + 1e-6
    np.testing.assert_allclose(
        mean.tensors["up.bias"], (one.tensors["up.bias"] + other.tensors["up.bias"]) / 2, rtol=1e-6
    )


def test_different_shapes_are_refused() -> None:
    with pytest.raises(EncoderError, match="different shapes"):
        average([random_encoder(), random_encoder(StaticConfig(families=False, rows=50, dimension=6, hidden=5))])
    with pytest.raises(EncoderError, match="no encoders"):
        average([])


@pytest.mark.slow
def test_the_mean_of_transformers_is_that_of_their_state(three: list[Path], tmp_path: Path) -> None:
    soup(three, tmp_path / "deep" / "out")
    states = [SentenceTransformer(str(folder), device="cpu").state_dict() for folder in three]
    found = SentenceTransformer(str(tmp_path / "deep" / "out"), device="cpu").state_dict()
    assert found.keys() == states[0].keys()
    for name, value in found.items():
        expected = torch.stack([state[name].double() for state in states]).mean(dim=0)
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-8)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_16_bits_integers_and_scalars(pair: list[Path], tmp_path: Path) -> None:
    for i, folder in enumerate(pair):
        change(folder, "half", torch.tensor([[1.0 + i, 3.0]], dtype=torch.bfloat16))
        change(folder, "count", torch.tensor([7, 8]))
        change(folder, "single", torch.tensor(2.0 * i))
        change(folder, "none", torch.zeros(0, 3))
    soup(pair, tmp_path / "out")
    found = load_file(tmp_path / "out" / WEIGHTS)
    torch.testing.assert_close(found["half"], torch.tensor([[1.5, 3.0]], dtype=torch.bfloat16))
    assert found["count"].tolist() == [7, 8]
    assert found["single"].item() == 1.0
    assert found["none"].shape == (0, 3)


def test_the_card_and_the_order(three: list[Path], tmp_path: Path) -> None:
    for i, folder in enumerate(three):
        shutil.copytree(folder, tmp_path / "runs" / f"run-{i + 1}")
    # the folder of several runs stands for them
    mean = soup([tmp_path / "runs"], tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "Mean of 3 encoders" in card
    assert mean.fingerprint in card
    assert card.count("- SHA-256 of the weights of encoder ") == 3
    assert soup(three[::-1], tmp_path / "out").fingerprint == mean.fingerprint


def test_static_encoders_too(tmp_path: Path) -> None:
    encoders = [random_encoder(seed=seed) for seed in (1, 2)]
    folders = [encoder.save(tmp_path / str(i)) for i, encoder in enumerate(encoders)]
    found = soup(folders, tmp_path / "out")
    assert isinstance(found, StaticEncoder)
    assert found.fingerprint == average(encoders).fingerprint
    assert "Mean of 2 encoders" in (tmp_path / "out" / "README.md").read_text("utf-8")


def test_invalid_folders(three: list[Path], tmp_path: Path) -> None:
    static = random_encoder().save(tmp_path / "static")
    with pytest.raises(EncoderError, match=r"static: a static encoder and a transformer cannot be averaged. Remedy"):
        soup([three[0], static], tmp_path / "out")
    with pytest.raises(EncoderError, match="no encoders"):
        soup([], tmp_path / "out")
    with pytest.raises(EncoderError, match=r"no encoder folder\. Remedy: name folders"):
        soup([tmp_path], tmp_path / "out")
    (tmp_path / "file").touch()
    for taken, message in ((tmp_path, "is not empty and holds no encoder"), (tmp_path / "file", "there is a file")):
        with pytest.raises(ConfigError, match=message):
            soup(three, taken)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "key", "refused"),
    [
        ("config.json", "num_attention_heads", True), ("config.json", "transformers_version", False),
        ("tokenizer.json", "model", True), ("tokenizer.json", "padding", False),
        ("1_Pooling/config.json", "pooling_mode", True), ("new.json", "any", True),
    ],
)  # fmt: skip
def test_settings_must_agree(file: str, key: str, refused: bool, pair: list[Path], tmp_path: Path) -> None:
    path = pair[1] / file
    content = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**content, key: "other"}), "utf-8")
    if not refused:
        soup(pair, tmp_path / "out")
        return
    with pytest.raises(EncoderError, match=f"{pair[1]}: {file} differs from that of {pair[0]}. Remedy: average runs"):
        soup(pair, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, r"is missing, float32 \("),
        (torch.zeros(2, 3), r"is float32 \(2, 3\), float32 \("),
        (torch.zeros(1, dtype=torch.float16), r"is float16 \(1,\), float32 \("),
    ],
)
def test_tensors_must_agree(value: torch.Tensor | None, message: str, pair: list[Path], tmp_path: Path) -> None:
    name = min(load_file(pair[0] / WEIGHTS))
    change(pair[1], name, value)
    with pytest.raises(EncoderError, match=rf"{pair[1]}/{WEIGHTS}: {name} {message}.*Remedy: average runs"):
        soup(pair, tmp_path / "out")


def test_damage_is_named(pair: list[Path], tmp_path: Path) -> None:
    (pair[1] / "config.json").write_text("{")
    with pytest.raises(EncoderError, match=r"config\.json: no JSON"):
        soup(pair, tmp_path / "out")
    shutil.copyfile(pair[0] / "config.json", pair[1] / "config.json")
    (pair[1] / WEIGHTS).write_bytes(b"short")
    with pytest.raises(EncoderError, match="the weights cannot be read"):
        soup(pair, tmp_path / "out")
    (pair[1] / "modules.json").write_text("{}x")
    with pytest.raises(EncoderError, match=r"modules\.json cannot be read"):
        soup(pair, tmp_path / "out")
