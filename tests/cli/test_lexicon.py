"""``medlink lexicon``: what it shows of a word, what it counts, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from medlink.cli.main import app
from medlink.errors import ConfigError, InputError, MedlinkError
from medlink.language.lexicon import Lexicon

pytestmark = pytest.mark.usefixtures("lexicon")


def run(*args: object) -> Result:
    result = CliRunner().invoke(app, ["lexicon", *map(str, args)])
    if isinstance(result.exception, MedlinkError):
        raise result.exception
    return result


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
    result = CliRunner().invoke(app, ["lexicon", "show", "Xqzwvkjyy", "--json"])
    assert (json.loads(result.stdout), result.exit_code) == ({"entries": [], "abbreviations": []}, 1)


def unknown(*args: object) -> str:
    """What the command says of a word that is not there; nothing goes to standard output."""
    result = CliRunner().invoke(app, ["lexicon", "show", *map(str, args)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, InputError)
    return str(result.exception)


def test_an_unknown_word(own: Path) -> None:
    said = unknown("Xqzwvkjyy")
    assert (
        said
        == "the lexicon does not know 'Xqzwvkjyy'. Remedy: add it to a table of your own (docs/how-to/own-words.md)."
    )
    assert unknown("COPDD", "--language", "de").startswith("the lexicon does not know 'COPDD'. Remedy: try COPD")
    assert "Remedy: try Kurvenvisite" in unknown("KURVENVISITTE", "--lexicon", own)
    assert "Kurvenvisite" not in unknown("Kurvenvisitte", "--lexicon", own, "--language", "en")
    with pytest.raises(ConfigError, match="unknown language 'german'"):
        run("show", "Leber", "--language", "german")


def test_a_language_that_the_lexicon_does_not_have(own: Path) -> None:
    assert unknown("foie", "--language", "fr-ca") == (
        "the lexicon has nothing in fr-ca. Remedy: name another language; it has de, en, es."
    )
    (own / "families.tsv").write_text("family\tfr\nward round\tvisite {f}\n", encoding="utf-8")
    assert "does not know 'foie'" in unknown("foie", "--language", "fr", "--lexicon", own)
    assert "does not know 'foie'" in unknown("foie", "--language", "de-at")


def test_a_file_is_no_folder(own: Path) -> None:
    with pytest.raises(InputError) as caught:
        run("check", own / "families.tsv")
    said = f"{own / 'families.tsv'}: is a file, a folder is needed. Remedy: name the folder it is in: {own}."
    assert str(caught.value) == said


def test_info(own: Path) -> None:
    plain, more = (json.loads(run("info", *args, "--json").stdout) for args in ((), ("--lexicon", own)))
    assert more["family"]["entries"] == plain["family"]["entries"] + 1
    text = run("info").stdout
    assert f"family: {plain['family']['entries']:,} entries (de {plain['family']['de']:,}, en " in text
    assert f"opposite: {plain['opposite']['entries']:,} entries\n" in text


def test_check(own: Path) -> None:
    assert "every row can be read, and no form stands in several families unmarked" in run("check", own).stdout
    with (own / "families.tsv").open("a", encoding="utf-8") as file:
        file.write("chart round\tKurvenvisite {f}\t\n")
    result = CliRunner().invoke(app, ["lexicon", "check", str(own)])
    path = own / "families.tsv"
    assert result.stdout == f"{path}:3: Kurvenvisite (de) stands in ward round and in chart round\n"
    assert isinstance(result.exception, InputError)
    assert "1 form stands in several families. Remedy: mark each {amb}" in str(result.exception)
    path.write_text("family\tde\nour liver\tLeber {f}\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["lexicon", "check", str(own)])
    assert result.stdout == f"{path}:2: Leber (de) stands in liver of medlink and in our liver\n"
    many = "".join(f"{name}{number}\tWort{number} {{n}}\n" for name in "ab" for number in range(23))
    path.write_text(f"family\tde\n{many}", encoding="utf-8")
    result = CliRunner().invoke(app, ["lexicon", "check", str(own)])
    assert result.stdout.endswith("and 3 more\n")
    assert len(result.stdout.splitlines()) == 21
    (own / "families.tsv").write_text("family\tde\nx\tWort {q}\n", encoding="utf-8")
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
