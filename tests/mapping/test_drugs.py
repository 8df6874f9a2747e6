"""Lines of medication in lists: routes, forms, strengths, salts, partners and short names of drugs on ATC."""

from __future__ import annotations

import pytest

from medlink.index import Bundle
from medlink.linking.drugs import codes_of_route
from medlink.mapping import Mapper, SourceCode
from tests.tables import bundle_of_table, cases


@pytest.fixture(scope="module")
def atc(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of some codes of ATC with their German names."""
    return bundle_of_table(tmp_path_factory.mktemp("atc"), __file__, "ATC.tsv")


@pytest.mark.parametrize(("description", "language", "link", "code"), cases(__file__, "drug_lines.tsv"))
def test_lines_of_medication(atc: Bundle, description: str, language: str, link: str, code: str) -> None:
    (found,) = Mapper(atc).propose([SourceCode("1", description, language=language)])
    assert found.link == link
    if code:
        assert found.candidates[0].concept_id == f"ATC:{code}"


def test_several_codes_of_one_route_come_first(atc: Bundle) -> None:
    (eye,) = Mapper(atc).propose([SourceCode("1", "Prednisolon-AT 1 %", language="de")])
    assert (eye.link, eye.targets) == ("ambiguous", ())
    assert {candidate.concept_id for candidate in eye.candidates[:2]} == {"ATC:S01BA04", "ATC:S01CB02"}
    assert eye.candidates[0].score == eye.candidates[1].score > eye.candidates[2].score


def test_drugs_that_a_description_names_in_part_share_the_score(atc: Bundle) -> None:
    (insulin,) = Mapper(atc).propose([SourceCode("1", "Insulin", language="de")])
    assert {candidate.name.split()[0] for candidate in insulin.candidates[:3]} == {"Insulin"}
    assert insulin.candidates[0].score < 0.4


@pytest.mark.parametrize(
    ("description", "route"),
    [
        ("ASS 100", "strength"), ("ASS 0,1 g", "strength"), ("ASS 100000 µg", "strength"),
        # neither a share nor a volume nor a schedule is a strength
        ("ASS 100 %", "systemic"), ("ASS 100 ml", "systemic"), ("ASS 1-100-1", "systemic"), ("ASS 350 mg", "systemic"),
    ],
)  # fmt: skip
def test_strengths(description: str, route: str) -> None:
    assert codes_of_route(description, ["ATC:B01AC06", "ATC:N02BA01"])[1] == route
