"""Checks of paths at which a bundle or a knowledge base is opened or created."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from medlink.errors import BundleError, ConfigError

MANIFEST = "manifest.json"
KB_FILE = "kb.sqlite"
"""Name of the knowledge base in a folder that becomes a bundle."""
PART_PATTERN = "(kb|index|encoder|added)-[0-9a-f]{16}"


def is_part(path: Path) -> bool:
    """Return whether a path has the name of a bundle part."""
    return re.fullmatch(PART_PATTERN, path.name) is not None


def check_not_in_bundle(path: Path) -> None:
    """Raise :class:`BundleError` if a path is a part of a bundle or inside one."""
    real = Path(os.path.realpath(path))
    for part in filter(is_part, (path, *path.parents, real, *real.parents)):
        bundle = part.parent
        with suppress(OSError):
            if any(sibling.name == MANIFEST or is_part(sibling) for sibling in bundle.iterdir() if sibling != part):
                raise BundleError(f"is a part of the bundle {bundle}", path=path, remedy=f"name {bundle}")


def check_bundle_target(folder: Path, remedy: str = "name a new folder") -> None:
    """Raise if no bundle may be created in a folder.

    Raises:
        BundleError: it is a part of a bundle or inside one.
        ConfigError: it holds other files.
    """
    check_not_in_bundle(folder)
    entries: list[Path] = []
    with suppress(OSError):
        entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if entries and not any(path.name in (KB_FILE, MANIFEST) or is_part(path) for path in entries):
        raise ConfigError("is a folder with other files", path=folder, remedy=remedy)


def find_inner_bundles(folder: Path) -> list[Path] | None:
    """Return the bundles in a folder, ``None`` if it is a bundle, or holds a knowledge base or a bundle part."""
    with suppress(OSError):
        entries = list(folder.iterdir())
        if not any(p.name == MANIFEST or p.suffix == ".sqlite" or re.match(PART_PATTERN, p.name) for p in entries):
            return [path for path in entries if (path / MANIFEST).is_file()]
    return None
