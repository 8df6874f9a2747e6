"""Descriptions under filters: what a filter leaves is no evidence."""

from __future__ import annotations

import pytest

from medlink.index import Bundle
from medlink.mapping import Mapper, SourceCode
from medlink.mapping.laboratory import is_full_name
from medlink.mapping.ranking import _words_cut_short


@pytest.mark.parametrize(
    ("under", "names"),
    [
        ("DEMO:0016", ["regurgitación mitral", "Tachykardie", "kardiovaskuläre Erkrankung"]),
        ("DEMO:0293", ["Brustdrüse", "aortokoronarer Bypass", "enfermedad arterial coronaria"]),
        ("DEMO:0004", ["Pharyngitis", "anorexia nerviosa", "Hauterkrankung", "RA"]),
    ],
)
def test_a_branch_does_not_take_what_belongs_elsewhere(demo: Bundle, under: str, names: list[str]) -> None:
    codes = [SourceCode(str(at), name) for at, name in enumerate(names)]
    mapper = Mapper(demo, under=[under])
    found = mapper.propose(codes)
    assert [one.link for one in found] == ["nil"] * len(names)
    assert {one.candidates[0].concept_id for one in found} <= (mapper.among or set())
    # the same branch by a constraint, and by what it excludes
    constrained = Mapper(demo, ecl=f"<< {under}").propose(codes)
    assert [one.link for one in constrained] == ["nil"] * len(names)
    whole = {one.targets[0].concept_id for one in Mapper(demo).propose(codes) if one.targets}
    for one in Mapper(demo, not_under=sorted(whole)).propose(codes):
        assert not one.targets


def test_a_branch_keeps_its_own(demo: Bundle) -> None:
    names = [
        "V.a. Hinterwandinfarkt links",
        "acute heart attack of the ward",
        "Herzinfarkte",
        "infarto de miocardio previo",
    ]
    codes = [SourceCode(str(at), name) for at, name in enumerate(names)]
    inside, everywhere = (Mapper(demo, **options).propose(codes) for options in ({"under": ["DEMO:0016"]}, {}))
    assert [one.targets for one in inside] == [one.targets for one in everywhere]
    assert all(one.targets for one in inside)


def test_brackets_alone_make_no_laboratory_test() -> None:
    assert is_full_name("Glucosa [Masa/volumen] en Suero o Plasma")
    assert not is_full_name("Glucose [fasting] in the morning")
    assert _words_cut_short("Sodiu [Moles/volume] in Urine")[0] == ("sodiu", True)
    assert _words_cut_short("fomiv [local]") == []
