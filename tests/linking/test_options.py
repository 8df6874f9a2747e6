"""Options of linking."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import medlink
from medlink.errors import BundleError, ConfigError
from medlink.index import Bundle
from medlink.linking import Linker, LinkOptions


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": 0}, "k is 0, at least 1 and at most 10000 expected. Remedy: leave k out for 5."),
        ({"threshold": float("nan")}, "threshold is nan, at least 0 and at most 1 expected. Remedy: "),
        ({"language": "German"}, "unknown language 'German'. Remedy: write de, its BCP 47 tag."),
        ({"sources": "HPO"}, "sources is 'HPO', a list expected. Remedy: leave sources out."),
        ({"treshold": 0.3}, f"unknown option 'treshold'. Remedy: one of {', '.join(LinkOptions.model_fields)}."),
        ({"ranker": ""}, "ranker is empty. Remedy: "),
        ({"ranker_cache": ""}, "ranker_cache is empty. Remedy: "),
        ({"ranker_cache": "x"}, "ranker_cache is given without a ranker. Remedy: "),
    ],
)
def test_invalid_options_are_refused(values: dict[str, Any], message: str, demo: Bundle) -> None:
    for make in (LinkOptions, lambda **options: Linker(demo, **options)):
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
            make(**values)
    with pytest.raises(ConfigError, match=re.escape(message)):
        medlink.load(demo.folder, **values)


def test_a_missing_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such"):
        medlink.load(tmp_path / "none")


def test_defaults() -> None:
    assert all(field.description for field in LinkOptions.model_fields.values())
    assert LinkOptions().to_dict() == {
        "k": 5, "threshold": 0.5, "language": None, "languages": [], "sources": [], "semantic_types": [],
        "ranker": None, "ranker_cache": None, "prefer": [], "presume": True, "resolve": "none",
    }  # fmt: skip
    assert LinkOptions(prefer=["B, A", "C"]).prefer == ("B", "A", "C")
    assert LinkOptions(languages=["es", "de"], sources={"B", "A"}).filter.sources == ("A", "B")
