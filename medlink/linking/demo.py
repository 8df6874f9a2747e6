"""The demo bundle: medlink's own small terminology, built where the user asked or, once, in the cache folder."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib import resources
from pathlib import Path

import platformdirs

from medlink import __version__
from medlink.bundles.parts import FORMAT
from medlink.bundles.paths import KB_FILE, MANIFEST
from medlink.errors import ConfigError
from medlink.files.folders import scratch_folder, whole_folder
from medlink.index import Bundle, build_bundle
from medlink.index.segment import FORMAT as INDEX_FORMAT
from medlink.kb import Input, build_kb
from medlink.linking.ranking import default_join
from medlink.models import load_encoder

BUNDLE_VARIABLE = "MEDLINK_BUNDLE"
"""Environment variable that names the bundle of components that were given none."""


def demo_folder() -> Path:
    """Folder with the demo terminology and notes inside the package."""
    return Path(str(resources.files("medlink"))) / "resources" / "demo"


def demo_notes() -> dict[str, str]:
    """The demo notes by language."""
    return {path.stem: path.read_text("utf-8") for path in sorted((demo_folder() / "notes").glob("*.txt"))}


def build_demo_bundle(folder: str | Path) -> Bundle:
    """Build the demo bundle into a folder."""
    with scratch_folder(Path(folder) / KB_FILE, "the demo bundle") as work:
        build_kb(work / KB_FILE, [Input("table", demo_folder() / "terminology.tsv", {"source": "DEMO"})])
        return build_bundle(folder, kb=work / KB_FILE, encoder="builtin", calibration=default_join().to_dict())


def demo_bundle() -> Path:
    """The demo bundle in the user's cache folder, built when it is not there yet (a few seconds).

    Its folder name carries a hash of what it is built from, so another version of medlink builds its own.
    """
    made_of = f"{__version__} {FORMAT} {INDEX_FORMAT} {load_encoder().fingerprint} {default_join()!r}"
    digest = hashlib.sha256(made_of.encode() + (demo_folder() / "terminology.tsv").read_bytes())
    folder = platformdirs.user_cache_path("medlink") / f"demo-{digest.hexdigest()[:16]}"
    if (folder / MANIFEST).exists():
        with suppress(ConfigError), scratch_folder(folder):
            pass  # what a killed process left is gone
    else:
        with whole_folder(folder, "the demo bundle") as draft:
            build_demo_bundle(draft)
    return folder
