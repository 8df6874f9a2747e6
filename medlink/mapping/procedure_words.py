"""Compare names of procedures by their acts, sites and approaches: *Puncture of ovarian cyst* is *Aspiration of ovarian
cyst*, and *Urethrectomy* is *Urethra excision*.

A name is a set of words: synonyms of an act or a site count as one word, the order and words such as *of* do not count.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows
from medlink.language.text import normalise
from medlink.mapping.operations import act_and_site, act_endings, site_words

_LEAST = 5  # letters of a plural
_PASSES = 2  # a synonym may contain another one
_STOMY, _MAKING = "stomy", {"construction"}  # a colostomy is the construction of one
_DIPHTHONG = re.compile(r"[ao]e")  # caecostomy, oesophagus


class _Table(NamedTuple):
    canonical: dict[str, str]  # by synonym
    synonyms: re.Pattern[str]
    acts: frozenset[str]
    act: re.Pattern[str]  # of any form
    together: list[tuple[str, frozenset[str]]]  # word, and the words that it stands for
    approach: frozenset[str]
    idle: re.Pattern[str]  # several words
    idle_words: frozenset[str]
    grouped: frozenset[str]  # words that stay as they are


@lru_cache(1 << 15)
def procedure_words(norm: str) -> frozenset[str]:
    """Return the words of the exact form of a procedure; none if it names no act.

    >>> sorted(procedure_words("urethra excision")), procedure_words("kidney")
    (['excision', 'urethra'], frozenset())
    >>> procedure_words("total oophorectomy") == procedure_words("complete removal of the ovary")
    True
    """
    table = _table()
    if table.act.search(norm) is None:
        return frozenset()
    text = " ".join(map(_in_full, table.idle.sub(" ", norm).split()))
    for _ in range(_PASSES):
        text = table.synonyms.sub(lambda match: table.canonical[match[0]], text)
        text = " ".join(word for word in text.split() if word not in table.idle_words)
    words = set(text.split())
    for canonical, group in table.together:
        if group <= words:
            words = (words - group) | {canonical}
    opens = any(word.endswith(_STOMY) for word in words)
    return frozenset(words - _MAKING if opens else words) if opens or words & table.acts else frozenset()


def words_without_approach(norm: str) -> frozenset[str]:
    """Return the words of a procedure without its approach and technique.

    >>> words_without_approach("laparoscopic suture of colon") == procedure_words("suture of colon")
    True
    """
    words = procedure_words(norm) - _table().approach
    return words if words & _table().acts else frozenset()


def have_other_sites(own: frozenset[str], its: frozenset[str]) -> bool:
    """Return whether two procedures, as :func:`procedure_words` returns them, are acts on different sites.

    >>> have_other_sites(procedure_words("urethrectomy"), procedure_words("ureterectomy"))
    True
    >>> have_other_sites(procedure_words("excision of rib"), procedure_words("excision of the bony cage"))
    False
    """
    of_own, of_its = own - _table().acts, its - _table().acts
    return bool(of_own and of_its) and of_own.isdisjoint(of_its) and of_own | of_its <= site_words()


def lacks_approach(description: str, name: str) -> bool:
    """Return whether a name is that of the described procedure without its approach.

    >>> lacks_approach("Laparoscopic suture of colon", "Suture of colon"), lacks_approach("Suture", "Suture")
    (True, False)
    """
    own, its = normalise(description), procedure_words(normalise(name))
    return bool(its) and its == words_without_approach(own) != procedure_words(own)


def _in_full(word: str) -> str:
    """Return the act and site of a Greek compound, unless the table has it as a word."""
    plain = _singular(_DIPHTHONG.sub("e", word))
    return plain if plain in _table().grouped else act_and_site(plain)


def _singular(word: str) -> str:
    if len(word) < _LEAST:
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@cache
def _table() -> _Table:
    table = list(rows(RESOURCES / "mapping" / "procedure_words.tsv", "kind", "canonical", "words", "source"))
    by_kind = {
        kind: [row for row in table if row["kind"] == kind] for kind in ("act", "equal", "together", "approach", "idle")
    }
    (approach,), (idle,) = ([row["words"].split("|") for row in by_kind[kind]] for kind in ("approach", "idle"))
    acts, together = by_kind["act"], by_kind["together"]
    canonical = {word: row["canonical"] for row in (*acts, *by_kind["equal"]) for word in row["words"].split("|")}
    groups = [(row["canonical"], frozenset(words.split())) for row in together for words in row["words"].split("|")]
    act_words = [word for row in (*acts, *together) for word in (row["canonical"], *row["words"].split("|"))]
    return _Table(
        canonical, _either(list(canonical)), frozenset(row["canonical"] for row in (*acts, *together)),
        re.compile(rf"{_either(act_words).pattern}|(?:{'|'.join(act_endings())}|{_STOMY})\b"), groups,
        frozenset(approach), _either([words for words in idle if " " in words]), frozenset(idle),
        frozenset(word for _, group in groups for word in group),
    )  # fmt: skip


def _either(words: list[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, words), key=len, reverse=True))})\b")
