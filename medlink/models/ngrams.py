"""Hashed character n-grams of many strings at once, the features of the static encoder.

The n-grams are those of fastText (Bojanowski et al. 2017, section 3.2): each word gets a blank on each side, and every
run of ``sizes`` characters of the result is an n-gram; the whole word is a further feature. All strings form one array
of code points, so a hundred thousand names take about a second on one core.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.language.exact import markers, normalise_all

_PRIME = np.uint64(0x9E3779B97F4A7C15)  # odd, so it has an inverse modulo 2**64
_INVERSE = np.uint64(pow(int(_PRIME), -1, 1 << 64))
_WORD_SALT = 0x51
_MARKER_SALT, _MEANING_SALT, _UNKNOWN_SALT = 0x3A << 32, 0x4B << 32, 0x5C << 32  # above the 32 bits of a checksum
_BLANK, _END = 32, 10


class Bags(NamedTuple):
    """Hashes (uint64) or table rows (int64) of n strings: string i has ``values[offsets[i]:offsets[i + 1]]``."""

    offsets: NDArray[np.int64]
    values: NDArray[Any]


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele et al. 2014): every input bit reaches every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hash_ngrams(
    texts: Sequence[str], sizes: tuple[int, ...] = (3, 4, 5), *, words: bool = True, max_chars: int = 256
) -> Bags:
    """Hash the n-grams of every text, normalised (:func:`medlink.language.text.normalise`) and cut to ``max_chars``.

    ``sizes`` include the blanks at the ends of words.
    """
    return hash_forms([form[:max_chars] for form in normalise_all(texts)], sizes, words=words)


def hash_forms(forms: Sequence[str], sizes: tuple[int, ...], *, words: bool) -> Bags:
    """Hash the n-grams of exact forms, as :func:`hash_ngrams` does."""
    joined = "\n".join([" " + form.strip() + " " for form in forms]) + "\n"
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    ends = codes == _END
    row_of = np.cumsum(ends) - ends  # the text that each character belongs to
    blank = codes == _BLANK
    rows: list[NDArray[np.int64]] = []
    hashes: list[NDArray[np.uint64]] = []
    for size in sizes:
        count = len(codes) - size + 1
        if count <= 0:
            continue
        valid = ~ends[:count]
        hashed = np.full(count, size, dtype=np.uint64)
        for offset in range(size):
            part = slice(offset, offset + count)
            hashed = hashed * _PRIME + codes[part]
            valid &= ~ends[part]
            if 0 < offset < size - 1:
                valid &= ~blank[part]
        # an n-gram of blanks only is not part of a word
        if size in (1, 2):
            valid &= ~(blank[:count] & blank[size - 1 :])
        rows.append(row_of[:count][valid])
        hashes.append(_mix(hashed[valid]))
    if words:
        letters = ~(blank | ends)
        starts = np.flatnonzero(letters[1:] & ~letters[:-1]) + 1
        stops = np.flatnonzero(letters[:-1] & ~letters[1:]) + 1
        # one hash per word: the sum of code * prime**position, times the inverse power of its position
        powers = np.cumprod(np.full(len(codes), _PRIME, dtype=np.uint64))
        inverse = np.cumprod(np.full(len(codes), _INVERSE, dtype=np.uint64))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * powers, dtype=np.uint64)])
        hashed = (sums[stops] - sums[starts]) * inverse[starts] + np.uint64(_WORD_SALT)
        rows.append(row_of[starts])
        hashes.append(_mix(hashed))
    row = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    order = np.argsort(row, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(forms)))])
    return Bags(offsets, (np.concatenate(hashes) if hashes else np.zeros(0, np.uint64))[order])


def buckets(hashes: NDArray[np.uint64], size: int, probe: int = 0) -> NDArray[np.int64]:
    """Compute the row of each hash in a table of ``size`` rows; each ``probe`` is an independent hash function."""
    salted = hashes if probe == 0 else _mix(hashes ^ np.uint64(int(_PRIME) * probe % (1 << 64)))
    return (salted % np.uint64(size)).astype(np.int64)


def hash_markers(texts: Sequence[str], max_chars: int = 256) -> Bags:
    """Hash the markers (:func:`medlink.language.exact.markers`) of every text, normalised and cut to ``max_chars``."""
    codes = [marker_codes(form[:max_chars]) for form in normalise_all(texts)]
    flat = np.array([code for of_text in codes for code in of_text], np.int64)
    return Bags(np.cumsum([0, *map(len, codes)]), hash_codes(flat))


def marker_codes(form: str) -> list[int]:
    """Return the codes of the markers of an exact form, for :func:`hash_codes`."""
    return [zlib.crc32(marker.encode()) + _MARKER_SALT for marker in markers(form)]


def meaning_code(meaning: int | str) -> int:
    """Return the code, for :func:`hash_codes`, of a meaning given by its key
    (:attr:`medlink.language.lexicon.forms.LexiconForms.keys`), or of an unknown word."""
    return _MEANING_SALT + meaning if isinstance(meaning, int) else _UNKNOWN_SALT + zlib.crc32(meaning.encode())


def hash_codes(codes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash the codes ``(n,)`` of :func:`meaning_code` and :func:`marker_codes`."""
    return _mix(codes.astype(np.uint64))


# a word or more for each rule of normalisation (case, accents, ß, Greek, hyphens, apostrophes, possessives, decimal
# marks, plus signs, full-width and invisible letters) and of markers (digits, zeros, letters beside digits, roman
# numerals, stages, single letters among words and at the end)
_PROBES = (
    "Crohn’s disease, Graves' Disease",
    "α-Thalassämie; Gefäßverschluß 1,25-Dihydroxy 3.5 mg",
    "CD4+ T-Zellen + HER2+ über_all",
    "Ｓíndrome de Sjo\u0308gren, ni\u00ado 3′ pequeña",
    "Xc2\ufb01brosis chmp2b 4q26 b12 2c 0070 i123i 0",
    "i ii iii iv v vi vii viii ix x xi xiv xix xx xxi iia iib iic iid ivc vic via Iib",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "hepatitis a b",
    "vitamin a e o u y s t",
    "el dolor a la presion y e o u",
    "hepatitis a",
)


@cache
def rules_digest() -> str:
    """Hash the features of probe texts for the fingerprint of an encoder, which is useless under other rules."""
    ngrams, markers = hash_ngrams(_PROBES, (2, 3, 5)), hash_markers(_PROBES)
    rows = [buckets(np.append(ngrams.values, markers.values), 1_000_003, probe) for probe in range(3)]
    digest = hashlib.sha256()
    for array in (*ngrams, *markers, *rows):
        digest.update(np.ascontiguousarray(array, dtype="<u8").tobytes())
    return digest.hexdigest()[:32]
