"""Options of linking."""

from __future__ import annotations

from pathlib import Path

import pytest

import medlink
from medlink.errors import BundleError
from medlink.linking import LinkOptions


def test_a_missing_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such"):
        medlink.load(tmp_path / "none")


def test_defaults() -> None:
    assert all(field.description for field in LinkOptions.model_fields.values())
    assert LinkOptions().to_dict() == {
        "k": 5, "threshold": 0.5, "language": None, "languages": [], "sources": [], "semantic_types": [],
        "under": [], "not_under": [], "ecl": None,
        "ranker": None, "ranker_cache": None, "prefer": [], "presume": True, "resolve": "none",
    }  # fmt: skip
    assert LinkOptions(prefer=["B, A", "C"]).prefer == ("B", "A", "C")
    assert LinkOptions(languages=["es", "de"], sources={"B", "A"}).filter.sources == ("A", "B")
