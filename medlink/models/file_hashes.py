"""Hashes beside the files of an encoder: loading refuses a damaged file before reading it."""

from __future__ import annotations

from pathlib import Path

from medlink.bundles.parts import hash_files
from medlink.errors import EncoderError
from medlink.files.json import json_text, read_json

HASHES_FILE = "hashes.json"
_REMEDY = "train or fetch the encoder again, or name another one"


def write_hashes(folder: Path) -> None:
    """Write the size and hash of every file of a folder to a file in it, except for model cards, which people edit."""
    (folder / HASHES_FILE).unlink(missing_ok=True)
    files = {name: file for name, file in hash_files(folder).items() if not name.endswith(".md")}
    (folder / HASHES_FILE).write_text(json_text(files), "utf-8")


def check_hashes(folder: Path, *, is_required: bool) -> None:
    """Compare the files of a folder with their hashes.

    Raises:
        EncoderError: a file is missing or damaged, or hashes are missing and ``is_required``. Models of other origin
            have no hashes.
    """
    path = folder / HASHES_FILE
    try:
        expected = read_json(path)
    except FileNotFoundError:
        if is_required:
            message = f"the encoder is incomplete: it has no {HASHES_FILE} to detect damage"
            raise EncoderError(message, path=folder, remedy=_REMEDY) from None
        return
    except (OSError, ValueError) as error:
        raise EncoderError(f"the hashes cannot be read: {error}", path=path, remedy=_REMEDY) from error
    if not isinstance(expected, dict):
        raise EncoderError("no hashes of files", path=path, remedy=_REMEDY)
    actual = hash_files(folder)
    for name, file in expected.items():
        if actual.get(name) != file:
            problem = "damaged" if name in actual else "missing"
            raise EncoderError(f"a file of the encoder is {problem}", path=folder / name, remedy=_REMEDY)
