"""Self-distillation: texts, targets, axes and loss by hand and by oracle; then from concepts to a folder of runs."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
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
from medlink.training.common.targets import fit_ridge, principal_components, sum_embeddings
from medlink.training.data.batches import Batch
from medlink.training.data.text_store import (
    ConceptTexts,
    TargetBatches,
    TextEntry,
    TextStore,
    group_by_concept,
    read_targets,
)
from medlink.training.recipes import HEAD_WEIGHTS, DistillationRecipe
from tests.training.small_bert import Killed, kill_at
from tests.training.trained import fingerprint, missing, recipe_on_card

CONCEPTS = [
    ConceptTexts(f"C{i}", (f"{a}{a} stone", f"{a} calculus"), (f"a hard thing in {a}",) if i % 2 else ())
    for i, a in enumerate("abcdefgh")
]
RECIPE = DistillationRecipe(
    dimension=3, runs=2, epochs=2, batch_size=5, learning_rate=1e-2, warmup=0.1, seed=3, head_rate=2e-2
)


def distil(start: Path, teacher: Path, out: Path, recipe: DistillationRecipe = RECIPE, **options: Any) -> list[Path]:
    concepts = options.pop("concepts", CONCEPTS)
    BioLordTrainer(lambda: concepts, start, recipe, teacher=teacher).train(out, **options)
    return sorted(out.glob("run-*"))


@pytest.fixture(scope="module")
def uninterrupted(bert: Path, narrow_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return distil(bert, narrow_bert, tmp_path_factory.mktemp("uninterrupted") / "out")


# texts


def test_names_and_definitions_are_joined_by_concept() -> None:
    names = [Name("A", "x", "en"), Name("A", "x", "de"), Name("A", " "), Name("B", "y"), Name("D", "")]
    groups = group_by_concept(names, [Definition("B", "of y"), Definition("C", "of z")], [Definition("A", "x")])
    expected = [ConceptTexts("A", ("x",)), ConceptTexts("B", ("y",), ("of y",)), ConceptTexts("C", (), ("of z",))]
    assert list(groups) == expected


def test_shares_by_hand() -> None:
    concepts = [ConceptTexts("A", ("a", "b", "c", "d"), ("e", "f")), ConceptTexts("B", (), ("g",))]
    entries = list(concept_entries(iter(concepts)))
    assert [(e.text, e.row, e.share) for e in entries] == [
        *((text, 0, 0.125) for text in "abcd"),
        *((text, 0, 0.25) for text in "ef"),
        ("g", 1, 1.0),
    ]
    assert {e.weight for e in entries} == {1.0}
    for useless, message in (
        ([ConceptTexts("A", ("a",))], "no concept has a definition"),
        ([ConceptTexts("A", (), ("a",))], "no concept has a name"),
        ([], "no concept has a name"),
    ):
        with pytest.raises(ConfigError, match=message):
            list(concept_entries(iter(useless)))


# the text store


def test_a_store_returns_its_entries(tmp_path: Path) -> None:
    entries = [TextEntry("zwei\n", 1, 0.5, 0.25), TextEntry("one", 0), TextEntry("ä", 1, 0.5)]
    store = TextStore.build(tmp_path / "deep" / "texts", entries)
    assert (len(store), store.rows) == (3, 2)
    assert [(texts, rows.tolist()) for texts, rows in store.parts(2)] == [(["zwei\n", "one"], [1, 0]), (["ä"], [1])]
    assert list(store) == ["zwei\n", "one", "ä"]
    assert [column.tolist() for column in store.targets(np.array([2, 0]))] == [[1, 1], [1.0, 0.25]]
    assert [path.name for path in store.path.parent.iterdir()] == ["texts"]
    assert TextStore(store.path).digest == store.digest

    def digest(**changes: Any) -> str:
        return TextStore.build(tmp_path / "other", [entries[0]._replace(**changes), *entries[1:]]).digest

    assert len({store.digest, digest(share=0.4), digest(text="zwo"), digest(row=0)}) == 4
    # the last digits of a cosine differ between machines
    assert digest(weight=0.2500001) == store.digest


def test_each_text_is_embedded_once_shortest_first(tmp_path: Path) -> None:
    entries = [TextEntry("ccc", 0, 0.5), TextEntry("a", 0, 0.5), TextEntry("ccc", 1), TextEntry("bb", 1, 0.0)]
    store = TextStore.build(tmp_path / "texts", entries)
    for size, parts in ((1, [["a"], ["ccc"]]), (5, [["a", "ccc"]])):
        terms = [
            (texts[i], row, share)
            for texts, *columns in store.iter_teacher_texts(size)
            for i, row, share in zip(*(column.tolist() for column in columns), strict=True)
        ]
        assert terms == [("a", 0, 0.5), ("ccc", 0, 0.5), ("ccc", 1, 1.0)]
        assert [texts for texts, *_ in store.iter_teacher_texts(size)] == parts


def test_no_text_and_a_broken_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no texts to learn from"):
        TextStore.build(tmp_path / "texts", [])
    assert not list(tmp_path.iterdir())
    with pytest.raises(EncoderError, match=r"none: the texts cannot be read: .*No such file"):
        TextStore(tmp_path / "none")
    store = TextStore.build(tmp_path / "texts", [TextEntry("a", 0)])
    (store.path / "entries.arrow").write_text("not an Arrow file")
    with pytest.raises(EncoderError, match="texts: the texts cannot be read"):
        TextStore(store.path)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ConfigError, match="the texts cannot be written: No space"):
        TextStore.build(tmp_path / "texts", [TextEntry("a", 0)])
    monkeypatch.undo()
    store = TextStore.build(tmp_path / "texts", [TextEntry("a", 0)])
    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(EncoderError, match=r"targets: the targets cannot be written: No space.*make room"),
        new_folder(tmp_path / "targets", "the targets") as draft,
    ):
        sum_embeddings(store, count_letters, 4, draft / "a.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


# targets


def count_letters(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """An embedding that can be computed by hand: the counts of a, b, c and d."""
    return np.array([[text.count(letter) for letter in "abcd"] for text in texts], dtype=np.float32)


def test_targets_are_means_and_each_text_is_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), 4)) for _ in range(30)]

    def draw() -> tuple[str, ...]:
        return tuple(dict.fromkeys(rng.choice(words, int(rng.integers(1, 4))).tolist()))

    concepts = [ConceptTexts(str(i), draw(), draw() if i % 3 else ()) for i in range(40)]
    monkeypatch.setattr("medlink.training.common.targets._TEXTS", 7)
    encoded: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        encoded.extend(texts)
        return count_letters(texts)

    store = TextStore.build(tmp_path / "texts", concept_entries(iter(concepts)))
    targets = sum_embeddings(store, encode, 4, tmp_path / "a.npy")
    expected = [
        np.mean([count_letters(texts).mean(axis=0) for texts in (c.names, c.definitions) if texts], axis=0)
        for c in concepts
    ]
    np.testing.assert_allclose(targets, expected, atol=1e-6)
    assert sorted(encoded) == sorted({text for c in concepts for text in (*c.names, *c.definitions)})


def test_axes_by_hand() -> None:
    rows = np.array([[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0], [0.8, -0.6], [-0.8, 0.6]])
    projection = principal_components(rows, 2)
    np.testing.assert_allclose(projection.axes, [[0.6, 0.8], [0.8, -0.6]], atol=1e-12)
    np.testing.assert_allclose(projection(rows[:1]), [[5, 0]], atol=1e-6)
    assert principal_components(rows, 1).explained_variance == pytest.approx(50 / 52)


@pytest.mark.parametrize("centre", [True, False])
def test_axes_against_scikit_learn_and_numpy(centre: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.decomposition import PCA

    monkeypatch.setattr("medlink.training.common.targets._ROWS", 7)
    rng = np.random.default_rng(1)
    rows = (rng.standard_normal((50, 9)) * np.arange(1, 10) + 3).astype(np.float32)
    projection = principal_components(rows, 4, centre=centre)
    if centre:
        pca = PCA(4, svd_solver="full").fit(rows.astype(np.float64))
        axes, variance = pca.components_, pca.explained_variance_ratio_.sum()
        np.testing.assert_allclose(np.abs(projection(rows)), np.abs(pca.transform(rows)), atol=1e-4)
    else:
        _, sizes, axes = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
        axes, variance = axes[:4], (sizes[:4] ** 2).sum() / (sizes**2).sum()
        assert not projection.mean.any()
    np.testing.assert_allclose(np.abs(projection.axes), np.abs(axes), atol=1e-6)
    assert projection.explained_variance == pytest.approx(variance, abs=1e-6)
    assert (projection.axes[np.arange(4), np.abs(projection.axes).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize(
    ("shape", "count", "remedy"),
    [((3, 5), 3, "at most 2"), ((9, 5), 6, "at most 5"), ((9, 5), 0, "at most 5"), ((1, 5), 1, "several concepts")],
)
def test_too_few_rows_or_dimensions(shape: tuple[int, int], count: int, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"{count} dimensions from {shape[0]} targets of {shape[1]}.*{remedy}"):
        principal_components(np.ones(shape), count)


def test_damaged_targets(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.ones(3, np.float32))
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name, detail in (("none", ""), ("flat", r"\(3,\) float32"), ("pickle", "")):
        with pytest.raises(EncoderError, match=rf"{name}\.npy: the targets cannot be read.*{detail}"):
            read_targets(tmp_path / f"{name}.npy")


# the head


def test_ridge_by_hand() -> None:
    # the columns of x are orthogonal: X'X = diag(4, 16), its mean 10; Y'X = (8, 16)
    x = np.array([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]])
    weights, bias = fit_ridge([(x, x @ [[2.0], [1.0]] + 5)], penalty=0.4)
    np.testing.assert_allclose(weights, [[8 / (4 + 4), 16 / (16 + 4)]])
    np.testing.assert_allclose(bias, [5.0])


@pytest.mark.parametrize("penalty", [1e-6, 0.3])
def test_ridge_against_scikit_learn(penalty: float) -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(4)
    x = (rng.standard_normal((90, 7)) + 2).astype(np.float32)
    y = (x @ rng.standard_normal((7, 3)) + rng.standard_normal((90, 3)) - 1).astype(np.float32)
    weights, bias = fit_ridge(((x[i : i + 13], y[i : i + 13]) for i in range(0, 90, 13)), penalty)
    x64 = x.astype(np.float64)
    oracle = Ridge(alpha=penalty * ((x64 - x64.mean(axis=0)) ** 2).sum() / 7).fit(x64, y)
    np.testing.assert_allclose(weights, oracle.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(bias, oracle.intercept_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "x", [np.full((7, 2), 0.1), np.array([[0.0, 1.0], [np.nan, 2.0]]), np.array([[np.inf], [1.0]])]
)
def test_ridge_refuses_useless_inputs(x: np.ndarray[Any, Any]) -> None:
    with pytest.raises(EncoderError, match="do not differ, or are NaN or infinite"):
        fit_ridge([(x, np.ones((len(x), 1)))], penalty=0.1)


@pytest.mark.slow
def test_the_head_is_linear_and_depends_on_its_seed(bert: Path, tmp_path: Path) -> None:
    model, trunk = with_head(bert, 3, seed=1)
    output, below = model.encode(["a stone"]), trunk.encode(["a stone"])
    head = model[-1].linear
    expected = below @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    assert model[0] is trunk[0]
    assert torch.equal(with_head(bert, 3, seed=1)[0][-1].linear.weight, head.weight)
    assert not torch.equal(with_head(bert, 3, seed=2)[0][-1].linear.weight, head.weight)
    # its learning rate is not that of a linear layer of the base
    SentenceTransformer(modules=[*SentenceTransformer(str(bert)), Dense(16, 8)]).save(str(tmp_path / "dense"))
    model, trunk = with_head(tmp_path / "dense", 3, seed=1)
    parameters = [name for name, _ in model.named_parameters()]
    assert [name for name in parameters if re.search(HEAD_WEIGHTS, name)] == ["head.linear.weight", "head.linear.bias"]
    assert "2.linear.weight" in parameters
    assert model[2] is trunk[2]


# batches and loss


def target_batches(folder: Path, seed: int = 1, size: int = 4, entries: int = 10) -> TargetBatches:
    store = TextStore.build(folder / "t", [TextEntry(f"t{i}", i % 3, weight=i / 10) for i in range(entries)])
    np.save(folder / "v.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    return TargetBatches(store, folder / "v.npy", batch_size=size, seed=seed)


def entries_of(batches: Iterable[Batch]) -> list[list[int]]:
    return [batch.columns[0].tolist() for batch in batches]


def test_an_epoch_has_each_text_once_with_its_vector_and_weight(tmp_path: Path) -> None:
    batches = target_batches(tmp_path)
    first = list(batches.epoch(0))
    assert batches.batches_per_epoch() == len(first) == 3
    texts = entries_of(batches.epoch(0))
    assert sorted(text for part in texts for text in part) == list(range(10))
    assert list(batches.texts) == [f"t{i}" for i in range(10)]
    for batch in first:
        for i, label in zip(batch.columns[0].tolist(), batch.labels.tolist(), strict=True):
            assert label == pytest.approx([2 * (i % 3), 2 * (i % 3) + 1, i / 10])
    assert entries_of(first) == texts != entries_of(batches.epoch(1))
    assert entries_of(batches.epoch(0, 1)) == texts[1:]


def test_the_digest_of_target_batches(tmp_path: Path) -> None:
    changes: tuple[dict[str, int], ...] = ({}, {"seed": 2}, {"size": 5}, {"entries": 11})
    assert len({target_batches(tmp_path, **change).digest for change in changes}) == 4
    np.save(tmp_path / "v.npy", np.ones((2, 2), np.float32))
    with pytest.raises(EncoderError, match="2 targets for 3 rows"):
        TargetBatches(TextStore(tmp_path / "t"), tmp_path / "v.npy", batch_size=4, seed=1)


# the phase


@pytest.mark.slow
def test_the_folders_hold_the_base_without_its_head_and_a_card(
    bert: Path, narrow_bert: Path, uninterrupted: list[Path]
) -> None:
    first, second = uninterrupted
    assert [first.name, second.name] == ["run-1", "run-2"]
    assert sorted(path.name for path in first.parent.parent.iterdir()) == ["out"]
    prints = [fingerprint(folder) for folder in (first, bert, narrow_bert)]
    assert len({*prints, fingerprint(second)}) == 4
    assert load_encoder(first).dimension == 16
    assert not missing(first, *prints, "concepts: 8", "texts: 20", "variance kept")
    assert recipe_on_card(first) == RECIPE.to_dict()
    assert recipe_on_card(second) == RECIPE.replace(seed=4).to_dict()


@pytest.mark.slow
def test_every_option_changes_the_weights(bert: Path, narrow_bert: Path, tmp_path: Path) -> None:
    short = RECIPE.replace(runs=1, epochs=1)
    changes: tuple[dict[str, Any], ...] = (
        {}, {"dimension": 2}, {"head_start": "random"}, {"head_rate": 1e-3}, {"seed": 4},
    )  # fmt: skip
    seen = {fingerprint(distil(bert, narrow_bert, tmp_path / "out", short.replace(**change))[0]) for change in changes}
    assert len(seen) == len(changes)


@pytest.mark.slow
@pytest.mark.parametrize("at", [pytest.param("fitting", marks=pytest.mark.faults), "run 2"])
def test_a_killed_run_resumes_to_the_same_weights(
    at: str, bert: Path, narrow_bert: Path, uninterrupted: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        distil(bert, narrow_bert, tmp_path / "out", progress=kill_at(at), checkpoint_steps=2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"out\.checkpoints: the folder holds an unfinished run"):
        distil(bert, narrow_bert, tmp_path / "out")
    for changes, what in (
        ({"concepts": CONCEPTS[1:]}, "other data"),
        ({"recipe": RECIPE.replace(epochs=5)}, rf"epochs {RECIPE.epochs} \(now 5\)"),
        ({"teacher": bert}, "another teacher"),
        ({"start": narrow_bert}, "another start"),
    ):
        if at == "run 2":
            given: dict[str, Any] = {"start": bert, "teacher": narrow_bert, **changes}
            with pytest.raises(ConfigError, match=rf"the unfinished run has {what}\. Remedy"):
                distil(out=tmp_path / "out", resume=True, **given)
    lines: list[str] = []
    resumed = distil(bert, narrow_bert, tmp_path / "out", resume=True, progress=lines.append)
    assert [*map(fingerprint, resumed)] == [*map(fingerprint, uninterrupted)]
    assert not any(line.startswith("embedding") for line in lines)
    assert not any(concept.names[0] in line for line in lines for concept in CONCEPTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.slow
def test_the_measure_is_of_the_encoder_without_its_head(bert: Path, narrow_bert: Path, tmp_path: Path) -> None:
    widths: list[int] = []

    def measure(model: SentenceTransformer) -> float:
        widths.append(model.encode(["a"]).shape[1])
        return 1.0 - 0.1 * len(widths)

    folder = distil(bert, narrow_bert, tmp_path / "out", RECIPE.replace(runs=1), evaluate=measure)[0]
    assert widths == [16] * RECIPE.epochs
    assert not missing(folder, "best development measure: 0.9", "step of the best: 4")


@pytest.mark.slow
def test_refusals(bert: Path, narrow_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"11 dimensions from 8 targets of 12.*at most 7 dimensions"):
        distil(bert, narrow_bert, tmp_path / "out", RECIPE.replace(dimension=11))
    # nothing is left to resume or delete
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="name a knowledge base of several concepts"):
        distil(bert, narrow_bert, tmp_path / "single", concepts=CONCEPTS[1:2])
    with pytest.raises(EncoderError, match="a static encoder cannot be trained by this phase"):
        distil(Path("builtin"), narrow_bert, tmp_path / "static")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"the folder is not empty and holds no encoders"):
        distil(bert, narrow_bert, tmp_path)
