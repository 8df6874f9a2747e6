"""Build a blank pipeline with both components."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spacy.language import Language

from medlink.notes.pipeline import MAX_LENGTH
from medlink.notes.spacy_language import blank


def build_pipeline(bundle: str | Path, language: str, **linker: Any) -> Language:
    """Build a blank pipeline for a language with a spaCy tokeniser, with ``medlink_mentions`` and ``biolord_linker``.

    ``linker`` configures ``biolord_linker``; its ``semantic_types`` also apply to the mentions.
    """
    nlp = blank(language)
    nlp.max_length = MAX_LENGTH  # spaCy's own limit is meant for parsers
    mentions = {"bundle": str(bundle), "semantic_types": list(linker.get("semantic_types", ()))}
    nlp.add_pipe("medlink_mentions", config=mentions)
    nlp.add_pipe("biolord_linker", config={"bundle": str(bundle), **linker})
    return nlp
