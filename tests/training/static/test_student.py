"""The static student: names kept from training, what it learns, and what it loses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.models import StaticConfig, StaticEncoder, load_encoder
from medlink.records import Name
from medlink.training.data.text_store import TextStore
from medlink.training.recipes import StaticStudentRecipe
from medlink.training.static.student import Split, StaticStudent, Synonym, accuracy_at_1, synonyms
from tests.training.small_bert import Killed, small_bert

NAMES = [
    Name(f"C{i:02}", text)
    for i, a in enumerate("abcdefghijkl")
    for text in (f"{a}{a}{a} stone", f"{a}{a}{a} calculus", f"{a}{a}{a} stones", f"{a}{a}{a} Stone")
]
CONFIG = StaticConfig(families=False, rows=256, dimension=8, hidden=6)
RECIPE = StaticStudentRecipe(epochs=4, batch_size=8, held_out=5, warmup=0.1, seed=3)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("teacher"), seed=2)


@pytest.fixture(scope="module")
def whole(teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StaticStudent]:
    """A run left alone."""
    out = tmp_path_factory.mktemp("whole") / "out"
    student = StaticStudent(lambda: NAMES, CONFIG, RECIPE, teacher=teacher)
    student.train(out)
    return out, student


def distil(
    teacher: Path, out: Path, recipe: StaticStudentRecipe = RECIPE, start: Any = CONFIG, **options: Any
) -> StaticEncoder:
    names = options.pop("names", NAMES)
    return StaticStudent(lambda: names, start, recipe, teacher=teacher).train(out, **options)


# names kept from training


def test_a_name_is_one_in_all_its_spellings() -> None:
    names = [Name("A", "Cold"), Name("A", "cold", "en"), Name("A", "-"), Name("B", "Cold")]
    assert list(synonyms(names)) == [[Synonym("A", "Cold")], [Synonym("B", "Cold")]]


def test_the_split_is_one(tmp_path: Path) -> None:
    split = Split(lambda: NAMES, 5, seed=1)
    store = TextStore.build(tmp_path / "t", split.entries())
    ((texts, rows, _),) = store.batches(np.arange(len(store)), len(store))
    assert rows.tolist() == list(range(len(store)))
    assert sorted([*texts, *split.texts]) == sorted(s.text for some in synonyms(NAMES) for s in some)
    ids = sorted({name.concept_id for name in NAMES})
    owner = {name.text: name.concept_id for name in NAMES}
    assert [ids[i] for i in split.owners] == [owner[text] for text in texts]
    assert [ids[i] for i in split.gold] == [owner[text] for text in split.texts]
    assert split.concepts == 12


# what is measured


def test_accuracy_by_hand() -> None:
    queries = np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)
    dictionary = [(np.array([[1, 0], [0, 1]]), np.array([5, 6])), (np.array([[0.8, 0.6]]), np.array([7]))]
    assert accuracy_at_1(queries, np.array([5, 6, 7]), dictionary) == 1
    assert accuracy_at_1(queries, np.array([5, 5, 6]), dictionary) == pytest.approx(1 / 3)
    # of equally near names the first counts, in one part or in two
    twice = [(np.array([[1, 0], [1, 0]]), np.array([1, 2])), (np.array([[1, 0]]), np.array([3]))]
    assert accuracy_at_1(queries[:1], np.array([1]), twice) == 1


def test_accuracy_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    queries, names = (rng.standard_normal((n, 4)).astype(np.float32) for n in (20, 50))
    gold, owners = rng.integers(0, 10, 20), rng.integers(0, 10, 50)
    hits = sum(
        owners[max(range(50), key=lambda j: float(q @ names[j]))] == g for q, g in zip(queries, gold, strict=True)
    )
    for size in (1, 7, 50):
        parts = [(names[i : i + size], owners[i : i + size]) for i in range(0, 50, size)]
        assert accuracy_at_1(queries, gold, parts) == hits / 20


# the student


def test_the_folder_is_a_static_encoder_with_a_card(teacher: Path, whole: tuple[Path, StaticStudent]) -> None:
    out, student = whole
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    encoder = load_encoder(out)
    assert isinstance(encoder, StaticEncoder)
    assert encoder.config == CONFIG
    card = (out / "README.md").read_text("utf-8")
    found = student.accuracies
    assert found is not None
    assert found.queries == 5
    facts = [encoder.fingerprint, load_encoder(teacher).fingerprint, "names: 31", "concepts: 12", "steps: 16"]
    facts += [f"Acc@1 on them of the teacher: {found.teacher:.4f}", f"of this encoder: {found.student:.4f}"]
    facts += ["names kept from training, one of a concept, looked up among the others: 5"]
    for fact in (*facts, f"of the teacher, reduced to 8 dimensions: {found.reduced:.4f}"):
        assert fact in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_the_figures_are_those_of_the_encoders(teacher: Path, whole: tuple[Path, StaticStudent]) -> None:
    out, student = whole
    split = Split(lambda: NAMES, RECIPE.held_out, RECIPE.seed)
    texts = [entry.text for entry in split.entries()]
    found = student.accuracies
    assert found is not None
    for folder, value in ((teacher, found.teacher), (out, found.student)):
        encoder = load_encoder(folder)
        nearest = (encoder.encode(split.texts) @ encoder.encode(texts).T).argmax(axis=1)
        assert (split.owners[nearest] == split.gold).mean() == pytest.approx(value)


def test_it_begins_with_an_encoder_or_a_shape(teacher: Path, whole: tuple[Path, StaticStudent], tmp_path: Path) -> None:
    found = distil(teacher, tmp_path / "out", RECIPE.replace(learning_rate=1e-6, epochs=1), start=whole[0])
    before = load_encoder(whole[0])
    assert found.fingerprint != before.fingerprint
    texts = [name.text for name in NAMES]
    np.testing.assert_allclose(found.encode(texts), before.encode(texts), atol=0.02)
    assert before.fingerprint in (tmp_path / "out" / "README.md").read_text("utf-8")
    shape = StaticConfig(dimension=16)
    alone = distil(teacher, tmp_path / "default", RECIPE.replace(epochs=1), start=None)
    assert alone.config == shape


@pytest.mark.parametrize("at", ["embedding", "step 3/"])
def test_a_run_killed_goes_on_to_the_same_weights(
    at: str, teacher: Path, whole: tuple[Path, StaticStudent], tmp_path: Path
) -> None:
    def kill(line: str) -> None:
        if line.startswith(at):
            raise Killed

    for resume in (False, True):
        with pytest.raises(Killed):
            distil(teacher, tmp_path / "out", resume=resume, progress=kill, checkpoint_steps=2)
    if at != "embedding":
        with pytest.raises(ConfigError, match=rf"has other data, held_out {RECIPE.held_out} \(now 4\)"):
            distil(teacher, tmp_path / "out", RECIPE.replace(held_out=4), resume=True)
    lines: list[str] = []
    found = distil(teacher, tmp_path / "out", resume=True, progress=lines.append)
    assert found.fingerprint == load_encoder(whole[0]).fingerprint
    assert lines[-1].startswith("Acc@1 on 5 names: teacher ")
    assert not any(name.text in line for line in lines for name in NAMES)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert card.split("- hours")[0] == (whole[0] / "README.md").read_text("utf-8").split("- hours")[0]


def test_what_it_refuses(teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the student embeds in 17 dimensions, the teacher in 16"):
        distil(teacher, tmp_path / "out", start=CONFIG.replace(dimension=17))
    with pytest.raises(ConfigError, match="the student does not begin with a static encoder"):
        distil(teacher, tmp_path / "out", start=teacher)
    with pytest.raises(ConfigError, match="no concept has two names"):
        distil(teacher, tmp_path / "out", names=NAMES[:1])
    for option in ("mini_batch", "max_tokens"):
        with pytest.raises(ConfigError, match=f"{option} is 1, at least 0 and at most 0 expected"):
            RECIPE.replace(**{option: 1})
    for option, value in (("held_out", 0), ("feature_dropout", 1.0)):
        with pytest.raises(ConfigError, match=f"{option} is {value}"):
            RECIPE.replace(**{option: value})
