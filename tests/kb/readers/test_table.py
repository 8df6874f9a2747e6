"""Plain tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers.delimited import read_table
from medlink.records import Concept, Definition, Name, Relation, SemanticType, Source
from tests.kb.writers import read_all, write_lines


def test_every_column(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "house.tsv",
        [
            "ID\tname\tlanguage\ttype\tdefinition\tparent\tsemantic_type",
            'H:1\ta "name"\ten\tpreferred\tWhat it is.\tH:0| H:9\tDisease|Sign',
            "H:1\tein Name\tDE\tlay\tWas es ist.\t\t",
            "H:1\tname\t\t\t\t\t",
        ],
    )
    assert list(read_table(path)) == [
        Source("house", "", "house"),
        Concept("H:1", "house"),
        Name("H:1", 'a "name"', "en", "preferred", "house", True),
        Definition("H:1", "What it is.", "en", "house"),
        Relation("H:1", "isa", "H:0", "house"),
        Relation("H:1", "isa", "H:9", "house"),
        SemanticType("H:1", "Disease", "", "house"),
        SemanticType("H:1", "Sign", "", "house"),
        Name("H:1", "ein Name", "de", "lay", "house"),
        Definition("H:1", "Was es ist.", "de", "house"),
        Name("H:1", "name", "", "synonym", "house"),
    ]


def test_types_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    kinds = ["prefered", "FSN", "Preferred", "PT", "prefered", "", "x" * 90, "a", "b", "c", "d", "c"]
    path = write_lines(tmp_path / "x.tsv", ["id\tname\ttype", *(f"1\tname {n}\t{k}" for n, k in enumerate(kinds))])
    problems = Problems()
    names = [one for one in read_table(path, problems=problems) if isinstance(one, Name)]
    assert [name.type for name in names] == [
        "prefered", "fsn", "preferred", "PT", "prefered", "synonym", "x" * 90, "a", "b", "c", "d", "c",
    ]  # fmt: skip
    assert [name.text for name in names if name.preferred] == ["name 2"]
    [note] = problems.notes
    assert note == (
        f"{path}:2: names of unknown types, which count as synonyms: prefered (2), PT (1), {'x' * 40} (1), "
        "a (1), b (1), others (3); known are preferred, synonym, fsn, lay, abbreviation, exact, broad, narrow, related"
        ". Remedy: write preferred if prefered means that"
    )
    write_lines(path, ["id\tname\ttype", "1\ta\tPT"])
    list(read_table(path, problems=problems))
    assert problems.notes[-1].endswith(" related. Remedy: write one of these, or leave them")


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("x.csv", ["id,name,definition", '1,"a, b","say ""x"""']),
        ("x.csv", ["id;name;definition", '1;a, b;"say ""x"""']),
        ("x.tsv", ["id\tname\tdefinition", '1\ta, b\tsay "x"']),
        ("x.txt", ["id\tname\tdefinition", '1\ta, b\tsay "x"']),
        ("x.txt", ["id;name;definition", '1;a, b;"say ""x"""']),
    ],
)
def test_tsv_and_csv(file: str, lines: list[str], tmp_path: Path) -> None:
    records = list(read_table(write_lines(tmp_path / file, lines)))
    assert records[2:] == [Name("1", "a, b", "", "synonym", "x"), Definition("1", 'say "x"', "", "x")]


@pytest.mark.parametrize(
    "first",
    [
        "Schlüssel;Bezeichnung;Sprache",
        "KÜRZEL;Klartext;sprache",
        "codigo;Descripción;Idioma",
        "concept_id;Begriff;idioma",
    ],
)
def test_usual_titles_in_german_and_spanish(first: str, tmp_path: Path) -> None:
    records, problems = read_all(read_table, write_lines(tmp_path / "x.csv", [first, "1;Fieber;de"]))
    assert records[2:] == [Name("1", "Fieber", "de", "synonym", "x")]
    assert problems.notes == []


@pytest.mark.parametrize(
    "title", ["synonyms", "Synonym", "Synonyme", "sinónimos", "SINONIMOS", "alias", "alt_label", "Other names"]
)
def test_a_column_of_synonyms(title: str, tmp_path: Path) -> None:
    rows = [f"id\tname\tlanguage\t{title}", "1\tFieber\tde\tPyrexie; Temperatur ;", "2\tGicht\tde\t", "3\ttos\tes\ta|b"]
    records, problems = read_all(read_table, write_lines(tmp_path / "x.tsv", [*rows, "4\t\tde\tohne Namen"]), share=1)
    assert [(one.concept_id, one.text, one.language) for one in records if isinstance(one, Name)] == [
        ("1", "Fieber", "de"), ("1", "Pyrexie", "de"), ("1", "Temperatur", "de"), ("2", "Gicht", "de"),
        ("3", "tos", "es"), ("3", "a", "es"), ("3", "b", "es"),
    ]  # fmt: skip
    assert (problems.notes, problems.bad) == ([], {"empty id or name": 1})


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("Nr,Titel", "2 columns: Nr, Titel. "),
        ("ID,Titel,Sprache", "3 columns: ID, Titel, Sprache. "),
        (",".join(f"x{number}" * 9 for number in range(100, 200)), "100 columns: x100x100"),
        # what may be content is not shown
        ("fever,Erika Smith", "2 columns. "),
        ("Smith", "1 column. "),
    ],
    ids=range(5),
)
def test_missing_columns(first: str, found: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", [first, "1,one"])
    with pytest.raises(InputError) as caught:
        list(read_table(path))
    message = str(caught.value)
    assert message.startswith(f"{path}:1: looked for the columns concept_id (or id) and name; found {found}")
    assert message.endswith(". Remedy: in the first line, name the columns concept_id (or id) and name.")
    assert len(message) < 700
    assert not re.search("Smith|fever", message)


def test_bad_and_unknown(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "x.tsv",
        ["id\tname\tlanguage\tnote", "1\tone\ten\tn", "\ttwo\ten\t", "3\t\ten\t", "4\tfour\tklingon\t", "5\tfive"],
    )
    records, problems = read_all(read_table, path, share=1)
    assert [record.text for record in records if isinstance(record, Name)] == ["one"]
    assert problems.bad == {"empty id or name": 2, "unknown language": 1, "column count": 1}
    assert problems.notes == [f"{path}:1: columns left out: note"]


def test_a_column_left_out_that_looks_like_a_known_one_comes_with_its_name(tmp_path: Path) -> None:
    def note(*columns: str) -> str:
        path = write_lines(tmp_path / "x.csv", [",".join(("id", "name", *columns)), "1,one" + ",x" * len(columns)])
        _, problems = read_all(read_table, path)
        [text] = problems.notes
        assert text.startswith(f"{path}:1: columns left out: {', '.join(map(str.lower, columns))}")
        return text.partition(" Remedy: ")[2]

    for given, known in (
        ("lang", "language"), ("LNG", "language"),
        ("langauge", "language"), ("defintion", "definition"), ("descripción", "definition"), ("typ", "type"),
        ("parents", "parent"), ("Oberbegriff", "parent"), ("semantic type", "semantic_type"), ("STY", "semantic_type"),
    ):  # fmt: skip
        assert note(given) == f"rename {given.lower()!r} to {known!r} if it is that"
    for given in ("tipo semántico", "Tipo_Semántico", "semantischer Typ", "categoría"):
        assert note(given) == f"rename {given.lower()!r} to 'semantic_type' if it is that"
    assert note("padre") == "rename 'padre' to 'parent' if it is that"
    assert note("tipo", "tipo semántico").count("rename") == 2
    assert note("comment", "names", "Lang") == (
        "give each name of 'names' a row with the same id, or join it to the column 'synonyms'; "
        "rename 'lang' to 'language' if it is that"
    )
    assert note("comment", "code", "date", "frequency", "icd10") == ""
    problems = Problems()
    path = write_lines(tmp_path / "y.csv", ["id,name,language,lang", "1,one,en,x"])
    list(read_table(path, problems=problems))
    assert problems.notes == [f"{path}:1: columns left out: lang"]


def test_odd_names_are_counted_and_taken(tmp_path: Path) -> None:
    names = ["one", "Fie\0ber", "\u202efever", "\x1b[31mred", "soft\xadhyphen", "wort " * 101]
    rows = ["id,name", *(f"{number},{name}" for number, name in enumerate(names))]
    problems = Problems()
    names = [
        one for one in read_table(write_lines(tmp_path / "x.csv", rows), problems=problems) if isinstance(one, Name)
    ]
    assert len(names) == 6
    assert problems.notes == [
        f"{tmp_path}/x.csv:3: 3 names have a control, invisible or replacement character inside. "
        "Remedy: type them again",
        f"{tmp_path}/x.csv:7: 1 name has more than 500 characters. "
        "Remedy: give a text on the concept in the column 'definition'",
    ]


def test_a_header_that_is_repeated_is_no_row(tmp_path: Path) -> None:
    lines = ["ID,Name,Language", "1,one,en", "ID,Name,Language", "2,name,en", "3,Name,Language"]
    records, problems = read_all(read_table, write_lines(tmp_path / "x.csv", lines), share=1)
    assert [record.text for record in records if isinstance(record, Name)] == ["one", "name"]
    assert (problems.skipped, problems.bad) == ({"header repeated": 1}, {"unknown language": 1})


def test_decisions(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "x.tsv",
        [
            "id\tname\tlanguage\ttype\tparent\tdecision",
            "NEW:1\tone\ten\tpreferred\tH:1\taccept",
            "NEW:1\tuno\tes\tsynonym\t\t",
            "\tn/a\t\t\t\treject",
            "NEW:2\ttwo\t\tpreferred\tH:1\tgroup",
            "\tklingon\txx\t\t\treject",
            "NEW:3\tthree\t\tpreferred\t\tacept",
        ],
    )
    problems = Problems()
    assert list(read_table(path, problems=problems))[1:] == [
        Concept("NEW:1", "decisions"),
        Name("NEW:1", "one", "en", "preferred", "decisions", True),
        Relation("NEW:1", "isa", "H:1", "decisions"),
        Name("NEW:1", "uno", "es", "synonym", "decisions"),
    ]
    assert problems.skipped == {"row with the decision reject": 2, "row with the decision group": 1}
    assert problems.bad == {"unknown decision": 1}
    assert str(problems.examples[0]) == f"{path}:7: unknown decision"
    assert next(iter(read_table(path, source="house"))) == Source("house", "", "house")
    assert problems.notes == []


def test_decisions_on_mentions_and_codes_name_only_concepts_of_other_inputs(tmp_path: Path) -> None:
    """Else a retired concept would come back with the decisions of a review."""
    house = write_lines(tmp_path / "house.tsv", ["concept_id\tname", "A:1\tone"])
    header = "id\tname\tlanguage\ttype\tparent\tdecision\tkind\titem\tstart\tend\tsection\tproposed"
    rows = [f"{concept}\t{name}\ten\tsynonym\t\taccept\t{kind}\tx\t\t\t\t" for concept, name, kind in (
        ("A:1", "single", "code"), ("GONE:1", "two", "code"), ("NEW:1", "three", ""), ("GONE:2", "four", "mention"),
    )]  # fmt: skip
    decided = write_lines(tmp_path / "decided.tsv", [header, *rows])
    report = build_kb(tmp_path / "kb.sqlite", [Input("table", house), Input("table", decided)])
    assert report.inputs[1].skipped == {"name of a concept that is not loaded": 2}
    with KnowledgeBase(report.path) as kb:
        assert sorted(name.text for name in kb.iter_names()) == ["one", "single", "three"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id\tname\tNAME", "the column name occurs twice. Remedy: rename or delete one of them"),
        ("id\tname\tconcept_id", "the column concept_id or id occurs twice. Remedy: rename or delete one of them"),
    ],
)
def test_a_column_that_is_there_twice(header: str, message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.tsv", [header, "1\tone\ttwo"])
    with pytest.raises(InputError) as error:
        list(read_table(path))
    assert str(error.value) == f"{path}:1: {message}."


def test_ids_that_are_none(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.tsv", ["id\tname", "A:1\tone", "A b\ttwo", "A|b\tthree", "A\u202eb\tfour"])
    problems = Problems(1)
    assert [record.text for record in read_table(path, problems=problems) if isinstance(record, Name)] == ["one"]
    assert problems.bad == {"id with a blank, | or invisible character": 3}
