"""``medlink evaluate similarity`` and ``sts``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import medlink
from medlink.errors import ConfigError, InputError
from medlink.evaluation import correlate, pair_cosines, triplet_accuracy
from medlink.models import load_encoder
from tests.evaluation.commands import noise, rows, run

TABLE = Path(medlink.__file__).parent / "resources" / "demo" / "terminology.tsv"
PAIRS = [
    ("A", "fever", "B", "pyrexia", 3.0),
    ("A", "fever", "C", "fracture of the arm", 0.0),
    ("C", "fracture of the arm", "D", "broken arm", 2.5),
    ("E", "asthma", "F", "bronchial asthma", 2.0),
    ("E", "asthma", "G", "diabetes", 0.0),
    ("H", "cough", "F", "bronchial asthma", 1.0),
]
TRIPLETS = [("He has fever.", "His temperature is high: fever.", "No illness."), ("cough", "He coughs", "a cough")]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    head = "id_1\ttext_1\tid_2\ttext_2\tscore"
    lines = ["\t".join(map(str, row)) for row in PAIRS]
    (tmp_path / "pairs.tsv").write_text("\n".join([head, *lines]) + "\n", "utf-8")
    return tmp_path / "pairs.tsv"


@pytest.fixture
def triplets(tmp_path: Path) -> Path:
    lines = ["premise\tentailed\tcontradicted", *("\t".join(row) for row in TRIPLETS)]
    (tmp_path / "triplets.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path / "triplets.tsv"


def cosines(one: list[str], other: list[str]) -> NDArray[np.float32]:
    encode = load_encoder().encode
    return pair_cosines(encode(one), encode(other))


def test_similarity_says_what_the_library_says(pairs: Path, triplets: Path, tmp_path: Path) -> None:
    result = run("similarity", pairs, "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0, result.output
    near = cosines([row[1] for row in PAIRS], [row[3] for row in PAIRS])
    found = correlate([row[4] for row in PAIRS], near)
    assert result.stdout.splitlines()[0] == "6 items of 1 file"
    assert result.stdout.splitlines()[1].split() == ["file", "items", "measure", "value", "low", "high"]
    figures = [f"{value:.3f}" for value in (found.value, found.low, found.high)]
    assert result.stdout.splitlines()[2].split() == ["pairs.tsv", "6", "spearman", *figures]
    table = rows(tmp_path / "out.tsv")
    assert [(row["row"], row["id_1"], row["id_2"]) for row in table[:2]] == [("2", "A", "B"), ("3", "A", "C")]
    np.testing.assert_allclose([float(row["cosine"]) for row in table], near, atol=1e-5)
    assert "fever" not in (tmp_path / "out.tsv").read_text("utf-8")
    both = run("similarity", pairs, triplets).stdout.splitlines()
    assert both[0] == "8 items of 2 files"
    assert both[2].split() == result.stdout.splitlines()[2].split()


def test_triplets(triplets: Path, tmp_path: Path) -> None:
    result = run("similarity", triplets, "-o", tmp_path / "out.tsv")
    near = cosines([row[0] for row in TRIPLETS], [row[1] for row in TRIPLETS])
    far = cosines([row[0] for row in TRIPLETS], [row[2] for row in TRIPLETS])
    found = triplet_accuracy(near, far)
    figures = [f"{value:.3f}" for value in (found.value, found.low, found.high)]
    assert result.stdout.splitlines()[-1].split() == ["triplets.tsv", "2", "accuracy", *figures]
    assert [row["row"] for row in rows(tmp_path / "out.tsv")] == ["2", "3"]
    np.testing.assert_allclose([float(row["contradicted"]) for row in rows(tmp_path / "out.tsv")], far, atol=1e-5)


def test_sts_says_what_the_library_says(pairs: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("".join(f'"{row[1]}","{row[3]}",{row[4]}\n' for row in PAIRS), "utf-8")
    near = cosines([row[1] for row in PAIRS], [row[3] for row in PAIRS])
    found = run("sts", plain, pairs).stdout.splitlines()[2:]
    for line, name in zip(found, ("pearson", "spearman") * 2, strict=True):
        wanted = correlate([row[4] for row in PAIRS], near, measure=name)
        assert line.split()[1:4] == ["6", name, f"{wanted.value:.3f}"]


@pytest.mark.parametrize("command", ["similarity", "sts"])
def test_each_option_changes_the_output(command: str, tmp_path: Path) -> None:
    names = [row["name"] for row in rows(TABLE)[:80]]
    ratings = np.random.default_rng(5).normal(size=40).tolist()
    pairs = tmp_path / "many.csv"
    lines = [
        f'"{one}","{other}",{rating}\n' for one, other, rating in zip(names[::2], names[1::2], ratings, strict=True)
    ]
    pairs.write_text("".join(lines), "utf-8")
    small = (command, pairs, "--sample", 30, "--seed", 3)
    base = run(*small).stdout
    assert run(*small).stdout == base
    for options in (("--sample", 40), ("--seed", 1), ("--resamples", 9), ("--encoder", noise(tmp_path))):
        assert run(*small, *options).stdout != base, options


def test_bad_rows_are_said(pairs: Path) -> None:
    with pairs.open("a", encoding="utf-8") as file:
        file.write("A\tfever\tB\t\t1\nA\tfever\tB\tcough\tmuch\n")
    result = run("similarity", pairs)
    assert result.stdout.startswith("6 items of 1 file")
    assert f"rows that cannot be used: 1 (empty text, the first at {pairs}:8)" in result.stderr
    assert f"rows that cannot be used: 1 (rating that is not a number, the first at {pairs}:9)" in result.stderr


def test_refusals(pairs: Path, triplets: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pairs\.tsv: the table is the input"):
        run("similarity", pairs, "-o", pairs)
    with pytest.raises(InputError, match=r"triplets\.tsv:1: looked for the columns of rated pairs; found 3 columns"):
        run("sts", triplets)
    with pytest.raises(InputError, match=r"missing\.tsv: no such file"):
        run("similarity", tmp_path / "missing.tsv")
    one = tmp_path / "one.tsv"
    one.write_text("text_1\ttext_2\tscore\na\tb\t1\n", "utf-8")
    with pytest.raises(InputError, match=r"one\.tsv: 1 rated pairs, two or more expected\. Remedy: give more pairs"):
        run("similarity", one)
    one.write_text("text_1\ttext_2\tscore\na\tb\t1\na\tc\t1\n", "utf-8")
    with pytest.raises(InputError, match=r"one\.tsv: the ratings are all equal, so no correlation is defined"):
        run("sts", one)
    assert run("similarity").exit_code == 2
    with pytest.raises(ConfigError, match="sample is 1, at least 2 expected"):
        run("sts", pairs, "--sample", 1)
