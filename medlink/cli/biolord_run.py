"""``medlink train biolord run``: phases 1 to 5 by one TOML file, each into a folder of its own."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from medlink.cli import biolord_phases as phases
from medlink.errors import ConfigError, InputError
from medlink.writing import whole_text

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
_RUN = {"checkpoint_steps": int, "workers": int, "pair_workers": int}
_TOP = {"kb", "out", "base", "data", "run", *FOLDERS} - {"soup"}
_DATA = {"definitions": list, "system": str, "languages": list, "without": str}
_PHASE: dict[str, dict[str, type]] = {
    "sts": {"tables": list, "dev": str},
    "contrastive": {"dev": str, "pairs": dict},
    "sts-again": {"tables": list, "dev": str},
    "distill": {"dev": str},
    "multilingual": {"dev": str, "student": str, "languages": list, "alignments": str},
}
_NEEDED = {"sts": ("tables",), "sts-again": ("tables",), "multilingual": ("student", "languages")}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe file: ``said`` is its content, ``path`` its place, from which relative paths are counted."""

    path: Path
    said: Mapping[str, Any]

    @property
    def out(self) -> Path:
        """Folder of the folders of the phases."""
        return self.place(self.said["out"])

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

    def dev(self, phase: str) -> Path | None:
        """The development table of a phase."""
        name = self.said[phase].get("dev")
        return None if name is None else self.place(name)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe and refuse what it should not hold.

    Args:
        path: a TOML file; ``docs/biolord.md`` says what is in it.

    Raises:
        InputError: it cannot be read, or is not TOML.
        ConfigError: something is missing, unknown, of the wrong kind or out of range.
    """
    from medlink.models.pairs import PairRecipe

    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, remedy="name a TOML file in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", path=path, remedy="mend the file") from error
    recipe = Recipe(path.absolute(), said)
    top = {name: dict if name in {"data", "run", *FOLDERS} else str for name in _TOP}
    _check(path, "the recipe", said, top)
    for name in ("kb", "out", "base"):
        if name not in said:
            raise ConfigError(f"{name} is missing", path=path, remedy=f'say {name} = "..." before the sections')
    _check(path, "[data]", said.get("data", {}), _DATA)
    _check(path, "[run]", said.get("run", {}), _RUN)
    for phase in (one for one in FOLDERS if one in said):
        for name in _NEEDED.get(phase, ()):
            if name not in said[phase]:
                raise ConfigError(f"{name} is missing in [{phase}]", path=path, remedy=f"say {name} there")
        made = _recipe_class(phase)
        _check(path, f"[{phase}]", said[phase], {**_kinds(made), **_PHASE[phase]})
        named, numbers = recipe.given(phase)
        made(**numbers)
        _check(path, f"[{phase}.pairs]", named.get("pairs", {}), _kinds(PairRecipe))
        PairRecipe(**named.get("pairs", {}))
    if not any(phase in said for phase in FOLDERS):
        raise ConfigError("there is no phase in it", path=path, remedy=f"add one of {', '.join(_PHASE)}")
    if "contrastive" not in said and any(phase in said for phase in ("sts-again", "distill")):
        raise ConfigError(
            "sts-again and distill come after the contrastive phase", path=path, remedy="add [contrastive]"
        )
    return recipe


def _kinds(made: Any) -> dict[str, type]:
    """The kinds of the values of a recipe, by those of its defaults."""
    return {field.name: type(getattr(made(), field.name)) for field in fields(made)}


def _check(path: Path, where: str, section: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Refuse names that mean nothing there, and values of another kind."""
    for name, value in section.items():
        if name not in kinds:
            raise ConfigError(
                f"{name} means nothing in {where}",
                path=path,
                remedy=f"leave it out; known are {', '.join(sorted(kinds))}",
            )
        kind = kinds[name]
        # what has no value yet, or may be a number or a word, is looked at by the recipe itself
        free = kind is type(None) or name == "evaluate_steps"
        fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not free and (not fits or (isinstance(value, bool) and kind is not bool)):
            raise ConfigError(
                f"{name} in {where} is {value!r}, {_WORDS[kind]} expected", path=path, remedy="mend the value"
            )


_WORDS = {
    str: "a text in quotes", list: "a list", dict: "a section", int: "a whole number", float: "a number",
    bool: "true or false",
}  # fmt: skip


def _recipe_class(phase: str) -> Any:
    """What the numbers of a phase make."""
    from medlink.models.recipes import ContrastiveRecipe, StsRecipe

    if phase in ("sts", "sts-again"):
        return StsRecipe
    if phase == "contrastive":
        return ContrastiveRecipe
    if phase == "distill":
        from medlink.models.distillation import DistillationRecipe

        return DistillationRecipe
    from medlink.models.multilingual import MultilingualRecipe

    return MultilingualRecipe


def run_recipe(path: Path, log: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Run the phases of a recipe that are not done yet.

    A phase is done when its folder is there. After the contrastive phase the next starts from it; self-distillation
    goes back to what the contrastive phase started from, and learns from what came of it.

    Args:
        path: the recipe.
        log: called with lines of progress.
        say: called with one line for each phase.

    Raises:
        MedlinkError: the recipe is not as it should be, was changed since the run began, or a phase fails.
    """
    from medlink.models.trainer import processes_here

    recipe = read_recipe(path)
    processes = processes_here()
    if processes.is_main_process:
        _bind(recipe)
    processes.wait_for_everyone()
    start = recipe.encoder(recipe.said["base"])
    untouched = start
    for phase in (one for one in FOLDERS if one in recipe.said or (one == "soup" and "distill" in recipe.said)):
        out = recipe.out / FOLDERS[phase]
        if phase == "contrastive":
            untouched = start
        done = out.is_dir()
        processes.wait_for_everyone()
        if done:
            log(f"{phase}: done before")
        elif phase != "soup" or processes.is_main_process:
            log(f"{phase}: begins")
            say(_run_phase(recipe, phase, start, untouched, out, log))
        processes.wait_for_everyone()
        if phase != "distill":
            start = str(out)
    say(f"{recipe.out}: complete, {Path(start).name} is the last encoder")


def _run_phase(recipe: Recipe, phase: str, start: str, untouched: str, out: Path, log: Callable[[str], None]) -> str:
    """Run one phase; says what was made."""
    from medlink.models import BioLordTrainer

    if phase == "soup":
        return phases.average([recipe.out / FOLDERS["distill"]], out)
    named, numbers = recipe.given(phase)
    run = dict(recipe.said.get("run", {}))
    pair_workers = run.pop("pair_workers", 0)
    dev = recipe.dev(phase)

    def trainer(begin: str) -> BioLordTrainer:
        """One that goes on where it stopped."""
        return BioLordTrainer(begin, log, resume=True, **run)

    data = _data(recipe)
    if phase == "contrastive":
        return phases.train_contrastive(trainer(start), data, out, named.get("pairs", {}), numbers, dev, pair_workers)
    if phase == "distill":
        return phases.train_distill(trainer(untouched), data, start, out, numbers, dev)
    if phase == "multilingual":
        student, table = recipe.encoder(named["student"]), named.get("alignments")
        learned = phases.Data(data.kb, languages=tuple(named["languages"]), without=data.without)
        aligned = None if table is None else recipe.place(table)
        return phases.train_multilingual(trainer(student), learned, start, out, numbers, dev, aligned)
    return phases.train_sts(trainer(start), [recipe.place(one) for one in named["tables"]], out, numbers, dev)


def _data(recipe: Recipe) -> phases.Data:
    """The knowledge base and what of it is trained on."""
    said = recipe.said.get("data", {})
    return phases.Data(
        recipe.place(recipe.said["kb"]),
        tuple(recipe.place(one) for one in said.get("definitions", ())),
        said.get("system"),
        tuple(said.get("languages", ())),
        recipe.place(said["without"]) if "without" in said else None,
    )


def _bind(recipe: Recipe) -> None:
    """Write down what the run is made of, or refuse to go on with something else."""
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(_data(recipe).kb) as kb:
        now = {
            # what does not change the weights may change
            **{name: value for name, value in recipe.said.items() if name not in ("run", "out")},
            "content of the knowledge base": kb.content_hash,
            "content of the tables": _digest(recipe),
        }
    record = recipe.out / RECORD
    if not record.exists():
        try:
            recipe.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}", path=recipe.out, remedy="name a folder you can write to"
            ) from error
        if any(recipe.out.iterdir()):
            raise ConfigError("the folder is not empty and holds no run", path=recipe.out, remedy="name another folder")
        with whole_text(record, "the record of the run") as file:
            json.dump(now, file, indent=2)
        return
    try:
        before = json.loads(record.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the record of the run cannot be read: {error}", path=record, remedy="name another folder for out"
        ) from error
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if changed:
        raise ConfigError(
            f"the run began with another {' and '.join(changed)}",
            path=recipe.path,
            remedy="run it with what it began with, or name another folder for out",
        )


def _digest(recipe: Recipe) -> str:
    """Hash of the tables that the recipe names."""
    digest = hashlib.sha256()
    sections = [recipe.said.get("data", {}), *(recipe.said[phase] for phase in _PHASE if phase in recipe.said)]
    for section in sections:
        names = [*section.get("definitions", ()), *section.get("tables", ())]
        names += [section[name] for name in ("without", "dev", "alignments") if name in section]
        for name in names:
            path = recipe.place(name)
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                raise InputError(
                    f"cannot be read: {error.strerror}", path=path, remedy="mend the recipe, or bring the file"
                ) from error
    return digest.hexdigest()
