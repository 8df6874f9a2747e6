"""Descriptions of code lists by kind: rare words, laboratory tests, procedures, organisms, drugs, classifications."""

from __future__ import annotations

from collections import Counter

import pytest

from medlink.index import Bundle
from medlink.mapping import Mapper, SourceCode
from tests.tables import bundle_of_table, cases

ROWS = cases(__file__, "kinds.tsv")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of right names, and of wrong ones that look alike."""
    return bundle_of_table(tmp_path_factory.mktemp("kinds"), __file__, "kinds_names.tsv")


@pytest.mark.parametrize(("kind", "description", "language", "unit", "link", "concept"), ROWS)
def test_kinds_of_descriptions(
    kinds: Bundle, kind: str, description: str, language: str, unit: str, link: str, concept: str
) -> None:
    (found,) = Mapper(kinds).propose([SourceCode("1", description, unit=unit, language=language)])
    assert found.link == link
    if concept:
        assert found.candidates[0].concept_id == concept


def test_every_kind_has_many_examples() -> None:
    assert min(Counter(row[0] for row in ROWS).values()) > 12
