"""An opened bundle: knowledge base, index and encoder, in one folder of parts.

``manifest.json`` names the parts and binds them by content hash and fingerprint (:mod:`medlink.bundles.parts`). A
knowledge base beside the parts is pending: the next build makes it a part.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import Field

from medlink import __version__
from medlink.bundles import parts
from medlink.bundles.parts import BundleSnapshot, Raw, StrictModel
from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import BundleError, MedlinkError
from medlink.index.concept_index import ConceptIndex
from medlink.kb import KnowledgeBase
from medlink.models import Encoder, load_encoder

logger = logging.getLogger("medlink")


class _Source(StrictModel):
    name: str
    version: str


class _KnowledgeBase(StrictModel):
    schema_version: int
    content_hash: str
    sources: list[_Source]
    marks: dict[str, int] = Field(default_factory=dict)


class _Encoder(StrictModel):
    fingerprint: str
    dimension: int


class _LexiconFolder(StrictModel):
    folder: str
    rows: int
    words: list[str]


class _SuspectName(StrictModel):
    concept_id: str
    language: str
    name: str
    says: str


class BundleManifest(parts.Manifest):
    """The manifest of a bundle: its parts, their hashes, and the names left out of the index (``doubted``)."""

    medlink: str
    kb: _KnowledgeBase
    encoder: _Encoder
    calibration: dict[str, Any]
    lexicon: list[_LexiconFolder] = Field(default_factory=list)
    doubted: list[_SuspectName] = Field(default_factory=list)


class Bundle:
    """An opened bundle: memory-mapped and read-only.

    Logs a pending knowledge base in the folder. The opened parts stay on the disk as long as this object lives, even if
    another process writes the bundle. A pickled bundle opens the same parts.

    Raises:
        BundleError: a part is missing or damaged, or does not belong to the others; the message names it.
    """

    def __init__(self, folder: str | Path) -> None:
        # absolute: the encoder is opened later, perhaps from another working folder
        self._open(BundleSnapshot(Path(folder).absolute(), BundleManifest))
        if sentence := describe_pending_kb(Path(folder), self.manifest):
            logger.warning(sentence)

    def _open(self, state: BundleSnapshot) -> None:
        self._state, self.folder, self.manifest = state, state.folder, state.manifest
        added = state.part("added") if "added" in self.manifest["parts"] else None
        for kind in self.manifest["parts"].keys() - {"encoder"}:
            state.check(kind)
        self.kb = KnowledgeBase(state.part("kb") / KB_FILE)
        self.kb.bundle = state
        same_kb = self.kb.content_hash == self.manifest["kb"]["content_hash"]
        self._check(same_kb, "kb", "the knowledge base is not the one the index was built from")
        self.index = ConceptIndex(state.part("index"), added)
        same_encoder = self.index.manifest["encoder"] == self.manifest["encoder"]["fingerprint"]
        self._check(same_encoder, "index", "the index was built with another encoder than the manifest names")

    def _check(self, is_right: bool, kind: str, message: str) -> None:
        if not is_right:
            raise BundleError(message, path=self._state.part(kind), remedy=parts.rebuild_remedy(self.folder))

    def __reduce__(self) -> tuple[Callable[[Path, Raw], Bundle], tuple[Path, Raw]]:
        return reopen, (self.folder, self.manifest)

    def release(self) -> None:
        """Release the locks on the parts, so that a writer may remove them; open files stay readable."""
        self._state.release()

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, loaded and checked against the manifest at its first use."""
        self._state.check("encoder")
        encoder = load_encoder(self._state.part("encoder"), is_checked=True)
        same = encoder.fingerprint == self.manifest["encoder"]["fingerprint"]
        self._check(same, "encoder", "the encoder is not the one the index was built with")
        return encoder

    @property
    def versions(self) -> dict[str, Any]:
        """Versions and hashes that a link depends on, for the head of every output."""
        return {
            "medlink": __version__,
            "sources": {s["name"]: s["version"] for s in self.manifest["kb"]["sources"]},
            "kb": self.manifest["kb"]["content_hash"],
            "encoder": self.manifest["encoder"]["fingerprint"],
        }


def reopen(folder: Path, manifest: Raw) -> Bundle:
    """Open a bundle by a manifest that was read earlier, without logging."""
    bundle = Bundle.__new__(Bundle)
    bundle._open(BundleSnapshot(folder, BundleManifest, manifest))
    return bundle


def verify_bundle(folder: str | Path) -> tuple[list[BundleError], dict[str, int]]:
    """Compare every file of a bundle with its hash in the manifest.

    If all are sound, updates the time of the manifest: opening then need not hash newer copies again.

    Returns:
        An error for each damaged file, and the numbers of ``files`` and ``bytes``.

    Raises:
        BundleError: there is no such bundle, its manifest was changed, or a part is missing.
    """
    state = BundleSnapshot(Path(folder).absolute(), BundleManifest)
    files = [file for part in state.manifest["parts"].values() for file in part["files"].values()]
    damaged = [error for kind in state.manifest["parts"] for error in state.iter_damage(kind, trust_large=False)]
    if not damaged:
        with suppress(OSError):
            os.utime(state.folder / MANIFEST)
    return damaged, {"files": len(files), "bytes": sum(file["size"] for file in files)}


def find_pending_kb(folder: str | Path) -> Path | None:
    """Return the path of the pending knowledge base in a bundle's folder, if any."""
    path = Path(folder) / KB_FILE
    if not path.exists() or not (Path(folder) / MANIFEST).exists():
        return None
    return None if parts.is_copy(path, Path(folder), parts.read_bundle_manifest(Path(folder))["parts"]["kb"]) else path


def describe_names_left_out(folder: str | Path) -> str:
    """Describe the added names that the next build would leave out, with the remedy; empty for none."""
    with suppress(MedlinkError):
        if pending := find_pending_kb(folder):
            state = BundleSnapshot(Path(folder), BundleManifest)
            if lost := describe_lost_names(state.folder, state.manifest, pending):
                return f"{lost}: when it is built, add the tables again, with {extend_call(state.folder)}"
    return ""


def describe_pending_kb(folder: Path, manifest: Raw) -> str:
    """Describe the pending knowledge base of a bundle's folder; empty for none.

    Compares sizes and stored content hashes only; :func:`find_pending_kb` compares whole files.
    """
    path, entry = folder / KB_FILE, manifest["parts"]["kb"]
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    with suppress(OSError, MedlinkError):
        if path.samefile(folder / entry["folder"] / KB_FILE):
            return ""
        with KnowledgeBase(path) as pending:
            same = pending.content_hash == manifest["kb"]["content_hash"]
        if same and size == entry["files"].get(KB_FILE, {}).get("size"):
            return ""
    return (
        f"{path} is not in the bundle, which still uses the knowledge base that it was built from. "
        f"Remedy: run build_bundle({folder}), or delete the file"
    )


def extend_call(folder: Path) -> str:
    """Return the call that adds a table to a bundle, for messages."""
    return f"extend_bundle({folder}, table=FILE)"


def describe_lost_names(folder: Path, manifest: Raw | None, new: Path) -> str:
    """Describe added names that a new knowledge base lacks; empty if there are none, or the old one is damaged."""
    if manifest is None or new.name == manifest["parts"]["kb"]["folder"]:
        return ""
    count = missing = 0
    with (
        suppress(MedlinkError),
        KnowledgeBase(folder / manifest["parts"]["kb"]["folder"]) as old,
        KnowledgeBase(new) as kb,
    ):
        sources = set[str]()
        for concept_id, names in groupby(old.iter_added(), lambda name: name.concept_id):
            there = {(name.text, name.language) for name in kb.names(concept_id)}
            for name in names:
                count, missing = count + 1, missing + ((name.text, name.language) not in there)
                sources.add(name.source)
        if missing:
            return f"{missing:,} of {count:,} names that were added to the bundle are not in the new knowledge base"
        # a table whose names are all there may have brought definitions and other records
        if old.has_added_facts and not (count and sources <= {source.name for source in kb.sources()}):
            return "what was added to the bundle is not in the new knowledge base unless its inputs bring it"
    return ""
