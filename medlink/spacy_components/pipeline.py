"""The pipeline that the command line runs: a blank one, the mention finder and the linker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.util import compile_infix_regex, compile_prefix_regex

_GLUED = r"(?<=\w)[.,:;/()\-–]+(?=[^\W\d])|(?<=[.,:;])(?=[^\W\d])"
MAX_LENGTH = 20_000_000
"""Characters of the longest note; spaCy's own limit is meant for parsers, which are not in this pipeline."""


def build_pipeline(bundle: str | Path, language: str, **linker: Any) -> Language:
    """A blank pipeline for ``language`` with ``medlink_mentions`` and ``biolord_linker``.

    Args:
        bundle: folder of the bundle.
        language: ``de``, ``en``, ``es`` or any other language that spaCy has a tokeniser for.
        linker: configuration of ``biolord_linker``; ``semantic_types`` also holds for the mentions.
    """
    nlp = spacy.blank(language)
    # Notes lose blanks behind punctuation ("dose.,ALLERGIES"); a mention must not take the marks with it.
    infixes = compile_infix_regex([*nlp.Defaults.infixes, _GLUED])
    nlp.tokenizer.infix_finditer = infixes.finditer
    nlp.tokenizer.prefix_search = compile_prefix_regex([*nlp.Defaults.prefixes, r"[\-–•*]"]).search
    nlp.max_length = MAX_LENGTH
    mentions = {"bundle": str(bundle), "semantic_types": list(linker.get("semantic_types", ()))}
    nlp.add_pipe("medlink_mentions", config=mentions)
    nlp.add_pipe("biolord_linker", config={"bundle": str(bundle), **linker})
    return nlp
