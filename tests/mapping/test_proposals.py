"""Proposals: by description, by code, by both; units, values, and what may be a target."""

from __future__ import annotations

from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking import Linker
from medlink.mapping import CodeMapping, Mapper, SourceCode


def proposed(bundle: Bundle, code: str, name: str, *, unit: str = "", **options: Any) -> CodeMapping:
    """The proposal for a German code."""
    return Mapper(bundle, **options).propose([SourceCode(code, name, unit=unit, language="de")])[0]


def ids(one: CodeMapping) -> list[str]:
    return [target.concept_id for target in one.targets]


def test_by_description(omop: Bundle) -> None:
    one = proposed(omop, "K1", "Fieber")
    assert ids(one) == ["OMOP:9"]
    assert (one.link, one.status, one.evidence) == ("linked", "UNCHECKED", "exact: Fieber")
    assert (one.targets[0].name, one.targets[0].domain) == ("Fever", "Condition")
    assert one.score == one.candidates[0].score > 0.5


def test_a_score_is_that_of_the_linker(demo: Bundle, linker: Linker) -> None:
    names = ["Herzinfarkt", "Lungenentzündungen", "MS", "Gartenzaun"]
    found = Mapper(demo).propose([SourceCode(str(i), name) for i, name in enumerate(names)])
    assert [one.candidates for one in found] == [link.candidates for link in linker.link(names)]


def test_a_name_of_several_is_proposed_as_none(omop: Bundle) -> None:
    one = proposed(omop, "K1", "MS")
    assert (one.link, ids(one)) == ("ambiguous", [])
    assert {c.concept_id for c in one.candidates[:2]} == {"OMOP:13", "OMOP:14"}


def test_the_first_of_several_is_proposed_where_that_is_asked_for(omop: Bundle) -> None:
    plain, first = (proposed(omop, "K1", "MS", resolve=resolve) for resolve in ("none", "first"))
    assert (first.link, ids(first)) == ("linked", [plain.candidates[0].concept_id])
    assert first.score == plain.candidates[0].score < 0.5
    # names alone make no two concepts one here
    assert proposed(omop, "K1", "MS", presume=False).candidates == plain.candidates


def test_a_code_that_means_a_concept_comes_first(omop: Bundle) -> None:
    one = proposed(omop, "code3", "Anfall", code_system="ICD10GM")
    assert (ids(one), one.link, one.status) == (["OMOP:2"], "linked", "AUTO_MAPPED_TO_1")
    assert one.evidence.startswith("code code3 of ICD10GM")
    assert one.source.assigned == ("2",)
    assert one.candidates[0].route == "code"
    # without the name of the system a code is any word
    assert proposed(omop, "code3", "Anfall").status == "UNCHECKED"


def test_a_code_and_a_description_that_agree(omop: Bundle) -> None:
    one = proposed(omop, "code3", "Herzanfall", code_system="ICD10GM")
    assert (ids(one), one.score) == (["OMOP:2"], 1.0)
    assert one.evidence == "code code3 of ICD10GM; exact: Herzanfall"


def test_a_code_and_a_description_that_disagree(omop: Bundle) -> None:
    one = proposed(omop, "code3", "Fieber", code_system="ICD10GM")
    assert (ids(one), one.link, one.status) == ([], "ambiguous", "UNCHECKED")
    first, second = one.candidates[:2]
    assert {first.concept_id, second.concept_id} == {"OMOP:9", "OMOP:2"}
    assert first.score + second.score == pytest.approx(1, abs=1e-5)
    assert "more likely means another concept" in one.evidence


def test_a_code_without_a_description(omop: Bundle) -> None:
    assert ids(proposed(omop, "code3", "", code_system="ICD10GM")) == ["OMOP:2"]
    nothing = proposed(omop, "K1", "")
    assert (ids(nothing), nothing.link, nothing.candidates) == ([], "nil", ())


def test_a_code_in_the_description(omop: Bundle) -> None:
    one = proposed(omop, "K1", "Anfall (SNOMED code2)")
    assert ids(one) == []  # no number in brackets, no code
    table = Mapper(omop)
    found = table.propose([SourceCode("OMOP:2", "x")])[0]
    assert (ids(found), found.status) == (["OMOP:2"], "AUTO_MAPPED_TO_1")


def test_units_and_values(omop: Bundle) -> None:
    one = proposed(omop, "K1", "Hb g/dl")
    assert [(t.concept_id, t.kind) for t in one.targets] == [("OMOP:10", "MAPS_TO"), ("OMOP:20", "MAPS_TO_UNIT")]
    assert one.source.unit == "g/dl"
    assert ids(proposed(omop, "K1", "Hb", unit="g/dL")) == ["OMOP:10", "OMOP:20"]
    assert ids(proposed(omop, "K1", "Hb", unit="mmol/l")) == ["OMOP:10"]
    one = proposed(omop, "K1", "HIV-Test negativ")
    assert [(t.concept_id, t.kind) for t in one.targets] == [("OMOP:11", "MAPS_TO"), ("OMOP:21", "MAPS_TO_VALUE")]
    assert one.evidence.endswith("value Negative apart")
    # the bundle has no concept for positive
    assert "OMOP:21" not in ids(proposed(omop, "K1", "HIV-Test positiv"))


def test_standard_concepts_alone(omop: Bundle) -> None:
    assert ids(proposed(omop, "K1", "Ward fever")) != ["OMOP:7"]
    assert all(c.concept_id not in ("OMOP:7", "OMOP:8") for c in proposed(omop, "K1", "Ward fever").candidates)
    assert ids(proposed(omop, "K1", "Ward fever", standard=False)) == ["OMOP:7"]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, ["OMOP:9"]),
        ({"under": ["OMOP:1"]}, ["OMOP:9"]),
        ({"under": ["OMOP:2"]}, []),
        ({"not_under": ["OMOP:9"]}, []),
        ({"ecl": "< OMOP:1"}, ["OMOP:9"]),
        ({"ecl": "< OMOP:1 MINUS OMOP:9"}, []),
        ({"semantic_types": ["Unit"]}, []),
        ({"sources": ["UCUM"]}, []),
        ({"threshold": 1.0}, []),
    ],
)
def test_filters(omop: Bundle, options: dict[str, Any], kept: list[str]) -> None:
    assert ids(proposed(omop, "K1", "Fieber", **options)) == kept


@pytest.mark.parametrize("options", [{"semantic_types": ["Unit"]}, {"sources": ["UCUM"]}, {"not_under": ["OMOP:2"]}])
def test_filters_hold_for_what_a_code_says(omop: Bundle, options: dict[str, Any]) -> None:
    assert ids(proposed(omop, "code3", "", code_system="ICD10GM", **options)) == []


def test_a_filter_brings_what_stood_behind_the_first_candidates(omop: Bundle) -> None:
    one = proposed(omop, "K1", "Fieber", k=1, not_under=["OMOP:9"])
    assert len(one.candidates) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"under": ["X:1"]}, "there is no concept 'X:1'"),
        ({"ecl": "<<<"}, "expression constraint"),
        ({"under": ["OMOP:2"], "not_under": ["OMOP:1"]}, "no concept is allowed as a target"),
        ({"date": "soon"}, "date is 'soon'"),
        ({"vocabulary": "a name of more than twenty"}, "vocabulary is"),
        ({"vocabulary": "a:b"}, "vocabulary is"),
    ],
)
def test_what_is_refused(omop: Bundle, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Mapper(omop, **options)
    assert caught.value.remedy


def test_proposals_do_not_depend_on_how_codes_are_parted(demo: Bundle) -> None:
    codes = [SourceCode(str(i), name) for i, name in enumerate(["Fieber", "fiebre", "Fieber", "MS", "", "Fieber"])]
    whole = Mapper(demo)
    assert whole.expect(codes) == 3
    single = Mapper(demo)
    single.expect(codes)
    assert whole.propose(codes) == [found for code in codes for found in single.propose([code])]


def test_a_description_is_linked_once(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    link = Linker.link
    monkeypatch.setattr(Linker, "link", lambda self, many: asked.extend(m.text for m in many) or link(self, many))
    mapper, codes = Mapper(demo), [SourceCode(str(i), "Fieber") for i in range(3)]
    mapper.expect(codes)
    for code in codes:
        mapper.propose([code])
    assert asked == ["Fieber"]


def test_the_day_of_a_proposal_is_told_and_not_found_out(omop: Bundle) -> None:
    assert proposed(omop, "K1", "Fieber").targets[0].created_on == 0
    target = proposed(omop, "K1", "Fieber", date="2026-11-23").targets[0]
    assert (target.created_by, target.created_on) == ("medlink", 1_795_392_000_000)
