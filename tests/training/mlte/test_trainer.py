"""MlteTrainer and MlteRegressor: from pairs to a folder and back, killed and resumed, and what they refuse."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save
from torch.nn import functional

from medlink.errors import ConfigError, EncoderError
from medlink.models import MarianTranslator, TranslatedEncoder, load_encoder
from medlink.training import MlteRegressor, MlteTrainer
from medlink.training.data.rated_pairs import RatedPair
from medlink.training.mlte.regressor import pair_features, unwrap_encoder
from medlink.training.mlte.trainer import FineTuneLoss, fit_heads
from medlink.training.recipes import MlteRecipe
from tests.models.small_marian import small_marian
from tests.training.small_bert import Killed, kill_at, small_bert

ONES, OTHERS = [f"{chr(97 + i)} stone" for i in range(20)], [f"{chr(97 + i // 2)} stone" for i in range(20)]
PAIRS = [
    RatedPair(one, other, float(i % 5), ("", ""), i, ("ab"[i % 2], str(i)))
    for i, (one, other) in enumerate(zip(ONES, OTHERS, strict=True))
]
LABELLED = [replace(pair, rating=float(pair.rating > 1)) for pair in PAIRS]
FROZEN = MlteRecipe(head_epochs=3, hidden=4, seed=2)
TUNED = FROZEN.replace(fine_tune=True, epochs=2, batch_size=8, learning_rate=1e-2)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("bert"), layers=2)


@pytest.fixture(scope="module")
def frozen_one(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("frozen") / "out"
    MlteTrainer(PAIRS, start, FROZEN, dev=PAIRS[:9], extras=["kind", "age"]).train(out)
    return out


def scores(regressor: MlteRegressor, *, extra: bool = False) -> list[float]:
    return regressor.score(ONES, OTHERS, [pair.extra for pair in PAIRS] if extra else ()).tolist()


@pytest.mark.slow
def test_a_frozen_regressor_is_the_best_head_on_the_features(start: Path, frozen_one: Path) -> None:
    regressor = MlteRegressor.load(frozen_one)
    assert sorted(p.name for p in frozen_one.iterdir()) == ["encoder", "mlte.json", "mlte.safetensors"]
    assert regressor.encoder.fingerprint == load_encoder(start).fingerprint
    features = pair_features(unwrap_encoder(load_encoder(start))[1], ONES, OTHERS)
    number, gold = np.arange(20.0), np.array([pair.rating for pair in PAIRS])
    extra = np.column_stack([number % 2 == 0, number % 2 == 1, (number - 9.5) / number.std()])
    heads = fit_heads(features, extra, gold, FROZEN)
    measured = [np.corrcoef(head(features[:9], extra[:9]), gold[:9])[0, 1] for head in heads]
    np.testing.assert_allclose(regressor.record["figures"]["dev by beta"], measured, atol=1e-6)
    best = int(np.argmax(measured))
    assert regressor.record["figures"]["beta"] == FROZEN.beta[best]
    np.testing.assert_allclose(scores(regressor, extra=True), heads[best](features, extra), atol=1e-9)
    assert regressor.score([], []).shape == (0,)


@pytest.mark.slow
def test_round_trip_and_reproducibility(start: Path, frozen_one: Path, tmp_path: Path) -> None:
    regressor = MlteRegressor.load(frozen_one)
    regressor.save(tmp_path / "copy")
    again = MlteRegressor.load(tmp_path / "copy")
    assert (again.extras, again.record, again.kind) == (regressor.extras, regressor.record, "regressor")
    assert scores(again, extra=True) == scores(regressor, extra=True)
    MlteTrainer(PAIRS, start, FROZEN, dev=PAIRS[:9], extras=["kind", "age"]).train(tmp_path / "again")
    for name in ("mlte.json", "mlte.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (frozen_one / name).read_bytes()


def test_a_classifier_gives_probabilities(start: Path, tmp_path: Path) -> None:
    recipe = FROZEN.replace(kind="classifier", head_epochs=20)
    found = np.array(scores(MlteTrainer(LABELLED, start, recipe, dev=LABELLED).train(tmp_path / "out")))
    gold = np.array([pair.rating for pair in LABELLED])
    assert found.min() >= 0
    assert found.max() <= 1
    assert found[gold == 1].mean() > found[gold == 0].mean()


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(start: Path, tmp_path: Path) -> None:
    trainer = MlteTrainer(PAIRS, start, TUNED, dev=PAIRS[:9])
    lines: list[str] = []
    alone = trainer.train(tmp_path / "alone", progress=lines.append)
    assert sum("measure" in line for line in lines) == 2 + 7  # two epochs, seven betas
    assert alone.encoder.fingerprint != load_encoder(start).fingerprint
    for when in ("step 4/", "reading 20 pairs"):
        with pytest.raises(Killed):
            trainer.train(tmp_path / "out", progress=kill_at(when), checkpoint_steps=2, resume=when[0] == "r")
        assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="the unfinished run has other data"):
        MlteTrainer(PAIRS, start, TUNED, dev=PAIRS[:8]).train(tmp_path / "out", resume=True)
    resumed = trainer.train(tmp_path / "out", resume=True)
    assert resumed.encoder.fingerprint == alone.encoder.fingerprint
    assert scores(resumed) == scores(alone)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "out"]


def test_the_losses_of_the_fine_tuning_by_hand() -> None:
    embeddings = [torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.6, 0.8], [1.0, 0.0]])]
    labels = torch.tensor([1.0, 0.0])
    # (0.6 - 1)^2 and 0
    assert FineTuneLoss("regressor", 0.0).compute_loss_from_embeddings(embeddings, labels).item() == pytest.approx(0.08)
    # the first text against both second ones, 0.6 and 1, over 0.05
    found = FineTuneLoss("classifier", 0.0).compute_loss_from_embeddings(embeddings, labels)
    assert found.item() == pytest.approx(functional.softplus(torch.tensor(0.4 / 0.05)).item(), rel=1e-5)
    none = FineTuneLoss("classifier", 0.0).compute_loss_from_embeddings(embeddings, torch.zeros(2))
    assert none.item() == 0
    torch.manual_seed(1)
    wide = [torch.ones(2, 400), torch.ones(2, 400)]
    dropped = FineTuneLoss("regressor", 0.5).compute_loss_from_embeddings(wide, torch.ones(2))
    assert 0.1 < dropped.item() < 0.5  # cosine of two halves: about a half


@pytest.mark.slow
def test_translate_then_read(start: Path, tmp_path: Path) -> None:
    translate = MarianTranslator(small_marian(tmp_path / "marian"))
    TranslatedEncoder(load_encoder(start), translate).save(tmp_path / "both")
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("abcdefghijklmno"), rng.integers(2, 10))) for _ in range(40)]
    pairs = [replace(p, text_1=one, text_2=two) for p, one, two in zip(PAIRS, words[:20], words[20:], strict=True)]
    found = MlteTrainer(pairs, tmp_path / "both", FROZEN, dev=pairs).train(tmp_path / "found")
    assert isinstance(found.encoder, TranslatedEncoder)
    written = translate(words)
    texts = zip(PAIRS, written[:20], written[20:], strict=True)
    translated = [replace(pair, text_1=one, text_2=two) for pair, one, two in texts]
    expected = MlteTrainer(translated, start, FROZEN, dev=translated).train(tmp_path / "expected")
    scores_found = found.score(words[:20], words[20:])
    np.testing.assert_array_equal(scores_found, expected.score(written[:20], written[20:]))
    assert (scores_found != expected.score(words[:20], words[20:])).any()
    assert found.record["data"] != expected.record["data"]


@pytest.mark.parametrize(
    ("pairs", "changes", "dev", "message"),
    [
        ([], {}, PAIRS, r"no training pairs\. Remedy: give two or more"),
        (PAIRS, {}, [], "no development pairs"),
        ([replace(PAIRS[0], rating=float("nan")), PAIRS[1]], {}, PAIRS, "ratings of the training pairs are NaN or inf"),
        (PAIRS[:1], {}, PAIRS, "the ratings of the training pairs do not differ"),
        (PAIRS, {}, PAIRS[::5], "the ratings of the development pairs do not differ"),
        (PAIRS, {"kind": "classifier"}, PAIRS, "needs labels 0 and 1, and the training pairs have others"),
        (PAIRS, {}, None, r"7 betas and no pairs to choose by\. Remedy: name rated pairs as dev, or one beta"),
    ],
)
def test_useless_pairs(
    pairs: list[RatedPair], changes: dict[str, object], dev: list[RatedPair] | None, message: str, start: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        MlteTrainer(pairs, start, MlteRecipe(**changes), dev=dev)


def test_starts_that_cannot_be_read(start: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="a static encoder has none"):
        MlteTrainer(PAIRS, "builtin", FROZEN, dev=PAIRS).train(tmp_path / "out")
    huge = [replace(pair, rating=pair.rating * 1e200) for pair in PAIRS]
    with pytest.raises(EncoderError, match="the loss is inf in epoch 1 of the head"):
        MlteTrainer(huge, start, FROZEN, dev=PAIRS).train(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_damaged_folders(frozen_one: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"is not a regressor: no mlte\.json in it"):
        MlteRegressor.load(tmp_path)

    def damaged(name: str, text: str | bytes) -> Path:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.copytree(frozen_one, tmp_path / "out")
        (tmp_path / "out" / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return tmp_path / "out"

    config = (frozen_one / "mlte.json").read_text("utf-8")
    weights = load_file(frozen_one / "mlte.safetensors")
    weights["deviation"] = np.full_like(weights["deviation"], np.nan)
    for name, text, message in (
        ("mlte.safetensors", save(weights), "weights that are NaN or infinite"),
        ("mlte.json", "{", "cannot be read"),
        ("mlte.json", "{}", "cannot be read"),
        ("mlte.safetensors", b"\0" * 40, "cannot be read"),
        ("mlte.json", config.replace('"extras": [', '"extras": [], "others": ['), "cannot be read"),
        ("mlte.json", config.replace('"encoder": "', '"encoder": "0'), "the encoder in it is not the one"),
    ):
        with pytest.raises(EncoderError, match=message):
            MlteRegressor.load(damaged(name, text))
    with pytest.raises(ConfigError, match="0 rows of extra features, 20 of kind, age expected"):
        scores(MlteRegressor.load(frozen_one))
