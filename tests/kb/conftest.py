"""A small terminology that all tests of the knowledge base share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from medlink.kb import Input, KnowledgeBase, build_kb

from .writers import write_lines

HOUSE = """\
concept_id\tname\tlanguage\ttype\tdefinition\tparent\tsemantic_type
H:1\tdisease\ten\tpreferred\tA state that harms.\t\tDisease
H:1\tKrankheit\tde\tpreferred\tEin Zustand, der schadet.\t\t
H:2\tseizure\ten\tpreferred\tA burst of brain activity.\tH:1\tDisease|Symptom
H:2\tepileptic fit\ten\tsynonym\t\t\t
H:2\tKrampfanfälle\tde\tpreferred\t\t\t
H:2\tFraisen\tde-AT\tpreferred\t\t\t
H:2\tcrisis convulsiva\tes\tpreferred\t\t\t
H:3\tfebrile seizure\ten\tpreferred\t\tH:2\tSymptom
H:3\tFieberkrampf\tde\tpreferred\t\t\t
H:4\tCrohn's disease\ten\tpreferred\t\tH:1\tDisease
H:4\tenfermedad de Crohn\tes\tpreferred\t\t\t
H:5\tGefäßverschluß\tde\tpreferred\t\tH:1|H:4\tDisease
H:6\talfa\t\t\t\t\t
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The terminology as a file."""
    return write_lines(tmp_path / "house.tsv", HOUSE.splitlines())


@pytest.fixture(scope="session")
def house_kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The terminology as a knowledge base file."""
    folder = tmp_path_factory.mktemp("house")
    table = write_lines(folder / "house.tsv", HOUSE.splitlines())
    build_kb(folder / "kb.sqlite", [Input("table", table)])
    return folder / "kb.sqlite"


@pytest.fixture
def kb(house_kb: Path) -> Iterator[KnowledgeBase]:
    """The terminology, opened."""
    with KnowledgeBase(house_kb) as opened:
        yield opened
