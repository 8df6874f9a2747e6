"""The bundle: knowledge base, index and encoder that belong together, in one folder of parts, opened.

``manifest.json`` names the parts and binds them by content hash and fingerprint (:mod:`medlink.bundles.parts`). A
knowledge base that waits in the folder is no part of it until the bundle is built.
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
from medlink.bundles.parts import Checked, Opened, Raw
from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import BundleError, MedlinkError
from medlink.index.concept_index import ConceptIndex
from medlink.kb import KnowledgeBase
from medlink.models import Encoder, load_encoder

logger = logging.getLogger("medlink")


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


class Bundle:
    """A deployment in one folder, opened by memory-mapping; nothing in it is ever written.

    Where another knowledge base waits in the folder to be taken in, that is logged. The parts that were opened stay on
    the disk as long as this lives, also when another process writes the bundle. A pickled bundle opens the same parts.

    Args:
        folder: a folder made by :func:`medlink.index.build_bundle`.

    Raises:
        BundleError: a part is missing, is damaged or does not belong to the others; the message names it.
    """

    def __init__(self, folder: str | Path) -> None:
        # the encoder is opened later, perhaps from another working folder
        self._open(Opened(Path(folder).absolute(), BundleManifest))
        if sentence := newer_kb(Path(folder), self.manifest):
            logger.warning(sentence)

    def _open(self, state: Opened) -> None:
        self._state, self.folder, self.manifest = state, state.folder, state.manifest
        added = state.part("added") if "added" in self.manifest["parts"] else None
        for kind in self.manifest["parts"].keys() - {"encoder"}:
            state.check(kind)
        self.kb = KnowledgeBase(state.part("kb") / KB_FILE)
        self.kb.held = state
        same_kb = self.kb.content_hash == self.manifest["kb"]["content_hash"]
        self._check(same_kb, "kb", "the knowledge base is not the one the index was built from")
        self.index = ConceptIndex(state.part("index"), added)
        same_encoder = self.index.manifest["encoder"] == self.manifest["encoder"]["fingerprint"]
        self._check(same_encoder, "index", "the index was built with another encoder than the manifest names")

    def _check(self, holds: bool, kind: str, otherwise: str) -> None:
        if not holds:
            raise BundleError(otherwise, path=self._state.part(kind), remedy=parts.rebuild(self.folder))

    def __reduce__(self) -> tuple[Callable[[Path, Raw], Bundle], tuple[Path, Raw]]:
        return reopened, (self.folder, self.manifest)

    def release(self) -> None:
        """Let another process, or this one, remove the parts when it writes the bundle; what is open goes on."""
        self._state.release()

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, loaded and checked against the manifest when it is first needed."""
        self._state.check("encoder")
        encoder = load_encoder(self._state.part("encoder"), is_checked=True)
        same = encoder.fingerprint == self.manifest["encoder"]["fingerprint"]
        self._check(same, "encoder", "the encoder is not the one the index was built with")
        return encoder

    @property
    def versions(self) -> dict[str, Any]:
        """What a link depends on: written beside every result."""
        return {
            "medlink": __version__,
            "sources": {s["name"]: s["version"] for s in self.manifest["kb"]["sources"]},
            "kb": self.manifest["kb"]["content_hash"],
            "encoder": self.manifest["encoder"]["fingerprint"],
        }


def reopened(folder: Path, manifest: Raw) -> Bundle:
    """A bundle with a manifest that was read before, as another process has it open; nothing is logged."""
    bundle = Bundle.__new__(Bundle)
    bundle._open(Opened(folder, BundleManifest, manifest))
    return bundle


def verify_bundle(folder: str | Path) -> tuple[list[BundleError], dict[str, int]]:
    """Compare every file of a bundle with the hash in its manifest, which is as new as they are then if all are sound.

    Returns:
        An error for each damaged file, and how many ``files`` and ``bytes`` there are.

    Raises:
        BundleError: there is no such bundle, its manifest is not as it was written, or a part is missing.
    """
    state = Opened(Path(folder).absolute(), BundleManifest)
    files = [file for part in state.manifest["parts"].values() for file in part["files"].values()]
    damaged = [error for kind in state.manifest["parts"] for error in state.damaged(kind, trusting=False)]
    if not damaged:
        with suppress(OSError):
            os.utime(state.folder / MANIFEST)
    return damaged, {"files": len(files), "bytes": sum(file["size"] for file in files)}


def waiting_kb(folder: str | Path) -> Path | None:
    """The knowledge base in a bundle's folder that the bundle was not built from, where there is one."""
    path = Path(folder) / KB_FILE
    if not path.exists() or not (Path(folder) / MANIFEST).exists():
        return None
    return None if parts.is_copy(path, Path(folder), parts.read_state(Path(folder))["parts"]["kb"]) else path


def left_out(folder: str | Path) -> str:
    """What the next build leaves out of all that was added to a bundle, with a remedy; empty where there is nothing."""
    with suppress(MedlinkError):
        if waiting := waiting_kb(folder):
            state = Opened(Path(folder), BundleManifest)
            if found := lost_names(state.folder, state.manifest, waiting):
                return f"{found}: when it is built, add the tables again, with {add_again(state.folder)}"
    return ""


def newer_kb(folder: Path, manifest: Raw) -> str:
    """What to say on opening a bundle in whose folder another knowledge base waits; empty where none does.

    Sizes and content hashes are compared, which the files say of themselves: :func:`waiting_kb` compares all of them.
    """
    path, entry = folder / KB_FILE, manifest["parts"]["kb"]
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    with suppress(OSError, MedlinkError):
        if path.samefile(folder / entry["folder"] / KB_FILE):
            return ""
        with KnowledgeBase(path) as waiting:
            same = waiting.content_hash == manifest["kb"]["content_hash"]
        if same and size == entry["files"].get(KB_FILE, {}).get("size"):
            return ""
    return (
        f"{path} is not in the bundle, which goes on with the knowledge base that it was built from. "
        f"Remedy: run build_bundle({folder}), or delete the file"
    )


def add_again(folder: Path) -> str:
    """The call that adds a table to a bundle."""
    return f"extend_bundle({folder}, table=FILE)"


def lost_names(folder: Path, old: Raw | None, new: Path) -> str:
    """What was added to a bundle and is not in a new knowledge base; empty where there is nothing, or it is damaged."""
    if old is None or new.name == old["parts"]["kb"]["folder"]:
        return ""
    count = missing = 0
    with suppress(MedlinkError), KnowledgeBase(folder / old["parts"]["kb"]["folder"]) as had, KnowledgeBase(new) as has:
        sources = set[str]()
        for concept_id, names in groupby(had.iter_added(), lambda name: name.concept_id):
            there = {(name.text, name.language) for name in has.names(concept_id)}
            for name in names:
                count, missing = count + 1, missing + ((name.text, name.language) not in there)
                sources.add(name.source)
        if missing:
            return f"{missing:,} of {count:,} names that were added to the bundle are not in the new knowledge base"
        # a table whose names are all there may have brought definitions and the like
        if had.has_more_added and not (count and sources <= {source.name for source in has.sources()}):
            return "what was added to the bundle is not in the new knowledge base unless its inputs bring it"
    return ""
