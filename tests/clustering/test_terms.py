"""Term lists: what is read, what is left out and said, and what is refused."""

from __future__ import annotations

import io
import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from medlink.clustering import terms as terms_module
from medlink.clustering.terms import LONGEST, Columns, Terms, Texts, read_terms
from medlink.errors import ConfigError, InputError
from medlink.files import streams


def write(folder: Path, text: str | bytes, name: str = "terms.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_texts() -> None:
    texts = Texts(["a", "", "Größe"])
    assert (len(texts), texts[2], texts[-2], texts[1:]) == (3, "Größe", "", ["", "Größe"])
    with pytest.raises(IndexError):
        texts[3]


def test_lines(tmp_path: Path) -> None:
    terms = read_terms(write(tmp_path, "\ufeffFieber\r\n\nfever\nFieber\n  \na\n"))
    assert list(terms.texts) == ["Fieber", "fever", "a"]
    assert terms.frequency.tolist() == [2, 1, 1]
    assert terms.notes == (f"{tmp_path}/terms.txt: lines left out: 2, empty (line 2, 5)",)
    assert read_terms("standard input", stream=io.BytesIO(b"x\ny")).texts[1] == "y"


def test_one_long_line(tmp_path: Path) -> None:
    terms = read_terms(write(tmp_path, "x" * LONGEST + "\n" + "y" * (LONGEST + 1)))
    assert len(terms) == 1
    assert "longer than 2,000 characters (line 2)" in terms.notes[0]


def test_mixed_encodings(tmp_path: Path) -> None:
    path = write(tmp_path, "Grösse\n".encode() + b"\n".join([b"Gr\xf6sse"] * 7) + b"\nok\n")
    terms = read_terms(path)
    assert list(terms.texts) == ["Grösse", "ok"]
    assert terms.notes == (f"{path}: lines left out: 7, not UTF-8, see --encoding (line 2, 3, 4, 5, 6 ...)",)
    assert "Größe" in read_terms(write(tmp_path, b"Gr\xf6\xdfe\n"), encoding="latin-1").texts


def test_tables(tmp_path: Path) -> None:
    tsv = write(
        tmp_path, "term\tcount\tid\tlanguage\nFieber\t3\tx1\tDE\nfever\t0\tx2\ten\nTos\t2\tx3\tklingon\nab\n", "t.tsv"
    )
    terms = read_terms(tsv)
    assert [(terms.texts[0], int(terms.frequency[0]), terms.ids[0], terms.languages[terms.language[0]])] == [
        ("Fieber", 3, "x1", "de")
    ]
    assert [note.partition(", ")[2] for note in terms.notes] == [
        "column count (line 5)",
        "the frequency is no number from 1 to 12 digits (line 3)",
        "the language is no BCP 47 tag (line 4)",
    ]
    csv = write(tmp_path, 'a;b;c;d\n"Fieber; hoch";7;n1;de\n\n', "t.csv")
    named = read_terms(csv, columns=Columns("A", "b", "c", "d"))
    assert (named.texts[0], named.frequency[0], named.ids[0], named.languages) == ("Fieber; hoch", 7, "n1", ("", "de"))
    commas = read_terms(write(tmp_path, 'term,x\n"a, b",1\n', "c.csv"))
    assert list(commas.texts) == ["a, b"]
    plain = write(tmp_path, "word\tn\nFieber\t3\n")
    assert list(read_terms(plain).texts) == ["word n", "Fieber 3"]
    assert list(read_terms(plain, columns=Columns("word")).texts) == ["Fieber"]


@pytest.mark.parametrize(
    ("content", "name", "terms"),
    [
        ("fever\rFieber\rarm", "t.txt", ["fever", "Fieber", "arm"]),
        ("fever\rFieber\r\narm\n", "t.txt", ["fever", "Fieber", "arm"]),
        ("term\rfever\rarm\r", "t.tsv", ["fever", "arm"]),
        ("term,frequency\nfev\rer,2\narm,1\n", "t.csv", ["fev er", "arm"]),
        ('term,n\r\n"left\r\narm",2\r\n', "t.csv", ["left arm"]),
    ],
)
def test_line_ends(tmp_path: Path, content: str, name: str, terms: list[str]) -> None:
    found = read_terms(write(tmp_path, content, name))
    assert list(found.texts) == terms
    assert found.notes == ()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_blocks_part_lines_nowhere(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BLOCK", size)
    moved: list[int] = []
    text = "Größe\r\nfever\rarm\r\n\r\nleg"
    terms = read_terms(write(tmp_path, text), progress=moved.append)
    assert list(terms.texts) == ["Größe", "fever", "arm", "leg"]
    assert "empty (line 4)" in terms.notes[0]
    assert sum(moved) == len(text.encode())
    assert len(moved) == -(-len(text.encode()) // size)
    wide = read_terms(write(tmp_path, text.encode("utf-16")), encoding="utf-16")
    assert list(wide.texts) == list(terms.texts)
    table = read_terms(write(tmp_path, "term\r\nGröße\r\na\rb\r\n", "t.csv"))
    assert list(table.texts) == ["Größe", "a b"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_wide_encodings(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, "Fieber\nGröße\n".encode(encoding))
    assert list(read_terms(path, encoding=encoding).texts) == ["Fieber", "Größe"]
    if encoding.startswith("utf-16"):
        with pytest.raises(
            InputError, match=rf"has the NUL bytes of UTF-16.* Remedy: add encoding=\.\.\. {encoding}\."
        ):
            read_terms(path)
    for content in ("Fieber".encode(encoding)[:-1], "a\ud800b".encode(encoding, "surrogatepass")):
        with pytest.raises(InputError, match=f"is not {encoding.upper()}. Remedy: name its encoding"):
            read_terms(write(tmp_path, content), encoding=encoding)


def test_a_line_without_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 100)
    monkeypatch.setattr(streams, "_BLOCK", 64)
    terms = read_terms(write(tmp_path, "one\n" + "x" * 100_000 + "\ntwo\n" + "y" * 101))
    assert list(terms.texts) == ["one", "two"]
    assert "lines left out: 2, longer than 100 bytes (line 2, 4)" in terms.notes[0]


def test_memory_does_not_grow_with_a_line(tmp_path: Path) -> None:
    class Endless(io.BytesIO):
        """64 MB without a line end."""

        left = 64

        def read(self, size: int | None = -1) -> bytes:
            self.left -= 1
            return b"x" * (1 << 20) if self.left >= 0 else b""

    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="longer than 1,048,576 bytes"):
            read_terms("standard input", stream=Endless())
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_quotes_that_do_not_end(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_terms(write(tmp_path, 'term,frequency\nhead,1\n"fever,2\narm,1\n', "t.csv"))
    assert str(error.value) == (
        f"{tmp_path}/t.csv:3: a quoted cell does not end. "
        "Remedy: close the quote, or give the table as TSV, which has no quoting."
    )
    many = 'term,frequency\n"fever,2\n' + "arm,1\n" * 30_000
    with pytest.raises(InputError, match=r"t\.csv:2: a quoted cell does not end"):
        read_terms(write(tmp_path, many, "t.csv"))
    terms = read_terms(write(tmp_path, 'term,frequency\n"fever,2\narm,1\n"leg, left",3\nhand,4\n', "t.csv"))
    assert list(terms.texts) == ["hand"]
    assert "lines left out: 3, broken quoting (line 2, 3, 4)" in terms.notes[0]
    terms = read_terms(write(tmp_path, "term,frequency\n" + "x" * 200_000 + ",1\narm,1\n", "t.csv"))
    assert "a cell of more than 131,072 characters (line 2)" in terms.notes[0]
    with pytest.raises(InputError, match=r":1: is no CSV: .*Remedy: mend the first line"):
        read_terms(write(tmp_path, '"term,frequency\narm,1\n', "t.csv"))


def test_odd_frequencies(tmp_path: Path) -> None:
    huge = "9" * 5_000
    terms = read_terms(write(tmp_path, f"term\tcount\na\t{huge}\nb\t-1\nc\t007\nd\t0\n", "t.tsv"))
    assert (list(terms.texts), terms.frequency.tolist()) == (["c"], [7])
    assert "3, the frequency is no number from 1 to 12 digits (line 2, 3, 5)" in terms.notes[0]


def test_too_many_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "_LANGUAGES", 2)
    terms = read_terms(write(tmp_path, "term\tlanguage\na\tde\nb\ten\nc\tes\nd\tde\n", "t.tsv"))
    assert list(terms.texts) == ["a", "b", "d"]
    assert "more than 2 languages (line 4)" in terms.notes[0]


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ("", "put one term on each line below the header"),
        ("term\tcount\tlanguage\na\tx\tde\n", "give whole numbers, or name their column with --frequency-column"),
        ("term\tcount\tlanguage\na\t1\txx-y\n", "give tags such as de, or name their column with --language-column"),
        ("term\tcount\tlanguage\na\n", "give each line as many cells as the first"),
        ("term\tcount\tlanguage\n\t1\tde\n", "put one term on each line"),
        (f"term\n{'x' * 3000}\n", "put one term on each line"),
    ],
)
def test_the_remedy_fits(tmp_path: Path, content: str, remedy: str) -> None:
    with pytest.raises(InputError) as error:
        read_terms(write(tmp_path, content or "term\n", "t.tsv"))
    assert str(error.value).endswith(f"Remedy: {remedy}.")
    broken = write(tmp_path, 'term,n\n"a"b,1\n', "t.csv")
    with pytest.raises(InputError, match=r"broken quoting \(line 2\). Remedy: mend the lines that are named"):
        read_terms(broken)


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    path = write(tmp_path, "Term\tterm\tn\tn\na\tb\t1\t2\n", "t.tsv")
    with pytest.raises(
        InputError, match=r"t\.tsv:1: the column term is there twice. Remedy: rename or delete one of them"
    ):
        read_terms(path)
    path = write(tmp_path, "term\tn\tN\na\t1\t2\n", "t.tsv")
    assert list(read_terms(path).texts) == ["a"]
    with pytest.raises(InputError, match=r"the column n is there twice"):
        read_terms(path, columns=Columns(frequency="n"))


def test_ids_and_languages_keep_rows_apart() -> None:
    terms = Terms.of([("a", 1, "de", ""), ("a", 1, "en", ""), ("a", 2, "de", ""), ("a", 1, "de", "7")])
    assert (terms.frequency.tolist(), list(terms.ids)) == ([3, 1, 1], ["", "", "7"])


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path, "one\ntwo\n")

    def grow(size: int) -> None:
        with path.open("a") as file:
            file.write("three\n")

    terms = read_terms(path, progress=grow)
    assert list(terms.texts) == ["one", "two"]
    assert terms.notes == (f"{path}: the file grew while it was read; what came later is left out",)


def test_a_line_that_is_being_written_is_no_term(tmp_path: Path) -> None:
    path = write(tmp_path, "one\ntw")

    def grow(size: int) -> None:
        with path.open("a") as file:
            file.write("o\n")

    terms = read_terms(path, progress=grow)
    assert list(terms.texts) == ["one"]
    assert "cut off, the file was still being written (line 2)" in terms.notes[0]
    assert list(read_terms(write(tmp_path, "one\ntw")).texts) == ["one", "tw"]


@pytest.mark.parametrize(
    ("content", "name", "options", "message"),
    [
        (b"", "t.txt", {}, "no usable line. Remedy: put one term on each line."),
        (b"\xe9\n", "t.txt", {}, "no usable line; lines left out: 1, not UTF-8"),
        (b"\xff\xfea\x00", "t.txt", {}, ":1: is UTF-16, not UTF-8. Remedy: add encoding=... utf-16."),
        (
            b"x\ty\n1\t2\n",
            "t.tsv",
            {},
            ":1: no column term or name or text or mention; found 2 columns. Remedy: name the column",
        ),
        (
            b"term\na\n",
            "t.tsv",
            {"columns": Columns(frequency="n")},
            ":1: no column 'n'; found 1 column. Remedy: name a column",
        ),
    ],
)
def test_refused(tmp_path: Path, content: bytes, name: str, options: dict[str, Columns], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_terms(write(tmp_path, content, name), **options)
    assert message in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def test_refused_before_reading(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file. Remedy: check the path"):
        read_terms(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match=r"unknown encoding 'klingon'. Remedy: give one such as utf-8 or latin-1"):
        read_terms(tmp_path / "none.txt", encoding="klingon")
    for encoding in ("utf-7", "rot13", "hex", "undefined", "punycode", "unicode_escape", "idna", "cp500"):
        with pytest.raises(ConfigError, match=f"encoding '{encoding}' cannot be read line by line. Remedy: convert"):
            read_terms(tmp_path / "none.txt", encoding=encoding)


def test_rows_that_a_quote_swallows(tmp_path: Path) -> None:
    rows = [f"{row},name {row}" for row in range(1, 2001)]
    rows[4], rows[899] = '5,"name 5', '900,name 900"'
    path = write(tmp_path, "\n".join(["id,term", *rows, ""]), "t.csv")
    with pytest.raises(InputError) as error:
        read_terms(path)
    assert str(error.value) == (
        f"{path}:6: quotes swallow 896 of 2000 lines. "
        "Remedy: mend the quote, or give the table as TSV, which has no quoting."
    )
    rows[899], rows[12] = "900,name 900", '13,name 13"'
    terms = read_terms(write(tmp_path, "\n".join(["id,term", *rows, ""]), "t.csv"))
    assert len(terms) == 1991
    assert terms.notes == (f"{path}: lines left out: 9, swallowed by a quote (line 6, 7, 8, 9, 10 ...)",)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=lambda: (tmp_path / "fifo").write_text("term,n\nfever,1\narm,2\n"))
    writer.start()
    assert list(read_terms(tmp_path / "fifo", columns=Columns("term")).texts) == ["fever", "arm"]
    writer.join(timeout=30)
    assert not writer.is_alive()
