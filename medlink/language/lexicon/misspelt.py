"""What a misspelt word may be: the few errors of it that are worth a search in a lexicon.

Of two words with one letter more, less or another, one is the other without a letter, or both are one word where each
lacks the letter at the same place (Garbe 2012, SymSpell). All forms, whole and without each of their letters, are
marked with the place of that letter in a Bloom filter (Bloom 1970) of two hash functions. It takes 2 MB, and is made in
less than 0.1 s for 50,000 forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from string import ascii_lowercase

import numpy as np

_PRIME, _PLACE, _MIX = 0x9E3779B97F4A7C15, 0x94D049BB133111EB, 0xBF58476D1CE4E5B9
_64 = (1 << 64) - 1
_BITS = 24
_MASK = (1 << _BITS) - 1
_FIRST, _SECOND = 64 - _BITS, 64 - 2 * _BITS


class Misspelt:
    """Tells what a word may be that differs from a form by one typing error.

    >>> misspelt = Misspelt(["pneumonie", "niere"])
    >>> [list(misspelt.candidates(word)) for word in ("pneumnoie", "iere", "leber")][::2]
    [['pneumonie'], []]
    """

    def __init__(self, forms: Sequence[str]) -> None:
        joined = "\n".join(forms)
        self._letters = "".join(sorted({*joined, *ascii_lowercase} - {"\n"}))
        marked = np.zeros(1 << _BITS, dtype=bool)
        prime, mix, mask = np.uint64(_PRIME), np.uint64(_MIX), np.uint64(_MASK)
        lines = sorted(filter(None, joined.encode("ascii", "replace").split(b"\n")), key=len)
        for length, alike in groupby(lines, key=len):
            letters = np.frombuffer(b"".join(alike), np.uint8).reshape(-1, length).T.astype(np.uint64)
            powers = np.cumprod(np.full(length + 1, prime))
            # hashes[0]: of the whole word, hashes[i + 1]: of the letters behind letter i, in the end of all but that
            hashes = np.zeros((length + 1, letters.shape[1]), np.uint64)
            for at in range(length - 1, -1, -1):
                hashes[at] = hashes[at + 1] + letters[at] * powers[length - 1 - at]
            before = np.zeros(letters.shape[1], np.uint64)
            for at in range(length):
                hashes[at + 1] += before
                before += letters[at] * powers[length - 2 - at]
            hashes += np.arange(length + 1, dtype=np.uint64)[:, None] * np.uint64(_PLACE)
            hashes *= mix
            # as signed numbers they are places without a copy
            marked[(hashes >> np.uint64(_FIRST)).view(np.int64)] = True
            marked[((hashes >> np.uint64(_SECOND)) & mask).view(np.int64)] = True
        self._bits = np.packbits(marked, bitorder="little").tobytes()

    def candidates(self, word: str) -> Iterator[str]:
        """All forms that differ from a word by a letter more, less or another, or by two changed, and few other words.

        Of the letters that no word of the alphabet has, those in the first half of the form are not looked for.
        """
        letters, length, half = word.encode("ascii", "replace"), len(word), len(word) // 2
        powers, behind = [_PRIME], [0]
        for letter in reversed(letters):
            behind.append(behind[-1] + letter * powers[-1])
            powers.append(powers[-1] * _PRIME & _64)
        whole, before = behind[length], 0
        for at in range(length + 1):
            head, tail = word[:at], word[at:]
            others = ascii_lowercase if at < half else self._letters
            if self._is_marked(whole, at + 1):
                yield from (f"{head}{other}{tail}" for other in others)
            if at == length:
                return
            without, tail, letter = before + behind[length - 1 - at], tail[1:], letters[at]
            if self._is_marked(without, 0):
                yield head + tail
            if self._is_marked(without, at + 1):
                yield from (f"{head}{other}{tail}" for other in others if other != word[at])
            if tail and tail[0] != word[at]:
                moved = (letters[at + 1] - letter) * (powers[length - 1 - at] - powers[length - 2 - at])
                if self._is_marked(whole + moved, 0):
                    yield f"{head}{tail[0]}{word[at]}{tail[1:]}"
            before += letter * powers[length - 2 - at]

    def _is_marked(self, value: int, place: int) -> bool:
        mixed = (value + place * _PLACE) * _MIX & _64
        first, second = mixed >> _FIRST, mixed >> _SECOND & _MASK
        bits = self._bits
        return bool(bits[first >> 3] >> (first & 7) & 1 and bits[second >> 3] >> (second & 7) & 1)
