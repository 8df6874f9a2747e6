"""The TOML file of all phases: one section for each, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import Field, model_validator

from medlink.errors import ConfigError
from medlink.files.toml import read_toml
from medlink.models.encoders import parted
from medlink.settings import Settings
from medlink.training.biolord.phases import Progress, TrainingData, rated_tables
from medlink.training.biolord.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, StsRecipe
from medlink.training.common.recipes import CheckpointSteps, PhaseRecipe, Workers, check_measured
from medlink.training.data.recipes import PairRecipe

FOLDERS = {
    "sts": "1-sts",
    "contrastive": "2-contrastive",
    "sts-again": "2-sts-again",
    "distill": "3-distill",
    "soup": "4-soup",
    "multilingual": "5-multilingual",
}
"""Phases in their order, and the folder of each."""

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
    """Read a recipe, the TOML file that ``docs/biolord.md`` describes.

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
    """A section of a recipe; one of an unknown name as it is."""
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
