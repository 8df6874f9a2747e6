"""CODER++ (Zeng et al. 2022): fine-grained term embeddings from hard positives and hard negatives.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path

from medlink.errors import ConfigError, needs_extra
from medlink.models.encoders import BUILTIN, Encoder, check_folder, load_encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.records import Name
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Terms

CHECKPOINT_STEPS = 1000


class CoderPlusPlusTrainer:
    """Train any encoder by CODER++, starting from one that exists.

    Args:
        names: names with their concepts; at least two concepts, one of them with two names that differ in more than
            case and accents.
        start: the encoder to start from: ``"builtin"``, a model folder, or a hub model.
        recipe: how to train; the default is the paper's for a transformer and
            :meth:`~medlink.training.coderpp.recipe.CoderPlusPlusRecipe.static` for a static encoder. It may be set anew
            before :meth:`train`.

    Raises:
        ConfigError: the names do not suffice.
        EncoderError: there is no encoder to start from.

    >>> names = [Name("A", "kidney stone"), Name("A", "renal calculus"), Name("B", "stroke")]
    >>> CoderPlusPlusTrainer(names).recipe.refresh
    'epoch'
    """

    def __init__(
        self,
        names: Iterable[Name],
        start: str | Path = BUILTIN,
        recipe: CoderPlusPlusRecipe | None = None,
    ) -> None:
        self.terms = Terms(names)
        self._start = start
        encoder = load_encoder(start)
        self._start_fingerprint = encoder.fingerprint
        self._is_static = isinstance(encoder, StaticEncoder)
        self.recipe = recipe or (CoderPlusPlusRecipe.static() if self._is_static else CoderPlusPlusRecipe())

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        checkpoint_steps: int = CHECKPOINT_STEPS,
        workers: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> Encoder:
        """Run the recipe and write the encoder.

        Same names, start, recipe and number of threads give the same weights on a CPU, whether or not the run was cut
        short and resumed.

        Args:
            out: folder of the encoder; the checkpoints lie in a folder of that name with ``.checkpoints`` until the run
                is complete.
            resume: go on from the newest checkpoint.
            checkpoint_steps: steps between two checkpoints.
            workers: processes that turn batches into tensors while the model is busy: some for a transformer on a GPU,
                0 on a CPU. They do not change the weights.
            progress: called with one line now and then.

        Returns:
            The trained encoder, opened from ``out``.

        Raises:
            ConfigError: a folder is in use or holds checkpoints of another run, this machine lacks the precision, or
                the recipe does not fit the encoder.
            EncoderError: the loss or a weight is NaN or infinite, a checkpoint is damaged, or the disk is full.
        """
        with needs_extra("train", "training"):
            from medlink.training.coderpp.loop import CoderPlusPlusLoop
            from medlink.training.coderpp.trainable import trainable
            from medlink.training.common import checkpoint
            from medlink.training.common.card import write_card
            from medlink.training.common.trainer import precision_here, processes_here, settings_here

        out = Path(out).resolve()
        self._check(out, checkpoint_steps, workers)
        precision_here(self.recipe.precision)
        work = out.with_name(f"{out.name}.checkpoints")
        processes = processes_here()
        run = {
            "names": self.terms.digest,
            "start": self._start_fingerprint,
            "recipe": settings_here(self.recipe),
            "processes": processes.num_processes,
        }
        found = checkpoint.check_work_folder(work, run, resume=resume)
        part = trainable(load_encoder(self._start), self.terms.text, self.recipe)
        processes.wait_for_everyone()
        with checkpoint.work_folder(work, run) if processes.is_main_process else nullcontext():
            processes.wait_for_everyone()
            loop = CoderPlusPlusLoop(
                part,
                self.terms,
                self.recipe,
                work=work,
                checkpoint_steps=checkpoint_steps,
                workers=workers,
                log=progress or (lambda _: None),
            )
            loop.run(found)
            if processes.is_main_process:
                with checkpoint.replacing(out, "the encoder") as beside:
                    part.save(beside)
                    write_card(
                        beside,
                        load_encoder(beside),
                        title="Encoder trained by CODER++",
                        summary="hard positives and hard negatives under the multi-similarity loss (Zeng et al. 2022, "
                        "section 4.2; Wang et al. 2019)",
                        command="medlink train coderpp",
                        start=self._start_fingerprint,
                        data={
                            "names": self.terms.names,
                            "concepts": len(self.terms.concept_ids),
                            "distinct terms": len(self.terms),
                            "SHA-256 of the names with their concepts": f"`{self.terms.digest}`",
                        },
                        recipe=self.recipe,
                        figures={"steps": loop.state.global_step, **_last(loop.figures)},
                    )
        if processes.is_main_process:
            checkpoint.remove(work)
        processes.wait_for_everyone()
        return load_encoder(out)

    def _check(self, out: Path, checkpoint_steps: int, workers: int) -> None:
        """Refuse what can be seen to fail before anything is written."""
        if checkpoint_steps < 1:
            raise ConfigError(f"checkpoint_steps is {checkpoint_steps}, at least 1 expected")
        if workers < 0:
            raise ConfigError(f"workers is {workers}, at least 0 expected")
        if self.recipe.feature_dropout and not self._is_static:
            raise ConfigError(
                "feature_dropout is for a static encoder", remedy="leave it at 0; a transformer has its own dropout"
            )
        check_folder(out)


def _last(figures: Mapping[str, float]) -> dict[str, str]:
    """What the last line of progress said; nothing where there was none."""
    if not figures:
        return {}
    return {
        "loss over the last of them": f"{figures['loss']:.4f}",
        "informative pairs among them": f"{figures['informative']:.2%}",
    }
