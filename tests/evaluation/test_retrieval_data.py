"""Dictionaries and queries: BioSyn, XL-BEL, tables, knowledge bases."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError, KnowledgeBaseError
from medlink.evaluation.names import Dictionary, read_dictionary, split_ids
from medlink.evaluation.retrieval import Query, read_queries
from medlink.files.problems import Problems
from medlink.kb import Input, build_kb

NAMES = (
    "concept_id\tname\tlanguage\ttype\nA:1\tasthma\ten\t\nA:1\tasthma (disorder)\ten\tfsn\nA:1\tAsthma\tde\t\n"
    "A:2\tcough\t\t\n"
)


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder / name


def test_ids() -> None:
    assert split_ids("D1|D2") == ("D1", "D2")
    assert split_ids(" D1 + D2|D1") == ("D1", "D2")
    for none in ("", "-1", "-", "None", "CUI-less", "cui-less"):
        assert split_ids(none) == ()
    assert split_ids("D1|-1") == ("D1",)


def test_dictionaries_of_a_table_and_of_a_knowledge_base_are_the_same(tmp_path: Path) -> None:
    table = write(tmp_path, "names.tsv", NAMES)
    found = read_dictionary(table, Problems())
    assert found == Dictionary(("Asthma", "asthma", "cough"), ((0,), (0,), (1,)), (("A:1",), ("A:2",)))
    assert found.languages == (("de",), ("en",), ("",))
    build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    for path in (tmp_path / "kb.sqlite", tmp_path):
        same = read_dictionary(path, Problems())
        assert (same, same.languages) == (found, found.languages)
    german = Dictionary(("Asthma", "cough"), ((0,), (1,)), (("A:1",), ("A:2",)))
    for path in (table, tmp_path):
        assert read_dictionary(path, Problems(), languages=frozenset({"de"})) == german


def test_dictionary_of_biosyn(tmp_path: Path) -> None:
    text = "D1|OMIM:5||breast cancer\nD2||asthma\nD2||asthma\n\ncui-less||nothing\nD3||\nD4\n"
    problems = Problems(adjustable=False)
    found = read_dictionary(write(tmp_path, "dictionary.txt", text), problems)
    assert found == Dictionary(("asthma", "breast cancer"), ((1,), (0,)), (("D1", "OMIM:5"), ("D2",)))
    assert problems.bad == {"no id||name": 2}
    assert problems.skipped == {"name without a concept": 1}


def test_refusals_of_dictionaries(tmp_path: Path) -> None:
    table = write(tmp_path, "names.tsv", "concept_id\tname\tlanguage\nA\tasthma\ten\n")
    with pytest.raises(InputError, match=r"names\.tsv: there are no names of de in it\. Remedy: give a source"):
        read_dictionary(table, Problems(), languages=frozenset({"de"}))
    with pytest.raises(InputError, match=r"none\.tsv: there are no names in it"):
        read_dictionary(write(tmp_path, "none.tsv", "concept_id\tname\n"), Problems())
    with pytest.raises(InputError, match=r"d\.txt: its names have no language to choose by\. Remedy: leave"):
        read_dictionary(write(tmp_path, "d.txt", "D1||asthma\n"), Problems(), languages=frozenset({"de"}))
    with pytest.raises(KnowledgeBaseError, match="there is no knowledge base"):
        read_dictionary(tmp_path, Problems())
    with pytest.raises(InputError, match="no such file"):
        read_dictionary(tmp_path / "missing.txt", Problems())


def test_queries_of_biosyn(tmp_path: Path) -> None:
    folder = tmp_path / "dev"
    write(
        folder,
        "2.concept",
        "2||0|9||DiseaseClass||left  arm||D1\n\n2||9|12||CompositeMention||breast cancer|ovarian cancer||D2|D3\n"
        "2||12|19||Modifier||cd4+ cells||D4\n2||20|29||Modifier||one+two||D5+D6\n2||3|4||Modifier||no||CUI-less\n",
    )
    write(folder, "1.concept", "1||0|6||Disease||asthma||D5|D6\n")
    write(folder, "notes.txt", "left alone")
    problems = Problems()
    found = read_queries([folder], problems)
    assert problems.skipped == {"query without a concept": 1}
    assert found == (
        Query(("asthma",), ("D5", "D6"), "", "1.concept", 1),
        Query(("left arm",), ("D1",), "", "2.concept", 1),
        Query(("breast cancer", "ovarian cancer"), ("D2", "D3"), "", "2.concept", 3),
        Query(("cd4+ cells",), ("D4",), "", "2.concept", 4),
        Query(("one", "two"), ("D5", "D6"), "", "2.concept", 5),
    )
    assert read_queries([folder / "1.concept"], Problems(), language="en")[0].language == "en"


def test_queries_of_xl_bel(tmp_path: Path) -> None:
    german = write(tmp_path, "de_1k_test_query.txt", 'C1|C2||"Armeria"\nC3||Fuß+Knie\n')
    context = write(tmp_path, "xx_context.txt", "C1||asma||Tiene <tgt>asma</tgt> || hoy.\n")
    found = read_queries([german, context], Problems(), language="es")
    assert found == (
        Query(('"Armeria"',), ("C1", "C2"), "de", "de_1k_test_query.txt", 1),
        Query(("Fuß+Knie",), ("C3",), "de", "de_1k_test_query.txt", 2),
        Query(("asma",), ("C1",), "es", "xx_context.txt", 1),
    )


def test_queries_of_a_table(tmp_path: Path) -> None:
    text = "mention\tconcept_id\tlanguage\nleft  arm\tA|B\tGER\nfever\tC+D\t\ncough\t-1\ten\n"
    problems = Problems()
    found = read_queries([write(tmp_path, "queries.tsv", text)], problems, language="en")
    assert problems.skipped == {"query without a concept": 1}
    assert found == (
        Query(("left arm",), ("A", "B"), "de", "queries.tsv", 2),
        Query(("fever",), ("C", "D"), "en", "queries.tsv", 3),
    )
    for column in ("name", "text"):
        table = write(tmp_path, "queries.csv", f'id,{column}\nA,"left, arm"\n')
        assert read_queries([table], Problems()) == (Query(("left, arm",), ("A",), "", "queries.csv", 2),)


def test_bad_queries_are_counted(tmp_path: Path) -> None:
    problems = Problems(adjustable=False)
    marked = write(tmp_path, "q.concept", "1||0|1||D||a||D1\n1||0|1||D||||D1\nD1||a\n1||0|1||D||b||D2\n")
    two = write(tmp_path, "q.txt", "D1||a\nD1||\nD2||b\nno mark\n")
    table = write(tmp_path, "q.tsv", "id\tname\tlanguage\nA\ta\t\nA\t\t\nA\ta\tklingon\nB\tb\t\n")
    assert len(read_queries([marked, two, table], problems)) == 6
    assert problems.bad == {"no mention between ||": 4, "empty name": 1, "unknown language": 1}


def test_refusals_of_queries(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"there is no \*\.concept file or annotated note in the folder\. Remedy: name a file"
    ):
        read_queries([tmp_path], Problems())
    with pytest.raises(InputError, match=r"q\.tsv:1: looked for the columns concept_id and name, or lines with \|\|"):
        read_queries([write(tmp_path, "q.tsv", "Erika Mustermann\tfever\n")], Problems())
    with pytest.raises(InputError, match=r"q\.txt: there is no query with a concept in it\. Remedy: give other"):
        read_queries([write(tmp_path, "q.txt", "-1||fever\n")], Problems())
    with pytest.raises(InputError, match="the column name is there twice"):
        read_queries([write(tmp_path, "q.tsv", "id\tname\tname\nA\ta\tb\n")], Problems())
