"""No cache of any module contains a word of a note."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from medlink import LinkedNote, Linker, Note, NotePipeline
from medlink.index import Bundle

MARKER = "Quartermainitis"


def contains_marker(value: object, seen: set[int], depth: int = 0) -> bool:
    """Search strings and nested collections for the marker."""
    if isinstance(value, str | bytes):
        return MARKER.casefold() in str(value).casefold()
    if id(value) in seen or depth > 6 or isinstance(value, type | ModuleType):
        return False
    seen.add(id(value))
    inside: list[object] = []
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inside = [*value]
    return any(contains_marker(one, seen, depth + 1) for one in inside)


@pytest.mark.slow
def test_no_cache_contains_a_word_of_a_note(demo: Bundle) -> None:
    """Search all functools caches and collections of modules."""
    pipeline = NotePipeline(demo)
    notes = [
        Note(la, f"{MARKER} {MARKER}s und {MARKER}en bei Fieber (FB), CIN III {MARKER} III", la)
        for la in ["de", "en", "es"]
    ]
    linker = Linker(demo)
    linker.link([MARKER, f"{MARKER} type 2"], [f"{MARKER} around"] * 2)
    linked: list[LinkedNote] = pipeline.link(notes)
    assert all(one.mentions for one in linked)
    del linked, notes
    gc.collect()
    found = []
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] != "medlink":
            continue
        for attribute, value in vars(module).items():
            if hasattr(value, "cache_info"):
                # only the collector finds the dictionary of a functools cache
                if any(contains_marker(one, set()) for one in gc.get_referents(value)):
                    found.append(f"{name}.{attribute}")
            elif isinstance(value, dict | list | set) and contains_marker(value, set()):
                found.append(f"{name}.{attribute}")
    assert not found
