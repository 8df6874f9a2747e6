"""The state of files and folders, read by opening them as a user does, without the layout of a bundle."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medlink.errors import MedlinkError

State = Any
"""Plain data; ``None`` if nothing can be opened."""
SCALE = 3
"""Decimals of a score: its last bits depend on the number of names compared at once."""


def links_to_lists(found: Sequence[Any]) -> list[Any]:
    """Links as plain data."""
    return [
        [link.mention, link.concept_id, [[one.concept_id, round(one.score, SCALE)] for one in link.candidates]]
        for link in found
    ]


def _bundle(path: Path) -> State:
    from medlink.index import Bundle
    from medlink.linking import Linker

    from .cases import MENTIONS

    opened = Bundle(path)
    names = sorted([name.concept_id, name.text, name.language] for name in opened.kb.iter_names())
    return {"names": _digest(repr(names)), "links": links_to_lists(Linker(opened).link(list(MENTIONS)))}


def _kb(path: Path) -> State:
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(path) as opened:
        names = sorted([name.concept_id, name.text, name.language] for name in opened.iter_names())
        return {"content": opened.content_hash, "names": _digest(repr(names))}


def _cached(path: Path) -> State:
    return next((_bundle(one) for one in sorted(path.glob("demo-*"))), None)


def _encoder(path: Path) -> State:
    from medlink.models import load_encoder

    if not path.is_dir():
        # after a kill between two renames: the next run restores the old one
        path = next(path.parent.glob(".writing-*/old"), path)
    if not path.is_dir():
        return None
    encoder = load_encoder(path)
    return [encoder.fingerprint, encoder.encode(["cardiopathia"]).round(SCALE).tolist()]


def _file(path: Path) -> State:
    return _digest(path.read_bytes()) if path.exists() else None


def _container(path: Path) -> State:
    """The content of an FTRM file without the time of its writing."""
    if not path.exists():
        return None
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return _digest("\n".join(line for line in file.iterdump() if 'INTO "tx_resource"' not in line))
    finally:
        file.close()


def _digest(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


_KINDS: dict[str, Callable[[Path], State]] = {
    "bundle": _bundle,
    "cached": _cached,
    "encoder": _encoder,
    "file": _file,
    "ftrm": _container,
    "kb": _kb,
}


def states(targets: Sequence[tuple[str, str]]) -> list[State]:
    """The state of each target, a path and its kind. For :func:`tests.faults.children.call`."""
    found = []
    for path, kind in targets:
        try:
            found.append(_KINDS[kind](Path(path)))
        except MedlinkError:
            found.append(None)
    return found


def listing(folder: Path) -> list[str]:
    """Paths below a folder that two runs of a command share: without the lock of a bundle and the hashes in names."""
    found = (path for path in folder.rglob("*") if path.name != ".lock" or not path.with_name("manifest.json").exists())
    return sorted(re.sub(r"(?<=-)[0-9a-f]{8,}", "HASH", str(path.relative_to(folder))) for path in found)
