"""Write a bundle: build it, add names to it, or update it to a new release.

A writer adds new parts beside the old parts, then replaces the manifest: a kill at any moment leaves the old or the new
bundle. A writer waits while another process writes the bundle.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from medlink import __version__
from medlink.bundles import parts
from medlink.bundles.parts import Raw
from medlink.bundles.paths import KB_FILE, MANIFEST, check_bundle_target, is_part
from medlink.errors import BundleError, ConfigError, EncoderError
from medlink.files.atomic import check_output_paths, rows_format
from medlink.files.folders import exclusive_lock, remove
from medlink.files.problems import pluralize
from medlink.index.building import BuildOptions, Progress, build_segment, same_rows
from medlink.index.bundle import Bundle, BundleManifest, describe_lost_names, extend_call, find_pending_kb, reopen
from medlink.index.segment import Segment
from medlink.index.suspect_translations import find_suspect_translations
from medlink.index.vectors import choose
from medlink.kb import BuildReport, ChangeReport, ExtendReport, Input, KnowledgeBase, build_kb, compare_kbs, extend_kb
from medlink.kb.changes import check_sources_kept
from medlink.language.lexicon.forms import LexiconForms, load_forms
from medlink.language.lexicon.tables import read_folder
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name, Result

logger = logging.getLogger("medlink")
_LISTED = 20  # words of a lexicon folder that the manifest lists


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
        kb: knowledge base to copy in, or a folder with one; default: ``folder/kb.sqlite``, which is moved in, else the
            bundle's own knowledge base with all additions.
        encoder: name for :func:`medlink.models.load_encoder`; default: the encoder of the bundle, else the built-in
            one.
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
        _no_kb(folder)
    if kb is not None:
        KnowledgeBase(kb).close()  # fail before writing
    forms = load_forms(lexicon)
    with parts.lock_for_writing(folder) as work:
        old = _recover(folder, work)
        own = _take_kb(folder, work, kb, old)
        model = _load_own_encoder(folder, old) if named is None else named
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            options = BuildOptions(kind, memory, threads, progress)
            suspects = _fill_index(work, store, model, forms, options)
            manifest = {
                "format": parts.FORMAT,
                "medlink": __version__,
                "kb": _describe_kb(store),
                "encoder": {"fingerprint": model.fingerprint, "dimension": model.dimension},
                "calibration": calibration or {},
                "lexicon": _describe_lexicon(lexicon),
                "doubted": suspects,
                "parts": {
                    "kb": own,
                    "index": parts.install_part(folder, work / "index", "index", work),
                    "encoder": _place_encoder(folder, work, model, old),
                },
            }
        lost = describe_lost_names(folder, old, folder / own["folder"])
        _finish(folder, work, manifest)
    if old is not None and named is not None and old["encoder"]["fingerprint"] != named.fingerprint:
        on_message(f"the encoder is {encoder}, another one than before")
    before: list[Raw] = [] if old is None else old.get("lexicon", [])
    if gone := {entry["folder"] for entry in before}.difference(Path(given).resolve().name for given in lexicon):
        words = f"the words of {', '.join(sorted(gone))}"
        on_message(f"{words} are no longer in the bundle: name each folder with lexicon=...")
    _report_left_out(folder, suspects, lost, on_message)
    return Bundle(folder)


def extend_bundle(
    folder: str | Path, inputs: Sequence[Input], *, max_bad_share: float = 0.01, progress: Progress | None = None
) -> AddReport:
    """Add new concepts, and further names of known concepts, to a bundle: its index gets a second segment.

    The time grows with all names added since the main segment was built, and with the size of the copied knowledge
    base; no other name is embedded or indexed again. Links equal those of a bundle built with everything, with two
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
        _recover(folder, work)
        bundle = Bundle(folder)  # opened now: the writer before this one may have changed it
        _ = bundle.encoder  # fail before the work
        (work / "kb").mkdir()
        report = extend_kb(bundle.kb.path, work / "kb" / KB_FILE, inputs, max_bad_share=max_bad_share)
        manifest = bundle.manifest
        if report.content_hash != bundle.kb.content_hash:
            manifest = _extend_index(bundle, work, report, progress)
        entries = {**manifest["parts"], "kb": parts.install_part(folder, work / "kb", "kb", work)}
        bundle.release()
        _finish(folder, work, {**manifest, "parts": entries})
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
        names = list(filter(_is_indexed, kb.iter_names(after=marks["name"])))
        concepts = {name.concept_id for name in names}
        concepts.update(t.concept_id for t in kb.iter_semantic_types(after=marks["semantic_type"]))
        # all types of a concept: a concept that had no name is not in the main segment
        types = [semantic_type for concept_id in sorted(concepts) for semantic_type in kb.semantic_types(concept_id)]
        described = {**_describe_kb(kb), "marks": marks}
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
    """Replace the knowledge base of a bundle by a new release, and rebuild its index with the known embeddings.

    Links then equal those of a bundle built with the new release. Keeps the encoder, the calibration, the lexicon
    folders and a given kind of index. Embeds only new names. Refuses a release without a source or language that the
    bundle has, such as that of names added to it.

    Args:
        folder: the bundle.
        inputs: the new release; see :func:`medlink.kb.build_kb`. Without inputs: the pending knowledge base of the
            folder, else the bundle's own with all additions.
        changes: file for the differences; see :func:`medlink.kb.compare_kbs`.
        languages, under, not_under, max_bad_share: as for :func:`medlink.kb.build_kb`; all but the last only with
            ``inputs``.
        allow_loss: take in a release without a source or language that the bundle has.
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
        old = _recover(folder, work)
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
        own = parts.install_part(folder, work / "kb", "kb", work) if inputs else _take_kb(folder, work, None, old)
        kind, memory = main.manifest["kind"], main.manifest.get("memory")
        # a kind chosen by size is chosen again
        kind = None if kind == choose(len(main.names), encoder.dimension, memory) else kind
        options = BuildOptions(kind, memory, threads, progress)
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            suspects = _fill_index(work, store, encoder, bundle.index.forms, options, known=bundle.index.segments)
            described = _describe_kb(store)
        index = Segment(work / "index").names
        new = np.all([same_rows(index, segment.names) < 0 for segment in bundle.index.segments], axis=0)
        placed = parts.install_part(folder, work / "index", "index", work)
        entries = {"kb": own, "index": placed, "encoder": bundle.manifest["parts"]["encoder"]}
        manifest = {**bundle.manifest, "medlink": __version__, "kb": described, "doubted": suspects, "parts": entries}
        differences = compare_kbs(bundle.kb.path, folder / own["folder"] / KB_FILE, changes)
        lost = describe_lost_names(folder, old, folder / own["folder"])
        bundle.release()
        _finish(folder, work, manifest)
    _report_left_out(Path(given), suspects, lost, on_message)
    updated = reopen(folder, manifest)
    if report is not None:
        report = replace(report, path=str(updated.kb.path))
    seconds, embedded = round(time.perf_counter() - began, 3), int(np.count_nonzero(new))
    return UpdateReport(str(Path(given)), report, differences, len(updated.index), embedded, seconds)


def _is_indexed(name: Name) -> bool:
    # nobody writes the tag of a fully specified name ("All (finding)")
    return name.type != FSN


def _fill_index(
    work: Path,
    store: KnowledgeBase,
    model: Encoder,
    forms: LexiconForms,
    options: BuildOptions,
    known: Sequence[Segment] = (),
) -> list[Raw]:
    """Build the index of a knowledge base without suspect translations; return their entries for the manifest."""
    suspects = dict(find_suspect_translations(store, forms))
    shards = _shards(work.parent)
    names = (name for name in store.iter_names() if _is_indexed(name) and name not in suspects)
    types = store.iter_semantic_types()
    try:
        build_segment(
            work / "index", names, model, semantic_types=types, options=options, shards=shards, forms=forms, known=known
        )
    except Exception:
        remove(shards)
        raise
    return [
        {"concept_id": name.concept_id, "language": name.language, "name": name.text, "says": headword}
        for name, headword in suspects.items()
    ]


def _shards(folder: Path) -> Path:
    """Folder of the embeddings of many names, from which the next build resumes after a kill."""
    return folder / ".embedded"


def _report_left_out(folder: Path, suspects: Sequence[Raw], lost: str, on_message: Callable[[str], object]) -> None:
    if suspects:
        first = suspects[0]
        on_message(
            f"{pluralize(len(suspects), 'name')} left out of the index as suspect translations, such as "
            f"{first['name']!r}, a name of {first['concept_id']} that means {first['says']!r}. "
            f"Bundle({shlex.quote(str(folder))}) lists them"
        )
    if lost:
        on_message(f"{lost}: add the tables again, with {extend_call(folder)}")


def _describe_lexicon(folders: Iterable[str | Path]) -> list[Raw]:
    """Manifest entries of lexicon folders: their number of rows, and the first words."""
    entries = []
    for folder in map(Path, folders):
        rows = read_folder(folder)
        members = chain.from_iterable(entry.members for entry in rows.entries)
        forms = chain((member.form for member in members), *(short.forms for short in rows.abbreviations))
        words = list(islice(dict.fromkeys(forms), _LISTED))
        entries.append({"folder": folder.resolve().name, "rows": rows.count, "words": words})
    return entries


def _describe_kb(kb: KnowledgeBase) -> Raw:
    sources = [{"name": source.name, "version": source.version} for source in kb.sources()]
    return {"schema_version": kb.schema_version, "content_hash": kb.content_hash, "sources": sources}


def _finish(folder: Path, work: Path, manifest: Raw) -> None:
    """Replace the manifest of a bundle, and remove all parts that it does not name."""
    incoming, taken = folder / KB_FILE, folder / manifest["parts"]["kb"]["folder"] / KB_FILE
    if incoming.exists() and incoming.samefile(taken) and not parts.is_intact(folder, manifest["parts"]["kb"]):
        # a hard link still shares the content
        raise ConfigError("the knowledge base was changed meanwhile", path=incoming, remedy="build again")
    parts.install_manifest(folder, work, manifest)
    _recover(folder, work)
    remove(_shards(folder))


def _recover(folder: Path, work: Path) -> Raw | None:
    """Read the manifest of a bundle, and remove what a killed writer left; ``None`` without a sound manifest."""
    try:
        manifest = parts.read_bundle_manifest(folder, BundleManifest)
    except BundleError:
        return None
    with exclusive_lock(folder):
        if parts.is_copy(folder / KB_FILE, folder, manifest["parts"]["kb"]):
            (folder / KB_FILE).unlink()
    parts.remove_unused_parts(folder, work, manifest)
    if _is_format_2(folder):
        # the index last: it is the sign of format 2
        for name, sign in (("encoder", "modules.json"), ("index", "index.json")):
            if (folder / name / sign).exists():
                os.replace(folder / name, work / f"old-{name}")
    return manifest


def _is_format_2(folder: Path) -> bool:
    """Whether the folder holds the index of a bundle of format 2, with its encoder beside it."""
    return (folder / "index" / "index.json").exists()


def _take_kb(folder: Path, work: Path, kb: str | Path | None, old: Raw | None) -> Raw:
    """Take the knowledge base of a build as a part: ``kb``, else the pending one, else that of the bundle."""
    incoming = folder / KB_FILE
    if kb is None and not incoming.exists():
        entries = parts.find_intact_parts(folder, "kb") if old is None else [old["parts"]["kb"]]
        if old is not None and not parts.is_intact(folder, entries[0]):
            remedy = f"copy it from another place, or build it again with build_kb({folder}, ...)"
            damaged = folder / entries[0]["folder"]
            raise BundleError("the knowledge base of the bundle is damaged", path=damaged, remedy=remedy)
        if len(entries) > 1:
            remedy = f"name one of them with kb=...: {', '.join(entry['folder'] for entry in entries)}"
            message = "the manifest is lost, and there are several knowledge bases"
            raise BundleError(message, path=folder, remedy=remedy)
        return entries[0] if entries else _no_kb(folder)
    draft = work / "kb" / KB_FILE
    draft.parent.mkdir()
    if kb is not None and not (incoming.exists() and incoming.samefile(kb)):
        with KnowledgeBase(kb) as given:
            shutil.copyfile(given.path, draft)
    else:
        KnowledgeBase(incoming).close()
        try:
            # a file with another name or owner may still be written to: copy it
            status = incoming.lstat()
            if incoming.is_symlink() or status.st_nlink > 1 or status.st_uid != os.geteuid():
                raise OSError
            os.link(incoming, draft)
        except OSError:
            remove(draft)
            shutil.copyfile(incoming, draft)
    return parts.install_part(folder, draft.parent, "kb", work)


def _no_kb(folder: Path) -> NoReturn:
    remedy = f"run build_kb({folder}, ...) first, or name one with kb=..."
    raise BundleError("no knowledge base in the bundle", path=folder / KB_FILE, remedy=remedy)


def _load_own_encoder(folder: Path, old: Raw | None) -> Encoder:
    """Load the encoder of a bundle, even if its manifest is lost or of format 2; else the built-in encoder."""
    entries = parts.find_intact_parts(folder, "encoder") if old is None else [old["parts"]["encoder"]]
    folders = [folder / entry["folder"] for entry in entries if parts.is_intact(folder, entry)]
    if old is None and _is_format_2(folder) and (folder / "encoder" / "modules.json").exists():
        folders.append(folder / "encoder")
    if old is None and not folders and not any(map(is_part, folder.glob("encoder-*"))):
        return load_encoder()
    if len(folders) > 1:
        remedy = f"name one of them with encoder=...: {', '.join(map(str, folders))}"
        raise BundleError(
            "there are several encoders, and no manifest that names one of them", path=folder, remedy=remedy
        )
    remedy = parts.rebuild_remedy(folder, "encoder")
    if not folders:
        where = folder if old is None else folder / entries[0]["folder"]
        raise BundleError("the encoder of the bundle is damaged", path=where, remedy=remedy)
    try:
        return load_encoder(folders[0], is_checked=True)
    except EncoderError as error:
        reason = f"the encoder of the bundle cannot be used: {error.message}"
        raise BundleError(reason, path=folders[0], remedy=remedy) from error


def _place_encoder(folder: Path, work: Path, model: Encoder, old: Raw | None) -> Raw:
    """Take the encoder as a part: the existing part if it is equal and intact."""
    if old is not None and old["encoder"]["fingerprint"] == model.fingerprint:
        entry: Raw = old["parts"]["encoder"]
        if parts.is_intact(folder, entry):
            return entry
    model.save(work / "encoder")
    return parts.install_part(folder, work / "encoder", "encoder", work)
