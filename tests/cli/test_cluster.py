"""``medlink cluster``: inputs, outputs, decisions, and lists that cannot be read."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

import medlink
from medlink.clustering.clusters import COLUMNS
from medlink.errors import BundleError, ConfigError, InputError, MedlinkError
from medlink.kb import Input
from medlink.models import load_encoder
from tests.cli import runner

LIST = "fever\nFieber\nleft arm\nright arm\n\nfiebre\nfever\n"


def run(*words: object, input: str | bytes | None = None) -> Result:
    return runner.run("cluster", *words, input=input)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    path = tmp_path / "terms.txt"
    path.write_text(LIST, encoding="utf-8")
    return path


@pytest.fixture
def bundle(demo_path: Path, tmp_path: Path) -> Path:
    """A copy of the demo bundle to add to."""
    return shutil.copytree(demo_path, tmp_path / "bundle")


@pytest.mark.slow
def test_a_list_without_options(terms: Path) -> None:
    result = run(terms)
    found = rows(result.stdout)
    assert tuple(found[0]) == tuple(column for column in COLUMNS if column in found[0])
    # columns of a bundle and of tables are left out
    assert not found[0].keys() & {"status", "concept_id", "language", "id", "candidates"}
    assert [(row["cluster"], row["term"]) for row in found[:3]] == [("1", "fever"), ("1", "Fieber"), ("1", "fiebre")]
    assert [row["frequency"] for row in found[:2]] == ["2", "1"]
    assert {row["representative"] for row in found} == {"fever", "left arm", "right arm"}
    assert "terms.txt: lines left out: 1, empty (line 5)" in result.stderr
    assert "5 terms, 3 clusters (2 of one term, the largest of 3); 0 narrower than another one" in result.stderr
    assert "0 near pairs kept apart by guards" in result.stderr


@pytest.mark.slow
def test_formats_inputs_and_outputs_agree(terms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = run(terms).stdout
    run(terms, "-o", "None")
    assert table == run("-", input=LIST).stdout == Path("None").read_text("utf-8")
    clusters = [json.loads(line) for line in run(terms, "--format", "jsonl").stdout.splitlines()]
    assert [cluster["representative"] for cluster in clusters] == ["fever", "left arm", "right arm"]
    assert clusters[0]["members"][1]["joined_by"] == "embedding"
    groups = run(terms, "--format", "groups").stdout
    assert groups.startswith("1  fever (3)\n    Fieber\n    fiebre\n2  left arm\n3  right arm\n5 terms, 3 clusters")
    # an input that is named as an unfinished output would be
    part = terms.rename("list.part")
    run(part, "-o", "list")
    assert (part.read_text("utf-8"), Path("list").read_text("utf-8")) == (LIST, table)
    for is_terminal, text in ((True, groups), (False, table)):
        stdout = SimpleNamespace(isatty=lambda answer=is_terminal: answer, closed=False)
        monkeypatch.setattr("medlink.cli.output.sys", SimpleNamespace(stdout=stdout))
        assert run(part).stdout == text
        run(part, "-o", "list")
        assert Path("list").read_text("utf-8") == table


@pytest.mark.slow
def test_options_change_the_output(terms: Path, tmp_path: Path) -> None:
    load_encoder().save(tmp_path / "encoder")
    assert run(terms, "--encoder", tmp_path / "encoder").stdout == run(terms).stdout
    parts = (("", "high ", "low ", "mild "), ("", " attack", " episode", " bout"))
    many = "\n".join(f"{before}fever{after}" for before in parts[0] for after in parts[1])
    base = run("-", input=many).stdout
    assert run("-", "--neighbours", "1", input=many).stdout != base
    assert run("-", "--threshold", "0.99", input=many).stdout != base
    table = tmp_path / "t.tsv"
    table.write_text("term\tlanguage\nfever\ten\nFieber\tde\npyrexia\ten\n", encoding="utf-8")
    for words, representative in (((), "fever"), (("--prefer-language", "de"), "Fieber")):
        assert {row["representative"] for row in rows(run(table, *words).stdout)} == {representative}


@pytest.mark.slow
def test_columns_of_tables(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('was,n,nr,sprache\n"Fieber, hoch",3,x7,de\nTos,1,x8,es\n', encoding="utf-8")
    columns = ("--column", "was", "--frequency-column", "n", "--id-column", "nr", "--language-column", "sprache")
    found = [(row["term"], row["frequency"], row["id"], row["language"]) for row in rows(run(table, *columns).stdout)]
    assert found == [("Fieber, hoch", "3", "x7", "de"), ("Tos", "1", "x8", "es")]


@pytest.mark.slow
def test_a_bundle(demo_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "terms.txt"
    path.write_text("fever\nFieber\nzzz unheard of qqq\n", encoding="utf-8")
    result = run(path, "--bundle", demo_path)
    found = {row["term"]: row for row in rows(result.stdout)}
    assert (found["fever"]["status"], found["Fieber"]["concept_id"]) == ("known", found["fever"]["concept_id"])
    assert found["fever"]["concept_name"]
    assert 0 < float(found["fever"]["score"]) <= 1
    assert (found["zzz unheard of qqq"]["status"], found["zzz unheard of qqq"]["concept_id"]) == ("new", "")
    assert "1 known, 1 new" in result.stderr
    strict = rows(run(path, "--bundle", demo_path, "--known-at", "1").stdout)
    assert [row["status"] for row in strict] != [row["status"] for row in rows(result.stdout)]


@pytest.mark.slow
def test_the_preferred_source(tmp_path: Path) -> None:
    inputs = [Input("table", runner.write(tmp_path / f"{one}.tsv", f"{one}:1\tFieber\tde")) for one in ("a", "b")]
    medlink.build_kb(tmp_path / "kb.sqlite", inputs)
    medlink.build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite")
    for words, concept_id in (((), "a:1"), (("--prefer", "b,a"), "b:1")):
        found = rows(run("-", "--bundle", tmp_path / "bundle", *words, input="Fieber\n").stdout)
        assert found[0]["concept_id"] == concept_id
    with pytest.raises(ConfigError, match="no source, semantic type or kind 'c' in this knowledge base"):
        run("-", "--bundle", tmp_path / "bundle", "--prefer", "c", input="Fieber\n")


DECISIONS = """id\tname\tlanguage\ttype\tparent\tdecision
NEW:1\tleft arm\ten\tpreferred\tDEMO:0400\taccept
NEW:1\tright arm\ten\tsynonym\tDEMO:0400\taccept
\tFieber\t\t\t\treject
DEMO:0209\tpyrexy\ten\tsynonym\t\taccept
"""


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.tsv"
    path.write_text(DECISIONS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("T -o F", ConfigError, "the output is a folder. Remedy: name a file"),
        ("T -o T", ConfigError, "the output is the input. Remedy: name another file"),
        ("T -o F/none/out", ConfigError, "the folder of the output does not exist. Remedy: make it"),
        (
            "T --known-at 0.5",
            ConfigError,
            "without a bundle no concept is known. Remedy: name a bundle, or leave known",
        ),
        ("T --prefer HPO", ConfigError, "without a bundle no concept is known. Remedy: name a bundle, or leave prefer"),
        ("T --threshold 1", ConfigError, "threshold is 1.0, above 0 and below 1 expected"),
        ("T --add-to F", ConfigError, "without decisions there is nothing to add to a bundle"),
        ("T --report F/x -o F/x", ConfigError, "the page and the output are one file"),
        ("T --bundle F -o F/kb.sqlite", ConfigError, "the output is in a folder that is read"),
        ("T --decisions D --report D", ConfigError, "the page is the input"),
        ("T --decisions D -o D", ConfigError, "the output is the input"),
        ("F/missing.txt --decisions D --add-to F/none", BundleError, "no such bundle"),
        ("F/none.txt", InputError, "no such file"),
        (".", InputError, ".: is a folder, a file is needed"),
        ("T --decisions /", InputError, "/: is a folder, a file is needed"),
    ],
)
def test_what_is_refused(words: str, error: type[MedlinkError], message: str, terms: Path, decisions: Path) -> None:
    paths = {"T": str(terms), "D": str(decisions), "F": str(terms.parent)}
    given = [re.sub("^[TDF](?=$|/)", lambda found: paths[found[0]], word) for word in words.split()]
    with pytest.raises(error) as caught:
        run(*given)
    assert message in str(caught.value)
    assert terms.read_text("utf-8") == LIST
    assert decisions.read_text("utf-8") == DECISIONS


@pytest.mark.slow
def test_a_page_to_decide_on(terms: Path, tmp_path: Path) -> None:
    page = tmp_path / "clusters.html"
    terms.write_text(LIST.replace(" arm", " arm pain"), encoding="utf-8")
    result = run(terms, "--report", page)
    assert result.stdout == run(terms).stdout
    assert f"{page}: the page" in result.stderr
    content = page.read_text("utf-8")
    data = json.loads(content.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert (len(data["clusters"]), data["summary"]["terms"]) == (3, 5)
    neighbours = {row[0]: row[data["fields"]["cluster"].index("neighbours")] for row in data["clusters"]}
    assert neighbours[2][0][data["fields"]["neighbour"].index("apart")] == "laterality"


@pytest.mark.slow
def test_decisions_are_applied(terms: Path, decisions: Path) -> None:
    result = run(terms, "--decisions", decisions)
    found = {row["term"]: row for row in rows(result.stdout)}
    assert "Fieber" not in found
    assert found["left arm"]["cluster"] == found["right arm"]["cluster"]
    assert found["left arm"]["concept_id"] == "NEW:1"
    assert found["right arm"]["joined_by"] == "decision"
    assert f"{decisions}: 3 terms decided, 1 of them rejected; 1 term of the file is not in the list" in result.stderr


@pytest.mark.slow
def test_accepted_decisions_enter_a_bundle_once(terms: Path, decisions: Path, bundle: Path, tmp_path: Path) -> None:
    """The source is named "decisions", whatever the file is called."""
    printed = run(terms, "--bundle", bundle, "--decisions", decisions, "--add-to", bundle).stderr
    assert f"{bundle}: 3 names and 1 concept added" in printed
    assert printed.split("accepted new ids: ")[1].split()[0] == "NEW:1"
    linker = medlink.load(bundle)
    assert [link.concept_id for link in linker.link(["left arm", "pyrexy"])] == ["NEW:1", "DEMO:0209"]
    assert linker.kb.parents("NEW:1") == ["DEMO:0400"]
    again = shutil.copy(decisions, tmp_path / "decisions (1).tsv")
    result = run(terms, "--bundle", bundle, "--decisions", again, "--add-to", bundle)
    assert f"{bundle}: 0 names and 0 concepts added" in result.stderr
    assert "accepted new ids" not in result.stderr
    assert [source.name for source in medlink.load(bundle).kb.sources()] == ["DEMO", "decisions"]
    known = {row["term"]: row["concept_id"] for row in rows(run(terms, "--bundle", bundle).stdout)}
    assert known["left arm"] == "NEW:1"


@pytest.mark.slow
def test_decisions_that_do_not_fit_the_bundle_add_nothing(decisions: Path, bundle: Path, tmp_path: Path) -> None:
    before = medlink.load(bundle).kb.content_hash
    for row, message in (
        ("HP:9999\tfever\ten\tsynonym\t\taccept", "decisions.tsv:6: the bundle has no concept with this id"),
        ('NEW:2\t"fever, high"\ten\tpreferred\t\taccept', "decisions.tsv:6: the name is in quotes"),
    ):
        decisions.write_text(DECISIONS + row + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=message):
            run(tmp_path / "missing.txt", "--decisions", decisions, "--add-to", bundle)
    assert medlink.load(bundle).kb.content_hash == before


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``medlink cluster`` in a shell."""
    code = "import sys; from medlink.cli.main import main; main(['cluster', *sys.argv[1:]])"
    return subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{code}" {command}'],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_standard_input_of_a_shell(terms: Path, tmp_path: Path) -> None:
    result = shell("- -o terms.txt < terms.txt", tmp_path)
    assert result.stderr == "medlink: terms.txt: the output is the input. Remedy: name another file.\n"
    assert terms.read_text("utf-8") == LIST


@pytest.mark.slow
def test_a_closed_standard_output_costs_no_file(terms: Path, decisions: Path, bundle: Path, tmp_path: Path) -> None:
    before = medlink.load(bundle).kb.content_hash
    result = shell(f"terms.txt --report r.html --decisions {decisions.name} --add-to bundle >&-", tmp_path)
    assert (tmp_path / "r.html").read_text("utf-8").endswith("</html>\n")
    assert medlink.load(bundle).kb.content_hash != before
    assert "concept added" in result.stderr
    assert "standard output is closed" in result.stderr


@pytest.mark.slow
def test_no_term_of_the_list_is_in_a_message(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("term\tcount\nsecretterm\tx\nfever\t1\n", encoding="utf-8")
    assert "secretterm" not in run(path, "--max-bad-share", "0.5").stderr
    path.write_text("secretterm\t3\nfever\t2\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        run(path)
    assert "found 2 columns" in str(caught.value)
    assert "secretterm" not in str(caught.value)
