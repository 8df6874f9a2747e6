"""What both components share: which bundle, which language, and how they are saved and pickled."""

from __future__ import annotations

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

from spacy.tokens import Doc
from spacy.vocab import Vocab

from medlink.errors import BundleError
from medlink.index import Bundle
from medlink.language.tags import language_tag
from medlink.linking.demo import BUNDLE_VARIABLE, demo_bundle
from medlink.spacy_components.options import LinkerOptions, MentionsOptions

logger = logging.getLogger("medlink")
_FILE = "medlink.json"
_OPENED: WeakValueDictionary[tuple[str, int, int], Bundle] = WeakValueDictionary()
"""Bundles that a component has open, by folder and by inode and time of the manifest: both components share one."""


def open_bundle(name: str, bundle: str | None) -> Bundle:
    """The bundle of a component: the one it was given, else ``MEDLINK_BUNDLE``, else the demo bundle, which is said."""
    folder = Path(bundle or os.environ.get(BUNDLE_VARIABLE) or demo_bundle())
    if not bundle and not os.environ.get(BUNDLE_VARIABLE):
        said = f"no bundle given and {BUNDLE_VARIABLE} is not set; using the demo terminology in {folder}"
        logger.warning("%s: %s, which is not for clinical use", name, said)
    if not folder.is_dir():
        override = f'for a saved pipeline: spacy.load(PIPELINE, config={{"components.{name}.bundle": FOLDER}})'
        remedy = f"name its folder; {override}" if bundle else f"set {BUNDLE_VARIABLE} to the folder of a bundle"
        raise BundleError("no such bundle", path=folder, remedy=remedy)
    try:
        status = (folder / "manifest.json").stat()
    except OSError:
        return Bundle(folder)  # says what is missing
    key = (str(folder.absolute()), status.st_ino, status.st_mtime_ns)
    return _OPENED.get(key) or _OPENED.setdefault(key, Bundle(folder))


class Component(ABC):
    """Base of both components: a bundle opened by path, saved and pickled by reference and checked when it comes back.

    ``name`` is that of the component in a pipeline with the vocabulary ``vocab``.
    """

    def __init__(self, vocab: Vocab, name: str, options: MentionsOptions | LinkerOptions) -> None:
        self.vocab = vocab
        self.name = name
        given = options.language or vocab.lang
        self.language: str = language_tag(given) or given
        self.bundle = open_bundle(name, options.bundle)
        # Another process must open the same folder, whatever its environment says.
        self.settings = options.to_dict() | {"bundle": str(self.bundle.folder)}

    @abstractmethod
    def _annotate(self, docs: Sequence[Doc]) -> None:
        """Do the work of the component on some documents."""

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents in batches: what several of them share is ranked once."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            self._annotate(batch)
            yield from batch

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.vocab, self.name, **self.settings), ()

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The versions of the bundle, its contents and not its place; the configuration is spaCy's to save."""
        return json.dumps(self.bundle.versions, sort_keys=True).encode("utf-8")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Check that the bundle at hand is the one the pipeline was saved with; BundleError if not."""
        saved = json.loads(data)
        for part in ("kb", "encoder"):
            if saved.get(part) != self.bundle.versions[part]:
                raise BundleError(
                    f"{self.name} was saved with another bundle: its {part} differs",
                    path=self.bundle.folder,
                    remedy="name the bundle it was saved with, or add the component anew",
                )
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write what :meth:`to_bytes` gives into the component's folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Read what :meth:`to_disk` wrote and check it."""
        return self.from_bytes((Path(path) / _FILE).read_bytes())
