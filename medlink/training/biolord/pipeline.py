"""Run all phases of BioLORD from one TOML file, each into its own folder; a killed run resumes where it stopped.

The file has a section for each phase, which is checked before training begins. A record states the inputs of each
phase; they may not change once the phase is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, model_validator

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.folders import locked, remove, wrap_os_error
from medlink.files.json import read_json, read_toml, write_json
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.models.encoders import split_pooling
from medlink.settings import Settings
from medlink.training.biolord import phases
from medlink.training.biolord.phases import Progress, TrainingData, resolve_tables
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.recipes import (
    CheckpointSteps,
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    PhaseRecipe,
    RunOptions,
    StsRecipe,
    check_dev_options,
)

FOLDERS = {
    "sts": "1-sts",
    "contrastive": "2-contrastive",
    "sts-again": "2-sts-again",
    "distill": "3-distill",
    "soup": "4-soup",
    "multilingual": "5-multilingual",
}
"""Phases in order, with the folder of each."""
RECORD = "recipe.json"
LOCK = "lock"  # as in medlink.training.common.run, which needs torch
Inputs = dict[str, dict[str, Any]]
"""Inputs of the base and of each phase: values of the recipe, hashes of files and fingerprints, by name."""

_BASE = "base"
_ALL_KEYS = ("definitions", "system", "languages", "without")
_DATA_KEYS = {"contrastive": _ALL_KEYS, "distill": _ALL_KEYS, "multilingual": ("without",)}
"""Keys of the section ``[data]`` that the phases with a knowledge base use."""

R = TypeVar("R", bound=PhaseRecipe)
Names = Annotated[list[str], Field(min_length=1)]


class DataSection(Settings):
    """Section ``[data]``: the part of the knowledge base to train on."""

    definitions: list[str] = Field(default_factory=list)
    system: str | None = None
    languages: list[str] = Field(default_factory=list)
    without: str | None = None


class RunSection(Settings):
    """Section ``[run]``: options that do not change the weights."""

    checkpoint_steps: CheckpointSteps = 1000


class PhaseSection(PhaseRecipe):
    """The section of a phase: its recipe, whose defaults take precedence, and the table of its development measure."""

    dev: str | None = None

    @model_validator(mode="after")
    def _check_dev(self) -> Self:
        check_dev_options(self, self.dev)
        return self

    def recipe(self, kind: type[R]) -> R:
        return kind(**{name: value for name, value in self if name in kind.model_fields.keys() & self.model_fields_set})


class StsSection(StsRecipe, PhaseSection):
    """Sections ``[sts]`` and ``[sts-again]``: fine-tuning on rated sentence pairs."""

    tables: Names


class ContrastiveSection(ContrastiveRecipe, PhaseSection):
    """Section ``[contrastive]``, whose ``pairs`` are parsed."""

    pairs: PairRecipe = PairRecipe()


class DistillationSection(DistillationRecipe, PhaseSection):
    """Section ``[distill]``: self-distillation."""


class MultilingualSection(MultilingualRecipe, PhaseSection):
    """Section ``[multilingual]``: cross-lingual distillation."""

    student: str
    languages: Names
    alignments: str | None = None


_SECTIONS: dict[str, type[Settings]] = {
    "data": DataSection,
    "run": RunSection,
    "sts": StsSection,
    "contrastive": ContrastiveSection,
    "sts-again": StsSection,
    "distill": DistillationSection,
    "multilingual": MultilingualSection,
}


class BioLordRecipe(Settings):
    """Recipe file at ``path``, with paths relative to its folder; ``content`` is the parsed TOML."""

    path: Path
    content: dict[str, Any]
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
    def _check_phases(self) -> Self:
        if not self.phases:
            phases = ", ".join(phase for phase in FOLDERS if phase != "soup")
            raise ConfigError("there is no phase in it", remedy=f"add one of {phases}")
        if self.contrastive is None and (self.sts_again or self.distill):
            raise ConfigError("sts-again and distill come after the contrastive phase", remedy="add [contrastive]")
        return self

    @property
    def phases(self) -> list[str]:
        """The phases in order; ``soup`` belongs to ``distill``."""
        sections = {"soup": self.distill, "sts-again": self.sts_again}
        return [phase for phase in FOLDERS if sections.get(phase, getattr(self, phase, None)) is not None]

    @property
    def folder(self) -> Path:
        """Parent of the output folders of the phases."""
        return self.resolve(self.out)

    def folder_of(self, phase: str) -> Path:
        return self.folder / FOLDERS[phase]

    def resolve(self, name: str) -> Path:
        return self.path.parent / name

    def resolve_encoder(self, name: str) -> str:
        """Return the path of an encoder folder beside the recipe; return any other name unchanged."""
        bare = split_pooling(name)[1]
        return f"{name.removesuffix(bare)}{self.resolve(bare)}" if self.resolve(bare).is_dir() else name

    def training_data(self, progress: Progress = lambda _: None) -> TrainingData:
        data, without = self.data, self.resolve(self.data.without) if self.data.without else None
        definitions = tuple(self.resolve(name) for name in data.definitions)
        return TrainingData(self.resolve(self.kb), definitions, data.system, tuple(data.languages), without, progress)


def read_recipe(path: str | Path) -> BioLordRecipe:
    """Read a recipe, the TOML file that ``docs/reference/training.md`` describes.

    Raises InputError if it is not TOML, and ConfigError for a value that is missing, unknown or wrong.
    """
    path = Path(path)
    content = read_toml(path)
    values: dict[str, Any] = {"path": path.absolute(), "content": content}
    for name, value in content.items():
        if isinstance(value, dict) and name in _SECTIONS:
            section = dict(value)
            if name == "contrastive" and isinstance(section.get("pairs"), dict):
                with _locate_errors(path, "[contrastive.pairs]"):
                    section["pairs"] = PairRecipe(**section["pairs"])
            with _locate_errors(path, f"[{name}]"):
                values[name.replace("-", "_")] = _SECTIONS[name](**section)
                resolve_tables(section.get("tables", ()), path.parent)
        else:
            values[name] = value
    with _locate_errors(path):
        return BioLordRecipe(**values)


@contextmanager
def _locate_errors(path: Path, where: str = "") -> Iterator[None]:
    """Add the file and its section to a :class:`ConfigError`."""
    try:
        yield
    except ConfigError as error:
        message = f"in {where}, {error.message}" if where else error.message
        raise ConfigError(message, path=path, remedy=error.remedy or "correct the value") from error


def run_recipe(path: str | Path, *, progress: Progress | None = None) -> Path:
    """Run the phases of a recipe (:func:`read_recipe`) that are not done yet; return the folder of the last encoder.

    A phase is done when its folder exists. Each phase starts from the encoder before it. Self-distillation instead
    starts from the encoder before the contrastive phase, with the contrastive encoder as its teacher. Raises
    MedlinkError if the recipe is wrong, the inputs of a phase that is done have changed, or a phase fails.
    """
    with needs_extra("train", "training"):
        from medlink.training.common.checkpoints import process_state

    recipe, report = read_recipe(path), progress or (lambda _: None)
    processes = process_state()
    if processes.is_main_process:
        bind(recipe)
    processes.wait_for_everyone()
    start = before_contrastive = recipe.resolve_encoder(recipe.base)
    for phase in recipe.phases:
        out = recipe.folder_of(phase)
        if phase == "contrastive":
            before_contrastive = start
        done = out.is_dir()
        processes.wait_for_everyone()
        if done:
            report(f"{phase}: done before")
            checkpoints = out.with_name(f"{out.name}.checkpoints")
            if processes.is_main_process and checkpoints.is_dir():
                # another process may use them
                with suppress(ConfigError), locked(checkpoints / LOCK):
                    remove(checkpoints)
        elif phase != "soup" or processes.is_main_process:
            report(f"{phase}: begins")
            report(_run_phase(recipe, phase, start, before_contrastive, report))
        processes.wait_for_everyone()
        if phase != "distill":
            start = str(out)
    return Path(start)


def _run_phase(recipe: BioLordRecipe, phase: str, start: str, before_contrastive: str, report: Progress) -> str:
    out = recipe.folder_of(phase)
    if phase == "soup":
        return phases.run_soup([recipe.folder_of("distill")], out)
    section = getattr(recipe, phase.replace("-", "_"))
    options = RunOptions(checkpoint_steps=recipe.run.checkpoint_steps, resume=True)
    job = phases.Job(out, options, report, recipe.resolve(section.dev) if section.dev else None)
    data = recipe.training_data(report)
    if phase == "contrastive":
        return phases.run_contrastive(job, start, section.recipe(ContrastiveRecipe), data=data, pairs=section.pairs)
    if phase == "distill":
        settings = section.recipe(DistillationRecipe)
        return phases.run_distill(job, before_contrastive, settings, data=data, teacher=start)
    if phase == "multilingual":
        data = TrainingData(data.kb, languages=tuple(section.languages), without=data.without, progress=report)
        student, table = recipe.resolve_encoder(section.student), section.alignments
        alignments = recipe.resolve(table) if table else None
        settings = section.recipe(MultilingualRecipe)
        return phases.run_multilingual(job, student, settings, data=data, teacher=start, alignments=alignments)
    return phases.run_sts(job, start, section.recipe(StsRecipe), tables=section.tables, folder=recipe.path.parent)


def bind(recipe: BioLordRecipe) -> None:
    """Record the inputs of the phases, or raise ConfigError if those of a settled phase have changed.

    A phase is settled when its folder or the folder of a later phase exists, and the base when any folder exists. Also
    raises ConfigError if another process is running, or the folder holds no run or cannot be written.
    """
    now = _collect_inputs(recipe)
    record = recipe.folder / RECORD
    if not record.exists():
        with wrap_os_error(recipe.folder, "the folder", "name a folder you can write to"):
            recipe.folder.mkdir(parents=True, exist_ok=True)
        if any(recipe.folder.iterdir()):
            problem = "the folder is not empty and holds no run"
            raise ConfigError(problem, path=recipe.folder, remedy="name another folder")
        write_json(record, now, "the record of the run")
        return
    before = _read_record(record)
    if before == now:
        return
    order = [_BASE, *FOLDERS]
    for i, part in enumerate(order):
        later = [FOLDERS[phase] for phase in order[max(i, 1) :] if recipe.folder_of(phase).is_dir()]
        if later and before.get(part) != now.get(part):
            raise ConfigError(
                f"{_describe_change(part, before.get(part), now.get(part))} after {later[0]} was made",
                path=recipe.path,
                remedy=f"put it back as it was, name another folder for out, or delete {', '.join(later)} in "
                f"{recipe.folder} to have them made again",
            )
    for checkpoints in sorted(path for path in recipe.folder.glob("*.checkpoints") if path.is_dir()):
        with locked(checkpoints / LOCK, "the checkpoints"):
            pass  # no other process is running
    write_json(record, now, "the record of the run")


def _collect_inputs(recipe: BioLordRecipe) -> Inputs:
    content = recipe.content
    with KnowledgeBase(recipe.resolve(content["kb"])) as kb:
        source = {"kb": content["kb"], "content of kb": kb.content_hash}
    base = {"name": content["base"], "fingerprint": _fingerprint(recipe, content["base"])}
    return {_BASE: base} | {name: _phase_inputs(recipe, name, source) for name in recipe.phases if name in content}


def _phase_inputs(recipe: BioLordRecipe, phase: str, source: dict[str, str]) -> dict[str, Any]:
    section, keys = recipe.content[phase], _DATA_KEYS.get(phase, ())
    data = {name: value for name, value in recipe.content.get("data", {}).items() if name in keys}
    inputs = {**section, **{f"{name} in [data]": value for name, value in data.items()}}
    files = [*data.get("definitions", ()), *section.get("tables", ())]
    files += [part[name] for part in (data, section) for name in ("without", "dev", "alignments") if name in part]
    for name in files:
        path = recipe.resolve(name)
        try:
            with path.open("rb") as file:
                inputs[f"content of {name}"] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            remedy = "correct the recipe, or provide the file"
            raise InputError(f"cannot be read: {error.strerror}", path=path, remedy=remedy) from error
    if "student" in section:
        inputs["fingerprint of student"] = _fingerprint(recipe, section["student"])
    return inputs | source if phase in _DATA_KEYS else inputs


def _fingerprint(recipe: BioLordRecipe, name: str) -> str:
    return load_encoder(recipe.resolve_encoder(name), device="cpu").fingerprint


def _describe_change(part: str, before: dict[str, Any] | None, now: dict[str, Any] | None) -> str:
    where = part if part == _BASE else f"[{part}]"
    if before is None or now is None:
        return f"{where} was {'added' if before is None else 'left out'}"
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return f"{where} changed ({', '.join(changed)})"


def _read_record(record: Path) -> Inputs:
    try:
        inputs = read_json(record)
        if not isinstance(inputs, dict) or not all(isinstance(part, dict) for part in inputs.values()):
            raise ValueError("it was written by another version")
    except (OSError, ValueError) as error:
        problem = f"the record of the run cannot be read: {error}"
        raise ConfigError(problem, path=record, remedy="name another folder for out") from error
    return inputs
