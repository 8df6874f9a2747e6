"""What both components share: which bundle, which language, and how they are saved and pickled."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from spacy.vocab import Vocab

from medlink.errors import BundleError
from medlink.index import Bundle
from medlink.language.tags import language_tag
from medlink.linking.demo import BUNDLE_VARIABLE, demo_bundle

logger = logging.getLogger("medlink")
_FILE = "medlink.json"


def open_bundle(name: str, bundle: str | None) -> Bundle:
    """The bundle of a component: the one it was given, else ``MEDLINK_BUNDLE``, else the demo bundle, which is said."""
    if bundle:
        return Bundle(bundle)
    if os.environ.get(BUNDLE_VARIABLE):
        return Bundle(os.environ[BUNDLE_VARIABLE])
    folder = demo_bundle()
    logger.warning(
        "%s: no bundle given and %s is not set; using the demo terminology in %s, which is not for clinical use",
        name,
        BUNDLE_VARIABLE,
        folder,
    )
    return Bundle(folder)


def _restore(kind: type[Component], vocab: Vocab, name: str, settings: dict[str, Any]) -> Component:
    return kind(vocab, name, **settings)


class Component:
    """Base of both components: a bundle opened by path, saved and pickled by reference and checked when it comes back.

    Args:
        vocab: vocabulary of the pipeline.
        name: name of the component in it.
        settings: its configuration, plain data; ``bundle`` and ``language`` are used here.
    """

    def __init__(self, vocab: Vocab, name: str, **settings: Any) -> None:
        self.vocab = vocab
        self.name = name
        self.settings = settings
        given = settings["language"] or vocab.lang
        self.language: str = language_tag(given) or given
        self.bundle = open_bundle(name, settings["bundle"])
        # Another process must open the same folder, whatever its environment says.
        self.settings["bundle"] = str(self.bundle.folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.vocab, self.name, self.settings)

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on: the contents of the bundle, not its place."""
        return self.bundle.versions

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The identity of the bundle; the configuration is spaCy's to save."""
        return json.dumps(self.identity, sort_keys=True).encode("utf-8")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Check that the bundle at hand is the one the pipeline was saved with.

        Raises:
            BundleError: it has other names or another encoder.
        """
        saved = json.loads(data)
        for part in ("kb", "encoder"):
            if saved.get(part) != self.identity[part]:
                raise BundleError(
                    f"{self.name} was saved with another bundle: its {part} differs",
                    path=self.bundle.folder,
                    remedy="name the bundle it was saved with, or add the component anew",
                )
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the identity of the bundle into the component's folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Read what :meth:`to_disk` wrote and check it."""
        return self.from_bytes((Path(path) / _FILE).read_bytes())
