"""Differences between two knowledge bases, compared with differences of sets of their records."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.errors import BundleError, ConfigError, InputError, KnowledgeBaseError
from medlink.files.escapes import unescape_cell
from medlink.index import Bundle
from medlink.kb import Change, Input, KnowledgeBase, build_kb, compare_kbs, iter_changes, update_kb
from medlink.kb.changes import KINDS, _attached, _iter_unnamed
from tests.kb.writers import write_lines

HEADER = "concept_id\tname\tlanguage\ttype\tparent\tsemantic_type"
OLD = """\
format-version: 1.2
data-version: 2025-01-01

[Term]
id: X:1
name: finding
namespace: sign

[Term]
id: X:2
name: fever
namespace: sign
synonym: "=pyrexia" EXACT []
is_a: X:1

[Term]
id: X:3
name: cough
namespace: sign
is_a: X:1

[Term]
id: X:4
name: whooping cough

[Term]
id: X:5
name: dry cough
"""
NEW = """\
format-version: 1.2
data-version: 2026-01-01

[Term]
id: X:1
name: clinical finding
namespace: sign
synonym: "finding" EXACT []

[Term]
id: X:2
name: fever
namespace: symptom
synonym: "raised temperature" EXACT []
is_a: X:6

[Term]
id: X:3
name: cough
namespace: sign
alt_id: X:5
is_a: X:1

[Term]
id: X:4
name: whooping cough
is_obsolete: true
consider: X:3
consider: X:99

[Term]
id: X:6
name: state
"""


def kb_of(path: Path, text: str) -> Path:
    build_kb(path.with_suffix(".sqlite"), [Input("obo", write_lines(path.with_suffix(".obo"), text.splitlines()))])
    return path.with_suffix(".sqlite")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("releases")
    return kb_of(folder / "old", OLD), kb_of(folder / "new", NEW)


def changes(old: Path, new: Path) -> list[Change]:
    with KnowledgeBase(old) as before, KnowledgeBase(new) as after:
        return list(iter_changes(before, after))


EXPECTED = [
    Change("added", "X:6", "state"),
    Change("retired", "X:4", "whooping cough", after="X:3", how="consider"),
    Change("merged", "X:5", "dry cough", after="X:3", how="same_as"),
    Change("name added", "X:1", "clinical finding", "en", after="clinical finding"),
    Change("name added", "X:2", "fever", "en", after="raised temperature"),
    Change("name removed", "X:2", "fever", "en", before="=pyrexia"),
    Change("renamed", "X:1", "clinical finding", "en", before="finding", after="clinical finding"),
    Change("moved", "X:2", "fever", before="X:1", after="X:6"),
    Change("semantic type", "X:2", "fever", before="sign", after="symptom"),
]


def test_every_kind(releases: tuple[Path, Path]) -> None:
    assert changes(*releases) == EXPECTED
    assert {change.change for change in EXPECTED} == set(KINDS)


def rows(seed: int) -> list[str]:
    """A table of a terminology, another edition of it for each seed."""
    draw = random.Random(seed)
    found = []
    for number in range(60):
        if draw.random() < 0.1:
            continue
        parent = f"T:{draw.choice((number // 7, number // 7, number // 3))}"
        kind = draw.choice(["Disease", "Disease", "Disease|Symptom", "Symptom"])
        for tag in ("en", "de", ""):
            texts = [f"name {number} {tag} {place}" for place in range(4) if draw.random() < 0.8]
            draw.shuffle(texts)
            found += [
                f"T:{number}\t{text}\t{tag}\t{'synonym' if place else 'preferred'}\t{parent}\t{kind}"
                for place, text in enumerate(texts)
            ]
    return found


def everything(kb: KnowledgeBase) -> dict[str, Any]:
    return {
        "concepts": {one.concept_id for one in kb.iter_concepts()},
        "names": {(one.concept_id, one.language, one.text) for one in kb.iter_names()},
        "preferred": {(one.concept_id, one.language): one.text for one in kb.iter_names() if one.preferred},
        "parents": {(one.head, one.tail) for one in kb.iter_relations() if one.type in ("isa", "CHD")},
        "types": {(one.concept_id, one.semantic_type) for one in kb.iter_semantic_types()},
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_against_sets(seed: int, tmp_path: Path) -> None:
    sides = []
    for number in (2 * seed, 2 * seed + 1):
        table = write_lines(tmp_path / f"{number}.tsv", [HEADER, *rows(number)])
        build_kb(tmp_path / f"{number}.sqlite", [Input("table", table, {"source": "T"})])
        with KnowledgeBase(tmp_path / f"{number}.sqlite") as kb:
            sides.append(everything(kb))
    old, new = sides
    both = old["concepts"] & new["concepts"]
    found = changes(tmp_path / f"{2 * seed}.sqlite", tmp_path / f"{2 * seed + 1}.sqlite")
    of = {kind: [one for one in found if one.change == kind] for kind in KINDS}
    assert [one.concept_id for one in of["added"]] == sorted(new["concepts"] - old["concepts"])
    assert [one.concept_id for one in of["retired"]] == sorted(old["concepts"] - new["concepts"])
    for kind, one, other, side in (("name added", new, old, "after"), ("name removed", old, new, "before")):
        expected = sorted(name for name in one["names"] - other["names"] if name[0] in both)
        assert [(c.concept_id, c.language, getattr(c, side)) for c in of[kind]] == expected
    renamed = {
        (concept_id, tag): (old["preferred"][concept_id, tag], text)
        for (concept_id, tag), text in new["preferred"].items()
        if concept_id in both and old["preferred"].get((concept_id, tag), text) != text
    }
    assert {(c.concept_id, c.language): (c.before, c.after) for c in of["renamed"]} == renamed
    for kind, pairs in (("moved", "parents"), ("semantic type", "types")):
        expected = {}
        for concept_id in both:
            gone, came = (
                sorted(value for own, value in one[pairs] - other[pairs] if own == concept_id)
                for one, other in ((old, new), (new, old))
            )
            if gone or came:
                expected[concept_id] = (" | ".join(gone), " | ".join(came))
        assert {c.concept_id: (c.before, c.after) for c in of[kind]} == expected
    assert all(of[kind] for kind in KINDS if kind != "merged")


@pytest.mark.slow
def test_time_grows_linearly(tmp_path: Path) -> None:
    """Linearly, even if all concepts share one parent and one semantic type."""
    steps = []
    for size in (500, 2_000):
        lines = [HEADER, *(f"T:{number}\tname {number}\ten\tpreferred\tT:0\tDisease" for number in range(size))]
        table, path = write_lines(tmp_path / f"{size}.tsv", lines), tmp_path / f"{size}.sqlite"
        build_kb(path, [Input("table", table)])
        count = [0]

        def step(count: list[int] = count) -> int:
            count[0] += 1
            return 0

        with _attached(path, path) as connection, KnowledgeBase(path) as kb:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.set_progress_handler(step, 100)
            assert list(_iter_unnamed(connection, kb)) == []
        steps.append(count[0])
    assert steps[1] < 6 * steps[0]


def test_files(releases: tuple[Path, Path], tmp_path: Path) -> None:
    report = compare_kbs(*releases, tmp_path / "out.tsv")
    head, *lines = (tmp_path / "out.tsv").read_text("utf-8").splitlines()
    fields = head.split("\t")
    read = [Change(**dict(zip(fields, map(unescape_cell, line.split("\t")), strict=True))) for line in lines]
    assert read == EXPECTED
    # no spreadsheet takes a name for a formula
    assert "\t'=pyrexia\t" in lines[5]
    compare_kbs(*releases, tmp_path / "out.jsonl")
    assert [Change(**json.loads(line)) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()] == EXPECTED
    counts = [sum(change.change == kind for change in EXPECTED) for kind in KINDS]
    assert list(report.changes.values()) == counts
    assert report.languages == {"name added": {"en": 2}, "name removed": {"en": 1}, "renamed": {"en": 1}}


def test_command(releases: tuple[Path, Path], tmp_path: Path) -> None:
    words = ["kb", "changes", *map(str, releases)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.stdout.splitlines() == [
        "old: X 2025-01-01",
        "new: X 2026-01-01",
        "added                  1",
        "retired                1",
        "merged                 1",
        "name added             2  en 2",
        "name removed           1  en 1",
        "renamed                1  en 1",
        "moved                  1",
        "semantic type          1",
    ]
    data = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    assert data["changes"]["moved"] == 1
    with pytest.raises(ConfigError, match="the output is the input"):
        CliRunner().invoke(app, [*words, "-o", str(releases[0])], catch_exceptions=False)


def test_a_damaged_file(releases: tuple[Path, Path], tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "bad.sqlite")) as connection,
        closing(sqlite3.connect(releases[0])) as whole,
    ):
        whole.backup(connection)
        connection.execute("DROP TABLE relation")
        connection.commit()
    with pytest.raises(KnowledgeBaseError, match=r"cannot be compared with .*no such table.*Remedy: build it again"):
        compare_kbs(tmp_path / "bad.sqlite", releases[1])


@pytest.mark.slow
def test_update(tmp_path: Path) -> None:
    old, new = kb_of(tmp_path / "old", OLD), write_lines(tmp_path / "new.obo", NEW.splitlines())
    report, differs = update_kb(old, [Input("obo", new)], changes=tmp_path / "out.tsv")
    assert (report.path, differs.changes["merged"]) == (str(old), 1)
    assert len((tmp_path / "out.tsv").read_text("utf-8").splitlines()) == len(EXPECTED) + 1
    with KnowledgeBase(old) as kb:
        assert kb.preferred_name("X:6") == "state"
    output = CliRunner().invoke(app, ["kb", "update", str(old), "--obo", str(new)], catch_exceptions=False).stdout
    assert "old: X 2026-01-01" in output
    assert "added                  0" in output


def test_update_with_hierarchy_filters(tmp_path: Path) -> None:
    old, new = kb_of(tmp_path / "old", OLD), write_lines(tmp_path / "new.obo", NEW.splitlines())
    words = ["kb", "update", str(old), "--obo", str(new)]
    for options, expected in ((["--under", "X:6"], {"X:6", "X:2"}), (["--not-under", "X:6"], {"X:1", "X:3"})):
        CliRunner().invoke(app, [*words, *options], catch_exceptions=False)
        with KnowledgeBase(old) as kb:
            assert {one.concept_id for one in kb.iter_concepts()} == expected
    with pytest.raises(InputError, match="no concept with a name"):
        CliRunner().invoke(app, [*words, "--not-under", "X:6", "--not-under", "X:1"], catch_exceptions=False)


def test_failed_update_keeps_the_old_file(tmp_path: Path) -> None:
    old, new = kb_of(tmp_path / "old", OLD), write_lines(tmp_path / "new.obo", NEW.splitlines())
    before = old.read_bytes()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="the output is a folder"):
        update_kb(old, [Input("obo", new)], changes=tmp_path / "folder")
    with pytest.raises(InputError, match="no such file"):
        update_kb(old, [Input("obo", tmp_path / "nothing.obo")])
    with pytest.raises(ConfigError, match="0 inputs"):
        update_kb(old, [])
    assert old.read_bytes() == before
    assert not list(tmp_path.glob(".writing*"))
    with pytest.raises(KnowledgeBaseError, match="there is no knowledge base"):
        update_kb(tmp_path / "none.sqlite", [Input("obo", new)])
    with pytest.raises(ConfigError, match="no release is given"):
        CliRunner().invoke(app, ["kb", "update", str(old)], catch_exceptions=False)


@pytest.mark.slow
def test_update_of_a_bundle(demo_path: Path, tmp_path: Path) -> None:
    """The new file waits to be indexed; the bundle keeps its own."""
    shutil.copytree(demo_path, tmp_path / "house")
    table = write_lines(tmp_path / "new.tsv", ["concept_id\tname", "X:1\tfever", "X:9\tnew"])
    words = ["kb", "update", str(tmp_path / "house"), "--table", str(table), "--json"]
    with pytest.raises(
        ConfigError,
        match=r"house: the new release has no names of: DEMO \(de 1,.*; DEMO is missing, and new is another source",
    ):
        CliRunner().invoke(app, words, catch_exceptions=False)
    words.append("--allow-loss")
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert json.loads(result.stdout)["changes"]["changes"]["added"] == 2
    assert f"next: medlink index update {tmp_path / 'house'}" in result.stderr
    assert (tmp_path / "house" / "kb.sqlite").exists()
    assert "X:9" not in Bundle(tmp_path / "house").kb
    manifest = (tmp_path / "house" / "manifest.json").read_bytes()
    with pytest.raises(ConfigError, match="is in a folder that is read"):
        CliRunner().invoke(app, [*words, "-o", str(tmp_path / "house" / "manifest.json")], catch_exceptions=False)
    with pytest.raises(ConfigError, match="is in a folder that is read"):
        compare_kbs(kb_of(tmp_path / "old", OLD), tmp_path / "house", tmp_path / "house" / "manifest.json")
    assert (tmp_path / "house" / "manifest.json").read_bytes() == manifest
    part = next(iter((tmp_path / "house").glob("kb-*")))
    with pytest.raises(BundleError, match="is a part of the bundle"):
        update_kb(part / "kb.sqlite", [Input("table", table)])
