"""All phases by one recipe, each into a folder of its own; a run that was cut short goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

from medlink.errors import needs_extra
from medlink.files.folders import remove
from medlink.training.biolord import phases
from medlink.training.biolord.recipe_file import BioLordRecipe, read_recipe
from medlink.training.biolord.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, StsRecipe
from medlink.training.biolord.record import bind, unused
from medlink.training.biolord.sources import Progress, TrainingData
from medlink.training.common.recipes import RunOptions


def run_recipe(path: str | Path, *, progress: Progress | None = None) -> Path:
    """Run the phases of a recipe that are not done yet.

    A phase is done when its folder is there. After the contrastive phase the next starts from it; self-distillation
    goes back to what the contrastive phase started from, and learns from what came of it.

    Args:
        path: the recipe, a TOML file that ``docs/biolord.md`` describes.
        progress: called with lines of progress.

    Returns:
        Folder of the last encoder.

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
        with unused(work) as free:
            if free:
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
        return phases.run_distill(job, data, untouched, section.recipe(DistillationRecipe), start)
    if phase == "multilingual":
        learned = TrainingData(data.kb, languages=tuple(section.languages), without=data.without, progress=say)
        student, aligned = recipe.encoder(section.student), recipe.place_or_none(section.alignments)
        return phases.run_multilingual(job, learned, student, section.recipe(MultilingualRecipe), start, aligned)
    return phases.run_sts(job, recipe.tables(section), start, section.recipe(StsRecipe))
