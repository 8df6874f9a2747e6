"""The folder in which a phase that regresses on a teacher keeps its texts, its targets and its checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError
from medlink.models.static.encoder import write_json
from medlink.training.biolord.distillation_loss import TargetLoss
from medlink.training.common import checkpoint
from medlink.training.common.loop import Figures, train_phase
from medlink.training.common.recipes import PhaseRecipe
from medlink.training.common.trainer import processes_here
from medlink.training.data.text_store import Entry, TargetBatches, TextStore

_RUN = "run.json"
_SETTLED = "phase.json"


class PhaseWork:
    """What a phase keeps until it is complete. Of several processes the first one makes it, the others read it.

    Args:
        folder: where.
        resume: go on with what is there.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.folder, self._resume = folder, resume
        self._first = processes_here().is_main_process

    def store(self, entries: Callable[[], Iterable[Entry]]) -> TextStore:
        """Write the texts. They are written anew when a run is resumed, to see that they are still the same."""
        path = self.folder / "texts.sqlite"
        if self._first:
            TextStore.build(path, entries())
        processes_here().wait_for_everyone()
        return TextStore(path)

    def settle(self, facts: Mapping[str, Any]) -> None:
        """Bind the folder to data, encoders and recipe.

        Raises:
            ConfigError: a run that is resumed began with others.
        """
        path = self.folder / _SETTLED
        if not self._first:
            return
        if self._resume and path.exists():
            with checkpoint.reading(path):
                before = json.loads(path.read_text("utf-8"))
                changed = [key for key in facts if before[key] != json.loads(json.dumps(facts[key]))]
            if changed:
                raise ConfigError(
                    f"the unfinished run began with another {' and '.join(changed)}",
                    path=self.folder,
                    remedy="resume with the data, encoders and options it began with, or delete the folder",
                )
            return
        beside = path.with_suffix(".writing")
        write_json(beside, facts)
        os.replace(beside, path)

    def targets(self, made_of: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any]]) -> dict[str, Any]:
        """Make ``targets.npy``, or keep the one that was made of the same.

        Args:
            made_of: what decides the targets.
            make: writes the file and says what is worth knowing of it.

        Returns:
            What ``make`` said.
        """
        path, facts = self.folder / "targets.npy", self.folder / "targets.json"
        if self._first:
            kept = facts.exists() and path.exists()
            with checkpoint.reading(facts):
                kept = kept and json.loads(facts.read_text("utf-8"))["made_of"] == json.loads(json.dumps(made_of))
            if not kept:
                facts.unlink(missing_ok=True)
                figures = make(path)
                with checkpoint.writing(facts.with_suffix(".writing"), "the facts of the targets"):
                    write_json(facts.with_suffix(".writing"), {"made_of": made_of, "figures": figures})
                    os.replace(facts.with_suffix(".writing"), facts)
        processes_here().wait_for_everyone()
        with checkpoint.reading(facts):
            said: dict[str, Any] = json.loads(facts.read_text("utf-8"))["figures"]
        return said

    def regress(
        self,
        model: SentenceTransformer,
        store: TextStore,
        recipe: PhaseRecipe,
        *,
        name: str,
        log: Callable[[str], None],
        evaluate: Callable[[SentenceTransformer], float] | None,
        checkpoint_steps: int,
        workers: int,
    ) -> Figures:
        """Train a model in place to embed the texts by their targets; the checkpoints lie in a folder ``name``."""
        with checkpoint.reading(self.folder / "targets.json"):
            made_of = json.dumps(json.loads((self.folder / "targets.json").read_text("utf-8"))["made_of"])
        batches = TargetBatches(
            store, self.folder / "targets.npy", made_of, batch_size=recipe.batch_size, seed=recipe.seed
        )
        return train_phase(
            model,
            batches,
            TargetLoss(model),
            recipe,
            work=self.folder / name,
            resume=self._resume,
            log=log,
            evaluate=evaluate,
            checkpoint_steps=checkpoint_steps,
            workers=workers,
        )


@contextmanager
def phase_work(out: Path, command: str, *, resume: bool) -> Iterator[PhaseWork]:
    """The folder of an unfinished phase, beside the folder that it is to make; deleted when the block ends well.

    Args:
        out: what the phase is to make.
        command: the phase as the command line calls it.
        resume: go on with what a run that was cut short left.

    Raises:
        ConfigError: there is an unfinished run that is not to be resumed, or another process is at work.
    """
    folder = out.with_name(f"{out.name}.checkpoints")
    first = processes_here().is_main_process
    if first and folder.exists() and not folder.is_dir():
        raise ConfigError("there is a file of that name", path=folder, remedy="name another folder")
    if first and folder.exists() and not checkpoint.never_begun(folder) and not (folder / _RUN).exists():
        raise ConfigError("the folder is not empty and holds no run", path=folder, remedy="name another folder")
    if first and not resume and (folder / _SETTLED).exists():
        raise ConfigError(
            "the folder holds an unfinished run", path=folder, remedy="resume it with --resume, or delete the folder"
        )
    processes_here().wait_for_everyone()
    ours = False
    try:
        with checkpoint.work_folder(folder, {"phase": command}) if first else nullcontext():
            ours = first
            processes_here().wait_for_everyone()
            yield PhaseWork(folder, resume=resume)
            processes_here().wait_for_everyone()
    except BaseException:
        # nothing is lost that a run could go on from
        if ours and not (folder / _SETTLED).exists():
            checkpoint.remove(folder)
        raise
    if first:
        checkpoint.remove(folder)
    processes_here().wait_for_everyone()
