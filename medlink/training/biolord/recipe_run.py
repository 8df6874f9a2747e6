"""All phases by one recipe, each into a folder of its own; a run that was cut short goes on where it stopped.

A record says what the phases were made of: what is done stays as it is, what is not done yet may be mended.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.folders import locked, one_error, remove
from medlink.files.json import read_json
from medlink.files.whole import whole_text
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.training.biolord import phases
from medlink.training.biolord.phases import Progress, TrainingData
from medlink.training.biolord.recipe_file import FOLDERS, BioLordRecipe, read_recipe
from medlink.training.biolord.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, StsRecipe
from medlink.training.common.recipes import RunOptions

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


def run_recipe(path: str | Path, *, progress: Progress | None = None) -> Path:
    """Run the phases of a recipe that are not done yet; gives the folder of the last encoder.

    A phase is done when its folder is there. After the contrastive phase the next starts from it; self-distillation
    goes back to what the contrastive phase started from, and learns from what came of it.

    Args:
        path: the recipe, a TOML file that ``docs/biolord.md`` describes.
        progress: called with lines of progress.

    Raises:
        MedlinkError: the recipe is not as it should be, what a phase that is done was made of has changed, or a phase
            fails.
    """
    with needs_extra("train", "training"):
        from medlink.training.common.resumable import processes_here

    recipe, say = read_recipe(path), progress or (lambda _: None)
    processes = processes_here()
    if processes.is_main_process:
        bind(recipe)
    processes.wait_for_everyone()
    start = untouched = recipe.encoder(recipe.base)
    for phase in recipe.phases:
        out = recipe.folder_of(phase)
        if phase == "contrastive":
            untouched = start
        done = out.is_dir()
        processes.wait_for_everyone()
        if done:
            say(f"{phase}: done before")
            if processes.is_main_process:
                _clear(out.with_name(f"{out.name}.checkpoints"))
        elif phase != "soup" or processes.is_main_process:
            say(f"{phase}: begins")
            say(_run_phase(recipe, phase, start, untouched, say))
        processes.wait_for_everyone()
        if phase != "distill":
            start = str(out)
    return Path(start)


def _clear(work: Path) -> None:
    """Delete what a process that was killed at the very end left, unless one is at work there."""
    if work.is_dir():
        with suppress(ConfigError), locked(work / LOCK):
            remove(work)


def _run_phase(recipe: BioLordRecipe, phase: str, start: str, untouched: str, say: Progress) -> str:
    """Run one phase; says what was made."""
    out = recipe.folder_of(phase)
    if phase == "soup":
        return phases.run_soup([recipe.folder_of("distill")], out)
    section = getattr(recipe, phase.replace("-", "_"))
    options = RunOptions(checkpoint_steps=recipe.run.checkpoint_steps, workers=recipe.run.workers, resume=True)
    job = phases.Job(out, options, say, recipe.place_or_none(section.dev))
    data = recipe.training_data(say)
    if phase == "contrastive":
        how = section.recipe(ContrastiveRecipe)
        return phases.run_contrastive(job, data, start, how, section.pairs, recipe.run.pair_workers)
    if phase == "distill":
        how = section.recipe(DistillationRecipe)
        return phases.run_distill(job, data, untouched, how, start)
    if phase == "multilingual":
        learned = TrainingData(data.kb, languages=tuple(section.languages), without=data.without, progress=say)
        student, aligned = recipe.encoder(section.student), recipe.place_or_none(section.alignments)
        return phases.run_multilingual(job, learned, student, section.recipe(MultilingualRecipe), start, aligned)
    return phases.run_sts(job, recipe.tables(section), start, section.recipe(StsRecipe))


def bind(recipe: BioLordRecipe) -> None:
    """Write down what the phases are made of, or refuse to go on where one that is done was made of something else.

    A phase is settled when its folder is there or that of a later one, the base when any folder is there.

    Raises:
        ConfigError: what a settled phase was made of has changed, another process is at work, or the folder is not
            that of a run or cannot be written.
    """
    now = _made_of(recipe)
    record = recipe.folder / RECORD
    if not record.exists():
        with one_error(recipe.folder, "the folder", "name a folder you can write to"):
            recipe.folder.mkdir(parents=True, exist_ok=True)
        if any(recipe.folder.iterdir()):
            problem = "the folder is not empty and holds no run"
            raise ConfigError(problem, path=recipe.folder, remedy="name another folder")
        _write(record, now)
        return
    before = _read(record)
    if before == now:
        return
    order = [_BASE, *FOLDERS]
    for i, part in enumerate(order):
        later = [FOLDERS[phase] for phase in order[max(i, 1) :] if recipe.folder_of(phase).is_dir()]
        if later and before.get(part) != now.get(part):
            raise ConfigError(
                f"{_difference(part, before.get(part), now.get(part))} after {later[0]} was made",
                path=recipe.path,
                remedy=f"put it back as it was, name another folder for out, or delete {', '.join(later)} in "
                f"{recipe.folder} to have them made anew",
            )
    for work in sorted(path for path in recipe.folder.glob("*.checkpoints") if path.is_dir()):
        with locked(work / LOCK, "the checkpoints"):
            pass  # nobody else is at work there
    _write(record, now)


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
        remedy = "mend the recipe, or bring the file"
        raise InputError(f"cannot be read: {error.strerror}", path=path, remedy=remedy) from error


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
        problem = f"the record of the run cannot be read: {error}"
        raise ConfigError(problem, path=record, remedy="name another folder for out") from error
    return before


def _write(record: Path, made: Made) -> None:
    """Write the record of a run."""
    with whole_text(record, "the record of the run") as file:
        json.dump(made, file, indent=2)
