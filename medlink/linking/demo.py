"""The demo bundle: a small terminology that ships with medlink, built into a folder or once into the cache."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import platformdirs

from medlink import __version__
from medlink.bundles.parts import FORMAT
from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import ConfigError
from medlink.files.folders import atomic_folder, scratch_folder
from medlink.files.resources import RESOURCES
from medlink.index import Bundle, build_bundle
from medlink.index.segment import FORMAT as INDEX_FORMAT
from medlink.kb import Input, build_kb
from medlink.linking.ranking import default_ranker
from medlink.models import load_encoder

BUNDLE_VARIABLE = "MEDLINK_BUNDLE"
"""Environment variable that names the bundle for spaCy components without a ``bundle``."""


def demo_folder() -> Path:
    """Return the folder with the demo terminology and notes inside the package."""
    return RESOURCES / "demo"


def demo_notes() -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in sorted((demo_folder() / "notes").glob("*.txt"))}


def build_demo_bundle(folder: str | Path) -> Bundle:
    with scratch_folder(Path(folder) / KB_FILE, "the demo bundle") as work:
        build_kb(work / KB_FILE, [Input("table", demo_folder() / "terminology.tsv", {"source": "DEMO"})])
        return build_bundle(folder, kb=work / KB_FILE, encoder="builtin", calibration=default_ranker().to_dict())


def demo_bundle() -> Path:
    """Return the demo bundle in the cache folder of the user, built on first use (a few seconds).

    The folder name contains a hash of all inputs of the bundle, so another version of medlink builds its own bundle.
    """
    inputs = f"{__version__} {FORMAT} {INDEX_FORMAT} {load_encoder().fingerprint} {default_ranker().to_dict()}"
    digest = hashlib.sha256(inputs.encode() + (demo_folder() / "terminology.tsv").read_bytes())
    folder = platformdirs.user_cache_path("medlink") / f"demo-{digest.hexdigest()[:16]}"
    if (folder / MANIFEST).exists():
        with suppress(ConfigError), scratch_folder(folder):
            pass  # removes what a killed process left
    else:
        with atomic_folder(folder, "the demo bundle") as draft:
            build_demo_bundle(draft)
    return folder
