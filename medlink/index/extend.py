"""Adding names to a bundle: its knowledge base and its index take them in, neither is built again.

The new knowledge base and the added part of the index (:mod:`medlink.index.added`) are made in a hidden folder of the
bundle. Then four renames put them in place: the added part under a name of its own, the knowledge base, the manifest
of the index, and last that of the bundle. Killed before the second, the bundle is the old one; between the second and
the last it says that its knowledge base is not the one the index was built from, which ``medlink index build`` mends.
No file that was there is written, so a thread that has the bundle open goes on with what it opened.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medlink.errors import BundleError, ConfigError
from medlink.files.folders import scratch_folder
from medlink.index.added import build_added
from medlink.index.bundle import INDEX, KB, MANIFEST, Bundle, indexed
from medlink.index.concept_index import ADDED, write_manifest
from medlink.index.concept_index import MANIFEST as INDEX_MANIFEST
from medlink.kb import ExtendReport, Input, KnowledgeBase, extend_kb
from medlink.models import Encoder


@dataclass(frozen=True, slots=True)
class AddReport:
    """What :func:`extend_bundle` did.

    ``kb`` is what the knowledge base took in; ``names`` are the names of the index now, ``added`` those of them that
    came since its main part was built.
    """

    path: str
    kb: ExtendReport
    names: int
    added: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def extend_bundle(
    folder: str | Path,
    inputs: Sequence[Input],
    *,
    max_bad_share: float = 0.01,
    progress: Callable[[int, int], None] | None = None,
) -> AddReport:
    """Add new concepts, and further names of known ones, to a bundle.

    The time grows with all that was added since the main part of the index was built, and with the copy of the
    knowledge base; no other name is embedded or indexed again. Links are those of a bundle that was built with
    everything, but for the nearest names that the index keeps of the names of its main part, and for the weights of
    n-grams, which stay those of the main part.

    Args:
        folder: the bundle.
        inputs: what to take in; see :func:`medlink.kb.extend_kb`.
        max_bad_share: see :func:`medlink.kb.build_kb`.
        progress: called with names embedded so far and their total.

    Returns:
        What was added.

    Raises:
        BundleError: the bundle or its encoder cannot be used, or was changed meanwhile.
        ConfigError: an option is unknown, or the folder cannot be written.
        InputError: an input cannot be used.
        KnowledgeBaseError: the knowledge base cannot be written.
    """
    began = time.perf_counter()
    state = _state(Path(folder))
    bundle = Bundle(folder)
    encoder = bundle.encoder
    try:
        with scratch_folder(bundle.folder / MANIFEST, "the bundle") as work:
            report = extend_kb(bundle.folder / KB, work / KB, inputs, max_bad_share=max_bad_share)
            if report.content_hash != bundle.kb.content_hash:
                manifest, index = _extend_index(bundle, work, report, encoder, progress)
            else:
                manifest, index = bundle.manifest, bundle.index.manifest
            if _state(bundle.folder) != state:
                raise BundleError("the bundle was changed meanwhile", path=bundle.folder, remedy="add to it again")
            _put_in_place(bundle, work, manifest, index)
    except OSError as error:
        raise ConfigError(f"the bundle cannot be written: {error.strerror}", path=error.filename or folder) from error
    added = index[ADDED]["names"] if ADDED in index else 0
    return AddReport(str(bundle.folder), report, index["names"], added, round(time.perf_counter() - began, 3))


def _extend_index(
    bundle: Bundle,
    work: Path,
    report: ExtendReport,
    encoder: Encoder,
    progress: Callable[[int, int], None] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build the added part; returns the manifests of the bundle and of the index with it."""
    # rows above the marks are not in the main part; nothing was added before the first time
    marks = bundle.manifest["kb"].get("marks", report.marks)
    with KnowledgeBase(work / KB) as kb:
        names = list(indexed(kb.iter_names(after=marks["name"])))
        types = list(kb.iter_semantic_types(after=marks["semantic_type"]))
        # a concept may have types from before and get its first name in the index now
        typed = {semantic_type.concept_id for semantic_type in types}
        for concept_id in sorted({name.concept_id for name in names} - typed):
            types += kb.semantic_types(concept_id)
        sources = [{"name": source.name, "version": source.version} for source in kb.sources()]
    part = build_added(bundle.folder / INDEX, work / ADDED, names, types, encoder, progress=progress)
    part["folder"] = f"{ADDED}-{report.content_hash[:16]}"
    before = bundle.index.manifest
    old = before.get(ADDED, {})
    totals = {key: before[key] - old.get(key, 0) + part[key] for key in ("rows", "names", "concepts")}
    described = {**bundle.manifest["kb"], "content_hash": report.content_hash, "sources": sources, "marks": marks}
    return {**bundle.manifest, "kb": described, ADDED: part["folder"]}, {**before, **totals, ADDED: part}


def _state(folder: Path) -> list[tuple[int, int]]:
    """What tells that the knowledge base or the manifest was replaced."""
    found = [(folder / name).stat() for name in (KB, MANIFEST) if (folder / name).exists()]
    return [(status.st_ino, status.st_mtime_ns) for status in found]


def _put_in_place(bundle: Bundle, work: Path, manifest: dict[str, Any], index: dict[str, Any]) -> None:
    """Rename what was made, the manifest of the bundle last."""
    write_manifest(work / INDEX_MANIFEST, index)
    write_manifest(work / MANIFEST, manifest)
    folder = bundle.folder / INDEX
    old = {one[ADDED]["folder"] for one in (bundle.index.manifest, index) if ADDED in one}
    if (work / ADDED).exists():
        shutil.rmtree(folder / index[ADDED]["folder"], ignore_errors=True)
        os.replace(work / ADDED, folder / index[ADDED]["folder"])
    os.replace(work / KB, bundle.folder / KB)
    os.replace(work / INDEX_MANIFEST, folder / INDEX_MANIFEST)
    os.replace(work / MANIFEST, bundle.folder / MANIFEST)
    # the part before this one stays for a process that is about to open it
    for path in folder.glob(f"{ADDED}-*"):
        if path.name not in old:
            shutil.rmtree(path, ignore_errors=True)
