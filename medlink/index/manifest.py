"""What the manifest of a bundle says beside its parts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import Field

from medlink.bundles import parts
from medlink.bundles.parts import Checked
from medlink.kb import KnowledgeBase
from medlink.language.lexicon.tables import read_folder

_SHOWN = 20  # words of a house that the manifest names


class _Source(Checked):
    name: str
    version: str


class _KnowledgeBase(Checked):
    schema_version: int
    content_hash: str
    sources: list[_Source]
    marks: dict[str, int] = Field(default_factory=dict)


class _Encoder(Checked):
    fingerprint: str
    dimension: int


class _OwnWords(Checked):
    folder: str
    rows: int
    words: list[str]


class _Doubted(Checked):
    concept_id: str
    language: str
    name: str
    says: str


class BundleManifest(parts.Manifest):
    """The manifest of a bundle: its parts, what binds them, and which names of its terminologies are not looked up."""

    medlink: str
    kb: _KnowledgeBase
    encoder: _Encoder
    calibration: dict[str, Any]
    lexicon: list[_OwnWords] = Field(default_factory=list)
    doubted: list[_Doubted] = Field(default_factory=list)


def own_words(folders: Iterable[str | Path]) -> list[dict[str, Any]]:
    """What the manifest says of the folders of a house with words of its own: their rows, and the first words."""
    told = []
    for folder in map(Path, folders):
        rows = read_folder(folder)
        members = chain.from_iterable(entry.members for entry in rows.entries)
        forms = chain((one.form for one in members), (form for one in rows.abbreviations for form in one.forms))
        words = list(islice(dict.fromkeys(forms), _SHOWN))
        told.append(
            {
                "folder": folder.resolve().name,
                "rows": rows.count,
                "words": words,
            }
        )
    return told


def facts(kb: KnowledgeBase) -> dict[str, Any]:
    """What the manifest says of a knowledge base."""
    return {
        "schema_version": kb.schema_version,
        "content_hash": kb.content_hash,
        "sources": [{"name": source.name, "version": source.version} for source in kb.sources()],
    }
