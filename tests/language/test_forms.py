"""The compiled lexicon: the shipped forms are those of the tables, files are read back, a site adds tables."""

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
    LexiconForms,
    SpellingFilter,
    shipped_forms,
)  # fmt: skip
from medlink.language.lexicon.name_analysis import shared_analyser


@pytest.fixture(scope="module")
def forms() -> LexiconForms:
    return shipped_forms()


def names(forms: LexiconForms, kind: str, language: str, form: str) -> set[str]:
    return {forms.names[one.meaning] for one in forms.find(kind, language, form)}


@pytest.mark.slow
def test_shipped_forms_are_those_of_the_tables(forms: LexiconForms, lexicon: Lexicon) -> None:
    compiled = LexiconForms.compile(lexicon)
    assert (forms.digest, forms.kinds) == (compiled.digest, compiled.kinds), "run: benchmarks/compile_lexicon.py"


def test_members_by_kind(forms: LexiconForms) -> None:
    assert names(forms, WORD, "de", "leber") == names(forms, WORD, "es", "higado") == {"liver"}
    assert "liver" in names(forms, PREFIX, "de", "hepato") & names(forms, STEM, "de", "hepat")
    assert "inflammation" in names(forms, SUFFIX, "de", "entzundung") | names(forms, SUFFIX, "de", "itis")
    assert "myocardial infarction" in names(forms, PHRASE, "en", "heart attack")
    assert forms.find(WORD, "de", "no such word") == ()
    assert forms.goes_on(PHRASE, "en", "heart ")
    assert not forms.goes_on(PHRASE, "en", "gartenzaun ")
    assert forms.is_function_word("de", "der")
    assert not forms.is_function_word("de", "leber")
    # a negation has a meaning
    assert not forms.is_function_word("de", "ohne")


def test_irregular_forms_have_the_meanings_of_their_lemma(forms: LexiconForms) -> None:
    assert names(forms, WORD, "en", "feet") == {"foot"}
    assert names(forms, WORD, "de", "befand") == names(forms, WORD, "de", "befinden")
    # the lemma of "son" is the verb "ser", not the abbreviation of serine
    assert "serine" not in names(forms, WORD, "es", "son")


def test_abbreviations_that_need_no_context(forms: LexiconForms, lexicon: Lexicon) -> None:
    khk = forms.find(WORD, "de", "khk")
    assert all(one.marks & SHORT for one in khk)
    assert {forms.names[one.meaning] for one in khk} == {"coronary heart disease", "coronary artery disease"}
    unsafe = next(one for one in lexicon.expand("PE", "en") if one.long == "pleural effusion")
    assert not unsafe.safe
    assert "pleural effusion" not in {forms.names[one.meaning] for one in forms.find(WORD, "en", "pe")}
    assert names(forms, PHRASE, "de", "covid 19") == {"COVID-19"}


def test_opposites_are_pairs_of_meanings(forms: LexiconForms) -> None:
    left, right = forms.names.index("left (side)"), forms.names.index("right (side)")
    assert {(left, right), (right, left)} & set(forms.opposites)


def test_synonymous_entries_share_a_meaning(lexicon: Lexicon) -> None:
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


@pytest.mark.slow
def test_own_tables(tmp_path: Path, small_lexicon: None) -> None:
    """A site adds words, a language, synonyms, and a family like a shipped term."""
    own = "house attack\t\tHerzanfall {m,pl=Herzanfälle} | Herzattacke {f,pl=Herzattacken}\theart attack\n"
    round_ = "ward round\tgrande visite {f}\tKurvenvisite {f,pl=Kurvenvisiten}\t\n"
    (tmp_path / "families.tsv").write_text(f"family\tfr\tde\ten\n{round_}{own}", encoding="utf-8")
    (tmp_path / "same.tsv").write_text("one\tother\nward round\tliver\n", encoding="utf-8")
    lexicon = Lexicon([tmp_path])
    forms = LexiconForms.compile(lexicon)
    assert names(forms, WORD, "de", "kurvenvisiten") == names(forms, WORD, "de", "leber") == {"liver"}
    assert "fr" in forms.languages
    assert names(forms, PHRASE, "fr", "grande visite") == {"liver"}
    # the term keeps its meaning, and the family behind it has its own
    meanings, listed = lexicon.meanings
    assert listed[-1] == "house attack"
    assert meanings[-1] == len(listed) - 1
    assert "house attack" in names(forms, PHRASE, "en", "heart attack")


def test_saved_and_loaded(forms: LexiconForms, tmp_path: Path) -> None:
    forms.save(tmp_path)
    again = LexiconForms.load(tmp_path)
    assert (again.digest, again.keys, again.kinds) == (forms.digest, forms.keys, forms.kinds)  # of names and opposites
    assert again.find(WORD, "de", "leber") == forms.find(WORD, "de", "leber")


@pytest.mark.slow
@pytest.mark.parametrize("name", [TRIE, MEANINGS])
@pytest.mark.parametrize("content", [None, b"", b"x" * 100])
def test_a_damaged_file_is_one_error(name: str, content: bytes | None, tmp_path: Path) -> None:
    shipped_forms().save(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(EncoderError, match="the word families cannot be read"):
        LexiconForms.load(tmp_path)


_WORDS = st.text(st.sampled_from("abcé1"), min_size=1, max_size=6)


@pytest.mark.slow
@settings(deadline=None)
@given(st.sets(_WORDS, max_size=6), _WORDS)
def test_all_forms_with_one_error_are_found(forms: set[str], word: str) -> None:
    found = forms & set(SpellingFilter(sorted(forms)).candidates(word))
    wanted = {form for form in forms if OSA.distance(form, word) == 1}
    plain = {form for form in wanted if form.isascii() and form.isalpha()}
    assert plain <= found <= wanted
    # any letter behind the half that is as it should be
    assert {form for form in wanted if form.startswith(word[: len(word) // 2])} <= found


def test_few_other_words_are_candidates() -> None:
    misspelt = SpellingFilter(["pneumonie", "niere", "a"])
    assert list(misspelt.candidates("pneumnoie")) == ["pneumonie"]
    assert "leber" in shipped_forms().spelt_like(WORD, "de", "leebr")
    assert not [word for word in ("pnaumanie", "pneumniee", "leber", "nie") for _ in misspelt.candidates(word)]
    assert not list(SpellingFilter([]).candidates("niere"))


@pytest.mark.slow
def test_compositions(forms: LexiconForms, tmp_path: Path) -> None:
    """What a meaning consists of is compiled, stored, kept with further words, and counts in the digest."""
    meaning = forms.names.index("mandibulectomy")
    assert [forms.names[part] for part in forms.compositions[meaning]] == ["excision", "mandible"]
    assert shared_analyser(forms).read("Mandibulektomie", "de").words[0].parts == tuple(
        (part,) for part in forms.compositions[meaning]
    )
    bare = LexiconForms(forms._trie, forms.names, forms.languages, forms.opposites, forms.kinds)
    assert bare.digest != forms.digest
    forms.save(tmp_path)
    assert LexiconForms.load(tmp_path).compositions == forms.with_words(["xyz"]).compositions == forms.compositions
