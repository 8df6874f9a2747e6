"""The compiled lexicon: what ships is what its tables say, a file is read back, house tables come in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from medlink.errors import EncoderError
from medlink.language.lexicon import Lexicon
from medlink.language.lexicon.forms import (
    MEANINGS,
    PHRASE,
    PREFIX,
    SHORT,
    STEM,
    SUFFIX,
    TRIE,
    WORD,
    Forms,
    Misspelt,
    shipped_forms,
)


@pytest.fixture(scope="module")
def forms(lexicon: Lexicon) -> Forms:
    return Forms.of(lexicon)


def names(forms: Forms, kind: str, language: str, form: str) -> set[str]:
    return {forms.names[one.meaning] for one in forms.find(kind, language, form)}


def test_what_ships_is_what_the_tables_say(forms: Forms) -> None:
    shipped = shipped_forms()
    assert (shipped.digest, shipped.kinds) == (forms.digest, forms.kinds), "run: python benchmarks/compile_lexicon.py"


def test_members_by_kind(forms: Forms) -> None:
    assert names(forms, WORD, "de", "leber") == names(forms, WORD, "es", "higado") == {"liver"}
    assert "liver" in names(forms, PREFIX, "de", "hepato") & names(forms, STEM, "de", "hepat")
    assert "inflammation" in names(forms, SUFFIX, "de", "entzundung") | names(forms, SUFFIX, "de", "itis")
    assert "myocardial infarction" in names(forms, PHRASE, "en", "heart attack")
    assert forms.find(WORD, "de", "no such word") == ()
    assert forms.goes_on(PHRASE, "en", "heart ")
    assert not forms.goes_on(PHRASE, "en", "gartenzaun ")
    assert forms.is_function_word("de", "der")
    assert not forms.is_function_word("de", "leber")
    # a negation says something
    assert not forms.is_function_word("de", "ohne")


def test_irregular_forms_have_the_meanings_of_their_lemma(forms: Forms) -> None:
    assert names(forms, WORD, "en", "feet") == {"foot"}
    assert names(forms, WORD, "de", "befand") == names(forms, WORD, "de", "befinden")
    # the lemma of "son" is the verb "ser", not the abbreviation of serine
    assert "serine" not in names(forms, WORD, "es", "son")


def test_abbreviations_that_need_no_context(forms: Forms, lexicon: Lexicon) -> None:
    khk = forms.find(WORD, "de", "khk")
    assert all(one.marks & SHORT for one in khk)
    assert {forms.names[one.meaning] for one in khk} == {"coronary heart disease", "coronary artery disease"}
    unsafe = next(one for one in lexicon.expand("PE", "en") if one.long == "pleural effusion")
    assert not unsafe.safe
    assert "pleural effusion" not in {forms.names[one.meaning] for one in forms.find(WORD, "en", "pe")}
    assert names(forms, PHRASE, "de", "covid 19") == {"COVID-19"}


def test_opposites_are_pairs_of_meanings(forms: Forms) -> None:
    left, right = forms.names.index("left (side)"), forms.names.index("right (side)")
    assert {(left, right), (right, left)} & set(forms.opposites)


def test_entries_that_say_the_same_are_one_meaning(lexicon: Lexicon) -> None:
    meanings, listed = lexicon.meanings
    of: dict[str, set[int | None]] = {}
    for entry, meaning in zip(lexicon.entries, meanings, strict=True):
        of.setdefault(entry.name, set()).add(meaning)
    # a term with the name of a family as well
    assert all(len(found) == 1 for found in of.values())
    assert lexicon.same
    for one, other in lexicon.same:
        assert of[one] == of[other]
    assert {listed[meaning] for meaning in of["pancreatitis"] if meaning is not None} == {"pancreatitis"}
    # an ending that makes adjectives means nothing
    assert {entry.table for entry in lexicon.entries if of[entry.name] == {None}} == {"affix"}


def test_a_house_adds_words_senses_and_a_language(tmp_path: Path) -> None:
    for table, content in {
        "families": "family\tde\tfr\nward round\tKurvenvisite {f,pl=Kurvenvisiten}\tgrande visite {f}\n",
        "same": "one\tother\nward round\tliver\n",
    }.items():
        (tmp_path / f"{table}.tsv").write_text(content, encoding="utf-8")
    forms = Forms.of(Lexicon([tmp_path]))
    assert names(forms, WORD, "de", "kurvenvisiten") == names(forms, WORD, "de", "leber") == {"liver"}
    assert "fr" in forms.languages
    assert names(forms, PHRASE, "fr", "grande visite") == {"liver"}


def test_saved_and_loaded(forms: Forms, tmp_path: Path) -> None:
    forms.save(tmp_path)
    again = Forms.load(tmp_path)
    assert again.digest == forms.digest
    assert (again.names, again.keys, again.languages, again.opposites, again.kinds) == (
        forms.names, forms.keys, forms.languages, forms.opposites, forms.kinds,
    )  # fmt: skip
    assert again.find(WORD, "de", "leber") == forms.find(WORD, "de", "leber")


@pytest.mark.parametrize("name", [TRIE, MEANINGS])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"x" * 100])
def test_a_damaged_file_is_one_error(name: str, content: bytes | None, tmp_path: Path) -> None:
    shipped_forms().save(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(EncoderError, match="the word families cannot be read"):
        Forms.load(tmp_path)


def test_a_family_of_a_house_may_say_what_a_term_that_ships_says(tmp_path: Path) -> None:
    """It stands behind the term: the term keeps its meaning, and the family has one of its own."""
    row = "house attack\theart attack\tHerzanfall {m,pl=Herzanfälle} | Herzattacke {f,pl=Herzattacken}\n"
    (tmp_path / "families.tsv").write_text(f"family\ten\tde\n{row}", encoding="utf-8")
    lexicon = Lexicon([tmp_path])
    meanings, listed = lexicon.meanings
    assert listed[-1] == "house attack"
    assert meanings[-1] == len(listed) - 1
    assert "house attack" in names(Forms.of(lexicon), PHRASE, "en", "heart attack")


@pytest.mark.parametrize("word", ["nirenzyste", "leebr", "lebr", "herzz", "xleber", "qwrtzu", "fiebre"])
def test_one_typing_error_against_every_form_there_is(forms: Forms, word: str) -> None:
    head = f"{WORD}de "
    wanted = {key[len(head) :] for key in forms._trie.iterkeys(head) if OSA.distance(word, key[len(head) :]) == 1}
    plain = {form for form in wanted if form.isascii() and form.isalpha()}
    assert plain <= set(forms.spelt_like(WORD, "de", word)) <= wanted


_WORDS = st.text(st.sampled_from("abcé1"), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.sets(_WORDS, max_size=6), _WORDS)
def test_all_forms_with_one_error_are_found(forms: set[str], word: str) -> None:
    found = forms & set(Misspelt(sorted(forms)).candidates(word))
    wanted = {form for form in forms if OSA.distance(form, word) == 1}
    plain = {form for form in wanted if form.isascii() and form.isalpha()}
    assert plain <= found <= wanted
    # any letter behind the half that is as it should be
    assert {form for form in wanted if form.startswith(word[: len(word) // 2])} <= found


def test_other_words_are_not_looked_for() -> None:
    misspelt = Misspelt(["pneumonie", "niere", "a"])
    assert list(misspelt.candidates("pneumnoie")) == ["pneumonie"]
    assert not [word for word in ("pnaumanie", "pneumniee", "leber", "nie") for _ in misspelt.candidates(word)]
    assert not list(Misspelt([]).candidates("niere"))
