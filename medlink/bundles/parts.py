"""The parts of a bundle: folders named by a hash of their content, and a manifest that lists the current ones.

A writer fills a part in a hidden folder and renames it to its content hash. It then replaces the manifest by one rename
and removes the parts that the manifest no longer lists. Killed at any point, it leaves the old or the new state. A
reader holds shared locks on its parts, and locked parts are not removed.

The manifest records the size and the hash of every file. A file that is newer than the manifest was copied or changed,
and is hashed when the bundle is opened.
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

from medlink.bundles.paths import MANIFEST, PART_PATTERN, check_not_in_bundle, find_inner_bundles, is_part
from medlink.errors import BundleError
from medlink.files.atomic import replace_atomically
from medlink.files.folders import locked, scratch_folder, sync, wrap_os_error
from medlink.files.json import json_text, read_json

FORMAT = 3
"""Version of the bundle layout."""
_LOCK = ".lock"
_MAX_SMALL_BYTES = 1 << 16
# always hashed on opening, as small files are: native code reads some of them unchecked
_ALWAYS_HASHED = (".json", ".marisa")
_OPEN_ATTEMPTS = 100
_WHAT = "the bundle"
_ROOM = "make room on its disk, or name a place that you can write to and that has room"

Raw = dict[str, Any]


class StrictModel(BaseModel):
    """Base schema of the JSON files of a bundle."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _File(StrictModel):
    size: Annotated[int, Field(ge=0)]  # bytes
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Part(StrictModel):
    folder: Annotated[str, Field(pattern=f"^{PART_PATTERN}$")]
    files: dict[Annotated[str, Field(pattern=r"^(\.?[^/.][^/]*/)*\.?[^/.][^/]*$")], _File]  # by path in the part


class _Parts(StrictModel):
    model_config = ConfigDict(extra="forbid")
    kb: _Part
    index: _Part
    encoder: _Part
    added: _Part = None  # type: ignore[assignment]  # may be absent, but not null


class Manifest(StrictModel):
    """Base schema of a manifest, the JSON file that lists the current parts."""

    parts: _Parts


class BundleSnapshot:
    """An opened version of a bundle, by default the current one; its parts cannot be removed while this object lives.

    Raises:
        BundleError: there is no such version, or its manifest was changed or does not match ``model``.
    """

    def __init__(self, folder: Path, model: type[Manifest] = Manifest, manifest: Raw | None = None) -> None:
        self.folder = folder
        for remaining in reversed(range(_OPEN_ATTEMPTS)):
            self.manifest = manifest or read_bundle_manifest(folder, model)
            locks = ExitStack()
            self.release = weakref.finalize(self, locks.close)
            try:
                for kind in self.manifest["parts"]:
                    part = self.part(kind)
                    descriptor, is_held = locks.enter_context(_locked(part, fcntl.LOCK_SH))
                    if is_held is False or not os.path.samestat(os.fstat(descriptor), part.stat()):
                        raise FileNotFoundError(part)  # gone, or being removed
                return
            except OSError as error:
                self.release()
                # a writer may have replaced the state since its manifest was read
                if not remaining or self.manifest == (manifest or read_bundle_manifest(folder, model)):
                    remedy = rebuild_remedy(folder, kind)
                    raise BundleError("a part of the bundle is missing", path=self.part(kind), remedy=remedy) from error

    def part(self, kind: str) -> Path:
        return self.folder / str(self.manifest["parts"][kind]["folder"])

    def check(self, kind: str) -> None:
        """Raise the first error of :meth:`iter_damage`; does not hash large files that look unchanged."""
        for error in self.iter_damage(kind, trust_large=True):
            raise error

    def iter_damage(self, kind: str, *, trust_large: bool) -> Iterator[BundleError]:
        """Yield an error for each damaged file of a part.

        With ``trust_large``, large files of the right size that are no newer than the manifest are not hashed.
        """
        remedy = rebuild_remedy(self.folder, kind)
        if kind == "kb":
            remedy = f"copy it from another place, or run build_kb({self.folder}, ...), and then {remedy[4:]}"
        written = 0
        with suppress(OSError):
            written = (self.folder / MANIFEST).stat().st_mtime_ns if trust_large else 0
        for name, file in self.manifest["parts"][kind]["files"].items():
            if damage := _describe_damage(self.part(kind) / name, file, written):
                yield BundleError(f"a file of the bundle {damage}", path=self.part(kind) / name, remedy=remedy)


def _describe_damage(path: Path, file: Raw, written: int) -> str:
    """Describe the damage, ``""`` for none; a large file that is no newer than ``written`` (ns) is not hashed."""
    try:
        status = path.stat()
        if status.st_size != file["size"]:
            return f"has {status.st_size} bytes, {file['size']} were written"
        is_large = status.st_size > _MAX_SMALL_BYTES and path.suffix not in _ALWAYS_HASHED
        if not (is_large and status.st_mtime_ns <= written) and _sha256(path) != file["sha256"]:
            return "is damaged"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def rebuild_remedy(folder: Path, kind: str = "") -> str:
    """Return the remedy that rebuilds a bundle, or one part of it."""
    call = f"run build_bundle({folder}"
    if kind == "encoder":
        # without a name the damaged encoder would be used again
        return f"{call}, encoder=NAME) with the encoder that it had, 'builtin' where none was named"
    return f"{call})"


def read_manifest_file(path: Path, what: str, version: int, remedy: str, model: type[StrictModel]) -> Raw:
    """Read the JSON file that describes a ``bundle`` or an ``index``, and validate it.

    Raises :class:`BundleError` if it is missing or damaged, has another format than ``version``, or does not match
    ``model``.
    """
    try:
        data = read_json(path)
        if not isinstance(data, dict):
            raise ValueError("no JSON object")
        if data.get("format") == version:
            model.model_validate(data)
    except FileNotFoundError:
        raise BundleError(f"the {what} is incomplete: it has no {path.name}", path=path.parent, remedy=remedy) from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise BundleError(f"not the manifest of the {what}: {reason}", path=path, remedy=remedy) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"not the manifest of the {what}: {error}", path=path, remedy=remedy) from error
    if data.get("format") != version:
        reason = f"{what} of format {data.get('format')}, this medlink reads {version}"
        raise BundleError(reason, path=path, remedy=remedy)
    return data


def read_bundle_manifest(folder: Path, model: type[Manifest] = Manifest) -> Raw:
    """Read the manifest of a bundle; raises :class:`BundleError` if it is missing or was changed."""
    check_not_in_bundle(folder)
    remedy = "name a folder made by build_bundle()"
    if not folder.is_dir():
        message = "is a file, a bundle is a folder" if folder.exists() else "no such bundle"
        raise BundleError(message, path=folder, remedy=remedy)
    inner = find_inner_bundles(folder)
    if inner is not None:
        raise BundleError("is not a bundle", path=folder, remedy=f"name {inner[0]}" if len(inner) == 1 else remedy)
    data = read_manifest_file(folder / MANIFEST, "bundle", FORMAT, rebuild_remedy(folder), model)
    if data.get("hash") != _manifest_hash(data):
        message = "the manifest is not as it was written"
        raise BundleError(message, path=folder / MANIFEST, remedy=rebuild_remedy(folder))
    return data


@contextmanager
def lock_for_writing(folder: Path) -> Iterator[Path]:
    """Lock a bundle for writing and yield a scratch folder in it; a second writer waits.

    An error leaves the old parts, and removes a new bundle folder. Raises :class:`ConfigError` if the folder cannot be
    written, or is full.
    """
    is_new = not folder.exists()
    with locked(folder / _LOCK, _WHAT, wait=True):
        try:
            with scratch_folder(folder / MANIFEST, _WHAT) as work, wrap_os_error(folder, _WHAT, _ROOM):
                before = {path.name for path in folder.iterdir()}
                try:
                    yield work
                except BaseException:
                    manifest: Raw = {"parts": {}}
                    with suppress(BundleError):
                        manifest = read_bundle_manifest(folder)
                    remove_unused_parts(folder, work, manifest, before)
                    raise
        finally:
            if not (folder / MANIFEST).exists():
                (folder / _LOCK).unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):
                        folder.rmdir()


def install_part(folder: Path, draft: Path, kind: str, work: Path) -> Raw:
    """Flush a filled folder to the disk, rename it to the hash of its content, and return its manifest entry.

    If an intact part with the same content exists, that part stays.
    """
    files = hash_files(draft)
    for path in (draft, *draft.rglob("*")):
        sync(path)
    entry = {"folder": _name(kind, files), "files": files}
    target = folder / str(entry["folder"])
    if not is_intact(folder, entry):
        if target.exists():
            os.replace(target, work / f"damaged-{kind}")
        os.replace(draft, target)
        sync(folder)
    return entry


def install_manifest(folder: Path, work: Path, manifest: Raw) -> None:
    """Replace the manifest, which makes the parts that it lists current."""
    draft = work / MANIFEST
    draft.write_text(json_text({**manifest, "hash": _manifest_hash(manifest)}), "utf-8")
    replace_atomically(draft, folder / MANIFEST, _WHAT)


def remove_unused_parts(folder: Path, work: Path, manifest: Raw, keep: Set[str] = frozenset()) -> None:
    """Remove the parts that are neither in the manifest, nor in ``keep``, nor in use by a reader."""
    used = {part["folder"] for part in manifest["parts"].values()} | keep
    for path in folder.iterdir():
        if path.name not in used and is_part(path):
            with suppress(OSError), _locked(path, fcntl.LOCK_EX, os.O_NOFOLLOW) as (descriptor, is_held):
                if is_held:
                    # moved first, so that no half-deleted part is seen; the scratch folder is deleted later
                    os.replace(path, work / f"{path.name}-{descriptor}")


def find_intact_parts(folder: Path, kind: str) -> list[Raw]:
    """Return the entries of the parts whose content matches their name, for a bundle that lost its manifest."""
    hashed = ((path.name, hash_files(path)) for path in sorted(folder.glob(f"{kind}-*")) if path.is_dir())
    return [{"folder": name, "files": files} for name, files in hashed if name == _name(kind, files)]


def is_intact(folder: Path, entry: Raw) -> bool:
    """Return whether a part exists whose files have the hashes of its manifest entry."""
    part = folder / str(entry["folder"])
    return part.is_dir() and hash_files(part) == entry["files"]


def is_copy(path: Path, folder: Path, entry: Raw) -> bool:
    """Return whether a file equals the file of the same name in a part."""
    file = entry["files"].get(path.name)
    with suppress(OSError):
        return path.samefile(folder / entry["folder"] / path.name) or (
            file is not None and path.stat().st_size == file["size"] and _sha256(path) == file["sha256"]
        )
    return False


def hash_files(part: Path) -> Raw:
    """Return the size and SHA-256 of every file of a folder, by relative path."""
    return {
        path.relative_to(part).as_posix(): {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(part.rglob("*"))
        if path.is_file()
    }


@contextmanager
def _locked(part: Path, kind: int, flags: int = 0) -> Iterator[tuple[int, bool | None]]:
    """Lock a folder during the block; yield its descriptor, and whether this process holds the lock.

    The latter is ``False`` if another process holds it, and ``None`` on a file system without locks.
    """
    descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    is_held: bool | None = None
    try:
        with suppress(OSError):
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                is_held = True
            except BlockingIOError:
                is_held = False
        yield descriptor, is_held
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _name(kind: str, files: Raw) -> str:
    return f"{kind}-{_hash({name: file['sha256'] for name, file in files.items()})[:16]}"


def _manifest_hash(manifest: Raw) -> str:
    return _hash({key: value for key, value in manifest.items() if key != "hash"})


def _hash(data: Raw) -> str:
    return hashlib.sha256(json_text(data).encode("utf-8", "surrogatepass")).hexdigest()
