"""Whatever happens to those that write a bundle, it is the old one or the new one, and nothing is lost."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from medlink.bundles import parts as store
from medlink.errors import BundleError, ConfigError, MedlinkError
from medlink.index import Bundle, build_bundle, extend_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker
from tests.index.test_bundle import part, parts, small_kb

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir")


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["concept_id\tname\tlanguage", *rows]) + "\n", encoding="utf-8")
    return path


def changes(write: Callable[[], object], bundle: Path, stop: int = -1) -> list[str]:
    """Run a writer in a process of its own, which ends before it changes a file or folder for the so-manieth time.

    Gives the changes that there were, none where the process was stopped.
    """
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: threads that only wait
        child = os.fork()
    if not child:
        seen = []

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            if event in CHANGES and any(str(bundle) in str(argument) for argument in arguments):
                if len(seen) == stop:
                    os._exit(9)
                seen.append(event)

        with suppress(BaseException):
            sys.addaudithook(watch)
            write()
            os.write(send, " ".join(seen).encode())
        os._exit(1)
    os.close(send)
    os.waitpid(child, 0)
    with open(receive, "rb") as file:
        return file.read().decode().split()


def writer(how: str, bundle: Path, begun: Path) -> Callable[[], object]:
    if how == "add":
        return partial(extend_bundle, bundle, [Input("table", begun / "more.tsv")])
    return partial(build_bundle, bundle)


def names(bundle: Path) -> set[str]:
    """All names of a bundle, which the knowledge base and the index agree on."""
    opened = Bundle(bundle)
    assert opened.encoder.fingerprint
    found = {name.text for name in opened.kb.iter_names()}
    assert found == set(opened.index.norms(opened.index.keys()))
    return found


@pytest.fixture(scope="module")
def begun(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that was added to, and a newer knowledge base beside it."""
    folder = shutil.copytree(built, tmp_path_factory.mktemp("begun"), dirs_exist_ok=True)
    extend_bundle(folder / "bundle", [Input("table", table(folder / "one.tsv", "X:3\tpain\ten"))])
    small_kb(folder / "new.sqlite", "itch")
    table(folder / "more.tsv", "X:4\tnausea\ten")
    return folder


OLD = {"fever", "cough", "pain"}
WRITERS = {"add": {*OLD, "nausea"}, "build": {"itch", "cough"}, "renew": OLD, "first": {"itch", "cough"}}


def given(begun: Path, tmp_path: Path, how: str) -> Path:
    """A bundle before a writer comes."""
    bundle = tmp_path / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    if how == "first":
        bundle.mkdir()
    else:
        shutil.copytree(begun / "bundle", bundle)
    if how in ("build", "first"):
        shutil.copy(begun / "new.sqlite", bundle / "kb.sqlite")
    return bundle


@pytest.mark.parametrize("how", list(WRITERS))
def test_killed_at_a_change(how: str, begun: Path, tmp_path: Path) -> None:
    """Before a file or folder appears, moves or goes: at each eighth and the last here, at all in ``make faults``."""
    bundle = given(begun, tmp_path, how)
    events = changes(writer(how, bundle, begun), bundle)
    assert len(events) > 15
    found = []
    for point in sorted({*range(0, len(events), 8), *range(len(events) - 3, len(events))}):
        given(begun, tmp_path, how)
        assert changes(writer(how, bundle, begun), bundle, point) == []
        if how == "first" and not (bundle / "manifest.json").exists():
            assert (bundle / "kb.sqlite").exists()
            found.append(OLD)
        else:
            found.append(names(bundle))
        # the next writer goes on, and removes what was left
        writer(how, bundle, begun)()
        assert names(bundle) == WRITERS[how]
        assert set(parts(bundle)) - {"added"} == {"encoder", "index", "kb", "manifest.json"}
    assert all(one in (OLD, WRITERS[how]) for one in found)
    if how != "renew":
        assert OLD in found
        assert WRITERS[how] in found


def test_six_adds_at_once(begun: Path, tmp_path: Path) -> None:
    bundle = given(begun, tmp_path, "add")
    code = "import sys; from medlink.cli.main import main; main(['index', 'add', sys.argv[1], '--table', sys.argv[2]])"
    tables = [table(tmp_path / f"{i}.tsv", f"Y:{i}\tname {i}\ten") for i in range(6)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(bundle), str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for path in tables
    ]
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 6, said
    assert f"another process is writing the bundle {bundle}: waiting" in "".join(err for _, err in said)
    assert names(bundle) == {*OLD, *(f"name {i}" for i in range(6))}
    assert parts(bundle) == ["added", "encoder", "index", "kb", "manifest.json"]


def test_a_reader_meets_a_writer(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that went after the manifest was read: the manifest is read again."""
    bundle = given(begun, tmp_path, "add")
    read = store.read_state
    calls = []

    def late(*args: object) -> store.Raw:
        found = read(*args)  # type: ignore[arg-type]  # as it was called
        calls.append(args)
        if len(calls) == 1:
            extend_bundle(bundle, [Input("table", begun / "more.tsv")])
        return found

    monkeypatch.setattr(store, "read_state", late)
    assert names(bundle) == WRITERS["add"]


def test_what_is_open_stays_until_the_next_writer(begun: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("how", ["add", "build"])
@pytest.mark.parametrize("call", ["link", "mkdir", "replace", "fsync", "open"])
def test_a_full_disk(how: str, call: str, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of each kind in the bundle fails."""
    bundle = given(begun, tmp_path, how)
    before = sorted(path.relative_to(bundle) for path in bundle.rglob("*"))
    real = getattr(os, call)

    def full(*args: object, **kwargs: object) -> object:
        if call == "fsync" or (".writing" in str(args) and (call != "open" or int(str(args[1])) & os.O_CREAT)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(os, call, full)
    if call == "link":
        if how == "build":
            build_bundle(bundle)  # it is copied
            assert names(bundle) == WRITERS["build"]
        return
    with pytest.raises(MedlinkError, match="cannot be written: No space left on device"):
        writer(how, bundle, begun)()
    monkeypatch.undo()
    assert names(bundle) == OLD
    assert sorted(path.relative_to(bundle) for path in bundle.rglob("*")) == before


def test_a_knowledge_base_that_is_written_to_while_it_is_taken_in(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = given(begun, tmp_path, "build")
    place = store.place

    def meanwhile(folder: Path, draft: Path, kind: str, work: Path) -> store.Raw:
        if kind == "index":
            with open(bundle / "kb.sqlite", "r+b") as file:
                file.write(b"sqlite")
        return place(folder, draft, kind, work)

    monkeypatch.setattr(store, "place", meanwhile)
    with pytest.raises(ConfigError, match="the knowledge base was changed meanwhile"):
        build_bundle(bundle)
    assert names(bundle) == OLD


def test_a_new_folder_goes_when_nothing_was_made_in_it(tmp_path: Path) -> None:
    (tmp_path / "none.tsv").write_text("concept_id\tname\tlanguage\ttype\nX:1\tAll (finding)\ten\tfsn\n")
    build_kb(tmp_path / "none.sqlite", [Input("table", tmp_path / "none.tsv")])
    (tmp_path / "mine").mkdir()
    for name in ("bundle", "mine"):
        with pytest.raises(ConfigError, match="no names to index"):
            build_bundle(tmp_path / name, kb=tmp_path / "none.sqlite")
    assert not (tmp_path / "bundle").exists()
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_lost_manifest(begun: Path, tmp_path: Path) -> None:
    bundle = given(begun, tmp_path, "add")
    (bundle / "manifest.json").write_text("{")
    build_bundle(bundle)
    assert names(bundle) == OLD
    shutil.copytree(part(begun / "bundle", "kb"), tmp_path / "kb")
    shutil.copy(begun / "new.sqlite", tmp_path / "kb" / "kb.sqlite")
    with store.writing(bundle) as work:
        shutil.copytree(tmp_path / "kb", work / "kb")
        store.place(bundle, work / "kb", "kb", work)
    (bundle / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match=r"there are several knowledge bases.*name one of them with kb=\.\.\.: kb-"):
        build_bundle(bundle)


def test_a_knowledge_base_with_another_name_is_copied(tmp_path: Path) -> None:
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
