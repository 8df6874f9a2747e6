"""Whatever happens to a writer of a bundle, the bundle is the old one or the new one; kills are in tests/faults."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from medlink.bundles import parts as store
from medlink.errors import BundleError, ConfigError
from medlink.index import Bundle, build_bundle, extend_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker
from tests.index.test_bundle import part, parts
from tests.small_kb import small_kb


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["concept_id\tname\tlanguage", *rows]) + "\n", encoding="utf-8")
    return path


def names(bundle: Path) -> set[str]:
    """All names of a bundle, on which its knowledge base and index agree."""
    opened = Bundle(bundle)
    assert opened.encoder.fingerprint
    found = {name.text for name in opened.kb.iter_names()}
    assert found == set(opened.index.norms(opened.index.keys()))
    return found


@pytest.fixture(scope="module")
def begun(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with added names, and a newer knowledge base."""
    folder = shutil.copytree(built, tmp_path_factory.mktemp("begun"), dirs_exist_ok=True)
    extend_bundle(folder / "bundle", [Input("table", table(folder / "one.tsv", "X:3\tpain\ten"))])
    small_kb(folder / "new.sqlite", "itch")
    table(folder / "more.tsv", "X:4\tnausea\ten")
    return folder


OLD = {"fever", "cough", "pain"}


def given(begun: Path, tmp_path: Path, how: str) -> Path:
    """The bundle before a writer runs."""
    bundle = shutil.copytree(begun / "bundle", tmp_path / "bundle")
    if how == "build":
        shutil.copy(begun / "new.sqlite", bundle / "kb.sqlite")
    return bundle


@pytest.mark.slow
def test_concurrent_adds(begun: Path, tmp_path: Path) -> None:
    bundle = given(begun, tmp_path, "add")
    code = "import sys; from medlink.cli.main import main; main(['index', 'add', sys.argv[1], '--table', sys.argv[2]])"
    tables = [table(tmp_path / f"{i}.tsv", f"Y:{i}\tname {i}\ten") for i in range(3)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [
        subprocess.Popen([sys.executable, "-c", code, bundle, path], stderr=subprocess.PIPE, text=True, env=env)
        for path in tables
    ]
    errors = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0] * 3, errors
    assert f"another process is writing the bundle {bundle}: waiting" in "".join(errors)
    assert names(bundle) == {*OLD, *(f"name {i}" for i in range(3))}
    assert parts(bundle) == ["added", "encoder", "index", "kb", "manifest.json"]


@pytest.mark.slow
def test_reading_while_a_part_is_replaced(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = given(begun, tmp_path, "add")
    read = store.read_bundle_manifest
    calls = []

    def late(*args: object) -> store.Raw:
        found = read(*args)  # type: ignore[arg-type]  # as it was called
        calls.append(args)
        if len(calls) == 1:
            extend_bundle(bundle, [Input("table", begun / "more.tsv")])
        return found

    monkeypatch.setattr(store, "read_bundle_manifest", late)
    assert names(bundle) == {*OLD, "nausea"}


@pytest.mark.slow
def test_open_parts_stay_until_the_next_writer(begun: Path, tmp_path: Path) -> None:
    bundle = given(begun, tmp_path, "build")
    opened, kb = Linker(bundle), part(bundle, "kb")
    build_bundle(bundle)
    assert kb.is_dir()
    found: list[object] = []
    thread = threading.Thread(target=lambda linker: found.append(linker.link(["pain"])[0].concept_id), args=[opened])
    thread.start()
    thread.join()
    assert found == ["X:3"]
    del opened, thread
    gc.collect()
    build_bundle(bundle)
    assert not kb.exists()


@pytest.mark.slow
def test_knowledge_base_that_changes_during_a_build(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = given(begun, tmp_path, "build")
    place = store.install_part

    def meanwhile(folder: Path, draft: Path, kind: str, work: Path) -> store.Raw:
        if kind == "index":
            with open(bundle / "kb.sqlite", "r+b") as file:
                file.write(b"sqlite")
        return place(folder, draft, kind, work)

    monkeypatch.setattr(store, "install_part", meanwhile)
    with pytest.raises(ConfigError, match="the knowledge base was changed meanwhile"):
        build_bundle(bundle)
    assert names(bundle) == OLD


def test_failed_build_removes_a_new_folder_only(tmp_path: Path) -> None:
    (tmp_path / "none.tsv").write_text("concept_id\tname\tlanguage\ttype\nX:1\tAll (finding)\ten\tfsn\n")
    build_kb(tmp_path / "none.sqlite", [Input("table", tmp_path / "none.tsv")])
    (tmp_path / "mine").mkdir()
    for name in ("bundle", "mine"):
        with pytest.raises(ConfigError, match="no names to index"):
            build_bundle(tmp_path / name, kb=tmp_path / "none.sqlite")
    assert not (tmp_path / "bundle").exists()
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.slow
def test_lost_manifest(begun: Path, tmp_path: Path) -> None:
    bundle = given(begun, tmp_path, "add")
    (bundle / "manifest.json").write_text("{")
    build_bundle(bundle)
    assert names(bundle) == OLD
    shutil.copytree(part(begun / "bundle", "kb"), tmp_path / "kb")
    shutil.copy(begun / "new.sqlite", tmp_path / "kb" / "kb.sqlite")
    with store.lock_for_writing(bundle) as work:
        shutil.copytree(tmp_path / "kb", work / "kb")
        store.install_part(bundle, work / "kb", "kb", work)
    (bundle / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match=r"there are several knowledge bases.*name one of them with kb=\.\.\.: kb-"):
        build_bundle(bundle)


@pytest.mark.slow
def test_linked_knowledge_base_is_copied(tmp_path: Path) -> None:
    small_kb(tmp_path / "own.sqlite")
    dated = (tmp_path / "own.sqlite").stat().st_mtime_ns
    for link in (Path.symlink_to, Path.hardlink_to):
        bundle = tmp_path / link.__name__
        bundle.mkdir()
        link(bundle / "kb.sqlite", tmp_path / "own.sqlite")
        build_bundle(bundle)
        taken = part(bundle, "kb") / "kb.sqlite"
        assert not taken.is_symlink()
        assert taken.stat().st_nlink == 1
    assert (tmp_path / "own.sqlite").stat().st_mtime_ns == dated
