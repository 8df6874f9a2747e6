"""Gold of code lists (``benchmarks/gold/codes``) and the figures of ``benchmarks/code_lists.py``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.kb import KnowledgeBase, build_kb
from medlink.mapping.descriptions import is_loinc
from tests.scripts import benchmark

code_lists, open_data = benchmark("code_lists"), benchmark("open_data")
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


def test_figures_of_a_small_list(demo: Bundle, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    names = {"Z.n. Herzinfarkt": "DEMO:0016", "Hemoglobin": "DEMO:0447", "Pneumonie": "DEMO:0016", "Porto": ""}
    codes = [
        code_lists.Code(str(place), name, "de", "", frozenset({concept} - {""}))
        for place, (name, concept) in enumerate(names.items())
    ]
    maps = code_lists.map_list(demo, codes, tmp_path)
    ranked = [[candidate["concept_id"] for candidate in line["candidates"]] for line in maps]
    assert code_lists.accuracies(codes, ranked) == ["0.667", "0.667"]  # the gold of Pneumonie is wrong
    proposed, right, error, kept = code_lists.proposal_cells(codes, maps)
    assert (proposed, right, kept) == ("0.750", "0.667", "1.000")
    assert 0 < float(error) < 0.5
    (wrong,) = code_lists.mistakes("small", demo, codes, maps)
    assert wrong[:7] == ["small", "2", "Pneumonie", "de", "", "DEMO:0016 myocardial infarction", "linked"]
    rivals = code_lists.Rivals(demo)
    for rank in (rivals.tfidf, rivals.fuzzy):
        assert rank(["myocardial infarction", "haemoglobin"])[0][0] == "DEMO:0016"


def test_tumours_without_grades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "T1\tMORFOLOGIA_NEOPLASIA 0 7\t{}\n#1\tAnnotatorNotes T1\t{}\n"
    codes = ("8140/33", "carcinoma G3"), ("8140/6/H", "carcinoma G3"), ("9999/9", "lesión")  # of three documents
    (tmp_path / "cantemist/dev").mkdir(parents=True)
    for number, (code, text) in enumerate(codes):
        (tmp_path / f"cantemist/dev/{number}.ann").write_text(lines.format(text, code), "utf-8")
    (tmp_path / "icd_de").mkdir()
    rubric = '<Rubric kind="preferred"><Label>x</Label></Rubric>'
    classes = "".join(f'<Class code="{code}">{rubric}</Class>' for code in ("8140:3", "8140:6"))
    (tmp_path / "icd_de/icdo.xml").write_text(f"<ClaML>{classes}</ClaML>", "utf-8")
    for name in ("BENCHMARKS", "TERMINOLOGIES"):
        monkeypatch.setattr(open_data, name, tmp_path)
    found = {(query.text, query.language): query.gold for query in open_data.cantemist("dev")}
    assert found == {("carcinoma G3", "es"): {"ICDO3:8140/3", "ICDO3:8140/6"}, ("lesión", "es"): set()}


@pytest.mark.slow
def test_tumours_have_codes_of_the_bundle(shared: Path, tmp_path: Path) -> None:
    build_kb(tmp_path / "kb.sqlite", code_lists.inputs("icdo", tmp_path / "names.tsv"))
    kb = KnowledgeBase(tmp_path / "kb.sqlite")
    queries = open_data.cantemist("dev")
    assert (len(queries), sum(not query.gold for query in queries)) == (1253, 116)
    assert all(concept in kb for query in queries for concept in query.gold)


@pytest.mark.slow
@pytest.mark.parametrize("targets", sorted(FORMS))
def test_concepts_exist_and_few_names_are_theirs(shared: Path, targets: str, tmp_path: Path) -> None:
    build_kb(tmp_path / "kb.sqlite", code_lists.inputs(targets, tmp_path / "names.tsv"))
    kb = KnowledgeBase(tmp_path / "kb.sqlite")
    for path in (path for path in PATHS if targets_of(path)[0] == targets):
        prefix, rows = targets_of(path)[1], code_lists.read_table(path)
        assert not [code for row in rows for code in row["gold"].split("|") if code and f"{prefix}{code}" not in kb]
        assert sum(bool(kb.lookup(row["name"])) for row in rows) < len(rows) / 4, path.stem
