"""The demo bundle in the cache, built once for all processes of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import platformdirs
from filelock import FileLock

from medlink.linking.demo import demo_bundle


def cached_demo() -> Path:
    """Return the demo bundle of the cache; a process waits for another one that builds it."""
    cache = platformdirs.user_cache_path("medlink", ensure_exists=True)
    with FileLock(cache / "demo.lock"):
        return demo_bundle()


def copied_demo() -> Path:
    """Return a copy of it whose folder is called ``bundle``."""
    demo = cached_demo()
    copy = demo.with_name("copy") / "bundle"
    with FileLock(demo.with_name("demo.lock")):
        return copy if copy.is_dir() else shutil.copytree(demo, copy)
