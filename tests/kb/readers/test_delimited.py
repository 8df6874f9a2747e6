"""Descriptions of a user's own files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.kb import kb as kb_commands
from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers.delimited import read_delimited
from medlink.records import Concept, Definition, Mapping, Name, Relation, Retired, SemanticType, Source
from tests.documents import ROOT
from tests.kb.writers import write_lines


def describe(folder: Path, text: str) -> Path:
    (folder / "mine.toml").write_text(text, "utf-8")
    return folder / "mine.toml"


def test_site_file(tmp_path: Path) -> None:
    description = describe(
        tmp_path,
        """
        encoding = "latin-1"
        delimiter = ";"
        language = "de"
        source = "Haus"
        version = { text = "{file}", pattern = '.*(\\d{4})' }
        skip = [{ text = "{state}", pattern = "alt", reason = "old entry" }]
        types = [["K", "abbreviation"], ["V", "preferred"]]
        mappings = [{ system = "ICD-10-GM", type = "broad", codes = ["{icd}"] }]
        codes = ["icd"]
        marks = '[*!+]+$'
        optional = ["parent"]

        [columns]
        id = "Nummer"
        name = ["Bezeichnung", "Text"]
        type = "Art"
        definition = "Erläuterung"
        parent = "Über"
        semantic_type = "Gruppe"
        state = "Stand"
        icd = "ICD"
        """,
    )
    rows = [
        "Nummer;Art;Text;Gruppe;Stand;ICD;Erläuterung;Rest",
        "1;V;Grünholzbruch;Brüche|Kinder;;S52.5!;Ein Bruch.;x",
        "1;K;GHB;;;;;x",
        "2;V;weg;;alt;;;x",
        "3;Z;Seltenes;;;;;x",
        ";V;ohne Nummer;;;;;x",
    ]
    path = tmp_path / "liste_2026.csv"
    path.write_text("".join(f"{row}\n" for row in rows), "latin-1")
    problems = Problems(1)
    assert list(read_delimited(description, path, problems=problems)) == [
        Source("Haus", "2026", "Haus"),
        Concept("1", "Haus"),
        Name("1", "Grünholzbruch", "de", "preferred", "Haus", True),
        Definition("1", "Ein Bruch.", "de", "Haus"),
        Mapping("1", "ICD-10-GM", "S52.5", "broad", "Haus"),
        SemanticType("1", "Brüche", "", "Haus"),
        SemanticType("1", "Kinder", "", "Haus"),
        Name("1", "GHB", "de", "abbreviation", "Haus"),
        Concept("3", "Haus"),
        Name("3", "Seltenes", "de", "Z", "Haus"),
    ]
    assert (problems.skipped, problems.bad) == ({"old entry": 1}, {"empty id or name": 1})
    build_kb(tmp_path / "kb.sqlite", [Input(str(description), path)], max_bad_share=0.2)
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        assert kb.preferred_name("1", "de") == "Grünholzbruch"
    source, *_ = read_delimited(description, path, source="S", version="1", title="T")
    assert source == Source("S", "1", "T")
    assert {one.language for one in read_delimited(description, path, language="ENG") if isinstance(one, Name)} == {
        "en"
    }
    with pytest.raises(ConfigError, match="unknown language 'deutsch'"):
        list(read_delimited(description, path, language="deutsch"))


@pytest.mark.slow
def test_codes_without_a_header(tmp_path: Path, shared: Path) -> None:
    """The codes of ICD-10-CM, a quoted CSV file; a code is below the longest beginning of it that is there."""
    description = describe(
        tmp_path, 'columns = ["id", "name"]\nlanguage = "en"\nsystem = "ICD-10-CM"\nhierarchy = "beginnings"\n'
    )
    path = shared / "data" / "terminologies" / "icd10cm" / "categories.csv"
    records = list(read_delimited(description, path))
    assert records[1:4] == [
        Concept("ICD10CM:A00", "ICD-10-CM"),
        Name("ICD10CM:A00", "Cholera", "en", "synonym", "ICD-10-CM"),
        Mapping("ICD10CM:A00", "ICD-10-CM", "A00", "code", "ICD-10-CM"),
    ]
    assert Relation("ICD10CM:A010", "isa", "ICD10CM:A01", "ICD-10-CM") in records
    assert sum(isinstance(one, Concept) for one in records) == len(path.read_text("utf-8").splitlines())


def test_a_history_file(tmp_path: Path) -> None:
    description = describe(
        tmp_path,
        """
        columns = { id = "old", by = "new", why = "why" }
        types = [["merged", "same_as"], ["gone", "deleted"]]
        retired = { type = "{why}", by = "{by}" }
        """,
    )
    path = write_lines(tmp_path / "x.tsv", ["old\tnew\twhy", "1\t2\tmerged", "3\t\tgone", "4\t\tmerged", "5\t6\tx"])
    problems = Problems(1)
    assert list(read_delimited(description, path, problems=problems))[1:] == [
        Retired("1", "same_as", "2", "x"), Retired("3", "deleted", "", "x"),
    ]  # fmt: skip
    assert problems.bad == {"no concept that replaces it": 1, "unknown kind of retirement": 1}


def test_the_example_of_the_page(tmp_path: Path) -> None:
    """The description in docs/reference/terminologies.md, with names that its rows give."""
    page = (ROOT / "docs" / "reference" / "terminologies.md").read_text("utf-8")
    text = next(block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "names = " in block)
    path = tmp_path / "list.csv"
    path.write_text(
        "Nummer;Bezeichnung;Synonyme;Abk;Oberbegriff;Stand;ICD\n"
        "1;Fieber;Pyrexie | Febris;;;;R50\n2;Gicht;;GI;1;;\n3;weg;;;;alt;\n",
        "latin-1",
    )
    problems = Problems()
    records = list(read_delimited(describe(tmp_path, text), path, problems=problems))
    assert [(one.text, one.type, one.preferred) for one in records if isinstance(one, Name)] == [
        ("Fieber", "preferred", True), ("Pyrexie", "synonym", False), ("Febris", "synonym", False),
        ("Gicht", "preferred", True), ("GI", "abbreviation", False),
    ]  # fmt: skip
    assert [one for one in records if isinstance(one, Mapping | Relation)] == [
        Mapping("1", "ICD-10-GM", "R50", "broad", "list"), Relation("2", "isa", "1", "list"),
    ]  # fmt: skip
    assert problems.skipped == {"old entry": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[columns", r"mine\.toml: is not TOML"),
        ('delimiter = ";"', r"mine\.toml: columns: is missing\. Remedy: name them, such as id"),
        ('columns = ["id", "name"]\ncolour = 1', r"colour: there is no such key\. Remedy: use one of .*columns"),
        ('columns = ["id", "name"]\nwider = "x"', r"wider: 'x' is not allowed there\. Remedy: give a number"),
        ('columns = ["id", "name"]\nnames = ["x"]', r'names: .*\. Remedy: write \[\{ text = "\.\.\.", type'),
        ('columns = ["id", "name"]\nid = "{code1}"', r"id: there is no column 'code1'\. Remedy: use one of id, name"),
        ('columns = ["key", "name"]', "id: there is no column 'id'"),
        ('columns = ["id", "name"]\nid = "{id"', r"id: '\{id': .*\. Remedy: write a column as \{name\}"),
        ('columns = ["id", "name"]\nmarks = "("', r"marks: '\(' is not a regular expression"),
        ('columns = ["id", "name"]\nid = { pattern = "x" }', "id: .* is not a text"),
        ('columns = ["id", "name"]\nencoding = "klingon"', "unknown encoding 'klingon'"),
        ('columns = ["id", "name"]\nnames = [{ text = "{name}" }]', r"names: type is missing"),
        (
            'columns = ["id", "name"]\nnames = [{ text = "{name}", type = "x", split = "" }]',
            r"names: split = '' is no mark",
        ),
        (
            'columns = ["id", "name"]\nnames = [{ text = "{name}", type = "x", split = 1 }]',
            "names: split = 1 is no mark",
        ),
        ('columns = ["id", "name"]\nsemantic_types = [{ text = "{name}", split = ";" }]', "semantic_types: is none"),
        ('columns = ["id", "name"]\ntypes = [["x"]]', r"types: .* pattern and a type"),
    ],
)
def test_a_wrong_description(text: str, message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", ["1,one"])
    with pytest.raises(ConfigError, match=message):
        list(read_delimited(describe(tmp_path, text), path))


def test_a_file_of_another_layout(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", ["a;b;c"])
    with pytest.raises(InputError, match="looked for 2 columns; found 3"):
        list(read_delimited(describe(tmp_path, 'columns = ["id", "name"]\ndelimiter = ";"'), path))
    with pytest.raises(InputError, match="looked for 2 columns; found 3"):
        list(read_delimited(describe(tmp_path, 'columns = ["id", "name"]'), path))
    with pytest.raises(InputError, match="looked for the columns Nr and Text; found 3 columns: a, b, c"):
        list(read_delimited(describe(tmp_path, 'columns = { id = "Nr", name = "Text" }'), path))
    described = describe(tmp_path, 'columns = { id = "Schlüssel", name = "Text" }\nencoding = "latin-1"')
    with pytest.raises(
        InputError, match=r'read as ISO8859-1, but probably UTF-8\. Remedy: write encoding = "utf-8" into'
    ):
        list(read_delimited(described, write_lines(tmp_path / "y.csv", ["Schlüssel;Text", "1;x"])))
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_delimited(tmp_path / "no.toml", path))
    with pytest.raises(ConfigError, match=r"unknown format 'klingon'\. Remedy: use one of .*, or a description"):
        build_kb(tmp_path / "kb.sqlite", [Input("klingon", path)])


def test_what_excel_writes_before_the_header(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", ["sep=;", "id;name", '1;"a, b"'])
    problems = Problems()
    assert list(read_delimited("table", path, problems=problems))[2:] == [Name("1", "a, b", "", "synonym", "x")]
    assert problems.rows == 1


def test_the_command_reads_with_a_description(tmp_path: Path) -> None:
    description = describe(tmp_path, 'columns = ["id", "name"]\nlanguage = "en"')
    path, out = write_lines(tmp_path / "x.csv", ["1,one", "2,two"]), tmp_path / "kb.sqlite"
    result = CliRunner().invoke(kb_commands, ["build", str(out), "--format", str(description), str(path)])
    assert result.exit_code == 0, result.output
    with KnowledgeBase(out) as opened:
        assert [name.text for name in opened.iter_names()] == ["one", "two"]
    result = CliRunner().invoke(kb_commands, ["build", str(out), "--format", str(description)])
    assert isinstance(result.exception, ConfigError)
