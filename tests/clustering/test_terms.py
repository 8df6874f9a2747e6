"""Term lists: what is read, noted, and rejected."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from medlink.clustering import terms as terms_module
from medlink.clustering.terms import Columns, Terms, find_forms, read_terms
from medlink.errors import InputError
from tests.tables import cases


def write(folder: Path, text: str | bytes, name: str = "terms.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_lines(tmp_path: Path) -> None:
    terms = read_terms(write(tmp_path, "\ufeffFieber\r\n\nfever\nFieber\n  \na\n"))
    assert list(terms.texts) == ["Fieber", "fever", "a"]
    assert terms.frequency.tolist() == [2, 1, 1]
    assert terms.notes == (f"{tmp_path}/terms.txt: lines left out: 2, empty (line 2, 5)",)
    assert read_terms("standard input", stream=io.BytesIO(b"x\ny")).texts[1] == "y"


def test_tables(tmp_path: Path) -> None:
    rows = ["term\tcount\tid\tlanguage", "Fieber\t1.003\tx1\tDE", "fever\t0\tx2\ten", "Tos\t2\tx3\tklingon", "ab"]
    rows += [f"huge\t{'9' * 5_000}\t\t", "less\t-1\t\t"]
    terms = read_terms(write(tmp_path, "\n".join(rows), "t.tsv"), max_bad_share=1)
    assert (list(terms.texts), terms.frequency.tolist(), list(terms.ids)) == (["Fieber"], [1003], ["x1"])
    assert terms.languages[terms.language[0]] == "de"
    assert [note.partition(", ")[2] for note in terms.notes] == [
        "column count (line 5)",
        "the frequency is not a number of 1 to 12 digits (line 3, 6, 7)",
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


def test_too_many_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "_LANGUAGES", 2)
    terms = read_terms(write(tmp_path, "term\tlanguage\na\tde\nb\ten\nc\tes\nd\tde\n", "t.tsv"), max_bad_share=1)
    assert list(terms.texts) == ["a", "b", "d"]
    assert "more than 2 languages (line 4)" in terms.notes[0]


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ("", "put one term on each line below the header"),
        ("term\tcount\tlanguage\na\tx\tde\n", "give whole numbers, or name their column with frequency_column=..."),
        ("term\tcount\tlanguage\na\t1\txx-y\n", "give tags such as de, or name their column with language_column=..."),
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
    with pytest.raises(InputError, match=r"broken quoting \(line 2\)"):
        read_terms(broken)


def test_ids_and_languages_keep_rows_apart() -> None:
    terms = Terms.from_rows([("a", 1, "de", ""), ("a", 1, "en", ""), ("a", 2, "de", ""), ("a", 1, "de", "7")])
    assert (terms.frequency.tolist(), list(terms.ids)) == ([3, 1, 1], ["", "", "7"])


@pytest.mark.parametrize(
    ("content", "name", "options", "message"),
    [
        (b"", "t.txt", {}, "no usable line"),
        (b"\xe9\n", "t.txt", {}, "no usable line; lines left out: 1, not UTF-8"),
        (b"\xff\xfea\x00", "t.txt", {}, ":1: is UTF-16, not UTF-8"),
        (b"x\ty\n1\t2\n", "t.tsv", {}, ":1: no column term, name, text, mention or the like; found 2 columns: x, y"),
        (b"term\na\n", "t.tsv", {"columns": Columns(frequency="n")}, ":1: looked for the columns n; found 1 column"),
        (b"term\tn\tN\na\t1\t2\n", "t.tsv", {"columns": Columns(frequency="n")}, ":1: the column n occurs twice"),
        (b"Gr\xf6sse\n" * 7 + b"ok\n", "t.txt", {}, ":1: 7 of 8 rows cannot be used (not UTF-8: 7)"),
    ],
)
def test_invalid_lists(tmp_path: Path, content: bytes, name: str, options: dict[str, Columns], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_terms(write(tmp_path, content, name), **options)
    assert message in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def nodes(*rows: tuple[str, str]) -> list[int]:
    return find_forms(Terms.from_rows((text, 1, language, "") for text, language in rows)).node.tolist()


@pytest.mark.parametrize(("one", "other", "language", "same"), cases(__file__, "forms.tsv"))
def test_same_form(one: str, other: str, language: str, same: str) -> None:
    assert (nodes((one, language), (other, language)) == [0, 0]) == bool(same)


def test_inflection_needs_one_language() -> None:
    assert nodes(("Nierenzyste", "de"), ("Nierenzysten", "")) == [0, 0]
    assert nodes(("Nierenzyste", "en"), ("Nierenzysten", "en")) == [0, 1]


def test_terms_without_letters_equal_only_themselves() -> None:
    assert nodes(("---", ""), ("...", ""), ("--- ", "")) == [0, 1, 2]
    assert nodes(("---", ""), ("---", "en")) == [0, 0]


def representatives(*rows: tuple[str, int]) -> list[str]:
    """The terms that represent the nodes of a list of terms and frequencies."""
    terms = Terms.from_rows((text, frequency, "", "") for text, frequency in rows)
    return [terms.texts[row] for row in find_forms(terms).row]


def test_the_representative_of_a_node() -> None:
    """By the frequency of the exact form, then by accents, frequency, length and text."""
    # fever and FEVER are one form of 10
    assert representatives(("fevers", 5), ("fever", 5), ("FEVER", 5), ("b", 9), ("a", 1)) == ["FEVER", "b", "a"]
    assert representatives(("fevers", 11), ("fever", 5), ("FEVER", 5)) == ["fevers"]
    assert representatives(("fever", 5), ("FEVER", 4), ("fevers", 8)) == ["fever"]
    assert representatives(("nausea", 9), ("náusea", 1)) == ["náusea"]
    assert representatives(("nausea", 9), ("náusea", 1), ("NÁUSEA", 2)) == ["NÁUSEA"]
    # of two forms the more frequent, regardless of accents
    assert representatives(("riñon", 1), ("riñones", 2)) == ["riñones"]


def test_none_and_progress() -> None:
    assert len(find_forms(Terms.from_rows([]))) == 0
    seen: list[int] = []
    find_forms(Terms.from_rows((f"term {i}", 1, "", "") for i in range(5000)), seen.append)
    assert seen == [4096, 5000]
