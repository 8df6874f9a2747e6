"""Adding names to a bundle: its knowledge base takes them in, and its index gets a second part; neither is built again.

The new knowledge base is made in a hidden folder of the bundle, and the part in a folder named by the content. Then two
renames put them in place: the knowledge base, and last the manifest, which names the part. Killed before the first, the
bundle is the old one; between them it says that its knowledge base is not the one the index was built from, which
``medlink index build`` mends. No file that was there is written, so a thread that has the bundle open goes on with what
it opened.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medlink.errors import BundleError
from medlink.files.folders import whole_folder
from medlink.files.json import write_json
from medlink.index.bundle import ADDED, INDEX, KB, MANIFEST, Bundle, facts, indexed, writing
from medlink.index.part import Part
from medlink.kb import ExtendReport, Input, KnowledgeBase, extend_kb


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
    everything, but that the weights of n-grams are those of each part, and that either part may bring its share of
    candidates.

    Args:
        folder: the bundle.
        inputs, max_bad_share: what to take in; see :func:`medlink.kb.extend_kb`.
        progress: called with names embedded so far and their total.

    Raises:
        BundleError: the bundle or its encoder cannot be used, or was changed meanwhile.
        ConfigError: an option is unknown, or the folder cannot be written.
        InputError: an input cannot be used.
        KnowledgeBaseError: the knowledge base cannot be written.
    """
    began = time.perf_counter()
    state = _state(Path(folder))
    bundle = Bundle(folder)
    _ = bundle.encoder  # refused before the work where it cannot be used
    with writing(bundle.folder) as work:
        report = extend_kb(bundle.folder / KB, work / KB, inputs, max_bad_share=max_bad_share)
        manifest = bundle.manifest
        if report.content_hash != bundle.kb.content_hash:
            manifest = _extend_index(bundle, work / KB, report, progress)
        if _state(bundle.folder) != state:
            raise BundleError("the bundle was changed meanwhile", path=bundle.folder, remedy="add to it again")
        os.replace(work / KB, bundle.folder / KB)
        write_json(bundle.folder / MANIFEST, manifest, "the bundle")
        # the part before this one stays for a process that is about to open it
        for path in (bundle.folder / INDEX).glob(f"{ADDED}-*"):
            if path.name not in (manifest.get(ADDED), bundle.manifest.get(ADDED)):
                shutil.rmtree(path, ignore_errors=True)
    made = Bundle(folder).index.manifest
    added = made.get(ADDED, {"names": 0})["names"]
    return AddReport(str(bundle.folder), report, made["names"], added, round(time.perf_counter() - began, 3))


def _extend_index(
    bundle: Bundle, extended: Path, report: ExtendReport, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    """Build the part of all names that came later; gives the manifest of the bundle with it."""
    # rows above the marks are not in the main part; nothing was added before the first time
    marks = bundle.manifest["kb"].get("marks", report.marks)
    with KnowledgeBase(extended) as kb:
        names = list(indexed(kb.iter_names(after=marks["name"])))
        concepts = {name.concept_id for name in names}
        concepts.update(t.concept_id for t in kb.iter_semantic_types(after=marks["semantic_type"]))
        # all types of a concept: those of before stand in the main part, or nowhere where it had no name
        types = [semantic_type for concept_id in sorted(concepts) for semantic_type in kb.semantic_types(concept_id)]
        described = {**facts(kb), "marks": marks}
    name = f"{ADDED}-{report.content_hash[:16]}"
    with whole_folder(bundle.folder / INDEX / name, "the bundle") as part:
        Part.build(part, names, bundle.encoder, semantic_types=types, progress=progress, main=bundle.index.parts[0])
    return {**bundle.manifest, "kb": described, ADDED: name}


def _state(folder: Path) -> list[tuple[int, int]]:
    """What tells that the knowledge base or the manifest was replaced."""
    found = [(folder / name).stat() for name in (KB, MANIFEST) if (folder / name).exists()]
    return [(status.st_ino, status.st_mtime_ns) for status in found]
