"""Proposals by description, by code, and by both; units, values, filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.linking.ranking import default_ranker
from medlink.mapping import CodeMapping, Mapper, SourceCode
from medlink.records import Link


def propose(bundle: Bundle, code: str, name: str, *, unit: str = "", **options: Any) -> CodeMapping:
    """The proposal for a German code."""
    return Mapper(bundle, **options).propose([SourceCode(code, name, unit=unit, language="de")])[0]


def ids(one: CodeMapping) -> list[str]:
    return [target.concept_id for target in one.targets]


ICD = {"code_system": "ICD10GM"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "name", "options", "targets", "link", "status", "evidence"),
    [
        ("K1", "Fieber", {}, ["OMOP:9"], "linked", "UNCHECKED", "exact: Fieber"),
        ("K1", "MS", {}, [], "ambiguous", "UNCHECKED", "exact: MS"),
        ("K1", "", {}, [], "nil", "UNCHECKED", ""),
        # a code that means a concept comes first; without the name of its system it is any word
        ("code3", "Anfall", ICD, ["OMOP:2"], "linked", "AUTO_MAPPED_TO_1", "code code3 of ICD10GM; words: Herzanfall"),
        ("code3", "", ICD, ["OMOP:2"], "linked", "AUTO_MAPPED_TO_1", "code code3 of ICD10GM"),
        ("code3", "Herzanfall", {}, ["OMOP:2"], "linked", "UNCHECKED", "exact: Herzanfall"),
        ("OMOP:2", "x", {}, ["OMOP:2"], "linked", "AUTO_MAPPED_TO_1", "code 2 of OMOP"),
        # code and description agree, and disagree
        ("code3", "Herzanfall", ICD, ["OMOP:2"], "linked", "AUTO_MAPPED_TO_1",
         "code code3 of ICD10GM; exact: Herzanfall"),
        ("code3", "Fieber", ICD, [], "ambiguous", "UNCHECKED",
         "code code3 of ICD10GM, but the description more likely means another concept"),
    ],
)  # fmt: skip
def test_proposals(
    code: str, name: str, options: dict[str, Any], targets: list[str], link: str, status: str, evidence: str,
    omop: Bundle,
) -> None:  # fmt: skip
    one = propose(omop, code, name, **options)
    assert (ids(one), one.link, one.status, one.evidence) == (targets, link, status, evidence)
    assert one.score == (one.candidates[0].score if one.candidates else 0)


def test_candidates_of_a_proposal(omop: Bundle) -> None:
    one = propose(omop, "K1", "Fieber")
    assert (one.targets[0].name, one.targets[0].domain) == ("Fever", "Condition")
    assert one.score > 0.5
    by_code = propose(omop, "code3", "Anfall", **ICD)
    assert (by_code.source.assigned, by_code.candidates[0].route) == (("2",), "code")
    assert propose(omop, "code3", "Herzanfall", **ICD).score == 1
    first, second = propose(omop, "code3", "Fieber", **ICD).candidates[:2]
    assert {first.concept_id, second.concept_id} == {"OMOP:9", "OMOP:2"}
    assert first.score + second.score == pytest.approx(1, abs=1e-5)


def test_a_name_of_several_concepts(omop: Bundle) -> None:
    plain, first = (propose(omop, "K1", "MS", resolve=resolve) for resolve in ("none", "first"))
    assert {c.concept_id for c in plain.candidates[:2]} == {"OMOP:13", "OMOP:14"}
    assert (first.link, ids(first)) == ("linked", [plain.candidates[0].concept_id])
    assert first.score == plain.candidates[0].score < 0.5
    # the concepts share names only, and are not presumed to be the same
    assert propose(omop, "K1", "MS", presume=False).candidates == plain.candidates


def test_first_candidates_are_those_of_the_linker(demo: Bundle, linker: Linker) -> None:
    names = ["Herzinfarkt", "Lungenentzündungen", "MS", "Gartenzaun"]
    found = Mapper(demo).propose([SourceCode(str(i), name) for i, name in enumerate(names)])
    links = linker.link(names)
    assert [one.link for one in found] == [link.status for link in links]
    assert [ids(one) for one in found[:2]] == [[link.candidates[0].concept_id] for link in links[:2]]


def test_a_bundle_with_its_own_calibration_ranks_by_it(demo: Bundle, linker: Linker, monkeypatch: Any) -> None:
    fitted = default_ranker()
    curves = replace(fitted.calibration, named=replace(fitted.calibration.named, offset=-12.0))
    stored = replace(fitted, calibration=curves).to_dict()
    monkeypatch.setitem(demo.manifest, "calibration", stored)
    own = Linker(demo).link(["Herzinfarkt"])[0]
    assert propose(demo, "1", "Herzinfarkt").candidates[0].score == own.candidates[0].score
    assert own.candidates[0].score != linker.link(["Herzinfarkt"])[0].candidates[0].score


@pytest.mark.parametrize(
    ("name", "assigned", "targets", "evidence"),
    [
        ("Fieber", "9", ["OMOP:9"], "assigned by the list; exact: Fieber"),
        ("Irgendwas", "9", ["OMOP:9"], "assigned by the list"),
        # merged into another one
        ("Irgendwas", "5", ["OMOP:2"], "assigned by the list"),
        ("Fieber", "2", [], "assigned by the list, but the description more likely means another concept"),
        ("Irgendwas", "77", [], ""),
    ],
)
def test_concepts_that_a_list_assigns(
    omop: Bundle, name: str, assigned: str, targets: list[str], evidence: str
) -> None:
    (one,) = Mapper(omop, language="de").propose([SourceCode("K1", name, assigned=(assigned,))])
    assert (ids(one), one.source.assigned) == (targets, (assigned,))
    assert one.status == ("AUTO_MAPPED_TO_1" if targets else "UNCHECKED")
    assert one.evidence.startswith(evidence)
    assert (one.candidates[0].concept_id if targets else "") == "".join(targets)


def test_the_rank_of_an_assigned_concept(omop: Bundle) -> None:
    plain = propose(omop, "K1", "Fiebersenkung", threshold=0.99)
    second = plain.candidates[1].concept_id
    (one,) = Mapper(omop, threshold=0.99).propose([replace(plain.source, assigned=(second.removeprefix("OMOP:"),))])
    assert "candidate 2 of the description" in one.evidence
    assert second in [candidate.concept_id for candidate in one.candidates]


@pytest.mark.parametrize(
    ("name", "unit", "targets"),
    [
        ("Hb g/dl", "", [("OMOP:10", "MAPS_TO"), ("OMOP:20", "MAPS_TO_UNIT")]),
        ("Hb", "g/dL", [("OMOP:10", "MAPS_TO"), ("OMOP:20", "MAPS_TO_UNIT")]),
        ("Hb", "mmol/l", [("OMOP:10", "MAPS_TO")]),
        ("HIV-Test negativ", "", [("OMOP:11", "MAPS_TO"), ("OMOP:21", "MAPS_TO_VALUE")]),
    ],
)
def test_units_and_values(omop: Bundle, name: str, unit: str, targets: list[tuple[str, str]]) -> None:
    one = propose(omop, "K1", name, unit=unit)
    assert [(target.concept_id, target.kind) for target in one.targets] == targets
    assert one.source.unit == (unit or ("g/dl" if "g/dl" in name else ""))
    assert one.evidence.endswith("value Negative apart") == ("negativ" in name)
    # the bundle has no concept for positive
    assert "OMOP:21" not in ids(propose(omop, "K1", "HIV-Test positiv"))


@pytest.mark.parametrize(
    ("code", "name", "options", "targets"),
    [
        ("K1", "Ward fever", {"standard": False}, ["OMOP:7"]),
        ("K1", "Fieber", {"under": ["OMOP:1"]}, ["OMOP:9"]),
        ("K1", "Fieber", {"under": ["OMOP:2"]}, []),
        ("K1", "Fieber", {"not_under": ["OMOP:9"]}, []),
        ("K1", "Fieber", {"ecl": "< OMOP:1"}, ["OMOP:9"]),
        ("K1", "Fieber", {"ecl": "< OMOP:1 MINUS OMOP:9"}, []),
        ("K1", "Fieber", {"semantic_types": ["Unit"]}, []),
        ("K1", "Fieber", {"sources": ["UCUM"]}, []),
        ("K1", "Fieber", {"threshold": 1.0}, []),
        # filters hold for concepts of a code, too
        ("code3", "", {**ICD, "semantic_types": ["Unit"]}, []),
        ("code3", "", {**ICD, "sources": ["UCUM"]}, []),
        ("code3", "", {**ICD, "not_under": ["OMOP:2"]}, []),
    ],
)
def test_filters(omop: Bundle, code: str, name: str, options: dict[str, Any], targets: list[str]) -> None:
    assert ids(propose(omop, code, name, **options)) == targets


def test_filters_act_before_candidates_are_cut(omop: Bundle) -> None:
    assert len(propose(omop, "K1", "Fieber", k=1, not_under=["OMOP:9"]).candidates) == 1
    standard = {c.concept_id for c in propose(omop, "K1", "Ward fever").candidates}
    assert not standard & {"OMOP:7", "OMOP:8"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"under": ["X:1"]}, "there is no concept 'X:1'"),
        ({"ecl": "<<<"}, "expression constraint"),
        ({"under": ["OMOP:2"], "not_under": ["OMOP:1"]}, "the filters leave no concept"),
        ({"date": "soon"}, "date is 'soon'"),
        ({"vocabulary": "a name of more than twenty"}, "vocabulary is"),
        ({"vocabulary": "a:b"}, "vocabulary is"),
    ],
)
def test_options_that_are_refused(omop: Bundle, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Mapper(omop, **options)
    assert caught.value.remedy


def test_each_description_is_linked_once(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposals do not depend on the batches."""
    codes = [SourceCode(str(i), name) for i, name in enumerate(["Fieber", "fiebre", "Fieber", "MS", "", "Fieber"])]
    at_once = Mapper(demo)
    assert at_once.expect(codes) == 3
    expected = at_once.propose(codes)
    linked: list[str] = []
    link = Linker.link

    def count(self: Linker, many: list[Mention], **options: Any) -> list[Link]:
        linked.extend(mention.text for mention in many if not options)  # with k the ranking is cached
        return link(self, many, **options)

    monkeypatch.setattr(Linker, "link", count)
    one_by_one = Mapper(demo, infer_domain=False)
    one_by_one.expect(codes)
    assert [found for code in codes for found in one_by_one.propose([code])] == expected
    assert linked == ["Fieber", "fiebre", "MS"]


def test_only_a_given_day_is_written(omop: Bundle) -> None:
    assert propose(omop, "K1", "Fieber").targets[0].created_on == 0
    target = propose(omop, "K1", "Fieber", date="2026-11-23").targets[0]
    assert (target.created_by, target.created_on) == ("medlink", 1_795_392_000_000)
