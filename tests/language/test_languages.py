"""Languages are data: listing, reading, bad data, and a fourth language that touches no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.language.exact import markers
from medlink.language.guard_words import GuardReader, Reading
from medlink.language.languages import VARIABLE, Language, add_folder, guarded, language_data, languages, stop_words
from medlink.language.text import Inflector, is_inflection, normalise, numerals, variants
from tests.language.test_text import match_form

FRENCH = Path(__file__).parent / "fr_folder"
WORDS = "Nierenzysten links Typ II; riñones izquierdos, left kidney: no fever, liver biopsy, la vitamina a, l'infarctus"


@pytest.fixture
def french(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    add_folder(FRENCH)


def test_shipped_languages_have_all_files() -> None:
    folder = resources.files("medlink").joinpath("resources/language")
    assert tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) == languages() == ("de", "en", "es")
    rules = ["acts", "articles", "attributes", "forms", "guards", "markers", "persons", "scopes"]
    tables = [
        "abbreviations", "absences", "cues", "laconic", "no_mentions", "organs", "relatives", "sections", "values",
    ]  # fmt: skip
    for language in languages():
        names = {path.name for path in folder.joinpath(language).iterdir()}
        assert names == {f"{name}.json" for name in rules} | {f"{name}.tsv" for name in tables}
        data = language_data(f"{language}-XX")
        assert data.tag == language
        assert data.forms.stemmer


@pytest.mark.slow
def test_a_folder_is_found_by_worker_processes(french: None) -> None:
    assert languages() == ("de", "en", "es", "fr")
    code = "from medlink.language.text import Inflector; print(Inflector('fr').form(\"l'infarctus\"))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "infarctus\n"


def test_elision(french: None) -> None:
    assert match_form("l’infarctus du myocarde", "fr") == match_form("infarctus du myocarde", "fr")
    assert match_form("Insuffisance d'organe", "fr") == "insuffis organ"
    tokens = [(token.start, token.text) for token in Inflector("fr").tokens("qu'une Laryngite d’été")]
    assert tokens == [(3, "une"), (7, "laryngit"), (19, "ete")]
    assert is_inflection("l'artère", "artères", "fr")
    assert Inflector("fr").gap(" d'") == " "
    # the exact form does not know the language, and other languages have no elision
    assert normalise("l'infarctus") == "linfarctus"
    assert match_form("l'infarctus", "en") == match_form("linfarctus", "en")


def test_french_forms_guards_and_cues(french: None) -> None:
    assert match_form("Stade I", "fr") == "stad 1"
    assert numerals("diabète de type II", "fr") == {"2"}
    assert read("rein gauche", "fr").values == {"laterality": {"left"}} == read("left kidney").values
    # what it does not say it has not: no negation, no acts
    assert read("no biopsie", "fr").negated == frozenset()
    assert not read("biopsie du foie", "fr").acts.any
    assert "Mme" in language_data("fr").words("persons")
    assert "avec" in stop_words("fr")


def read(text: str, language: str = "") -> Reading:
    return GuardReader().read(text, language)


def forms_of_all() -> list[object]:
    """The forms and guard words of words in the three languages, and the forms that depend on no language."""
    found: list[object] = []
    for text in [WORDS, *WORDS.split()]:
        for language in ("de", "en", "es"):
            found += [Inflector(language).tokens(text), variants(text, language), read(text, language)]
        found += [normalise(text), markers(normalise(text))]
    return found


@pytest.mark.slow
def test_a_fourth_language_touches_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from medlink.models import load_encoder

    before, fingerprint = forms_of_all(), load_encoder("builtin").fingerprint
    monkeypatch.setenv(VARIABLE, str(FRENCH))
    assert "fr" in languages()
    assert forms_of_all() == before
    assert load_encoder("builtin").fingerprint == fingerprint


def test_a_language_without_guards_takes_no_part_in_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    untagged = read(WORDS)
    (tmp_path / "it").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert languages() == ("de", "en", "es", "it")
    assert [data.tag for data in guarded("")] == ["de", "en", "es"]
    assert read(WORDS) == untagged
    assert read("left links izquierdo type 2", "it").values == {"number": {"2"}}


def test_stop_words_of_a_folder_come_before_those_of_spacy(italian: Path) -> None:
    assert "perché" in stop_words("it")
    (italian / "stop_words.json").write_text(json.dumps(_fields(words=["paziente"])), "utf-8")
    assert stop_words("it-CH") == {"paziente"}
    assert stop_words("tlh") == frozenset()


def _fields(**fields: object) -> dict[str, object]:
    return {field: {"value": value, "source": "s"} for field, value in fields.items()}


@pytest.mark.parametrize(("name", "data", "says"), [
    ("forms", {"stemmer": "french"}, "stemmer: an object with 'value' and 'source'"),
    ("forms", {"stemmer": {"value": "french", "source": ""}}, "stemmer: an object with 'value' and 'source'"),
    ("forms", {"stemmer": {"value": "french", "source": "s", "more": 1}}, "stemmer: an object"),
    ("forms", _fields(stemmer="klingon"), "stemmer: 'klingon' is none of"),
    ("forms", _fields(steamer="french"), "unknown field 'steamer'. Remedy: one of stemmer, "),
    ("forms", _fields(endings=[["(", ""]]), r"endings.0.0: .* regular expression"),
    ("forms", _fields(letters=3), "letters: "),
    ("forms", [], "a JSON object expected"),
    ("guards", _fields(laterality={"gauche": "gauches?"}), "laterality: 'gauche' is not a value .* left, right"),
    ("guards", _fields(colour={"red": "rouge"}), "colour: 'red' is not a value"),
    ("guards", _fields(laterality={"left": "("}), "laterality.left: "),
    ("guards", _fields(negation={"after": []}), "unknown field 'negation.after'"),
    ("acts", _fields(acts={"prayer": "priere"}), "acts: 'prayer' is not a value"),
])  # fmt: skip
def test_bad_data_names_file_and_field(name: str, data: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ConfigError, match=says) as caught:
        getattr(Language("fr", tmp_path), name)
    assert caught.value.path == str(path)
    assert caught.value.remedy


def test_bad_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(ConfigError, match="not there"):
        add_folder(tmp_path / "none")
    for name, says in (("de", "another folder of de"), ("french", "named by its tag"), ("fr-ca", "named by its tag")):
        (tmp_path / name / name).mkdir(parents=True)
        with pytest.raises(ConfigError, match=says):
            add_folder(tmp_path / name)
    assert os.environ[VARIABLE] == ""
    (tmp_path / "forms.json").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        _ = Language("fr", tmp_path).forms
