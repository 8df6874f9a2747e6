"""The bundle: knowledge base, index and encoder that belong together, in one folder of parts.

``manifest.json`` names the parts and binds them by content hash and fingerprint (:mod:`medlink.bundles.parts`). The
knowledge base that ``medlink kb build`` writes into the folder is no part of it until the bundle is built.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from medlink import __version__
from medlink.bundles import parts
from medlink.bundles.parts import FORMAT, Opened, Raw
from medlink.bundles.places import KB_FILE, MANIFEST, is_part, refuse_other
from medlink.errors import BundleError, ConfigError, EncoderError
from medlink.files.folders import alone, remove
from medlink.files.problems import counted
from medlink.index.concept_index import ConceptIndex
from medlink.index.doubted import doubted_names
from medlink.index.manifest import BundleManifest, facts, own_words
from medlink.index.waiting import add_again, lost_names, newer_kb
from medlink.kb import KnowledgeBase
from medlink.language.lexicon.forms import Forms, forms_of
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name

logger = logging.getLogger("medlink")


def indexed(names: Iterable[Name]) -> Iterator[Name]:
    """The names that go into an index."""
    # a fully specified name carries its tag ("All (finding)"), which nobody writes
    return (name for name in names if name.type != FSN)


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
    progress: Callable[[str, int, int], None] | None = None,
    say: Callable[[str], object] = logger.warning,
) -> Bundle:
    """Build index and encoder of a bundle from its knowledge base, or renew them.

    Killed at any moment, the bundle is the old one or the new one. While another process writes it, this one waits.

    Args:
        folder: the bundle; made when it does not exist.
        kb: knowledge base to copy in, or a folder with one; without it ``folder/kb.sqlite`` is taken in, which is then
            gone, and without that the bundle's own is used again, with all that was added to it.
        encoder: name for :func:`medlink.models.load_encoder`; without it the encoder that the bundle has, else the
            built-in one.
        calibration: weights that turn the evidence for a candidate into a score; kept in the manifest.
        lexicon: folders of a house with words of its own (``docs/lexicon.md``), by which names are read.
        kind, memory, threads, progress: see :meth:`medlink.index.part.Part.build`.
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
        old = present(folder, work)
        own = take(folder, work, kb, old)
        model = _own_encoder(folder, old) if named is None else named
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            options = {"kind": kind, "memory": memory, "threads": threads, "progress": progress}
            doubted = fill_index(work, store, model, forms, **options)
            manifest = {
                "format": FORMAT,
                "medlink": __version__,
                "kb": facts(store),
                "encoder": {"fingerprint": model.fingerprint, "dimension": model.dimension},
                "calibration": calibration or {},
                "lexicon": own_words(lexicon),
                "doubted": doubted,
                "parts": {
                    "kb": own,
                    "index": parts.place(folder, work / "index", "index", work),
                    "encoder": _saved(folder, work, model, old),
                },
            }
        left_out = lost_names(folder, old, folder / own["folder"])
        finish(folder, work, manifest)
    if old is not None and named is not None and old["encoder"]["fingerprint"] != named.fingerprint:
        say(f"the encoder is {encoder}, another one than before")
    before: list[Raw] = [] if old is None else old.get("lexicon", [])
    if gone := {one["folder"] for one in before}.difference(Path(given).resolve().name for given in lexicon):
        say(f"the words of {', '.join(sorted(gone))} are no longer in the bundle: name each folder with lexicon=...")
    say_left_out(folder, doubted, left_out, say)
    return Bundle(folder)


def fill_index(work: Path, store: KnowledgeBase, model: Encoder, forms: Forms, **options: Any) -> list[Raw]:
    """Build the index of a knowledge base without the names that are doubted; gives what the manifest says of these.

    ``options`` are those of :meth:`medlink.index.part.Part.build`.
    """
    doubted = dict(doubted_names(store, forms))
    shards = _shards(work.parent)
    try:
        ConceptIndex.build(
            work / "index",
            (name for name in indexed(store.iter_names()) if name not in doubted),
            model,
            semantic_types=store.iter_semantic_types(),
            forms=forms,
            shards=shards,
            **options,
        )
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


def say_left_out(folder: Path, doubted: Sequence[Raw], left_out: str, say: Callable[[str], object]) -> None:
    """Say which names of a knowledge base are not in the index, and what was added before and is not there now."""
    if doubted:
        one = doubted[0]
        say(
            "not in the index, as they say another concept than the names beside them: "
            f"{counted(len(doubted), 'name')}, such as {one['name']!r}, a name of {one['concept_id']} that means "
            f"{one['says']!r}. Bundle({shlex.quote(str(folder))}) lists them"
        )
    if left_out:
        say(f"{left_out}: add the tables again, with {add_again(folder)}")


def finish(folder: Path, work: Path, manifest: Raw) -> None:
    """Switch a bundle over to a manifest, and remove what it does not name.

    Raises:
        ConfigError: the knowledge base that was taken in was written to meanwhile.
    """
    incoming, taken = folder / KB_FILE, folder / manifest["parts"]["kb"]["folder"] / KB_FILE
    if incoming.exists() and incoming.samefile(taken) and not parts.is_sound(folder, manifest["parts"]["kb"]):
        # it was taken in by a link
        raise ConfigError("the knowledge base was changed meanwhile", path=incoming, remedy="build again")
    parts.switch(folder, work, manifest)
    present(folder, work)
    remove(_shards(folder))


def present(folder: Path, work: Path) -> Raw | None:
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


def take(folder: Path, work: Path, kb: str | Path | None, old: Raw | None) -> Raw:
    """The knowledge base of a build as a part: a copy of ``kb``, else the one that waits, else that of the bundle."""
    incoming = folder / KB_FILE
    if kb is None and not incoming.exists():
        found = parts.named_by_content(folder, "kb") if old is None else [old["parts"]["kb"]]
        if old is not None and not parts.is_sound(folder, found[0]):
            raise BundleError(
                "the knowledge base of the bundle is damaged",
                path=folder / found[0]["folder"],
                remedy=f"copy it from another place, or build it again with build_kb({folder}, ...)",
            )
        if len(found) > 1:
            raise BundleError(
                "the manifest is lost, and there are several knowledge bases",
                path=folder,
                remedy=f"name one of them with kb=...: {', '.join(entry['folder'] for entry in found)}",
            )
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


def _no_kb(folder: Path) -> Any:
    raise BundleError(
        "no knowledge base in the bundle",
        path=folder / KB_FILE,
        remedy=f"run build_kb({folder}, ...) first, or name one with kb=...",
    )


def _own_encoder(folder: Path, old: Raw | None) -> Encoder:
    """The encoder that a bundle has, also where its manifest is lost or of format 2; else the built-in one."""
    entries = parts.named_by_content(folder, "encoder") if old is None else [old["parts"]["encoder"]]
    found = [folder / entry["folder"] for entry in entries if parts.is_sound(folder, entry)]
    if old is None and _is_format_2(folder) and (folder / "encoder" / "modules.json").exists():
        found.append(folder / "encoder")
    if old is None and not found and not any(map(is_part, folder.glob("encoder-*"))):
        return load_encoder()
    if len(found) > 1:
        raise BundleError(
            "there are several encoders, and no manifest that names one of them",
            path=folder,
            remedy=f"name one of them with encoder=...: {', '.join(map(str, found))}",
        )
    remedy = parts.rebuild(folder, "encoder")
    if not found:
        where = folder if old is None else folder / entries[0]["folder"]
        raise BundleError("the encoder of the bundle is damaged", path=where, remedy=remedy)
    try:
        return load_encoder(found[0])
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


class Bundle:
    """A deployment in one folder, opened by memory-mapping; nothing in it is ever written.

    Where another knowledge base waits in the folder to be taken in, that is logged.

    The parts that were opened stay on the disk as long as this lives, also when another process writes the bundle. A
    pickled bundle opens the same parts.

    Args:
        folder: a folder made by :func:`build_bundle`.

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
        self._check(
            self.kb.content_hash == self.manifest["kb"]["content_hash"],
            "kb",
            "the knowledge base is not the one the index was built from",
        )
        self.index = ConceptIndex(state.part("index"), added)
        self._check(
            self.index.manifest["encoder"] == self.manifest["encoder"]["fingerprint"],
            "index",
            "the index was built with another encoder than the manifest names",
        )

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
        encoder = load_encoder(self._state.part("encoder"))
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
