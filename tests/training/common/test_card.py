"""The card of a phase: what it says of the embeddings is so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from medlink.models import load_encoder
from medlink.training.biolord.sts import CARD
from medlink.training.common.card import write_card
from medlink.training.common.fit import Figures
from medlink.training.common.run import training_run
from medlink.training.recipes import RunOptions, StsRecipe
from tests.training.small_bert import small_bert

TEXTS = ["fever", "cough", "a rash of the skin"]


@pytest.mark.parametrize("normalised", [False, True])
def test_the_length_of_the_embeddings(normalised: bool, tmp_path: Path) -> None:
    model = SentenceTransformer(str(small_bert(tmp_path)))
    if normalised:
        model = SentenceTransformer(modules=[*model, Normalize()])
    out = tmp_path / "out"
    with training_run(out, StsRecipe(), RunOptions()) as run:
        run.write(model, **CARD, start="abc", data={}, recipe=StsRecipe(), figures=Figures(1, 2.0).facts())
    card = (out / "README.md").read_text("utf-8")
    # what medlink gives has length 1 in both cases
    assert np.linalg.norm(load_encoder(out).encode(TEXTS), axis=1) == pytest.approx(1, abs=1e-6)
    opened = SentenceTransformer(str(out))
    lengths = np.linalg.norm(opened.encode(TEXTS), axis=1)
    if normalised:
        assert lengths == pytest.approx(1, abs=1e-6)
        assert "Embeds names of concepts and sentences in 16 dimensions, as unit vectors. Fingerprint" in card
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
    encoder = load_encoder()
    encoder.save(tmp_path)
    write_card(
        tmp_path,
        encoder,
        title="Mean of two encoders",
        summary="their mean",
        command="medlink train average",
        data={"rows": 12345},
        figures={"steps": 7, "measure": None},
    )
    card = (tmp_path / "README.md").read_text("utf-8")
    assert card.startswith("# Mean of two encoders\n")
    assert "- rows: 12,345" in card
    assert "- steps: 7" in card
    assert "measure" not in card
    assert f"as unit vectors. Fingerprint `{encoder.fingerprint}`.\n\nLicence" in card
    assert "`medlink train average`: their mean.\n\n## Figures" in card
