"""``load_encoder`` on a real, if tiny, transformer, and on names that lead nowhere."""

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


def test_names_that_lead_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("./missing", str(tmp_path / "missing"), "a/b/c"):
        with pytest.raises(EncoderError, match="no such encoder folder"):
            load_encoder(name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EncoderError, match="no sentence-transformers model"):
        load_encoder(tmp_path / "empty")


def test_what_decides_the_embeddings_is_in_the_fingerprint(tiny: Path, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertTokenizerFast

    def changed(change: Callable[[SentenceTransformer], object]) -> str:
        encoder = TransformerEncoder(tiny, device="cpu")
        change(encoder.model)
        return encoder.fingerprint

    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]), "utf-8")

    def other_pooling(model: SentenceTransformer) -> None:
        model[1] = Pooling(16, pooling_mode="max")

    def other_words(model: SentenceTransformer) -> None:
        model[0].processor = BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"))

    def shorter(model: SentenceTransformer) -> None:
        model.max_seq_length = 7

    def used(model: SentenceTransformer) -> None:
        model.encode(["kidney"])

    own = changed(lambda _: None)
    assert changed(used) == own
    others = {changed(change) for change in (other_pooling, other_words, shorter)}
    assert len(others) == 3
    assert own not in others
