"""Retired concepts: from release files to their current successors."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from medlink.cli.kb import kb as group
from medlink.errors import InputError, KnowledgeBaseError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb, extend_kb
from medlink.kb.hierarchy import OUTSIDE_HIERARCHY
from medlink.kb.readers.obo import read_obo
from medlink.kb.readers.obograph import read_obograph
from medlink.kb.readers.rf2 import read_rf2
from medlink.kb.readers.rrf import read_rrf
from medlink.kb.retired import successors
from medlink.records import Retired
from tests.kb.writers import FSN, INFERRED, conso, opened_kb, rf2, row, write_lines

SAME, REPLACED, POSSIBLE = "900000000000527005", "900000000000526001", "900000000000523009"
OBO = "http://purl.obolibrary.org/obo/"


def retired(records: Any) -> list[Retired]:
    return [record for record in records if isinstance(record, Retired)]


def umls(folder: Path, *history: str) -> Path:
    write_lines(folder / "MRCONSO.RRF", [conso("C1", "fever"), conso("C2", "cough")])
    write_lines(folder / "MRCUI.RRF", list(history))
    return folder


def test_mrcui(tmp_path: Path) -> None:
    history = [
        "C9|2019AA|SY|||C1|Y|",
        "C8|2019AB|RB|||C2|Y|",
        "C8|2019AB|RO|||C7||",
        "C6|2001AA|DEL|||||",
        "C5|2020AA|SUBX|||||",
        "C4|2020AA|XX|||C1|Y|",
        "|2020AA|SY|||C1|Y|",
        "C3|2020AA|SY|||||",
    ]
    problems = Problems()
    assert retired(read_rrf(umls(tmp_path / "META", *history), problems=problems)) == [
        Retired("C9", "same_as", "C1", "UMLS"),
        Retired("C8", "broader", "C2", "UMLS"),
        Retired("C8", "related", "C7", "UMLS"),
        Retired("C6", "deleted", "", "UMLS"),
    ]
    assert problems.skipped == {"concept outside the subset": 1}
    assert problems.bad == {"unknown kind of retirement": 1, "empty id": 1, "no concept to which it is mapped": 1}


def test_mrcui_is_checked_against_mrfiles(tmp_path: Path) -> None:
    folder = umls(tmp_path / "META", "C9|2019AA|SY|||C1|Y|")
    for rows, refused in ((2, True), (1, False)):
        write_lines(folder / "MRFILES.RRF", [f"MRCUI.RRF|Retired|CUI1,VER,REL,RELA,MAPREASON,CUI2,MAPIN|7|{rows}|22|"])
        if refused:
            with pytest.raises(InputError, match="has 1 rows, 2 are listed in"):
                list(read_rrf(folder))
        else:
            assert len(retired(read_rrf(folder))) == 1


def snomed(folder: Path, *associations: list[str]) -> Path:
    rf2(folder, "sct2_Concept_Snapshot_INT_20260901.txt", "definitionStatusId",
        [row(one, "0", active="01"[one in (1, 5)]) for one in range(1, 6)])  # fmt: skip
    rf2(folder, "sct2_Description_Snapshot-en_INT_20260901.txt",
        "conceptId languageCode typeId term caseSignificanceId",
        [row(10, "1", "en", FSN, "Fever (finding)", "0"), row(11, "5", "en", FSN, "Cough (finding)", "0")])  # fmt: skip
    rf2(folder, "sct2_Relationship_Snapshot_INT_20260901.txt",
        "sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId",
        [row(20, "5", "1", "0", "116680003", INFERRED, "0")])  # fmt: skip
    rf2(folder, "der2_cRefset_AssociationSnapshot_INT_20260901.txt",
        "refsetId referencedComponentId targetComponentId", list(associations))  # fmt: skip
    return folder


def test_historical_associations(tmp_path: Path) -> None:
    folder = snomed(
        tmp_path,
        row("a", SAME, "2", "1"),
        row("b", POSSIBLE, "3", "1"),
        row("c", POSSIBLE, "3", "5"),
        row("d", REPLACED, "3", "5", active="0"),
        row("e", SAME, "10", "11"),
        row("f", "123", "2", "5"),
        row("g", SAME, "4", ""),
    )
    problems = Problems()
    assert retired(read_rf2(folder, problems=problems)) == [
        Retired("2", "same_as", "1", "SNOMEDCT"),
        Retired("3", "possibly_equivalent_to", "1", "SNOMEDCT"),
        Retired("3", "possibly_equivalent_to", "5", "SNOMEDCT"),
        Retired("4", "deleted", "", "SNOMEDCT"),
    ]
    assert problems.skipped["association of a concept that is not inactive"] == 2
    assert problems.bad == {"no concept that replaces it": 1}
    assert problems.skipped["inactive Association row"] == 1


def test_obo(tmp_path: Path) -> None:
    lines = [
        *("[Term]", "id: X:1", "name: fever", "alt_id: X:8", "alt_id: X:9 ! a comment", ""),
        *("[Term]", "id: X:2", "name: old", "is_obsolete: true", "replaced_by: X:1", "consider: X:3", ""),
        *("[Term]", "id: X:4", "name: obsolete cough", "consider: X:1", ""),
        *("[Term]", "id: X:5", "name: gone", "is_obsolete: true", ""),
        *("[Term]", "id: Y:5", "name: gone", "is_obsolete: true", "replaced_by: X:1"),
    ]
    assert retired(read_obo(write_lines(tmp_path / "x.obo", lines))) == [
        Retired("X:8", "same_as", "X:1", "X"),
        Retired("X:9", "same_as", "X:1", "X"),
        Retired("X:2", "replaced_by", "X:1", "X"),
        Retired("X:2", "consider", "X:3", "X"),
        Retired("X:4", "consider", "X:1", "X"),
        Retired("X:5", "deleted", "", "X"),
    ]


def test_obograph(tmp_path: Path) -> None:
    def node(number: str, label: str, **properties: str) -> dict[str, Any]:
        values = [
            {"pred": pred.replace("__", "#"), "val": val} for pred, val in properties.items() if pred != "deprecated"
        ]
        meta = {"basicPropertyValues": values, "deprecated": "deprecated" in properties}
        return {"id": OBO + number, "lbl": label, "type": "CLASS", "meta": meta}

    in_owl = "http://www.geneontology.org/formats/oboInOwl__"
    nodes = [
        node("X_1", "fever", **{in_owl + "hasAlternativeId": "X:8"}),
        node("X_2", "obsolete old", deprecated="", **{OBO + "IAO_0100001": OBO + "X_1", in_owl + "consider": "X:3"}),
        # a merge is written on both sides
        node("X_8", "obsolete one", deprecated="", **{OBO + "IAO_0100001": "X:1"}),
        node("X_5", "obsolete gone"),
        node("Y_5", "gone", deprecated="", **{OBO + "IAO_0100001": "X:1"}),
    ]
    (tmp_path / "x.json").write_text(json.dumps({"graphs": [{"nodes": nodes}]}), "utf-8")
    assert retired(read_obograph(tmp_path / "x.json")) == [
        Retired("X:8", "same_as", "X:1", "X"),
        Retired("X:2", "replaced_by", "X:1", "X"),
        Retired("X:2", "consider", "X:3", "X"),
        Retired("X:5", "deleted", "", "X"),
    ]


HISTORY = [
    *("[Term]", "id: X:1", "name: fever", "alt_id: X:9", "alt_id: X:9", ""),
    *("[Term]", "id: X:2", "name: cough", "alt_id: X:1", ""),
    # a chain, a cycle, a more certain path, an unknown replacement
    *("[Term]", "id: X:3", "name: a", "is_obsolete: true", "replaced_by: X:4", ""),
    *("[Term]", "id: X:4", "name: b", "is_obsolete: true", "consider: X:1", "replaced_by: X:3", ""),
    *("[Term]", "id: X:5", "name: c", "is_obsolete: true", "consider: X:2", "replaced_by: X:6", ""),
    *("[Term]", "id: X:6", "name: d", "is_obsolete: true", "replaced_by: X:2", "replaced_by: X:77", ""),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    report = build_kb(folder / "kb.sqlite", [Input("obo", write_lines(folder / "x.obo", HISTORY))])
    skipped = report.inputs[0].skipped
    assert skipped["retirement of a concept that is loaded"] == skipped["retirement repeated, kept once"] == 1
    return folder / "kb.sqlite"


def test_successors(history: Path) -> None:
    with KnowledgeBase(history) as kb:
        assert kb.retired("X:9") == [Retired("X:9", "same_as", "X:1", "X")]
        assert kb.retired("X:1") == kb.retired("nothing") == []
        assert successors(kb, "X:3") == [Retired("X:3", "consider", "X:1", "X")]
        # "consider" directly, "replaced_by" through X:6: the more certain one counts
        assert successors(kb, "X:5") == [Retired("X:5", "replaced_by", "X:2", "X")]
        assert successors(kb, "X:77") == []


def test_show(history: Path) -> None:
    def show(*words: str) -> str:
        result = CliRunner().invoke(group, ["show", str(history), *words], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    assert show("X:6").splitlines() == [
        "X:6  retired  (X)",
        "replaced by X:77, which is not in this knowledge base",
        "replaced by X:2  cough",
    ]
    assert json.loads(show("X:9", "--json")) == {
        "concept_id": "X:9",
        "retired": [{"type": "same_as", "replaced_by": "X:1", "source": "X"}],
        "now": [{"concept_id": "X:1", "type": "same_as", "preferred_name": "fever"}],
    }
    with pytest.raises(InputError, match="there is no concept 'X:77'"):
        show("X:77")


def test_hierarchy_filter_keeps_retirements(tmp_path: Path) -> None:
    """A retired concept is in no hierarchy, but its successor may be selected."""
    lines = [
        *("[Term]", "id: X:1", "name: finding", ""),
        *("[Term]", "id: X:2", "name: fever", "is_a: X:1", "alt_id: X:7", ""),
        *("[Term]", "id: X:3", "name: old", "is_obsolete: true", "replaced_by: X:4", ""),
        *("[Term]", "id: X:4", "name: older", "is_obsolete: true", "replaced_by: X:2", ""),
    ]
    given = Input("obo", write_lines(tmp_path / "x.obo", lines))
    for options in ({"under": ["X:2"]}, {"not_under": ["X:5"]}):
        if "not_under" in options:
            write_lines(tmp_path / "x.obo", [*lines, "[Term]", "id: X:5", "name: cough"])
        report = build_kb(tmp_path / "kb", [given], **options)
        with KnowledgeBase(tmp_path / "kb") as kb:
            assert [one.replaced_by for one in successors(kb, "X:7")] == ["X:2"]
            assert [one.replaced_by for one in successors(kb, "X:3")] == ["X:2"]
    # of X:5 the concept and its name
    assert report.inputs[0].skipped == {"obsolete term": 2, OUTSIDE_HIERARCHY: 2}


def test_reloaded_concept_is_not_retired(history: Path, tmp_path: Path) -> None:
    table = write_lines(tmp_path / "ward.tsv", ["concept_id\tname", "X:9\tnine"])
    extend_kb(history, tmp_path / "kb.sqlite", [Input("table", table)])
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        assert kb.retired("X:9") == []
        assert kb.get("X:9") is not None
        assert kb.retired("X:6") != []


def test_merge_given_by_both_terms(tmp_path: Path) -> None:
    """The alternative id of the current term outweighs the obsolete term without a replacement."""
    lines = ["[Term]", "id: X:1", "name: fever", "alt_id: X:2", "", "[Term]", "id: X:2", "is_obsolete: true"]
    with opened_kb(tmp_path / "kb", Input("obo", write_lines(tmp_path / "x.obo", lines))) as kb:
        assert kb.retired("X:2") == [Retired("X:2", "same_as", "X:1", "X")]


def test_unknown_kind(history: Path, tmp_path: Path) -> None:
    shutil.copyfile(history, tmp_path / "bad.sqlite")
    with closing(sqlite3.connect(tmp_path / "bad.sqlite")) as connection:
        connection.execute("UPDATE retired SET type = 'odd'")
        connection.commit()
    with (
        KnowledgeBase(tmp_path / "bad.sqlite") as kb,
        pytest.raises(KnowledgeBaseError, match=r"unknown kind of retirement 'odd'.*Remedy: build it again"),
    ):
        successors(kb, "X:9")


@pytest.mark.slow
def test_older_schema_version(history: Path, tmp_path: Path) -> None:
    """It has no retired concepts, and gets the table when it is extended."""
    old = Path(shutil.copy(history, tmp_path / "old.sqlite"))
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("DROP TABLE retired")
        connection.execute("UPDATE meta SET value = 1 WHERE key = 'schema_version'")
        connection.commit()
    with KnowledgeBase(old) as kb:
        assert kb.schema_version == 1
        assert kb.retired("X:9") == []
    more = write_lines(tmp_path / "x.obo", HISTORY)
    extend_kb(old, tmp_path / "new.sqlite", [Input("obo", more)])
    with KnowledgeBase(tmp_path / "new.sqlite") as kb:
        assert kb.schema_version == 2
        assert kb.retired("X:9") == [Retired("X:9", "same_as", "X:1", "X")]
