"""``medlink kb``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from medlink.cli.kb import kb
from medlink.cli.main import main
from medlink.errors import MedlinkError

TABLE = """\
concept_id\tname\tlanguage\ttype\tdefinition\tparent\tsemantic_type
H:1\tdisease\ten\tpreferred\tA state that harms.\t\tDisease
H:1\tKrankheit\tde\tpreferred\t\t\t
H:2\tseizure\ten\tpreferred\tA burst.\tH:1|H:3\tDisease
H:2\tKrampfanfall\tde\tpreferred\t\t\t
H:2\tfit\ten\tlay\t\t\t
H:3\tsymptom\ten\tpreferred\t\tH:1\tSymptom
"""
OBO = '[Term]\nid: X:1\nname: cyst\nsynonym: "sac" EXACT []\nxref: UMLS:C1\n'
GRAPH = {"graphs": [{"nodes": [{"id": "http://purl.obolibrary.org/obo/G_1", "lbl": "graph", "type": "CLASS"}]}]}
BABELON = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value\nX:1\trdfs:label\tde\tZyste\n"


def conso(cui: str, text: str, *, lat: str = "ENG", sab: str = "A", tty: str = "PT", suppress: str = "N") -> str:
    return f"{cui}|{lat}|P|L|PF|S|Y|A||||{sab}|{tty}|1|{text}|0|{suppress}||\n"


UMLS = (
    conso("C1", "plain")
    + conso("C2", "andere", lat="GER", sab="B")
    + conso("C3", "suppressed", suppress="O")
    + conso("C4", "short", tty="AB")
)


def run(*args: object) -> Result:
    return CliRunner().invoke(kb, [str(arg) for arg in args], catch_exceptions=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "house.tsv").write_text(TABLE, "utf-8")
    return tmp_path / "house.tsv"


@pytest.fixture
def built(table: Path, tmp_path: Path) -> Path:
    assert run("build", tmp_path / "kb.sqlite", "--table", table).exit_code == 0
    return tmp_path / "kb.sqlite"


@pytest.fixture
def umls(tmp_path: Path) -> Path:
    (tmp_path / "META").mkdir()
    (tmp_path / "META" / "MRCONSO.RRF").write_text(UMLS, "utf-8")
    return tmp_path / "META"


def rf2(folder: Path, concept: str, term: str, module: str) -> Path:
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
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(path) as opened:
        return {name.text for name in opened.iter_names()}


def test_every_input(table: Path, umls: Path, tmp_path: Path) -> None:
    (tmp_path / "x.obo").write_text(OBO)
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    (tmp_path / "x-de.babelon.tsv").write_text(BABELON)
    (tmp_path / "more.csv").write_text("id,name\nM:1,more\n")
    rf2(tmp_path / "international", "7", "seven", "INT")
    rf2(tmp_path / "national", "8", "eight", "DE")
    out = tmp_path / "kb.sqlite"
    result = run(
        "build", out, "--umls", umls, "--snomed", tmp_path / "international", "--snomed", tmp_path / "national",
        "--obo", tmp_path / "x.obo", "--obograph", tmp_path / "g.json", "--babelon", tmp_path / "x-de.babelon.tsv",
        "--table", table, "--table", tmp_path / "more.csv",
    )  # fmt: skip
    assert result.exit_code == 0
    assert f"wrote {out} in " in result.stdout
    assert "left out: 1 suppressed row" in result.stdout
    assert "note: " in result.stdout
    assert (
        "house: 3 concepts, names de 2, en 4, 2 definitions, 3 semantic types, 3 relations, 0 mappings" in result.stdout
    )
    assert {"plain", "seven", "eight", "cyst", "graph", "Zyste", "seizure", "more"} <= names(out)


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
    assert run("build", tmp_path / "kb", "--umls", umls, *options).exit_code == 0
    assert names(tmp_path / "kb") == expected


def test_max_bad_share(table: Path, tmp_path: Path) -> None:
    table.write_text(TABLE + "H:1\tshort\n" * 10, "utf-8")
    with pytest.raises(MedlinkError, match="10 of 16 rows cannot be used"):
        run("build", tmp_path / "kb", "--table", table)
    result = run("build", tmp_path / "kb", "--table", table, "--max-bad-share", "0.7")
    assert "bad rows: 10 column count" in result.stdout
    assert f"{table}:8: column count (2 columns, 7 expected)" in result.stdout


@pytest.mark.parametrize(
    ("out", "made"),
    [
        ("house", "house/kb.sqlite"),
        ("house/", "house/kb.sqlite"),
        ("house.db/", "house.db/kb.sqlite"),
        ("umls-2026.1", "umls-2026.1/kb.sqlite"),
        ("house.sqlite", "house.sqlite"),
        ("new/house.db", "new/house.db"),
        ("there.db", "there.db/kb.sqlite"),
        ("old", "old"),
    ],
)
def test_a_name_without_a_suffix_is_a_bundle_folder(
    out: str, made: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.db").mkdir()
    run("build", "old.sqlite", "--table", table)
    Path("old.sqlite").rename("old")  # made when such a name was that of a file
    said = run("build", out, "--table", table).stdout.splitlines()
    assert Path(made).is_file()
    assert names(Path(out)) >= {"seizure"}
    wrote = next(i for i, line in enumerate(said) if line.startswith(f"wrote {made} in "))
    given = out if made.endswith("kb.sqlite") else f"BUNDLE --kb {out}"
    assert said[wrote + 1 :] == [f"next: medlink index build {given}"]


def test_what_is_next_can_be_typed(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("build", "my house", "--table", table).stdout.endswith("next: medlink index build 'my house'\n")
    Path("file").write_text("mine")
    with pytest.raises(MedlinkError, match="is a file, and a name that ends in a slash is a bundle folder"):
        run("build", "file/", "--table", table)
    with pytest.raises(MedlinkError, match="is not replaced"):
        run("build", "file", "--table", table)
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize("out", ["typo/", "typo/house", "typo/house.sqlite", "typo/more/house.sqlite"])
def test_a_build_that_fails_leaves_nothing(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MedlinkError, match="no such file"):
        run("build", out, "--table", "none.tsv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--table", "--obo", "--obograph", "--scispacy", "--babelon"])
@pytest.mark.parametrize("given", [".", "./", "..", "/"])
def test_a_folder_where_a_file_is_needed(
    option: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MedlinkError) as caught:
        run("build", "typo", option, given, "--progress")  # which asks how much there is to read
    shown = given.rstrip("/") or "/"
    assert str(caught.value) == f"{shown}: is a folder, a file is needed. Remedy: name a file in it."
    assert list(tmp_path.iterdir()) == []


def test_a_translation_alone(tmp_path: Path, table: Path) -> None:
    text = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value\nH:1\trdfs:label\tde\tAnfall\n"
    (tmp_path / "x.tsv").write_text(text, "utf-8")
    with pytest.raises(
        MedlinkError, match=r"no concept with a name .*Remedy: add the terminology .*obo=\.\.\. or obograph="
    ):
        run("build", tmp_path / "kb", "--babelon", tmp_path / "x.tsv")
    with pytest.raises(MedlinkError, match=r"no concept with a name .*Remedy: check the filters"):
        run("build", tmp_path / "kb", "--table", table, "--languages", "es")


@pytest.mark.parametrize("command", ["search", "show"])
def test_a_language_by_its_name(command: str, built: Path) -> None:
    with pytest.raises(MedlinkError, match=r"unknown language 'german'\. Remedy: write de, its BCP 47 tag"):
        run(command, built, "H:2", "--language", "german")
    assert run(command, built, "H:2", "--language", "GER").exit_code == 0


def test_output_folder_and_json(table: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    result = run("build", tmp_path / "bundle", "--table", table, "--json")
    report = json.loads(result.stdout)
    assert report["path"] == str(tmp_path / "bundle" / "kb.sqlite")
    assert report["sources"][0]["names"] == {"de": 2, "en": 4}


def test_a_folder_of_other_files_does_not_become_a_bundle(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes", ".hidden").write_text("mine")
    run("build", "notes", "--table", table)
    run("build", "notes", "--table", table)
    Path("notes", "kb.sqlite").unlink()
    Path("notes", "1.txt").write_text("mine")
    before = sorted(Path("notes").iterdir())
    for out in ("notes", "notes/", "./notes"):
        with pytest.raises(MedlinkError) as caught:
            run("build", out, "--table", table)
        assert str(caught.value) == (
            "notes: is a folder with other files. Remedy: name a new folder, or a file in it such as notes/kb.sqlite."
        )
    assert sorted(Path("notes").iterdir()) == before
    run("build", "notes/kb.sqlite", "--table", table)
    run("build", "notes", "--table", table)
    Path("notes", "kb.sqlite").rename("kb.sqlite")
    for sign in ("manifest.json", "kb-0123456789abcdef"):
        Path("notes", sign).write_text("")
        run("build", "notes", "--table", table)
        Path("notes", "kb.sqlite").unlink()
        Path("notes", sign).unlink()


@pytest.mark.parametrize(("option", "shown"), [("--progress", True), ("--no-progress", False), (None, False)])
def test_progress(option: str | None, shown: bool, table: Path, tmp_path: Path) -> None:
    result = run("build", tmp_path / "kb", "--table", table, *([option] if option else []))
    assert ("indexing" in result.stderr) == shown
    assert "indexing" not in result.stdout


def test_build_refuses(table: Path, tmp_path: Path) -> None:
    with pytest.raises(MedlinkError, match="no release is given"):
        run("build", tmp_path / "kb")
    with pytest.raises(MedlinkError, match="--sources, --term-types, --include-suppressed is for UMLS"):
        run("build", tmp_path / "kb", "--table", table, "--sources", "A", "--term-types", "PT", "--include-suppressed")
    with pytest.raises(MedlinkError, match="is not replaced"):
        run("build", table, "--table", table)
    result = run("build", tmp_path / "kb", "--tabel", table)
    assert result.exit_code == 2
    assert "No such option" in result.stderr


def test_info(built: Path) -> None:
    text = run("info", built).stdout
    assert "3 concepts, 6 names, 2 definitions, 3 semantic_types".replace("_", " ") in text
    assert "names by language: de 2, en 4" in text
    assert "house: 3 concepts" in text
    about = json.loads(run("info", built, "--json").stdout)
    assert (about["concepts"], about["schema_version"], len(about["content_hash"])) == (3, 2, 64)
    assert about["sources"][0]["name"] == "house"
    assert run("info", built.parent).stdout == text  # a folder that holds kb.sqlite


def test_search(built: Path) -> None:
    assert run("search", built, "kramp").stdout == "H:2\tde\tKrampfanfall  = seizure\n"
    assert run("search", built, "kramp", "--language", "de").stdout == "H:2\tde\tKrampfanfall\n"
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
    assert run("search", built, "x", "--limit", "0").exit_code == 2


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
    assert json.loads(run("show", built, "H:2", "--json", "--depth", "0").stdout)["ancestors"] == []
    with pytest.raises(MedlinkError, match="there is no concept 'H:9'"):
        run("show", built, "H:9")


def test_a_name_does_not_command_the_terminal(tmp_path: Path) -> None:
    rows = "concept_id\tname\tlanguage\ttype\nX:1\tFieber\x1b[2J\u202e\tde\tpreferred\nX:1\tfever\x9b1m\ten\t\n"
    (tmp_path / "t.tsv").write_text(rows, encoding="utf-8")
    built = run("build", tmp_path / "kb.sqlite", "--table", tmp_path / "t.tsv").stdout
    for asked in (["search", "fieber"], ["show", "X:1"], ["show", "X:1", "--json"], ["search", "fieber", "--json"]):
        said = run(asked[0], tmp_path / "kb.sqlite", *asked[1:]).stdout
        assert "Fieber\\u001b[2J" in said
        assert not any(mark in built + said for mark in "\x1b\x9b\u202e")


def test_show_maps(tmp_path: Path) -> None:
    (tmp_path / "x.obo").write_text(OBO + "xref: UMLS:C2\nxref: MESH:D1\n")
    run("build", tmp_path / "kb", "--obo", tmp_path / "x.obo")
    assert run("show", tmp_path / "kb", "X:1").stdout.endswith("maps:\n  MESH: D1\n  UMLS: C1, C2\n")
    maps = json.loads(run("show", tmp_path / "kb", "X:1", "--json").stdout)["mappings"]
    assert maps[0] == {"system": "MESH", "code": "D1", "type": "xref"}


@pytest.mark.parametrize("command", [["info"], ["search", "x"], ["show", "x"]])
def test_no_knowledge_base(command: list[str], tmp_path: Path) -> None:
    with pytest.raises(MedlinkError, match="there is no knowledge base"):
        run(command[0], tmp_path / "nowhere", *command[1:])


@pytest.mark.parametrize(
    "command", [["kb", "info", "{}"], ["kb", "search", "{}", "x"], ["index", "build", "b", "--kb", "{}"]]
)
def test_what_is_there_instead(
    command: list[str],
    demo_path: Path,
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
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
    other = "name a file that 'medlink kb build' made, or a bundle"
    for given, said in (
        ("dmo", "dmo: there is no knowledge base: no such file or folder. Remedy: check the path, or make one there "
         "with 'medlink kb build'."),
        ("demo", "demo: there is no knowledge base in this folder. Remedy: name demo/bundle."),
        ("files", "files: there is no knowledge base in this folder. Remedy: name files/house.sqlite."),
        ("empty", f"empty: there is no knowledge base in this folder. Remedy: {other}."),
        ("lost", "lost: there is no knowledge base in this folder. Remedy: run 'medlink index build lost'."),
        ("pipe", f"pipe: there is no knowledge base: it is a pipe or a device. Remedy: {other}."),
        ("own.csv", f"own.csv: is no medlink knowledge base. Remedy: {other}."),
        (str(inner), f"{inner}: is a part of the bundle demo/bundle. Remedy: name demo/bundle."),
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            main([word.format(given) for word in command])
        assert capsys.readouterr().err == f"medlink: {said}\n"
    assert not Path("b").exists()


def test_what_is_given_is_found_out(table: Path, umls: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "x.obo").write_text(OBO)
    (tmp_path / "x" / "LICENSE").write_text("As is.\n")
    result = run("build", tmp_path / "kb", umls, tmp_path / "x", "--table", table, "--sources", "B")
    assert f"{umls}: taken for --umls" in result.stdout
    assert f"{tmp_path / 'x' / 'x.obo'}: taken for --obo\n" in result.stdout
    assert f"{tmp_path / 'x' / 'LICENSE'}: left out, its beginning does not tell one format" in result.stdout
    assert names(tmp_path / "kb") >= {"andere", "cyst", "seizure"}
    as_json = run("build", tmp_path / "kb", table, "--json")
    assert json.loads(as_json.stdout)["inputs"][0]["format"] == "table"
    assert "taken for --table" in as_json.stderr
    with pytest.raises(MedlinkError, match=r"LICENSE: is of no format that its beginning tells"):
        run("build", tmp_path / "kb", tmp_path / "x" / "LICENSE")


def test_a_part_of_a_hierarchy(built: Path, table: Path, tmp_path: Path) -> None:
    assert run("build", tmp_path / "part", "--table", table, "--under", "H:3").exit_code == 0
    assert names(tmp_path / "part") == {"symptom", "seizure", "Krampfanfall", "fit"}
    assert run("build", tmp_path / "part", "--table", table, "--not-under", "H:3").exit_code == 0
    assert names(tmp_path / "part") == {"disease", "Krankheit"}
    assert run("search", built, "s", "--under", "H:2").stdout == "H:2\ten\tseizure\n"
    assert "seizure" not in run("search", built, "s", "--not-under", "H:2").stdout


def test_export(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run("export", built, "--format", "fhir", "-o", out).stdout == f"wrote 3 concepts to {out}\n"
    assert json.loads(out.read_text("utf-8"))["resourceType"] == "CodeSystem"
    result = run("export", built, "--format", "sssom", "-o", out)
    assert result.stdout == f"wrote 0 mappings to {out}\n"
    assert out.read_text("utf-8").startswith("# curie_map:\n")
    result = run("export", built, "--format", "ftrm", "-o", out)
    assert result.stdout == f"wrote 3 concepts to {out}\n"
    assert out.read_bytes().startswith(b"SQLite format 3")
    with pytest.raises(MedlinkError, match="the output is the input"):
        run("export", built, "--format", "sssom", "-o", built)
    with pytest.raises(MedlinkError, match="a container is a file"):
        run("export", built, "--format", "ftrm", "-o", "/dev/null")


def test_search_by_a_constraint(built: Path) -> None:
    assert run("search", built, "s", "--ecl", "<< H:1 MINUS H:2").stdout == "H:3\ten\tsymptom\n"
    with pytest.raises(MedlinkError, match="expression constraint: there is no concept H:9"):
        run("search", built, "s", "--ecl", "< H:9")
