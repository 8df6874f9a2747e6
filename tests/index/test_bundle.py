"""The bundle: parts that belong together, and others."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medlink.bundles import parts as store
from medlink.errors import BundleError, ConfigError, EncoderError
from medlink.index import Bundle, build_bundle, extend_bundle
from medlink.index.arrays import ArrayWriter
from medlink.index.bundle import verify_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker
from medlink.models import load_encoder
from tests.models.test_static import CONFIG, random_encoder
from tests.small_kb import small_kb


def parts(bundle: Path) -> list[str]:
    """Files of a bundle, parts by their kinds, without the lock of writers."""
    return sorted(path.name.split("-")[0] for path in bundle.iterdir() if path.name != ".lock")


def part(bundle: Path, kind: str) -> Path:
    """The folder of a part."""
    return bundle / str(json.loads((bundle / "manifest.json").read_text())["parts"][kind]["folder"])


def refer(bundle: Path, kind: str, draft: Path) -> None:
    """Replace a part of a bundle by another folder, with its hashes and a sound manifest."""
    with store.lock_for_writing(bundle) as work:
        manifest = store.read_bundle_manifest(bundle)
        shutil.copytree(draft, work / kind)
        entries = {**manifest["parts"], kind: store.install_part(bundle, work / kind, kind, work)}
        store.install_manifest(bundle, work, {**manifest, "parts": entries})


@pytest.mark.slow
def test_parts_and_versions(bundle: Path) -> None:
    opened = Bundle(bundle)
    assert parts(bundle) == ["encoder", "index", "kb", "manifest.json"]
    assert opened.versions["kb"] == opened.kb.content_hash
    assert opened.encoder.fingerprint == load_encoder().fingerprint == opened.versions["encoder"]
    again = pickle.loads(pickle.dumps(opened))  # noqa: S301  # our own bytes
    assert again.folder == opened.folder


@pytest.mark.slow
def test_foreign_knowledge_base(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "kb").mkdir()
    refer(bundle, "kb", small_kb(tmp_path / "kb" / "kb.sqlite", "pain").parent)
    with pytest.raises(BundleError, match=r"the knowledge base is not the one.*build_bundle"):
        Bundle(bundle)
    build_bundle(bundle)  # the remedy mends it
    assert Linker(bundle).link(["pain"])[0].concept_id == "X:1"


def test_foreign_encoder(bundle: Path) -> None:
    random_encoder().save(bundle.parent / "e")
    refer(bundle, "encoder", bundle.parent / "e")
    with pytest.raises(BundleError, match="the encoder is not the one"):
        _ = Bundle(bundle).encoder


@pytest.mark.slow
def test_foreign_index(bundle: Path, tmp_path: Path) -> None:
    random_encoder(CONFIG.replace(dimension=load_encoder().dimension)).save(tmp_path / "e")
    build_bundle(tmp_path / "other", kb=bundle, encoder=tmp_path / "e")
    refer(bundle, "index", part(tmp_path / "other", "index"))
    with pytest.raises(BundleError, match="built with another encoder"):
        Bundle(bundle)


@pytest.mark.slow
def test_missing_parts(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such bundle"):
        Bundle(tmp_path / "nothing")
    manifest = (bundle / "manifest.json").read_text()
    (bundle / "manifest.json").write_text(json.dumps({**json.loads(manifest), "format": 7}))
    with pytest.raises(BundleError, match="bundle of format 7"):
        Bundle(bundle)
    (bundle / "manifest.json").write_text("[]")
    with pytest.raises(BundleError, match="not the manifest of the bundle"):
        Bundle(bundle)
    (bundle / "manifest.json").unlink()
    with pytest.raises(BundleError, match="incomplete: it has no manifest"):
        Bundle(bundle)
    with pytest.raises(BundleError, match=r"no knowledge base in the bundle.*build_kb"):
        build_bundle(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (bundle / "manifest.json").write_text(manifest)
    shutil.rmtree(part(bundle, "index"))
    with pytest.raises(BundleError, match=r"index-[0-9a-f]{16}: a part of the bundle is missing.*build_bundle"):
        Bundle(bundle)
    build_bundle(bundle)
    shutil.rmtree(part(bundle, "kb"))
    with pytest.raises(BundleError, match=r"the knowledge base of the bundle is damaged.*build_kb"):
        build_bundle(bundle)


def test_not_a_bundle(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "around" / "pages").mkdir(parents=True)
    shutil.copytree(bundle, tmp_path / "around" / "inner")
    for folder, remedy in (("empty", "a folder made by build_bundle()"), ("around", tmp_path / "around/inner")):
        with pytest.raises(BundleError) as caught:
            Bundle(tmp_path / folder)
        assert str(caught.value) == f"{tmp_path / folder}: is not a bundle. Remedy: name {remedy}."
    shutil.copytree(bundle, tmp_path / "around" / "another")
    with pytest.raises(BundleError, match=r"is not a bundle\. Remedy: name a folder made by"):
        Bundle(tmp_path / "around")
    # no other name is suggested where a bundle can be built
    (bundle / "manifest.json").unlink()
    shutil.move(part(tmp_path / "around" / "inner", "kb") / "kb.sqlite", tmp_path / "empty" / "kb.sqlite")
    for folder in (bundle, tmp_path / "empty"):
        with pytest.raises(BundleError, match=r"incomplete: it has no manifest.*build_bundle"):
            Bundle(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "with_manifest"), [("kb", False), ("index", True), ("encoder", True)])
def test_part_instead_of_a_bundle(
    kind: str, with_manifest: bool, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Input("table", tmp_path / "kb.tsv")
    inner = part(bundle, kind)
    if not with_manifest:
        (bundle / "manifest.json").unlink()
    before = sorted(bundle.rglob("*"))
    uses: list[Callable[[Path], object]] = [
        Bundle,
        Linker,
        verify_bundle,
        build_bundle,
        lambda folder: build_bundle(folder, kb=tmp_path / "kb.sqlite"),
        lambda folder: build_bundle(folder / "new", kb=tmp_path / "kb.sqlite"),
        lambda folder: extend_bundle(folder, [table]),
        lambda folder: build_kb(folder / "kb.sqlite", [table]),
    ]
    (tmp_path / "link").symlink_to(inner)
    monkeypatch.chdir(inner)
    for folder in (inner, Path(), Path("..", inner.name), tmp_path / "link"):
        for use in uses:
            with pytest.raises(BundleError, match=r": is a part of the bundle (.*)\. Remedy: name \1\.$") as caught:
                use(folder)
            assert caught.value.remedy is not None
            assert Path(caught.value.remedy.removeprefix("name ")).samefile(bundle)
    assert sorted(bundle.rglob("*")) == before


@pytest.mark.slow
def test_bundle_with_the_name_of_a_part(bundle: Path, tmp_path: Path) -> None:
    named = shutil.copytree(part(bundle, "kb"), tmp_path / "kb-0123456789abcdef")
    build_bundle(named)
    assert Linker(named).link(["fever"]) == Linker(bundle).link(["fever"])


@pytest.mark.slow
def test_foreign_files_stay(bundle: Path) -> None:
    before = Linker(bundle).link(["fever"])
    for name in ("keep.new", "terms.tsv.new"):
        (bundle / name).write_text("mine")
    with pytest.raises(EncoderError):
        build_bundle(bundle, kb=small_kb(bundle.parent / "third.sqlite", "pain"), encoder="./nope")
    assert Linker(bundle).link(["fever"]) == before
    (bundle / "index").mkdir()
    (bundle / "index" / "thesis.txt").write_text("mine")
    build_bundle(bundle)
    assert (bundle / "keep.new").read_text() == (bundle / "terms.tsv.new").read_text() == "mine"
    assert (bundle / "index" / "thesis.txt").read_text() == "mine"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    random_encoder(CONFIG.replace(dimension=load_encoder().dimension)).save(folder / "e")
    build_bundle(folder / "own", kb=small_kb(folder / "kb.sqlite"), encoder=folder / "e")
    return folder


@pytest.fixture
def with_own_encoder(own: Path, tmp_path: Path) -> Path:
    """A bundle with an encoder of its own."""
    return shutil.copytree(own, tmp_path, dirs_exist_ok=True) / "own"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["replaced", "without its manifest", "of format 2"])
def test_a_bundle_keeps_its_encoder(how: str, with_own_encoder: Path) -> None:
    before = Bundle(with_own_encoder).encoder.fingerprint
    assert before != load_encoder().fingerprint
    if how == "replaced":
        small_kb(with_own_encoder / "kb.sqlite", "pain")
    if how == "without its manifest":
        (with_own_encoder / "manifest.json").write_text("{")
    if how == "of format 2":
        for kind in ("encoder", "index"):
            part(with_own_encoder, kind).rename(with_own_encoder / kind)
        (with_own_encoder / "manifest.json").write_text('{"format": 2}')
    build_bundle(with_own_encoder)
    assert Bundle(with_own_encoder).encoder.fingerprint == before
    build_bundle(with_own_encoder, encoder="builtin")
    assert Bundle(with_own_encoder).encoder.fingerprint == load_encoder().fingerprint


@pytest.mark.slow
def test_damaged_encoder(with_own_encoder: Path) -> None:
    before = Bundle(with_own_encoder).encoder.fingerprint
    encoder = part(with_own_encoder, "encoder")
    remedy = f"run build_bundle({with_own_encoder}, encoder=NAME) with the encoder that it had, 'builtin' where"
    file = encoder / "config.json"
    for harm in (lambda: file.write_text("{}"), file.unlink, lambda: shutil.rmtree(encoder)):
        harm()
        for use in (lambda: Bundle(with_own_encoder).encoder, lambda: build_bundle(with_own_encoder)):
            with pytest.raises(BundleError) as caught:
                use()
            assert remedy in str(caught.value)
    build_bundle(with_own_encoder, encoder=with_own_encoder.parent / "e")
    assert Bundle(with_own_encoder).encoder.fingerprint == before
    (part(with_own_encoder, "encoder") / "config.json").write_text("{}")
    (with_own_encoder / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match=r"own: the encoder of the bundle is damaged.*encoder=NAME"):
        build_bundle(with_own_encoder)


@pytest.mark.slow
def test_pending_knowledge_base_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, table = tmp_path / "b", tmp_path / "t.tsv"

    def write_kb(name: str, definition: str = "") -> None:
        table.write_text(f"concept_id\tname\tdefinition\nX:1\t{name}\t{definition}\n", encoding="utf-8")
        build_kb(folder / "kb.sqlite", [Input("table", table)])

    def is_logged() -> bool:
        caplog.clear()
        assert [name.text for name in Bundle(folder).kb.iter_names()] == ["fever"]
        message = "\n".join(record.getMessage() for record in caplog.records)
        assert not message or f"{folder / 'kb.sqlite'} is not in the bundle" in message
        return bool(message)

    write_kb("fever")
    build_bundle(folder)
    assert not is_logged()
    # of the same size, and of another one with the same names
    for name, definition, is_pending in (("cough", "", True), ("fever", "x" * 20_000, True), ("fever", "", False)):
        write_kb(name, definition)
        assert is_logged() == is_pending
    (folder / "kb.sqlite").write_bytes(b"no knowledge base")
    assert is_logged()
    opened = Bundle(folder)
    (folder / "kb.sqlite").unlink()
    os.link(part(folder, "kb") / "kb.sqlite", folder / "kb.sqlite")
    assert not is_logged()
    pickle.loads(pickle.dumps(opened))  # noqa: S301 # made here
    assert not caplog.records


def _link(folder: str) -> list[str | None]:
    return [link.concept_id for link in Linker(folder).link(["fever", "coughing"])]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_share_a_bundle(bundle: Path, start: str) -> None:
    here = _link(str(bundle))
    with multiprocessing.get_context(start).Pool(2) as pool:
        results = pool.map_async(_link, [str(bundle)] * 4).get(timeout=120)
    assert all(found == here for found in results)


@pytest.mark.slow
def test_reading_writes_nothing(bundle: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in bundle.rglob("*")}

    before = state()
    time.sleep(0.01)
    _link(str(bundle))
    assert state() == before
    for path in [*bundle.rglob("*"), bundle]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert _link(str(bundle))
    for path in [bundle, *bundle.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.slow
def test_full_disk_names_file_and_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = ArrayWriter.append

    def full(self: ArrayWriter, block: np.ndarray) -> None:
        if self._path.name == "said_weight.npy":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        append(self, block)

    monkeypatch.setattr(ArrayWriter, "append", full)
    message = (
        r"bundle: the bundle cannot be written: No space left on device, at index/.*said_weight\.npy\. Remedy: make"
    )
    with pytest.raises(ConfigError, match=message):
        build_bundle(tmp_path / "bundle", kb=small_kb(tmp_path / "kb.sqlite"))
