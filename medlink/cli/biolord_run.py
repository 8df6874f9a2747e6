"""``medlink train biolord run``: phases 1 to 5 by one TOML file, each into a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from medlink.cli import biolord_phases as phases
from medlink.cli.biolord_recipe import Recipe, read_recipe
from medlink.cli.biolord_record import bind, unused


def run_recipe(path: Path, log: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Run the phases of a recipe that are not done yet.

    A phase is done when its folder is there. After the contrastive phase the next starts from it; self-distillation
    goes back to what the contrastive phase started from, and learns from what came of it.

    Args:
        path: the recipe.
        log: called with lines of progress.
        say: called with one line for each phase.

    Raises:
        MedlinkError: the recipe is not as it should be, what a phase that is done was made of has changed, or a phase
            fails.
    """
    from medlink.training.common.trainer import processes_here

    recipe = read_recipe(path)
    processes = processes_here()
    if processes.is_main_process:
        bind(recipe)
    processes.wait_for_everyone()
    start = recipe.encoder(recipe.said["base"])
    untouched = start
    for phase in recipe.phases:
        out = recipe.folder(phase)
        if phase == "contrastive":
            untouched = start
        done = out.is_dir()
        processes.wait_for_everyone()
        if done:
            log(f"{phase}: done before")
            if processes.is_main_process:
                _clear(out.with_name(f"{out.name}.checkpoints"))
        elif phase != "soup" or processes.is_main_process:
            log(f"{phase}: begins")
            say(_run_phase(recipe, phase, start, untouched, out, log))
        processes.wait_for_everyone()
        if phase != "distill":
            start = str(out)
    say(f"{recipe.out}: complete, {Path(start).name} is the last encoder")


def _clear(work: Path) -> None:
    """Delete what a process that was killed at the very end left, unless one is at work there."""
    if work.is_dir():
        with unused(work) as free:
            if free:
                shutil.rmtree(work, ignore_errors=True)


def _run_phase(recipe: Recipe, phase: str, start: str, untouched: str, out: Path, log: Callable[[str], None]) -> str:
    """Run one phase; says what was made."""
    from medlink.training import BioLordTrainer

    if phase == "soup":
        return phases.average([recipe.folder("distill")], out)
    named, numbers = recipe.given(phase)
    run = dict(recipe.said.get("run", {}))
    pair_workers = run.pop("pair_workers", 0)
    dev = recipe.dev(phase)

    def trainer(begin: str) -> BioLordTrainer:
        """One that goes on where it stopped."""
        return BioLordTrainer(begin, log, resume=True, **run)

    data = recipe.data()
    if phase == "contrastive":
        return phases.train_contrastive(trainer(start), data, out, named.get("pairs", {}), numbers, dev, pair_workers)
    if phase == "distill":
        return phases.train_distill(trainer(untouched), data, start, out, numbers, dev)
    if phase == "multilingual":
        student, table = recipe.encoder(named["student"]), named.get("alignments")
        learned = phases.Data(data.kb, languages=tuple(named["languages"]), without=data.without)
        aligned = None if table is None else recipe.place(table)
        return phases.train_multilingual(trainer(student), learned, start, out, numbers, dev, aligned)
    return phases.train_sts(trainer(start), recipe.tables(phase), out, numbers, dev)
