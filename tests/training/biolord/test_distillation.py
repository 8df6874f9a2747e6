"""Self-distillation: texts, targets, axes and loss by hand and by oracle; then from concepts to a folder of runs."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.records import Definition, Name
from medlink.training import BioLordTrainer
from medlink.training.biolord.distillation import concept_entries, with_head
from medlink.training.common.run import new_folder
from medlink.training.common.targets import TargetLoss, principal_components, ridge, sum_embeddings
from medlink.training.data.text_store import ConceptTexts, Entry, TargetBatches, TextStore, concept_texts, read_targets
from medlink.training.recipes import HEAD, DistillationRecipe
from tests.training.small_bert import Killed, small_bert

CONCEPTS = [
    ConceptTexts(f"C{i}", (f"{a}{a} stone", f"{a} calculus"), (f"a hard thing in {a}",) if i % 2 else ())
    for i, a in enumerate("abcdefgh")
]
RECIPE = DistillationRecipe(
    dimension=3, runs=2, epochs=4, batch_size=5, learning_rate=1e-2, warmup=0.1, seed=3, head_rate=2e-2
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("base"), seed=1)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("teacher"), seed=2, width=12)


@pytest.fixture(scope="module")
def whole(base: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs left alone."""
    return distil(base, teacher, tmp_path_factory.mktemp("whole") / "out")


def distil(base: Path, teacher: Path, out: Path, recipe: DistillationRecipe = RECIPE, **options: Any) -> list[Path]:
    concepts = options.pop("concepts", CONCEPTS)
    BioLordTrainer(lambda: concepts, base, recipe, teacher=teacher).train(out, **options)
    return sorted(out.glob("run-*"))


def prints(folders: Sequence[Path]) -> list[str]:
    return [load_encoder(folder).fingerprint for folder in folders]


# texts


def test_names_and_definitions_are_joined_by_concept() -> None:
    names = [Name("A", "x", "en"), Name("A", "x", "de"), Name("A", " "), Name("B", "y"), Name("D", "")]
    found = list(concept_texts(names, [Definition("B", "of y"), Definition("C", "of z")], [Definition("A", "x")]))
    assert found == [ConceptTexts("A", ("x",)), ConceptTexts("B", ("y",), ("of y",)), ConceptTexts("C", (), ("of z",))]


def test_shares_by_hand() -> None:
    concepts = [ConceptTexts("A", ("a", "b", "c", "d"), ("e", "f")), ConceptTexts("B", (), ("g",))]
    entries = list(concept_entries(iter(concepts)))
    assert [(e.text, e.row, e.share) for e in entries] == [
        *((text, 0, 0.125) for text in "abcd"),
        *((text, 0, 0.25) for text in "ef"),
        ("g", 1, 1.0),
    ]
    assert {e.weight for e in entries} == {1.0}


@pytest.mark.parametrize(
    ("concepts", "message"),
    [
        ([ConceptTexts("A", ("a",))], "no concept has a definition. Remedy: add a table"),
        ([ConceptTexts("A", (), ("a",))], "no concept has a name. Remedy"),
        ([], "no concept has a name"),
    ],
)
def test_a_terminology_without_names_or_definitions(concepts: list[ConceptTexts], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(concept_entries(iter(concepts)))


# the file of texts


def test_a_store_gives_back_what_was_put_in(tmp_path: Path) -> None:
    entries = [Entry("zwei\n", 1, 0.5, 0.25), Entry("one", 0), Entry("ä", 1, 0.5)]
    store = TextStore.build(tmp_path / "deep" / "texts", entries)
    assert (len(store), store.rows) == (3, 2)
    ((texts, rows, weights),) = store.batches(np.array([2, 0]), 5)
    assert (texts, rows.tolist(), weights.tolist()) == (["ä", "zwei\n"], [1, 1], [1.0, 0.25])
    assert [path.name for path in store.path.parent.iterdir()] == ["texts"]
    assert TextStore(store.path).digest == store.digest
    for changed in (entries[0]._replace(share=0.4), entries[0]._replace(text="zwo"), entries[0]._replace(row=0)):
        other = TextStore.build(tmp_path / "other", [changed, *entries[1:]])
        assert other.digest != store.digest
    # another machine finds a cosine that differs in its last digits
    nearly = TextStore.build(tmp_path / "other", [entries[0]._replace(weight=0.2500001), *entries[1:]])
    assert nearly.digest == store.digest


def test_each_text_is_taught_once_shortest_first(tmp_path: Path) -> None:
    entries = [Entry("ccc", 0, 0.5), Entry("a", 0, 0.5), Entry("ccc", 1), Entry("bb", 1, 0.0)]
    store = TextStore.build(tmp_path / "texts", entries)
    for size in (1, 5):
        found = [
            (texts[i], row, share)
            for texts, *additions in store.taught(size)
            for i, row, share in zip(*(a.tolist() for a in additions), strict=True)
        ]
        assert found == [("a", 0, 0.5), ("ccc", 0, 0.5), ("ccc", 1, 1.0)]
        assert [texts for texts, *_ in store.taught(size)] == ([["a"], ["ccc"]] if size == 1 else [["a", "ccc"]])


def test_no_text_and_a_broken_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no texts to learn from"):
        TextStore.build(tmp_path / "texts", [])
    assert not list(tmp_path.iterdir())
    with pytest.raises(EncoderError, match=r"none: the texts cannot be read: .*No such file"):
        TextStore(tmp_path / "none")
    store = TextStore.build(tmp_path / "texts", [Entry("a", 0)])
    (store.path / "entries.arrow").write_text("no table, whatever its name may say of it")
    with pytest.raises(EncoderError, match=r"texts: the texts cannot be read: .*Remedy: delete it"):
        TextStore(store.path)


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ConfigError, match=r"the texts cannot be written: No space.*has room"):
        TextStore.build(tmp_path / "texts", [Entry("a", 0)])
    monkeypatch.undo()
    store = TextStore.build(tmp_path / "texts", [Entry("a", 0)])
    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(EncoderError, match=r"targets: the targets cannot be written: No space.*Remedy: make room"),
        new_folder(tmp_path / "targets", "the targets") as draft,
    ):
        sum_embeddings(store, letters, 4, draft / "a.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


# the targets


def letters(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """An embedding that can be worked out by hand: how often a, b, c and d occur."""
    return np.array([[text.count(letter) for letter in "abcd"] for text in texts], dtype=np.float32)


def test_targets_are_means_and_each_text_is_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), 4)) for _ in range(30)]

    def draw() -> tuple[str, ...]:
        return tuple(dict.fromkeys(rng.choice(words, int(rng.integers(1, 4))).tolist()))

    concepts = [ConceptTexts(str(i), draw(), draw() if i % 3 else ()) for i in range(40)]
    monkeypatch.setattr("medlink.training.common.targets._ENCODED", 7)
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        asked.extend(texts)
        return letters(texts)

    store = TextStore.build(tmp_path / "texts", concept_entries(iter(concepts)))
    found = sum_embeddings(store, encode, 4, tmp_path / "a.npy")
    expected = [
        np.mean([letters(part).mean(axis=0) for part in (c.names, c.definitions) if part], axis=0) for c in concepts
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(asked) == len(set(asked))
    assert set(asked) == {text for c in concepts for text in (*c.names, *c.definitions)}


# the axes


def test_axes_by_hand() -> None:
    rows = np.array([[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0], [0.8, -0.6], [-0.8, 0.6]])
    found = principal_components(rows, 2)
    np.testing.assert_allclose(found.axes, [[0.6, 0.8], [0.8, -0.6]], atol=1e-12)
    np.testing.assert_allclose(found(rows[:1]), [[5, 0]], atol=1e-6)
    assert principal_components(rows, 1).kept == pytest.approx(50 / 52)


@pytest.mark.parametrize("centre", [True, False])
def test_axes_are_those_of_scikit_learn(centre: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.decomposition import PCA

    monkeypatch.setattr("medlink.training.common.targets._ROWS", 7)
    rng = np.random.default_rng(1)
    rows = (rng.standard_normal((50, 9)) * np.arange(1, 10) + 3).astype(np.float32)
    found = principal_components(rows, 4, centre=centre)
    if centre:
        oracle = PCA(4, svd_solver="full").fit(rows.astype(np.float64))
        np.testing.assert_allclose(np.abs(found.axes), np.abs(oracle.components_), atol=1e-6)
        np.testing.assert_allclose(np.abs(found(rows)), np.abs(oracle.transform(rows)), atol=1e-4)
        assert found.kept == pytest.approx(oracle.explained_variance_ratio_.sum(), abs=1e-6)
    else:
        _, sizes, axes = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
        np.testing.assert_allclose(np.abs(found.axes), np.abs(axes[:4]), atol=1e-6)
        assert found.kept == pytest.approx((sizes[:4] ** 2).sum() / (sizes**2).sum())
        assert not found.mean.any()
    assert (found.axes[np.arange(4), np.abs(found.axes).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize(
    ("shape", "count", "remedy"),
    [
        ((3, 5), 3, "give at most 2 dimensions"),
        ((9, 5), 6, "give at most 5"),
        ((9, 5), 0, "at most 5"),
        ((1, 5), 1, "name a knowledge base of several concepts"),
    ],
)
def test_too_few_rows_or_dimensions(shape: tuple[int, int], count: int, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"{count} dimensions from {shape[0]} targets of {shape[1]}.*{remedy}"):
        principal_components(np.ones(shape), count)


def test_targets_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"none\.npy: the targets cannot be read"):
        read_targets(tmp_path / "none.npy")
    np.save(tmp_path / "flat.npy", np.ones(3, np.float32))
    with pytest.raises(EncoderError, match=r"\(3,\) float32, rows of float32 expected. Remedy: delete"):
        read_targets(tmp_path / "flat.npy")
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(EncoderError, match="the targets cannot be read"):
        read_targets(tmp_path / "pickle.npy")


# a head that is fitted


def test_ridge_by_hand() -> None:
    # the columns of x are at right angles: X'X = diag(4, 16), its mean 10; Y'X = (8, 16)
    x = np.array([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]])
    weights, bias = ridge([(x, x @ [[2.0], [1.0]] + 5)], penalty=0.4)
    np.testing.assert_allclose(weights, [[8 / (4 + 4), 16 / (16 + 4)]])
    np.testing.assert_allclose(bias, [5.0])
    # a mean that is not 0 goes into the bias
    weights, bias = ridge([(x + 3, x @ [[2.0], [1.0]] + 5)], penalty=0.4)
    np.testing.assert_allclose(weights, [[1.0, 0.8]])
    np.testing.assert_allclose(bias, [5 - 3 * 1.8])


@pytest.mark.parametrize("penalty", [1e-6, 0.3])
def test_ridge_is_that_of_scikit_learn(penalty: float) -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(4)
    x = (rng.standard_normal((90, 7)) + 2).astype(np.float32)
    y = (x @ rng.standard_normal((7, 3)) + rng.standard_normal((90, 3)) - 1).astype(np.float32)
    weights, bias = ridge(((x[i : i + 13], y[i : i + 13]) for i in range(0, 90, 13)), penalty)
    x64 = x.astype(np.float64)
    oracle = Ridge(alpha=penalty * ((x64 - x64.mean(axis=0)) ** 2).sum() / 7).fit(x64, y)
    np.testing.assert_allclose(weights, oracle.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(bias, oracle.intercept_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "x", [np.full((7, 2), 0.1), np.array([[0.0, 1.0], [np.nan, 2.0]]), np.array([[np.inf], [1.0]])]
)
def test_inputs_that_no_head_can_be_fitted_on(x: np.ndarray[Any, Any]) -> None:
    with pytest.raises(EncoderError, match=r"do not differ, or are NaN or infinite\. Remedy: name another encoder"):
        ridge([(x, np.ones((len(x), 1)))], penalty=0.1)


# batches and loss


def batches(folder: Path, seed: int = 1, size: int = 4, entries: int = 10) -> TargetBatches:
    store = TextStore.build(folder / "t", [Entry(f"t{i}", i % 3, weight=i / 10) for i in range(entries)])
    np.save(folder / "v.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    return TargetBatches(store, folder / "v.npy", batch_size=size, seed=seed)


def test_each_text_comes_once_an_epoch_with_its_vector_and_weight(tmp_path: Path) -> None:
    found = batches(tmp_path)
    first = list(found.epoch(0))
    assert found.batches_per_epoch() == len(first) == 3
    assert sorted(text for batch in first for text in batch.columns[0]) == [f"t{i}" for i in range(10)]
    for batch in first:
        assert batch.labels is not None
        for text, label in zip(batch.columns[0], batch.labels.tolist(), strict=True):
            i = int(text[1:])
            assert label == pytest.approx([2 * (i % 3), 2 * (i % 3) + 1, i / 10])
    texts = [batch.columns[0] for batch in first]
    assert [batch.columns[0] for batch in found.epoch(0)] == texts
    assert [batch.columns[0] for batch in found.epoch(1)] != texts
    assert [batch.columns[0] for batch in found.epoch(0, 1)] == texts[1:]


def test_what_batches_are_bound_to(tmp_path: Path) -> None:
    digests = {batches(tmp_path, **changes).digest for changes in ({}, {"seed": 2}, {"size": 5}, {"entries": 11})}
    assert len(digests) == 4
    store = TextStore(tmp_path / "t")
    np.save(tmp_path / "v.npy", np.ones((2, 2), np.float32))
    with pytest.raises(EncoderError, match="2 targets for 3 rows"):
        TargetBatches(store, tmp_path / "v.npy", batch_size=4, seed=1)


def test_the_loss_by_hand_and_by_a_loop() -> None:
    rng = np.random.default_rng(3)
    e, t, w = rng.random((7, 5)), rng.random((7, 5)), rng.random(7)
    naive = sum(w[i] * (e[i, j] - t[i, j]) ** 2 for i in range(7) for j in range(5)) / 35
    found = TargetLoss().compute_loss_from_embeddings([torch.tensor(e)], torch.tensor(np.column_stack([t, w])))
    assert float(found) == pytest.approx(naive)


def test_a_head_is_linear_and_its_seed_counts(base: Path) -> None:
    model, trunk = with_head(base, 3, seed=1)
    found, below = model.encode(["a stone"]), trunk.encode(["a stone"])
    head = model[-1].linear
    np.testing.assert_allclose(
        found, below @ head.weight.detach().numpy().T + head.bias.detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert model[0] is trunk[0]
    assert torch.equal(with_head(base, 3, seed=1)[0][-1].linear.weight, head.weight)
    assert not torch.equal(with_head(base, 3, seed=2)[0][-1].linear.weight, head.weight)


def test_the_rate_of_the_head_is_of_no_dense_layer_of_the_base(base: Path, tmp_path: Path) -> None:
    SentenceTransformer(modules=[*SentenceTransformer(str(base)), Dense(16, 8)]).save(str(tmp_path / "dense"))
    model, trunk = with_head(tmp_path / "dense", 3, seed=1)
    weights = [name for name, _ in model.named_parameters()]
    assert [name for name in weights if re.search(HEAD, name)] == ["head.linear.weight", "head.linear.bias"]
    assert "2.linear.weight" in weights
    assert model[2] is trunk[2]


# the phase


def test_the_folders_hold_the_base_without_its_head_and_a_card(base: Path, teacher: Path, whole: list[Path]) -> None:
    assert [folder.name for folder in whole] == ["run-1", "run-2"]
    assert sorted(path.name for path in whole[0].parent.parent.iterdir()) == ["out"]
    assert len({*prints(whole), *prints([base])}) == 3
    encoder = load_encoder(whole[0])
    assert encoder.dimension == 16
    card = (whole[0] / "README.md").read_text("utf-8")
    for fact in (
        encoder.fingerprint,
        *prints([base, teacher]),
        "concepts: 8",
        "texts: 20",
        "variance kept",
        '"seed": 3',
    ):
        assert fact in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()
    assert '"seed": 4' in (whole[1] / "README.md").read_text("utf-8")


def test_every_option_changes_the_weights(base: Path, teacher: Path, whole: list[Path], tmp_path: Path) -> None:
    one = RECIPE.replace(runs=1)
    assert prints(distil(base, teacher, tmp_path / "again", one)) == prints(whole[:1])
    for option in ({"dimension": 2}, {"head_start": "random"}, {"head_rate": 1e-3}, {"seed": 4}):
        found = prints(distil(base, teacher, tmp_path / "out", one.replace(**option)))
        assert found != prints(whole[:1])
    assert found == prints(whole[1:])


@pytest.mark.parametrize("at", ["fitting", "run 1", "step 3/", "run 2"])
def test_a_run_killed_goes_on_to_the_same_weights(
    at: str, base: Path, teacher: Path, whole: list[Path], tmp_path: Path
) -> None:
    def kill(line: str) -> None:
        if line.startswith(at):
            raise Killed

    with pytest.raises(Killed):
        distil(base, teacher, tmp_path / "out", progress=kill, checkpoint_steps=2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"out\.checkpoints: the folder holds an unfinished run. Remedy: resume it"):
        distil(base, teacher, tmp_path / "out")
    lines: list[str] = []
    assert prints(distil(base, teacher, tmp_path / "out", resume=True, progress=lines.append)) == prints(whole)
    assert not any(line.startswith("embedding") for line in lines)
    assert not any(c.names[0] in line for line in lines for c in CONCEPTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_run_is_bound_to_what_it_began_with(base: Path, teacher: Path, tmp_path: Path) -> None:
    def kill(line: str) -> None:
        if line.startswith("run 1"):
            raise Killed

    with pytest.raises(Killed):
        distil(base, teacher, tmp_path / "out", progress=kill)
    for changes, what in (
        ({"concepts": CONCEPTS[1:]}, "other data"),
        ({"recipe": RECIPE.replace(epochs=5)}, rf"epochs {RECIPE.epochs} \(now 5\)"),
        ({"teacher": base}, "another teacher"),
        ({"base": teacher}, "another start"),
    ):
        given = {"base": base, "teacher": teacher, **changes}
        with pytest.raises(ConfigError, match=rf"the unfinished run has {what}\. Remedy"):
            distil(out=tmp_path / "out", resume=True, **given)


def test_the_measure_is_of_the_encoder_without_its_head(base: Path, teacher: Path, tmp_path: Path) -> None:
    widths: list[int] = []

    def measure(model: SentenceTransformer) -> float:
        widths.append(model.encode(["a"]).shape[1])
        return 1.0 - 0.1 * len(widths)

    folder = distil(base, teacher, tmp_path / "out", RECIPE.replace(runs=1), evaluate=measure)[0]
    assert widths == [16] * 4
    card = (folder / "README.md").read_text("utf-8")
    assert "best development measure: 0.9" in card
    assert "step of the best: 4" in card


def test_what_it_refuses(base: Path, teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"11 dimensions from 8 targets of 12.*at most 7 dimensions"):
        distil(base, teacher, tmp_path / "out", RECIPE.replace(dimension=11))
    # nothing has begun that would have to be resumed or deleted
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="name a knowledge base of several concepts"):
        distil(base, teacher, tmp_path / "one", concepts=CONCEPTS[1:2])
    with pytest.raises(EncoderError, match="a static encoder cannot be trained by this phase"):
        distil("builtin", teacher, tmp_path / "static")  # type: ignore[arg-type]  # a name
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="there is a file of that name"):
        distil(base, teacher, tmp_path / "file")
    with pytest.raises(ConfigError, match=r"the folder is not empty and holds no encoders"):
        distil(base, teacher, tmp_path)
    (tmp_path / "other.checkpoints").mkdir()
    (tmp_path / "other.checkpoints" / "mine").touch()
    with pytest.raises(ConfigError, match="the folder is not empty and holds no run"):
        distil(base, teacher, tmp_path / "other")
    # what a run leaves that is ended before it began is no run
    (tmp_path / "early.checkpoints").mkdir()
    for left in ("lock", ".writing-0f-1"):
        (tmp_path / "early.checkpoints" / left).touch()
    assert distil(base, teacher, tmp_path / "early", RECIPE.replace(runs=1, epochs=1))
    (tmp_path / "third.checkpoints").touch()
    with pytest.raises(ConfigError, match=r"third\.checkpoints: there is a file of that name"):
        distil(base, teacher, tmp_path / "third")
    for option, value in (("dimension", 0), ("runs", 0), ("epochs", 0)):
        with pytest.raises(ConfigError, match=f"{option} is {value}, at least 1 expected"):
            RECIPE.replace(**{option: value})
