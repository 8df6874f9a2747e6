"""QuickUMLS with its own settings: Jaccard similarity .7 by letters, up to five words, best matches by score (MIT).

Its files are made by its own installer from all names, in lower case (``--lowercase``), with one semantic type for all.
It wants NLTK's stop words and spaCy's small models, which it would download: stop words are those of spaCy, models
those that Python packages hold. German has none, so that no part of speech is known there.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import nltk
import spacy
from protocol import Find, Name, serve
from quickumls import QuickUMLS
from quickumls.install import parse_and_encode_ngrams
from spacy_models import load_model

_TYPE = "T047"  # one that it takes by default
_LANGUAGES = {"de": "GER", "en": "ENG", "es": "SPA"}


def build(names: list[Name], folder: Path) -> None:
    """Write the files of a QuickUMLS installation."""
    met, rows = set[str](), {}
    for name in names:
        key = name["name"].lower(), name["concept_id"]
        rows.setdefault(key, int(name["concept_id"] not in met))
        met.add(name["concept_id"])
    terms = ((text, concept, [_TYPE], preferred) for (text, concept), preferred in rows.items())
    parse_and_encode_ngrams(terms, str(folder / "umls-simstring.db"), str(folder / "cui-semtypes.db"), "unqlite")
    (folder / "database_backend.flag").write_text("unqlite")
    (folder / "lowercase.flag").write_text("")


def opened(folder: Path, language: str) -> Find:
    """Open a QuickUMLS installation for texts of a language."""
    (folder / "language.flag").write_text(_LANGUAGES[language])
    stop_words = spacy.blank(language).Defaults.stop_words
    nltk.corpus.stopwords = SimpleNamespace(words=lambda *_: stop_words)
    spacy.load = lambda _: load_model(language)
    matcher = QuickUMLS(str(folder))

    def find(text: str) -> list[tuple[int, int, str, float]]:
        best = (match[0] for match in matcher.match(text))
        return [(one["start"], one["end"], one["cui"], float(one["similarity"])) for one in best]

    return find


if __name__ == "__main__":
    serve(f"QuickUMLS {version('quickumls')}", build, opened)
