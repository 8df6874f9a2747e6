"""The knowledge base that waits in the folder of a bundle: that it does, and what would be lost with it."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from pathlib import Path

from medlink.bundles import parts
from medlink.bundles.parts import Opened, Raw
from medlink.bundles.places import KB_FILE, MANIFEST
from medlink.errors import MedlinkError
from medlink.index.manifest import BundleManifest
from medlink.kb import KnowledgeBase


def waiting_kb(folder: str | Path) -> Path | None:
    """The knowledge base in a bundle's folder that the bundle was not built from, where there is one."""
    path = Path(folder) / KB_FILE
    if not path.exists() or not (Path(folder) / MANIFEST).exists():
        return None
    return None if parts.is_copy(path, Path(folder), parts.read_state(Path(folder))["parts"]["kb"]) else path


def left_out(folder: str | Path) -> str:
    """What the next build leaves out of all that was added to a bundle, with a remedy; empty where there is nothing."""
    with suppress(MedlinkError):
        if waiting := waiting_kb(folder):
            state = Opened(Path(folder), BundleManifest)
            if found := lost_names(state.folder, state.manifest, waiting):
                return f"{found}: when it is built, add the tables again, with {add_again(state.folder)}"
    return ""


def newer_kb(folder: Path, manifest: Raw) -> str:
    """What to say on opening a bundle in whose folder another knowledge base waits; empty where none does.

    Sizes and content hashes are compared, which the files say of themselves: :func:`waiting_kb` compares all of them.
    """
    path, entry = folder / KB_FILE, manifest["parts"]["kb"]
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    with suppress(OSError, MedlinkError):
        if path.samefile(folder / entry["folder"] / KB_FILE):
            return ""
        with KnowledgeBase(path) as waiting:
            same = waiting.content_hash == manifest["kb"]["content_hash"]
        if same and size == entry["files"].get(KB_FILE, {}).get("size"):
            return ""
    return (
        f"{path} is not in the bundle, which goes on with the knowledge base that it was built from. "
        f"Remedy: run build_bundle({folder}), or delete the file"
    )


def add_again(folder: Path) -> str:
    """The call that adds a table to a bundle."""
    return f"extend_bundle({folder}, table=FILE)"


def lost_names(folder: Path, old: Raw | None, new: Path) -> str:
    """What was added to a bundle and is not in a new knowledge base; empty where there is nothing, or it is damaged."""
    if old is None or new.name == old["parts"]["kb"]["folder"]:
        return ""
    count = missing = 0
    with suppress(MedlinkError), KnowledgeBase(folder / old["parts"]["kb"]["folder"]) as had, KnowledgeBase(new) as has:
        sources = set[str]()
        for concept_id, names in groupby(had.iter_added(), lambda name: name.concept_id):
            there = {(name.text, name.language) for name in has.names(concept_id)}
            for name in names:
                count, missing = count + 1, missing + ((name.text, name.language) not in there)
                sources.add(name.source)
        if missing:
            return f"{missing:,} of {count:,} names that were added to the bundle are not in the new knowledge base"
        # a table whose names are all there may have brought definitions and the like
        if had.has_more_added and not (count and sources <= {source.name for source in has.sources()}):
            return "what was added to the bundle is not in the new knowledge base unless its inputs bring it"
    return ""
