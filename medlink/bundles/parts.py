"""A folder of parts: folders named by what they hold, and a manifest that says which of them count.

A part is filled in a hidden folder and renamed to its name. Then the manifest takes its place by one rename, and parts
that it does not name are removed. Killed anywhere, a writer leaves the old state or the new one. Who has a state open
holds its parts by shared locks, and what is held is not removed.

The manifest has the size and the hash of every file. A file that was written later than the manifest was copied or
changed, and is hashed when it is opened.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import weakref
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medlink.bundles.paths import MANIFEST, PART, bundles_instead, is_part, refuse_part
from medlink.errors import BundleError
from medlink.files.atomic import put_in_place
from medlink.files.folders import locked, one_error, scratch_folder, sync
from medlink.files.json import json_text, read_json

FORMAT = 3
"""Version of the layout."""
_LOCK = ".lock"
_SMALL = 1 << 16
_CRASHING = (".json", ".marisa")
"""Files whose damage is found on every opening: small ones, and those that go unchecked into native code."""
_TRIES = 100
_WHAT = "the bundle"
_ROOM = "make room on its disk, or name a place that you can write to and that has room"

Raw = dict[str, Any]


class Checked(BaseModel):
    """Base of what a JSON file of a bundle must look like."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _File(Checked):
    size: Annotated[int, Field(ge=0)]  # bytes
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Part(Checked):
    folder: Annotated[str, Field(pattern=f"^{PART}$")]
    files: dict[Annotated[str, Field(pattern=r"^(\.?[^/.][^/]*/)*\.?[^/.][^/]*$")], _File]  # by their paths in it


class _Parts(Checked):
    model_config = ConfigDict(extra="forbid")
    kb: _Part
    index: _Part
    encoder: _Part
    added: _Part = None  # type: ignore[assignment]  # absent, but never null


class Manifest(Checked):
    """The manifest of a folder of parts."""

    parts: _Parts


class Opened:
    """A state of a folder of parts, the present one unless its manifest is given; its parts stay as long as this lives.

    Raises :class:`BundleError` where there is no such state, or its manifest is not as it was written or unlike
    ``model``.
    """

    def __init__(self, folder: Path, model: type[Manifest] = Manifest, manifest: Raw | None = None) -> None:
        self.folder = folder
        for left in reversed(range(_TRIES)):
            self.manifest = manifest or read_state(folder, model)
            held = ExitStack()
            self.release = weakref.finalize(self, held.close)
            try:
                for kind in self.manifest["parts"]:
                    held.enter_context(_held(self.part(kind)))
                return
            except OSError as error:
                self.release()
                # a writer may have replaced the state since its manifest was read
                if not left or self.manifest == (manifest or read_state(folder, model)):
                    raise BundleError(
                        "a part of the bundle is missing", path=self.part(kind), remedy=rebuild(folder, kind)
                    ) from error

    def part(self, kind: str) -> Path:
        """The folder of a part, such as that of the ``kb``."""
        return self.folder / str(self.manifest["parts"][kind]["folder"])

    def check(self, kind: str) -> None:
        """Raise the first of :meth:`damaged`; a large file of the right size, not written to since, is trusted."""
        for error in self.damaged(kind, trusting=True):
            raise error

    def damaged(self, kind: str, *, trusting: bool) -> Iterator[BundleError]:
        """An error for each damaged file of a part; without ``trusting`` every file is hashed."""
        remedy = rebuild(self.folder, kind)
        if kind == "kb":
            remedy = f"copy it from another place, or run build_kb({self.folder}, ...), and then {remedy[4:]}"
        written = 0
        with suppress(OSError):
            written = (self.folder / MANIFEST).stat().st_mtime_ns if trusting else 0
        for name, file in self.manifest["parts"][kind]["files"].items():
            if wrong := _damage(self.part(kind) / name, file, written):
                yield BundleError(f"a file of the bundle {wrong}", path=self.part(kind) / name, remedy=remedy)


def _damage(path: Path, file: Raw, written: int) -> str:
    """What is wrong with a file; a large one is not hashed that is no newer than a time in nanoseconds."""
    try:
        found = path.stat()
        if found.st_size != file["size"]:
            return f"has {found.st_size} bytes, {file['size']} were written"
        is_trusted = found.st_mtime_ns <= written and found.st_size > _SMALL and path.suffix not in _CRASHING
        if not is_trusted and _sha256(path) != file["sha256"]:
            return "is damaged"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def rebuild(folder: Path, kind: str = "") -> str:
    """The call that mends a bundle, or its part of a kind."""
    call = f"run build_bundle({folder}"
    if kind == "encoder":
        # without a name the bundle's own would be taken
        return f"{call}, encoder=NAME) with the encoder that it had, 'builtin' where none was named"
    return f"{call})"


def read_checked(path: Path, what: str, version: int, remedy: str, model: type[Checked]) -> Raw:
    """Read a JSON file that describes a ``bundle`` or an ``index``, and check all of it that is used.

    Raises :class:`BundleError` where it is missing or damaged, of another format than ``version``, or unlike ``model``.
    """
    try:
        found = read_json(path)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        if found.get("format") == version:
            model.model_validate(found)
    except FileNotFoundError:
        raise BundleError(f"the {what} is incomplete: it has no {path.name}", path=path.parent, remedy=remedy) from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise BundleError(f"not the manifest of the {what}: {reason}", path=path, remedy=remedy) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"not the manifest of the {what}: {error}", path=path, remedy=remedy) from error
    if found.get("format") != version:
        reason = f"{what} of format {found.get('format')}, this medlink reads {version}"
        raise BundleError(reason, path=path, remedy=remedy)
    return found


def read_state(folder: Path, model: type[Manifest] = Manifest) -> Raw:
    """The manifest of a folder of parts; raises :class:`BundleError` where it has none that is as it was written."""
    refuse_part(folder)
    made = "name a folder made by build_bundle()"
    if not folder.is_dir():
        found_is = "is a file, a bundle is a folder" if folder.exists() else "no such bundle"
        raise BundleError(found_is, path=folder, remedy=made)
    inner = bundles_instead(folder)
    if inner is not None:
        raise BundleError("is no bundle", path=folder, remedy=f"name {inner[0]}" if len(inner) == 1 else made)
    found = read_checked(folder / MANIFEST, "bundle", FORMAT, rebuild(folder), model)
    if found.get("hash") != _own_hash(found):
        raise BundleError("the manifest is not as it was written", path=folder / MANIFEST, remedy=rebuild(folder))
    return found


@contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """A hidden folder of a bundle to work in, while no other process writes the bundle; a second one waits.

    After an error the parts that were there are there, and a new folder goes again. Raises :class:`ConfigError` where
    the folder cannot be written, or has no room.
    """
    is_new = not folder.exists()
    with locked(folder / _LOCK, _WHAT, wait=True):
        try:
            with scratch_folder(folder / MANIFEST, _WHAT) as work, one_error(folder, _WHAT, _ROOM):
                before = {path.name for path in folder.iterdir()}
                try:
                    yield work
                except BaseException:
                    manifest: Raw = {"parts": {}}
                    with suppress(BundleError):
                        manifest = read_state(folder)
                    clean(folder, work, manifest, before)
                    raise
        finally:
            if not (folder / MANIFEST).exists():
                (folder / _LOCK).unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):
                        folder.rmdir()


def place(folder: Path, draft: Path, kind: str, work: Path) -> Raw:
    """Bring a folder that was filled to the disk and rename it to its name; gives its entry in the manifest.

    A sound part of the same content is left as it is.
    """
    files = listed(draft)
    for path in (draft, *draft.rglob("*")):
        sync(path)
    entry = {"folder": _name(kind, files), "files": files}
    target = folder / str(entry["folder"])
    if not is_sound(folder, entry):
        if target.exists():
            os.replace(target, work / f"damaged-{kind}")
        os.replace(draft, target)
        sync(folder)
    return entry


def switch(folder: Path, work: Path, manifest: Raw) -> None:
    """Let a manifest take its place, and with it all that it names."""
    draft = work / MANIFEST
    draft.write_text(json_text({**manifest, "hash": _own_hash(manifest)}), "utf-8")
    put_in_place(draft, folder / MANIFEST, _WHAT)


def clean(folder: Path, work: Path, manifest: Raw, also: Set[str] = frozenset()) -> None:
    """Remove the parts that a manifest does not name, but for those that are kept ``also`` or that somebody holds."""
    kept = {part["folder"] for part in manifest["parts"].values()} | also
    for path in folder.iterdir():
        if path.name not in kept and is_part(path):
            with suppress(OSError), _opened(path, os.O_NOFOLLOW) as number:
                if _lock_now(number, fcntl.LOCK_EX):
                    # nobody finds half of it; it goes with the folder that is worked in
                    os.replace(path, work / f"{path.name}-{number}")


def named_by_content(folder: Path, kind: str) -> list[Raw]:
    """The parts of a kind that are as their names say, for a folder whose manifest is lost."""
    found = ((path.name, listed(path)) for path in sorted(folder.glob(f"{kind}-*")) if path.is_dir())
    return [{"folder": name, "files": files} for name, files in found if name == _name(kind, files)]


def is_sound(folder: Path, entry: Raw) -> bool:
    """Whether a part is there, with the hashes of its entry."""
    part = folder / str(entry["folder"])
    return part.is_dir() and listed(part) == entry["files"]


def is_copy(path: Path, folder: Path, entry: Raw) -> bool:
    """Whether a file is that of its name in a part."""
    file = entry["files"].get(path.name)
    with suppress(OSError):
        return path.samefile(folder / entry["folder"] / path.name) or (
            file is not None and path.stat().st_size == file["size"] and _sha256(path) == file["sha256"]
        )
    return False


def listed(part: Path) -> Raw:
    """Size and hash of every file of a folder, by its path in it."""
    return {
        path.relative_to(part).as_posix(): {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(part.rglob("*"))
        if path.is_file()
    }


@contextmanager
def _opened(part: Path, flags: int = 0) -> Iterator[int]:
    number = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        yield number
    finally:
        os.close(number)


@contextmanager
def _held(part: Path) -> Iterator[None]:
    """Nobody removes a part meanwhile; an :class:`OSError` where it is gone or going."""
    with _opened(part) as number:
        if _lock_now(number, fcntl.LOCK_SH) is False or not os.path.samestat(os.fstat(number), part.stat()):
            raise FileNotFoundError(part)
        yield


def _lock_now(number: int, kind: int) -> bool | None:
    """Lock an open folder: ``False`` where another process bars it, ``None`` where the file system has no locks."""
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _name(kind: str, files: Raw) -> str:
    return f"{kind}-{_hash({name: file['sha256'] for name, file in files.items()})[:16]}"


def _own_hash(manifest: Raw) -> str:
    return _hash({key: value for key, value in manifest.items() if key != "hash"})


def _hash(data: Raw) -> str:
    return hashlib.sha256(json_text(data).encode("utf-8", "surrogatepass")).hexdigest()
