"""Shorthand: abbreviations and laconic words, and tables that cannot be read."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.language.languages import Language, language_data
from medlink.language.lexicon import shorthand
from medlink.language.lexicon.shorthand import Shorthand


def test_the_likeliest_meaning_of_capitals_only() -> None:
    german = Shorthand("de-AT")
    assert [getattr(german.abbreviation(word), "long", None) for word in ("KHK", "khk", "K.H.K.", "Leber")] == [
        "koronare Herzkrankheit", None, None, None
    ]  # fmt: skip
    assert Shorthand("fr").abbreviation("KHK") is None


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Bekannte Hypertonien.", [("Hypertonien", "arterielle Hypertonie")]),
        ("en", "He was afebrile and icteric.", [("afebrile", "fever"), ("icteric", "jaundice")]),
        ("es", "Paciente afebril.", [("afebril", "fiebre")]),
        ("fr", "Hypertonie", []),
    ],
)
def test_laconic_words(language: str, text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(text[start:end], one.long) for start, end, one in Shorthand(language).laconic(text)] == wanted


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_the_tables(language: str) -> None:
    path = Path(str(resources.files("medlink"))) / f"resources/language/{language}/laconic.tsv"
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    assert rows[0][:4] == ["word", "long", "english", "weight"]
    assert len(rows) > 900
    words = [row[0] for row in rows[1:]]
    assert len(set(words)) == len(words)
    assert all(0.5 <= float(row[3]) <= 1 and row[0] != row[1] for row in rows[1:])


@pytest.mark.parametrize("row", ["x\ty\tz\tmuch", "x\t\tz\t.5", "x\ty\tz\t2"])
def test_a_bad_row(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "laconic.tsv"
    table.write_text(f"word\tlong\tenglish\tweight\na\tb\tc\t.9\n{row}\n", "utf-8")
    monkeypatch.setattr(Language, "table", lambda self, name: table)
    shorthand._laconic.cache_clear()
    language_data("de")
    with pytest.raises(InputError, match="a share of its uses") as caught:
        shorthand._laconic("de")
    assert (caught.value.path, caught.value.line) == (str(table), 3)
    shorthand._laconic.cache_clear()
