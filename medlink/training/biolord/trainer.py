"""BioLORD (Remy et al. 2022 and 2024): encoders from names, definitions and relations of a knowledge base.

What is imported here needs neither torch nor sentence-transformers; training imports both.
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
    from medlink.training.data.rated import RatedPair
    from medlink.training.data.text_store import ConceptTexts

    Source = Mapping[str, Sequence[RatedPair]] | KnowledgeBasePairs | Callable[[], Iterable[ConceptTexts]] | Alignments


class BioLordTrainer(Trainer):
    """Train an encoder by a phase of BioLORD, which the recipe names; the next phase can start from what it wrote.

    ==========================  ===================================================================================
    recipe                      source
    ==========================  ===================================================================================
    ``StsRecipe``               rated pairs by name of their table (:mod:`medlink.training.data.rated`)
    ``ContrastiveRecipe``       pairs (:class:`medlink.training.data.pairs.KnowledgeBasePairs`)
    ``DistillationRecipe``      gives concepts (:func:`medlink.training.data.text_store.concept_texts`); a teacher
    ``MultilingualRecipe``      :class:`~medlink.training.biolord.multilingual.Alignments`; a teacher
    ==========================  ===================================================================================

    Args:
        source: what is trained on.
        start: the encoder that is trained further: a sentence-transformers folder, or ``hf:NAME``; for the contrastive
            phase ``"builtin"`` or the folder of a static encoder as well.
        recipe: the phase and how it trains; the default is the contrastive phase, as it suits the kind of encoder.
        teacher: the encoder that is imitated.
        about: facts about the pairs of the contrastive phase, for the card.

    Raises:
        ConfigError: a teacher is missing, or given where none is imitated.

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
        self.source, self.start, self.recipe = source, start, recipe or ContrastiveRecipe().suited(start)
        taught = isinstance(self.recipe, DistillationRecipe | MultilingualRecipe)
        if taught != (teacher is not None):
            raise ConfigError(
                "a teacher is missing" if taught else f"{type(self.recipe).__name__} has no use for a teacher",
                remedy="name the encoder that is imitated" if taught else "leave it out",
            )
        self._more = {"teacher": teacher} if taught else {"about": about} if about else {}
        if isinstance(self.recipe, DistillationRecipe):
            self._makes, self._first = {"holds": RUNS, "what": "encoders"}, "run-1"

    def _run(self, run: Run) -> None:
        _phase(self.recipe)(run, self.source, self.start, self.recipe, **self._more)


def _phase(recipe: PhaseRecipe) -> Callable[..., None]:
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
