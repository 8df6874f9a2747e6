"""``load_encoder`` on a real but tiny transformer, and on unknown names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from medlink.errors import EncoderError
from medlink.models import load_encoder
from medlink.models.transformer import TransformerEncoder
from tests.training.small_bert import small_bert

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights, saved as a sentence-transformers folder."""
    return small_bert(tmp_path_factory.mktemp("tiny"))


def test_a_transformer_folder(tiny: Path, tmp_path: Path) -> None:
    encoder = load_encoder(tiny, device="cpu")
    vectors = encoder.encode(["kidney", "liver", "kidney"])
    assert vectors.shape == (3, encoder.dimension) == (3, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert encoder.encode([]).shape == (0, 16)
    encoder.save(tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("*.bin"))
    copy = load_encoder(tmp_path / "copy")
    assert copy.fingerprint == encoder.fingerprint
    np.testing.assert_allclose(copy.encode(["liver"]), vectors[1:2], atol=1e-6)


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


@pytest.mark.usefixtures("_no_network")
def test_unknown_names() -> None:
    remedy = "name 'builtin', the folder of an encoder, or {} for a model of the Hugging Face hub"
    for name in ("./missing", "/nowhere/missing", "a/b/c", "missing", "", "~/missing", "Builtin", "someone/model"):
        hub = f"hf:{name}" if name == "someone/model" else "hf:ORG/NAME"
        with pytest.raises(EncoderError, match=rf"no such encoder folder\. Remedy: {remedy.format(hub)}\.$"):
            load_encoder(name)
    for name in ("hf:", "hf:../model", "hf:/etc", "hf:model", "hf:a b/c"):
        with pytest.raises(EncoderError, match=r"not a name of a model of the hub\. Remedy: write hf:ORG/NAME"):
            load_encoder(name)


@pytest.mark.usefixtures("_no_network")
def test_not_an_encoder(tmp_path: Path) -> None:
    message = r": not a model folder: neither config\.json nor modules\.json is there\. Remedy: name a model folder\.$"
    with pytest.raises(EncoderError, match=message):
        load_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match=r": no sentence-transformers model .* Remedy: name a model folder\.$"):
        load_encoder(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(EncoderError, match="no such encoder folder"):
        load_encoder(tmp_path / "file")


@pytest.mark.parametrize("reached", [True, False])
def test_hub_without_an_answer(reached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def info(name: str, timeout: float) -> None:
        assert (name, timeout) == ("someone/model", 10)
        if not reached:
            raise OSError("no\n  connection")

    def load(name: str, **options: object) -> None:
        loaded.append((name, options["local_files_only"]))
        raise OSError("nothing\n  there")

    monkeypatch.setattr("huggingface_hub.model_info", info)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", load)
    message = "nothing there" if reached else "the hub says: no connection"
    with pytest.raises(EncoderError, match=rf"^hf:someone/model: no .* be loaded: {message}\. Remedy: check its name"):
        load_encoder("hf:someone/model")
    # what was fetched before is found without the hub
    assert loaded == [("someone/model", not reached)]


def test_fingerprint_covers_what_determines_the_embeddings(tiny: Path, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertTokenizerFast

    def changed(change: Callable[[SentenceTransformer], object]) -> str:
        encoder = TransformerEncoder(tiny, device="cpu")
        change(encoder.model)
        return encoder.fingerprint

    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]), "utf-8")

    words = BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"))
    own = changed(lambda _: None)
    assert changed(lambda model: model.encode(["kidney"])) == own
    others = {
        changed(lambda model: model.__setitem__(1, Pooling(16, pooling_mode="max"))),
        changed(lambda model: setattr(model[0], "processor", words)),
        changed(lambda model: setattr(model, "max_seq_length", 7)),
    }
    assert len(others - {own}) == 3


@pytest.fixture
def bare(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same BERT as its authors would publish it: no ``modules.json``."""
    monkeypatch.setattr("medlink.models.transformer._warned", set())
    return tiny.parent / "bert"


def test_bare_checkpoint_gets_the_given_pooling(
    bare: Path, tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from sentence_transformers.sentence_transformer.modules import Transformer

    texts = ["kidney", "liver stone"]
    first, mean = (load_encoder(f"{pooling}:{bare}", device="cpu") for pooling in ("cls", "mean"))
    module = Transformer(str(bare)).eval()
    states = module(module.preprocess(texts))["token_embeddings"].detach().numpy()
    np.testing.assert_allclose(
        first.encode(texts), states[:, 0] / np.linalg.norm(states[:, 0], axis=1)[:, None], atol=1e-5
    )
    np.testing.assert_allclose(mean.encode(texts), load_encoder(tiny).encode(texts), atol=1e-6)
    assert first.fingerprint != mean.fingerprint == load_encoder(tiny).fingerprint
    # a saved model has its pooling
    first.save(tmp_path / "copy")
    assert load_encoder(tmp_path / "copy").fingerprint == first.fingerprint
    assert load_encoder(f"cls:{tmp_path / 'copy'}").fingerprint == first.fingerprint
    assert not caplog.records


def test_missing_pooling_is_logged_once(bare: Path, caplog: pytest.LogCaptureFixture) -> None:
    silent, again = load_encoder(bare, device="cpu"), load_encoder(bare, device="cpu")
    assert silent.fingerprint == again.fingerprint == load_encoder(f"mean:{bare}", device="cpu").fingerprint
    (record,) = caplog.records
    message = f"{bare} does not say how the vectors of its tokens become one: their mean is taken. Remedy: name it cls:"
    assert record.getMessage().startswith(f'{message}{bare}, or give pooling="cls"')


def test_pooling_that_differs_from_the_models_own(tiny: Path) -> None:
    message = r"the pooling of this model is mean, not cls\. Remedy: leave pooling out, or name a checkpoint"
    with pytest.raises(EncoderError, match=message):
        load_encoder(f"cls:{tiny}")
    with pytest.raises(EncoderError, match=r"a static encoder has no pooling to choose\. Remedy: leave pooling out"):
        load_encoder("cls:builtin")
    with pytest.raises(EncoderError, match=r"cls:missing: no such encoder folder"):
        load_encoder("cls:missing")
    assert load_encoder(f"mean:{tiny}").fingerprint == load_encoder(tiny).fingerprint
