"""Grounding and the map from names to a folder: what they learn, resuming, a killed process, an index, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import medlink
from medlink.errors import ConfigError
from medlink.index import Bundle, build_bundle
from medlink.models import Encoder, load_encoder
from medlink.training import ConceptualGroundingTrainer
from medlink.training.grounding.synonyms import SynonymSets, retrieve_synonyms
from medlink.training.grounding.trainer import fit_map
from medlink.training.recipes import GroundingRecipe
from tests.training.small_bert import Killed, kill_at
from tests.training.trained import fingerprint, missing

WORDS = ("kidney", "renal", "nephros", "Niere")
SETS = {f"C{i}": tuple(sorted(f"{word} {chr(97 + i)}{chr(105 + i)}" for word in WORDS)) for i in range(8)}
TEXTS = [text for names in SETS.values() for text in names]
OWNER = np.repeat(np.arange(8), 4)
RECIPE = GroundingRecipe(
    hidden=32, batch_size=8, neighbours=6, epochs=3, patience=0, validation=0.5, seed=3, learning_rate=3e-3
)


@pytest.fixture(scope="module")
def uninterrupted(static_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The output folder, and the log."""
    lines: list[str] = []
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    ConceptualGroundingTrainer(SETS, static_encoder, RECIPE).train(out, progress=lines.append)
    return out, lines


def train_map(sets: SynonymSets, start: Path, out: Path) -> Encoder:
    """The map alone."""
    return ConceptualGroundingTrainer(sets, start, GroundingRecipe.map_only()).train(out)


def mean_average_precision(folder: Path) -> float:
    """mAP of each name among the others."""
    vectors = load_encoder(folder).encode(TEXTS)
    others = [np.flatnonzero((concept == OWNER) & (np.arange(32) != row)) for row, concept in enumerate(OWNER)]
    return float(retrieve_synonyms(vectors, vectors, others, np.arange(32))[0].mean())


def test_the_map_is_the_closed_form_above_the_encoder(static_encoder: Path, tmp_path: Path) -> None:
    made = train_map(SETS, static_encoder, tmp_path / "out")
    vectors = load_encoder(static_encoder).encode(TEXTS)
    fitted = fit_map(vectors, OWNER)
    expected = (vectors - fitted.mean) @ fitted.names
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(made.encode(TEXTS), expected, atol=1e-4)
    facts = ("names: 32", "concepts: 8", "medlink train map")
    assert not missing(tmp_path / "out", *facts, fingerprint(static_encoder), made.fingerprint)
    assert mean_average_precision(tmp_path / "out") > mean_average_precision(static_encoder) + 0.05


@pytest.mark.slow
def test_a_map_above_a_transformer_needs_no_module_of_ours(bert: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    made = train_map(SETS, bert, tmp_path / "out")
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(made.encode(TEXTS), theirs, atol=1e-5)
    assert made.fingerprint != fingerprint(bert)


@pytest.mark.slow
def test_the_network_learns_and_its_folder_is_an_encoder(static_encoder: Path, tmp_path: Path) -> None:
    recipe = RECIPE.replace(epochs=12, validation=0.0, hidden=256, cca=False, learning_rate=5e-3)
    made = ConceptualGroundingTrainer(SETS, static_encoder, recipe).train(tmp_path / "out")
    assert mean_average_precision(tmp_path / "out") > mean_average_precision(static_encoder) + 0.5
    assert made.dimension == 16
    assert np.linalg.norm(made.encode(TEXTS), axis=1) == pytest.approx(1, abs=1e-5)
    assert fingerprint(made.save(tmp_path / "again")) == made.fingerprint


@pytest.mark.slow
def test_a_bundle_with_a_grounded_encoder(uninterrupted: tuple[Path, list[str]], tmp_path: Path) -> None:
    table = tmp_path / "names.tsv"
    rows = "".join(f"{concept}\t{text}\ten\n" for concept, names in SETS.items() for text in names)
    table.write_text(f"concept_id\tname\tlanguage\n{rows}", encoding="utf-8")
    medlink.build_kb(tmp_path / "kb.sqlite", [medlink.Input("table", table)])
    build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite", encoder=str(uninterrupted[0]))
    bundle = Bundle(tmp_path / "bundle")
    assert bundle.encoder.fingerprint == fingerprint(uninterrupted[0])
    (link,) = medlink.load(tmp_path / "bundle").link([medlink.Mention("renal ai", "en")])
    assert link.concept_id == "C0"


@pytest.mark.slow
def test_training_stops_where_validation_is_no_better(static_encoder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    recipe = RECIPE.replace(epochs=60, patience=1, learning_rate=1e-2)
    ConceptualGroundingTrainer(SETS, static_encoder, recipe).train(tmp_path / "out", progress=lines.append)
    measures = [line for line in lines if "measure" in line]
    assert len(measures) < 60
    assert [line.endswith("(best)") for line in measures] == [True] * (len(measures) - 1) + [False]


@pytest.mark.slow
@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.faults), 11])
def test_a_killed_run_resumes_to_the_same_weights(
    step: int, static_encoder: Path, uninterrupted: tuple[Path, list[str]], tmp_path: Path
) -> None:
    trainer = ConceptualGroundingTrainer(SETS, static_encoder, RECIPE)
    with pytest.raises(Killed):
        trainer.train(tmp_path / "out", checkpoint_steps=2, progress=kill_at(f"step {step}/"))
    assert not (tmp_path / "out").exists()
    wider = ConceptualGroundingTrainer(SETS, static_encoder, RECIPE.replace(hidden=33))
    with pytest.raises(ConfigError, match=r"the unfinished run has hidden 32 \(now 33\)"):
        wider.train(tmp_path / "out", resume=True)
    assert trainer.train(tmp_path / "out", resume=True).fingerprint == fingerprint(uninterrupted[0])


def test_refusals(static_encoder: Path, tmp_path: Path) -> None:
    for name in ("mini_batch", "max_tokens"):
        with pytest.raises(ConfigError, match=f"{name} "):
            RECIPE.replace(**{name: 4})
    with pytest.raises(ConfigError, match=r"without cca and with a hidden layer of width 0 nothing is left to train"):
        GroundingRecipe(hidden=0, cca=False)
    with pytest.raises(ConfigError, match="grounding has a development measure of its own"):
        ConceptualGroundingTrainer(SETS, static_encoder, RECIPE).train(tmp_path / "out", evaluate=lambda model: 0.0)
    assert not (tmp_path / "out").exists()
