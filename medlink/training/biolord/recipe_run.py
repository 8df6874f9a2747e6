"""All phases by one TOML file, each into a folder of its own; a run that was cut short goes on where it stopped.

The file has a section for each phase, checked before anything is trained. A record says what the phases were made of:
what is done stays as it is, what is not done yet may be mended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import Field, model_validator

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.atomic import whole_text
from medlink.files.folders import locked, one_error, remove
from medlink.files.json import read_json, read_toml
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.models.encoders import parted
from medlink.settings import Settings
from medlink.training.biolord import phases
from medlink.training.biolord.phases import Progress, TrainingData, rated_tables
from medlink.training.recipes import (
    CheckpointSteps,
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    PairRecipe,
    PhaseRecipe,
    RunOptions,
    StsRecipe,
    Workers,
    check_measured,
)

FOLDERS = {
    "sts": "1-sts",
    "contrastive": "2-contrastive",
    "sts-again": "2-sts-again",
    "distill": "3-distill",
    "soup": "4-soup",
    "multilingual": "5-multilingual",
}
"""Phases in their order, and the folder of each."""
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

R = TypeVar("R", bound=PhaseRecipe)
Names = Annotated[list[str], Field(min_length=1)]


class DataSection(Settings):
    """``[data]``: what of the knowledge base is trained on."""

    definitions: list[str] = Field(default_factory=list)
    system: str | None = None
    languages: list[str] = Field(default_factory=list)
    without: str | None = None


class RunSection(Settings):
    """``[run]``: what does not change the weights."""

    checkpoint_steps: CheckpointSteps = 1000
    workers: Workers = 0
    pair_workers: Workers = 0


class PhaseSection(PhaseRecipe):
    """The section of a phase: the table that it is measured by; beside its recipe, whose defaults go first."""

    dev: str | None = None

    @model_validator(mode="after")
    def _measured(self) -> Self:
        check_measured(self, self.dev)
        return self

    def recipe(self, kind: type[R]) -> R:
        """The recipe alone."""
        return kind(**{name: value for name, value in self if name in kind.model_fields.keys() & self.model_fields_set})


class StsSection(StsRecipe, PhaseSection):
    """``[sts]`` and ``[sts-again]``."""

    tables: Names


class ContrastiveSection(ContrastiveRecipe, PhaseSection):
    """``[contrastive]``; ``pairs`` has been made a recipe of the values in it."""

    pairs: PairRecipe = PairRecipe()


class DistillationSection(DistillationRecipe, PhaseSection):
    """``[distill]``."""


class MultilingualSection(MultilingualRecipe, PhaseSection):
    """``[multilingual]``."""

    student: str
    languages: Names
    alignments: str | None = None


class BioLordRecipe(Settings):
    """A recipe file: ``path`` is its place, from which relative paths are counted, ``said`` its content."""

    path: Path
    said: dict[str, Any]
    kb: str
    out: str
    base: str
    data: DataSection = DataSection()
    run: RunSection = RunSection()
    sts: StsSection | None = None
    contrastive: ContrastiveSection | None = None
    sts_again: StsSection | None = None
    distill: DistillationSection | None = None
    multilingual: MultilingualSection | None = None

    @model_validator(mode="after")
    def _order(self) -> Self:
        if not self.phases:
            phases = ", ".join(phase for phase in FOLDERS if phase != "soup")
            raise ConfigError("there is no phase in it", remedy=f"add one of {phases}")
        if self.contrastive is None and (self.sts_again or self.distill):
            raise ConfigError("sts-again and distill come after the contrastive phase", remedy="add [contrastive]")
        return self

    @property
    def phases(self) -> list[str]:
        """The phases that it asks for, in their order; the mean belongs to the self-distillation."""
        asked = {"soup": self.distill, "sts-again": self.sts_again}
        return [one for one in FOLDERS if asked.get(one, getattr(self, one, None)) is not None]

    @property
    def folder(self) -> Path:
        """Folder of the folders of the phases."""
        return self.place(self.out)

    def folder_of(self, phase: str) -> Path:
        """Folder of what a phase makes."""
        return self.folder / FOLDERS[phase]

    def place(self, name: str) -> Path:
        """A file or folder that the recipe names."""
        return self.path.parent / name

    def place_or_none(self, name: str | None) -> Path | None:
        """The same for what may be left out."""
        return None if name is None else self.place(name)

    def encoder(self, name: str) -> str:
        """An encoder that the recipe names: a folder beside it, or what else it may be."""
        bare = parted(name)[1]
        return f"{name.removesuffix(bare)}{self.place(bare)}" if self.place(bare).is_dir() else name

    def tables(self, section: StsSection) -> dict[str, Path]:
        """The tables of rated pairs of a phase, by name."""
        return rated_tables(section.tables, self.path.parent)

    def training_data(self, progress: Progress = lambda _: None) -> TrainingData:
        """The knowledge base and what of it is trained on."""
        said = self.data
        definitions = tuple(self.place(one) for one in said.definitions)
        without = self.place_or_none(said.without)
        return TrainingData(self.place(self.kb), definitions, said.system, tuple(said.languages), without, progress)


def read_recipe(path: str | Path) -> BioLordRecipe:
    """Read a recipe, the TOML file that ``docs/reference/training.md`` describes.

    Raises:
        InputError: it cannot be read, or is not TOML.
        ConfigError: something is missing, unknown, of the wrong kind or out of range.
    """
    path = Path(path)
    said = read_toml(path)
    values: dict[str, Any] = {"path": path.absolute(), "said": said}
    values |= {
        name.replace("-", "_"): _section(path, name, value) if isinstance(value, dict) else value
        for name, value in said.items()
    }
    with _inside(path):
        recipe = BioLordRecipe(**values)
    for name, section in (("sts", recipe.sts), ("sts-again", recipe.sts_again)):
        if section is not None:
            with _inside(path, f"[{name}]"):
                recipe.tables(section)
    return recipe


def _section(path: Path, name: str, values: Mapping[str, Any]) -> Settings | Mapping[str, Any]:
    field = BioLordRecipe.model_fields.get(name.replace("-", "_"))
    kinds = () if field is None else get_args(field.annotation) or (field.annotation,)
    kind = next((one for one in kinds if isinstance(one, type) and issubclass(one, Settings)), None)
    if kind is None:
        return values
    if kind is ContrastiveSection and isinstance(values.get("pairs"), dict):
        with _inside(path, f"[{name}.pairs]"):
            values = {**values, "pairs": PairRecipe(**values["pairs"])}
    with _inside(path, f"[{name}]"):
        return kind(**values)


@contextmanager
def _inside(path: Path, where: str = "") -> Iterator[None]:
    """Say of a :class:`ConfigError` in which section of which file its cause is."""
    try:
        yield
    except ConfigError as error:
        message = f"in {where}, {error.message}" if where else error.message
        raise ConfigError(message, path=path, remedy=error.remedy or "mend the value") from error


def run_recipe(path: str | Path, *, progress: Progress | None = None) -> Path:
    """Run the phases of a recipe that are not done yet; gives the folder of the last encoder.

    A phase is done when its folder is there. After the contrastive phase the next starts from it; self-distillation
    goes back to what the contrastive phase started from, and learns from what came of it.

    Args:
        path: the recipe, a TOML file that ``docs/reference/training.md`` describes.
        progress: called with lines of progress.

    Raises:
        MedlinkError: the recipe is not as it should be, what a phase that is done was made of has changed, or a phase
            fails.
    """
    with needs_extra("train", "training"):
        from medlink.training.common.fit import processes_here

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
    if work.is_dir():
        with suppress(ConfigError), locked(work / LOCK):
            remove(work)


def _run_phase(recipe: BioLordRecipe, phase: str, start: str, untouched: str, say: Progress) -> str:
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
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        remedy = "mend the recipe, or bring the file"
        raise InputError(f"cannot be read: {error.strerror}", path=path, remedy=remedy) from error


def _fingerprint(recipe: BioLordRecipe, name: str) -> str:
    return load_encoder(recipe.encoder(name), device="cpu").fingerprint


def _difference(part: str, before: dict[str, Any] | None, now: dict[str, Any] | None) -> str:
    where = part if part == _BASE else f"[{part}]"
    if before is None or now is None:
        return f"{where} was {'added' if before is None else 'left out'}"
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return f"{where} changed ({', '.join(changed)})"


def _read(record: Path) -> Made:
    try:
        before = read_json(record)
        if not isinstance(before, dict) or not all(isinstance(part, dict) for part in before.values()):
            raise ValueError("it was written by another version")
    except (OSError, ValueError) as error:
        problem = f"the record of the run cannot be read: {error}"
        raise ConfigError(problem, path=record, remedy="name another folder for out") from error
    return before


def _write(record: Path, made: Made) -> None:
    with whole_text(record, "the record of the run") as file:
        json.dump(made, file, indent=2)
