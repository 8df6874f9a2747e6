"""Cross-lingual distillation: alignments, weights by hand, and a student that learns another language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from medlink.errors import ConfigError, EncoderError, InputError
from medlink.models import Encoder
from medlink.records import Name
from medlink.training import BioLordTrainer
from medlink.training.biolord.multilingual import (
    AlignedNames,
    Alignments,
    aligned_entries,
    alignment_weights,
    estimate_thresholds,
    iter_aligned_names,
    match_width,
    read_alignments,
)
from medlink.training.data.text_store import TextEntry
from medlink.training.recipes import MultilingualRecipe
from tests.training.trained import fingerprint, missing, recipe_on_card

# a made-up language: English words with their letters shifted by 13
WORDS = ("ache", "bone", "cold", "dent", "ear", "fat", "gum", "hip", "ill", "jaw", "knee", "leg")
ROT = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
NAMES = [
    name
    for i, word in enumerate(WORDS)
    for name in (Name(f"C{i:02}", word.translate(ROT), "de"), Name(f"C{i:02}", word, "en", preferred=True))
]
RECIPE = MultilingualRecipe(epochs=2, batch_size=6, learning_rate=1e-2, warmup=0.1, seed=3, filter="")
FEVER = AlignedNames(("fever", "pyrexia"), ("Fieber", "Pyrexie"), ("de", "de"))


class Plane:
    """An encoder of two dimensions that knows a few words by their angles in degrees."""

    dimension, fingerprint = 2, "plane"

    def __init__(self, **angles: float) -> None:
        self.angles = angles

    def encode(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        angles = np.radians([self.angles[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def save(self, folder: str | Path) -> Path:
        raise NotImplementedError


def distil(student: Path, teacher: Path, out: Path, recipe: MultilingualRecipe = RECIPE) -> Encoder:
    return BioLordTrainer(Alignments(["de"], names=lambda: NAMES), student, recipe, teacher=teacher).train(out)


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
    both = AlignedNames(("heart", "Cor"), ("Herz", "corazón"), ("de", "es"))
    assert list(iter_aligned_names(names, ["de", "es"])) == [both]


def test_a_table_and_a_knowledge_base_are_joined_and_iterated_twice(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text(
        "\ufeffnote\ttarget\tlanguage\tsource\n\nx\tcefalea\tES-ES\theadache\nx\tmal\tfr\tpain\n", encoding="utf-8"
    )
    both = Alignments(["es", "de", "en", "es"], names=lambda: iter(NAMES[:2]), table=table)
    expected = [AlignedNames(("ache",), ("npur",), ("de",)), AlignedNames(("headache",), ("cefalea",), ("es",))]
    assert list(both) == list(both) == expected
    assert both.languages == ("es", "de")


def test_a_missing_language() -> None:
    with pytest.raises(ConfigError, match=r"no name in es is aligned with one in en; there are some in de \(12\)"):
        list(Alignments(["de", "es"], names=lambda: NAMES))
    with pytest.raises(ConfigError, match="no name in fr is aligned with one in en; there are some in no language"):
        list(Alignments(["fr"], names=lambda: NAMES))
    with pytest.raises(ConfigError, match="no language besides en"):
        Alignments(["en"], names=lambda: NAMES)
    with pytest.raises(ConfigError, match="nothing to align"):
        Alignments(["de"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "table.tsv: the file is empty"),
        (b"source\ttarget\n", "table.tsv:1: looked for the columns source, target, language"),
        (b"source\ttarget\tlanguage\na\tb\n", "table.tsv:2: 1 of 1 rows"),
        (b"source\ttarget\tlanguage\na\tb\tde\na\t \tde\n", "table.tsv:3: 1 of 2 rows cannot be used (empty cell: 1)"),
        (b"source\ttarget\tlanguage\na\t\xff\tde\n", "table.tsv:2: 1 of 1 rows cannot be used (not UTF-8: 1)"),
        (None, "table.tsv: "),
    ],
)
def test_bad_tables(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "table.tsv").write_bytes(content)
    with pytest.raises(InputError) as error:
        list(read_alignments(tmp_path / "table.tsv", ["de"]))
    assert message in str(error.value)


# weights


def test_weights_by_hand() -> None:
    cosines = np.array([[-1.0, 0.2], [0.3, 0.5]])
    np.testing.assert_allclose(alignment_weights(cosines, 0.2, 0.4), [[0, 0], [0.5, 1]])
    assert alignment_weights(np.array([]), 0.2, 0.4).shape == (0,)
    for low, high in ((0.4, 0.4), (0.5, 0.4), (float("nan"), 0.4)):
        with pytest.raises(ConfigError, match=r"finds translations \(cosine 0.40\) no nearer than chance"):
            alignment_weights(np.array([0.1]), low, high)


def test_entries_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.training.biolord.multilingual._GROUPS", 1)
    rash = AlignedNames(("rash",), ("Ausschlag", "Hast"), ("de", "de"))
    sources = [TextEntry("fever", 0), TextEntry("pyrexia", 1), TextEntry("rash", 2)]
    plain = [("Fieber", 0), ("Pyrexie", 0)], [("Ausschlag", 2), ("Hast", 2)]
    first, second = ([TextEntry(text, row, 0.0, 1.0) for text, row in texts] for texts in plain)
    assert list(aligned_entries([FEVER, rash])) == [*sources[:2], *first, sources[2], *second]
    # of equally near sources the first, and no pair at 90 degrees
    plane = Plane(fever=0, pyrexia=60, Fieber=30, Pyrexie=80, rash=0, Ausschlag=10, Hast=90)
    found = list(aligned_entries([FEVER, rash], plane, 0.5, 1.0))
    texts = [("fever", 0), ("pyrexia", 1), ("Fieber", 0), ("Pyrexie", 1), ("rash", 2), ("Ausschlag", 2)]
    assert [(entry.text, entry.row) for entry in found] == texts
    weights = [(np.cos(np.radians(angle)) - 0.5) / 0.5 for angle in (30, 20, 10)]
    assert [found[i].weight for i in (2, 3, 5)] == pytest.approx(weights, abs=1e-6)
    assert {found[i].share for i in (2, 3, 5)} == {0.0}


def test_thresholds_against_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.training.biolord.multilingual._GROUPS", 4)
    rng = np.random.default_rng(0)
    angles = {f"{kind}{i}": float(rng.uniform(0, 180)) for kind in "stu" for i in range(11)}
    groups = [AlignedNames((f"s{i}", f"t{i}"), (f"u{i}",), ("de",)) for i in range(11)]

    def best(i: int, j: int) -> float:
        return max(float(np.cos(np.radians(angles[f"u{i}"] - angles[f"{kind}{j}"]))) for kind in "st")

    low, high = estimate_thresholds(Plane(**angles), groups)
    assert low == pytest.approx(np.quantile([best(i, (i + 5) % 11) for i in range(11)], 0.95), abs=1e-6)
    assert high == pytest.approx(np.median([best(i, i) for i in range(11)]), abs=1e-6)
    with pytest.raises(ConfigError, match="one alignment does not show"):
        estimate_thresholds(Plane(**angles), groups[:1])


# the phase


@pytest.mark.slow
def test_the_folder_holds_the_student_and_a_card(bert: Path, other_bert: Path, tmp_path: Path) -> None:
    encoder = distil(bert, other_bert, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    facts = ("languages: de", "names in other languages: 12", "steps: 8")
    prints = (encoder.fingerprint, fingerprint(bert), fingerprint(other_bert))
    assert missing(tmp_path / "out", *facts, *prints, "similarity filter") == ["similarity filter"]
    assert recipe_on_card(tmp_path / "out") == RECIPE.to_dict()


@pytest.mark.slow
def test_a_student_of_another_width(narrow_bert: Path, other_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"embeds in 12 dimensions, the teacher in 16\. .* with project"):
        distil(narrow_bert, other_bert, tmp_path / "out")
    assert not list(tmp_path.iterdir())
    assert distil(narrow_bert, other_bert, tmp_path / "wide", RECIPE.replace(project=True, epochs=1)).dimension == 16


def test_the_layer_comes_before_the_normalisation(narrow_bert: Path) -> None:
    model = SentenceTransformer(str(narrow_bert), device="cpu")
    assert match_width(model, 12, seed=1) is model
    normalised = SentenceTransformer(modules=[*model, Normalize()])
    wide = match_width(normalised, 16, seed=1)
    assert [type(module).__name__ for module in wide] == ["Transformer", "Pooling", "Dense", "Normalize"]
    np.testing.assert_allclose(np.linalg.norm(wide.encode(["ache"]), axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(match_width(normalised, 16, seed=1).encode(["ache"]), wide.encode(["ache"]))
    assert not np.array_equal(match_width(normalised, 16, seed=2).encode(["ache"]), wide.encode(["ache"]))


@pytest.mark.slow
def test_refusals(bert: Path, other_bert: Path, tmp_path: Path) -> None:
    for options, message in (
        ({"filter": "builtin", "low": 0.5}, "one of low and high is given without the other"),
        ({"low": 0.5, "high": 0.6}, "low and high are of a similarity filter, and there is none"),
        ({"low": 2}, "low is 2, at most 1 expected"),
    ):
        with pytest.raises(ConfigError, match=message):
            RECIPE.replace(**options)
    with pytest.raises(ConfigError, match="no nearer than chance"):
        distil(bert, other_bert, tmp_path / "same", RECIPE.replace(filter="builtin", low=0.6, high=0.6))
    with pytest.raises(EncoderError, match="a static encoder cannot be trained by this phase"):
        distil(Path("builtin"), other_bert, tmp_path / "static")
