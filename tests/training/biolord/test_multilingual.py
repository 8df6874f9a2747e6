"""Cross-lingual distillation: alignments, weights by hand, and a student that learns another language."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from medlink.errors import ConfigError, EncoderError, InputError
from medlink.models import load_encoder
from medlink.records import Name
from medlink.training import BioLordTrainer
from medlink.training.biolord.multilingual import (
    Aligned,
    Alignments,
    SenseFilter,
    aligned_entries,
    aligned_names,
    first_source,
    fitted,
    read_alignments,
    sense_weights,
    thresholds,
)
from medlink.training.data.text_store import Entry
from medlink.training.recipes import MultilingualRecipe
from tests.training.small_bert import Killed, small_bert

# each word of the made-up language is the English one with its letters moved on by 13
WORDS = ("ache", "bone", "cold", "dent", "ear", "fat", "gum", "hip", "ill", "jaw", "knee", "leg")
ROT = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
NAMES = [
    name
    for i, word in enumerate(WORDS)
    for name in (Name(f"C{i:02}", word.translate(ROT), "de"), Name(f"C{i:02}", word, "en", preferred=True))
]
RECIPE = MultilingualRecipe(epochs=4, batch_size=6, learning_rate=1e-2, warmup=0.1, seed=3, filter="")
FEVER = Aligned(("fever", "pyrexia"), ("Fieber", "Pyrexie"), ("de", "de"))


class Plane:
    """An encoder of two dimensions that knows a few words: their angles in degrees."""

    dimension, fingerprint = 2, "plane"

    def __init__(self, **angles: float) -> None:
        self.angles = angles
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        self.asked.extend(texts)
        angles = np.radians([self.angles[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def save(self, folder: str | Path) -> Path:
        raise NotImplementedError


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("student"), seed=1)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("teacher"), seed=2)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("narrow"), seed=2, width=12)


@pytest.fixture(scope="module")
def whole(student: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run left alone."""
    out = tmp_path_factory.mktemp("whole") / "out"
    distil(student, teacher, out)
    return out


def distil(student: Path, teacher: Path, out: Path, recipe: MultilingualRecipe = RECIPE, **options: Any) -> str:
    alignments = options.pop("alignments", None) or Alignments(["de"], names=lambda: NAMES)
    return BioLordTrainer(alignments, student, recipe, teacher=teacher).train(out, **options).fingerprint


# alignments


def test_names_are_aligned_by_concept_and_language() -> None:
    names = [
        Name("A", "Herz", "de-AT"),
        Name("A", "Cor", "de"),
        Name("A", "heart", "en"),
        Name("A", "heart", "en-GB"),
        Name("A", "Cor", "en"),
        Name("A", "corazón", "es"),
        Name("A", "den", "den"),
        Name("B", "Hand", "de"),
        Name("C", "hand", "en"),
        Name("C", "hand", "de"),
    ]
    assert list(aligned_names(names, ["de", "es"])) == [Aligned(("heart", "Cor"), ("Herz", "corazón"), ("de", "es"))]
    assert list(aligned_names(names, ["en"], source="de")) == [Aligned(("Herz", "Cor"), ("heart",), ("en",))]


def test_a_table_and_a_knowledge_base_are_joined_and_gone_through_again(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text(
        "\ufeffnote\ttarget\tlanguage\tsource\n\nx\tcefalea\tES-ES\theadache\nx\tmal\tfr\tpain\n", encoding="utf-8"
    )
    both = Alignments(["es", "de", "en", "es"], names=lambda: iter(NAMES[:2]), table=table)
    expected = [Aligned(("ache",), ("npur",), ("de",)), Aligned(("headache",), ("cefalea",), ("es",))]
    assert list(both) == expected
    assert list(both) == expected
    assert both.languages == ("es", "de")


def test_a_language_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no name in es is aligned with one in en; there are some in de \(12\)\. Rem"
    ):
        list(Alignments(["de", "es"], names=lambda: NAMES))
    with pytest.raises(ConfigError, match="no name in de is aligned with one in fr; there are some in no language"):
        list(Alignments(["de"], names=lambda: NAMES, source="fr"))
    with pytest.raises(ConfigError, match="no language besides en"):
        Alignments(["en"], names=lambda: NAMES)
    with pytest.raises(ConfigError, match="nothing to align"):
        Alignments(["de"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "table.tsv: the file is empty"),
        ("source\ttarget\n", "table.tsv:1: looked for the columns source, target, language; found 2 columns"),
        ("source\ttarget\tlanguage\na\tb\n", "table.tsv:2: 1 of 1 rows cannot be used"),
        ("source\ttarget\tlanguage\na\tb\tde\na\t \tde\n", "table.tsv:3: 1 of 2 rows cannot be used (empty cell: 1)"),
        (b"source\ttarget\tlanguage\na\t\xff\tde\n", "table.tsv:2: 1 of 1 rows cannot be used (bad bytes: 1)"),
        (None, "table.tsv: "),
    ],
)
def test_a_table_that_is_not_as_it_should_be(content: str | bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "table.tsv").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as error:
        list(read_alignments(tmp_path / "table.tsv", ["de"]))
    assert message in str(error.value)


# weights


def test_weights_by_hand() -> None:
    cosines = np.array([[-1.0, 0.2], [0.3, 0.5]])
    np.testing.assert_allclose(sense_weights(cosines, 0.2, 0.4), [[0, 0], [0.5, 1]])
    assert sense_weights(np.array([]), 0.2, 0.4).shape == (0,)


@pytest.mark.parametrize(("low", "high"), [(0.4, 0.4), (0.5, 0.4), (float("nan"), 0.4)])
def test_a_filter_that_knows_nothing(low: float, high: float) -> None:
    with pytest.raises(ConfigError, match=r"finds translations \(cosine 0.40\) no nearer than chance"):
        sense_weights(np.array([0.1]), low, high)


def test_the_nearest_source_and_its_weight() -> None:
    plane = Plane(fever=0, pyrexia=60, Fieber=10, Pyrexie=90)
    ((first, second),) = SenseFilter(plane, 0.5, 1.0)([FEVER])
    assert first == (0, pytest.approx((np.cos(np.radians(10)) - 0.5) / 0.5, abs=1e-6))
    assert second == (1, pytest.approx((np.cos(np.radians(30)) - 0.5) / 0.5, abs=1e-6))
    # of equally near ones the first
    assert SenseFilter(Plane(fever=0, pyrexia=60, Fieber=30, Pyrexie=30), 0.5, 1.0)([FEVER])[0][0][0] == 0


def test_thresholds_against_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.training.biolord.multilingual._AT_ONCE", 4)
    rng = np.random.default_rng(0)
    angles = {f"{kind}{i}": float(rng.uniform(0, 180)) for kind in "stu" for i in range(11)}
    groups = [Aligned((f"s{i}", f"t{i}"), (f"u{i}",), ("de",)) for i in range(11)]

    def cosine(one: str, other: str) -> float:
        return float(np.cos(np.radians(angles[one] - angles[other])))

    own = [max(cosine(f"u{i}", f"s{i}"), cosine(f"u{i}", f"t{i}")) for i in range(11)]
    chance = [max(cosine(f"u{i}", f"s{(i + 5) % 11}"), cosine(f"u{i}", f"t{(i + 5) % 11}")) for i in range(11)]
    low, high = thresholds(Plane(**angles), groups)
    assert low == pytest.approx(np.quantile(chance, 0.95), abs=1e-6)
    assert high == pytest.approx(np.median(own), abs=1e-6)
    with pytest.raises(ConfigError, match="one alignment does not show what chance reaches"):
        thresholds(Plane(**angles), groups[:1])


def test_entries_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.training.biolord.multilingual._AT_ONCE", 1)
    rash = Aligned(("rash",), ("Ausschlag", "Hast"), ("de", "de"))
    weights = {"fever": [(1, 0.5), (0, 1.0)], "rash": [(0, 1.0), (0, 0.0)]}
    found = list(aligned_entries([FEVER, rash], lambda some: [weights[one.sources[0]] for one in some]))
    assert found == [
        Entry("fever", 0),
        Entry("pyrexia", 1),
        Entry("Fieber", 1, 0.0, 0.5),
        Entry("Pyrexie", 0, 0.0, 1.0),
        Entry("rash", 2),
        Entry("Ausschlag", 2, 0.0, 1.0),
    ]
    assert first_source([FEVER]) == [[(0, 1.0), (0, 1.0)]]


# the phase


def test_the_folder_holds_the_student_and_a_card(student: Path, teacher: Path, whole: Path) -> None:
    assert [path.name for path in whole.parent.iterdir()] == ["out"]
    encoder = load_encoder(whole)
    card = (whole / "README.md").read_text("utf-8")
    prints = [load_encoder(folder).fingerprint for folder in (student, teacher)]
    for fact in (
        encoder.fingerprint,
        *prints,
        "languages: de",
        "names in other languages: 12",
        '"seed": 3',
        "steps: 16",
    ):
        assert fact in card
    assert "similarity filter" not in card
    assert json.loads(card.split("```json")[1].split("```")[0]) == RECIPE.to_dict()


@pytest.mark.parametrize("at", ["embedding", "step 3/"])
def test_a_run_killed_goes_on_to_the_same_weights(
    at: str, student: Path, teacher: Path, whole: Path, tmp_path: Path
) -> None:
    def kill(line: str) -> None:
        if line.startswith(at):
            raise Killed

    with pytest.raises(Killed):
        distil(student, teacher, tmp_path / "out", progress=kill, checkpoint_steps=2)
    if at == "embedding":
        # nothing is lost that could be gone on from
        assert not list(tmp_path.iterdir())
    else:
        with pytest.raises(ConfigError, match="the folder holds an unfinished run"):
            distil(student, teacher, tmp_path / "out")
        with pytest.raises(ConfigError, match=rf"the unfinished run has epochs {RECIPE.epochs} \(now 5\)"):
            distil(student, teacher, tmp_path / "out", RECIPE.replace(epochs=5), resume=True)
    lines: list[str] = []
    assert (
        distil(student, teacher, tmp_path / "out", resume=True, progress=lines.append)
        == load_encoder(whole).fingerprint
    )
    assert any(line.startswith("embedding") for line in lines) == (at == "embedding")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_student_of_another_width(narrow: Path, teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"embeds in 12 dimensions, the teacher in 16\. Remedy: name") as no:
        distil(narrow, teacher, tmp_path / "out")
    assert "add a linear layer with project" in str(no.value)
    assert not list(tmp_path.iterdir())
    distil(narrow, teacher, tmp_path / "wide", RECIPE.replace(project=True))
    assert load_encoder(tmp_path / "wide").dimension == 16


def test_the_layer_comes_before_the_normalisation(narrow: Path) -> None:
    model = SentenceTransformer(str(narrow), device="cpu")
    assert fitted(model, 12, seed=1) is model
    ending = SentenceTransformer(modules=[*model, Normalize()])
    wide = fitted(ending, 16, seed=1)
    assert [type(module).__name__ for module in wide] == ["Transformer", "Pooling", "Dense", "Normalize"]
    np.testing.assert_allclose(np.linalg.norm(wide.encode(["ache"]), axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(fitted(ending, 16, seed=1).encode(["ache"]), wide.encode(["ache"]))
    assert not np.array_equal(fitted(ending, 16, seed=2).encode(["ache"]), wide.encode(["ache"]))


def test_what_it_refuses(student: Path, teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one of low and high is given without the other"):
        distil(student, teacher, tmp_path / "out", RECIPE.replace(filter="builtin", low=0.5))
    with pytest.raises(ConfigError, match="low and high are of a similarity filter, and there is none"):
        distil(student, teacher, tmp_path / "out", RECIPE.replace(low=0.5, high=0.6))
    with pytest.raises(ConfigError, match="low is 2, at most 1 expected"):
        RECIPE.replace(low=2)
    with pytest.raises(ConfigError, match="no nearer than chance"):
        distil(student, teacher, tmp_path / "same", RECIPE.replace(filter="builtin", low=0.6, high=0.6))
    with pytest.raises(EncoderError, match="a static encoder cannot be trained by this phase"):
        distil("builtin", teacher, tmp_path / "static")  # type: ignore[arg-type]  # a name
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(ConfigError, match=r"the folder is not empty and holds no encoder"):
        distil(student, teacher, tmp_path / "taken")
