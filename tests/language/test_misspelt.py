"""What a word may be with one typing error: all that it may be, and little else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from medlink.language.lexicon.misspelt import Misspelt

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
