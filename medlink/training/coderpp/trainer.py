"""CODER++ (Zeng et al. 2022): fine-grained term embeddings from hard positives and hard negatives.

Importing this module needs neither torch nor sentence-transformers; training does.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from medlink.errors import ConfigError
from medlink.models.encoders import BUILTIN, load_encoder
from medlink.models.static.encoder import StaticEncoder
from medlink.records import Name
from medlink.training.coderpp.terms import Terms
from medlink.training.common.trainer import Trainer
from medlink.training.recipes import CoderPlusPlusRecipe

if TYPE_CHECKING:
    from medlink.training.common.run import Run


class CoderPlusPlusTrainer(Trainer):
    """Train an encoder further by CODER++.

    Args:
        names: names of at least two concepts, one of them with two names that differ in more than case and accents.
        start: the encoder to start from: ``"builtin"``, a model folder, or ``hf:NAME``.
        recipe: the default is the paper's for a transformer and
            :meth:`~medlink.training.recipes.CoderPlusPlusRecipe.static` for a static encoder.

    Raises:
        ConfigError: the names do not suffice.
        EncoderError: there is no encoder to start from.
    """

    recipe: CoderPlusPlusRecipe

    def __init__(
        self, names: Iterable[Name], start: str | Path = BUILTIN, recipe: CoderPlusPlusRecipe | None = None
    ) -> None:
        self.terms = Terms(names)
        self._start = start
        encoder = load_encoder(start)
        self._start_fingerprint = encoder.fingerprint
        is_static = isinstance(encoder, StaticEncoder)
        self.recipe = recipe or (CoderPlusPlusRecipe.static() if is_static else CoderPlusPlusRecipe())

    def _run(self, run: Run) -> None:
        from medlink.training.coderpp.loop import CoderPlusPlusLoop
        from medlink.training.common.checkpoints import find_newest_checkpoint

        if run.evaluate is not None:
            raise ConfigError("CODER++ is trained without a development measure", remedy="leave evaluate out")
        run.bind(self.recipe, names=self.terms.digest, start=self._start_fingerprint)
        loop = CoderPlusPlusLoop(load_encoder(self._start), self.terms, self.recipe, run)
        loop.run(find_newest_checkpoint(run.folder))
        last = loop.last_log("informative")
        run.write(
            loop.part.save,
            title="Encoder trained by CODER++",
            summary="hard positives and hard negatives under the multi-similarity loss (Zeng et al. 2022, "
            "section 4.2; Wang et al. 2019)",
            command="medlink train coderpp",
            start=self._start_fingerprint,
            data={
                "names": self.terms.names,
                "concepts": self.terms.concepts,
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
