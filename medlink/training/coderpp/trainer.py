"""CODER++ (Zeng et al. 2022): fine-grained term embeddings from hard positives and hard negatives.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from medlink.errors import ConfigError, needs_extra
from medlink.models.encoders import BUILTIN, Encoder, load_encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.records import Name
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Terms
from medlink.training.common.recipes import RunOptions


class CoderPlusPlusTrainer:
    """Train any encoder by CODER++, starting from one that exists.

    Args:
        names: names with their concepts; at least two concepts, one of them with two names that differ in more than
            case and accents.
        start: the encoder to start from: ``"builtin"``, a model folder, or ``hf:NAME``.
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
        self, names: Iterable[Name], start: str | Path = BUILTIN, recipe: CoderPlusPlusRecipe | None = None
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
        checkpoint_steps: int = 1000,
        workers: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> Encoder:
        """Run the recipe and write the encoder.

        Same names, start, recipe and number of threads give the same weights on a CPU, whether or not the run was cut
        short and resumed.

        Args:
            out: folder of the encoder; checkpoints lie beside it, in a folder of that name with ``.checkpoints``.
            resume: go on from the newest checkpoint.
            checkpoint_steps: steps between two checkpoints.
            workers: processes that prepare batches: some for a transformer on a GPU, 0 on a CPU. They do not change the
                weights.
            progress: called with one line now and then.

        Raises:
            ConfigError: a folder is in use or holds checkpoints of another run, this machine lacks the precision, or
                the recipe does not fit the encoder.
            EncoderError: the loss or the weights are NaN or infinite, a checkpoint is damaged, or the disk is full.
        """
        with needs_extra("train", "training"):
            from medlink.training.coderpp.loop import CoderPlusPlusLoop
            from medlink.training.coderpp.trainable import trainable
            from medlink.training.common.run import training_run

        options = RunOptions(resume=resume, checkpoint_steps=checkpoint_steps, workers=workers)
        if self.recipe.feature_dropout and not self._is_static:
            raise ConfigError(
                "feature_dropout is for a static encoder", remedy="leave it at 0; a transformer has its own dropout"
            )
        with training_run(out, self.recipe, options, progress) as run:
            run.bind(self.recipe, names=self.terms.digest, start=self._start_fingerprint)
            part = trainable(load_encoder(self._start), self.terms.text, self.recipe)
            loop = CoderPlusPlusLoop(part, self.terms, self.recipe, options, work=run.folder, log=run.progress)
            loop.run(run.newest())
            last = loop.figures
            run.write(
                part.save,
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
                figures={
                    "steps": loop.state.global_step,
                    "loss over the last of them": f"{last['loss']:.4f}" if last else None,
                    "informative pairs among them": f"{last['informative']:.2%}" if last else None,
                },
            )
        return load_encoder(out)
