"""Term lists: what is read, what is left out and said, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from medlink.clustering.terms import LONGEST, Columns, Terms, Texts, read_terms
from medlink.errors import ConfigError, InputError


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
        "not 4 columns (line 5)",
        "the frequency is no number above 0 (line 3)",
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
        (b"", "t.txt", {}, "no usable line. Remedy: give one term a line as UTF-8"),
        (b"\xe9\n", "t.txt", {}, "no usable line; lines left out: 1, not UTF-8"),
        (b"\xff\xfea\x00", "t.txt", {}, ":1: is UTF-16, not UTF-8. Remedy: convert it"),
        (
            b"x\ty\n1\t2\n",
            "t.tsv",
            {},
            ":1: no column term or name or text or mention; found x, y. Remedy: name the column",
        ),
        (
            b"term\na\n",
            "t.tsv",
            {"columns": Columns(frequency="n")},
            ":1: no column 'n'; found term. Remedy: name a column",
        ),
    ],
)
def test_refused(tmp_path: Path, content: bytes, name: str, options: dict[str, Columns], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_terms(write(tmp_path, content, name), **options)
    assert message in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def test_refused_before_reading(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: No such file or directory. Remedy: name a text file"):
        read_terms(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match=r"unknown encoding 'klingon'. Remedy: give one such as utf-8 or latin-1"):
        read_terms(tmp_path / "none.txt", encoding="klingon")
    with pytest.raises(ConfigError, match=r"encoding 'utf-16' cannot be read line by line"):
        read_terms(tmp_path / "none.txt", encoding="utf-16")
