"""Write a bundle: build it, add names to it, or update it to a new release.

A writer adds new parts beside the old parts, then replaces the manifest: a kill at any moment leaves the old or the new
bundle. A writer waits while another process writes the bundle.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from medlink import __version__
from medlink.bundles import parts
from medlink.bundles.parts import Raw
from medlink.bundles.paths import KB_FILE, MANIFEST, check_bundle_target, is_part
from medlink.errors import BundleError, ConfigError
from medlink.files.atomic import check_output_paths, rows_format
from medlink.index.building import BuildOptions, Progress, build_segment, same_rows
from medlink.index.bundle import Bundle, BundleManifest, describe_lost_names, find_pending_kb, reopen
from medlink.index.segment import Segment
from medlink.index.vectors import choose
from medlink.index.writer_steps import (
    describe_kb,
    describe_lexicon,
    fill_index,
    finish,
    is_indexed,
    load_own_encoder,
    no_kb,
    place_encoder,
    recover,
    report_left_out,
    take_kb,
)
from medlink.kb import BuildReport, ChangeReport, ExtendReport, Input, KnowledgeBase, build_kb, compare_kbs, extend_kb
from medlink.kb.changes import check_sources_kept
from medlink.language.lexicon.forms import load_forms
from medlink.models import load_encoder
from medlink.records import Result

logger = logging.getLogger("medlink")


@dataclass(frozen=True, slots=True)
class AddReport(Result):
    """Result of :func:`extend_bundle`: the report on the knowledge base, the number of names in the index, and those
    ``added`` since the build of its main segment."""

    path: str
    kb: ExtendReport
    names: int
    added: int
    seconds: float


@dataclass(frozen=True, slots=True)
class UpdateReport(Result):
    """Result of :func:`update_bundle`: the report on the inputs (``None`` without inputs), the changes of the release,
    the number of distinct names in the index, and those newly ``embedded``."""

    path: str
    kb: BuildReport | None
    changes: ChangeReport
    names: int
    embedded: int
    seconds: float


def build_bundle(
    folder: str | Path,
    *,
    kb: str | Path | None = None,
    encoder: str | Path | None = None,
    calibration: dict[str, Any] | None = None,
    lexicon: Sequence[str | Path] = (),
    kind: str | None = None,
    memory: int | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    on_message: Callable[[str], object] = logger.warning,
) -> Bundle:
    """Build or rebuild the index and encoder of a bundle from its knowledge base.

    Args:
        folder: the bundle; created when it does not exist.
        kb: knowledge base to copy in, or its folder; default: ``folder/kb.sqlite``, which is moved in, else the
            bundle's own knowledge base with all additions.
        encoder: name for :func:`medlink.models.load_encoder`; default: the encoder of the bundle, else the built-in
            encoder.
        calibration: weights that turn the evidence for a candidate into a score; stored in the manifest.
        lexicon: folders with a site's own words (``docs/how-to/own-words.md``), for the analysis of names.
        kind, memory, threads, progress: see :class:`medlink.index.building.BuildOptions`.
        on_message: called at the end with each warning; logs by default.

    Raises:
        BundleError: the knowledge base is missing or damaged, or the encoder of the bundle is damaged.
        ConfigError: the folder holds other files or cannot be written, or the knowledge base has no names.
    """
    folder = Path(folder)
    check_bundle_target(folder)
    if folder.is_file():
        remedy = f"name a folder: build_bundle(BUNDLE, kb={shlex.quote(str(kb or folder))})"
        raise BundleError("is a file, a bundle is a folder", path=folder, remedy=remedy)
    named = None if encoder is None else load_encoder(encoder)
    there = ((folder / name).exists() for name in (KB_FILE, MANIFEST))
    if kb is None and not any(there) and not any(map(is_part, folder.glob("kb-*"))):
        no_kb(folder)
    if kb is not None:
        KnowledgeBase(kb).close()  # fail before writing
    forms = load_forms(lexicon)
    with parts.lock_for_writing(folder) as work:
        old = recover(folder, work)
        own = take_kb(folder, work, kb, old)
        model = load_own_encoder(folder, old) if named is None else named
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            options = BuildOptions(kind, memory, threads, progress)
            suspects = fill_index(work, store, model, forms, options)
            manifest = {
                "format": parts.FORMAT,
                "medlink": __version__,
                "kb": describe_kb(store),
                "encoder": {"fingerprint": model.fingerprint, "dimension": model.dimension},
                "calibration": calibration or {},
                "lexicon": describe_lexicon(lexicon),
                "doubted": suspects,
                "parts": {
                    "kb": own,
                    "index": parts.install_part(folder, work / "index", "index", work),
                    "encoder": place_encoder(folder, work, model, old),
                },
            }
        lost = describe_lost_names(folder, old, folder / own["folder"])
        finish(folder, work, manifest)
    if old is not None and named is not None and old["encoder"]["fingerprint"] != named.fingerprint:
        on_message(f"the encoder is {encoder}, another one than before")
    before: list[Raw] = [] if old is None else old.get("lexicon", [])
    if gone := {entry["folder"] for entry in before}.difference(Path(given).resolve().name for given in lexicon):
        words = f"the words of {', '.join(sorted(gone))}"
        on_message(f"{words} are no longer in the bundle: name each folder with lexicon=...")
    report_left_out(folder, suspects, lost, on_message)
    return Bundle(folder)


def extend_bundle(
    folder: str | Path, inputs: Sequence[Input], *, max_bad_share: float = 0.01, progress: Progress | None = None
) -> AddReport:
    """Add new concepts, and further names of known concepts, to a bundle: its index gets a second segment.

    The time grows with all names added since the main segment was built, and with the size of the copied knowledge
    base; no other name is embedded or indexed again. Links equal those of a bundle built with all inputs, with two
    exceptions: words have the weights of the main segment, and each segment contributes its own candidates. ``inputs``
    are as for :func:`medlink.kb.extend_kb`.

    Raises:
        BundleError: the bundle or its encoder cannot be used.
        ConfigError: an option is unknown, or the folder cannot be written.
        InputError: an input cannot be used.
        KnowledgeBaseError: the knowledge base cannot be written.
    """
    began = time.perf_counter()
    given, folder = folder, Path(folder).absolute()
    parts.read_bundle_manifest(folder)  # fail before writing
    with parts.lock_for_writing(folder) as work:
        recover(folder, work)
        bundle = Bundle(folder)  # opened now: the writer before this one may have changed it
        _ = bundle.encoder  # fail before the work
        (work / "kb").mkdir()
        report = extend_kb(bundle.kb.path, work / "kb" / KB_FILE, inputs, max_bad_share=max_bad_share)
        manifest = bundle.manifest
        if report.content_hash != bundle.kb.content_hash:
            manifest = _extend_index(bundle, work, report, progress)
        entries = {**manifest["parts"], "kb": parts.install_part(folder, work / "kb", "kb", work)}
        bundle.release()
        finish(folder, work, {**manifest, "parts": entries})
    extended = Bundle(folder)
    index = extended.index.manifest
    added = index.get("added", {"names": 0})["names"]
    report, seconds = replace(report, path=str(extended.kb.path)), round(time.perf_counter() - began, 3)
    return AddReport(str(Path(given)), report, index["names"], added, seconds)


def _extend_index(bundle: Bundle, work: Path, report: ExtendReport, progress: Progress | None) -> Raw:
    """Build the segment of all later names; return the manifest of the bundle with it."""
    # rows above the marks are not in the main segment; the first addition sets the marks
    marks = bundle.manifest["kb"].get("marks", report.marks)
    with KnowledgeBase(work / "kb" / KB_FILE) as kb:
        names = list(filter(is_indexed, kb.iter_names(after=marks["name"])))
        concepts = {name.concept_id for name in names}
        concepts.update(t.concept_id for t in kb.iter_semantic_types(after=marks["semantic_type"]))
        # all types of a concept: a concept that had no name is not in the main segment
        types = [semantic_type for concept_id in sorted(concepts) for semantic_type in kb.semantic_types(concept_id)]
        described = {**describe_kb(kb), "marks": marks}
    main, options = bundle.index.segments[0], BuildOptions(progress=progress)
    build_segment(work / "added", names, bundle.encoder, semantic_types=types, options=options, main=main)
    entries = {**bundle.manifest["parts"], "added": parts.install_part(bundle.folder, work / "added", "added", work)}
    return {**bundle.manifest, "kb": described, "parts": entries}


def update_bundle(  # noqa: PLR0913 # the options of build_kb, and its own
    folder: str | Path,
    inputs: Sequence[Input] = (),
    *,
    changes: str | Path | None = None,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    allow_loss: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
    on_message: Callable[[str], object] = logger.warning,
) -> UpdateReport:
    """Replace the knowledge base of a bundle with a new release, and rebuild its index with the known embeddings.

    Links then equal those of a bundle built with the new release. Keeps the encoder, the calibration, the lexicon
    folders and a given kind of index. Embeds only new names. Refuses a release that lacks a source or language of the
    bundle, such as the source of added names.

    Args:
        folder: the bundle.
        inputs: the new release; see :func:`medlink.kb.build_kb`. Without inputs: the pending knowledge base of the
            folder, else the bundle's own with all additions.
        changes: file for the differences; see :func:`medlink.kb.compare_kbs`.
        languages, under, not_under, max_bad_share: as for :func:`medlink.kb.build_kb`; all but the last only with
            ``inputs``.
        allow_loss: accept a release that lacks a source or language of the bundle.
        threads, progress, on_message: as for :func:`build_bundle`.

    Raises:
        BundleError: the bundle or its encoder cannot be used.
        ConfigError: an option is unknown or needs inputs, the folder or the changes cannot be written, there are no
            names, or the release lacks a source or language (:func:`~medlink.kb.changes.check_sources_kept`).
        InputError: an input cannot be used.
        KnowledgeBaseError: a knowledge base is damaged, or cannot be written.
    """
    began = time.perf_counter()
    given, folder = folder, Path(folder).absolute()
    filters = {"languages": languages is not None, "under": under, "not_under": not_under}
    if not inputs and (unused := [f"{name}=..." for name, value in filters.items() if value]):
        message = f"{', '.join(unused)} is for files of a release, and there are none"
        raise ConfigError(message, remedy="name them, or leave it out")
    parts.read_bundle_manifest(folder, BundleManifest)
    check_output_paths({"the output": changes}, [folder, *(source.path for source in inputs)])
    rows_format(changes)  # fails before any work
    with parts.lock_for_writing(folder) as work:
        old = recover(folder, work)
        # read again: the last writer may have changed it
        bundle = reopen(folder, parts.read_bundle_manifest(folder, BundleManifest))
        encoder, main = bundle.encoder, bundle.index.segments[0]  # fail before the work
        report: BuildReport | None = None
        if inputs:
            (work / "kb").mkdir()
            languages = None if languages is None else list(languages)
            chosen = {"languages": languages, "under": under, "not_under": not_under, "max_bad_share": max_bad_share}
            report = build_kb(work / "kb" / KB_FILE, inputs, **chosen)  # type: ignore[arg-type]  # each of its own type
        if not allow_loss and (waiting := work / "kb" / KB_FILE if inputs else find_pending_kb(folder)):
            with KnowledgeBase(waiting) as release:
                check_sources_kept(given, bundle.kb, release, languages)
        own = parts.install_part(folder, work / "kb", "kb", work) if inputs else take_kb(folder, work, None, old)
        kind, memory = main.manifest["kind"], main.manifest.get("memory")
        # a kind chosen by size is chosen again
        kind = None if kind == choose(len(main.names), encoder.dimension, memory) else kind
        options = BuildOptions(kind, memory, threads, progress)
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            suspects = fill_index(work, store, encoder, bundle.index.forms, options, known=bundle.index.segments)
            described = describe_kb(store)
        index = Segment(work / "index").names
        new = np.all([same_rows(index, segment) < 0 for segment in bundle.index.segments], axis=0)
        placed = parts.install_part(folder, work / "index", "index", work)
        entries = {"kb": own, "index": placed, "encoder": bundle.manifest["parts"]["encoder"]}
        manifest = {**bundle.manifest, "medlink": __version__, "kb": described, "doubted": suspects, "parts": entries}
        differences = compare_kbs(bundle.kb.path, folder / own["folder"] / KB_FILE, changes)
        lost = describe_lost_names(folder, old, folder / own["folder"])
        bundle.release()
        finish(folder, work, manifest)
    report_left_out(Path(given), suspects, lost, on_message)
    updated = reopen(folder, manifest)
    if report is not None:
        report = replace(report, path=str(updated.kb.path))
    seconds, embedded = round(time.perf_counter() - began, 3), int(np.count_nonzero(new))
    return UpdateReport(str(Path(given)), report, differences, len(updated.index), embedded, seconds)
