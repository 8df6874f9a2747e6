"""What the phases of a recipe were made of: what is done stays as it is, what is not done yet may be mended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.folders import locked
from medlink.files.json import read_json
from medlink.files.whole import whole_text
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.training.biolord.recipe_file import FOLDERS, BioLordRecipe

RECORD = "recipe.json"
LOCK = "lock"  # as medlink.training.common.run has it, which needs torch
Made = dict[str, dict[str, Any]]
"""What the base and each phase are made of: values of the recipe, hashes of files and fingerprints, by name."""

_BASE = "base"
_OF_DATA = {
    "contrastive": ("definitions", "system", "languages", "without"),
    "distill": ("definitions", "system", "languages", "without"),
    "multilingual": ("without",),
}
"""What of the section of data each phase uses that reads the knowledge base."""


def bind(recipe: BioLordRecipe) -> None:
    """Write down what the phases are made of, or refuse to go on where one that is done was made of something else.

    A phase is settled when its folder is there or that of a later one, the base when any folder is there.

    Raises:
        ConfigError: what a settled phase was made of has changed, another process is at work, or the folder is not
            that of a run or cannot be written.
        InputError: a table cannot be read.
        KnowledgeBaseError, EncoderError: the knowledge base or an encoder cannot be opened.
    """
    now = _made_of(recipe)
    record = recipe.folder / RECORD
    if not record.exists():
        try:
            recipe.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}", path=recipe.folder, remedy="name a folder you can write to"
            ) from error
        if any(recipe.folder.iterdir()):
            raise ConfigError(
                "the folder is not empty and holds no run", path=recipe.folder, remedy="name another folder"
            )
        _write(record, now)
        return
    before = _read(record)
    if before == now:
        return
    there = [phase for phase in FOLDERS if recipe.folder_of(phase).is_dir()]
    order = list(FOLDERS)
    for part in (_BASE, *order):
        later = [phase for phase in there if part == _BASE or order.index(phase) >= order.index(part)]
        if later and before.get(part) != now.get(part):
            folders = [FOLDERS[phase] for phase in later]
            raise ConfigError(
                f"{_difference(part, before.get(part), now.get(part))} after {folders[0]} was made",
                path=recipe.path,
                remedy=f"put it back as it was, name another folder for out, or delete {', '.join(folders)} in "
                f"{recipe.folder} to have them made anew",
            )
    for work in sorted(path for path in recipe.folder.glob("*.checkpoints") if path.is_dir()):
        with unused(work) as free:
            if not free:
                raise ConfigError(
                    "another process is training into the folder, or it cannot be written",
                    path=work,
                    remedy="wait for the process to end, or mend the folder",
                )
    _write(record, now)


@contextmanager
def unused(work: Path) -> Iterator[bool]:
    """Whether no process is at work in a folder of checkpoints; while this lasts, none can begin to be.

    Args:
        work: a folder that is there.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(work / LOCK))
        except ConfigError:  # it is locked, or cannot be written to
            yield False
        else:
            yield True


def _made_of(recipe: BioLordRecipe) -> Made:
    """What the recipe, as it is now, makes the phases of."""
    said = recipe.said
    with KnowledgeBase(recipe.place(said["kb"])) as kb:
        source = {"kb": said["kb"], "content of kb": kb.content_hash}
    return {
        _BASE: {"name": said["base"], "fingerprint": _fingerprint(recipe, said["base"])},
        **{phase: _phase(recipe, phase, source) for phase in recipe.phases if phase in said},
    }


def _phase(recipe: BioLordRecipe, phase: str, source: dict[str, str]) -> dict[str, Any]:
    """What a phase is made of."""
    section = recipe.said[phase]
    used = {name: value for name, value in recipe.said.get("data", {}).items() if name in _OF_DATA.get(phase, ())}
    made = {**section, **{f"{name} in [data]": value for name, value in used.items()}}
    files = [*used.get("definitions", ()), *section.get("tables", ())]
    files += [part[name] for part in (used, section) for name in ("without", "dev", "alignments") if name in part]
    made |= {f"content of {name}": _digest(recipe.place(name)) for name in files}
    if "student" in section:
        made["fingerprint of student"] = _fingerprint(recipe, section["student"])
    return made | source if phase in _OF_DATA else made


def _digest(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", path=path, remedy="mend the recipe, or bring the file"
        ) from error


def _fingerprint(recipe: BioLordRecipe, name: str) -> str:
    """Fingerprint of an encoder that the recipe names: what stands at that place may be trained anew."""
    return load_encoder(recipe.encoder(name), device="cpu").fingerprint


def _difference(part: str, before: dict[str, Any] | None, now: dict[str, Any] | None) -> str:
    """In words, in what two makings of a part differ."""
    where = part if part == _BASE else f"[{part}]"
    if before is None or now is None:
        return f"{where} was {'added' if before is None else 'left out'}"
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return f"{where} changed ({', '.join(changed)})"


def _read(record: Path) -> Made:
    """The record of a run."""
    try:
        before = read_json(record)
        if not isinstance(before, dict) or not all(isinstance(part, dict) for part in before.values()):
            raise ValueError("it was written by another version")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the record of the run cannot be read: {error}", path=record, remedy="name another folder for out"
        ) from error
    return before


def _write(record: Path, made: Made) -> None:
    """Write the record of a run."""
    with whole_text(record, "the record of the run") as file:
        json.dump(made, file, indent=2)
