"""TF-IDF over noun chunks in the manner of scispaCy: its candidate generator with its own settings (Apache 2.0).

The noun chunks of a small spaCy model are linked, without stop words at their ends, each to the nearest name with a
similarity of .7 or more: the threshold of scispaCy's linker. What it demands of concepts without a definition is left
out, as the dictionary has names alone. German has no model here: its candidates are one to five words without stop
words at the ends, of which the most similar ones that do not overlap are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from protocol import Find, Name, serve
from scispacy_index import build_index, open_index
from spacy_models import MODELS, load_model

_THRESHOLD = 0.7
_NEIGHBOURS = 30
_WORDS = 5


def _is_outside(token: Any) -> bool:
    return token.is_stop or token.is_punct or token.is_space


def _chunks(doc: Any) -> Iterator[Any]:
    """Noun chunks without stop words at the ends."""
    for chunk in doc.noun_chunks:
        start, end = chunk.start, chunk.end
        while start < end and _is_outside(doc[start]):
            start += 1
        while start < end and _is_outside(doc[end - 1]):
            end -= 1
        if start < end:
            yield doc[start:end]


def _runs(doc: Any) -> Iterator[Any]:
    """Up to five words in a row, without stop words at the ends and without marks between."""
    for start, token in enumerate(doc):
        if _is_outside(token):
            continue
        for end in range(start + 1, min(start + _WORDS, len(doc)) + 1):
            if doc[end - 1].is_punct or doc[end - 1].is_space:
                break
            if not doc[end - 1].is_stop:
                yield doc[start:end]


def _apart(found: list[tuple[int, int, str, float]]) -> list[tuple[int, int, str, float]]:
    """The most similar ones, of equals the longest, without overlap."""
    taken: list[tuple[int, int, str, float]] = []
    for one in sorted(found, key=lambda one: (-one[3], one[0] - one[1])):
        if all(one[1] <= other[0] or other[1] <= one[0] for other in taken):
            taken.append(one)
    return taken


def build(names: list[Name], folder: Path) -> None:
    """Build scispaCy's index."""
    build_index(((name["concept_id"], name["name"]) for name in names), folder)


def opened(folder: Path, language: str) -> Find:
    """Open scispaCy's index and the model of a language."""
    generator, nlp, has_model = open_index(folder), load_model(language, exclude=["ner"]), language in MODELS

    def find(text: str) -> list[tuple[int, int, str, float]]:
        spans = list((_chunks if has_model else _runs)(nlp(text)))
        found = []
        for span, candidates in zip(spans, generator([span.text for span in spans], _NEIGHBOURS), strict=True):
            ranked = [(max(one.similarities), one.concept_id) for one in candidates]
            score, concept = max(ranked, default=(0.0, ""))
            if score >= _THRESHOLD:
                found.append((span.start_char, span.end_char, concept, float(score)))
        return found if has_model else _apart(found)

    return find


if __name__ == "__main__":
    serve(f"TF-IDF over noun chunks (scispaCy {version('scispacy')})", build, opened)
