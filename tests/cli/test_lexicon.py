"""``medlink lexicon``: entries of a word, counts, checks of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from medlink.cli.main import app
from medlink.errors import ConfigError, InputError
from medlink.language.lexicon import Lexicon
from tests.cli import runner

pytestmark = pytest.mark.usefixtures("small_lexicon")


def run(*args: object) -> Result:
    return runner.run("lexicon", *args)


def failed(*args: object) -> tuple[str, str]:
    """Standard output of a command that fails, and its error."""
    result = CliRunner().invoke(app, ["lexicon", *map(str, args)])
    assert result.exit_code == 1
    assert isinstance(result.exception, InputError)
    return result.stdout, str(result.exception)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    table = "family\tde\tnote\nward round\tKurvenvisite {f,pl=Kurvenvisiten}\tours\n"
    (folder / "families.tsv").write_text(table, encoding="utf-8")
    return folder


def test_show(own: Path) -> None:
    lines = run("show", "hepatisch").stdout.split("\n")
    assert lines[0] == "liver  (family, body)"
    assert lines[2].startswith("  de  Leber (f, pl. Lebern")
    short = run("show", "KHK", "--language", "de").stdout
    assert short.startswith("KHK  koronare Herzkrankheit = coronary artery disease  (abbreviation, de, disease)\n")
    assert "safe without context; in: cardiology" in short
    assert "  opposite: " in run("show", "links", "--language", "de").stdout
    assert "inflammation" in run("show", "--", "-itis").stdout
    expected = "ward round  (family)\n  de  Kurvenvisite (f, pl. Kurvenvisiten)\n  note: ours\n"
    assert run("show", "Kurvenvisiten", "--lexicon", own).stdout == expected


def test_show_as_json(own: Path) -> None:
    found = json.loads(run("show", "Kurvenvisite", "--lexicon", own, "--json").stdout)
    assert [entry["name"] for entry in found["entries"]] == ["ward round"]
    assert json.loads(run("show", "COPD", "--language", "en", "--json").stdout)["abbreviations"][0]["safe"] is True
    printed, _ = failed("show", "Xqzwvkjyy", "--json")
    assert json.loads(printed) == {"entries": [], "abbreviations": []}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("Xqzwvkjyy", "the lexicon does not know 'Xqzwvkjyy'. Remedy: add it to a table of your own (docs/how-to/own-"),
        ("COPDD --language de", "the lexicon does not know 'COPDD'. Remedy: try COPD"),
        ("KURVENVISITTE --lexicon {own}", "the lexicon does not know 'KURVENVISITTE'. Remedy: try Kurvenvisite"),
        (
            "foie --language fr-ca",
            "the lexicon has nothing in fr-ca. Remedy: name another language; it has de, en, es.",
        ),
        ("foie --language fr --lexicon {own}", "the lexicon does not know 'foie'"),
        ("foie --language de-at", "the lexicon does not know 'foie'"),
        ("Leber --language german", "unknown language 'german'"),
    ],
)
def test_an_unknown_word(words: str, error: str, own: Path) -> None:
    (own / "families.tsv").write_text("family\tde\tfr\nward round\tKurvenvisite {f}\tvisite {f}\n", encoding="utf-8")
    with pytest.raises((InputError, ConfigError)) as caught:
        run("show", *words.format(own=own).split())
    assert str(caught.value).startswith(error)


def test_a_file_is_no_folder(own: Path) -> None:
    with pytest.raises(InputError) as caught:
        run("check", own / "families.tsv")
    message = f"{own / 'families.tsv'}: is a file, a folder is needed. Remedy: name the folder it is in: {own}."
    assert str(caught.value) == message


def test_info(own: Path) -> None:
    plain, more = (json.loads(run("info", *args, "--json").stdout) for args in ((), ("--lexicon", own)))
    assert more["family"]["entries"] == plain["family"]["entries"] + 1
    text = run("info").stdout
    assert f"family: {plain['family']['entries']:,} entries (de {plain['family']['de']:,}, en " in text
    assert f"opposite: {plain['opposite']['entries']:,} entries\n" in text


def test_check(own: Path) -> None:
    assert "every row can be read, and no form is in several families unmarked" in run("check", own).stdout
    path = own / "families.tsv"
    many = "".join(f"{name}{number}\tWort{number} {{n}}\t\n" for name in "ab" for number in range(23))
    with path.open("a", encoding="utf-8") as file:
        file.write(f"chart round\tKurvenvisite {{f}}\t\nour liver\tLeber {{f}}\t\n{many}")
    printed, error = failed("check", own)
    assert printed.splitlines()[:2] == [
        f"{path}:3: Kurvenvisite (de) is in ward round and in chart round",
        f"{path}:4: Leber (de) is in liver of medlink and in our liver",
    ]
    assert printed.endswith("and 5 more\n")
    assert len(printed.splitlines()) == 21
    assert "25 forms are in several families. Remedy: mark each {amb}" in error
    path.write_text("family\tde\nx\tWort {q}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"families\.tsv:2: unknown tag 'q'"):
        run("check", own)


def test_own_meanings_stand_beside_those_that_ship(tmp_path: Path) -> None:
    head = "abbreviation\tlong\tenglish\tkind\tweight\tfield\tsafe\n"
    rows = "MS\tMuskelschwund\tmuscle loss\tfinding\t0.9\tany\tno\nQXJ\tKnick\tkink\tfinding\t0.9\tany\tno\n"
    (tmp_path / "abbreviations_de.tsv").write_text(head + rows, "utf-8")
    shipped = sum(one.weight for one in Lexicon().expand("MS", "de") if "MS" in one.forms)
    done = run("check", tmp_path)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:-1] == [
        "MS (de): its own meanings have a weight of 0.90 and those of medlink, which stay beside them, "
        f"of {shipped:.2f}"
    ]
    both = [one.long for one in Lexicon([tmp_path]).expand("MS", "de")]
    assert {"Muskelschwund", "Multiple Sklerose"} <= set(both)
