"""The pipeline that the command line runs: a blank one, the mention finder and the linker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.util import compile_infix_regex, compile_prefix_regex

from medlink.errors import ConfigError

_GLUED = r"(?<=[^\W\d])[.,:;/()\-–]+(?=\w)|(?<=\w)[.,:;/()\-–]+(?=[^\W\d])|(?<=[.,:;])(?=[^\W\d])"
_LEADING = r"[\-–•*]"
MAX_LENGTH = 20_000_000
"""Characters of the longest note; spaCy's own limit is meant for parsers, which are not in this pipeline."""


def _tokenizer(nlp: Language) -> Tokenizer:
    """The language's tokeniser, parting glued words too.

    Notes lose blanks behind punctuation ("dose.,ALLERGIES") and put marks before words ("-Nierenzyste"); a mention must
    not take the marks with it.
    """
    tokenizer = nlp.tokenizer
    if not isinstance(tokenizer, Tokenizer):
        raise ConfigError(f"language {nlp.lang!r} has a tokeniser of its own, which medlink does not know")
    tokenizer.infix_finditer = compile_infix_regex([*(nlp.Defaults.infixes or ()), _GLUED]).finditer
    tokenizer.prefix_search = compile_prefix_regex([*(nlp.Defaults.prefixes or ()), _LEADING]).search
    # "pain.nan" is no address
    tokenizer.url_match = None
    return tokenizer


def build_pipeline(bundle: str | Path, language: str, **linker: Any) -> Language:
    """A blank pipeline for ``language`` with ``medlink_mentions`` and ``biolord_linker``.

    Args:
        bundle: folder of the bundle.
        language: ``de``, ``en``, ``es`` or any other language that spaCy has a tokeniser for.
        linker: configuration of ``biolord_linker``; ``semantic_types`` also holds for the mentions.
    """
    nlp = spacy.blank(language)
    nlp.max_length = MAX_LENGTH
    nlp.tokenizer = _tokenizer(nlp)
    mentions = {"bundle": str(bundle), "semantic_types": list(linker.get("semantic_types", ()))}
    nlp.add_pipe("medlink_mentions", config=mentions)
    nlp.add_pipe("biolord_linker", config={"bundle": str(bundle), **linker})
    return nlp
