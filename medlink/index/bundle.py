"""The bundle: knowledge base, index and encoder that belong together, in one folder.

``manifest.json`` binds the parts by content hash and fingerprint. It is written last and replaced whole, so a build
that is killed leaves either the old bundle or one that says that it is incomplete. One process writes at a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from medlink import __version__
from medlink.errors import BundleError, ConfigError
from medlink.files.folders import locked, remove, scratch_folder
from medlink.files.json import write_json
from medlink.index.concept_index import ConceptIndex
from medlink.index.part import read_manifest
from medlink.kb import KnowledgeBase
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name

FORMAT = 2
MANIFEST, KB, INDEX, ENCODER = "manifest.json", "kb.sqlite", "index", "encoder"
ADDED = "added"
"""Key of the manifest that names the folder of the names that came later, and the beginning of its name."""
_LOCK = ".lock"
_WHAT = "the bundle"


def indexed(names: Iterable[Name]) -> Iterator[Name]:
    """The names that go into an index."""
    # a fully specified name carries its tag ("All (finding)"), which nobody writes
    return (name for name in names if name.type != FSN)


def build_bundle(
    folder: str | Path,
    *,
    kb: str | Path | None = None,
    encoder: str | Path = "builtin",
    calibration: dict[str, Any] | None = None,
    kind: str | None = None,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Bundle:
    """Build index and encoder of a bundle from its knowledge base, or renew them.

    Args:
        folder: the bundle; made when it does not exist.
        kb: knowledge base to copy in; without it ``folder/kb.sqlite`` is used.
        encoder: name for :func:`medlink.models.load_encoder`.
        calibration: weights that turn the evidence for a candidate into a score; kept in the manifest.
        kind, threads, progress: see :meth:`medlink.index.part.Part.build`.

    Raises:
        BundleError: there is no knowledge base.
        ConfigError: the folder cannot be written, or the knowledge base has no names.
    """
    folder = Path(folder)
    model = load_encoder(encoder)
    with writing(folder) as work:
        _refuse_foreign(folder)
        source = folder / KB
        if kb is not None and Path(kb).resolve() != source.resolve():
            KnowledgeBase(kb).close()  # refuse what is no knowledge base
            source = work / KB
            shutil.copyfile(kb, source)
        if not source.exists():
            raise BundleError(
                "no knowledge base in the bundle",
                path=source,
                remedy=f"run 'medlink kb build {source} ...' first, or name one with --kb",
            )
        with KnowledgeBase(source) as store:
            ConceptIndex.build(
                work / INDEX,
                indexed(store.iter_names()),
                model,
                semantic_types=store.iter_semantic_types(),
                kind=kind,
                threads=threads,
                progress=progress,
            )
            model.save(work / ENCODER)
            manifest = {
                "format": FORMAT,
                "medlink": __version__,
                "kb": facts(store),
                "encoder": {"fingerprint": model.fingerprint, "dimension": model.dimension},
                "calibration": calibration or {},
            }
        # Everything is there; from here on it is renames. Without its manifest a bundle says that it is incomplete.
        (folder / MANIFEST).unlink(missing_ok=True)
        for name in (KB, INDEX, ENCODER):
            if (work / name).exists():
                remove(folder / name)
                os.replace(work / name, folder / name)
        write_json(folder / MANIFEST, manifest, _WHAT)
    return Bundle(folder)


def facts(kb: KnowledgeBase) -> dict[str, Any]:
    """What the manifest says of a knowledge base."""
    return {
        "schema_version": kb.schema_version,
        "content_hash": kb.content_hash,
        "sources": [{"name": source.name, "version": source.version} for source in kb.sources()],
    }


@contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """A hidden folder of a bundle to work in, while no other process writes the bundle.

    Raises:
        ConfigError: the folder cannot be written, or another process is writing it.
    """
    with scratch_folder(folder / MANIFEST, _WHAT) as work, locked(folder / _LOCK, _WHAT):
        yield work


def _refuse_foreign(folder: Path) -> None:
    """Refuse to replace an ``index`` or ``encoder`` folder that no build of a bundle made."""
    for name, sign in ((INDEX, "index.json"), (ENCODER, "modules.json")):
        path = folder / name
        if path.exists() and not (path / sign).exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(f"the bundle's place for its {name} is taken", path=path, remedy="name another folder")


class Bundle:
    """A deployment in one folder, opened by memory-mapping; nothing in it is ever written.

    Args:
        folder: a folder made by :func:`build_bundle`.

    Raises:
        BundleError: a part is missing or does not belong to the others; the message names it.
    """

    def __init__(self, folder: str | Path) -> None:
        # the encoder is opened later, perhaps from another working folder
        self.folder = Path(folder).absolute()
        if not self.folder.is_dir():
            raise BundleError("no such bundle", path=self.folder, remedy="name a folder made by 'medlink index build'")
        self._remedy = f"run 'medlink index build {self.folder}'"
        self.manifest = read_manifest(
            self.folder / MANIFEST,
            "bundle",
            FORMAT,
            self._remedy,
            lambda found: (found["kb"]["content_hash"], found["encoder"]["fingerprint"]),
        )
        self.kb = KnowledgeBase(self.folder / KB)
        self._check(
            self.kb.content_hash == self.manifest["kb"]["content_hash"],
            KB,
            "the knowledge base is not the one the index was built from",
        )
        added = self.manifest.get(ADDED)
        self.index = ConceptIndex(self.folder / INDEX, added and self.folder / INDEX / added)
        self._check(
            self.index.manifest["encoder"] == self.manifest["encoder"]["fingerprint"],
            INDEX,
            "the index was built with another encoder than the manifest names",
        )

    def _check(self, holds: bool, part: str, otherwise: str) -> None:
        if not holds:
            raise BundleError(otherwise, path=self.folder / part, remedy=self._remedy)

    def __reduce__(self) -> tuple[type[Bundle], tuple[Path]]:
        return Bundle, (self.folder,)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, loaded and checked against the manifest when it is first needed."""
        self._check((self.folder / ENCODER).is_dir(), ENCODER, "the bundle has no encoder")
        encoder = load_encoder(self.folder / ENCODER)
        same = encoder.fingerprint == self.manifest["encoder"]["fingerprint"]
        self._check(same, ENCODER, "the encoder is not the one the index was built with")
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
