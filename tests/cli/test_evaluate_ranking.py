"""``medlink evaluate retrieval`` and ``leaf-to-parent``."""

from __future__ import annotations

from pathlib import Path

import pytest

import medlink
from medlink.errors import ConfigError, InputError
from medlink.evaluation import measure_answers, read_leaves, retrieve
from medlink.evaluation.names import read_dictionary
from medlink.evaluation.retrieval import read_queries
from medlink.evaluation.task import draw
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.models import load_encoder
from tests.evaluation.commands import noise, rows, run

TABLE = Path(medlink.__file__).parent / "resources" / "demo" / "terminology.tsv"


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Halves of names of the demo terminology, one unknown concept, and one without any."""
    path = tmp_path_factory.mktemp("queries") / "queries.tsv"
    lines = ["concept_id\tname\tlanguage"]
    for row in rows(TABLE)[:240:3]:
        lines.append(f"{row['concept_id']}\t{row['name'][: len(row['name']) // 2 + 1]}\t{row['language']}")
    path.write_text("\n".join([*lines, "X:1\tHausbegriff\tde", "-1\tnothing\tde"]) + "\n", "utf-8")
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return noise(tmp_path_factory.mktemp("noise"))


def test_retrieval_says_what_the_library_says(queries: Path, tmp_path: Path) -> None:
    result = run("retrieval", TABLE, queries, "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0, result.output
    names = read_dictionary(TABLE, Problems())
    read = read_queries([queries], Problems())
    answers = retrieve(load_encoder().encode, names, read, rank_by="names")
    head, columns, *lines = result.stdout.splitlines()
    assert head == f"81 queries, {len(names)} names of {len(names.concepts)} concepts"
    assert columns.split() == ["language", "queries", "in", "dictionary", "Acc@1", "Acc@5", "MRR", "not", "found"]
    wanted = measure_answers(answers)
    assert [line.split()[0] for line in lines] == ["de", "en", "es", "all"]
    for line in lines:
        found = wanted[line.split()[0]]
        known = found.queries - (line.split()[0] in ("de", "all"))
        figures = [f"{value:.3f}" for value in (found.acc1, found.acc5, found.mrr, found.unfound)]
        assert line.split()[1:] == [str(found.queries), str(known), *figures]
    assert "rows left out: 1 (query without a concept)" in result.stderr
    table = rows(tmp_path / "out.tsv")
    assert [int(row["rank"] or 0) for row in table] == [answer.rank for answer in answers]
    assert table[-1] == {
        "source": "queries.tsv",
        "row": "82",
        "language": "de",
        "gold": "X:1",
        "in_dictionary": "0",
        "rank": "",
        "first": answers[-1].concept[0][0],
        "cosine": f"{answers[-1].cosine:.6g}",
    }
    assert "Hausbegriff" not in (tmp_path / "out.tsv").read_text("utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["out.tsv"]


def test_each_option_of_retrieval_changes_the_output(queries: Path, encoder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("".join(TABLE.read_text("utf-8").splitlines(keepends=True)[:400]), "utf-8")
    small = ("retrieval", names, queries, "--sample", 40)
    base = run(*small).stdout
    assert run(*small).stdout == base
    for options in (
        ("--depth", 1),
        ("--sample", 60),
        ("--seed", 2),
        ("--dictionary-languages", "en"),
        ("--rank-by", "concepts"),
        ("--encoder", encoder),
    ):
        assert run(*small, *options).stdout != base, options
    plain = tmp_path / "plain.tsv"
    plain.write_text("id\tname\nDEMO:0001\tclinical concept\n", "utf-8")
    assert "\n-  " in run("retrieval", TABLE, plain).stdout
    assert "\nde  " in run("retrieval", TABLE, plain, "--language", "GER").stdout


def test_bad_rows_are_said(tmp_path: Path) -> None:
    (tmp_path / "dictionary.txt").write_text("D1||asthma\nD2||\nD3||cough\n", "utf-8")
    (tmp_path / "q.concept").write_text("1||0|6||D||asthma||D1\n1||0|6||D||cough\n", "utf-8")
    result = run("retrieval", tmp_path / "dictionary.txt", tmp_path / "q.concept", "--encoder", "builtin")
    assert f"rows that cannot be used: 1 (no id||name, the first at {tmp_path / 'dictionary.txt'}:2)" in result.stderr
    assert (
        f"rows that cannot be used: 1 (no mention between ||, the first at {tmp_path / 'q.concept'}:2)" in result.stderr
    )
    assert result.stdout.splitlines()[-1].split() == ["-", "1", "1", "1.000", "1.000", "1.000", "0.000"]


def test_refusals_of_retrieval(queries: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown language 'klingon'\. Remedy: give a BCP 47 tag such as de"):
        run("retrieval", TABLE, queries, "--language", "klingon")
    with pytest.raises(ConfigError, match="unknown language 'klingon'"):
        run("retrieval", TABLE, queries, "--dictionary-languages", "klingon")
    with pytest.raises(ConfigError, match=r"queries\.tsv: the table is the input"):
        run("retrieval", TABLE, queries, "-o", queries)
    with pytest.raises(ConfigError, match=r"the folder of the table does not exist"):
        run("retrieval", TABLE, "missing.tsv", "-o", tmp_path / "nowhere" / "a.tsv")
    with pytest.raises(InputError, match=r"missing\.tsv: no such file"):
        run("retrieval", TABLE, "missing.tsv")
    assert run("retrieval", TABLE, queries, "--rank-by", "rows").exit_code == 2
    with pytest.raises(ConfigError, match="depth is 0, at least 1 and at most 10000 expected"):
        run("retrieval", TABLE, queries, "--depth", 0)


def test_leaf_to_parent_says_what_the_library_says(demo_path: Path, tmp_path: Path) -> None:
    result = run("leaf-to-parent", demo_path, "--sample", 200, "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0, result.output
    with KnowledgeBase(demo_path) as kb:
        task = read_leaves(kb)
    queries = draw(task.queries, 200, seed=1)
    answers = retrieve(load_encoder().encode, task.dictionary, queries)
    head, _, *lines = result.stdout.splitlines()
    assert head == (
        f"200 names of {len({query.source for query in queries})} leaves, "
        f"{len(task.dictionary)} names of {len(task.dictionary.concepts)} concepts with children"
    )
    for line in lines:
        found = measure_answers(answers)[line.split()[0]]
        assert line.split()[1:4] == [str(found.queries), str(found.queries), f"{found.acc1:.3f}"]
    table = rows(tmp_path / "out.tsv")
    assert [(row["source"], row["row"]) for row in table] == [(query.source, "") for query in queries]
    assert table[0]["gold"] == "|".join(queries[0].gold)


def test_each_option_of_leaf_to_parent_changes_the_output(demo_path: Path, encoder: Path) -> None:
    small = ("leaf-to-parent", demo_path, "--sample", 60)
    base = run(*small).stdout
    assert run(*small).stdout == base
    for options in (
        ("--depth", 1),
        ("--sample", 90),
        ("--seed", 2),
        ("--languages", "en,es"),
        ("--rank-by", "names"),
        ("--encoder", encoder),
    ):
        assert run(*small, *options).stdout != base, options
    german = run("leaf-to-parent", demo_path, "--languages", "de").stdout.splitlines()
    assert [line.split()[0] for line in german[2:]] == ["de"]


def test_leaves_without_a_name_are_said(tmp_path: Path) -> None:
    table = "concept_id\tname\tlanguage\tparent\nA\tdisease\tde\t\nB\tasthma\ten\tA\nC\tHusten\tde\tA\n"
    (tmp_path / "names.tsv").write_text(table, "utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", tmp_path / "names.tsv")])
    result = run("leaf-to-parent", tmp_path, "--languages", "de")
    assert "rows left out: 1 (leaf without a name)" in result.stderr
