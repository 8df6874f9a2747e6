"""A damaged file of an encoder is refused before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import EncoderError
from medlink.index import build_bundle
from medlink.language.lexicon.forms import shipped_forms
from medlink.models import MarianTranslator, StaticEncoder, TranslatedEncoder, load_encoder
from medlink.models.encoders import builtin_folder
from medlink.models.file_hashes import HASHES_FILE
from tests.models.small_marian import small_marian
from tests.models.test_static import CONFIG, random_encoder
from tests.training.small_bert import small_bert

pytestmark = pytest.mark.slow


@pytest.fixture
def static(tmp_path: Path) -> Path:
    encoder = StaticEncoder(CONFIG.replace(families=True), random_encoder().tensors, forms=shipped_forms())
    return encoder.save(tmp_path / "static")


@pytest.fixture
def transformer(tmp_path: Path) -> Path:
    return load_encoder(small_bert(tmp_path), device="cpu").save(tmp_path / "saved")


@pytest.fixture
def translated(tmp_path: Path) -> Path:
    return TranslatedEncoder(random_encoder(), MarianTranslator(small_marian(tmp_path))).save(tmp_path / "both")


def overwrite(path: Path, begin: int, count: int) -> None:
    content = bytearray(path.read_bytes())
    content[begin : begin + count] = b"\xff" * count
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "name", "begin"),
    [
        ("static", "families.marisa", 0), ("static", "model.safetensors", -8), ("static", "config.json", 0),
        ("transformer", "model.safetensors", -8), ("translated", "translation/model.safetensors", -8),
        ("translated", "encoder/model.safetensors", -8),
    ],
)  # fmt: skip
def test_a_damaged_file(kind: str, name: str, begin: int, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    path = folder / name
    kept = path.read_bytes()
    overwrite(path, begin % len(kept), min(4096, len(kept) - begin % len(kept)))
    with pytest.raises(EncoderError, match=rf"{name}: a file of the encoder is damaged\. Remedy: train or fetch"):
        load_encoder(folder)
    path.write_bytes(kept)
    load_encoder(folder)
    path.unlink()
    with pytest.raises(EncoderError, match="a file of the encoder is missing"):
        load_encoder(folder)


def test_build_with_a_damaged_encoder(static: Path, tmp_path: Path) -> None:
    overwrite(static / "families.marisa", 0, 4096)
    with pytest.raises(EncoderError, match="a file of the encoder is damaged"):
        build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite", encoder=static)


@pytest.mark.parametrize(("kind", "is_needed"), [("static", True), ("transformer", False), ("translated", True)])
def test_a_folder_without_hashes(kind: str, is_needed: bool, request: pytest.FixtureRequest) -> None:
    """Foreign models have none."""
    folder = request.getfixturevalue(kind)
    (folder / HASHES_FILE).unlink()
    if is_needed:
        with pytest.raises(EncoderError, match=rf"is incomplete: it has no {HASHES_FILE}"):
            load_encoder(folder)
    else:
        assert load_encoder(folder).dimension == 16


@pytest.mark.parametrize(
    ("content", "message"), [("[]", "no hashes"), ("{", "cannot be read"), ("\xff", "cannot be read")]
)
def test_unreadable_hashes(content: str, message: str, static: Path) -> None:
    (static / HASHES_FILE).write_text(content, "latin-1")
    with pytest.raises(EncoderError, match=message):
        load_encoder(static)


def test_builtin_encoder_has_hashes(tmp_path: Path) -> None:
    assert load_encoder(builtin_folder()).fingerprint == load_encoder().fingerprint
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "modules.json").write_text((builtin_folder() / "modules.json").read_text())
    with pytest.raises(EncoderError, match="it has no"):
        load_encoder(tmp_path)
