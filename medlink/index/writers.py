"""Write a bundle: build it, add names to it, or update it to a new release.

New parts are made beside those that are there, and count when the manifest that names them takes its place: killed at
any moment, the bundle is the old one or the new one. While another process writes it, a writer waits.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from medlink import __version__
from medlink.bundles import parts
from medlink.bundles.parts import Raw
from medlink.bundles.paths import KB_FILE, MANIFEST, is_part, refuse_other
from medlink.errors import BundleError, ConfigError, EncoderError
from medlink.files.atomic import check_targets
from medlink.files.folders import alone, remove
from medlink.files.problems import counted
from medlink.index.building import Progress, build_part, same_rows
from medlink.index.bundle import Bundle, BundleManifest, add_again, lost_names, reopened
from medlink.index.segment import Part
from medlink.index.suspect_translations import doubted_names
from medlink.index.vectors import choose
from medlink.kb import BuildReport, ChangeReport, ExtendReport, Input, KnowledgeBase, build_kb, compare_kbs, extend_kb
from medlink.language.lexicon.forms import Forms, forms_of
from medlink.language.lexicon.tables import read_folder
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name

logger = logging.getLogger("medlink")
_SHOWN = 20  # words of a house that the manifest names


@dataclass(frozen=True, slots=True)
class AddReport:
    """What :func:`extend_bundle` did: what the knowledge base took in, the names of the index now, and those of them
    that were ``added`` since its main part was built."""

    path: str
    kb: ExtendReport
    names: int
    added: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What :func:`update_bundle` did: what became of the inputs (``None`` where there were none), what the release
    changes, the distinct names of the index now, and those of them that were ``embedded`` anew."""

    path: str
    kb: BuildReport | None
    changes: ChangeReport
    names: int
    embedded: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


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
    say: Callable[[str], object] = logger.warning,
) -> Bundle:
    """Build index and encoder of a bundle from its knowledge base, or renew them.

    Args:
        folder: the bundle; made when it does not exist.
        kb: knowledge base to copy in, or a folder with one; without it ``folder/kb.sqlite`` is taken in, which is then
            gone, and without that the bundle's own is used again, with all that was added to it.
        encoder: name for :func:`medlink.models.load_encoder`; without it the encoder that the bundle has, else the
            built-in one.
        calibration: weights that turn the evidence for a candidate into a score; kept in the manifest.
        lexicon: folders of a house with words of its own (``docs/how-to/own-words.md``), by which names are read.
        kind, memory, threads, progress: see :func:`medlink.index.building.build_part`.
        say: called, when all is done, with a sentence on what the bundle leaves out; else it is logged.

    Raises:
        BundleError: there is no knowledge base, or it or the encoder that the bundle has is damaged.
        ConfigError: the folder holds other files or cannot be written, or the knowledge base has no names.
    """
    folder = Path(folder)
    refuse_other(folder)
    if folder.is_file():
        remedy = f"name a folder: build_bundle(BUNDLE, kb={shlex.quote(str(kb or folder))})"
        raise BundleError("is a file, a bundle is a folder", path=folder, remedy=remedy)
    named = None if encoder is None else load_encoder(encoder)
    there = ((folder / name).exists() for name in (KB_FILE, MANIFEST))
    if kb is None and not any(there) and not any(map(is_part, folder.glob("kb-*"))):
        _no_kb(folder)
    if kb is not None:
        KnowledgeBase(kb).close()  # refused before anything is made
    forms = forms_of(lexicon)
    with parts.writing(folder) as work:
        old = _present(folder, work)
        own = _take(folder, work, kb, old)
        model = _own_encoder(folder, old) if named is None else named
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            options = {"kind": kind, "memory": memory, "threads": threads, "progress": progress}
            doubted = _fill_index(work, store, model, forms, **options)
            manifest = {
                "format": parts.FORMAT,
                "medlink": __version__,
                "kb": _facts(store),
                "encoder": {"fingerprint": model.fingerprint, "dimension": model.dimension},
                "calibration": calibration or {},
                "lexicon": _own_words(lexicon),
                "doubted": doubted,
                "parts": {
                    "kb": own,
                    "index": parts.place(folder, work / "index", "index", work),
                    "encoder": _saved(folder, work, model, old),
                },
            }
        left_out = lost_names(folder, old, folder / own["folder"])
        _finish(folder, work, manifest)
    if old is not None and named is not None and old["encoder"]["fingerprint"] != named.fingerprint:
        say(f"the encoder is {encoder}, another one than before")
    before: list[Raw] = [] if old is None else old.get("lexicon", [])
    if gone := {one["folder"] for one in before}.difference(Path(given).resolve().name for given in lexicon):
        say(f"the words of {', '.join(sorted(gone))} are no longer in the bundle: name each folder with lexicon=...")
    _say_left_out(folder, doubted, left_out, say)
    return Bundle(folder)


def extend_bundle(
    folder: str | Path, inputs: Sequence[Input], *, max_bad_share: float = 0.01, progress: Progress | None = None
) -> AddReport:
    """Add new concepts, and further names of known ones, to a bundle: its index gets a second part.

    The time grows with all that was added since the main part of the index was built, and with the copy of the
    knowledge base; no other name is embedded or indexed again. Links are those of a bundle that was built with
    everything, but that the weights of words are those of the main part, and that either part may bring its share of
    candidates. Inputs are those of :func:`medlink.kb.extend_kb`.

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
        _present(folder, work)
        bundle = Bundle(folder)  # what those wrote that this one waited for
        _ = bundle.encoder  # refused before the work where it cannot be used
        (work / "kb").mkdir()
        report = extend_kb(bundle.kb.path, work / "kb" / KB_FILE, inputs, max_bad_share=max_bad_share)
        manifest = bundle.manifest
        if report.content_hash != bundle.kb.content_hash:
            manifest = _extend_index(bundle, work, report, progress)
        entries = {**manifest["parts"], "kb": parts.place(folder, work / "kb", "kb", work)}
        bundle.release()
        _finish(folder, work, {**manifest, "parts": entries})
    made = Bundle(folder)
    index = made.index.manifest
    added = index.get("added", {"names": 0})["names"]
    report, seconds = replace(report, path=str(made.kb.path)), round(time.perf_counter() - began, 3)
    return AddReport(str(Path(given)), report, index["names"], added, seconds)


def _extend_index(bundle: Bundle, work: Path, report: ExtendReport, progress: Progress | None) -> Raw:
    """Build the part of all names that came later; gives the manifest of the bundle with it."""
    # rows above the marks are not in the main part; nothing was added before the first time
    marks = bundle.manifest["kb"].get("marks", report.marks)
    with KnowledgeBase(work / "kb" / KB_FILE) as kb:
        names = list(filter(_is_indexed, kb.iter_names(after=marks["name"])))
        concepts = {name.concept_id for name in names}
        concepts.update(t.concept_id for t in kb.iter_semantic_types(after=marks["semantic_type"]))
        # all types of a concept: those of before stand in the main part, or nowhere where it had no name
        types = [semantic_type for concept_id in sorted(concepts) for semantic_type in kb.semantic_types(concept_id)]
        described = {**_facts(kb), "marks": marks}
    main = bundle.index.parts[0]
    build_part(work / "added", names, bundle.encoder, semantic_types=types, progress=progress, main=main)
    entries = {**bundle.manifest["parts"], "added": parts.place(bundle.folder, work / "added", "added", work)}
    return {**bundle.manifest, "kb": described, "parts": entries}


def update_bundle(
    folder: str | Path,
    inputs: Sequence[Input] = (),
    *,
    changes: str | Path | None = None,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    threads: int = 1,
    progress: Progress | None = None,
    say: Callable[[str], object] = logger.warning,
) -> UpdateReport:
    """Replace the knowledge base of a bundle by one of a new release, and build its index anew from what is known.

    Links are those of a bundle that was built with the new release; encoder, weights, the words of a house and a kind
    of index that was named stay. The names that stay are not embedded again. What was added to the bundle is not in it
    unless the inputs bring it.

    Args:
        folder: the bundle.
        inputs: the new release; see :func:`medlink.kb.build_kb`. Without one the knowledge base that waits in the
            folder is taken in, and without that the bundle's own with all that was added to it.
        changes: where to write what differs; see :func:`medlink.kb.compare_kbs`.
        languages, under, not_under, max_bad_share: as for :func:`medlink.kb.build_kb`; all but the last only with
            ``inputs``.
        threads, progress, say: as for :func:`build_bundle`.

    Raises:
        BundleError: the bundle or its encoder cannot be used.
        ConfigError: an option is unknown or needs inputs, the folder or the changes cannot be written, or there are no
            names.
        InputError: an input cannot be used.
        KnowledgeBaseError: a knowledge base is damaged, or cannot be written.
    """
    began = time.perf_counter()
    given, folder = folder, Path(folder).absolute()
    # refused before anything is made
    named = {"languages": languages is not None, "under": under, "not-under": not_under}
    if not inputs and (unused := [f"--{name}" for name, given_one in named.items() if given_one]):
        message = f"{', '.join(unused)} is for files of a release, and there are none"
        raise ConfigError(message, remedy="name them, or leave it out")
    parts.read_state(folder, BundleManifest)
    check_targets({"the output": changes}, [folder, *(one.path for one in inputs)])
    with parts.writing(folder) as work:
        old = _present(folder, work)
        bundle = reopened(folder, parts.read_state(folder, BundleManifest))  # what those wrote that this one waited for
        encoder, main = bundle.encoder, bundle.index.parts[0]  # refused before the work where it cannot be used
        report: BuildReport | None = None
        if inputs:
            (work / "kb").mkdir()
            chosen = {"languages": languages, "under": under, "not_under": not_under, "max_bad_share": max_bad_share}
            report = build_kb(work / "kb" / KB_FILE, inputs, **chosen)  # type: ignore[arg-type]  # each of its own type
            own = parts.place(folder, work / "kb", "kb", work)
        else:
            own = _take(folder, work, None, old)
        kind, memory = main.manifest["kind"], main.manifest.get("memory")
        # one that a build chose is chosen again, for the size may ask for another
        kind = None if kind == choose(len(main.names), encoder.dimension, memory) else kind
        options = {"kind": kind, "memory": memory, "threads": threads, "progress": progress}
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            doubted = _fill_index(work, store, encoder, bundle.index.forms, known=bundle.index.parts, **options)
            described = _facts(store)
        index = Part(work / "index").names
        new = np.all([same_rows(index, part.names) < 0 for part in bundle.index.parts], axis=0)
        placed = parts.place(folder, work / "index", "index", work)
        entries = {"kb": own, "index": placed, "encoder": bundle.manifest["parts"]["encoder"]}
        manifest = {**bundle.manifest, "medlink": __version__, "kb": described, "doubted": doubted, "parts": entries}
        differs = compare_kbs(bundle.kb.path, folder / own["folder"] / KB_FILE, changes)
        left_out = lost_names(folder, old, folder / own["folder"])
        bundle.release()
        _finish(folder, work, manifest)
    _say_left_out(Path(given), doubted, left_out, say)
    made = reopened(folder, manifest)
    if report is not None:
        report = replace(report, path=str(made.kb.path))
    seconds = round(time.perf_counter() - began, 3)
    return UpdateReport(str(Path(given)), report, differs, len(made.index), int(np.count_nonzero(new)), seconds)


def _is_indexed(name: Name) -> bool:
    # a fully specified name carries its tag ("All (finding)"), which nobody writes
    return name.type != FSN


def _fill_index(work: Path, store: KnowledgeBase, model: Encoder, forms: Forms, **options: Any) -> list[Raw]:
    """Build the index of a knowledge base without the names that are doubted; gives what the manifest says of these."""
    doubted = dict(doubted_names(store, forms))
    shards = _shards(work.parent)
    names = (name for name in store.iter_names() if _is_indexed(name) and name not in doubted)
    types = store.iter_semantic_types()
    try:
        build_part(work / "index", names, model, semantic_types=types, forms=forms, shards=shards, **options)
    except Exception:
        remove(shards)
        raise
    return [
        {"concept_id": one.concept_id, "language": one.language, "name": one.text, "says": says}
        for one, says in doubted.items()
    ]


def _shards(folder: Path) -> Path:
    """Where the embeddings of many names wait: the next build of them goes on there after one that was killed."""
    return folder / ".embedded"


def _say_left_out(folder: Path, doubted: Sequence[Raw], left_out: str, say: Callable[[str], object]) -> None:
    if doubted:
        one = doubted[0]
        say(
            "not in the index, as they say another concept than the names beside them: "
            f"{counted(len(doubted), 'name')}, such as {one['name']!r}, a name of {one['concept_id']} that means "
            f"{one['says']!r}. Bundle({shlex.quote(str(folder))}) lists them"
        )
    if left_out:
        say(f"{left_out}: add the tables again, with {add_again(folder)}")


def _own_words(folders: Iterable[str | Path]) -> list[Raw]:
    """What the manifest says of the folders of a house with words of its own: their rows, and the first words."""
    told = []
    for folder in map(Path, folders):
        rows = read_folder(folder)
        members = chain.from_iterable(entry.members for entry in rows.entries)
        forms = chain((one.form for one in members), (form for one in rows.abbreviations for form in one.forms))
        words = list(islice(dict.fromkeys(forms), _SHOWN))
        told.append({"folder": folder.resolve().name, "rows": rows.count, "words": words})
    return told


def _facts(kb: KnowledgeBase) -> Raw:
    """What the manifest says of a knowledge base."""
    sources = [{"name": source.name, "version": source.version} for source in kb.sources()]
    return {"schema_version": kb.schema_version, "content_hash": kb.content_hash, "sources": sources}


def _finish(folder: Path, work: Path, manifest: Raw) -> None:
    """Switch a bundle over to a manifest, and remove what it does not name."""
    incoming, taken = folder / KB_FILE, folder / manifest["parts"]["kb"]["folder"] / KB_FILE
    if incoming.exists() and incoming.samefile(taken) and not parts.is_sound(folder, manifest["parts"]["kb"]):
        # it was taken in by a link
        raise ConfigError("the knowledge base was changed meanwhile", path=incoming, remedy="build again")
    parts.switch(folder, work, manifest)
    _present(folder, work)
    remove(_shards(folder))


def _present(folder: Path, work: Path) -> Raw | None:
    """The manifest of a bundle, ``None`` where there is none that is sound; what a killed writer left is removed."""
    try:
        manifest = parts.read_state(folder, BundleManifest)
    except BundleError:
        return None
    with alone(folder):
        if parts.is_copy(folder / KB_FILE, folder, manifest["parts"]["kb"]):
            (folder / KB_FILE).unlink()
    parts.clean(folder, work, manifest)
    if _is_format_2(folder):
        # the index goes last, as the sign that both are left over
        for name, sign in (("encoder", "modules.json"), ("index", "index.json")):
            if (folder / name / sign).exists():
                os.replace(folder / name, work / f"old-{name}")
    return manifest


def _is_format_2(folder: Path) -> bool:
    """Whether there is an index of a bundle of format 2, which has its encoder beside it."""
    return (folder / "index" / "index.json").exists()


def _take(folder: Path, work: Path, kb: str | Path | None, old: Raw | None) -> Raw:
    """The knowledge base of a build as a part: a copy of ``kb``, else the one that waits, else that of the bundle."""
    incoming = folder / KB_FILE
    if kb is None and not incoming.exists():
        found = parts.named_by_content(folder, "kb") if old is None else [old["parts"]["kb"]]
        if old is not None and not parts.is_sound(folder, found[0]):
            remedy = f"copy it from another place, or build it again with build_kb({folder}, ...)"
            damaged = folder / found[0]["folder"]
            raise BundleError("the knowledge base of the bundle is damaged", path=damaged, remedy=remedy)
        if len(found) > 1:
            remedy = f"name one of them with kb=...: {', '.join(entry['folder'] for entry in found)}"
            message = "the manifest is lost, and there are several knowledge bases"
            raise BundleError(message, path=folder, remedy=remedy)
        return found[0] if found else _no_kb(folder)
    draft = work / "kb" / KB_FILE
    draft.parent.mkdir()
    if kb is not None and not (incoming.exists() and incoming.samefile(kb)):
        with KnowledgeBase(kb) as given:
            shutil.copyfile(given.path, draft)
    else:
        KnowledgeBase(incoming).close()
        try:
            # what has another name, or is of another user, is somebody's, who may write to it
            status = incoming.lstat()
            if incoming.is_symlink() or status.st_nlink > 1 or status.st_uid != os.geteuid():
                raise OSError
            os.link(incoming, draft)
        except OSError:
            remove(draft)
            shutil.copyfile(incoming, draft)
    return parts.place(folder, draft.parent, "kb", work)


def _no_kb(folder: Path) -> NoReturn:
    remedy = f"run build_kb({folder}, ...) first, or name one with kb=..."
    raise BundleError("no knowledge base in the bundle", path=folder / KB_FILE, remedy=remedy)


def _own_encoder(folder: Path, old: Raw | None) -> Encoder:
    """The encoder that a bundle has, also where its manifest is lost or of format 2; else the built-in one."""
    entries = parts.named_by_content(folder, "encoder") if old is None else [old["parts"]["encoder"]]
    found = [folder / entry["folder"] for entry in entries if parts.is_sound(folder, entry)]
    if old is None and _is_format_2(folder) and (folder / "encoder" / "modules.json").exists():
        found.append(folder / "encoder")
    if old is None and not found and not any(map(is_part, folder.glob("encoder-*"))):
        return load_encoder()
    if len(found) > 1:
        remedy = f"name one of them with encoder=...: {', '.join(map(str, found))}"
        raise BundleError(
            "there are several encoders, and no manifest that names one of them", path=folder, remedy=remedy
        )
    remedy = parts.rebuild(folder, "encoder")
    if not found:
        where = folder if old is None else folder / entries[0]["folder"]
        raise BundleError("the encoder of the bundle is damaged", path=where, remedy=remedy)
    try:
        return load_encoder(found[0], is_checked=True)
    except EncoderError as error:
        reason = f"the encoder of the bundle cannot be used: {error.message}"
        raise BundleError(reason, path=found[0], remedy=remedy) from error


def _saved(folder: Path, work: Path, model: Encoder, old: Raw | None) -> Raw:
    """The encoder as a part: the one that is there where it is the same and sound."""
    if old is not None and old["encoder"]["fingerprint"] == model.fingerprint:
        entry: Raw = old["parts"]["encoder"]
        if parts.is_sound(folder, entry):
            return entry
    model.save(work / "encoder")
    return parts.place(folder, work / "encoder", "encoder", work)
