"""Steps that all writers of a bundle share: take its parts, fill its index, replace its manifest."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn

from medlink.bundles import parts
from medlink.bundles.parts import Raw
from medlink.bundles.paths import KB_FILE, is_part
from medlink.errors import BundleError, ConfigError, EncoderError
from medlink.files.folders import exclusive_lock, remove
from medlink.files.problems import pluralize
from medlink.index.building import BuildOptions, build_segment
from medlink.index.bundle import BundleManifest, extend_call
from medlink.index.segment import Segment
from medlink.index.suspect_translations import find_suspect_translations
from medlink.index.vectors import vector_index
from medlink.kb import KnowledgeBase
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.tables import read_folder
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name

_LISTED = 20  # words of a lexicon folder that the manifest lists
_SHARDS = ".embedded"  # folder of the embeddings of many names, from which the next build resumes after a kill


def is_indexed(name: Name) -> bool:
    # nobody writes the tag of a fully specified name ("All (finding)")
    return name.type != FSN


def fill_index(
    work: Path, store: KnowledgeBase, model: Encoder, forms: LexiconForms, options: BuildOptions,
    known: Sequence[Segment] = (),
) -> list[Raw]:  # fmt: skip
    """Build the index of a knowledge base without suspect translations; return their entries for the manifest."""
    vector_index(options.kind or "flat")  # an unknown kind and a missing library fail before the work
    suspects = dict(find_suspect_translations(store, forms))
    shards = work.parent / _SHARDS
    names = (name for name in store.iter_names() if is_indexed(name) and name not in suspects)
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


def report_left_out(folder: Path, suspects: Sequence[Raw], lost: str, on_message: Callable[[str], object]) -> None:
    if suspects:
        first = suspects[0]
        on_message(
            f"{pluralize(len(suspects), 'name')} left out of the index as suspect translations, such as "
            f"{first['name']!r}, a name of {first['concept_id']} that means {first['says']!r}. "
            f"Bundle({shlex.quote(str(folder))}) lists them"
        )
    if lost:
        on_message(f"{lost}: add the tables again, with {extend_call(folder)}")


def describe_lexicon(folders: Iterable[str | Path]) -> list[Raw]:
    """Manifest entries of lexicon folders: their number of rows, and the first words."""
    entries = []
    for folder in map(Path, folders):
        rows = read_folder(folder)
        members = chain.from_iterable(entry.members for entry in rows.entries)
        forms = chain((member.form for member in members), *(short.forms for short in rows.abbreviations))
        words = list(islice(dict.fromkeys(forms), _LISTED))
        entries.append({"folder": folder.resolve().name, "rows": rows.count, "words": words})
    return entries


def describe_kb(kb: KnowledgeBase) -> Raw:
    sources = [{"name": source.name, "version": source.version} for source in kb.sources()]
    return {"schema_version": kb.schema_version, "content_hash": kb.content_hash, "sources": sources}


def finish(folder: Path, work: Path, manifest: Raw) -> None:
    """Replace the manifest of a bundle, and remove all parts that it does not name."""
    incoming, taken = folder / KB_FILE, folder / manifest["parts"]["kb"]["folder"] / KB_FILE
    if incoming.exists() and incoming.samefile(taken) and not parts.is_intact(folder, manifest["parts"]["kb"]):
        # a hard link still shares the content
        raise ConfigError("the knowledge base was changed meanwhile", path=incoming, remedy="build again")
    parts.install_manifest(folder, work, manifest)
    recover(folder, work)
    remove(folder / _SHARDS)


def recover(folder: Path, work: Path) -> Raw | None:
    """Read the manifest of a bundle, and clean up after a killed writer; ``None`` without a sound manifest."""
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


def take_kb(folder: Path, work: Path, kb: str | Path | None, old: Raw | None) -> Raw:
    """Store the knowledge base as a part of the bundle: ``kb``, else the pending one, else the present one."""
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
        return entries[0] if entries else no_kb(folder)
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


def no_kb(folder: Path) -> NoReturn:
    remedy = f"run build_kb({folder}, ...) first, or name one with kb=..."
    raise BundleError("no knowledge base in the bundle", path=folder / KB_FILE, remedy=remedy)


def load_own_encoder(folder: Path, old: Raw | None) -> Encoder:
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


def place_encoder(folder: Path, work: Path, model: Encoder, old: Raw | None) -> Raw:
    """Store the encoder as a part of the bundle; keep the existing part if it is equal and intact."""
    if old is not None and old["encoder"]["fingerprint"] == model.fingerprint:
        entry: Raw = old["parts"]["encoder"]
        if parts.is_intact(folder, entry):
            return entry
    model.save(work / "encoder")
    return parts.install_part(folder, work / "encoder", "encoder", work)
