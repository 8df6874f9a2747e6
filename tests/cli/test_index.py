"""``medlink index``: build, add, info, and what the other commands then print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medlink.errors import MedlinkError
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.models import load_encoder
from tests.cli import runner
from tests.cli.runner import error_of, write
from tests.models.test_static import CONFIG, random_encoder
from tests.small_kb import small_kb


def run(*words: object) -> str:
    return runner.run(*words).stdout


TOLERANT = ("--max-bad-share", "0.5")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a parent that is nowhere and a language that is none."""
    rows = ["X:3\tpain\ten\tX:1|X:9\tSymptom", "X:1\tpyrexia\ten\t\t", "X:1\tFieber\tde\t\t", "X:4\tx\tklingon\t\t"]
    return write(tmp_path / "ward.tsv", *rows, header="concept_id\tname\tlanguage\tparent\tsemantic_type")


@pytest.mark.slow
def test_build_and_info(bundle: Path) -> None:
    kb = bundle.with_name("kb.sqlite")
    printed = run("index", "build", bundle, "--kb", kb)
    assert "2 names of 2 concepts, 2 distinct, flat index of 256 dimensions" in printed
    info = json.loads(run("index", "info", bundle))
    assert (info["index"]["kind"], info["kb"]) == ("flat", Bundle(bundle).kb.content_hash)
    run("index", "build", bundle, "--kind", "hnsw", "--threads", "2", "--encoder", "builtin")
    assert Bundle(bundle).index.manifest["kind"] == "hnsw"
    run("index", "build", bundle, "--memory", "0.6K")
    manifest = Bundle(bundle).index.manifest
    assert [manifest[key] for key in ("kind", "memory", "bytes_per_name")] == ["ivfpq", 600, 72]
    with pytest.raises(MedlinkError, match="both a kind of index and its memory are named"):
        run("index", "build", bundle, "--memory", "1G", "--kind", "flat")
    refused = runner.run("index", "build", bundle, "--memory", "some", exit_code=2)
    assert "'some' is not a size, such as 500M or 2G" in refused.output


@pytest.mark.slow
def test_add(bundle: Path, table: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.csv", "X:5,itch", header="id,name")
    assert run("index", "add", bundle, table, "--table", other, *TOLERANT).splitlines() == [
        f"table {table}: 4 rows",
        f"  left out: relation of a concept that is not loaded: 1 (the first: {table}:2: X:3 isa X:9; "
        "there is no concept X:9)",
        "  bad rows: unknown language: 1",
        f"    {table}:5: unknown language ('klingon')",
        f"table {other}: 1 row",
        f"{bundle}: 4 names and 2 concepts added; the index has 6 names, 4 of them since it was built",
    ]
    links = Linker(bundle).link(["pain", "pyrexia", "itch"])
    assert [link.concept_id for link in links] == ["X:3", "X:1", "X:5"]
    info = json.loads(run("index", "info", bundle))
    assert info["sources"] == {"kb": "", "other": "", "ward": ""}
    assert (info["index"]["names"], info["index"]["added"]["names"], info["index"]["added"]["rows"]) == (6, 4, 4)
    assert "files" not in info["index"]["added"]
    printed = run("kb", "show", bundle, "X:3")
    for part in ("X:3  pain  (ward)", "semantic type: Symptom", "X:1  fever"):
        assert part in printed
    assert "Fieber" in run("kb", "search", bundle, "fieb")
    assert "4 concepts, 6 names" in run("kb", "info", bundle)


@pytest.mark.slow
def test_files_are_recognised_and_a_release_is_refused(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables").mkdir()
    write(tmp_path / "tables" / "one.csv", "X:5,itch", header="id,name")
    write(tmp_path / "tables" / "two.tsv", "X:6\tache\ten")
    assert "2 names and 2 concepts added" in run("index", "add", bundle, tmp_path / "tables")
    (tmp_path / "hp.obo").write_text("format-version: 1.2\n\n[Term]\nid: HP:1\nname: All\n", "utf-8")
    printed = error_of(capsys, "index", "add", bundle, tmp_path / "hp.obo")
    assert (
        "hp.obo: is not a table of your own, but --obo. Remedy: build the bundle again with its release, or " in printed
    )
    assert "give 'medlink index update' all files of the new one." in printed
    assert "Name a table of your own." in error_of(capsys, "index", "add", bundle, exit_code=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "id\tname\tlanguage\nX:6\tach", ":2: the last line is cut off: 2 of 3 columns and"),
        ("-", None, "standard input: a table is read from a file alone. Remedy: save it in a file and name that."),
    ],
)
def test_tables_that_are_not_added(
    name: str, content: str | None, message: str, bundle: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(bundle.parent)
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    before = Bundle(bundle).kb.content_hash
    assert message in error_of(capsys, "index", "add", bundle, "--table", name)
    assert Bundle(bundle).kb.content_hash == before


@pytest.mark.slow
def test_folders_that_do_not_become_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_kb(Path("my house.sqlite"))
    Path("notes").mkdir()
    Path("notes", "1.txt").write_text("mine")
    named = "my house.sqlite: is a file, a bundle is a folder. Remedy: name a folder: build_bundle(BUNDLE, kb="
    for words, message in (
        (["my house.sqlite"], f"{named}'my house.sqlite')."),
        (["my house.sqlite", "--kb", "other.sqlite"], f"{named}other.sqlite)."),
        (["typo"], "typo/kb.sqlite: no knowledge base in the bundle. Remedy: run build_kb(typo, ...)"),
        (["notes"], "notes: is a folder with other files. Remedy: name a new folder."),
        (["notes", "--kb", "my house.sqlite"], "notes: is a folder with other files. Remedy: name a new folder."),
    ):
        with pytest.raises(MedlinkError) as caught:
            run("index", "build", *words)
        assert str(caught.value).startswith(message)
    assert [path.name for path in Path("notes").iterdir()] == ["1.txt"]
    Path("my house.sqlite").rename("notes/kb.sqlite")
    run("index", "build", "notes")
    assert Path("notes", "1.txt").read_text() == "mine"


@pytest.mark.slow
def test_paths_are_printed_as_typed(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def printed(*words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as stop:
            runner.main(list(words))
        assert stop.value.code == code
        text = "".join(capsys.readouterr())
        assert (str(tmp_path) in text) == any(word.startswith("/") for word in words)
        return text

    assert printed("index", "build", "b", "--kb", "kb.sqlite").startswith("b: ")
    assert printed("kb", "info", "b").startswith("b\n")
    assert json.loads(printed("kb", "info", "./b", "--json"))["path"] == "b"
    assert printed("kb", "info", str(tmp_path / "b")).startswith(f"{tmp_path}/b\n")
    remedy = "Remedy: find its id with: medlink kb search b NAME.\n"
    assert printed("kb", "show", "b", "X:77", code=1) == f"medlink: b: there is no concept 'X:77'. {remedy}"
    write(tmp_path / "x.tsv", "X:5\titch\ten")
    assert "\nwrote b/kb.sqlite in " in printed("kb", "build", "b", "--table", "x.tsv")
    assert printed("kb", "info", "b").startswith("b/kb.sqlite\n")
    next(Path("b").glob("index-*/index.json")).unlink()
    for word in ("b", str(tmp_path / "b")):
        remedy = f"a file of the bundle is missing. Remedy: run 'medlink index build {word}'.\n"
        assert printed("index", "info", word, code=1).endswith(remedy)


def test_a_working_folder_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "/none/such: " in error_of(capsys, "lexicon", "check", "/none/such")


WAITS = "the bundle stays as it is until it is built"


@pytest.mark.slow
def test_a_newer_knowledge_base_waits(bundle: Path, table: Path) -> None:
    as_json = runner.run("kb", "build", bundle, "--table", table, "--json", "--max-bad-share", 1)
    assert json.loads(as_json.stdout)["sources"]
    assert f"{WAITS}\n" in as_json.stderr
    printed = run("kb", "build", bundle, "--table", table, "--max-bad-share", 1).splitlines()
    assert printed[-2:] == [WAITS, f"next: medlink index build {bundle}"]
    waiting = json.loads(run("index", "info", bundle))["waiting"]
    assert waiting == f"{bundle / 'kb.sqlite'} is not in the bundle until 'medlink index build {bundle}'"
    assert Linker(bundle).link(["pain"])[0].nil
    run("index", "build", bundle)
    assert "waiting" not in json.loads(run("index", "info", bundle))
    assert Linker(bundle).link(["pain"])[0].concept_id == "X:3"
    assert not (bundle / "kb.sqlite").exists()


@pytest.mark.slow
def test_added_names_that_a_new_knowledge_base_lacks(bundle: Path, table: Path, tmp_path: Path) -> None:
    base = tmp_path / "kb.tsv"
    run("index", "add", bundle, "--table", table, *TOLERANT)
    fact = "{} names that were added to the bundle are not in the new knowledge base: {}add the tables again, with {}"
    again = f"'medlink index add {bundle} --table FILE'"
    assert run("kb", "build", bundle, "--table", base).splitlines()[-3:] == [
        WAITS,
        fact.format("3 of 3", "when it is built, ", again),
        f"next: medlink index build {bundle}",
    ]
    # a renewed index still knows what was added later; the new knowledge base has a part of it
    (bundle / "kb.sqlite").unlink()
    run("index", "build", bundle)
    run("index", "add", bundle, "--table", write(tmp_path / "more.tsv", "X:1\tfebris\tla"))
    write(base, "X:1\tfever\ten", "X:1\tFieber\tde", "X:3\tpain\tde")
    assert fact.format("3 of 4", "when it is built, ", again) in run("kb", "build", bundle, "--table", base)
    assert run("index", "build", bundle).splitlines()[1:] == [fact.format("3 of 4", "", again)]
    assert len(run("index", "build", bundle).splitlines()) == 1


@pytest.mark.slow
def test_names_that_were_known_before_they_were_added_are_not_missed(bundle: Path, tmp_path: Path) -> None:
    run("index", "add", bundle, "--table", write(tmp_path / "known.tsv", "X:1\tfever\ten"))
    printed = run("kb", "build", bundle, "--table", tmp_path / "kb.tsv").splitlines()
    assert printed[-2:] == [WAITS, f"next: medlink index build {bundle}"]


@pytest.mark.slow
def test_additions_of_unknown_number(bundle: Path, tmp_path: Path) -> None:
    """Additions beside names are not counted."""
    header = "id\tname\tlanguage\tdefinition"
    defined = write(tmp_path / "defined.tsv", "X:1\tfever\ten\tA hot state.", header=header)
    run("index", "add", bundle, "--table", defined)
    fact = "what was added to the bundle is not in the new knowledge base unless its inputs bring it: "
    assert fact + "when it is built, " in run("kb", "build", bundle, "--table", tmp_path / "kb.tsv")
    assert fact + "add the tables again" in run("index", "build", bundle)


@pytest.mark.slow
def test_a_change_of_the_encoder_is_printed(bundle: Path, tmp_path: Path) -> None:
    random_encoder(CONFIG.replace(dimension=load_encoder().dimension)).save(tmp_path / "e")
    renewed = run("index", "build", bundle)
    assert "another one" not in renewed
    change = f"the encoder is {tmp_path / 'e'}, another one than before\n"
    assert run("index", "build", bundle, "--encoder", tmp_path / "e") == renewed + change
    assert run("index", "build", bundle) == renewed
    change = "the encoder is builtin, another one than before\n"
    assert run("index", "build", bundle, "--encoder", "builtin").endswith(change)


@pytest.mark.slow
@pytest.mark.usefixtures("small_lexicon")
def test_words_of_a_lexicon_folder(tmp_path: Path) -> None:
    """They bring names nearer, and a build without the folder forgets them."""
    (tmp_path / "words").mkdir()
    forms = "Funkelkies {m,pl=Funkelkiese} | " + " | ".join(f"Funkelstein{letter} {{m}}" for letter in "abcde")
    write(tmp_path / "words" / "families.tsv", f"glimmerstone\tglimmerstone\t{forms}", header="family\ten\tde")
    run("kb", "build", tmp_path / "kb.sqlite", "--table", write(tmp_path / "t.tsv", "X:1\tglimmerstone of the ear\ten"))
    build = ("index", "build", tmp_path / "b")
    printed, candidates, folders = [], [], []
    for options in (("--kb", tmp_path / "kb.sqlite", "--lexicon", tmp_path / "words"), ()):
        printed.append(run(*build, *options).splitlines())
        (link,) = Linker(tmp_path / "b").link([Mention("Funkelkiese des Ohrs", "de")])
        candidates.append(link.candidates[0])
        folders.append(json.loads(run("index", "info", tmp_path / "b"))["lexicon"])
    assert printed[0][1].startswith("with words of words, 1 row: glimmerstone, ")
    assert printed[0][1].endswith(", ...")
    assert printed[1][1:] == ["the words of words are no longer in the bundle: name each folder with --lexicon"]
    assert [one.route for one in candidates] == ["words", "words"]
    assert candidates[0].score > candidates[1].score + 0.1
    assert [folder["rows"] for folder in folders[0]] == [1]
    assert folders[1] == []
    with pytest.raises(MedlinkError, match="nowhere: no such folder"):
        run(*build, "--lexicon", tmp_path / "nowhere")
