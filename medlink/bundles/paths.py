"""What is at a path where a bundle, or a knowledge base, is looked for or made."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from medlink.errors import BundleError, ConfigError

MANIFEST = "manifest.json"
KB_FILE = "kb.sqlite"
"""Name of a knowledge base in a folder, which a bundle is built from."""
PART = "(kb|index|encoder|added)-[0-9a-f]{16}"


def is_part(path: Path) -> bool:
    """Whether a path has the name of a part."""
    return re.fullmatch(PART, path.name) is not None


def refuse_part(path: Path) -> None:
    """Refuse a path that is a part of a bundle, or lies in one; raises :class:`BundleError`."""
    real = Path(os.path.realpath(path))
    for part in filter(is_part, (path, *path.parents, real, *real.parents)):
        bundle = part.parent
        with suppress(OSError):
            if any(beside.name == MANIFEST or is_part(beside) for beside in bundle.iterdir() if beside != part):
                raise BundleError(f"is a part of the bundle {bundle}", path=path, remedy=f"name {bundle}")


def refuse_other(folder: Path, remedy: str = "name a new folder") -> None:
    """Refuse to make a bundle in a part of one (:class:`BundleError`), or among other files (:class:`ConfigError`)."""
    refuse_part(folder)
    inside: list[Path] = []
    with suppress(OSError):
        inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if inside and not any(path.name in (KB_FILE, MANIFEST) or is_part(path) for path in inside):
        raise ConfigError("is a folder with other files", path=folder, remedy=remedy)


def bundles_instead(folder: Path) -> list[Path] | None:
    """The bundles in a folder that has nothing of a bundle itself, nor what one is made of; else ``None``."""
    with suppress(OSError):
        inside = list(folder.iterdir())
        own = any(path.name == MANIFEST or path.suffix == ".sqlite" or re.match(PART, path.name) for path in inside)
        return None if own else [path for path in inside if (path / MANIFEST).is_file()]
    return None
