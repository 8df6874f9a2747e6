"""The model card: what it states about the embeddings is true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from medlink.models import load_encoder
from medlink.training.biolord.sts import CARD
from medlink.training.common.card import write_card
from medlink.training.common.run import training_run
from medlink.training.recipes import RunOptions, StsRecipe

TEXTS = ["fever", "cough", "a rash of the skin"]


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [False, True])
def test_the_length_of_the_embeddings(normalised: bool, bert: Path, tmp_path: Path) -> None:
    model, out = SentenceTransformer(str(bert)), tmp_path / "out"
    if normalised:
        model = SentenceTransformer(modules=[*model, Normalize()])
    with training_run(out, StsRecipe(), RunOptions()) as run:
        run.write(model, **CARD, start="abc", data={}, recipe=StsRecipe(), figures={"steps": 1})
    card = (out / "README.md").read_text("utf-8")
    # medlink normalises in both cases
    assert np.linalg.norm(load_encoder(out).encode(TEXTS), axis=1) == pytest.approx(1, abs=1e-6)
    opened = SentenceTransformer(str(out))
    lengths = np.linalg.norm(opened.encode(TEXTS), axis=1)
    assert (lengths == pytest.approx(1, abs=1e-6)) == normalised
    assert ("in 16 dimensions, as unit vectors. Fingerprint" in card) == normalised
    assert ("`normalize_embeddings=True`" in card) != normalised
    assert np.linalg.norm(opened.encode(TEXTS, normalize_embeddings=True), axis=1) == pytest.approx(1, abs=1e-6)


def test_facts_without_a_value_are_left_out(static_encoder: Path, tmp_path: Path) -> None:
    encoder = load_encoder(static_encoder)
    encoder.save(tmp_path)
    facts = {"data": {"rows": 12345}, "figures": {"steps": 7, "measure": None}}
    write_card(tmp_path, encoder, title="Mean", summary="their mean", command="medlink train average", **facts)
    card = (tmp_path / "README.md").read_text("utf-8")
    assert card.startswith("# Mean\n")
    assert f"as unit vectors. Fingerprint `{encoder.fingerprint}`.\n\nLicence" in card
    assert "`medlink train average`: their mean.\n\n## Figures\n\n- steps: 7\n" in card
    assert "- rows: 12,345\n" in card
    assert "measure" not in card
