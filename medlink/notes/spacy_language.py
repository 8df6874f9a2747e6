"""spaCy's blank pipeline of a language, for documents that medlink writes and for its spaCy components."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex, get_lang_class

from medlink.errors import ConfigError

# Punctuation and symbols of every script up to kana, and what word processors write for a bullet. A dot at an end is
# for spaCy, which knows abbreviations, and so is an apostrophe, which may be of a word ("Crohn's").
_MARKS = [c for c in map(chr, range(0x3100)) if unicodedata.category(c)[0] in "PS" and c not in ".'’‘"]
_MARK = f"[\ue000-\uf8ff{re.escape(''.join(_MARKS))}]"
# beside another mark an apostrophe is of no word
_RUN = rf"['’‘]*(?:(?:{_MARK}|\.)['’‘]*)+"
_GLUED = rf"(?<=[^\W\d]){_RUN}(?=\w)|(?<=\w){_RUN}(?=[^\W\d])|(?<=[.,:;])(?=[^\W\d])"


def _check_tokenizer(language: str) -> None:
    try:
        kind = get_lang_class(language)
    except ImportError as error:
        message = f"spaCy has no tokeniser for the language {language!r}"
        raise ConfigError(message, remedy="give a BCP 47 tag such as de, en or es") from error
    if kind.default_config["nlp"]["tokenizer"]["@tokenizers"] != "spacy.Tokenizer.v1":
        message = f"the language {language!r} has a tokeniser of its own, which medlink does not know"
        raise ConfigError(message, remedy="add medlink's components to a spaCy pipeline of that language")


def blank(language: str) -> Language:
    """spaCy's blank pipeline of a language, with its tokeniser parting glued words too.

    Notes lose blanks behind punctuation ("dose.,ALLERGIES"), put marks before words ("-Nierenzyste"), and have tables
    and markup in them ("Fieber|Husten", "<b>Fieber</b>") and signs ("Fieber+", "Fieber(-)"); a mention must not
    take the marks with it.
    """
    _check_tokenizer(language)
    nlp = spacy.blank(language)
    tokenizer: Any = nlp.tokenizer
    nlp.tokenizer = Tokenizer(
        nlp.vocab,
        # made anew: every pattern that is set on a tokeniser has it read thousands of exceptions again
        rules=tokenizer.rules,
        infix_finditer=compile_infix_regex([*(nlp.Defaults.infixes or ()), _GLUED]).finditer,
        prefix_search=compile_prefix_regex([*(nlp.Defaults.prefixes or ()), _MARK]).search,
        suffix_search=compile_suffix_regex([*(nlp.Defaults.suffixes or ()), _MARK]).search,
        token_match=tokenizer.token_match,
        # "pain.nan" is no address
        url_match=None,
    )
    return nlp
