"""Hashes of the files of an encoder, beside them: what is damaged is refused before it is read."""

from __future__ import annotations

from pathlib import Path

from medlink.bundles.parts import listed
from medlink.errors import EncoderError
from medlink.files.json import json_text, read_json

SEAL = "hashes.json"
_REMEDY = "train or fetch the encoder again, or name another one"


def seal(folder: Path) -> None:
    """Write size and hash of every file of a folder into it, but for cards, which people read and edit."""
    (folder / SEAL).unlink(missing_ok=True)
    files = {name: file for name, file in listed(folder).items() if not name.endswith(".md")}
    (folder / SEAL).write_text(json_text(files), "utf-8")


def check_seal(folder: Path, *, is_required: bool) -> None:
    """Compare the files of a folder with their hashes; raises :class:`EncoderError` where one is missing or damaged.

    A folder without hashes is an error where they are required: models of others have none.
    """
    try:
        written = read_json(folder / SEAL)
    except FileNotFoundError:
        if is_required:
            message = f"the encoder is incomplete: it has no {SEAL}, by which damage would be seen"
            raise EncoderError(message, path=folder, remedy=_REMEDY) from None
        return
    except (OSError, ValueError) as error:
        raise EncoderError(f"the hashes cannot be read: {error}", path=folder / SEAL, remedy=_REMEDY) from error
    if not isinstance(written, dict):
        raise EncoderError("no hashes of files", path=folder / SEAL, remedy=_REMEDY)
    found = listed(folder)
    for name, file in written.items():
        if found.get(name) != file:
            what = "damaged" if name in found else "missing"
            raise EncoderError(f"a file of the encoder is {what}", path=folder / name, remedy=_REMEDY)
