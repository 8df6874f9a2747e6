"""The static student: held-out names, what it learns, and its accuracy."""

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
from medlink.training.static.student import HeldOutSplit, StaticStudent, Synonym, accuracy_at_1, iter_synonyms
from tests.training.small_bert import Killed, kill_at

Result = tuple[Path, StaticStudent]
NAMES = [
    Name(f"C{i:02}", text)
    for i, a in enumerate("abcdefghijkl")
    for text in (f"{a}{a}{a} stone", f"{a}{a}{a} calculus", f"{a}{a}{a} stones", f"{a}{a}{a} Stone")
]
CONFIG = StaticConfig(families=False, rows=256, dimension=8, hidden=6)
RECIPE = StaticStudentRecipe(epochs=4, batch_size=8, held_out=5, warmup=0.1, seed=3)


@pytest.fixture(scope="module")
def uninterrupted(other_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StaticStudent]:
    """The output folder, and the trainer."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    student = StaticStudent(lambda: NAMES, CONFIG, RECIPE, teacher=other_bert)
    student.train(out)
    return out, student


def distil(
    teacher: Path, out: Path, recipe: StaticStudentRecipe = RECIPE, start: Any = CONFIG, **options: Any
) -> StaticEncoder:
    names = options.pop("names", NAMES)
    return StaticStudent(lambda: names, start, recipe, teacher=teacher).train(out, **options)


def test_spellings_of_a_name_are_one_name() -> None:
    names = [Name("A", "Cold"), Name("A", "cold", "en"), Name("A", "-"), Name("B", "Cold")]
    assert list(iter_synonyms(names)) == [[Synonym("A", "Cold")], [Synonym("B", "Cold")]]


def test_the_split_has_every_name(tmp_path: Path) -> None:
    split = HeldOutSplit(lambda: NAMES, 5, seed=1)
    store = TextStore.build(tmp_path / "t", split.entries())
    ((texts, rows),) = store.parts(len(store))
    assert rows.tolist() == list(range(len(store)))
    assert sorted([*texts, *split.texts]) == sorted(s.text for some in iter_synonyms(NAMES) for s in some)
    ids = sorted({name.concept_id for name in NAMES})
    owner = {name.text: name.concept_id for name in NAMES}
    assert [ids[i] for i in split.owners] == [owner[text] for text in texts]
    assert [ids[i] for i in split.gold] == [owner[text] for text in split.texts]
    assert split.concepts == 12


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
    nearest = [max(range(50), key=lambda j: float(query @ names[j])) for query in queries]
    parts = [(names[i : i + 7], owners[i : i + 7]) for i in range(0, 50, 7)]
    assert accuracy_at_1(queries, gold, parts) == (owners[nearest] == gold).mean()


@pytest.mark.slow
def test_the_folder_is_a_static_encoder_with_a_card(other_bert: Path, uninterrupted: Result) -> None:
    out, student = uninterrupted
    encoder = load_encoder(out)
    assert isinstance(encoder, StaticEncoder)
    assert encoder.config == CONFIG
    card = (out / "README.md").read_text("utf-8")
    found = student.accuracy
    assert found is not None
    assert found.queries == 5
    facts = [encoder.fingerprint, load_encoder(other_bert).fingerprint, "names: 31", "concepts: 12", "steps: 16"]
    facts += [f"Acc@1 on them of the teacher: {found.teacher:.4f}", f"of this encoder: {found.student:.4f}"]
    for fact in (*facts, f"of the teacher, reduced to 8 dimensions: {found.reduced:.4f}"):
        assert fact in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


def test_the_figures_are_those_of_the_encoders(other_bert: Path, uninterrupted: Result) -> None:
    out, student = uninterrupted
    split = HeldOutSplit(lambda: NAMES, RECIPE.held_out, RECIPE.seed)
    texts = [entry.text for entry in split.entries()]
    found = student.accuracy
    assert found is not None
    for folder, value in ((other_bert, found.teacher), (out, found.student)):
        encoder = load_encoder(folder)
        nearest = (encoder.encode(split.texts) @ encoder.encode(texts).T).argmax(axis=1)
        assert (split.owners[nearest] == split.gold).mean() == pytest.approx(value)


@pytest.mark.slow
def test_the_start_is_an_encoder_or_a_shape(other_bert: Path, uninterrupted: Result, tmp_path: Path) -> None:
    found = distil(other_bert, tmp_path / "out", RECIPE.replace(learning_rate=1e-6, epochs=1), start=uninterrupted[0])
    before = load_encoder(uninterrupted[0])
    assert found.fingerprint != before.fingerprint
    texts = [name.text for name in NAMES]
    np.testing.assert_allclose(found.encode(texts), before.encode(texts), atol=0.02)
    assert before.fingerprint in (tmp_path / "out" / "README.md").read_text("utf-8")
    shape = StaticConfig(dimension=16)
    alone = distil(other_bert, tmp_path / "default", RECIPE.replace(epochs=1), start=None)
    assert alone.config == shape


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights_and_figures(
    other_bert: Path, uninterrupted: Result, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        distil(other_bert, tmp_path / "out", progress=kill_at("step 3/"), checkpoint_steps=2)
    with pytest.raises(ConfigError, match=rf"has other data, held_out {RECIPE.held_out} \(now 4\)"):
        distil(other_bert, tmp_path / "out", RECIPE.replace(held_out=4), resume=True)
    lines: list[str] = []
    resumed = distil(other_bert, tmp_path / "out", resume=True, progress=lines.append)
    assert resumed.fingerprint == load_encoder(uninterrupted[0]).fingerprint
    assert lines[-1].startswith("Acc@1 on 5 names: teacher ")
    assert not any(name.text in line for line in lines for name in NAMES)
    cards = [(folder / "README.md").read_text("utf-8") for folder in (tmp_path / "out", uninterrupted[0])]
    assert cards[0].split("- hours")[0] == cards[1].split("- hours")[0]


@pytest.mark.slow
def test_refusals(other_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the student embeds in 17 dimensions, the teacher in 16"):
        distil(other_bert, tmp_path / "out", start=CONFIG.replace(dimension=17))
    with pytest.raises(ConfigError, match="the student does not begin with a static encoder"):
        distil(other_bert, tmp_path / "out", start=other_bert)
    with pytest.raises(ConfigError, match="no concept has two names"):
        distil(other_bert, tmp_path / "out", names=NAMES[:1])
    for option in ("mini_batch", "max_tokens"):
        with pytest.raises(ConfigError, match=f"{option} is 1, at least 0 and at most 0 expected"):
            RECIPE.replace(**{option: 1})
