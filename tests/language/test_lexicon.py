"""The lexicon: rules of the shipped tables, search, and tables of a site."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.language.lexicon import Lexicon, to_dict
from medlink.language.lexicon.tables import FIRST, LAST

LANGUAGES = ("de", "en", "es")


def names(lexicon: Lexicon, word: str, language: str | None = None) -> set[str]:
    return {entry.name for entry, _ in lexicon.find(word, language)}


@pytest.mark.slow
def test_rules_of_the_shipped_tables(lexicon: Lexicon) -> None:
    for table in ("family", "term", "affix"):
        listed = Counter(entry.name for entry in lexicon.entries if entry.table == table)
        assert [name for name, count in listed.items() if count > 1] == []
    for entry in lexicon.entries:
        for member in entry.members:
            assert member.form == member.form.strip("- ")
            assert entry.table != "family" or " " not in member.form, (entry.name, member.form)
            if entry.table == "family" and member.language == "de" and member.form[0].isupper():
                assert member.gender or "lat" in member.marks or member.place != "whole", (entry.name, member.form)
    # a form of several families is ambiguous in all of them but the one that it names
    assert lexicon.collisions() == {}


def test_meanings_of_an_abbreviation(lexicon: Lexicon) -> None:
    weights: Counter[tuple[str, str]] = Counter()
    safe: Counter[tuple[str, str]] = Counter()
    for one in lexicon.abbreviations:
        for form in one.forms:
            weights[one.language, form] += one.weight
            safe[one.language, form] += one.safe
            same = [other.weight for other in lexicon.expand(form, one.language) if other.english == one.english]
            assert not one.safe or sum(same) >= 0.9, (form, one.long)
    assert max(weights.values()) <= 1.02
    assert max(safe.values()) == 1
    for language, form, long in (
        ("de", "KHK", "koronare Herzkrankheit"),
        ("es", "EPOC", "enfermedad pulmonar obstructiva crónica"),
        ("en", "COPD", "chronic obstructive pulmonary disease"),
    ):
        first = lexicon.expand(form, language)[0]
        assert (first.long, first.safe) == (long, True)
    for language, form in (("en", "MS"), ("en", "PE"), ("de", "PE"), ("es", "EM")):
        assert not lexicon.expand(form, language)[0].safe


def test_dots_and_blanks_do_not_count_and_capitals_do(lexicon: Lexicon) -> None:
    assert lexicon.expand("Z.n.", "de")[0].long == lexicon.expand("Zn", "de")[0].long == "Zustand nach"
    assert lexicon.expand("khk", "de")[0].long == "koronare Herzkrankheit"
    assert lexicon.expand("qqq") == []
    listed = lexicon.expand("MS", "en")
    assert [one.weight for one in listed] == sorted((one.weight for one in listed), reverse=True)


def test_find(lexicon: Lexicon) -> None:
    words = {"hepatic": "en", "hepatisch": "de", "hígado": "es", "Leber": "de", "hepatischen": "de"}
    for word, language in words.items():
        assert "liver" in names(lexicon, word, language), word
    assert "liver" in names(lexicon, "hepatica")
    assert names(lexicon, "Leber", "es") == set()
    assert "liver" in names(lexicon, "Leber", "de-at") & names(lexicon, "hepatischen", "de-at")
    assert lexicon.expand("KHK", "de-at") == lexicon.expand("KHK", "de") != []
    for nothing in ("Gartenzaun", "", " ", "?"):
        assert lexicon.find(nothing) == []
    places = {member.place for _, member in lexicon.find("itis", "en")}
    assert places == {LAST}
    assert {member.place for _, member in lexicon.find("hepato", "de")} == {FIRST}


def test_more_than_its_words(lexicon: Lexicon) -> None:
    for expression, language, meaning in (
        ("heart attack", "en", "myocardial infarction"),
        ("Schlaganfall", "de", "stroke"),
        ("Zuckerkrankheit", "de", "diabetes mellitus"),
    ):
        assert meaning in names(lexicon, expression, language), expression


def test_opposites(lexicon: Lexicon) -> None:
    (left, _), *_ = lexicon.find("links", "de")
    others = {name for one in lexicon.opposed(left.name) for name in one[1:] if one.kind == "laterality"}
    assert names(lexicon, "rechts", "de") & others
    assert lexicon.opposed("no such entry") == []


_ABBREVIATIONS = "abbreviation ; long ; english ; kind ; weight ; field ; safe\n"


def write(folder: Path, **tables: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in tables.items():
        (folder / f"{name}.tsv").write_text(content.replace(" ; ", "\t").replace("~", ""), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_own_tables(tmp_path: Path, small_lexicon: None) -> None:
    folder = write(
        tmp_path / "own",
        families="family ; de ; fr ; note\n"
        "ward round ; Visite {f,pl=Visiten,amb} | Kurvenvisite {f} ; visite {f} ; ours\n",
        abbreviations_de=_ABBREVIATIONS + "KVQ | KVisQ ; Kurvenvisite ; ~ ; text ; .9 ; any ; no\n",
        function_words="word ; language ; kind\nhalt ; de ; particle\n",
        names="name ; kind\nMeinhaus ; place\n",
        inflected="form ; language ; lemma\nvisitierend ; de ; Kurvenvisite\n",
    )
    lexicon = Lexicon([folder])
    (entry, member), *_ = lexicon.find("Kurvenvisiten", "de")
    assert (entry.name, member.gender, entry.note) == ("ward round", ("f",), "ours")
    assert to_dict(entry)["members"][0]["marks"] == ["amb"]
    assert str(entry.members[0]) == "Visite (f, pl. Visiten, ambiguous)"
    assert names(lexicon, "visite", "fr") == {"ward round"}
    assert [one.long for one in lexicon.expand("K.Vis.Q.", "de")] == ["Kurvenvisite"]
    assert lexicon.function_words["de"]["halt"] == "particle"
    assert lexicon.names["Meinhaus"] == "place"
    assert names(lexicon, "Visitierend", "de") == {"ward round"}
    # it stands beside what ships
    assert "liver" in names(lexicon, "Leber", "de")


@pytest.mark.usefixtures("small_lexicon")
@pytest.mark.parametrize(("table", "content", "message"), [
    ("families", "family ; de\nx ; Wort {q}\n", r"families\.tsv:2: unknown tag 'q' of 'Wort'"),
    ("families", "family ; de\nx ; {f}\n", r"families\.tsv:2: a member cannot be read: '{f}'"),
    ("families", "family ; de\nx ; ~\n", r"families\.tsv:2: no member in any language\. Remedy: write a word into"),
    ("families", "family ; de\n~ ; Wort\n", r"families\.tsv:2: no name"),
    ("families", "de ; family\nWort ; x\n", r"families\.tsv:1: the first column is 'de'.*begin with the column family"),
    ("families", "family ; klingon\nx ; a\n", r"families\.tsv:1: 'klingon' is not a language"),
    ("families", "family ; de\nx\n", r"families\.tsv:2: .*1 of 1 rows cannot be used|families\.tsv:2: .*column"),
    ("terms", "term ; de ; kind\nx ; Wort ; thing\n", r"terms\.tsv:2: unknown kind 'thing'"),
    ("families", "family ; de ; kind\nx ; Wort ; thing\n", r"families\.tsv:2: unknown kind 'thing'"),
    ("terms", "term ; de\nx ; Wort\n", r"terms\.tsv:1: looked for the columns term, kind"),
    ("opposites", "kind ; one ; other\nside ; liver ; nowhere\n",
     r"opposites\.tsv:2: no family, term or affix 'nowhere'"),
    ("abbreviations_de", "A ; B ; ~ ; text ; 2 ; any ; no\n",
     r"_de\.tsv:2: the weight is '2', above 0 and at most 1 expected"),
    ("abbreviations_de", "A ; B ; ~ ; text ; x ; any ; no\n", r"_de\.tsv:2: the weight is 'x'"),
    ("abbreviations_de", "A ; B ; ~ ; joke ; 1 ; any ; no\n", r"_de\.tsv:2: unknown kind 'joke'"),
    ("abbreviations_de", "A ; B ; ~ ; text ; 1 ; moon ; no\n", r"_de\.tsv:2: unknown field 'moon'"),
    ("abbreviations_de", "A ; B ; ~ ; text ; 1 ; any ; maybe\n", r"_de\.tsv:2: safe is 'maybe', yes or no expected"),
    ("abbreviations_de", "A ; ~ ; ~ ; text ; 1 ; any ; no\n", r"_de\.tsv:2: no abbreviation or no long form"),
    ("families", "family ; de\nx ; Wort\ny ; Sache\nx ; Ding\n", r"families\.tsv:4: 'x' is in line 2 already"),
    ("terms", "term ; de ; kind\nx ; a ; test\nx ; b ; drug\n", r"terms\.tsv:3: 'x' is in line 2 already"),
    ("families", "family ; de\nx ; Wort {f,pl=}\n", r"families\.tsv:2: empty plural of 'Wort'"),
    ("families", "family ; de\nx ; Wort {f,pl=Worte/ }\n", r"families\.tsv:2: empty plural of 'Wort'"),
    ("abbreviations_de", "A.B. ; C ; ~ ; text ; .7 ; any ; no\nAB | X ; D ; ~ ; text ; .32 ; any ; no\n",
     r"_de\.tsv:3: the weights of 'AB' add up to 1\.02, at most 1 expected"),
    ("abbreviations_de", "AB ; C ; ~ ; text ; .5 ; any ; yes\nAB ; D ; ~ ; text ; .51 ; any ; yes\n",
     r"_de\.tsv:3: 'AB' is safe in line 2 already: one .*"),
    ("abbreviations_xx1", "A ; B ; ~ ; text ; 1 ; any ; no\n", "'xx1' is not a language"),
    ("senses", "word ; language ; family ; beside\nx ; de ; nowhere ; ~\n", r"senses\.tsv:2: no family.* 'nowhere'"),
    ("senses", "word ; language ; family ; beside\nx ; klingon ; - ; ~\n",
     r"senses\.tsv:2: 'klingon' is not a language"),
    ("senses", "word ; language ; family ; beside\n~ ; de ; - ; ~\n", r"senses\.tsv:2: no word"),
    ("senses", "word ; language ; family\nx ; de ; -\n", r"senses\.tsv:1: looked for the columns .*beside"),
    ("same", "one ; other\nliver ; nowhere\n", r"same\.tsv:2: no family.* 'nowhere'"),
    ("inflected", "form ; language ; lemma\nx ; klingon ; y\n", r"inflected\.tsv:2: 'klingon' is not a language"),
    ("words", "a ; b\n", r"looked for families\.tsv, .*abbreviations_de\.tsv; found none of them"),
])  # fmt: skip
def test_a_wrong_row_is_one_error(table: str, content: str, message: str, tmp_path: Path) -> None:
    head = _ABBREVIATIONS if table.startswith("abb") else ""
    folder = write(tmp_path / "own", **{table: head + content})
    with pytest.raises(InputError, match=message):
        Lexicon([folder])


@pytest.mark.usefixtures("small_lexicon")
def test_a_table_of_another_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "own", families="family ; de\nx ; Wort\n", terrms="term ; de ; kind\nx ; y ; test\n")
    with pytest.raises(
        InputError, match=r"terrms\.tsv: is not a table of a lexicon\. Remedy: name it as one of families"
    ):
        Lexicon([folder])
