"""``medlink cluster``: what goes in, what comes out, and what a bad list or a kill costs."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import medlink
from medlink.cli.main import app
from medlink.clustering import Clustering
from medlink.clustering.clusters import COLUMNS
from medlink.errors import BundleError, ConfigError, InputError, MedlinkError
from medlink.kb import Input
from medlink.models import load_encoder

LIST = "fever\nFieber\nleft arm\nright arm\n\nfiebre\nfever\n"


def run(*args: object, text: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(app, ["cluster", *map(str, args)], input=text)
    if isinstance(result.exception, MedlinkError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    path = tmp_path / "terms.txt"
    path.write_text(LIST, encoding="utf-8")
    return path


def test_no_further_argument(terms: Path) -> None:
    result = run(terms)
    found = rows(result.stdout)
    assert tuple(found[0]) == tuple(column for column in COLUMNS if column in found[0])
    # nothing to know or not to know, and no column of the list but the terms
    assert not found[0].keys() & {"status", "concept_id", "language", "id", "candidates"}
    assert [(row["cluster"], row["term"]) for row in found[:3]] == [("1", "fever"), ("1", "Fieber"), ("1", "fiebre")]
    assert [row["frequency"] for row in found[:2]] == ["2", "1"]
    assert {row["representative"] for row in found} == {"fever", "left arm", "right arm"}
    assert "terms.txt: lines left out: 1, empty (line 5)" in result.stderr
    assert "5 terms, 3 clusters (2 of one term, the largest of 3); 0 narrower than another one" in result.stderr
    assert "0 near pairs kept apart by guards" in result.stderr


def test_standard_input_and_a_file_agree(terms: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    run(terms, "-o", out)
    assert run("-", text=LIST).stdout == out.read_text("utf-8") == run(terms).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.tsv", "terms.txt"]


def test_jsonl(terms: Path) -> None:
    lines = [json.loads(line) for line in run(terms, "--format", "jsonl").stdout.splitlines()]
    assert [line["representative"] for line in lines] == ["fever", "left arm", "right arm"]
    assert lines[0]["members"][1]["joined_by"] == "embedding"


def test_groups(terms: Path) -> None:
    text = run(terms, "--format", "groups").stdout
    assert text.startswith("1  fever (3)\n    Fieber\n    fiebre\n2  left arm\n3  right arm\n5 terms, 3 clusters")


@pytest.mark.parametrize(("terminal", "shape"), [(True, "groups"), (False, "tsv")])
def test_a_terminal_gets_groups(
    terms: Path, tmp_path: Path, terminal: bool, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {name: run(terms, "--format", name).stdout for name in ("groups", "tsv")}
    monkeypatch.setattr(
        "medlink.cli.cluster.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: terminal, closed=False))
    )
    assert run(terms).stdout == plain[shape]
    assert run(terms, "--format", "tsv").stdout == plain["tsv"]
    # a file is a table in any case
    run(terms, "-o", tmp_path / "out")
    assert (tmp_path / "out").read_text("utf-8") == plain["tsv"]


def test_the_preferred_language(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("term\tlanguage\nfever\ten\nFieber\tde\npyrexia\ten\n", encoding="utf-8")
    for args, first in (((), "fever"), (("--prefer-language", "de"), "Fieber")):
        assert {row["representative"] for row in rows(run(table, *args).stdout)} == {first}


def test_options_change_the_output(terms: Path) -> None:
    plain = run(terms).stdout
    assert run(terms, "--encoder", "builtin").stdout == plain
    many = "\n".join(
        f"{a}fever{b}" for a in ("", "high ", "low ", "mild ") for b in ("", " attack", " episode", " bout")
    )
    assert run("-", "--neighbours", "1", text=many).stdout != run("-", text=many).stdout
    assert run("-", "--threshold", "0.99", text=many).stdout != run("-", text=many).stdout


def test_another_encoder(terms: Path, tmp_path: Path) -> None:
    load_encoder().save(tmp_path / "encoder")
    assert run(terms, "--encoder", tmp_path / "encoder").stdout == run(terms).stdout


def test_tables(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('was,n,nr,sprache\n"Fieber, hoch",3,x7,de\nTos,1,x8,es\n', encoding="utf-8")
    names = ("--column", "was", "--frequency-column", "n", "--id-column", "nr", "--language-column", "sprache")
    found = rows(run(table, *names).stdout)
    assert [(r["term"], r["frequency"], r["id"], r["language"]) for r in found] == [
        ("Fieber, hoch", "3", "x7", "de"),
        ("Tos", "1", "x8", "es"),
    ]
    plain = rows(run(table, "--column", "was").stdout)
    assert {r["frequency"] for r in plain} == {"1"}
    assert not plain[0].keys() & {"id", "language"}


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "mixed.txt"
    path.write_bytes("Größe\n".encode() + b"Gr\xf6\xdfe\n")
    result = run(path)
    assert "mixed.txt: lines left out: 1, not UTF-8, see --encoding (line 2)" in result.stderr
    assert [row["term"] for row in rows(result.stdout)] == ["Größe"]
    path.write_bytes(b"Gr\xf6\xdfe\n")
    assert [row["term"] for row in rows(run(path, "--encoding", "latin-1").stdout)] == ["Größe"]
    with pytest.raises(InputError, match="no usable line"):
        run(path)


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


def test_the_preferred_source(tmp_path: Path) -> None:
    head = "concept_id\tname\tlanguage\ttype\n"
    for source in ("a", "b"):
        (tmp_path / f"{source}.tsv").write_text(f"{head}{source}:1\tFieber\tde\tpreferred\n", encoding="utf-8")
    inputs = [Input("table", tmp_path / f"{source}.tsv") for source in ("a", "b")]
    medlink.build_kb(tmp_path / "kb.sqlite", inputs)
    medlink.build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite")
    (tmp_path / "terms.txt").write_text("Fieber\n", encoding="utf-8")
    for args, first in (((), "a:1"), (("--prefer", "b,a"), "b:1")):
        result = run(tmp_path / "terms.txt", "--bundle", tmp_path / "bundle", *args)
        assert rows(result.stdout)[0]["concept_id"] == first
    with pytest.raises(ConfigError, match="no source, semantic type or kind 'c' in this knowledge base"):
        run(tmp_path / "terms.txt", "--bundle", tmp_path / "bundle", "--prefer", "c")


def test_refused(terms: Path, tmp_path: Path) -> None:
    for args, message in (
        (("-o", tmp_path), "the output is a folder. Remedy: name a file"),
        (("-o", terms), "the output is the input. Remedy: name another file"),
        (("-o", tmp_path / "none" / "out"), "the folder of the output does not exist. Remedy: make it"),
        (("--known-at", "0.5"), "without a bundle no concept is known. Remedy: name a bundle, or leave known_at out"),
        (("--threshold", "1"), "threshold is 1.0, above 0 and below 1 expected"),
    ):
        with pytest.raises(ConfigError) as error:
            run(terms, *args)
        assert message in str(error.value)
    with pytest.raises(InputError, match="no such file"):
        run(tmp_path / "none.txt")
    assert terms.read_text("utf-8") == LIST


DECIDED = """id\tname\tlanguage\ttype\tparent\tdecision
NEW:1\tleft arm\ten\tpreferred\tDEMO:0400\taccept
NEW:1\tright arm\ten\tsynonym\tDEMO:0400\taccept
\tFieber\t\t\t\treject
DEMO:0209\tpyrexy\ten\tsynonym\t\taccept
"""


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.tsv"
    path.write_text(DECIDED, encoding="utf-8")
    return path


def test_a_page_to_decide_on(terms: Path, tmp_path: Path) -> None:
    page = tmp_path / "clusters.html"
    terms.write_text(LIST.replace(" arm", " arm pain"), encoding="utf-8")
    result = run(terms, "--report", page)
    assert result.stdout == run(terms).stdout
    assert f"{page}: the page" in result.stderr
    content = page.read_text("utf-8")
    data = json.loads(content.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert len(data["clusters"]) == 3
    assert data["summary"]["terms"] == 5
    neighbours = {row[0]: row[data["fields"]["cluster"].index("neighbours")] for row in data["clusters"]}
    assert neighbours[2][0][data["fields"]["neighbour"].index("apart")] == "laterality"  # why left and right are apart


@pytest.mark.parametrize("option", [(), ("--decisions", "."), ("--decisions", "/")])
def test_a_folder_where_a_file_is_needed(option: tuple[str, ...], terms: Path) -> None:
    with pytest.raises(MedlinkError, match=r"^[./]: is a folder, a file is needed"):
        run(*(terms, *option) if option else (".",))


def test_decisions_are_applied(terms: Path, decisions: Path) -> None:
    result = run(terms, "--decisions", decisions)
    found = {row["term"]: row for row in rows(result.stdout)}
    assert "Fieber" not in found
    assert found["left arm"]["cluster"] == found["right arm"]["cluster"]
    assert found["left arm"]["concept_id"] == "NEW:1"
    assert found["right arm"]["joined_by"] == "decision"
    assert f"{decisions}: 3 terms decided, 1 of them rejected; 1 term of the file is not in the list" in result.stderr


def test_accepted_decisions_enter_a_bundle(terms: Path, decisions: Path, demo_path: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(demo_path, tmp_path / "bundle")
    result = run(terms, "--bundle", bundle, "--decisions", decisions, "--add-to", bundle)
    assert f"{bundle}: 3 names and 1 concept added" in result.stderr
    linker = medlink.load(bundle)
    assert [link.concept_id for link in linker.link(["left arm", "pyrexy"])] == ["NEW:1", "DEMO:0209"]
    assert linker.kb.parents("NEW:1") == ["DEMO:0400"]
    again = run(terms, "--bundle", bundle)
    known = {row["term"]: row["concept_id"] for row in rows(again.stdout) if row["status"] == "known"}
    assert known["left arm"] == "NEW:1"


def test_the_name_of_the_file_says_nothing_of_its_source(
    terms: Path, decisions: Path, demo_path: Path, tmp_path: Path
) -> None:
    bundle = shutil.copytree(demo_path, tmp_path / "bundle")
    again = shutil.copy(decisions, tmp_path / "decisions (1).tsv")
    run(terms, "--bundle", bundle, "--decisions", decisions, "--add-to", bundle)
    result = run(terms, "--bundle", bundle, "--decisions", again, "--add-to", bundle)
    assert f"{bundle}: 0 names and 0 concepts added" in result.stderr
    assert "accepted new ids" not in result.stderr
    assert [source.name for source in medlink.load(bundle).kb.sources()] == ["DEMO", "decisions"]


def test_decisions_that_do_not_fit_the_bundle_add_nothing(terms: Path, demo_path: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(demo_path, tmp_path / "bundle")
    before = medlink.load(bundle).kb.content_hash
    path = tmp_path / "decisions.tsv"
    for row, message in (
        ("HP:9999\tfever\ten\tsynonym\t\taccept", "decisions.tsv:6: the bundle has no concept with this id"),
        ('NEW:2\t"fever, high"\ten\tpreferred\t\taccept', "decisions.tsv:6: the name stands in quotes"),
    ):
        path.write_text(DECIDED + row + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=message):
            run(tmp_path / "missing.txt", "--decisions", path, "--add-to", bundle)
    assert medlink.load(bundle).kb.content_hash == before


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "run.py").write_text("import sys\nfrom medlink.cli.main import main\nmain(sys.argv[1:])\n")
    return subprocess.run(
        ["bash", "-c", f'"{sys.executable}" run.py cluster {command}'],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_standard_input_is_an_input(terms: Path, tmp_path: Path) -> None:
    result = shell("- -o terms.txt < terms.txt", tmp_path)
    assert result.stderr == "medlink: terms.txt: the output is the input. Remedy: name another file.\n"
    assert terms.read_text("utf-8") == LIST
    result = shell("- <&-", tmp_path)
    assert result.stderr == ("medlink: standard input is closed. Remedy: name a file, or write to standard input.\n")


def test_names_of_files_that_are_like_others(terms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(terms, "-o", "None")
    part = terms.rename(tmp_path / "list.part")
    run(part, "-o", tmp_path / "list")
    assert part.read_text("utf-8") == LIST
    assert (tmp_path / "list").read_bytes() == (tmp_path / "None").read_bytes()


@pytest.mark.parametrize("closed", ["| true", ">&-"])
def test_standard_output_that_closes_costs_no_file(
    terms: Path, decisions: Path, demo_path: Path, tmp_path: Path, closed: str
) -> None:
    """More lines than a pipe holds, and nobody who reads them."""
    bundle = shutil.copytree(demo_path, tmp_path / "bundle")
    before = medlink.load(bundle).kb.content_hash
    terms.write_text(LIST + "".join(f"term {number}\n" for number in range(1500)), encoding="utf-8")
    result = shell(f"terms.txt --report r.html --decisions {decisions.name} --add-to bundle {closed}", tmp_path)
    assert (tmp_path / "r.html").read_text("utf-8").endswith("</html>\n")
    assert medlink.load(bundle).kb.content_hash != before
    assert "concept added" in result.stderr
    assert ("standard output is closed" in result.stderr) == (closed == ">&-")


def test_what_is_asked_for_must_fit_together(terms: Path, decisions: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without decisions there is nothing to add to a bundle"):
        run(terms, "--add-to", tmp_path)
    with pytest.raises(ConfigError, match="the page and the output are one file"):
        run(terms, "--report", tmp_path / "x", "-o", tmp_path / "x")
    with pytest.raises(ConfigError, match="the output lies in a folder that is read"):
        run(terms, "--bundle", tmp_path, "-o", tmp_path / "kb.sqlite")
    with pytest.raises(BundleError, match="no such bundle"):
        run(tmp_path / "missing.txt", "--decisions", decisions, "--add-to", tmp_path / "none")
    for option in ("--report", "-o"):
        with pytest.raises(ConfigError, match=r"the (output|page) is the input"):
            run(terms, "--decisions", decisions, option, decisions)


def test_an_error_while_writing_leaves_what_was_there(
    terms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.tsv"
    out.write_text("before", encoding="utf-8")
    monkeypatch.setattr(Clustering, "lines", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ConfigError, match="the output cannot be written: No space left"):
        run(terms, "-o", out)
    assert out.read_text("utf-8") == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.tsv", "terms.txt"]


_SLOW = """
import sys, time
from medlink.clustering import Clustering
lines = Clustering.lines
def slow(*args):
    for line in lines(*args):
        yield line
    sys.stderr.write("half\\n")
    sys.stderr.flush()
    time.sleep(60)
Clustering.lines = slow
from medlink.cli.main import main
main(sys.argv[1:])
"""


def test_killed_half_way(terms: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    command = [sys.executable, "-c", _SLOW, "cluster", str(terms), "-o", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 60
        while process.stderr.readline() != "half\n":
            assert time.monotonic() < deadline
        process.kill()
    assert not out.exists()
    run(terms, "-o", out)
    assert rows(out.read_text("utf-8"))[0]["term"] == "fever"


def test_no_term_of_the_list_is_in_a_message(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("term\tcount\nsecretterm\tx\nfever\t1\n", encoding="utf-8")
    assert "secretterm" not in run(path).stderr
    path.write_text("secretterm\t3\nfever\t2\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        run(path)
    assert "found 2 columns" in str(caught.value)
    assert "secretterm" not in str(caught.value)


def test_clusters_are_made_when_they_are_asked_for() -> None:
    from medlink.clustering import TermClusterer

    found = TermClusterer(load_encoder()).cluster(["fever", "Fieber"])
    assert isinstance(found, Clustering)
    assert not isinstance(found.clusters, list | tuple)


def test_the_ids_of_accepted_new_concepts_are_said(
    terms: Path, decisions: Path, demo_path: Path, tmp_path: Path
) -> None:
    bundle = shutil.copytree(demo_path, tmp_path / "bundle")
    said = run(terms, "--bundle", bundle, "--decisions", decisions, "--add-to", bundle).stderr
    new = said.split("accepted new ids: ")[1].split()[0]
    concept = medlink.load(bundle).kb.get(new)
    assert concept is not None
    assert {name.text for name in concept.names} == {"left arm", "right arm"}
