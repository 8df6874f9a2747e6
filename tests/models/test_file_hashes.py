"""A damaged file of an encoder is refused before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import EncoderError
from medlink.language.lexicon.forms import shipped_forms
from medlink.models import MarianTranslator, StaticEncoder, TranslatedEncoder, load_encoder
from medlink.models.encoders import builtin_folder
from medlink.models.file_hashes import HASHES_FILE
from tests.models.small_marian import small_marian
from tests.models.test_static import CONFIG, random_encoder
from tests.training.small_bert import small_bert

pytestmark = pytest.mark.slow


def saved(kind: str, folder: Path) -> Path:
    """An encoder of a kind."""
    if kind == "static":
        encoder = StaticEncoder(CONFIG.replace(families=True), random_encoder().tensors, forms=shipped_forms())
        return encoder.save(folder / "static")
    if kind == "transformer":
        return load_encoder(small_bert(folder), device="cpu").save(folder / "saved")
    return TranslatedEncoder(random_encoder(), MarianTranslator(small_marian(folder))).save(folder / "both")


@pytest.mark.parametrize(
    ("kind", "name", "begin"),
    [
        ("static", "families.marisa", 0), ("static", "model.safetensors", -8), ("static", "config.json", 0),
        ("transformer", "model.safetensors", -8), ("translated", "translation/model.safetensors", -8),
        ("translated", "encoder/model.safetensors", -8),
    ],
)  # fmt: skip
def test_a_damaged_file(kind: str, name: str, begin: int, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path)
    path = folder / name
    kept = path.read_bytes()
    start = begin % len(kept)
    path.write_bytes(kept[:start] + b"\xff" * len(kept[start : start + 4096]) + kept[start + 4096 :])
    with pytest.raises(EncoderError, match=rf"{name}: a file of the encoder is damaged\. Remedy: train or fetch"):
        load_encoder(folder)
    path.write_bytes(kept)
    load_encoder(folder)
    path.unlink()
    with pytest.raises(EncoderError, match="a file of the encoder is missing"):
        load_encoder(folder)


@pytest.mark.parametrize(("kind", "is_needed"), [("static", True), ("transformer", False), ("translated", True)])
def test_a_folder_without_hashes(kind: str, is_needed: bool, tmp_path: Path) -> None:
    """Foreign models have none."""
    folder = saved(kind, tmp_path)
    (folder / HASHES_FILE).unlink()
    if is_needed:
        with pytest.raises(EncoderError, match=rf"is incomplete: it has no {HASHES_FILE}"):
            load_encoder(folder)
    else:
        assert load_encoder(folder).dimension == 16


@pytest.mark.parametrize(("content", "message"), [("[]", "no hashes"), ("\xff", "cannot be read")])
def test_unreadable_hashes(content: str, message: str, tmp_path: Path) -> None:
    random_encoder().save(tmp_path)
    (tmp_path / HASHES_FILE).write_text(content, "latin-1")
    with pytest.raises(EncoderError, match=message):
        load_encoder(tmp_path)


def test_builtin_encoder_has_hashes(tmp_path: Path) -> None:
    assert load_encoder(builtin_folder()).fingerprint == load_encoder().fingerprint
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "modules.json").write_text((builtin_folder() / "modules.json").read_text())
    with pytest.raises(EncoderError, match="it has no"):
        load_encoder(tmp_path)
