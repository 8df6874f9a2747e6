"""Descriptions in other words: names of drugs, Latin words, Greek compounds of operations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medlink.files.resources import RESOURCES
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.languages import rows
from medlink.language.text import normalise
from medlink.mapping import Mapper, SourceCode
from medlink.mapping.drug_names import other_names
from medlink.mapping.latin import in_english
from medlink.mapping.operations import in_other_words
from medlink.mapping.procedure_words import lacks_approach, procedure_words
from tests.tables import cases


@pytest.mark.parametrize(("file", "least"), [("drug_names.tsv", 1_900), ("organism_names.tsv", 200)])
def test_no_name_is_that_of_two_concepts(file: str, least: int) -> None:
    table = list(rows(RESOURCES / "mapping" / file, "names", "source"))
    names = Counter(normalise(name) for row in table for name in row["names"].split(" | "))
    assert len(table) > least
    assert set(names.values()) == {1}
    assert all(row["source"] and " | " in row["names"] for row in table)


@pytest.mark.parametrize(("description", "names"), [
    ("Sulfafurazole; systemic", ["sulfisoxazole"]), ("sulfisoxazole", ["sulfafurazole"]),
    ("thioctic acid; oral", ["alpha-lipoic acid", "thioctate", "thioctate"]),
    ("magnesium pidolate and drugs", ["pidolate", "pidolic acid"]), ("Iron [Mass/volume] in Serum", []),
    ("iodine (131I) omburtamab", ["omburtamab"]), ("iodine (topical)", []), ("Appendicitis, acute", []),
])  # fmt: skip
def test_other_names(description: str, names: list[str]) -> None:
    assert list(other_names(description)) == names


@pytest.mark.parametrize(("description", "others"), [
    ("Gastropexy", ["fixation of stomach"]), ("Reconstruction of the nose", ["rhinoplasty"]),
    ("removal of breast, left", ["mastectomy, left"]), ("Total colectomy", [
        "Total excision of colon", "Total resection of colon", "Total removal of colon"
    ]),
    ("Kolostomie", ["construction of colostomy", "colostomy"]), ("Artroscopia", ["endoscopy of joint", "arthroscopy"]),
    ("Anatomy of lung", []), ("Colonoscopy", []), ("Excision of lesion", []),
])  # fmt: skip
def test_operations_in_other_words(description: str, others: list[str]) -> None:
    assert list(in_other_words(description)) == others


@pytest.mark.parametrize(("description", "english"), [
    ("carcinoma mucinosum", "carcinoma mucinous"), ("Hyperplasia glandularis", "Hyperplasia glandular"),
    ("papilloma invertum", "papilloma inverted"), ("anorexia nerviosa", ""), ("rosa", ""),
])  # fmt: skip
def test_latin_words(description: str, english: str) -> None:
    assert list(in_english(description)) == ([english] if english else [])


def test_a_combination_of_atc_is_not_its_first_drug(tmp_path: Path) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("concept_id\tname\tlanguage\nATC:S01GA06\tsynephrine\ten\nATC:S01GA01\tnaphazoline\ten\n", "utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", names, {"source": "ATC"})])
    bundle = Bundle(build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite", encoder="builtin").folder)
    codes = [SourceCode("1", name, language="en") for name in ("oxedrine; ophthalmic", "oxedrine, combinations")]
    alone, combined = Mapper(bundle).propose(codes)
    assert (alone.link, alone.candidates[0].concept_id) == ("linked", "ATC:S01GA06")
    assert combined.link == "nil"


@pytest.mark.parametrize(("description", "name", "relation"), cases(__file__, "procedure_pairs.tsv"))
def test_procedures_by_their_acts_sites_and_approaches(description: str, name: str, relation: str) -> None:
    own, its = (procedure_words(normalise(text)) for text in (description, name))
    assert (bool(own) and own == its) == (relation == "same")
    assert lacks_approach(description, name) == (relation == "wider")


def test_every_procedure_word_has_a_source() -> None:
    table = list(rows(RESOURCES / "mapping" / "procedure_words.tsv", "kind", "canonical", "words", "source"))
    assert {row["kind"] for row in table} == {"act", "equal", "together", "approach", "idle"}
    assert all(row["source"] and row["words"] for row in table)
