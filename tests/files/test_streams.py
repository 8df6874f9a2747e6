"""Opening and decoding text files, and counting bad rows."""

from __future__ import annotations

import gzip
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import ConfigError, InputError
from medlink.files import streams
from medlink.files.problems import Problems, encoding_remedy, likely_encoding
from medlink.files.streams import LineFile
from medlink.files.tables import read_rows
from medlink.kb import Input, build_kb
from medlink.kb.readers.delimited import read_table
from tests.kb import writers


def rows(path: Path, problems: Problems | None = None, **given: Any) -> list[tuple[int, list[str]]]:
    return list(read_rows(LineFile(path, problems or Problems(), **given), 2, "\t"))


def test_lines_plain_and_packed(tmp_path: Path) -> None:
    text = "\ufeffa\tb\r\nc\u2028d\te\n"
    (tmp_path / "x").write_bytes(text.encode())
    (tmp_path / "y.gz").write_bytes(gzip.compress(text.encode()))
    expected = [(1, ["a", "b"]), (2, ["c\u2028d", "e"])]
    assert rows(tmp_path / "x") == rows(tmp_path / "y.gz") == rows(tmp_path / "y") == expected


def test_bad_rows(tmp_path: Path) -> None:
    path = writers.write_lines(tmp_path / "x", ["a\tb"] * 100 + ["a"] * 6 + ["a\tb\tc", ""])
    problems = Problems(0.5)
    assert len(rows(path, problems)) == 100
    assert problems.bad == {"column count": 7}
    assert problems.rows == 107  # an empty line is no row
    assert [problem.line for problem in problems.examples] == [101, 102, 103, 104, 105]
    assert str(problems.examples[0]) == f"{path}:101: column count (1 columns, 2 expected)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("good", "bad", "share", "stops"),
    [
        (100, 9, 0.01, False),  # few rows never stop a load
        (100, 10, 0.01, True),
        (990, 10, 0.01, False),  # exactly the share
        (989, 11, 0.01, True),
        (100, 10, 0.2, False),
        (4, 4, 0.01, False),
        (4, 5, 0.01, True),  # more than half
        (4, 5, 0.6, False),
        (100, 1, 0.0, True),  # none is tolerated
        (0, 1, 0.01, True),  # no good row at all
        (0, 3, 1.0, False),
    ],
)
def test_share_of_bad_rows(good: int, bad: int, share: float, stops: bool, tmp_path: Path) -> None:
    path = writers.write_lines(tmp_path / "x", ["a\tb"] * good + ["a"] * bad)
    if not stops:
        assert len(rows(path, Problems(share))) == good
        return
    for adjustable, remedy in (
        (True, "correct or fetch the file again, or raise max_bad_share."),
        (False, "file again."),
    ):
        with pytest.raises(InputError, match="rows cannot be used") as caught:
            rows(path, Problems(share, adjustable=adjustable))
        assert (caught.value.line, caught.value.path) == (good + 1, str(path))
        assert str(caught.value).endswith(remedy)


def test_share_is_checked_early(tmp_path: Path) -> None:
    path = writers.write_lines(tmp_path / "x", ["a"] * 200 + ["a\tb"] * 9_000 + ["a"] * 40_000)
    problems = Problems(0.1)
    with pytest.raises(InputError):
        rows(path, problems)
    assert 10_000 <= sum(problems.bad.values()) + 9_000 < 11_000


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_share_outside_its_range(share: float) -> None:
    with pytest.raises(ConfigError, match="max_bad_share"):
        Problems(share)


def test_progress_counts_all_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BLOCK_BYTES", 1000)
    path = writers.write_lines(tmp_path / "x", ["a\tb"] * 1000)
    progress: list[int] = []
    rows(path, Problems(progress=progress.append))
    assert len(progress) > 2
    assert sum(progress) == path.stat().st_size


def test_last_line_cut_off(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\tb\nc")
    with pytest.raises(InputError, match="x:2: the last line is cut off: 1 of 2 columns"):
        rows(tmp_path / "x")
    problems = Problems(1.0)
    assert len(rows(tmp_path / "x", problems)) == 1
    assert (problems.bad, problems.lines) == ({"column count": 1}, {"column count": [2]})
    (tmp_path / "x").write_bytes(b"a\tb\nc\td")
    assert rows(tmp_path / "x")[-1] == (2, ["c", "d"])


def test_packed_streams(tmp_path: Path) -> None:
    """Several packed parts, zeros behind them, and a stream that cannot be read twice."""
    packed = gzip.compress(b"a\tb\n") + gzip.compress(b"c\td\n") + b"\0" * 512
    (tmp_path / "x.gz").write_bytes(packed)
    assert rows(tmp_path / "x") == [(1, ["a", "b"]), (2, ["c", "d"])]
    assert rows(Path("standard input"), stream=io.BytesIO(packed)) == rows(tmp_path / "x")
    with pytest.raises(InputError, match=r"damaged or cut off after line \d: it ends before its end mark"):
        rows(Path("standard input"), stream=io.BytesIO(packed[:-530]))


@pytest.mark.parametrize("block", [1, 2, 5])
def test_block_size(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BLOCK_BYTES", block)
    text = "Größe\tb\r\nc\td\re\n"
    (tmp_path / "x").write_bytes(text.encode())
    assert rows(tmp_path / "x") == [(1, ["Größe", "b"]), (2, ["c", "d e"])]
    assert LineFile(tmp_path / "x", Problems()).read_text() == text


def test_old_line_ends(tmp_path: Path) -> None:
    long = "a" * 200_000  # more than is looked at together
    (tmp_path / "x").write_text(f"{long}\tb\rc\td\r")
    assert rows(tmp_path / "x") == [(1, [long, "b"]), (2, ["c", "d"])]
    (tmp_path / "x").write_bytes(b"a\tb\r")
    assert rows(tmp_path / "x", require_line_end=True) == [(1, ["a", "b"])]


def test_files_that_are_none_or_grow_or_are_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=lambda: (tmp_path / "fifo").write_text("a\tb\n"))
    writer.start()
    assert rows(tmp_path / "fifo", allow_pipes=True) == [(1, ["a", "b"])]
    writer.join(timeout=30)

    path = writers.write_lines(tmp_path / "x", ["a\tb"])

    def grow(size: int) -> None:
        with path.open("a") as file:
            file.write("c\td\n")

    problems = Problems(progress=grow)
    assert rows(path, problems) == [(1, ["a", "b"])]
    assert problems.notes == [f"{path}: the file grew while it was read; what came later is left out"]
    path.write_text("")
    assert rows(path, allow_empty=True) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"a\tb\n" * 2_000, mtime=0)[:30], "damaged or cut off.*Remedy"),
        ("ä\tb\n".encode("latin-1") * 50, "UTF-8"),
        ("ä\tb\n".encode("utf-16") * 50, "is UTF-16"),
    ],
)
def test_unusable_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=message):
        rows(tmp_path / "x")


def test_missing_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, message in (
        (tmp_path / "nowhere", "no such file"),
        *((Path(folder), "is a folder, a file is needed") for folder in (tmp_path, ".", "/")),
        (tmp_path / "fifo", "fifo: is a pipe or a device, a file is needed"),
    ):
        with pytest.raises(InputError, match=message):
            rows(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04" + b"\0" * 90, "is a spreadsheet, a document or a zip file, not text. Remedy: save a"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 90, "is a spreadsheet, a document or a zip file"),
        (b"{\\rtf1", "is PDF or RTF, not plain text"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a picture, not text. Remedy: save its text as plain text"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "is a picture, not text"),
        (b"RIFF\x24\0\n\0WAVEfmt", "is a picture or a sound, not text"),
        (b"\0" * 128 + b"DICM\2\0", "is a picture or a sound, not text"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "is compressed, not text. Remedy: unpack it"),
        (b"SQLite format 3\0\x10", "is an SQLite database, not text"),
        (b"\x7fELF\2\1\1\0", "is a program, not text"),
        (b"Fieber\0und Husten, seit gestern", "is not text: byte 7 is NUL. Remedy: save its text as plain text"),
    ],
)
def test_binary_files(content: bytes, what: str, tmp_path: Path) -> None:
    """Whatever its name says, and whatever encoding is named: every byte is a character of some."""
    (tmp_path / "note.txt").write_bytes(content)
    (tmp_path / "note.csv.gz").write_bytes(gzip.compress(content))
    for name, encoding in (("note.txt", None), ("note.txt", "latin-1"), ("note.csv", None)):
        with pytest.raises(InputError) as error:
            LineFile(tmp_path / name, Problems(1), encoding=encoding).read_text()
        assert what in str(error.value)


@pytest.mark.parametrize("encoding", ["cp1252", "cp850"])
def test_a_loss_of_more_than_one_row_in_a_hundred_stops_and_names_the_encoding(tmp_path: Path, encoding: str) -> None:
    names = [*("Fieber",) * 395, *("Übelkeit",) * 5]
    remedy = f"give the file as UTF-8, for example: iconv -f {encoding.upper()} -t UTF-8 FILE"
    assert encoding_remedy(encoding, is_option=False) == remedy
    table = tmp_path / "x.csv"
    for kept, share, stops in ((40, 0.01, True), (395, 0.01, True), (395, 0.02, False), (40, 1.0, False)):
        rows = [f"X:{number},{name}" for number, name in enumerate(names[-kept - 5 :])]
        table.write_text("\n".join(["id,name", *rows, ""]), encoding=encoding)
        problems = Problems(share)
        if stops:
            with pytest.raises(InputError, match=f"5 of {kept + 5} rows cannot be used") as error:
                list(read_table(table, problems=problems))
            assert error.value.remedy == remedy
        else:
            list(read_table(table, problems=problems))
            assert [line for line in problems.summary_lines() if "iconv" in line] == [remedy]
            lines = list(build_kb(tmp_path / "kb", [Input("table", table)], max_bad_share=share).inputs[0].lines())
            assert lines[-1] == f"  remedy: {remedy}"
    table.write_bytes(b"id,name\n1\n2,\xd6dem\n")
    with pytest.raises(InputError, match=r"the file again, or raise max_bad_share; give the file as UTF-8"):
        list(read_table(table, problems=Problems(0.01)))


@pytest.mark.parametrize(
    "text", ["Müdigkeit", "ataque al corazón", "¿Qué?", "Größe 3 µm", "Niño con náusea", "Café au lait"]
)
def test_likely_encoding(text: str) -> None:
    for encoding in ("cp1252", "cp850"):
        assert likely_encoding(text.encode(encoding)) == encoding


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc")
def test_unreadable_file() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        rows(Path("/proc/self/mem"))  # the kernel refuses to read this one, also for root
