"""Opening damaged files gives the old content or a :class:`MedlinkError`: no other exception, crash or hang."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medlink.curation.decisions import read_decisions
from medlink.errors import MedlinkError
from medlink.notes.reading import Note
from medlink.notes.writers import Job, LinkedMention, TextWriter

from .children import call
from .fault_runner import FaultRunner
from .faults import FULL
from .test_flips import BUNDLE, use

pytestmark = pytest.mark.faults
_checked = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
slow = settings(max_examples=300 if FULL else 4, deadline=None, derandomize=True, suppress_health_check=_checked)
quick = settings(max_examples=3000 if FULL else 50, deadline=None, derandomize=True, suppress_health_check=_checked)


@dataclass(frozen=True)
class Damage:
    """Damage of one file of a folder: at ``place``, a share of its length, bytes are removed and inserted.

    ``cut`` ends the file there, ``gone`` deletes it.
    """

    file: int
    place: float
    fewer: int
    more: bytes
    cut: bool = False
    gone: bool = False

    def of(self, content: bytes) -> bytes:
        """The damaged content."""
        at = round(self.place * len(content))
        return content[:at] + self.more + (b"" if self.cut else content[at + self.fewer :])


_words = st.sampled_from(
    [b"null", b"-1", b"[]", b"{}", b'""', b"1e999", b"9" * 30, b"\x00", b"\xff", b"\t", b"\n", b'"']
)
_damages = st.builds(
    Damage,
    file=st.integers(0, 999),
    place=st.floats(0, 1),
    fewer=st.integers(0, 40),
    more=st.one_of(st.binary(max_size=12), _words),
    cut=st.booleans(),
    gone=st.integers(0, 9).map(lambda number: not number),
)


def values(data: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the values of plain data."""
    yield where
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from values(value, (*where, key))


def with_value(data: Any, where: tuple[Any, ...], value: Any) -> Any:
    """Replace the value at a path of plain data."""
    if not where:
        return value
    copy = data.copy()
    copy[where[0]] = with_value(data[where[0]], where[1:], value)
    return copy


def load(folder: str) -> None:
    """Open an encoder and encode."""
    from medlink.models import load_encoder

    load_encoder(Path(folder)).encode(["cardiopathia"])


def query(path: str) -> None:
    """Open a knowledge base and query it."""
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(path) as kb:
        counted = (kb.counts(), kb.sources(), kb.languages(), len(list(kb.iter_names())), kb.search("cardio", 5, None))
        assert counted
        kb.get("X:1")
        kb.parents("X:7")
        kb.ancestors("X:7", 3)


def wrong(work: Path, what: Callable[..., Any], name: str, before: Any) -> str:
    """The problem of an opener, ``""`` for none."""
    after = call(work, what, name)
    if after.refused or (not after.crashed and after.value == before):
        return ""
    return after.crashed or f"gives {after.value}"


def damaged(work: Path, below: str, damage: Damage, what: Callable[..., Any], before: Any, left_out: str = "") -> str:
    """Damage a file, open it or its folder, and restore it."""
    top = work / below
    files = sorted(path for path in top.rglob("*") if path.is_file() and path.name != left_out) or [top]
    path = files[damage.file % len(files)]
    content = path.read_bytes()
    try:
        if damage.gone:
            path.unlink()
        else:
            path.write_bytes(damage.of(content))
        return wrong(work, what, below, before)
    finally:
        path.write_bytes(content)


@pytest.fixture(scope="module")
def work(runner: FaultRunner) -> Path:
    """A folder with a bundle, an encoder and a knowledge base."""
    work = runner.copy(runner.start(BUNDLE), runner.top / "fuzz")
    assert call(work, "".join, ["kb build kb.sqlite"]).value
    shutil.copyfile(runner.start(BUNDLE[:1]) / "house" / "kb.sqlite", work / "kb.sqlite")
    return work


@pytest.fixture(scope="module")
def before(work: Path) -> Any:
    """The content of the undamaged bundle."""
    before = call(work, use, "house").value
    assert before
    return before


@slow
@given(_damages)
def test_a_damaged_bundle(work: Path, before: Any, damage: Damage) -> None:
    assert damaged(work, "house", damage, use, before) == ""


@slow
@given(st.data())
def test_a_manifest_with_other_values(work: Path, before: Any, data: st.DataObject) -> None:
    manifests = sorted(
        path for path in (work / "house").rglob("*.json") if path.name in ("manifest.json", "index.json")
    )
    path = data.draw(st.sampled_from(manifests))
    content = path.read_bytes()
    manifest = json.loads(content)
    where = data.draw(st.sampled_from(list(values(manifest))))
    other = data.draw(st.sampled_from([None, True, -1, 0, 1 << 70, 0.5, "", "x", "\ud800", [], [1], {}, {"x": 1}]))
    path.write_text(json.dumps(with_value(manifest, where, other)), "utf-8")
    try:
        assert wrong(work, use, "house", before) == ""
    finally:
        path.write_bytes(content)


@slow
@given(_damages)
def test_a_damaged_encoder(work: Path, damage: Damage) -> None:
    # without this file sentence-transformers is imported, which takes seconds
    left_out = "" if FULL else "modules.json"
    assert damaged(work, "encoder", damage, load, None, left_out) == ""


@slow
@given(_damages)
def test_a_damaged_knowledge_base(work: Path, damage: Damage) -> None:
    assert damaged(work, "kb.sqlite", damage, query, None) == ""


_RECIPE = """
base = "start"
kb = "terms.sqlite"
out = "trained"
[run]
checkpoint_steps = 10
[data]
languages = ["de", "en"]
[contrastive]
learning_rate = 3e-5
pairs = { definition_share = 0.3, pairs = 80 }
batch_size = 32
[distill]
runs = 2
dimension = 64
"""
_ROWS = (
    "id\tname\tlanguage\ttype\tparent\tdecision\nX:1\tfever\ten\tpreferred\tX:0\taccept\n"
    "NEW:1\tFieber\tde\tsynonym\t\tgroup\n\tn/a\t\t\t\treject\n"
)


@quick
@given(st.lists(_damages, min_size=1, max_size=4))
def test_a_damaged_decisions_file(tmp_path: Path, damages: list[Damage]) -> None:
    only_refused(tmp_path / "decisions.tsv", _ROWS, damages, read_decisions)


@quick
@given(st.lists(_damages, min_size=1, max_size=4))
def test_a_damaged_recipe(tmp_path: Path, damages: list[Damage]) -> None:
    from medlink.training.biolord.pipeline import read_recipe

    only_refused(tmp_path / "recipe.toml", _RECIPE, damages, read_recipe)


class _Lines(TextWriter):
    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> list[str]:
        return ["a line"] * 30


@quick
@given(st.lists(_damages, min_size=1, max_size=4))
def test_a_damaged_state_of_an_unfinished_output(tmp_path: Path, damages: list[Damage]) -> None:
    """A wrong number of notes would skip notes, or link some twice."""
    out, state = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part.json"
    for path in (tmp_path / "out.jsonl.part", state):
        path.unlink(missing_ok=True)
    begun = _Lines(out)
    begun.open(Job("run", (), {}))
    begun.write(Note("1"), "", ())
    begun.commit(64)
    begun.close(KeyboardInterrupt())

    def resume(_: Path) -> None:
        writer = _Lines(out)
        done = writer.open(Job("run", (), {}, resume=True))
        writer.close(KeyboardInterrupt())
        assert done == 64

    only_refused(state, state.read_text("utf-8"), damages, resume)


def only_refused(path: Path, text: str, damages: list[Damage], read: Callable[[Path], Any]) -> None:
    """Read a damaged file, which is read or refused."""
    content = text.encode()
    for damage in damages:
        content = damage.of(content)
    path.write_bytes(content)
    with suppress(MedlinkError):
        read(path)
