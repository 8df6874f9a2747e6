"""Translate, then encode: by a function, by a Marian folder, saved and opened, in a bundle, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from medlink.errors import EncoderError
from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker
from medlink.models import MarianTranslator, TranslatedEncoder, load_encoder
from medlink.models import encoders as module
from tests.models.small_marian import small_marian

pytestmark = pytest.mark.slow

TEXTS = ["fever", "", "left arm", "fever", "cough of a man"]


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_marian(tmp_path_factory.mktemp("marian"))


def upside(texts: Sequence[str]) -> list[str]:
    return [text[::-1] for text in texts]


def test_a_function_before_an_encoder() -> None:
    plain = load_encoder()
    encoder = TranslatedEncoder(plain, upside)
    np.testing.assert_array_equal(encoder.encode(TEXTS), plain.encode(upside(TEXTS)))
    assert (encoder.encode(TEXTS) != plain.encode(TEXTS)).any()
    assert encoder.dimension == plain.dimension
    with pytest.raises(EncoderError, match=r"has no fingerprint\. Remedy: give it an attribute 'fingerprint'"):
        _ = encoder.fingerprint
    with pytest.raises(EncoderError, match=r"a function that translates cannot be saved\. Remedy"):
        encoder.save("nowhere")
    assert not Path("nowhere").exists()

    named = partial(upside)
    fingerprints = {plain.fingerprint}
    for fingerprint in ("1", "2"):
        named.fingerprint = fingerprint  # type: ignore[attr-defined]  # as a translator has it
        fingerprints.add(TranslatedEncoder(plain, named).fingerprint)
    assert len(fingerprints) == 3


@pytest.mark.parametrize("wrong", [lambda _: ["one"], lambda texts: [1] * len(texts), lambda _: "text"])
def test_a_function_that_gives_something_else(wrong: object) -> None:
    with pytest.raises(EncoderError, match=r"returned \d items for 2 texts\. Remedy: return one text for"):
        TranslatedEncoder(load_encoder(), wrong).encode(["a", "b"])  # type: ignore[arg-type]  # that is the point


def test_a_marian_folder_translates_as_its_model_does(marian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoTokenizer, MarianMTModel

    translate = MarianTranslator(marian)
    found = translate(TEXTS)
    model, tokenizer = MarianMTModel.from_pretrained(marian), AutoTokenizer.from_pretrained(marian)
    for text, translation in zip(TEXTS, found, strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        alone = tokenizer.decode(model.generate(ids)[0], skip_special_tokens=True) if text else ""
        assert translation == alone
    assert found[0] == found[3] != found[4]
    assert translate([]) == []
    monkeypatch.setattr(module, "_BATCH_SIZE", 1)
    assert translate(TEXTS) == found
    assert len(translate(["a" * 200])) == 1


def test_a_folder_of_both_is_an_encoder(marian: Path, tmp_path: Path) -> None:
    encoder = TranslatedEncoder(load_encoder(), MarianTranslator(marian))
    again = load_encoder(encoder.save(tmp_path / "both"))
    assert isinstance(again, TranslatedEncoder)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert not [path for path in (tmp_path / "both").rglob("*") if path.suffix in (".bin", ".pt", ".pkl")]


def test_a_bundle_that_is_built_with_it(marian: Path, tmp_path: Path) -> None:
    TranslatedEncoder(load_encoder(), MarianTranslator(marian)).save(tmp_path / "both")
    (tmp_path / "names.tsv").write_text("concept_id\tname\tlanguage\nA\tfever\ten\nB\tcough of a man\ten\n", "utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", tmp_path / "names.tsv")])
    bundle = build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite", encoder=tmp_path / "both")
    assert isinstance(bundle.encoder, TranslatedEncoder)
    assert Linker(bundle).link(["fever"])[0].candidates[0].concept_id == "A"


def test_folders_that_hold_no_model(marian: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no Marian model could be loaded: .* Remedy: name a folder with config"):
        MarianTranslator(tmp_path)
    shutil.copytree(marian, tmp_path / "pickled")
    model = tmp_path / "pickled" / "model.safetensors"
    torch.save({}, tmp_path / "pickled" / "pytorch_model.bin")
    model.unlink()
    with pytest.raises(EncoderError, match="no Marian model could be loaded"):
        MarianTranslator(tmp_path / "pickled")
