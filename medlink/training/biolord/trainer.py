"""BioLORD (Remy et al. 2022 and 2024): encoders from names, definitions and relations of a knowledge base.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, needs_extra
from medlink.models import load_encoder
from medlink.training.biolord.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, StsRecipe
from medlink.training.common.recipes import PhaseRecipe, RunOptions

if TYPE_CHECKING:
    from medlink.models.encoders import Encoder
    from medlink.training.biolord.contrastive import PairStream
    from medlink.training.biolord.multilingual_data import Alignments
    from medlink.training.common.batch_trainer import Measure
    from medlink.training.data.rated import RatedPair
    from medlink.training.data.text_store import ConceptTexts

    Source = Mapping[str, Sequence[RatedPair]] | PairStream | Callable[[], Iterable[ConceptTexts]] | Alignments


class BioLordTrainer:
    """Train a transformer by a phase of BioLORD, which the recipe names; the next phase can start from what it wrote.

    ==========================  ===================================================================================
    recipe                      source
    ==========================  ===================================================================================
    ``StsRecipe``               rated pairs by name of their table (:mod:`medlink.training.data.rated`)
    ``ContrastiveRecipe``       pairs (:class:`medlink.training.data.pairs.KnowledgeBasePairs`)
    ``DistillationRecipe``      gives concepts (:func:`medlink.training.data.text_store.concept_texts`); a teacher
    ``MultilingualRecipe``      :class:`~medlink.training.biolord.multilingual_data.Alignments`; a teacher
    ==========================  ===================================================================================

    Args:
        source: what is trained on.
        start: the encoder that is trained further: a sentence-transformers folder, or ``hf:NAME``.
        recipe: the phase and how it trains; the default is the contrastive phase.
        teacher: the encoder that is imitated.
        about: facts about the pairs of the contrastive phase, for the card.

    Raises:
        ConfigError: a teacher is missing, or given where none is imitated.

    >>> BioLordTrainer({}, "hf:sentence-transformers/all-mpnet-base-v2", StsRecipe(loss="cosent")).recipe.epochs
    10
    """

    def __init__(
        self,
        source: Source,
        start: str | Path,
        recipe: PhaseRecipe | None = None,
        *,
        teacher: str | Path | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.source, self.start, self.recipe = source, start, recipe or ContrastiveRecipe()
        taught = isinstance(self.recipe, DistillationRecipe | MultilingualRecipe)
        if taught != (teacher is not None):
            raise ConfigError(
                "a teacher is missing" if taught else f"{type(self.recipe).__name__} has no use for a teacher",
                remedy="name the encoder that is imitated" if taught else "leave it out",
            )
        self._more = {"teacher": teacher} if taught else {"about": about} if about else {}

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        checkpoint_steps: int = 1000,
        workers: int = 0,
        progress: Callable[[str], None] | None = None,
        evaluate: Measure | None = None,
    ) -> Encoder:
        """Run the recipe and write the encoder.

        Same source, start, recipe and number of threads give the same weights on a CPU, whether or not the run was cut
        short and resumed. What is not finished lies in a folder of the encoder's name with ``.checkpoints``.

        Args:
            out: folder of the encoder; of ``run-1``, ``run-2`` and so on for self-distillation, to be averaged by
                :func:`medlink.training.common.averaging.soup`.
            resume, checkpoint_steps, workers: see :class:`~medlink.training.common.recipes.RunOptions`.
            progress: called with one line now and then.
            evaluate: development measure of the model, higher is better; the weights with the best are kept.

        Returns:
            The trained encoder, opened from ``out``; the first one of self-distillation.

        Raises:
            ConfigError: the source teaches nothing, a library is missing, or a folder is in use or holds another run.
            EncoderError: an encoder cannot be used, the loss or the weights are NaN or infinite, a checkpoint is
                damaged, or the disk is full.
        """
        options = RunOptions(resume=resume, checkpoint_steps=checkpoint_steps, workers=workers)
        with needs_extra("train", "training"):
            from medlink.training.biolord.distillation import RUNS
            from medlink.training.common.run import training_run

            phase = _phase(self.recipe)
        several = isinstance(self.recipe, DistillationRecipe)
        kind = {"holds": RUNS, "what": "encoders"} if several else {}
        with training_run(out, self.recipe, options, progress, evaluate, **kind) as run:
            phase(run, self.source, self.start, self.recipe, **self._more)
        return load_encoder(Path(out) / "run-1" if several else out)


def _phase(recipe: PhaseRecipe) -> Callable[..., None]:
    """What runs the phase that a recipe is of."""
    from medlink.training.biolord.contrastive import train_contrastive
    from medlink.training.biolord.distillation import distill
    from medlink.training.biolord.multilingual import train_multilingual
    from medlink.training.biolord.sts import train_sts

    phases: dict[type[PhaseRecipe], Callable[..., None]] = {
        StsRecipe: train_sts,
        ContrastiveRecipe: train_contrastive,
        DistillationRecipe: distill,
        MultilingualRecipe: train_multilingual,
    }
    if type(recipe) not in phases:
        remedy = f"give one of {', '.join(kind.__name__ for kind in phases)}"
        raise ConfigError(f"{type(recipe).__name__} is the recipe of no phase", remedy=remedy)
    return phases[type(recipe)]
