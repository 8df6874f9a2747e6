"""``medlink evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import medlink
from medlink.errors import ConfigError, InputError
from medlink.evaluation import TASKS, sweep
from medlink.evaluation.names import read_dictionary
from medlink.files.problems import Problems
from medlink.models import load_encoder
from tests.evaluation.commands import noise, rows, run

TABLE = Path(medlink.__file__).parent / "resources" / "demo" / "terminology.tsv"


def test_clustering_says_what_the_library_says(tmp_path: Path) -> None:
    result = run("clustering", TABLE, "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0, result.output
    names = read_dictionary(TABLE, Problems())
    found = sweep(names.owners, load_encoder().encode(names.texts))
    best = found.to_dicts()[found.best]
    head, columns, values = result.stdout.splitlines()
    assert head == (
        f"{len(names)} names of 479 concepts, {found.true_pairs} true pairs, "
        f"{found.listed_true_pairs / found.true_pairs:.1%} of them among the 50 nearest"
    )
    assert columns.split() == ["theta0", "P", "R", "F1", "TP", "FP", "FN", "TN"]
    assert values.split() == [
        *(f"{best[name]:.3f}" for name in ("threshold", "precision", "recall", "f1")),
        *(str(best[name]) for name in ("tp", "fp", "fn", "tn")),
    ]
    table = rows(tmp_path / "out.tsv")
    assert len(table) == 70
    assert [int(row["tp"]) for row in table] == found.tp.tolist()
    np.testing.assert_allclose([float(row["f1"]) for row in table], found.f1, rtol=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["out.tsv"]


def test_each_option_of_clustering_changes_the_output() -> None:
    small = ("clustering", TABLE, "--sample", 200)
    base = run(*small).stdout
    assert run(*small).stdout == base
    for options in (("--neighbours", 2), ("--thresholds", "0.1:0.2:0.1"), ("--sample", 300), ("--seed", 2)):
        assert run(*small, *options).stdout != base, options


def test_clustering_with_another_encoder(tmp_path: Path) -> None:
    options = ("--sample", 300, "--encoder", noise(tmp_path), "--plot", tmp_path / "a.svg")
    pytest.importorskip("matplotlib")
    assert run("clustering", TABLE, *options).stdout != run("clustering", TABLE, "--sample", 300).stdout
    assert "noise: F1 " in (tmp_path / "a.svg").read_text("utf-8")


@pytest.mark.parametrize(
    "bad",
    ["0.5", "0.5:0.4:0.1", "0:1:0", "0:2:0.1", "a:b:c", "0:1:0.0001", "nan:1:0.1", "0.3:0.9:inf", "0.3:0.9:1e-9999999"],
)
def test_thresholds_that_are_none(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"thresholds is .*, START:STOP:STEP expected"):
        run("clustering", TABLE, "--thresholds", bad)


def test_what_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the folder of the table does not exist\. Remedy: make it"):
        run("clustering", "missing.tsv", "-o", tmp_path / "nowhere" / "a.tsv")
    with pytest.raises(ConfigError, match="unknown format of a picture"):
        run("clustering", "missing.tsv", "--plot", tmp_path / "a.doc")
    (tmp_path / "a.tsv").mkdir()
    for name in (tmp_path / "a.tsv", "."):
        with pytest.raises(ConfigError, match=r"the table is a folder\. Remedy: name a file"):
            run("clustering", "missing.tsv", "-o", name)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tsv"]


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("concept_id\tname\nA\tasthma\nA\tAsthma\n", "utf-8")
    with pytest.raises(ConfigError, match=r"names\.tsv: the table is the input\. Remedy: name another file"):
        run("clustering", names, "-o", names)
    with pytest.raises(ConfigError, match=r"a\.svg: the picture and the table are one file"):
        run("clustering", names, "-o", tmp_path / "a.svg", "--plot", tmp_path / "a.svg")
    with pytest.raises(ConfigError, match="seed is -1, at least 0 expected"):
        run("clustering", names, "--seed", -1)
    assert names.read_text("utf-8").startswith("concept_id")


GOLD = "concept_id\tname\tlanguage\nA\tasthma\ten\nA\tAsthma\tde\nB\tcough\ten\nC\tfever\ten\n"


def test_partition(tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold.tsv", tmp_path / "clusters.tsv"
    gold.write_text(GOLD, "utf-8")
    predicted.write_text("cluster\tterm\n1\tasthma\n1\tAsthma\n1\tcough\n2\tunknown\n", "utf-8")
    assert run("partition", predicted, gold).stdout.splitlines() == [
        "3 terms in 1 clusters, 1.000 of those of several terms mixed; "
        "1 without a concept and 1 without a cluster left out",
        "measure                 P      R      F1",
        "pairs                   0.333  1.000  0.500",
        "B-cubed                 0.556  1.000  0.714",
        "pairs of two languages  -      1.000  -",
    ]
    predicted.write_text("cluster\tterm\n1\tcough\n2\tfever\n", "utf-8")
    assert run("partition", predicted, gold).stdout.splitlines()[-1] == "pairs of two languages  -      -      -"
    predicted.write_text("cluster\tterm\n1\tCOUGH\n", "utf-8")
    with pytest.raises(InputError, match=r"clusters\.tsv: none of its terms is a name in .*gold\.tsv\. Remedy: give"):
        run("partition", predicted, gold)


def test_rows_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold.csv", tmp_path / "clusters.tsv"
    names = [f"A,name {n}" for n in range(20)]
    gold.write_text("\n".join(["id,name", *names, 'B,"x', 'B,y"', "C,z", ""]), "utf-8")
    predicted.write_text("cluster\tterm\n1\tname 1\n1\tname 2\n2\t\n", "utf-8")
    said = run("partition", predicted, gold).stderr
    assert "rows that cannot be used: 2 (swallowed by a quote, the first at " in said
    assert "rows that cannot be used: 1 (empty term or cluster, the first at " in said
    assert "rows that cannot be used: 2 (swallowed by a quote, the first at " in run("clustering", gold).stderr


def test_partition_by_language(tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold.tsv", tmp_path / "clusters.tsv"
    gold.write_text("id\tname\tlanguage\nA\tgift\ten\nA\tleft  arm\ten\nB\tgift\tde\nB\tVenenum\tde\n", "utf-8")
    rows = "1\tgift\ten\n1\tleft arm\ten\n2\tVenenum\tde\n"
    predicted.write_text("cluster\tterm\tlanguage\n" + rows + "2\tgift\tde\n", "utf-8")
    head, _, pairs, _, across = run("partition", predicted, gold).stdout.splitlines()
    assert head.startswith("4 terms in 2 clusters, 0.000 of those of several terms mixed; 0 without a concept and 0 ")
    assert pairs.split() == ["pairs", "1.000", "1.000", "1.000"]
    assert across.split()[-2:] == ["-", "-"]
    predicted.write_text("cluster\tterm\tlanguage\n" + rows, "utf-8")
    assert run("partition", predicted, gold).stdout.startswith("3 terms in 2 clusters, 0.000 of")
    predicted.write_text("cluster\tterm\tlanguage\n" + rows + "2\tgift\tde\n", "utf-8")
    gold.write_text("id\tname\nA\tgift\n", "utf-8")
    with pytest.raises(
        InputError, match=r"a cluster for each language, and .*gold\.tsv names no language\. Remedy: give"
    ):
        run("partition", predicted, gold)


def test_measures_as_csv_and_json(tmp_path: Path) -> None:
    gold, predicted = tmp_path / "gold.tsv", tmp_path / "clusters.tsv"
    gold.write_text(GOLD, "utf-8")
    predicted.write_text("cluster\tterm\n1\tasthma\n1\tAsthma\n1\tcough\n2\tunknown\n", "utf-8")
    assert run("partition", predicted, gold, "--format", "csv").stdout.splitlines()[:2] == [
        "measure,P,R,F1",
        "pairs,0.333333,1,0.5",
    ]
    found = json.loads(run("partition", predicted, gold, "--format", "json").stdout)
    assert found["head"].startswith("3 terms in 1 clusters")
    assert found["table"][2] == {"measure": "pairs of two languages", "P": None, "R": 1.0, "F1": None}


def test_every_task_says_what_it_reads_and_what_each_option_means() -> None:
    for name, task in TASKS.items():
        help_ = run(name, "--help").stdout
        for argument in task.inputs:
            assert argument.removesuffix("...").upper() in help_
        for option in task.model_fields:
            assert task.model_fields[option].description
            assert f"--{option.replace('_', '-')}" in help_
