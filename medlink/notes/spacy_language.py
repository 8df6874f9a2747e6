"""spaCy's blank pipeline of a language, for DocBin files and for medlink's spaCy components."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex, get_lang_class

from medlink.errors import ConfigError

# Punctuation and symbols of all scripts up to kana, and the private characters that word processors use for bullets.
# spaCy handles a final dot, because it knows abbreviations, and an apostrophe, which may be part of a word ("Crohn's").
_MARKS = [c for c in map(chr, range(0x3100)) if unicodedata.category(c)[0] in "PS" and c not in ".'’‘"]
_MARK = f"[\ue000-\uf8ff{re.escape(''.join(_MARKS))}]"
# beside another mark an apostrophe is not part of a word
_RUN = rf"['’‘]*(?:(?:{_MARK}|\.)['’‘]*)+"
_GLUED = rf"(?<=[^\W\d]){_RUN}(?=\w)|(?<=\w){_RUN}(?=[^\W\d])|(?<=[.,:;])(?=[^\W\d])"


def _check_tokenizer(language: str) -> None:
    try:
        kind = get_lang_class(language)
    except ImportError as error:
        message = f"spaCy has no tokeniser for the language {language!r}"
        raise ConfigError(message, remedy="give a BCP 47 tag such as de, en or es") from error
    if kind.default_config["nlp"]["tokenizer"]["@tokenizers"] != "spacy.Tokenizer.v1":
        message = f"the language {language!r} has a special tokeniser, which medlink does not support"
        raise ConfigError(message, remedy="add medlink's components to a spaCy pipeline of that language")


def blank(language: str) -> Language:
    """Return spaCy's blank pipeline of a language, whose tokeniser also splits glued words.

    Notes omit blanks after punctuation ("dose.,ALLERGIES"), put marks before words ("-Nierenzyste"), and contain
    tables, markup and signs ("Fieber|Husten", "<b>Fieber</b>", "Fieber+", "Fieber(-)"). A mention must not include the
    marks.
    """
    _check_tokenizer(language)
    nlp = spacy.blank(language)
    tokenizer: Any = nlp.tokenizer
    nlp.tokenizer = Tokenizer(
        nlp.vocab,
        # a new tokeniser: setting a pattern on the old one rebuilds thousands of exceptions each time
        rules=tokenizer.rules,
        infix_finditer=compile_infix_regex([*(nlp.Defaults.infixes or ()), _GLUED]).finditer,
        prefix_search=compile_prefix_regex([*(nlp.Defaults.prefixes or ()), _MARK]).search,
        suffix_search=compile_suffix_regex([*(nlp.Defaults.suffixes or ()), _MARK]).search,
        token_match=tokenizer.token_match,
        # "pain.nan" is not a URL
        url_match=None,
    )
    return nlp
