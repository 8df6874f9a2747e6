"""``medlink index add``: what it says, and what the other commands then show."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.bundles import parts as store
from medlink.cli.main import app, main
from medlink.errors import MedlinkError
from medlink.index import build_bundle
from medlink.linking import Linker, Mention
from medlink.models import load_encoder
from tests.index.test_bundle import part, small_kb
from tests.models.test_static import CONFIG, random_encoder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    build_bundle(tmp_path / "bundle", kb=small_kb(tmp_path / "kb.sqlite"))
    return tmp_path / "bundle"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "ward.tsv"
    rows = ["X:3\tpain\ten\tX:1|X:9\tSymptom", "X:1\tpyrexia\ten\t\t", "X:1\tFieber\tde\t\t", "X:4\tx\tklingon\t\t"]
    path.write_text("\n".join(["concept_id\tname\tlanguage\tparent\tsemantic_type", *rows]) + "\n", encoding="utf-8")
    return path


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["concept_id\tname\tlanguage", *rows]) + "\n", encoding="utf-8")
    return path


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_add(bundle: Path, table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("id,name\nX:5,itch\n", encoding="utf-8")
    said = run("index", "add", bundle, "--table", table, "--table", other).splitlines()
    assert said == [
        f"table {table}: 4 rows",
        f"  left out: 1 relation of a concept that is not loaded (the first: {table}:2: X:3 isa X:9; "
        "there is no concept X:9)",
        "  bad rows: 1 unknown language",
        f"    {table}:5: unknown language ('klingon')",
        f"table {other}: 1 row",
        f"{bundle}: 4 names and 2 concepts added; the index has 6 names, 4 of them since it was built",
    ]
    found = Linker(bundle).link(["pain", "pyrexia", "itch"])
    assert [link.concept_id for link in found] == ["X:3", "X:1", "X:5"]
    info = json.loads(run("index", "info", bundle))
    assert info["sources"] == {"kb": "", "other": "", "ward": ""}
    assert (info["index"]["names"], info["index"]["added"]["names"], info["index"]["added"]["rows"]) == (6, 4, 4)
    assert "files" not in info["index"]["added"]
    shown = run("kb", "show", bundle, "X:3")
    assert "X:3  pain  (ward)" in shown
    assert "semantic type: Symptom" in shown
    assert "X:1  fever" in shown
    assert "Fieber" in run("kb", "search", bundle, "fieb")
    assert "3 concepts" not in run("kb", "info", bundle)
    assert "4 concepts, 6 names" in run("kb", "info", bundle)


def test_a_share_of_bad_rows_may_stop_it(bundle: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (("--table", table, "--max-bad-share", "0"), f"{table}:5: 1 of 4 rows cannot be used (unknown language: 1)"),
        (("--table", table.parent / "none.tsv"), f"{table.parent / 'none.tsv'}: no such file. Remedy: check the path."),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["index", "add", str(bundle), *map(str, words)])
        assert stop.value.code == 1
        assert message in capsys.readouterr().err
    assert Linker(bundle).link(["pain"])[0].nil


def test_a_last_line_without_an_end(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts where all its columns are there, as for a build; one that was cut off adds nothing of its table."""
    before = Linker(bundle).kb.content_hash
    for name, content, message in (
        ("a.tsv", "id\tname\tlanguage\nX:5\titch\ten\nX:6\tach", "2 of 3 columns and no line end. Remedy: fetch,"),
        ("b.csv", "id,name\nX:5,itch\nX:6", "1 of 2 columns and no line end. Remedy: fetch,"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        for command in (("index", "add", bundle, "--table"), ("kb", "build", tmp_path / "other.sqlite", "--table")):
            with pytest.raises(SystemExit):
                main([str(word) for word in (*command, tmp_path / name)])
            assert f"{name}:3: the last line is cut off: {message}" in capsys.readouterr().err
    assert Linker(bundle).kb.content_hash == before
    (tmp_path / "c.tsv").write_text("id\tname\nX:5\titch", encoding="utf-8")
    assert "1 name and 1 concept added" in run("index", "add", bundle, "--table", tmp_path / "c.tsv")


def test_rows_that_a_quote_swallows(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Added or built, each of them counts as a bad row."""
    before = Linker(bundle).kb.content_hash
    rows = [f"Y:{row},name {row}" for row in range(1, 2001)]
    rows[4], rows[899] = 'Y:5,"name 5', 'Y:900,name 900"'
    (tmp_path / "q.csv").write_text("\n".join(["id,name", *rows, ""]), encoding="utf-8")
    for command in (("index", "add", bundle, "--table"), ("kb", "build", tmp_path / "other.sqlite", "--table")):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in (*command, tmp_path / "q.csv")])
        assert stop.value.code == 1
        assert (
            f"{tmp_path / 'q.csv'}:6: 896 of 2000 rows cannot be used (swallowed by a quote: 896), "
            "more than the share of 0.01 allowed; the first: swallowed by a quote (the quote opens in line 6). "
            "Remedy: mend or fetch the file again, or raise "
        ) in capsys.readouterr().err
    assert Linker(bundle).kb.content_hash == before


def test_a_table_that_can_be_read_once_alone(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.tsv")
    for given, where in (("-", "standard input"), ("fifo.tsv", "fifo.tsv")):
        with pytest.raises(SystemExit):
            main(["index", "add", str(bundle), "--table", given])
        assert capsys.readouterr().err == (
            f"medlink: {where}: a table is read from a file alone. Remedy: save it in a file and name that.\n"
        )


def test_a_folder_is_no_table(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["index", "add", str(bundle), "--table", "."])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "medlink: .: is a folder, a file is needed. Remedy: name a file in it.\n"


def test_a_knowledge_base_where_a_bundle_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_kb(Path("my house.sqlite"))
    for more, named in (((), "'my house.sqlite'"), (("--kb", "other.sqlite"), "other.sqlite")):
        with pytest.raises(MedlinkError) as caught:
            run("index", "build", "my house.sqlite", *more)
        assert str(caught.value) == (
            "my house.sqlite: is a file, a bundle is a folder. "
            f"Remedy: name a folder: build_bundle(BUNDLE, kb={named})."
        )
    with pytest.raises(MedlinkError, match=r"no knowledge base in the bundle\. Remedy: run build_kb\(typo, \.\.\.\)"):
        run("index", "build", "typo")
    with pytest.raises(MedlinkError, match="is a file, a bundle is a folder"):
        run("index", "info", "my house.sqlite")


def test_a_folder_of_other_files_does_not_become_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes", "1.txt").write_text("mine")
    for more in ((), ("--kb", small_kb(tmp_path / "kb.sqlite"))):
        with pytest.raises(MedlinkError) as caught:
            run("index", "build", "notes", *more)
        assert str(caught.value) == "notes: is a folder with other files. Remedy: name a new folder."
    assert [path.name for path in Path("notes").iterdir()] == ["1.txt"]
    Path("kb.sqlite").rename("notes/kb.sqlite")
    run("index", "build", "notes")
    run("index", "build", "notes")
    assert Path("notes", "1.txt").read_text() == "mine"


def test_paths_are_those_that_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_kb(Path("house.sqlite"))

    def told(*words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as stop:
            main(list(words))
        assert stop.value.code == code
        said = "".join(capsys.readouterr())
        assert (str(tmp_path) in said) == any(word.startswith("/") for word in words)
        return said

    assert told("index", "build", "b", "--kb", "house.sqlite").startswith("b: ")
    assert told("kb", "info", "b").startswith("b\n")
    assert told("kb", "info", "house.sqlite").startswith("house.sqlite\n")
    assert json.loads(told("kb", "info", "./b", "--json"))["path"] == "b"
    assert told("kb", "info", str(tmp_path / "b")).startswith(f"{tmp_path}/b\n")
    assert told("kb", "show", "b", "X:77", code=1) == (
        "medlink: b: there is no concept 'X:77'. Remedy: find its id with: medlink kb search b NAME.\n"
    )
    write(tmp_path / "x.tsv", "X:5\titch\ten")
    assert "\nwrote b/kb.sqlite in " in told("kb", "build", "b", "--table", "x.tsv")
    assert told("kb", "info", "b").startswith("b/kb.sqlite\n")
    assert "b: 1 name and 1 concept added; the index has " in told("index", "add", "b", "--table", "x.tsv")
    next(Path("b").glob("index-*/index.json")).unlink()
    for word in ("b", str(tmp_path / "b")):
        said = told("index", "info", word, code=1)
        assert said.endswith(f"a file of the bundle is missing. Remedy: run 'medlink index build {word}'.\n")


def test_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(SystemExit):
        main(["lexicon", "check", "/none/such"])
    assert "/none/such: " in capsys.readouterr().err


def test_a_manifest_that_is_lost(bundle: Path) -> None:
    """What the error says to type mends it."""
    (bundle / "manifest.json").unlink()
    with pytest.raises(MedlinkError, match=rf"has no manifest\.json\. Remedy: run build_bundle\({bundle}\)"):
        run("index", "info", bundle)
    run("index", "build", bundle)
    assert Linker(bundle).link(["fever"])[0].concept_id == "X:1"


def test_a_table_is_needed(bundle: Path) -> None:
    result = CliRunner().invoke(app, ["index", "add", str(bundle)])
    assert result.exit_code == 2
    assert "--table" in result.output


def test_a_newer_knowledge_base_waits(bundle: Path, table: Path) -> None:
    as_json = CliRunner().invoke(app, ["kb", "build", str(bundle), "--table", str(table), "--json"])
    assert json.loads(as_json.stdout)["sources"]
    assert "the bundle stays as it is until it is built\n" in as_json.stderr
    said = run("kb", "build", bundle, "--table", table, "--max-bad-share", 1).splitlines()
    assert said[-2:] == ["the bundle stays as it is until it is built", f"next: medlink index build {bundle}"]
    told = json.loads(run("index", "info", bundle))["waiting"]
    assert told == f"{bundle / 'kb.sqlite'} is not in the bundle until 'medlink index build {bundle}'"
    assert Linker(bundle).link(["pain"])[0].nil
    run("index", "build", bundle)
    assert "waiting" not in json.loads(run("index", "info", bundle))
    assert Linker(bundle).link(["pain"])[0].concept_id == "X:3"
    assert not (bundle / "kb.sqlite").exists()


def test_a_part_is_no_bundle_to_build(bundle: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle.parent)
    for inner in sorted(Path("bundle").glob("*-*")):
        for words in (("index", "build", inner), ("kb", "build", inner, "--table", table), ("link", inner, table)):
            with pytest.raises(
                MedlinkError, match=rf"{inner}: is a part of the bundle .*bundle\. Remedy: name .*bundle\."
            ):
                run(*words)


def test_what_was_added_and_a_new_knowledge_base_has_not(bundle: Path, table: Path, tmp_path: Path) -> None:
    base = tmp_path / "kb.tsv"
    run("index", "add", bundle, "--table", table)
    fact = "{} names that were added to the bundle are not in the new knowledge base: {}add the tables again, with {}"
    again = f"'medlink index add {bundle} --table FILE'"
    assert run("kb", "build", bundle, "--table", base).splitlines()[-3:] == [
        "the bundle stays as it is until it is built",
        fact.format("3 of 3", "when it is built, ", again),
        f"next: medlink index build {bundle}",
    ]
    # renewed it is still known what came later; a part of it is in the new one
    (bundle / "kb.sqlite").unlink()
    run("index", "build", bundle)
    run("index", "add", bundle, "--table", write(tmp_path / "more.tsv", "X:1\tfebris\tla"))
    write(base, "X:1\tfever\ten", "X:1\tFieber\tde", "X:3\tpain\tde")
    assert fact.format("3 of 4", "when it is built, ", again) in run("kb", "build", bundle, "--table", base)
    shutil.copytree(bundle, tmp_path / "all")
    assert run("index", "build", bundle).splitlines()[1:] == [fact.format("3 of 4", "", again)]
    assert len(run("index", "build", bundle).splitlines()) == 1
    # what is in the new one is not missed
    bundle = tmp_path / "all"
    words = ("--table", base, "--table", table, "--table", tmp_path / "more.tsv", "--max-bad-share", 1)
    assert "were added" not in run("kb", "build", bundle, *words)
    assert len(run("index", "build", bundle).splitlines()) == 1


def test_what_was_known_before_it_was_added(bundle: Path, tmp_path: Path) -> None:
    """Nothing came, or a second source of the same names: a new knowledge base loses nothing."""
    known = write(tmp_path / "known.tsv", "X:1\tfever\ten")
    for table in (tmp_path / "kb.tsv", known):
        run("index", "add", bundle, "--table", table)
        assert run("kb", "build", bundle, "--table", tmp_path / "kb.tsv").splitlines()[-2:] == [
            "the bundle stays as it is until it is built",
            f"next: medlink index build {bundle}",
        ]
        (bundle / "kb.sqlite").unlink()


def test_what_was_added_beside_names(bundle: Path, table: Path, tmp_path: Path) -> None:
    """Of that, and of what an older medlink added, there is no number."""
    defined = tmp_path / "defined.tsv"
    defined.write_text("id\tname\tlanguage\tdefinition\nX:1\tfever\ten\tA hot state.\n", encoding="utf-8")
    run("index", "add", bundle, "--table", defined)
    shutil.copytree(bundle, tmp_path / "older")
    run("index", "add", tmp_path / "older", "--table", table)
    with store.writing(tmp_path / "older") as work:
        state = store.read_state(tmp_path / "older")
        shutil.copytree(part(tmp_path / "older", "kb"), work / "kb")
        with closing(sqlite3.connect(work / "kb" / "kb.sqlite")) as connection, connection:
            connection.execute("DELETE FROM meta WHERE key = 'built'")
        state["parts"]["kb"] = store.place(tmp_path / "older", work / "kb", "kb", work)
        store.switch(tmp_path / "older", work, state)
    run("index", "add", tmp_path / "older", "--table", write(tmp_path / "more.tsv", "X:1\tfebris\tla"))
    for folder in (bundle, tmp_path / "older"):
        fact = "what was added to the bundle is not in the new knowledge base unless its inputs bring it: "
        assert fact + "when it is built, " in run("kb", "build", folder, "--table", tmp_path / "kb.tsv")
        assert fact + "add the tables again" in run("index", "build", folder)


def test_another_encoder_is_named(bundle: Path, tmp_path: Path) -> None:
    random_encoder(CONFIG.replace(dimension=load_encoder().dimension)).save(tmp_path / "e")
    renewed = run("index", "build", bundle)
    assert "another one" not in renewed
    told = f"the encoder is {tmp_path / 'e'}, another one than before\n"
    assert run("index", "build", bundle, "--encoder", tmp_path / "e") == renewed + told
    assert run("index", "build", bundle) == run("index", "build", bundle, "--encoder", tmp_path / "e") == renewed
    assert run("index", "build", bundle, "--encoder", "builtin").endswith(
        "the encoder is builtin, another one than before\n"
    )


def test_words_of_a_house_are_read(tmp_path: Path) -> None:
    """``--lexicon`` of ``index build``: its words bring names, and a build without it knows them no longer."""
    (tmp_path / "words").mkdir()
    families = "family\ten\tde\nglimmerstone\tglimmerstone\tFunkelkies {m,pl=Funkelkiese}\n"
    (tmp_path / "words" / "families.tsv").write_text(families, encoding="utf-8")
    run("kb", "build", tmp_path / "kb.sqlite", "--table", write(tmp_path / "t.tsv", "X:1\tglimmerstone of the ear\ten"))
    best = []
    for options in (("--lexicon", tmp_path / "words"), ()):
        run("index", "build", tmp_path / "b", "--kb", tmp_path / "kb.sqlite", *options)
        (link,) = Linker(tmp_path / "b").link([Mention("Funkelkiese des Ohrs", "de")])
        best.append(link.candidates[0])
    assert [one.route for one in best] == ["words", "words"]
    assert best[0].score > best[1].score + 0.1
    with pytest.raises(MedlinkError, match="nowhere: no such folder"):
        run("index", "build", tmp_path / "b", "--lexicon", tmp_path / "nowhere")


def test_words_of_the_house_are_said(tmp_path: Path) -> None:
    (tmp_path / "kb.tsv").write_text("concept_id\tname\tlanguage\nX:1\tward round\ten\n", encoding="utf-8")
    (tmp_path / "words").mkdir()
    forms = " | ".join(f"Kurvenvisite{letter} {{f,pl=Kurvenvisiten}}" for letter in "abcdef")
    (tmp_path / "words" / "families.tsv").write_text(f"family\tde\nward round\t{forms}\n", encoding="utf-8")
    run("kb", "build", tmp_path / "b", "--table", tmp_path / "kb.tsv")
    told = run("index", "build", tmp_path / "b", "--lexicon", tmp_path / "words").splitlines()
    words = [f"Kurvenvisite{letter}" for letter in "abcdef"]
    assert told[1] == f"with words of words, 1 row: {', '.join(words[:5])}, ..."
    (tmp_path / "more.tsv").write_text("concept_id\tname\nX:2\tcough\n", encoding="utf-8")
    run("index", "add", tmp_path / "b", "--table", tmp_path / "more.tsv")
    about = json.loads(run("index", "info", tmp_path / "b"))
    assert about["lexicon"] == [{"folder": "words", "rows": 1, "words": words}]
    told = run("index", "build", tmp_path / "b").splitlines()
    assert told[1:] == ["the words of words are no longer in the bundle: name each folder with --lexicon"]
    assert json.loads(run("index", "info", tmp_path / "b"))["lexicon"] == []
