"""The speed table at a small size: both linkers build, save, open and link in processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import medlink
from medlink.kb.readers.delimited import read_table
from medlink.linking.demo import demo_folder
from medlink.records import Name

ROOT = Path(medlink.__file__).parents[1]


def test_both_linkers_in_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scispacy", reason="scispaCy is not there: it needs numpy < 2, which Python 3.13 does not have")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import speed

    rows = sorted(
        {
            (record.concept_id, record.text, "de")
            for record in read_table(demo_folder() / "terminology.tsv")
            if isinstance(record, Name) and record.language == "de"
        }
    )
    monkeypatch.setattr(speed, "_PASSES", 1)
    seconds = speed.build_medlink(tmp_path, rows)
    others = speed.no_names(
        tmp_path / "bundle", iter(["Herzinfarkt", "Fieberr", "Herzinfarkte", "Zuckerkrankeit"]), "de"
    )
    assert sorted(text for text, _ in others[0]) == ["Fieberr", "Zuckerkrankeit"]
    lines = list(speed.compare(tmp_path, seconds, {"no names": others}))
    tables = [line.split(" | ") for line in lines if line.startswith("|") and "---" not in line]
    assert [row[0] for row in tables] == ["| mentions", "| no names", "| linker", "| scispaCy", "| medlink"]
    assert tables[1][1:3] == ["2", "2"]
    assert sys.modules.pop("speed") is speed
