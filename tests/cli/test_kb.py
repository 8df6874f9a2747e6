"""``medlink kb``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from medlink.errors import MedlinkError
from medlink.kb import KnowledgeBase
from tests.cli import runner
from tests.cli.runner import error_of, write

HEADER = "concept_id\tname\tlanguage\ttype\tdefinition\tparent\tsemantic_type"
ROWS = (
    "H:1\tdisease\ten\tpreferred\tA state that harms.\t\tDisease",
    "H:1\tKrankheit\tde\tpreferred\t\t\t",
    "H:2\tseizure\ten\tpreferred\tA burst.\tH:1|H:3\tDisease",
    "H:2\tKrampfanfall\tde\tpreferred\t\t\t",
    "H:2\tfit\ten\tlay\t\t\t",
    "H:3\tsymptom\ten\tpreferred\t\tH:1\tSymptom",
)
OBO = '[Term]\nid: X:1\nname: cyst\nsynonym: "sac" EXACT []\nxref: UMLS:C1\n'
GRAPH = {"graphs": [{"nodes": [{"id": "http://purl.obolibrary.org/obo/G_1", "lbl": "graph", "type": "CLASS"}]}]}
BABELON = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value\nX:1\trdfs:label\tde\tZyste\n"
UMLS = "".join(
    f"{cui}|{lat}|P|L|PF|S|Y|A||||{sab}|{tty}|1|{text}|0|{suppress}||\n"
    for cui, text, lat, sab, tty, suppress in (
        ("C1", "plain", "ENG", "A", "PT", "N"),
        ("C2", "andere", "GER", "B", "PT", "N"),
        ("C3", "suppressed", "ENG", "A", "PT", "O"),
        ("C4", "short", "ENG", "A", "AB", "N"),
    )
)


def run(*words: object, exit_code: int = 0) -> Result:
    return runner.run("kb", *words, exit_code=exit_code)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "house.tsv", *ROWS, header=HEADER)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of the table, which tests only read."""
    folder = tmp_path_factory.mktemp("built")
    run("build", folder / "kb.sqlite", "--table", write(folder / "house.tsv", *ROWS, header=HEADER))
    return folder / "kb.sqlite"


@pytest.fixture
def umls(tmp_path: Path) -> Path:
    (tmp_path / "META").mkdir()
    (tmp_path / "META" / "MRCONSO.RRF").write_text(UMLS, "utf-8")
    return tmp_path / "META"


def rf2(folder: Path, concept: str, term: str, module: str) -> Path:
    """Write a release of SNOMED CT with one concept."""
    folder.mkdir()
    head = "id\teffectiveTime\tactive\tmoduleId\t"
    (folder / f"sct2_Concept_Snapshot_{module}_20260101.txt").write_text(
        f"{head}definitionStatusId\n{concept}\t20260101\t1\t0\t0\n"
    )
    (folder / f"sct2_Description_Snapshot-en_{module}_20260101.txt").write_text(
        f"{head}conceptId\tlanguageCode\ttypeId\tterm\tcaseSignificanceId\n"
        f"{concept}1\t20260101\t1\t0\t{concept}\ten\t900000000000013009\t{term}\t0\n"
    )
    return folder


def names(path: Path) -> set[str]:
    with KnowledgeBase(path) as opened:
        return {name.text for name in opened.iter_names()}


def test_build_from_several_formats(table: Path, umls: Path, tmp_path: Path) -> None:
    (tmp_path / "x.obo").write_text(OBO)
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    (tmp_path / "x-de.babelon.tsv").write_text(BABELON)
    (tmp_path / "more.csv").write_text("id,name\nM:1,more\n")
    out = tmp_path / "kb.sqlite"
    result = run(
        "build", out, "--umls", umls, "--snomed", rf2(tmp_path / "international", "7", "seven", "INT"),
        "--snomed", rf2(tmp_path / "national", "8", "eight", "DE"), "--obo", tmp_path / "x.obo",
        "--obograph", tmp_path / "g.json", "--babelon", tmp_path / "x-de.babelon.tsv",
        "--table", table, "--table", tmp_path / "more.csv",
    )  # fmt: skip
    counts = "house: 3 concepts, names de 2, en 4, 2 definitions, 3 semantic types, 3 relations, 0 mappings"
    for part in (f"wrote {out} in ", "left out: suppressed row: 1", "note: ", counts):
        assert part in result.stdout
    assert {"plain", "seven", "eight", "cyst", "graph", "Zyste", "seizure", "more"} <= names(out)


def test_formats_are_detected(table: Path, umls: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "x.obo").write_text(OBO)
    (tmp_path / "x" / "LICENSE").write_text("As is.\n")
    result = run("build", tmp_path / "kb", umls, tmp_path / "x", "--table", table, "--sources", "B")
    assert f"{umls}: taken for --umls" in result.stdout
    assert f"{tmp_path / 'x' / 'x.obo'}: taken for --obo\n" in result.stdout
    assert f"{tmp_path / 'x' / 'LICENSE'}: left out, its beginning matches no format, or several" in result.stdout
    assert names(tmp_path / "kb") >= {"andere", "cyst", "seizure"}
    as_json = run("build", tmp_path / "kb", table, "--json")
    report = json.loads(as_json.stdout)
    assert (report["path"], report["inputs"][0]["format"]) == (str(tmp_path / "kb" / "kb.sqlite"), "table")
    assert report["sources"][0]["names"] == {"de": 2, "en": 4}
    assert "taken for --table" in as_json.stderr
    swapped = r"t.csv is not a description of a format\. Remedy: write --format mine.toml t.csv"
    with pytest.raises(MedlinkError, match=swapped):
        run("build", tmp_path / "x.sqlite", "--format", "t.csv", "mine.toml")
    with pytest.raises(MedlinkError, match=r"LICENSE: its beginning matches no known format"):
        run("build", tmp_path / "kb", tmp_path / "x" / "LICENSE")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"plain", "andere", "short"}),
        (["--languages", "de"], {"andere"}),
        (["--languages", "en, GER"], {"plain", "andere", "short"}),
        (["--sources", "B"], {"andere"}),
        (["--term-types", "AB,XX"], {"short"}),
        (["--include-suppressed"], {"plain", "andere", "short", "suppressed"}),
    ],
)
def test_filters(options: list[str], expected: set[str], umls: Path, tmp_path: Path) -> None:
    run("build", tmp_path / "kb", "--umls", umls, *options)
    assert names(tmp_path / "kb") == expected


def test_filters_of_the_hierarchy(built: Path, table: Path, tmp_path: Path) -> None:
    run("build", tmp_path / "part", "--table", table, "--under", "H:3")
    assert names(tmp_path / "part") == {"symptom", "seizure", "Krampfanfall", "fit"}
    run("build", tmp_path / "part", "--table", table, "--not-under", "H:3")
    assert names(tmp_path / "part") == {"disease", "Krankheit"}
    assert run("search", built, "s", "--under", "H:2").stdout == "H:2\ten\tseizure\n"
    assert "seizure" not in run("search", built, "s", "--not-under", "H:2").stdout


def test_max_bad_share(tmp_path: Path) -> None:
    table = write(tmp_path / "house.tsv", *ROWS, *["H:1\tshort"] * 10, header=HEADER)
    with pytest.raises(MedlinkError, match="10 of 16 rows cannot be used"):
        run("build", tmp_path / "kb", "--table", table)
    result = run("build", tmp_path / "kb", "--table", table, "--max-bad-share", "0.7")
    assert "bad rows: column count: 10" in result.stdout
    assert f"{table}:8: column count (2 columns, 7 expected)" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("out", "path"),
    [
        ("house", "house/kb.sqlite"),
        ("house.db/", "house.db/kb.sqlite"),
        ("umls-2026.1", "umls-2026.1/kb.sqlite"),
        ("house.sqlite", "house.sqlite"),
        ("new/house.db", "new/house.db"),
        ("there.db", "there.db/kb.sqlite"),
        ("old", "old"),
    ],
)
def test_a_name_without_a_suffix_is_a_bundle_folder(
    out: str, path: str, table: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.db").mkdir()
    shutil.copy(built, "old")  # of a time when such a name was that of a file
    printed = run("build", out, "--table", table).stdout.splitlines()
    assert names(Path(path)) >= {"seizure"}
    wrote = next(i for i, line in enumerate(printed) if line.startswith(f"wrote {path} in "))
    given = out if path.endswith("kb.sqlite") else f"BUNDLE --kb {out}"
    assert printed[wrote + 1 :] == [f"next: medlink index build {given}"]


@pytest.mark.slow
def test_a_folder_with_other_files_does_not_become_a_bundle(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes", ".hidden").write_text("mine")
    assert "next: medlink index build notes\n" in run("build", "notes", "--table", table).stdout
    Path("notes", "kb.sqlite").unlink()
    Path("notes", "1.txt").write_text("mine")
    before = sorted(Path("notes").iterdir())
    for out in ("notes", "./notes"):
        with pytest.raises(
            MedlinkError, match=r"^notes: is a folder with other files\. .* such as notes/kb\.sqlite\.$"
        ):
            run("build", out, "--table", table)
    assert sorted(Path("notes").iterdir()) == before
    run("build", "notes/kb.sqlite", "--table", table)
    run("build", "notes", "--table", table)
    for sign in ("manifest.json", "kb-0123456789abcdef"):
        Path("notes", "kb.sqlite").unlink()
        Path("notes", sign).write_text("")
        run("build", "notes", "--table", table)
        Path("notes", sign).unlink()


def test_builds_that_are_refused(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave no file and change none."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    umls_options = ("--sources", "A", "--term-types", "PT", "--include-suppressed")
    for words, message in (
        (["kb"], "no release is given"),
        (["kb", "--table", table, *umls_options], "--sources, --term-types, --include-suppressed is for UMLS"),
        ([table, "--table", table], "is not replaced"),
        (["file/", "--table", table], "is a file, and a name that ends in a slash is a bundle folder"),
        (["typo/", "--table", "none.tsv"], "no such file"),
        (["typo/more/house.sqlite", "--table", "none.tsv"], "no such file"),
        (["kb", "--table", table, "--languages", "es"], r"no concept with a name .*Remedy: check the filters"),
        *(
            # the size of the inputs, which a progress bar needs, is another way to open them
            (["kb", option, folder, "--progress"], rf"^{folder.rstrip('/') or '/'}: is a folder, a file is needed")
            for option, folder in (("--table", "./"), ("--obo", ".."), ("--obograph", "/"), ("--babelon", "."))
        ),
    ):
        with pytest.raises(MedlinkError, match=message):
            run("build", *words)
    assert "No such option" in run("build", "kb", "--tabel", table, exit_code=2).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "house.tsv"]
    assert Path("file").read_text() == "mine"
    assert run("build", "my house", "--table", table).stdout.endswith("next: medlink index build 'my house'\n")


@pytest.mark.parametrize(("options", "shown"), [(["--progress"], True), (["--no-progress"], False), ([], False)])
def test_progress(options: list[str], shown: bool, table: Path, tmp_path: Path) -> None:
    result = run("build", tmp_path / "kb", "--table", table, *options)
    assert ("indexing" in result.stderr) == shown
    assert "indexing" not in result.stdout


def test_info(built: Path) -> None:
    text = run("info", built).stdout
    assert "3 concepts, 6 names, 2 definitions, 3 semantic types" in text
    assert "names by language: de 2, en 4" in text
    assert "house: 3 concepts" in text
    about = json.loads(run("info", built, "--json").stdout)
    assert (about["concepts"], about["schema_version"], len(about["content_hash"])) == (3, 2, 64)
    assert about["sources"][0]["name"] == "house"
    assert run("info", built.parent).stdout == text  # a folder that holds kb.sqlite


def test_search(built: Path) -> None:
    assert run("search", built, "kramp").stdout == "H:2\tde\tKrampfanfall  = seizure\n"
    assert run("search", built, "kramp", "--language", "GER").stdout == "H:2\tde\tKrampfanfall\n"
    assert run("search", built, "kramp", "--language", "en").stdout == ""
    assert len(run("search", built, "s").stdout.splitlines()) == 2
    assert len(run("search", built, "s", "--limit", "1").stdout.splitlines()) == 1
    (hit,) = json.loads(run("search", built, "fit", "--json").stdout)
    assert hit == {
        "concept_id": "H:2",
        "name": "fit",
        "language": "en",
        "type": "lay",
        "source": "house",
        "preferred_name": "seizure",
    }
    nothing = run("search", built, "xyz")
    assert (nothing.stdout, nothing.stderr) == ("", "no name matches 'xyz'\n")
    run("search", built, "x", "--limit", "0", exit_code=2)
    with pytest.raises(MedlinkError, match=r"unknown language 'german'\. Remedy: write de, its BCP 47 tag"):
        run("search", built, "x", "--language", "german")


def test_a_code_leads_to_its_concept(built: Path, tmp_path: Path) -> None:
    hint = f"no name matches 'H:2'; see the concept with: medlink kb show {built} H:2\n"
    assert run("search", built, "H:2").stderr == hint
    (tmp_path / "house.tsv").write_text("concept_id\tname\nhouse:7\tfever\n", "utf-8")
    own = tmp_path / "own.sqlite"
    run("build", own, "--table", tmp_path / "house.tsv")
    with pytest.raises(MedlinkError, match=r"there is no concept '7'\. Remedy: name it by its id, house:7"):
        run("show", own, "7")


def test_search_by_an_expression_constraint(built: Path) -> None:
    assert run("search", built, "s", "--ecl", "<< H:1 MINUS H:2").stdout == "H:3\ten\tsymptom\n"
    with pytest.raises(MedlinkError, match="expression constraint: there is no concept H:9"):
        run("search", built, "s", "--ecl", "< H:9")


def test_show(built: Path) -> None:
    assert run("show", built, "H:2").stdout == (
        "H:2  seizure  (house)\n"
        "semantic type: Disease\n"
        "definition (en): A burst.\n"
        "parents:\n"
        "  H:1  disease\n"
        "  H:3  symptom\n"
        "    H:1  disease  (see above)\n"
        "names:\n"
        "  de: Krampfanfall*\n"
        "  en: seizure*; fit\n"
    )
    german = run("show", built, "H:2", "--language", "de", "--depth", "1").stdout
    assert "H:2  Krampfanfall" in german
    assert "  H:1  Krankheit\n  H:3  symptom\nnames" in german
    assert "parents" not in run("show", built, "H:2", "--depth", "0").stdout
    view = json.loads(run("show", built, "H:2", "--json").stdout)
    assert view["ancestors"] == [
        {"concept_id": "H:1", "depth": 1, "preferred_name": "disease"},
        {"concept_id": "H:3", "depth": 1, "preferred_name": "symptom"},
    ]
    assert view["names"][0] == {"text": "Krampfanfall", "language": "de", "type": "preferred", "preferred": True}
    assert view["definitions"] == [{"text": "A burst.", "language": "en"}]
    with pytest.raises(MedlinkError, match="there is no concept 'H:9'"):
        run("show", built, "H:9")


def test_show_mappings(tmp_path: Path) -> None:
    (tmp_path / "x.obo").write_text(OBO + "xref: UMLS:C2\nxref: MESH:D1\n")
    run("build", tmp_path / "kb", "--obo", tmp_path / "x.obo")
    assert run("show", tmp_path / "kb", "X:1").stdout.endswith("maps:\n  MESH: D1\n  UMLS: C1, C2\n")
    mappings = json.loads(run("show", tmp_path / "kb", "X:1", "--json").stdout)["mappings"]
    assert mappings[0] == {"system": "MESH", "code": "D1", "type": "xref"}


@pytest.mark.slow
def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    rows = ("X:1\tFieber\x1b[2J\u202e\tde\tpreferred", "X:1\tfever\x9b1m\ten\t")
    table, kb = write(tmp_path / "t.tsv", *rows, header="concept_id\tname\tlanguage\ttype"), tmp_path / "kb.sqlite"
    printed = run("build", kb, "--table", table).stdout
    for words in (["search", kb, "fieber"], ["show", kb, "X:1"]):
        for options in ((), ("--json",)):
            text = run(*words, *options).stdout
            assert "Fieber\\u001b[2J" in text
            assert not any(mark in printed + text for mark in "\x1b\x9b\u202e")


def test_a_path_without_a_knowledge_base_names_what_is_there(
    demo_path: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_path, "demo/bundle")
    Path("empty").mkdir()
    Path("files").mkdir()
    shutil.copy(built, "files/house.sqlite")
    Path("own.csv").write_text("id,name\n")
    os.mkfifo("pipe")
    shutil.copytree(demo_path, "lost")
    Path("lost", "manifest.json").unlink()
    (inner,) = Path("demo/bundle").glob("index-*")
    remedy = "name a file that 'medlink kb build' made, or a bundle"
    for path, message in (
        ("dmo", "there is no knowledge base: no such file or folder. Remedy: check the path, or make one there with "
         "'medlink kb build'."),
        ("demo", "there is no knowledge base in this folder. Remedy: name demo/bundle."),
        ("files", "there is no knowledge base in this folder. Remedy: name files/house.sqlite."),
        ("empty", f"there is no knowledge base in this folder. Remedy: {remedy}."),
        ("lost", "there is no knowledge base in this folder. Remedy: run 'medlink index build lost'."),
        ("pipe", f"there is no knowledge base: it is a pipe or a device. Remedy: {remedy}."),
        ("own.csv", f"is not a medlink knowledge base. Remedy: {remedy}."),
        (str(inner), "is a part of the bundle demo/bundle. Remedy: name demo/bundle."),
    ):  # fmt: skip
        for words in (["kb", "info", path], ["kb", "search", path, "x"], ["index", "build", "b", "--kb", path]):
            assert error_of(capsys, *words) == f"medlink: {path}: {message}\n"
    assert not Path("b").exists()


def test_export(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run("export", built, "--format", "fhir", "-o", out).stdout == f"wrote 3 concepts to {out}\n"
    assert json.loads(out.read_text("utf-8"))["resourceType"] == "CodeSystem"
    assert run("export", built, "--format", "sssom", "-o", out).stdout == f"wrote 0 mappings to {out}\n"
    assert out.read_text("utf-8").startswith("# curie_map:\n")
    assert run("export", built, "--format", "ftrm", "-o", out).stdout == f"wrote 3 concepts to {out}\n"
    assert out.read_bytes().startswith(b"SQLite format 3")
    with pytest.raises(MedlinkError, match="the output is the input"):
        run("export", built, "--format", "sssom", "-o", built)
    with pytest.raises(MedlinkError, match="a container is a file"):
        run("export", built, "--format", "ftrm", "-o", "/dev/null")
