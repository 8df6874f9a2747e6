"""Building a segment: known and resumed embeddings, two processes, and keys shared by both segments."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medlink.index import build_bundle, writers
from medlink.index import building as module
from medlink.index.building import BuildOptions, build_segment, embed_names, same_rows
from medlink.index.names import NameTable
from medlink.index.segment import find_positions, number_both
from medlink.kb import build_kb
from medlink.models import StaticEncoder
from medlink.records import Name
from tests.index.test_update import ENDS, STEMS, Counting, make_releases
from tests.models.test_static import CONFIG, random_encoder

NAMES = [Name(f"T:{n % 30}", f"pain in part {n}", "en") for n in range(90)]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts this process embeds at a time, with shards of 16."""
    monkeypatch.setattr(module, "SHARD", 16)
    numbers, encode = list[int](), StaticEncoder.encode

    def counted(self: StaticEncoder, texts: list[str]) -> object:
        numbers.append(len(texts))
        return encode(self, texts)

    monkeypatch.setattr(StaticEncoder, "encode", counted)
    return numbers


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flat", "ivfpq"])
def test_names_are_embedded_while_they_are_read(kind: str, encoded: list[int], tmp_path: Path) -> None:
    encoder, steps = random_encoder(CONFIG), list[tuple[str, int, int]]()
    build_segment(tmp_path / "one", NAMES, encoder, options=BuildOptions(kind))
    assert encoded == [16] * 5 + [10]
    encoded.clear()
    options = BuildOptions(kind, threads=2, progress=lambda *step: steps.append(step))
    build_segment(tmp_path / "two", NAMES, encoder, options=options)
    # the last shard is not whole
    assert encoded == [10]
    assert ("names embedded", len(NAMES), len(NAMES)) in steps
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_embeddings_and_same_rows(tmp_path: Path) -> None:
    """Against dictionaries."""
    draw, encoder, segments = random.Random(3), random_encoder(CONFIG), []
    for number in range(2):
        texts = [f"{draw.choice(STEMS)}{draw.choice(ENDS)} {draw.randrange(3)}" for _ in range(300)]
        texts = [text.upper() if draw.random() < 0.2 else text for text in texts]
        names = [Name(f"T:{draw.randrange(40)}", text, "en") for text in texts]
        segments.append(build_segment(tmp_path / str(number), names, encoder))
    one, other = (segment.names for segment in segments)
    first = {other.texts[other.rows[row][0]]: row for row in range(len(other))}
    expected = [first.get(one.texts[one.rows[row][0]], -1) for row in range(len(one))]
    assert same_rows(one, segments[1]).tolist() == expected
    assert -1 in expected
    assert max(expected) > 0
    steps = list[tuple[str, int, int]]()
    vectors = embed_names(one, encoder, tmp_path / "shards", progress=lambda *step: steps.append(step))
    assert np.allclose(vectors, encoder.encode([one.texts[one.rows[row][0]] for row in range(len(one))]), atol=1e-6)
    assert steps == [("names embedded", len(one), len(one))]


def test_embedding_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD", 10)
    tables = [
        NameTable.build(tmp_path / stem, [Name("T:1", f"{stem}{end} {i}", "en") for end in ENDS for i in range(9)], [])
        for stem in STEMS[:2]
    ]
    encoder, shards = random_encoder(CONFIG), tmp_path / "shards"
    whole = np.array(embed_names(tables[0], encoder, tmp_path / "whole"))

    def stop(*step: Any) -> None:
        if step[1] == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_names(tables[0], encoder, shards, progress=stop)
    (found,) = shards.iterdir()
    found.write_bytes(found.read_bytes()[:-1])  # the last shard is not whole
    counting, steps = Counting(encoder), list[tuple[str, int, int]]()
    vectors = embed_names(tables[0], counting, shards, progress=lambda *step: steps.append(step))  # type: ignore[arg-type]
    assert len(counting.texts) == len(tables[0]) - 20
    assert steps[0] == ("names embedded", 30, len(tables[0]))
    np.testing.assert_array_equal(vectors, whole)
    # other names, and another type of file, begin anew
    other = embed_names(tables[1], Counting(encoder), shards, dtype=np.float16)  # type: ignore[arg-type]
    assert [path.suffix for path in shards.iterdir()] == [".shards"]
    assert (len(other), other.dtype) == (len(tables[1]), np.float16)


@pytest.mark.slow
def test_a_stopped_build_resumes_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD", 8)
    build_kb(tmp_path / "kb.sqlite", [make_releases(tmp_path)[0]])
    counting = Counting(random_encoder(CONFIG))
    monkeypatch.setattr(writers, "load_encoder", lambda *_, **__: counting)

    def stop(what: str, done: int, _: int) -> None:
        if what == "names embedded" and done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_bundle(tmp_path / "house", kb=tmp_path / "kb.sqlite", encoder="one", kind="ivfpq", progress=stop)
    counting.texts.clear()
    built = build_bundle(tmp_path / "house", kb=tmp_path / "kb.sqlite", encoder="one", kind="ivfpq")
    assert len(counting.texts) == len(built.index) - 16
    assert not (tmp_path / "house" / ".embedded").exists()
    # an error leaves nothing
    monkeypatch.setattr(counting, "encode", lambda _: 1 / 0)
    build_kb(tmp_path / "kb.sqlite", [make_releases(tmp_path)[1]])
    with pytest.raises(ZeroDivisionError):
        build_bundle(tmp_path / "other", kb=tmp_path / "kb.sqlite", encoder="one")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.sets(st.text(max_size=3), max_size=9), st.sets(st.text(max_size=3), max_size=9))
def test_segments_share_keys(main: set[str], added: set[str]) -> None:
    there, later, every = sorted(main), sorted(added), sorted(main | added)
    one, other = number_both(len(there), find_positions(later, there))
    for part, own in ((one, there), (other, later)):
        keys = part.keys(np.arange(len(own)))
        assert [every[key] for key in keys.tolist()] == own
        assert [part.key(number) for number in range(len(own))] == keys.tolist()
        asked = np.arange(-1, len(every) + 1)
        known = [own.index(name) if name in own else -1 for name in every]
        assert part.numbers(asked).tolist() == [-1, *known, -1]
    assert (one.new, other.new) == (len(main), len(added - main))
