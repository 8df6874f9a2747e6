"""A name that asserts what a mention negates is no link."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker, Mention
from medlink.linking.linker import MAX_SCORE_OF_OTHER_KIND

NAMES = """\
X:1	Hemolytic anemia	en
X:1	Hämolytische Anämie	de
X:1	Anemia hemolítica	es
X:2	Atopic dermatitis	en
X:2	Atopisches Ekzem	de
X:2	Eccema atópico	es
X:3	Productive cough	en
X:4	Nonproductive cough	en
X:5	Asthma	en
X:6	Alergia a un medicamento	es
"""


@pytest.fixture(scope="module")
def linker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Linker]:
    folder = tmp_path_factory.mktemp("negation")
    (folder / "names.tsv").write_text("concept_id\tname\tlanguage\n" + NAMES, "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "names.tsv")])
    return Linker(build_bundle(folder / "bundle", kb=folder / "kb.sqlite"))


@pytest.mark.parametrize(
    ("text", "language", "concept"),
    [
        ("non-hemolytic anemia", "en", "X:1"),
        ("nonhemolytic anemia", "en", "X:1"),
        ("nicht-hämolytische Anämie", "de", "X:1"),
        ("nichthämolytische Anämie", "de", "X:1"),
        ("anemia no hemolítica", "es", "X:1"),
        ("eczema, not atopic dermatitis", "en", "X:2"),
        ("nicht-atopisches Ekzem", "de", "X:2"),
        ("eccema no atópico", "es", "X:2"),
    ],
)
def test_what_is_negated(linker: Linker, text: str, language: str, concept: str) -> None:
    (found,) = linker.link([Mention(text, language)])
    assert found.status == "nil"
    assert all(one.score <= MAX_SCORE_OF_OTHER_KIND for one in found.candidates if one.concept_id == concept)


@pytest.mark.parametrize(
    ("text", "language", "concept"),
    [
        ("non-productive cough", "en", "X:4"),  # the name has the same negation
        ("non-allergic asthma", "en", "X:5"),  # the name says nothing of what is negated
        ("no asthma", "en", "X:5"),  # a denial names what it denies
        ("alergia a medicamentos ni a alimentos", "es", "X:6"),
    ],
)
def test_what_is_not(linker: Linker, text: str, language: str, concept: str) -> None:
    (found,) = linker.link([Mention(text, language)])
    assert (found.status, found.candidates[0].concept_id) == ("linked", concept)
