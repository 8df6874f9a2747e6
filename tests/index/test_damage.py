"""Damage to a bundle: refused on opening if visible there, and found by ``verify_bundle`` everywhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from medlink.bundles import parts as store
from medlink.cli.main import app
from medlink.errors import BundleError, MedlinkError
from medlink.index import Bundle, ConceptIndex, extend_bundle
from medlink.index.bundle import verify_bundle
from medlink.kb import Input, KnowledgeBase
from medlink.linking import Linker
from tests.index.test_bundle import part


@pytest.fixture(scope="module")
def made(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two parts."""
    folder = shutil.copytree(built, tmp_path_factory.mktemp("made"), dirs_exist_ok=True)
    (folder / "more.tsv").write_text("id\tname\tlanguage\nX:3\tpain\ten\nX:3\tSchmerz\tde\n", encoding="utf-8")
    extend_bundle(folder / "bundle", [Input("table", folder / "more.tsv")])
    return folder / "bundle"


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "bundle")


def flip(path: Path, bit: int, *, keep_time: bool) -> None:
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def files(bundle: Path) -> list[Path]:
    return sorted(path for path in bundle.rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.slow
def test_damage_that_opening_does_not_see(bundle: Path) -> None:
    """Flips that keep time and size, in files too large to be read on opening."""
    verify = ["index", "verify", str(bundle)]
    assert CliRunner().invoke(app, verify).stdout.startswith(f"{bundle}: {len(files(bundle)) - 1} files, ")
    large = [
        path
        for path in files(bundle)
        if path.stat().st_size > store._MAX_SMALL_BYTES and path.suffix not in (".json", ".marisa")
    ]
    assert {path.name for path in large} >= {"kb.sqlite", "model.safetensors", "posting_ends.npy"}
    for path in large:
        flip(path, 8 * 5000, keep_time=True)
    Bundle(bundle)
    damaged = CliRunner().invoke(app, verify)
    assert isinstance(damaged.exception, BundleError)
    assert all(str(path) in damaged.stderr + str(damaged.exception) for path in large)
    with pytest.raises(MedlinkError, match="the encoder"):
        _ = Bundle(bundle).encoder


def test_copy_without_times_is_hashed_until_verified(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(bundle / "manifest.json", (0, 0))
    hashed: list[str] = []
    sha256 = store._sha256
    monkeypatch.setattr(store, "_sha256", lambda path: (hashed.append(path.name), sha256(path))[1])
    Bundle(bundle)
    assert "kb.sqlite" in hashed
    assert verify_bundle(bundle)[0] == []
    hashed.clear()
    Bundle(bundle)
    assert "kb.sqlite" not in hashed


def test_a_manifest_that_was_edited(bundle: Path) -> None:
    text = (bundle / "manifest.json").read_text()
    (bundle / "manifest.json").write_text(text.replace('"version": ""', '"version": "2"'))
    with pytest.raises(BundleError, match=r"the manifest is not as it was written.*build_bundle"):
        Bundle(bundle)
    with pytest.raises(BundleError, match="the manifest is not as it was written"):
        KnowledgeBase(bundle)


def wrong(found: Any) -> list[Any]:
    """Values of another type than one that was found."""
    return [value for value in (None, "../x", [], -1) if type(value) is not type(found)][:2]


def keys_of(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    return [path, *(inner for key, value in items if key != "calibration" for inner in keys_of(value, (*path, key)))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["manifest.json", "index.json"])
def test_wrong_types(name: str, made: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(made, tmp_path / "bundle")
    path = bundle / name if name == "manifest.json" else part(bundle, "index") / name
    data = json.loads(path.read_text())
    data.pop("hash", None)
    opened: Callable[[], object] = (
        (lambda: Bundle(bundle)) if name == "manifest.json" else lambda: ConceptIndex(path.parent)
    )
    tried = 0
    for place in keys_of(data)[1::2]:
        if place[-1] in ("metric", "medlink") or place[:2] == ("parts", "encoder"):
            continue
        for value in wrong(_at(data, place)):
            changed = json.loads(json.dumps(data))
            _at(changed, place[:-1])[place[-1]] = value
            path.write_text(json.dumps({**changed, "hash": store._manifest_hash(changed)}))
            with pytest.raises(BundleError):
                opened()
            tried += 1
    assert tried > 25


def _at(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        data = data[key]
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", ["", "[]", "{", "1" * 5000, "[" * 100_000, '"\\ud800"', '{"format": 3, "hash": "\\ud800"}']
)
def test_no_manifest(content: str, bundle: Path) -> None:
    (bundle / "manifest.json").write_text(content)
    with pytest.raises(BundleError, match="manifest"):
        Bundle(bundle)


@pytest.mark.slow
def test_arrays_that_do_not_fit_together(bundle: Path) -> None:
    """Damage that only use reveals is one error, without words of the mention."""
    linker = Linker(bundle)
    table = linker.index.segments[0].names
    table.rows.offsets = table.rows.offsets + 1000
    with pytest.raises(BundleError, match=r"do not fit together \(IndexError\)\. Remedy: run verify_bundle\(\)"):
        linker.link(["fever"])
    with pytest.raises(BundleError, match=r"do not fit together \(LookupError\)"):
        linker.index.norms(np.array([77]))
    with pytest.raises(IndexError, match="no vector of that number"):
        linker.index.segments[0].vectors.vectors(np.array([99]))


@pytest.mark.parametrize(
    "header", [b"\x93NUMPY\x01\x00v\x00{'descr': '<i4', (", b"\x93NUMPY\x01\x00v\x00\x00", b"\x93NUMPY\x03\x00"]
)
def test_a_damaged_header(header: bytes, made: Path, tmp_path: Path) -> None:
    index = shutil.copytree(part(made, "index"), tmp_path / "index")
    path = index / "near.npy"
    path.write_bytes(header + path.read_bytes()[len(header) :])
    with pytest.raises(BundleError, match=r"near\.npy: a file of the index is damaged"):
        ConceptIndex(index)
