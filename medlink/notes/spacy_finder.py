"""The entities of any spaCy pipeline as the mentions of notes: another recogniser finds them, medlink links them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medlink.errors import ConfigError
from medlink.reading.protocols import Span

_MAX_LENGTH = 20_000_000  # characters; spaCy's own limit is meant for parsers
_BATCH = 32


class SpacyFinder:
    """Find mentions by the entities of a pipeline: a package that is installed, or a folder; ConfigError for none."""

    def __init__(self, name: str) -> None:
        import spacy

        try:
            self._nlp = spacy.load(name)
        except (OSError, ValueError, ImportError) as error:
            remedy = "install the package of the pipeline, or name its folder"
            raise ConfigError(f"finder is {name!r}, which is no spaCy pipeline", remedy=remedy) from error
        self._nlp.max_length = _MAX_LENGTH

    @property
    def fingerprint(self) -> str:
        """Name and version of the pipeline: links depend on it."""
        meta: dict[str, Any] = self._nlp.meta
        return f"{meta['lang']}_{meta['name']} {meta['version']}"

    def find(self, texts: Sequence[str], language: str) -> list[list[Span]]:
        """The entities of each of n texts, whatever language the pipeline is of."""
        docs = self._nlp.pipe(texts, batch_size=_BATCH)
        return [[(entity.start_char, entity.end_char) for entity in doc.ents] for doc in docs]
