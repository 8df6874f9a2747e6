"""Base class of the trainers. Importing it needs neither torch nor sentence-transformers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from medlink.errors import needs_extra
from medlink.models.encoders import Encoder, load_encoder
from medlink.training.recipes import Recipe, RunOptions

if TYPE_CHECKING:
    from medlink.training.common.resumable_trainer import Measure
    from medlink.training.common.run import Run


class Trainer(ABC):
    """Base of the trainers; a subclass supplies data and model."""

    recipe: Recipe
    # arguments of `training_run` for an output that is not an encoder folder, and the first encoder in it
    _output: Mapping[str, str] = {}
    _first_encoder = ""

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        checkpoint_steps: int = 1000,
        progress: Callable[[str], None] | None = None,
        evaluate: Measure | None = None,
    ) -> Encoder:
        """Run the recipe and write the encoder.

        The same data, start, recipe and number of threads give the same weights on a CPU, even if the run was killed
        and resumed. Checkpoints are in ``OUT.checkpoints``.

        Args:
            out: folder of the encoder; for self-distillation, folder of ``run-1``, ``run-2`` and so on, which
                :func:`medlink.training.common.averaging.soup` averages.
            resume, checkpoint_steps: see :class:`~medlink.training.recipes.RunOptions`.
            progress: called with lines of progress.
            evaluate: development measure of the model, higher is better; the weights with the best measure are written.

        Returns:
            The trained encoder, for self-distillation the first.

        Raises:
            ConfigError: nothing can be learned from the data, the recipe does not fit the encoder or this machine, a
                library is missing, or a folder is in use or holds another run.
            EncoderError: an encoder cannot be used, the loss or the weights are NaN or infinite, a checkpoint is
                damaged, or the disk is full.
        """
        options = RunOptions(resume=resume, checkpoint_steps=checkpoint_steps)
        with needs_extra("train", "training"):
            from medlink.training.common.run import training_run

            with training_run(out, self.recipe, options, progress, evaluate, **self._output) as run:
                self._run(run)
        return load_encoder(Path(out) / self._first_encoder)

    @abstractmethod
    def _run(self, run: Run) -> None:
        """Train, and write the result."""
