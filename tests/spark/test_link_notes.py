"""``medlink.spark.link_notes`` on a real Spark gives the links of one machine.

Skipped where pyspark or Java is not installed, unless ``MEDLINK_REQUIRE_SPARK`` is set.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import medlink
from medlink.errors import ConfigError, InputError, MedlinkError
from medlink.linking.demo import demo_notes
from medlink.spark import link_notes

# pyspark 4.3 warns of itself; medlink passes bytes and plain objects
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")]
MARKER = "Quartermainitis"
SEARCHED = ("*.log", "events/**/*", "home/work/**/*", "local/**/*", "warehouse/**/*")
"""All that this Spark writes; the rest of its folder are links to the installation."""
NOTES = [
    *demo_notes().values(), "😀 Fieber\r\nkein Husten\r\n", "cafe\u0301 y fiebre", "\u200ffever\u200e and cough", "",
    "Mitralklappenstenose (MS), MS unverändert, 2 cm große Leberzyste links",
]  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 notes as JSON lines, with an id that no 64-bit float has."""
    path = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    rows = ({"id": 2**60 + number, "text": NOTES[number % len(NOTES)]} for number in range(120))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def read(spark: Any, lines: Path) -> Any:
    """The notes as a DataFrame of four partitions."""
    return spark.read.schema("id bigint, text string").json(str(lines)).repartition(4, "id")


def link_locally(lines: Path, bundle: Path, out: Path, **options: Any) -> list[dict[str, Any]]:
    """Links of one machine, in the order of notes and positions."""
    medlink.link_notes(bundle, lines, out=out, **options)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return sorted(rows, key=lambda row: (row["note"], row["start"], row["end"]))


def collect(links: Any) -> list[dict[str, Any]]:
    """The rows of a DataFrame of links as those of JSON lines; none of them may have a problem."""
    rows = [row.asDict(recursive=True) for row in links.orderBy("note", "start", "end").collect()]
    for row in rows:
        assert row.pop("problem") is row.pop("remedy") is None
        row["note"], row["versions"] = str(row["note"]), json.loads(row["versions"])
        row["value"] = row["value"] and json.loads(row["value"])
    return rows


def test_the_links_are_those_of_one_machine(spark: Any, lines: Path, demo_path: Path, tmp_path: Path) -> None:
    options = {"language": "de", "k": 2, "threshold": 0.8, "present_only": True}
    links = link_notes(read(spark, lines), demo_path, **options)
    assert dict(links.dtypes)["note"] == "bigint"
    expected = link_locally(lines, demo_path, tmp_path / "out.jsonl", **options)
    assert collect(links) == expected
    assert expected


def test_an_archive_that_spark_ships(spark: Any, lines: Path, demo_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a place"
    folder.mkdir()
    archive = folder / "demo bundle.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(demo_path, "bundle")
    links = link_notes(read(spark, lines), archive)
    assert collect(links) == link_locally(lines, demo_path, tmp_path / "out.jsonl")


def test_ids_keep_their_type_and_bad_notes_are_rows(spark: Any, demo_path: Path) -> None:
    notes = spark.createDataFrame(
        [(2**60 + 1, Decimal("1.50"), "a", "Fieber", "de"), (None, None, None, "fever", "nosuch-language!"),
         (2**60 + 3, Decimal("3.00"), "ü", None, None)],
        "n bigint, d decimal(9, 2), `s.t` string, words string, tongue string",
    )  # fmt: skip
    ids = {"n": {2**60 + 1, None, 2**60 + 3}, "d": {Decimal("1.50"), None, Decimal("3.00")}, "s.t": {"a", None, "ü"}}
    for column, expected in ids.items():
        rows = link_notes(notes, demo_path, id=column, text="words", language_column="tongue").collect()
        assert {row.note for row in rows} == expected
        problems = {row.note: row.problem for row in rows}
        assert problems[None] == "unknown language 'nosuch-language!'"
        assert list(problems.values()).count(None) == 1
    broken = notes.selectExpr("cast(X'61FF' AS string) AS id", "X'466965626572FF' AS text")
    assert [(row.problem) for row in link_notes(broken, demo_path).collect()] == ["not UTF-8 at byte 6"] * 3
    same = link_notes(broken, demo_path).selectExpr("cast(note AS binary) AS note").collect()
    assert {bytes(row.note) for row in same} == {b"a\xff"}


def test_invalid_options_are_refused_before_a_job_begins(spark: Any, demo_path: Path) -> None:
    notes = spark.createDataFrame([], "id bigint, text string, ratio double")
    for options, message in (
        ({"text": "words"}, "text is 'words', the notes have no column of that name. Remedy: name another one with te"),
        ({"id": "ratio"}, "the column 'ratio' is double, a text or a whole number or a decimal expected. Remedy: cast"),
        ({"language_column": "no"}, "language_column is 'no', the notes have no column of that name. Remedy: "),
        ({"threshold": 2.0}, "threshold is 2.0, at least 0 and at most 1 expected. Remedy: leave threshold out"),
        ({"nosuch": 1}, "unknown option 'nosuch'. Remedy: one of "),
    ):
        with pytest.raises(ConfigError) as caught:
            link_notes(notes, demo_path, **options)
        assert str(caught.value).startswith(message)


def test_missing_bundles(spark: Any, tmp_path: Path) -> None:
    notes = spark.createDataFrame([], "id bigint, text string")
    with pytest.raises(InputError, match=r"bundle\.tar: no such file. Remedy: name the folder of a bundle, or an arch"):
        link_notes(notes, tmp_path / "bundle.tar")
    with pytest.raises(MedlinkError, match="Remedy: "):
        link_notes(notes, tmp_path / "bundle")


def test_spark_writes_no_text_of_a_note(spark: Any, spark_folder: Path, demo_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    rows = [{"id": number, "text": f"{MARKER}: Fieber, Husten. {MARKER}"} for number in range(50)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, {"id": 50, "text": None}]), "utf-8")
    notes = spark.read.schema("id bigint, text string").json(str(path))
    link_notes(notes, demo_path).write.json(str(tmp_path / "links"))
    with pytest.raises(Exception, match="no_such_column"):
        link_notes(notes, demo_path).select("no_such_column")
    assert any("Fieber" in part.read_text("utf-8") for part in (tmp_path / "links").glob("part-*"))
    names = set()
    for found in (path for pattern in SEARCHED for path in spark_folder.glob(pattern) if path.is_file()):
        names.add(found.name)
        assert MARKER.encode() not in found.read_bytes(), found
    # the search has covered the logs of driver and executors, and the events
    assert {"driver.log", "stderr"} <= names
    assert any("events" in name or "app-" in name for name in names)


def test_the_documentation_prints_what_it_shows(spark: Any, demo_path: Path, lines: Path, tmp_path: Path) -> None:
    text = (Path(medlink.__file__).parents[1] / "docs" / "how-to" / "spark.md").read_text("utf-8")
    shutil.copy(lines, tmp_path / "notes.jsonl")
    (tmp_path / "bundle").symlink_to(demo_path)
    blocks = re.findall(r"^```python\n(.*?)^```(?:\n```text\n(.*?)^```)?", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for code, printed in blocks:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(code.replace("/data/", f"{tmp_path}/"), {})
        assert out.getvalue() == printed
    assert spark.read.parquet(str(tmp_path / "links.parquet")).count() == len(
        link_locally(lines, demo_path, tmp_path / "out.jsonl", threshold=0.6)
    )
    assert spark.read.parquet(str(tmp_path / "mentions.parquet")).collect()[0]["presence"] == "absent"
