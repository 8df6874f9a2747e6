"""The bundles of the service by name; each is opened again after its folder changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from cachetools import LRUCache

from medlink.bundles.paths import MANIFEST
from medlink.errors import ConfigError, MedlinkError
from medlink.index import Bundle
from medlink.linking import Linker
from medlink.notes.options import NoteOptions
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.service.queue import LinkQueue

_PIPELINES = 8  # sets of options to keep ready; making a pipeline takes some milliseconds and some MB
_SECONDS = 1.0  # between two checks of the manifest
# the first note of a language loads its words, one without a language the detector
_WARM_UP = tuple(
    Note("", text, tag) for text, tag in (("Fieber", "de"), ("fever", "en"), ("fiebre", "es"), ("tos", None))
)
_T = TypeVar("_T")
logger = logging.getLogger("medlink")


class OpenBundle:
    """A version of a bundle, with a pipeline for each set of options in use, and a linker for searches."""

    def __init__(self, folder: Path, options: NoteOptions) -> None:
        # resolved: the target of a symbolic link may change before the last file is opened
        self.bundle = Bundle(folder.resolve())
        self.hash = str(self.bundle.manifest["hash"])
        _ = self.bundle.encoder
        self.bundle.index.prepare()
        self._options, self._lock = options, Lock()
        self._first = NotePipeline(self.bundle, **dict(options))
        self.linker = Linker(self.bundle)
        self._pipelines = LRUCache[NoteOptions, NotePipeline](_PIPELINES)

    def pipeline(self, given: Mapping[str, Any]) -> NotePipeline:
        """Return the pipeline with the options of the service, overridden by those of a request.

        Raises:
            ConfigError: an option is out of range, or not available in the bundle.
        """
        options = self._options.replace(**given) if given else self._options
        if options == self._options:
            return self._first
        with self._lock:
            if options not in self._pipelines:
                self._pipelines[options] = NotePipeline(self.bundle, **dict(options))
            return self._pipelines[options]


class ServedBundle:
    """A bundle with a name. ``now`` is its current version; a request keeps the version with which it began."""

    def __init__(self, name: str, folder: Path, options: NoteOptions) -> None:
        self.name, self._folder, self._options = name, folder, options
        self.queue = LinkQueue()
        self._lookups = ThreadPoolExecutor(1, f"lookup-{name}")
        self._seen = self._state()
        self.now = self._open()
        self._is_closed = Event()
        self._watcher = Thread(target=self._watch, name=f"watch-{name}", daemon=True)
        self._watcher.start()

    def call(self, function: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Call a function in the thread for lookups, whose connections to the knowledge base stay open."""
        return self._lookups.submit(function, *arguments)

    def close(self) -> None:
        self._is_closed.set()
        self._watcher.join()
        self._lookups.shutdown(cancel_futures=True)
        self.queue.close()

    def _open(self) -> OpenBundle:
        opened = OpenBundle(self._folder, self._options)
        # connections open now, while their file is surely there
        self.call(opened.bundle.kb.sources).result()
        self.queue.submit(opened.pipeline({}), _WARM_UP, lambda pipeline, linked: None).result()
        return opened

    def _state(self) -> tuple[int, ...]:
        with suppress(OSError):
            found = (self._folder / MANIFEST).stat()
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return ()

    def _watch(self) -> None:
        failed: tuple[int, ...] = ()
        while not self._is_closed.wait(_SECONDS):
            state = self._state()
            if state in (self._seen, ()):  # without a manifest the folder is being replaced
                continue
            try:
                opened = self._open()
            except MedlinkError as error:  # perhaps the folder is still being copied
                if state != failed:
                    logger.warning("%s: the old state is served, the new one cannot be opened: %s", self.name, error)
                failed = state
                continue
            if opened.hash != self.now.hash:
                logger.warning("%s: opened again, with the hash %s", self.name, opened.hash[:16])
            self.now, self._seen = opened, state
            del opened  # a state that was replaced belongs to its requests alone


def open_bundles(given: Iterable[str], options: NoteOptions) -> dict[str, ServedBundle]:
    """Open bundles, each given as its folder or as ``NAME=FOLDER``; ConfigError if two have the same name."""
    folders: dict[str, Path] = {}
    for text in given:
        name, separator, folder = text.partition("=")
        if not separator or Path(text).exists():
            name, folder = Path(text).resolve().name, text
        if name in folders:
            raise ConfigError(f"two bundles have the name {name!r}", remedy="name one of them: NAME=FOLDER")
        folders[name] = Path(folder)
    return {name: ServedBundle(name, folder, options) for name, folder in folders.items()}
