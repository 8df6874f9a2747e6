"""Gold of code lists (``benchmarks/gold/codes``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medlink.kb import KnowledgeBase, build_kb
from medlink.mapping.descriptions import is_loinc
from tests.scripts import benchmark

code_lists = benchmark("code_lists")
PATHS = sorted((code_lists.GOLD / "codes").glob("*.tsv"))
FORMS = {
    "loinc": r"\d{1,6}-\d",
    "omop": r"[1-9]\d+",
    "atc": r"[A-Z]\d\d(?:[A-Z](?:[A-Z](?:\d\d)?)?)?",
    "organisms": r"D\d{6}|D\d{9}",
}


def targets_of(path: Path) -> tuple[str, str]:
    return code_lists.TARGETS_OF[path.stem.partition("_")[0]]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_rows_are_well_formed(path: Path) -> None:
    rows, (targets, _) = code_lists.read_table(path), targets_of(path)
    assert list(rows[0]) == ["name", "language", "unit", "gold", "kind", "note"]
    keys = [(row["name"], row["language"], row["unit"]) for row in rows]
    assert len(set(keys)) == len(keys) >= 100
    for row in rows:
        codes = row["gold"].split("|") if row["gold"] else []
        assert codes == sorted(set(codes)), row
        assert all(re.fullmatch(FORMS[targets], code) for code in codes), row
        assert targets != "loinc" or all(map(is_loinc, codes)), row
        assert bool(codes) != (row["kind"] in ("nil", "ambiguous")), row
        assert row["kind"], row
        assert codes or row["note"], row
        assert all(cell == cell.strip() for cell in row.values()), row
        assert path.stem.partition("_")[2] in ("", row["language"]), row
    assert 0.05 < sum(not row["gold"] for row in rows) / len(rows) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("targets", sorted(FORMS))
def test_concepts_exist_and_few_names_are_theirs(shared: Path, targets: str, tmp_path: Path) -> None:
    build_kb(tmp_path / "kb.sqlite", code_lists.inputs(targets, tmp_path / "names.tsv"))
    kb = KnowledgeBase(tmp_path / "kb.sqlite")
    for path in (path for path in PATHS if targets_of(path)[0] == targets):
        prefix, rows = targets_of(path)[1], code_lists.read_table(path)
        assert not [code for row in rows for code in row["gold"].split("|") if code and f"{prefix}{code}" not in kb]
        assert sum(bool(kb.lookup(row["name"])) for row in rows) < len(rows) / 4, path.stem
