"""The factories that spaCy's entry points name.

spaCy imports this module whenever it looks a factory up, in every program of its users: it must stay free of torch,
Faiss and SQLAlchemy. The components are imported when one is made.
"""

# No 'from __future__ import annotations' here: spaCy checks a configuration against the real types of these signatures.
from typing import TYPE_CHECKING

from spacy.language import Language

if TYPE_CHECKING:
    from medlink.spacy_components.linker import BiolordLinker
    from medlink.spacy_components.mentions import MentionFinder

SPANS_KEY = "medlink"
"""Span group that ``medlink_mentions`` writes and ``biolord_linker`` reads."""


@Language.factory(
    "medlink_mentions",
    assigns=["doc.ents", "doc.spans"],
    default_config={
        "bundle": None,
        "language": None,
        "other_languages": True,
        "semantic_types": [],
        "abbreviations": True,
        "spans_key": SPANS_KEY,
    },
)
def make_mention_finder(
    nlp: Language,
    name: str,
    bundle: str | None,
    language: str | None,
    other_languages: bool,
    semantic_types: list[str],
    abbreviations: bool,
    spans_key: str,
) -> "MentionFinder":
    """Make ``medlink_mentions``."""
    from medlink.spacy_components.mentions import MentionFinder

    return MentionFinder(
        nlp.vocab,
        name,
        bundle=bundle,
        language=language,
        other_languages=other_languages,
        semantic_types=semantic_types,
        abbreviations=abbreviations,
        spans_key=spans_key,
    )


@Language.factory(
    "biolord_linker",
    requires=["doc.ents"],
    assigns=["doc.ents", "doc.spans", "span._.kb_ents", "span._.medlink"],
    default_config={
        "bundle": None,
        "k": 5,
        "threshold": 0.5,
        "language": None,
        "languages": [],
        "sources": [],
        "semantic_types": [],
        "abbreviations": True,
        "spans_key": None,
    },
)
def make_linker(
    nlp: Language,
    name: str,
    bundle: str | None,
    k: int,
    threshold: float,
    language: str | None,
    languages: list[str],
    sources: list[str],
    semantic_types: list[str],
    abbreviations: bool,
    spans_key: str | None,
) -> "BiolordLinker":
    """Make ``biolord_linker``."""
    from medlink.spacy_components.linker import BiolordLinker

    return BiolordLinker(
        nlp.vocab,
        name,
        bundle=bundle,
        k=k,
        threshold=threshold,
        language=language,
        languages=languages,
        sources=sources,
        semantic_types=semantic_types,
        abbreviations=abbreviations,
        spans_key=spans_key,
    )
