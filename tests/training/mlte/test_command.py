"""``medlink train mlte``, and the tasks that measure what it wrote."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import medlink
from medlink.errors import ConfigError, InputError
from medlink.evaluation import TASKS, correlate
from medlink.training import MlteRegressor
from tests.cli.runner import error_of, run
from tests.training.small_bert import small_bert

pytestmark = pytest.mark.slow

ROWS = [(f"{chr(97 + i)} stone", f"{chr(97 + i // 2)} stone", i % 5, "ab"[i % 2]) for i in range(20)]
DEMO = Path(medlink.__file__).parent / "resources" / "demo" / "terminology.tsv"
TEXTS = [row[0] for row in ROWS], [row[1] for row in ROWS]
SHORT = ("--head-epochs", 3, "--beta", 0, "--beta", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer, a table, and two regressors, one of which asks for an extra feature."""
    folder = tmp_path_factory.mktemp("mlte")
    small_bert(folder, layers=2)
    lines = ["text_1\ttext_2\tscore\tkind", *("\t".join(map(str, row)) for row in ROWS)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    named = ("train", "mlte", folder / "pairs.tsv", "--start", folder / "model", "--dev", folder / "pairs.tsv", *SHORT)
    output = run(*named, "-o", folder / "out").stdout
    figures = MlteRegressor.load(folder / "out").record["figures"]
    best = f"beta {figures['beta']:g}, {max(figures['dev by beta']):.4f} on the development pairs"
    assert output.strip() == f"{folder / 'out'}: regressor of pairs, trained on 20, {best}"
    run(*named, "-o", folder / "extra", "--extra", "kind")
    return folder


def test_sts_and_similarity_by_a_regressor(folder: Path, tmp_path: Path) -> None:
    scores = MlteRegressor.load(folder / "out").score(*TEXTS)
    run("evaluate", "sts", folder / "pairs.tsv", "--encoder", folder / "out", "-o", tmp_path / "items.tsv")
    with (tmp_path / "items.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert list(rows[0]) == ["file", "row", "id_1", "id_2", "rating", "score"]
    np.testing.assert_allclose([float(row["score"]) for row in rows], scores, rtol=1e-4, atol=1e-5)
    ratings = [row[2] for row in ROWS]
    for task, measures in (("sts", ("pearson", "spearman")), ("similarity", ("spearman",))):
        for encoder in (str(folder / "out"), MlteRegressor.load(folder / "out")):
            table = TASKS[task](resamples=5).run([folder / "pairs.tsv"], encoder).table
            expected = [correlate(ratings, scores, measure=measure).value for measure in measures]
            assert [row["value"] for row in table] == pytest.approx(expected)
    cosines = TASKS["sts"](resamples=5).run([folder / "pairs.tsv"], str(folder / "out" / "encoder")).table
    assert cosines[0]["value"] != pytest.approx(expected[0])


def test_triplets_by_a_regressor(folder: Path, tmp_path: Path) -> None:
    texts = [("a stone", "b stone", "a cat"), ("c stone", "cat", "c stone"), ("x", "y", "zz z")]
    lines = ["premise\tentailed\tcontradicted", *("\t".join(row) for row in texts)]
    (tmp_path / "triplets.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    report = TASKS["similarity"]().run([tmp_path / "triplets.tsv"], str(folder / "out"))
    premises, *others = zip(*texts, strict=True)
    regressor = MlteRegressor.load(folder / "out")
    near, far = (regressor.score(premises, some) for some in others)
    assert report.table[0]["value"] == pytest.approx(float((near > far).mean()))
    with pytest.raises(ConfigError, match="rows of extra features, 3 of kind expected"):
        TASKS["similarity"]().run([tmp_path / "triplets.tsv"], str(folder / "extra"))


def test_extra_features_are_read_with_the_pairs(folder: Path, tmp_path: Path) -> None:
    scores = MlteRegressor.load(folder / "extra").score(*TEXTS, [(row[3],) for row in ROWS])
    table = TASKS["sts"](resamples=5).run([folder / "pairs.tsv"], str(folder / "extra")).table
    assert table[0]["value"] == pytest.approx(correlate([row[2] for row in ROWS], scores, measure="pearson").value)
    assert scores.tolist() != MlteRegressor.load(folder / "out").score(*TEXTS).tolist()
    (tmp_path / "bare.tsv").write_text("text_1\ttext_2\tscore\na\tb\t1\nc\td\t2\n", "utf-8")
    with pytest.raises(InputError, match="looked for the columns kind; found 3 columns"):
        TASKS["sts"]().run([tmp_path / "bare.tsv"], str(folder / "extra"))


def test_refusals(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["train", "mlte", str(folder / "pairs.tsv"), "--start", str(folder / "model"), "-o", str(tmp_path / "x")]
    for words, message in (
        (["--epochs", "2"], "--epochs is given without --fine-tune. Remedy: give --fine-tune, or leave"),
        (["--dropout", "0"], "--dropout is given without --fine-tune"),
        (["--fine-tune", "--patience", "2"], "--patience is 2 and there is no dev"),
        ([], "7 betas and no pairs to choose by. Remedy: name rated pairs as"),
        (["--beta", "-1"], "--beta is (-1.0,), at least 0 and at most 1e+06 expected"),
        (["--beta", "1", "--extra", "sex"], "looked for the columns sex; found 4 columns"),
        (["--beta", "1", "--kind", "classifier"], "a classifier needs labels 0 and 1"),
    ):
        assert message in error_of(capsys, *named, *words), words
    with pytest.raises(ConfigError, match=r"a regressor of pairs gives no embeddings, which this task needs\. Remedy"):
        TASKS["clustering"](sample=9).run([DEMO], str(folder / "out"))
    assert list(tmp_path.iterdir()) == []
