"""Adding names to a bundle: its knowledge base takes them in, and its index gets a second part; neither is built again.

Both are new parts beside those that are there, and count when the manifest that names them takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from medlink.bundles import parts
from medlink.bundles.places import KB_FILE
from medlink.index.bundle import Bundle, finish, indexed, present
from medlink.index.manifest import facts
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
    progress: Callable[[str, int, int], None] | None = None,
) -> AddReport:
    """Add new concepts, and further names of known ones, to a bundle.

    The time grows with all that was added since the main part of the index was built, and with the copy of the
    knowledge base; no other name is embedded or indexed again. Links are those of a bundle that was built with
    everything, but that the weights of n-grams are those of each part, and that either part may bring its share of
    candidates. While another process writes the bundle, this one waits. Killed at any moment, the bundle is the old one
    or the new one.

    Args:
        folder: the bundle.
        inputs, max_bad_share: what to take in; see :func:`medlink.kb.extend_kb`.
        progress: called with what is being done, how much of it is done, and how much there is.

    Raises:
        BundleError: the bundle or its encoder cannot be used.
        ConfigError: an option is unknown, or the folder cannot be written.
        InputError: an input cannot be used.
        KnowledgeBaseError: the knowledge base cannot be written.
    """
    began = time.perf_counter()
    given, folder = folder, Path(folder).absolute()
    parts.read_state(folder)  # refused before anything is made
    with parts.writing(folder) as work:
        present(folder, work)
        bundle = Bundle(folder)  # what those wrote that this one waited for
        _ = bundle.encoder  # refused before the work where it cannot be used
        (work / "kb").mkdir()
        report = extend_kb(bundle.kb.path, work / "kb" / KB_FILE, inputs, max_bad_share=max_bad_share)
        manifest = bundle.manifest
        if report.content_hash != bundle.kb.content_hash:
            manifest = _extend_index(bundle, work, report, progress)
        entries = {**manifest["parts"], "kb": parts.place(folder, work / "kb", "kb", work)}
        bundle.release()
        finish(folder, work, {**manifest, "parts": entries})
    made = Bundle(folder)
    index = made.index.manifest
    added = index.get("added", {"names": 0})["names"]
    return AddReport(
        str(Path(given)),
        replace(report, path=str(made.kb.path)),
        index["names"],
        added,
        round(time.perf_counter() - began, 3),
    )


def _extend_index(
    bundle: Bundle, work: Path, report: ExtendReport, progress: Callable[[str, int, int], None] | None
) -> dict[str, Any]:
    """Build the part of all names that came later; gives the manifest of the bundle with it."""
    # rows above the marks are not in the main part; nothing was added before the first time
    marks = bundle.manifest["kb"].get("marks", report.marks)
    with KnowledgeBase(work / "kb" / KB_FILE) as kb:
        names = list(indexed(kb.iter_names(after=marks["name"])))
        concepts = {name.concept_id for name in names}
        concepts.update(t.concept_id for t in kb.iter_semantic_types(after=marks["semantic_type"]))
        # all types of a concept: those of before stand in the main part, or nowhere where it had no name
        types = [semantic_type for concept_id in sorted(concepts) for semantic_type in kb.semantic_types(concept_id)]
        described = {**facts(kb), "marks": marks}
    main = bundle.index.parts[0]
    Part.build(work / "added", names, bundle.encoder, semantic_types=types, progress=progress, main=main)
    entries = {**bundle.manifest["parts"], "added": parts.place(bundle.folder, work / "added", "added", work)}
    return {**bundle.manifest, "kb": described, "parts": entries}
