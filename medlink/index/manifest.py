"""What the manifest of a bundle says beside its parts."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from medlink.files import parts
from medlink.files.parts import Checked
from medlink.kb import KnowledgeBase


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


class BundleManifest(parts.Manifest):
    """The manifest of a bundle: its parts, and what binds them."""

    medlink: str
    kb: _KnowledgeBase
    encoder: _Encoder
    calibration: dict[str, Any]


def facts(kb: KnowledgeBase) -> dict[str, Any]:
    """What the manifest says of a knowledge base."""
    return {
        "schema_version": kb.schema_version,
        "content_hash": kb.content_hash,
        "sources": [{"name": source.name, "version": source.version} for source in kb.sources()],
    }
