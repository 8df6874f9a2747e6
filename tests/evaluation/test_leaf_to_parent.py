"""Leaves against the names of concepts that have children."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.evaluation.retrieval import Dictionary, Query, read_leaves
from medlink.kb import Input, KnowledgeBase, build_kb

TREE = """\
concept_id\tname\tlanguage\ttype\tparent
T:1\tdisease\ten\tpreferred\t
T:1\tKrankheit\tde\tpreferred\t
T:2\tlung disease\ten\tpreferred\tT:1
T:2\tpulmonary disease\ten\tsynonym\t
T:2\tlung disease (disorder)\ten\tfsn\t
T:3\theart disease\ten\tpreferred\tT:1
T:4\tasthma\ten\tpreferred\tT:2|T:4
T:4\tasthma (disorder)\ten\tfsn\t
T:4\tAsthma\tde\tpreferred\t
T:5\tcor  pulmonale\ten\tpreferred\tT:2|T:3
T:6\tfever\ten\tpreferred\t
"""


def store(folder: Path, table: str = TREE) -> KnowledgeBase:
    (folder / "tree.tsv").write_text(table, "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "tree.tsv")])
    return KnowledgeBase(folder)


def test_by_hand(tmp_path: Path) -> None:
    with store(tmp_path) as kb:
        task = read_leaves(kb)
        german = read_leaves(kb, languages=frozenset({"de"}))
    assert task.dictionary == Dictionary.of(
        [
            (("T:1",), "disease"),
            (("T:1",), "Krankheit"),
            (("T:2",), "lung disease"),
            (("T:2",), "pulmonary disease"),
            (("T:3",), "heart disease"),
        ]
    )
    assert task.queries == (
        Query(("Asthma",), ("T:2",), "de", "T:4"),
        Query(("asthma",), ("T:2",), "en", "T:4"),
        Query(("cor pulmonale",), ("T:2", "T:3"), "en", "T:5"),
    )
    assert task.nameless == 0
    assert german.dictionary.texts == ("Krankheit",)
    assert german.queries == (Query(("Asthma",), ("T:2",), "de", "T:4"),)
    assert german.nameless == 1


def test_refusals(tmp_path: Path) -> None:
    with (
        store(tmp_path, "concept_id\tname\nA\tasthma\nB\tcough\n") as kb,
        pytest.raises(
            InputError, match=r"no concept with a parent and without a child\. Remedy: build it from a source"
        ),
    ):
        read_leaves(kb)
    with (
        store(tmp_path) as kb,
        pytest.raises(InputError, match=r"leaves have no name of es\. Remedy: name other languages"),
    ):
        read_leaves(kb, languages=frozenset({"es"}))
    inner = "concept_id\tname\tlanguage\tparent\nA\tasthma\ten\tB\nB\tKrankheit\tde\t\n"
    with (
        store(tmp_path, inner) as kb,
        pytest.raises(InputError, match="concepts with a child have no name of en"),
    ):
        read_leaves(kb, languages=frozenset({"en"}))
