"""``medlink evaluate``: commands print the reports of their tasks; rows left out; refusals before the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import medlink
from medlink.errors import ConfigError, InputError
from medlink.evaluation import TASKS, clusters
from medlink.kb import Input, build_kb
from tests.cli.runner import write
from tests.evaluation.commands import noise, rows, run

TABLE = Path(medlink.__file__).parent / "resources" / "demo" / "terminology.tsv"
GOLD = "concept_id\tname\tlanguage\nA\tasthma\ten\nA\tAsthma\tde\nB\tcough\ten\nC\tfever\ten\n"
PAIRS = [
    ("A", "fever", "B", "pyrexia", 3.0),
    ("A", "fever", "C", "fracture of the arm", 0.0),
    ("C", "fracture of the arm", "D", "broken arm", 2.5),
    ("E", "asthma", "F", "bronchial asthma", 2.0),
    ("H", "cough", "F", "bronchial asthma", 1.0),
]
TRIPLETS = [("He has fever.", "His temperature is high: fever.", "No illness."), ("cough", "He coughs", "a cough")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small inputs of every task."""
    folder = tmp_path_factory.mktemp("evaluate")
    cut = [[row["concept_id"], row["name"][: len(row["name"]) // 2 + 1], row["language"]] for row in rows(TABLE)]
    for name, header, lines in (
        (
            "queries",
            "concept_id\tname\tlanguage",
            [*cut[:240:6], ("X:1", "Hausbegriff", "de"), ("-1", "nothing", "de")],
        ),
        ("pairs", "id_1\ttext_1\tid_2\ttext_2\tscore", PAIRS),
        ("one", "text_1\ttext_2\tscore", [("a", "b", 1)]),
        ("equal", "text_1\ttext_2\tscore", [("a", "b", 1), ("a", "c", 1)]),
        ("triplets", "premise\tentailed\tcontradicted", TRIPLETS),
        ("clusters", "cluster\tterm", [(1, "asthma"), (1, "Asthma"), (1, "cough"), (2, "unknown")]),
    ):
        write(folder / f"{name}.tsv", *("\t".join(map(str, line)) for line in lines), header=header)
    names = TABLE.read_text("utf-8").splitlines()[:300]
    (folder / "names.tsv").write_text("\n".join(names) + "\n", "utf-8")
    (folder / "gold.tsv").write_text(GOLD, "utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "inputs", "options"),
    [
        ("clustering", ["names.tsv"], {"neighbours": 2, "thresholds": "0.1:0.9:0.1", "sample": 200, "seed": 2}),
        ("retrieval", ["names.tsv", "queries.tsv"], {"depth": 5, "rank_by": "concepts", "sample": 30}),
        ("similarity", ["pairs.tsv", "triplets.tsv"], {"resamples": 9, "seed": 3}),
        ("sts", ["pairs.tsv"], {"sample": 4}),
        ("partition", ["clusters.tsv", "gold.tsv"], {}),
    ],
)
def test_a_command_prints_the_report_of_its_task(
    task: str, inputs: list[str], options: dict[str, object], files: Path, tmp_path: Path
) -> None:
    paths = [files / name for name in inputs]
    report = TASKS[task](**options).run(paths)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    out = ["-o", tmp_path / "out.tsv"] if TASKS[task].has_items else []
    done = run(task, *paths, *words, *out)
    assert (done.exit_code, done.stdout) == (0, report.text() + "\n")
    if task == "sts":
        assert run(task, *paths, *words, "--format", "csv").stdout == report.csv() + "\n"
        assert json.loads(run(task, *paths, *words, "--format", "json").stdout) == json.loads(report.json())
    if out:
        written = rows(tmp_path / "out.tsv")
        assert len(written) == len(report.items)
        # rows of pairs and of triplets, each under its own columns
        for row, item in zip(written, report.items, strict=True):
            assert {name for name, cell in row.items() if cell} == {k for k, v in item.items() if v not in (None, "")}
        # no text of an item, which may come from a note
        assert not any(word in (tmp_path / "out.tsv").read_text("utf-8") for word in ("Hausbegriff", "pyrexia"))


@pytest.mark.slow
def test_each_option_of_a_task_changes_the_report(files: Path, demo_path: Path, tmp_path: Path) -> None:
    encoder = noise(tmp_path)
    small = {
        ("clustering", files / "names.tsv", "--sample", 100): [("--neighbours", 2), ("--seed", 2)],
        ("retrieval", files / "names.tsv", files / "queries.tsv", "--sample", 20): [
            ("--depth", 1), ("--dictionary-languages", "en"), ("--rank-by", "concepts"),
        ],
        ("leaf-to-parent", demo_path, "--sample", 60): [("--languages", "en,es"), ("--rank-by", "names")],
        ("sts", files / "pairs.tsv", "--sample", 4): [("--resamples", 9)],
    }  # fmt: skip
    for words, options in small.items():
        base = run(*words).stdout
        for more in (*options, ("--encoder", encoder)):
            assert run(*words, *more).stdout != base, (words, more)


def test_partition(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predicted = files / "clusters.tsv"
    assert run("partition", predicted, files / "gold.tsv").stdout.splitlines() == [
        "3 terms in 1 clusters, 1.000 of those of several terms mixed; "
        "1 without a concept and 1 without a cluster left out",
        "measure                 P      R      F1",
        "pairs                   0.333  1.000  0.500",
        "B-cubed                 0.556  1.000  0.714",
        "pairs of two languages  -      1.000  -",
    ]
    rivals = run("partition", predicted, files / "gold.tsv", "--baselines").stdout.splitlines()[-4:]
    assert [row.rsplit(maxsplit=3)[0] for row in rivals] == [
        f"{measure}, {name}" for name in ("equal letters", "average linkage") for measure in ("pairs", "B-cubed")
    ]
    monkeypatch.setattr(clusters, "_MOST_LINKED", 2)
    with pytest.raises(ConfigError, match=r"too many for 3 terms\. Remedy: leave baselines out"):
        run("partition", predicted, files / "gold.tsv", "--baselines")
    gold, parted = tmp_path / "gold.tsv", tmp_path / "clusters.tsv"
    gold.write_text("id\tname\tlanguage\nA\tgift\ten\nA\tleft  arm\ten\nB\tgift\tde\nB\tVenenum\tde\n", "utf-8")
    lines = "1\tgift\ten\n1\tleft arm\ten\n2\tVenenum\tde\n"
    parted.write_text("cluster\tterm\tlanguage\n" + lines + "2\tgift\tde\n", "utf-8")
    head, _, pairs, _, across = run("partition", parted, gold).stdout.splitlines()
    assert head.startswith("4 terms in 2 clusters, 0.000 of those of several terms mixed; 0 without a concept and 0 ")
    assert pairs.split() == ["pairs", "1.000", "1.000", "1.000"]
    assert across.split()[-2:] == ["-", "-"]
    gold.write_text("id\tname\nA\tgift\n", "utf-8")
    with pytest.raises(InputError, match=r"a cluster for each language, and .*gold\.tsv names no language\. Remedy"):
        run("partition", parted, gold)
    gold.write_text("id\tname\nA\tASTHMA\n", "utf-8")
    with pytest.raises(InputError, match=r"clusters\.tsv: none of its terms is a name in .*gold\.tsv\. Remedy: give"):
        run("partition", predicted, gold)


@pytest.mark.slow
def test_rows_left_out_are_reported(files: Path, tmp_path: Path) -> None:
    assert "rows left out: 1 (query without a concept)" in run("retrieval", TABLE, files / "queries.tsv").stderr
    (tmp_path / "dictionary.txt").write_text("D1||asthma\nD2||\nD3||cough\n", "utf-8")
    (tmp_path / "q.concept").write_text("1||0|6||D||asthma||D1\n1||0|6||D||cough\n", "utf-8")
    result = run("retrieval", tmp_path / "dictionary.txt", tmp_path / "q.concept")
    for what, file in (("no id||name", "dictionary.txt"), ("no mention between ||", "q.concept")):
        assert f"rows that cannot be used: 1 ({what}, the first at {tmp_path / file}:2)" in result.stderr
    assert result.stdout.splitlines()[-1].split() == ["-", "1", "1", "1.000", "1.000", "1.000", "0.000"]
    table = "concept_id\tname\tlanguage\tparent\nA\tdisease\tde\t\nB\tasthma\ten\tA\nC\tHusten\tde\tA\n"
    (tmp_path / "tree.tsv").write_text(table, "utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", tmp_path / "tree.tsv")])
    result = run("leaf-to-parent", tmp_path, "--languages", "de")
    assert "rows left out: 1 (leaf without a name)" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("clustering missing.tsv -o nowhere/a.tsv", r"the folder of the table does not exist\. Remedy: make it"),
        ("clustering missing.tsv -o .", r"the table is a folder\. Remedy: name a file"),
        ("clustering names.tsv -o names.tsv", r"names\.tsv: the table is the input\. Remedy: name another file"),
        ("clustering names.tsv --seed -1", "seed is -1, at least 0 expected"),
        ("retrieval names.tsv queries.tsv --language klingon", r"unknown language 'klingon'\. Remedy: give a BCP 47"),
        ("retrieval names.tsv queries.tsv --dictionary-languages klingon", "unknown language 'klingon'"),
        ("retrieval names.tsv queries.tsv --depth 0", "depth is 0, at least 1 and at most 10000 expected"),
        ("retrieval names.tsv missing.tsv", r"missing\.tsv: no such file"),
        ("sts triplets.tsv", r"triplets\.tsv:1: looked for the columns of rated pairs; found 3 columns"),
        ("sts pairs.tsv --sample 1", "sample is 1, at least 2 expected"),
        ("similarity one.tsv", r"one\.tsv: 1 rated pairs, two or more expected\. Remedy: give more pairs"),
        ("sts equal.tsv", r"equal\.tsv: the ratings are all equal, so no correlation is defined"),
    ],
)
def test_refusals(words: str, message: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    with pytest.raises((ConfigError, InputError), match=message):
        run(*words.split())
