"""Notes of a load: the first skipped record of each kind, cycles of parents, shared sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medlink.kb import Input, KnowledgeBase, build_kb, extend_kb
from medlink.kb.report import InputReport

from .writers import INFERRED, RELATIONSHIP, Term, conso, rel, rf2, row, write_lines, write_rf2

HEAD = "id,name,parent"


def built(folder: Path, *tables: list[str]) -> tuple[InputReport, ...]:
    paths = [write_lines(folder / f"t{number}.csv", [HEAD, *lines]) for number, lines in enumerate(tables)]
    return build_kb(folder / "kb", [Input("table", path) for path in paths]).inputs


def test_the_first_that_is_left_out_is_named_with_its_line(tmp_path: Path) -> None:
    one, two = built(
        tmp_path,
        ["A:1,one,", "A:2,two,A:1|Z:9", "A:3,three,Z:8", "A:4,four,A:4", "A:5,five,A:5"],
        ["B:1,uno,A:1", "B:2,dos,Z:9"],
    )
    assert list(one.lines())[1:] == [
        f"  left out: 2 relation of a concept that is not loaded (the first: {one.path}:3: A:2 isa Z:9; "
        "there is no concept Z:9)",
        f"  left out: 2 relation of a concept with itself (the first: {one.path}:5: A:4)",
    ]
    assert two.first == {
        "relation of a concept that is not loaded": f"{two.path}:3: B:2 isa Z:9; there is no concept Z:9"
    }


def test_the_first_of_other_formats(tmp_path: Path) -> None:
    write_lines(tmp_path / "rrf" / "MRCONSO.RRF", [conso("C1", "a"), conso("C2", "b")])
    rows = [rel("C1", "CHD", "C2", "isa"), rel("C9", "CHD", "C2", "isa"), rel("C8", "CHD", "C2", "isa")]
    write_lines(tmp_path / "rrf" / "MRREL.RRF", rows)
    write_lines(tmp_path / "rrf" / "MRDEF.RRF", ["C7|A1|AT1||DEMO|What it is.|N||"])
    obo = ["[Term]", "id: X:1", "name: one", "is_a: X:2", "relationship: part_of X:9", 'def: "What." []']
    write_lines(tmp_path / "x.obo", ["format-version: 1.2", "", *obo])
    write_lines(tmp_path / "t.tsv", ["source_id\tsource_name"])
    found = build_kb(tmp_path / "kb", [Input("rrf", tmp_path / "rrf"), Input("obo", tmp_path / "x.obo")]).inputs
    unknown = "of a concept that is not loaded"
    assert found[0].first == {
        f"definition {unknown}": f"{tmp_path}/rrf/MRDEF.RRF:1: C7",
        f"relation {unknown}": f"{tmp_path}/rrf/MRREL.RRF:2: C2 isa C9; there is no concept C9",
    }
    assert found[1].first == {f"relation {unknown}": f"{tmp_path}/x.obo:6: X:1 isa X:2; there is no concept X:2"}


def test_the_first_of_a_snomed_release(tmp_path: Path) -> None:
    write_rf2(tmp_path / "s", [Term("100", [("en", "one", True)]), Term("200", [("en", "two", True)], parents=["100"])])
    relations = [
        row("1", "200", "100", "0", "116680003", INFERRED, "m"),
        row("2", "900", "100", "0", "1", INFERRED, "m"),
    ]
    [path] = (tmp_path / "s").rglob("sct2_Relationship_*")
    rf2(path.parent, path.name, RELATIONSHIP, relations)
    [found] = build_kb(tmp_path / "kb", [Input("rf2", tmp_path / "s")]).inputs
    assert found.first["relation of a concept that is not loaded"] == f"{path}:3: 900 1 100; there is no concept 900"


def test_a_name_and_a_translation_without_a_concept(tmp_path: Path) -> None:
    build_kb(tmp_path / "kb", [Input("table", write_lines(tmp_path / "t.csv", ["id,name", "A:1,one"]))])
    columns = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value"
    table = [columns, "A:2\trdfs:label\tde\tzwei", "A:3\tIAO:0000115\tde\tWas es ist."]
    added = extend_kb(
        tmp_path / "kb", tmp_path / "new", [Input("babelon", write_lines(tmp_path / "b.tsv", table))], max_bad_share=1
    )
    assert added.inputs[0].first == {
        "name of a concept that is not loaded": "A:2",
        "definition of a concept that is not loaded": f"{tmp_path}/b.tsv:3: A:3",
    }


def test_cycles_of_parents_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    one, two = built(
        tmp_path,
        ["A:1,top,", "A:2,two,A:1|A:3", "A:3,three,A:2", "A:4,four,A:2", "A:5,five,A:6", "A:6,six,A:7"],
        ["A:7,seven,A:5|A:1", "B:1,b one,B:2|A:1", "B:2,b two,B:1"],
    )
    assert one.notes == (
        f"{one.path}:3: 2 cycles of parents, the first: A:2, A:3. Remedy: take out one of its parents",
    )
    # that of A:5, A:6 and A:7 begins in the first table
    assert two.notes == (f"{two.path}:3: 1 cycle of parents: B:1, B:2. Remedy: take out one of its parents",)
    long = [f"A:{number},name {number},A:{(number + 1) % 9}" for number in range(9)]
    [whole] = built(tmp_path, long)
    assert "1 cycle of parents: A:0, A:1, A:2, A:3, A:4 and 4 more. Remedy" in whole.notes[0]


@pytest.mark.parametrize(
    "lines",
    [
        ["A:1,one,", "A:2,two,A:1", "A:3,three,A:1", "A:4,four,A:2|A:3"],
        ["A:1,one,A:1"],
        ["A:1,one,Z:2", "Z:3,three,A:1"],
    ],
)
def test_what_is_no_cycle(lines: list[str], tmp_path: Path) -> None:
    [found] = built(tmp_path, lines)
    assert found.notes == ()


def test_relations_of_other_types_make_no_cycle_and_children_do(tmp_path: Path) -> None:
    write_lines(tmp_path / "MRCONSO.RRF", [conso("C1", "a"), conso("C2", "b"), conso("C3", "c")])
    rows = [rel("C1", "RO", "C2", "part_of"), rel("C2", "RO", "C1", "part_of")]
    write_lines(tmp_path / "MRREL.RRF", rows)
    [found] = build_kb(tmp_path / "kb", [Input("rrf", tmp_path)]).inputs
    assert not [note for note in found.notes if "cycle" in note]
    write_lines(tmp_path / "MRREL.RRF", [*rows, rel("C1", "PAR", "C3"), rel("C1", "CHD", "C3")])
    [found] = build_kb(tmp_path / "kb", [Input("rrf", tmp_path)]).inputs
    assert [note for note in found.notes if "cycle" in note] == [
        f"{tmp_path}/MRREL.RRF:3: 1 cycle of parents: C1, C3. Remedy: take out one of its parents"
    ]


def test_only_cycles_that_an_addition_closes_are_noted(tmp_path: Path) -> None:
    built(tmp_path, ["A:1,one,A:2", "A:2,two,A:1", "B:1,b,A:1", "B:2,c,B:1", "B:3,d,"])

    def added(*lines: str) -> tuple[str, ...]:
        table = write_lines(tmp_path / "more.csv", [HEAD, *lines])
        shutil.copy(tmp_path / "kb", tmp_path / "copy")
        return extend_kb(tmp_path / "copy", tmp_path / "copy", [Input("table", table)]).inputs[0].notes

    assert added("N:1,new,B:2", "N:2,newer,N:1", "B:3,d,B:2") == ()
    assert added("N:1,new,B:2", "B:1,b,N:1") == (
        f"{tmp_path}/more.csv:2: 1 cycle of parents: N:1, B:1. Remedy: take out one of its parents",
    )


def test_a_file_without_rows_beside_a_good_one_is_noted(tmp_path: Path) -> None:
    one, two = built(tmp_path, ["A:1,one,"], [])
    assert (one.notes, two.notes) == ((), (f"{two.path}: has no rows",))
    added = extend_kb(tmp_path / "kb", tmp_path / "kb", [Input("table", two.path)])
    assert added.inputs[0].notes[0] == f"{two.path}: has no rows"


@pytest.mark.slow
def test_a_source_that_is_there_already_is_noted(tmp_path: Path) -> None:
    built(tmp_path, ["A:1,one,"])
    added = extend_kb(tmp_path / "kb", tmp_path / "kb", [Input("table", tmp_path / "t0.csv")])
    assert added.inputs[0].notes == (
        f"{tmp_path}/t0.csv: its source is t0, like that of the knowledge base, so both count as one source; a "
        "table is named by its file. Remedy: rename the file if it is another source",
    )
    twice = [Input("table", tmp_path / "t0.csv")] * 2
    assert [found.notes for found in build_kb(tmp_path / "twice", twice).inputs] == [
        (),
        (f"{tmp_path}/t0.csv: is given twice",),
    ]
    # decisions have one source name in all files
    for name in ("one", "two"):
        write_lines(tmp_path / name / "d.tsv", ["id\tname\tdecision", f"{name}:1\tname\taccept"])
    both = [Input("table", tmp_path / name / "d.tsv") for name in ("one", "two")]
    assert [found.notes for found in build_kb(tmp_path / "d", both).inputs] == [(), ()]
    # two formats of one ontology
    obo = write_lines(tmp_path / "x.obo", ["format-version: 1.2", "", "[Term]", "id: X:1", "name: one"])
    named = write_lines(tmp_path / "X.csv", ["id,name", "X:1,one"])
    found = build_kb(tmp_path / "x", [Input("obo", obo), Input("table", named, {"source": "X"})]).inputs
    assert [given.notes for given in found] == [(), ()]
    found = build_kb(tmp_path / "x", [Input("table", named), Input("obo", obo)]).inputs
    assert found[1].notes == (f"{obo}: its source is X, like that of {named}, so both count as one source",)
    with KnowledgeBase(tmp_path / "x") as kb:
        assert [source.name for source in kb.sources()] == ["X"]


def test_two_preferred_names_of_one_table_are_noted(tmp_path: Path) -> None:
    """The first stays preferred; a name that differs in case only is not noted."""
    head = "id,name,language,type"
    lines = ["A:1,Fieber,de,preferred", "A:1,Husten,de,preferred", "A:1,Tussis,de,preferred", "A:1,fever,en,preferred"]
    lines += ["A:2,Ödem,de,preferred", "A:2,ödem,de,preferred", "A:3,a,de,preferred", "A:3,b,de,"]
    table = write_lines(tmp_path / "t.csv", [head, *lines])
    [found] = build_kb(tmp_path / "kb", [Input("table", table)]).inputs
    assert found.notes == (
        "1 concept has another preferred name already, which stays (the first: A:1); this one is a synonym",
    )
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert kb.preferred_name("A:1", "de") == "Fieber"


def test_ids_that_differ_in_their_unicode_normal_form_are_noted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.tsv", ["id\tname", "K\u00f6\tone", "Ko\u0308\ttwo", "A\tthree"])
    report = build_kb(tmp_path / "kb.sqlite", [Input("table", path)])
    assert report.sources[0].concepts == 3
    assert report.inputs[0].notes == (
        "1 id differs from another one in the Unicode normal form only, which makes them different concepts "
        "(the first: K\u00f6). Remedy: write both in one form, such as NFC",
    )
