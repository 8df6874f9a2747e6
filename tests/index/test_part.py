"""A part that two processes build is that of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import embedded as module
from medlink.index import part
from medlink.index.part import Part
from medlink.models import StaticEncoder
from medlink.records import Name
from tests.models.test_static import CONFIG, random_encoder

NAMES = [Name(f"T:{n % 30}", f"pain in part {n}", "en") for n in range(90)]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts this process embeds at a time, with shards of 16."""
    for where in (module, part):
        monkeypatch.setattr(where, "SHARD", 16)
    numbers, encode = list[int](), StaticEncoder.encode

    def counted(self: StaticEncoder, texts: list[str]) -> object:
        numbers.append(len(texts))
        return encode(self, texts)

    monkeypatch.setattr(StaticEncoder, "encode", counted)
    return numbers


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_names_are_embedded_while_they_are_read(kind: str, encoded: list[int], tmp_path: Path) -> None:
    encoder, steps = random_encoder(CONFIG), list[tuple[str, int, int]]()
    Part.build(tmp_path / "one", NAMES, encoder, kind=kind)
    assert encoded == [16] * 5 + [10]
    encoded.clear()
    Part.build(tmp_path / "two", NAMES, encoder, kind=kind, threads=2, progress=lambda *step: steps.append(step))
    # the last shard is not whole
    assert encoded == [10]
    assert ("names embedded", len(NAMES), len(NAMES)) in steps
    assert content(tmp_path / "one") == content(tmp_path / "two")
