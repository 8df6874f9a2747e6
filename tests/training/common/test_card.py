"""The card of a phase: what it says of the embeddings is so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from medlink.models import load_encoder
from medlink.training.common.card import write_card
from medlink.training.common.loop import Figures
from medlink.training.common.recipes import StsRecipe
from medlink.training.common.transformer import save_encoder
from tests.training.small_bert import small_bert

TEXTS = ["fever", "cough", "a rash of the skin"]


@pytest.mark.parametrize("normalised", [False, True])
def test_the_length_of_the_embeddings(normalised: bool, tmp_path: Path) -> None:
    model = SentenceTransformer(str(small_bert(tmp_path)))
    if normalised:
        model = SentenceTransformer(modules=[*model, Normalize()])
    out = tmp_path / "out"
    save_encoder(model, out, "sts", start="abc", data={}, recipe=StsRecipe().to_dict(), figures=Figures(1, 2.0))
    card = (out / "README.md").read_text("utf-8")
    # what medlink gives has length 1 in both cases
    assert np.linalg.norm(load_encoder(out).encode(TEXTS), axis=1) == pytest.approx(1, abs=1e-6)
    opened = SentenceTransformer(str(out))
    lengths = np.linalg.norm(opened.encode(TEXTS), axis=1)
    if normalised:
        assert lengths == pytest.approx(1, abs=1e-6)
        assert "Embeds names and sentences in 16 dimensions, as unit vectors. Fingerprint" in card
        assert "normalize_embeddings" not in card
    else:
        assert np.abs(lengths - 1).min() > 0.1
        assert np.linalg.norm(opened.encode(TEXTS, normalize_embeddings=True), axis=1) == pytest.approx(1, abs=1e-6)
        for fact in (
            "in 16 dimensions, as unit vectors where `medlink.load_encoder` opens it",
            "`SentenceTransformer.encode` gives other lengths unless it is called with `normalize_embeddings=True`.",
        ):
            assert fact in card


def test_facts_without_a_value_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Normalize"}]', encoding="utf-8")
    write_card(
        tmp_path,
        command="sts",
        dimension=4,
        fingerprint="f",
        start="s",
        data={"rows": 12345},
        recipe={"seed": 3},
        figures={"steps": 7, "measure": None},
    )
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "- rows: 12,345" in card
    assert "- steps: 7" in card
    assert "measure" not in card
    assert "as unit vectors. Fingerprint `f`" in card
