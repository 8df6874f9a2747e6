"""A folder of parts: folders named by what they hold, and a manifest that says which of them count.

A part is filled in a hidden folder, sealed and renamed to its name. Then the manifest takes its place by one rename,
and parts that it does not name are removed. Killed anywhere, a writer leaves the old state or the new one. Who has a
state open holds its parts by shared locks, and what is held is not removed.

Sealed files have one modification time, as in reproducible archives. A file with another one was copied or written to,
and is trusted when its hash is that of the manifest.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from medlink.errors import BundleError
from medlink.files.folders import lock_now, locked, one_error, scratch_folder, sync
from medlink.files.json import json_text, read_json
from medlink.files.places import MANIFEST, PART, bundles_instead, is_part, refuse_part
from medlink.files.whole import put_in_place

FORMAT = 3
"""Version of the layout."""
SEALED = 946_684_800
"""Modification time of every sealed file, in seconds: the first of January 2000."""
_LOCK = ".lock"
_SMALL = 1 << 16
_CRASHING = (".json", ".marisa")
"""Files whose damage is found on every opening: small ones, and those that go unchecked into native code."""
_NEEDED = {"kb", "index", "encoder"}
_TRIES = 100
_WHAT = "the bundle"
_ROOM = "make room on its disk, or name a place that you can write to and that has room"

Kind = Literal["kb", "index", "encoder", "added"]
Raw = dict[str, Any]


class Checked(BaseModel):
    """Base of what a JSON file of a bundle must look like."""

    model_config = ConfigDict(strict=True, extra="ignore")


class File(Checked):
    """A sealed file: its size in bytes and its SHA-256."""

    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Part(Checked):
    """A sealed folder: its name, and its files by their paths in it."""

    folder: Annotated[str, Field(pattern=f"^{PART}$")]
    files: dict[Annotated[str, Field(pattern=r"^(\.?[^/.][^/]*/)*\.?[^/.][^/]*$")], File]


def _complete(parts: dict[Kind, Part]) -> dict[Kind, Part]:
    if missing := sorted(_NEEDED - parts.keys()):
        raise ValueError(f"no {missing[0]}")
    return parts


class Manifest(Checked):
    """The manifest of a folder of parts."""

    parts: Annotated[dict[Kind, Part], AfterValidator(_complete)]


class Opened:
    """A state of a folder of parts: its manifest, and its parts, which stay there as long as this lives.

    Args:
        folder: the folder.
        model: what its manifest must look like.
        manifest: the state to open, where it is not the present one.

    Raises:
        BundleError: there is no such state, a part is missing, or the manifest is not as it was written.
    """

    def __init__(self, folder: Path, model: type[Manifest] = Manifest, manifest: Raw | None = None) -> None:
        self.folder = folder
        for left in reversed(range(_TRIES)):
            self.manifest = manifest or read_state(folder, model)
            numbers: list[int] = []
            self.release = weakref.finalize(self, _close, numbers)
            try:
                for kind in self.manifest["parts"]:
                    numbers.append(_hold(self.part(kind)))
                return
            except OSError as error:
                self.release()
                # a writer may have replaced the state since its manifest was read
                if not left or self.manifest == (manifest or read_state(folder, model)):
                    raise BundleError(
                        "a part of the bundle is missing", path=error.filename, remedy=rebuild(folder, kind)
                    ) from error

    def part(self, kind: str) -> Path:
        """The folder of a part."""
        return self.folder / str(self.manifest["parts"][kind]["folder"])

    def check(self, kind: str) -> None:
        """See that the files of a part are those that were sealed.

        Files of the sealed size and time are trusted but for small ones; of others the hash is compared.

        Raises:
            BundleError: a file is missing or damaged.
        """
        for error in self.damaged(kind, trusting=True):
            raise error

    def damaged(self, kind: str, *, trusting: bool) -> Iterator[BundleError]:
        """What is wrong with the files of a part; where none is trusted, sound ones are sealed again if they may be."""
        remedy = rebuild(self.folder, kind)
        if kind == "kb":
            remedy = f"copy it from another place, or run 'medlink kb build {self.folder} ...', and then {remedy[4:]}"
        for name, file in self.manifest["parts"][kind]["files"].items():
            path = self.part(kind) / name
            wrong = ""
            try:
                found = path.stat()
                if found.st_size != file["size"]:
                    wrong = f"has {found.st_size} bytes, {file['size']} were written"
                elif not (trusting and _trusted(path, found)) and _sha256(path) != file["sha256"]:
                    wrong = "is damaged"
                elif not trusting:
                    with suppress(OSError):
                        seal(path)
            except FileNotFoundError:
                wrong = "is missing"
            except OSError as error:
                wrong = f"cannot be read: {error.strerror}"
            if wrong:
                yield BundleError(f"a file of the bundle {wrong}", path=path, remedy=remedy)


def rebuild(folder: Path, kind: str = "") -> str:
    """The command that mends most of what can be wrong with a bundle, or with its part of a kind."""
    command = f"run 'medlink index build {folder}"
    if kind == "encoder":
        # without a name the bundle's own would be taken
        return f"{command} --encoder NAME' with the encoder that it had, 'builtin' where none was named"
    return f"{command}'"


def read_checked(path: Path, what: str, version: int, remedy: str, model: type[Checked]) -> Raw:
    """Read a JSON file of a bundle, and check all of it that is used.

    Args:
        path: the file.
        what: ``bundle`` or ``index``, which it describes.
        version: format that can be read.
        remedy: what helps where it cannot.
        model: what it must look like.

    Raises:
        BundleError: the file is missing or damaged, or is of another format.
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
    made = "name a folder made by 'medlink index build'"
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
    """A hidden folder of a bundle to work in, while no other process writes the bundle; who comes second waits.

    After an error the parts that were there are there, and a new folder goes again.

    Raises:
        ConfigError: the folder cannot be written, or has no room.
    """
    is_new = not folder.exists()
    with locked(folder / _LOCK, _WHAT, wait=True):
        try:
            with scratch_folder(folder / MANIFEST, _WHAT) as work, one_error(folder, _WHAT, _ROOM):
                before = {path.name for path in folder.iterdir()}
                try:
                    yield work
                except BaseException:
                    with suppress(BundleError):
                        before.update(_named(read_state(folder)))
                    _clean(folder, work, before)
                    raise
        finally:
            if not (folder / MANIFEST).exists():
                (folder / _LOCK).unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):
                        folder.rmdir()


def place(folder: Path, draft: Path, kind: str, work: Path) -> Raw:
    """Seal what was filled and rename it to its name; gives its entry in the manifest.

    A sound part of the same content is left as it is.
    """
    files = sealed(draft)
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
    sync(draft)
    put_in_place(draft, folder / MANIFEST, _WHAT)


def clean(folder: Path, work: Path, manifest: Raw) -> None:
    """Remove the parts that the manifest does not name, but for those that somebody holds."""
    _clean(folder, work, _named(manifest))


def _named(manifest: Raw) -> set[str]:
    return {part["folder"] for part in manifest["parts"].values()}


def _clean(folder: Path, work: Path, kept: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in kept and is_part(path):
            with suppress(OSError):
                number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    if lock_now(number):
                        # nobody finds half of it; it goes with the folder that is worked in
                        os.replace(path, work / f"{path.name}-{number}")
                finally:
                    os.close(number)


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


def sealed(part: Path) -> Raw:
    """Bring a folder to the disk with the time of sealed files; gives :func:`listed`."""
    files = listed(part)
    for name in files:
        seal(part / name)
        sync(part / name)
    for path in (part, *part.rglob("*/")):
        sync(path)
    return files


def seal(path: Path) -> None:
    """Give a file the time of sealed ones."""
    os.utime(path, (SEALED, SEALED))


def _trusted(path: Path, found: os.stat_result) -> bool:
    return int(found.st_mtime) == SEALED and found.st_size > _SMALL and path.suffix not in _CRASHING


def _hold(part: Path) -> int:
    """An open folder, which nobody removes as long as it is open; an :class:`OSError` where it is gone or going."""
    number = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if lock_now(number, fcntl.LOCK_SH) is False or not os.path.samestat(os.fstat(number), part.stat()):
            raise FileNotFoundError(None, "", os.fspath(part))
    except BaseException:
        os.close(number)
        raise
    return number


def _close(numbers: Iterable[int]) -> None:
    for number in numbers:
        os.close(number)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _name(kind: str, files: Raw) -> str:
    return f"{kind}-{_hash({name: file['sha256'] for name, file in files.items()})[:16]}"


def _own_hash(manifest: Raw) -> str:
    return _hash({key: value for key, value in manifest.items() if key != "hash"})


def _hash(data: Raw) -> str:
    return hashlib.sha256(json_text(data).encode("utf-8", "surrogatepass")).hexdigest()
