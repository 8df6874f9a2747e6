"""Building: atomic and deterministic output, counts, filters and errors."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import ConfigError, InputError, KnowledgeBaseError
from medlink.kb import Input, KnowledgeBase, build_kb, extend_kb, staging
from medlink.kb.loader import Loader
from medlink.kb.readers import formats
from medlink.records import Name, Source

from .conftest import HOUSE
from .writers import conso, opened_kb, write_lines

# starts a build, prints a line while reading, and waits to be killed
SLOW = """
import sys, time
from dataclasses import replace
from medlink.kb import Input, build_kb
from medlink.kb.readers import formats
read = formats()["table"].read
def slow(path, *, problems=None):
    for number, record in enumerate(read(path, problems=problems)):
        if number == 5:
            print("reading", flush=True)
            time.sleep(60)
        yield record
formats()["table"] = replace(formats()["table"], read=slow)
build_kb(sys.argv[1], [Input("table", sys.argv[2])])
"""


@pytest.fixture
def building(house: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is building ``tmp_path / "out" / "kb.sqlite"``."""
    (tmp_path / "out").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, str(tmp_path / "out" / "kb.sqlite"), str(house)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        yield process
        process.kill()


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.faults
def test_killed_build_leaves_the_old_file(building: subprocess.Popen[str], house: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "kb.sqlite"
    # a second build meanwhile does not disturb the running one
    build_kb(out, [Input("table", house)])
    before = out.read_bytes()
    assert len(contents(out.parent)) == 2
    assert building.poll() is None
    building.send_signal(signal.SIGKILL)
    building.wait()
    left = [name for name in contents(out.parent) if name != "kb.sqlite"]
    assert len(left) == 1
    assert left[0].startswith(".writing-")
    assert out.read_bytes() == before
    build_kb(out, [Input("table", house)])
    assert contents(out.parent) == ["kb.sqlite"]
    assert out.read_bytes() == before


@pytest.mark.parametrize("fault", [InputError("stop"), OSError(28, "No space left on device")])
def test_failed_build_leaves_the_old_file(
    fault: BaseException, house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "kb.sqlite"
    out.parent.mkdir()
    build_kb(out, [Input("table", house)])
    before = out.read_bytes()

    def fail(*_: Any) -> str:
        raise fault

    monkeypatch.setattr(Loader, "finish", fail)
    expected = KnowledgeBaseError if isinstance(fault, OSError) else type(fault)
    with pytest.raises(expected, match="cannot be written: No space" if isinstance(fault, OSError) else None):
        build_kb(out, [Input("table", house)])
    assert contents(out.parent) == ["kb.sqlite"]
    assert out.read_bytes() == before


def test_too_many_bad_rows_leave_the_old_file(house: Path, tmp_path: Path) -> None:
    out = tmp_path / "kb.sqlite"
    build_kb(out, [Input("table", house)])
    before = out.read_bytes()
    write_lines(house, [*HOUSE.splitlines(), *["H:1\tshort"] * 10])
    with pytest.raises(InputError, match="10 of 23 rows cannot be used"):
        build_kb(out, [Input("table", house)])
    assert out.read_bytes() == before
    report = build_kb(out, [Input("table", house)], max_bad_share=0.5)
    assert report.inputs[0].bad == {"column count": 10}
    assert len(report.inputs[0].problems) == 5
    assert report.inputs[0].rows == 23


# sorted names are not sorted again, unless a later batch is out of order
@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, staging.BATCH])
def test_same_input_same_bytes(batch: int, house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "BATCH", batch)
    first = build_kb(tmp_path / "a", [Input("table", house)])
    second = build_kb(tmp_path / "b", [Input("table", house)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert first.content_hash == second.content_hash
    head, *rows = HOUSE.splitlines()
    for order in (sorted(rows), rows[::-1], [*rows[2:], *rows[:2]]):
        write_lines(house, [head, *order])
        # preferred names are marked, so the order of rows does not matter
        assert build_kb(tmp_path / "b", [Input("table", house)]).content_hash == first.content_hash


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seizure\ten\tpref", "seizures\ten\tpref"),
        ("fit\ten\tsyn", "fit\tes\tsyn"),
        ("fit\ten\tsynonym", "fit\ten\tlay"),
        ("H:3\tFieb", "H:2\tFieb"),
        ("alfa\t\t", "alfa\ten\t"),
    ],
)
def test_content_hash_sees_every_change_of_names(old: str, new: str, house: Path, tmp_path: Path) -> None:
    before = build_kb(tmp_path / "kb", [Input("table", house)]).content_hash
    assert HOUSE.count(old) > 0
    house.write_text(HOUSE.replace(old, new), "utf-8")
    assert build_kb(tmp_path / "kb", [Input("table", house)]).content_hash != before


def test_counts(house: Path, tmp_path: Path) -> None:
    report = build_kb(tmp_path / "kb", [Input("table", house, {"version": "2"})])
    (counts,) = report.sources
    assert counts.source == Source("house", "2", "house", ("de", "de-at", "en", "es"))
    assert (counts.concepts, counts.definitions, counts.semantic_types, counts.relations) == (6, 3, 6, 5)
    assert counts.names == {"": 1, "de": 4, "de-at": 1, "en": 5, "es": 2}
    assert (report.inputs[0].format, report.inputs[0].rows, report.inputs[0].skipped) == ("table", 13, {})
    assert report.to_dict()["sources"][0]["source"]["name"] == "house"
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert kb.counts()["sources"]["house"]["names"] == counts.names
        assert kb.sources() == [counts.source]


def test_duplicates_and_unknown_concepts_are_counted(tmp_path: Path) -> None:
    head = "concept_id\tname\tlanguage\tdefinition\tparent\tsemantic_type"
    table = write_lines(
        tmp_path / "house.tsv",
        [head, "H:1\ta\ten\td\tH:2|H:9|H:1\tT", "H:1\ta\ten\td\tH:2\tT", "H:1\tA\ten\t\t\t", "H:2\tb\ten\t\t\t"],
    )
    columns = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value"
    babelon = write_lines(
        tmp_path / "x.tsv", [columns, "H:9\trdfs:label\tde\tx", "H:9\tIAO:0000115\tde\ty", "H:1\trdfs:label\tde\t "]
    )
    report = build_kb(tmp_path / "kb", [Input("babelon", babelon), Input("table", table)])
    assert report.inputs[0].skipped == {
        "definition of a concept that is not loaded": 1,
        "name of a concept that is not loaded": 1,
        "row without a translation": 1,
    }
    assert report.inputs[1].skipped == {
        "definition repeated, kept once": 1,
        "name repeated, kept once": 1,
        "relation repeated, kept once": 1,
        "relation of a concept that is not loaded": 1,
        "relation of a concept with itself": 1,
        "semantic type repeated, kept once": 1,
    }


def test_earlier_input_wins(tmp_path: Path) -> None:
    columns = "concept_id\tname\tlanguage\ttype"
    one = write_lines(tmp_path / "one.tsv", [columns, "H:1\tfirst\ten\tpreferred", "H:1\terste\tde\tsynonym"])
    two = write_lines(
        tmp_path / "two.tsv",
        [
            columns,
            "H:1\tsecond\ten\tpreferred",
            "H:1\tzweite\tde\tpreferred",
            "H:1\tfirst\ten\tsynonym",
            "H:2\tb\ten\t",
        ],
    )
    with opened_kb(tmp_path / "kb", Input("table", one), Input("table", two)) as kb:
        assert [(n.text, n.language, n.source, n.preferred) for n in kb.names("H:1")] == [
            ("zweite", "de", "two", True),  # a flag beats none
            ("erste", "de", "one", False),
            ("first", "en", "one", True),
            ("first", "en", "two", False),  # each source keeps its own
            ("second", "en", "two", False),
        ]
        assert [concept.source for concept in kb.iter_concepts()] == ["one", "two"]
    with opened_kb(tmp_path / "kb", Input("table", two), Input("table", one)) as kb:
        assert kb.preferred_name("H:1") == "second"


def test_language_filter(house: Path, tmp_path: Path) -> None:
    report = build_kb(tmp_path / "kb", [Input("table", house)], languages=["de"])
    assert report.inputs[0].skipped == {
        "concept without a name": 1,
        "definition in another language": 2,
        "name in another language": 7,
        "relation of a concept that is not loaded": 2,
        "semantic type of a concept that is not loaded": 1,
    }
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert kb.languages() == ["", "de", "de-at"]
        assert [concept.concept_id for concept in kb.iter_concepts()] == ["H:1", "H:2", "H:3", "H:5", "H:6"]
    with pytest.raises(ConfigError, match="unknown language 'dutch'"):
        build_kb(tmp_path / "kb", [Input("table", house)], languages=["dutch"])


def test_blank_names_are_counted(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = formats()["table"]
    blanks = [Name("H:1", text) for text in ("  ", "\0", "\u200b", "\u0301", "--", "1")]
    blank = replace(table, read=lambda path, *, problems: iter([*table.read(path), *blanks]))
    monkeypatch.setitem(formats(), "table", blank)
    skipped = build_kb(tmp_path / "kb", [Input("table", house)]).inputs[0].skipped
    assert skipped == {"name without a letter or digit": 5}


def test_notes_on_shared_sources_and_names(tmp_path: Path) -> None:
    head = "concept_id\tname\tlanguage\ttype"
    paths = []
    for folder, name in (("a", "Fieber"), ("b", "Fraktur"), ("b", "FIEBER")):
        (tmp_path / folder).mkdir(exist_ok=True)
        row = f"X:1\t{name}\tde\tPreferred"
        paths.append(write_lines(tmp_path / folder / ("ward.tsv" if name.isupper() else f"{name}.tsv"), [head, row]))
    write_lines(tmp_path / "a" / "ward.tsv", [head, "X:2\tHusten\tde\t"])
    inputs = [Input("table", path) for path in (*paths, tmp_path / "a" / "ward.tsv")]
    notes = [given.notes for given in build_kb(tmp_path / "kb", inputs).inputs]
    assert notes == [
        (),
        ("1 concept has another preferred name already, which stays (the first: X:1); this one is a synonym",),
        (),
        (
            f"{inputs[3].path}: its source is ward, like that of {inputs[2].path}, so both count as one source; "
            "a table is named by its file. Remedy: rename the file if it is another source",
        ),
    ]
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert kb.preferred_name("X:1", "de") == "Fieber"
    more = write_lines(tmp_path / "more.tsv", [head, "X:1\tBruch\tde\tpreferred", "X:2\tTussis\tde\tpreferred"])
    added = extend_kb(tmp_path / "kb", tmp_path / "kb", [Input("table", more)])
    assert added.inputs[0].notes[0].startswith("2 concepts have another preferred name already")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "release" / "MRCONSO.RRF", [conso("C1", "a")])
    (tmp_path / "release" / "private").mkdir(mode=0)
    assert build_kb(tmp_path / "kb", [Input("rrf", tmp_path / "release")], progress=None).sources


def test_nothing_to_build(tmp_path: Path) -> None:
    write_lines(tmp_path / "MRCONSO.RRF", [conso("C1", "a")])
    with pytest.raises(InputError, match=r"no concept with a name .*; left out: .*: 1.*Remedy: check the filters"):
        build_kb(tmp_path / "kb", [Input("rrf", tmp_path, {"sources": ["NONE"]})])
    empty = write_lines(tmp_path / "empty.tsv", ["id\tname"])
    with pytest.raises(InputError) as caught:
        build_kb(tmp_path / "kb", [Input("table", empty)])
    assert str(caught.value) == (
        f"no concept with a name was found in the inputs; without a row: {empty}. "
        "Remedy: give files with rows below their header."
    )
    header = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value"
    alone = write_lines(tmp_path / "de.babelon.tsv", [header, "A:1\trdfs:label\tde\tEins"])
    with pytest.raises(
        InputError, match=r"obo=\.\.\. for a translation, or the international edition for an extension"
    ):
        build_kb(tmp_path / "kb", [Input("babelon", alone)])
    with pytest.raises(ConfigError, match=r'an Input is expected, not str\. Remedy: write Input\("table", path\)'):
        build_kb(tmp_path / "kb", [str(empty)])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="0 inputs"):
        build_kb(tmp_path / "kb", [])
    with pytest.raises(ConfigError, match="256 inputs"):
        build_kb(tmp_path / "kb", [Input("rrf", tmp_path)] * 256)
    assert not (tmp_path / "kb").exists()


def test_unknown_format_and_option(house: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'xml'.*use one of rrf, rf2, omop, obo"):
        build_kb(tmp_path / "kb", [Input("xml", house)])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"format table has no option 'langage'.*source, version, title, language"):
        build_kb(tmp_path / "kb", [Input("table", house, {"langage": "de"})])
    with pytest.raises(ConfigError, match="max_bad_share"):
        build_kb(tmp_path / "kb", [Input("table", house)], max_bad_share=2)


def other_database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('application', 'another');")
    return connection.serialize()


@pytest.mark.parametrize("content", [b"my notes", b"", b"SQLite format 3\x00 but damaged", other_database()])
def test_foreign_file_is_not_replaced(content: bytes, house: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_bytes(content)
    with pytest.raises(KnowledgeBaseError, match="is not a medlink knowledge base, so it is not replaced"):
        build_kb(tmp_path / "notes", [Input("table", house)])
    assert (tmp_path / "notes").read_bytes() == content


def test_unwritable_output(house: Path, tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="is a folder"):
        build_kb(tmp_path, [Input("table", house)])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(KnowledgeBaseError, match="is a pipe or a device, a knowledge base is a file"):
        build_kb(tmp_path / "fifo", [Input("table", house)])
    for out in (house / "kb", house / "deep" / "kb", Path("/proc/kb.sqlite")):
        with pytest.raises(ConfigError, match="the knowledge base cannot be written"):
            build_kb(out, [Input("table", house)])


@pytest.mark.faults
def test_disk_full(house: Path, tmp_path: Path) -> None:
    """A limit on the file size makes SQLite fail as on a full disk."""
    resource = pytest.importorskip("resource")
    table = write_lines(house, ["id\tname", *(f"{n}\t{'x' * 500}{n}" for n in range(4_000))])
    script = (
        "import sys; from medlink.kb import Input, build_kb; from medlink.errors import KnowledgeBaseError\n"
        "try: build_kb(sys.argv[1], [Input('table', sys.argv[2])])\n"
        "except KnowledgeBaseError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out.sqlite"), str(table)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, 2**18)),
    )
    assert "cannot be written" in done.stdout
    assert "the space on the disk" in done.stdout
    assert contents(tmp_path) == ["house.tsv"]
