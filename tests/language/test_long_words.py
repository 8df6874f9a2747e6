"""A word of thousands of letters, such as an encoded file in a note, costs no more than its length."""

from __future__ import annotations

import time

from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.reading import FamilyReader


def test_time_grows_with_the_length() -> None:
    reader = FamilyReader(shipped_forms())
    reader.read("x" * 400, "de")
    seconds = []
    for length in (20_000, 200_000):
        start = time.process_time()
        (word,) = reader.read("x" * length, "de").words
        seconds.append(time.process_time() - start)
        assert not word.known
    assert seconds[1] < 100 * max(seconds[0], 0.01)
