"""The TOML file of ``medlink train biolord run``: read, and refused where it says what means nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from medlink.cli.biolord_phases import OF_DEV, Data, rated_tables
from medlink.errors import ConfigError, InputError

FOLDERS = {
    "sts": "1-sts",
    "contrastive": "2-contrastive",
    "sts-again": "2-sts-again",
    "distill": "3-distill",
    "soup": "4-soup",
    "multilingual": "5-multilingual",
}
"""Phases in their order, and the folder of each."""

Kinds = Mapping[str, tuple[type, ...]]
"""What a value may be, by its name."""

_SECTIONS = {"data", "run", *FOLDERS} - {"soup"}
_TOP: Kinds = {"kb": (str,), "out": (str,), "base": (str,), **dict.fromkeys(_SECTIONS, (dict,))}
_DATA: Kinds = {"definitions": (list,), "system": (str,), "languages": (list,), "without": (str,)}
_RUN = {"checkpoint_steps": 1, "workers": 0, "pair_workers": 0}  # the least value of each
_PHASE: Mapping[str, Kinds] = {
    "sts": {"tables": (list,), "dev": (str,)},
    "contrastive": {"dev": (str,), "pairs": (dict,)},
    "sts-again": {"tables": (list,), "dev": (str,)},
    "distill": {"dev": (str,)},
    "multilingual": {"dev": (str,), "student": (str,), "languages": (list,), "alignments": (str,)},
}
_NEEDED = {"sts": ("tables",), "sts-again": ("tables",), "multilingual": ("student", "languages")}
_WORDS = {
    str: "a text in quotes", list: "a list of texts in quotes", dict: "a section", int: "a whole number",
    float: "a number", bool: "true or false",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe file: ``said`` is its content, ``path`` its place, from which relative paths are counted."""

    path: Path
    said: Mapping[str, Any]

    @property
    def phases(self) -> list[str]:
        """The phases that it asks for, in their order; the mean belongs to the self-distillation."""
        return [one for one in FOLDERS if one in self.said or (one == "soup" and "distill" in self.said)]

    @property
    def out(self) -> Path:
        """Folder of the folders of the phases."""
        return self.place(self.said["out"])

    def folder(self, phase: str) -> Path:
        """Folder of what a phase makes."""
        return self.out / FOLDERS[phase]

    def place(self, name: str) -> Path:
        """A file or folder that the recipe names."""
        return self.path.parent / name

    def encoder(self, name: str) -> str:
        """An encoder that the recipe names: a folder beside it, or what else it may be."""
        return str(self.place(name)) if self.place(name).is_dir() else name

    def given(self, phase: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The files and names of a phase, and the numbers of its recipe."""
        section = dict(self.said[phase])
        named = {name: section.pop(name) for name in _PHASE[phase] if name in section}
        return named, section

    def tables(self, phase: str) -> dict[str, Path]:
        """The tables of rated pairs of a phase, by name."""
        return rated_tables(self.said[phase]["tables"], self.path.parent)

    def dev(self, phase: str) -> Path | None:
        """The development table of a phase."""
        name = self.said[phase].get("dev")
        return None if name is None else self.place(name)

    def data(self) -> Data:
        """The knowledge base and what of it is trained on."""
        said = self.said.get("data", {})
        return Data(
            self.place(self.said["kb"]),
            tuple(self.place(one) for one in said.get("definitions", ())),
            said.get("system"),
            tuple(said.get("languages", ())),
            self.place(said["without"]) if "without" in said else None,
        )


def read_recipe(path: Path) -> Recipe:
    """Read a recipe and refuse what it should not hold.

    Args:
        path: a TOML file; ``docs/biolord.md`` says what is in it.

    Raises:
        InputError: it cannot be read, or is not TOML.
        ConfigError: something is missing, unknown, of the wrong kind or out of range.
    """
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, remedy="name a TOML file in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", path=path, remedy="mend the file") from error
    recipe = Recipe(path.absolute(), said)
    _check(path, "the recipe", said, _TOP)
    for name in ("kb", "out", "base"):
        if name not in said:
            raise ConfigError(f"{name} is missing", path=path, remedy=f'say {name} = "..." before the sections')
    _check(path, "[data]", said.get("data", {}), _DATA)
    _check(path, "[run]", said.get("run", {}), dict.fromkeys(_RUN, (int,)))
    for name, value in said.get("run", {}).items():
        if value < _RUN[name]:
            raise ConfigError(
                f"in [run], {name} is {value}, at least {_RUN[name]} expected", path=path, remedy="mend the value"
            )
    if not recipe.phases:
        raise ConfigError("there is no phase in it", path=path, remedy=f"add one of {', '.join(_PHASE)}")
    if "contrastive" not in said and any(phase in said for phase in ("sts-again", "distill")):
        raise ConfigError(
            "sts-again and distill come after the contrastive phase", path=path, remedy="add [contrastive]"
        )
    for phase in _PHASE:
        if phase in said:
            _check_phase(recipe, phase, path)
    return recipe


def _check_phase(recipe: Recipe, phase: str, path: Path) -> None:
    """Refuse a section that the phase could not be run by."""
    from medlink.training.data.pairs import PairRecipe

    section, made = recipe.said[phase], _recipe_class(phase)
    _check(path, f"[{phase}]", section, {**_kinds(made), **_PHASE[phase]})
    for name in _NEEDED.get(phase, ()):
        if not section.get(name):
            raise ConfigError(f"{name} is missing in [{phase}]", path=path, remedy=f"say {name} there")
    for name in OF_DEV:
        if name in section and "dev" not in section:
            raise ConfigError(
                f"in [{phase}], {name} is {section[name]!r} and there is no dev",
                path=path,
                remedy=f"name rated pairs in dev, or leave {name} out",
            )
    named, numbers = recipe.given(phase)
    with _inside(path, f"[{phase}]"):
        made(**numbers)
        if "tables" in named:
            recipe.tables(phase)
    _check(path, f"[{phase}.pairs]", named.get("pairs", {}), _kinds(PairRecipe))
    with _inside(path, f"[{phase}.pairs]"):
        PairRecipe(**named.get("pairs", {}))


@contextmanager
def _inside(path: Path, where: str) -> Iterator[None]:
    """Say of an error in which section of which file its cause is.

    Raises:
        ConfigError: what was raised inside.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"in {where}, {error.message}", path=path, remedy=error.remedy or "mend the value") from error


def _check(path: Path, where: str, section: Mapping[str, Any], kinds: Kinds) -> None:
    """Refuse names that mean nothing there, and values of another kind."""
    for name, value in section.items():
        if name not in kinds:
            raise ConfigError(
                f"{name} means nothing in {where}",
                path=path,
                remedy=f"leave it out; known are {', '.join(sorted(kinds))}",
            )
        if not any(_fits(value, kind) for kind in kinds[name]):
            expected = " or ".join(_WORDS[kind] for kind in kinds[name])
            raise ConfigError(
                f"in {where}, {name} is {value!r}, {expected} expected", path=path, remedy="mend the value"
            )


def _fits(value: Any, kind: type) -> bool:
    """Whether a value of TOML is of a kind; true and false are no numbers, whole numbers are numbers."""
    if isinstance(value, bool):
        return kind is bool
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, int | float if kind is float else kind)


def _kinds(made: Any) -> Kinds:
    """The kinds of the values of a recipe by their annotations; a value that may be None is left out instead."""
    if not is_dataclass(made):
        return {name: tuple(_plain(field.annotation)) for name, field in made.model_fields.items()}
    hints = get_type_hints(made)
    return {field.name: tuple(_plain(hints[field.name])) for field in fields(made)}


def _plain(hint: Any) -> Iterator[type]:
    """The types behind an annotation, but for that of None."""
    if get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from _plain(one)
    elif get_origin(hint) is Annotated:
        yield from _plain(get_args(hint)[0])
    elif get_origin(hint) is Literal:
        yield from {type(one): None for one in get_args(hint)}
    elif hint is not type(None):
        yield hint


def _recipe_class(phase: str) -> Any:
    """What the numbers of a phase make."""
    from medlink.training.biolord.recipes import ContrastiveRecipe, StsRecipe

    if phase in ("sts", "sts-again"):
        return StsRecipe
    if phase == "contrastive":
        return ContrastiveRecipe
    if phase == "distill":
        from medlink.training.biolord.recipes import DistillationRecipe

        return DistillationRecipe
    from medlink.training.biolord.recipes import MultilingualRecipe

    return MultilingualRecipe
