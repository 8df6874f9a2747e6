"""BioLORD (Remy et al. 2022 and 2024): encoders from names, definitions and relations of a knowledge base.

Importing this module needs neither torch nor sentence-transformers; training does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError
from medlink.training.biolord import RUNS
from medlink.training.common.trainer import Trainer
from medlink.training.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, PhaseRecipe, StsRecipe

if TYPE_CHECKING:
    from medlink.training.biolord.multilingual import Alignments
    from medlink.training.common.run import Run
    from medlink.training.data.pairs import KnowledgeBasePairs
    from medlink.training.data.rated_pairs import RatedPair
    from medlink.training.data.text_store import ConceptTexts

    Source = Mapping[str, Sequence[RatedPair]] | KnowledgeBasePairs | Callable[[], Iterable[ConceptTexts]] | Alignments


class BioLordTrainer(Trainer):
    """Train an encoder by the phase of BioLORD that the recipe chooses; the next phase can start from the result.

    ==========================  ===================================================================================
    recipe                      source
    ==========================  ===================================================================================
    ``StsRecipe``               rated pairs by name of their table (:mod:`medlink.training.data.rated_pairs`)
    ``ContrastiveRecipe``       pairs (:class:`medlink.training.data.pairs.KnowledgeBasePairs`)
    ``DistillationRecipe``      a function that iterates over concepts
                                (:func:`medlink.training.data.text_store.group_by_concept`); needs a teacher
    ``MultilingualRecipe``      :class:`~medlink.training.biolord.multilingual.Alignments`; needs a teacher
    ==========================  ===================================================================================

    Args:
        start: the encoder to train further: a sentence-transformers folder, or ``hf:NAME``; for the contrastive phase
            also ``"builtin"`` or the folder of a static encoder.
        recipe: phase and hyperparameters; the default is the contrastive phase, with defaults for the kind of encoder.
        about: facts about the pairs of the contrastive phase, for the card.

    Raises:
        ConfigError: a teacher is missing, or given to a phase without one.

    Examples:
        >>> BioLordTrainer({}, "hf:sentence-transformers/all-mpnet-base-v2", StsRecipe(loss="cosent")).recipe.epochs
        10
    """

    recipe: PhaseRecipe

    def __init__(
        self,
        source: Source,
        start: str | Path,
        recipe: PhaseRecipe | None = None,
        *,
        teacher: str | Path | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.source, self.start, self.recipe = source, start, recipe or ContrastiveRecipe().for_encoder(start)
        needs_teacher = isinstance(self.recipe, DistillationRecipe | MultilingualRecipe)
        if needs_teacher and teacher is None:
            raise ConfigError("a teacher is missing", remedy="name the encoder that is imitated")
        if not needs_teacher and teacher is not None:
            raise ConfigError(f"{type(self.recipe).__name__} has no use for a teacher", remedy="leave it out")
        self._options = {"teacher": teacher} if needs_teacher else {"about": about} if about else {}
        if isinstance(self.recipe, DistillationRecipe):
            self._output, self._first_encoder = {"marker": RUNS, "kind": "encoders"}, "run-1"

    def _run(self, run: Run) -> None:
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
        if type(self.recipe) not in phases:
            remedy = f"give one of {', '.join(kind.__name__ for kind in phases)}"
            raise ConfigError(f"{type(self.recipe).__name__} is the recipe of no phase", remedy=remedy)
        phases[type(self.recipe)](run, self.source, self.start, self.recipe, **self._options)
