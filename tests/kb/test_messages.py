"""Notes of a load: the first skipped record of each kind, cycles of parents, shared sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medlink.kb import Input, KnowledgeBase, build_kb, extend_kb
from medlink.kb.report import InputReport

from .writers import conso, rel, write_lines

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
        f"  left out: relation of a concept that is not loaded: 2 (the first: {one.path}:3: A:2 isa Z:9; "
        "there is no concept Z:9)",
        f"  left out: relation of a concept with itself: 2 (the first: {one.path}:5: A:4)",
    ]
    assert two.first == {
        "relation of a concept that is not loaded": f"{two.path}:3: B:2 isa Z:9; there is no concept Z:9"
    }


def test_cycles_of_parents_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    one, two = built(
        tmp_path,
        ["A:1,top,", "A:2,two,A:1|A:3", "A:3,three,A:2", "A:4,four,A:2", "A:5,five,A:6", "A:6,six,A:7"],
        ["A:7,seven,A:5|A:1", "B:1,b one,B:2|A:1", "B:2,b two,B:1"],
    )
    assert one.notes == (f"{one.path}:3: 2 cycles of parents, the first: A:2, A:3. Remedy: remove one of its parents",)
    # that of A:5, A:6 and A:7 begins in the first table
    assert two.notes == (f"{two.path}:3: 1 cycle of parents: B:1, B:2. Remedy: remove one of its parents",)
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
        f"{tmp_path}/MRREL.RRF:3: 1 cycle of parents: C1, C3. Remedy: remove one of its parents"
    ]


def test_only_cycles_that_an_addition_closes_are_noted(tmp_path: Path) -> None:
    built(tmp_path, ["A:1,one,A:2", "A:2,two,A:1", "B:1,b,A:1", "B:2,c,B:1", "B:3,d,"])

    def added(*lines: str) -> tuple[str, ...]:
        table = write_lines(tmp_path / "more.csv", [HEAD, *lines])
        shutil.copy(tmp_path / "kb", tmp_path / "copy")
        return extend_kb(tmp_path / "copy", tmp_path / "copy", [Input("table", table)]).inputs[0].notes

    assert added("N:1,new,B:2", "N:2,newer,N:1", "B:3,d,B:2") == ()
    assert added("N:1,new,B:2", "B:1,b,N:1") == (
        f"{tmp_path}/more.csv:2: 1 cycle of parents: N:1, B:1. Remedy: remove one of its parents",
    )


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
