"""BioLORD (Remy et al. 2022 and 2024): encoders from names, definitions and relations of a knowledge base.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError
from medlink.models.encoders import Encoder
from medlink.training.biolord.recipes import ContrastiveRecipe, StsRecipe

if TYPE_CHECKING:
    from medlink.models.static.encoder import StaticConfig
    from medlink.records import Name
    from medlink.training.biolord.contrastive import PairStream
    from medlink.training.biolord.multilingual_data import Alignments
    from medlink.training.biolord.recipes import DistillationRecipe, MultilingualRecipe
    from medlink.training.biolord.sts import Rated
    from medlink.training.common.phase import Measure, Run
    from medlink.training.data.text_store import ConceptTexts
    from medlink.training.static.recipes import StaticStudentRecipe

CHECKPOINT_STEPS = 1000


class BioLordTrainer:
    """Train a transformer by the phases of BioLORD; each writes an encoder's folder, from which the next can start.

    Same data, start, recipe and number of threads give the same weights on a CPU, whether or not a run was cut short
    and resumed. The checkpoints of a phase lie in a folder of the encoder's name with ``.checkpoints`` until it is
    complete.

    Args:
        start: the encoder to start from: a sentence-transformers folder, or a hub model.
        log: called with one line now and then.
        resume: go on from the newest checkpoint.
        checkpoint_steps: steps between two checkpoints.
        workers: processes that turn batches into tensors while the model is busy: some for a GPU, 0 on a CPU. They do
            not change the weights.

    >>> BioLordTrainer("sentence-transformers/all-mpnet-base-v2", checkpoint_steps=500).start
    'sentence-transformers/all-mpnet-base-v2'
    """

    def __init__(
        self,
        start: str | Path,
        log: Callable[[str], None] | None = None,
        *,
        resume: bool = False,
        checkpoint_steps: int = CHECKPOINT_STEPS,
        workers: int = 0,
    ) -> None:
        self.start = start
        self._log = log or (lambda _: None)
        self._resume, self._checkpoint_steps, self._workers = resume, checkpoint_steps, workers

    def sts(
        self,
        tables: Mapping[str, Sequence[Rated]],
        out: str | Path,
        recipe: StsRecipe | None = None,
        *,
        evaluate: Measure | None = None,
    ) -> Encoder:
        """Phase 1: fine-tune on rated sentence pairs, before and, as in 2023, after the contrastive phase.

        Args:
            tables: rated pairs by name of their table, such as :func:`medlink.training.data.rated.read_pairs` reads.
            out: folder of the encoder.
            recipe: how; the default is that of BioLORD 2022, appendix A.4.
            evaluate: development measure, higher is better; the weights with the best are kept.

        Returns:
            The trained encoder, opened from ``out``.

        Raises:
            ConfigError: the tables teach nothing, or a folder is in use or holds another run.
            EncoderError: the start is no transformer, the loss or the weights are no numbers, a checkpoint is damaged,
                or the disk is full.
        """
        with _libraries():
            from medlink.training.biolord.sts import StsBatches, sts_loss
            from medlink.training.common.phase import train_encoder

        how = recipe or StsRecipe()
        batches = StsBatches(tables, how.batch_size, how.seed)
        data = {name: f"{len(rows):,} rated pairs" for name, rows in tables.items()}
        run = self._run(evaluate)
        return train_encoder(out, self.start, "sts", lambda model: (batches, sts_loss(model, how)), how, run, data)

    def contrastive(
        self,
        pairs: PairStream,
        out: str | Path,
        recipe: ContrastiveRecipe | None = None,
        *,
        evaluate: Measure | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Encoder:
        """Phase 2: InfoNCE on names and what is said of their concepts.

        Args:
            pairs: where the pairs come from.
            out: folder of the encoder.
            recipe: how; the default is that of BioLORD 2022, appendix A.2.
            evaluate: development measure, higher is better; the weights with the best are kept.
            data: facts about the pairs, for the card.

        Returns:
            The trained encoder, opened from ``out``.

        Raises:
            ConfigError: a batch needs more concepts than there are, or a folder is in use or holds another run.
            EncoderError: the start is no transformer, the loss or the weights are no numbers, a checkpoint is damaged,
                or the disk is full.
        """
        with _libraries():
            from medlink.training.biolord.contrastive import InfoNceLoss, PairBatches
            from medlink.training.common.phase import train_encoder

        how = recipe or ContrastiveRecipe()
        batches = PairBatches(pairs, how.batch_size)
        facts = {**(data or {}), "pairs of an epoch": pairs.pairs_per_epoch}
        return train_encoder(
            out,
            self.start,
            "contrastive",
            lambda model: (batches, InfoNceLoss(model, how.temperature)),
            how,
            self._run(evaluate),
            facts,
        )

    def distill(
        self,
        concepts: Callable[[], Iterable[ConceptTexts]],
        teacher: str | Path,
        out: str | Path,
        recipe: DistillationRecipe | None = None,
        *,
        evaluate: Measure | None = None,
    ) -> list[Path]:
        """Phase 3: teach the start, by several seeds, where the contrastive model puts each concept.

        Args:
            concepts: see :class:`~medlink.training.biolord.distillation.SelfDistillation`.
            teacher: the contrastive model.
            out: folder of the encoders.
            recipe: how.
            evaluate: development measure, higher is better.

        Returns:
            The folders of the encoders, to be averaged.

        Raises:
            MedlinkError: see :meth:`medlink.training.biolord.distillation.SelfDistillation.train`.
        """
        with _libraries():
            from medlink.training.biolord.distillation import SelfDistillation

        phase = SelfDistillation(concepts, teacher, self.start, recipe, self._log)
        return phase.train(out, evaluate=evaluate, **self._options())

    @staticmethod
    def soup(folders: Sequence[str | Path], out: str | Path) -> Encoder:
        """Phase 4: the mean of the weights; see :func:`medlink.training.common.averaging.soup`.

        Args:
            folders: of encoders that match.
            out: folder of the mean.

        Returns:
            The mean, opened from ``out``.

        Raises:
            EncoderError: the encoders do not match.
        """
        with _libraries():
            from medlink.training.common.averaging import soup

        return soup(folders, out)

    def multilingual(
        self,
        alignments: Alignments,
        teacher: str | Path,
        out: str | Path,
        recipe: MultilingualRecipe | None = None,
        *,
        evaluate: Measure | None = None,
    ) -> Encoder:
        """Phase 5: teach the start, a multilingual model, the teacher's embeddings of English names.

        Args:
            alignments: names of one meaning in several languages.
            teacher: whose embeddings are learned.
            out: folder of the encoder.
            recipe: how.
            evaluate: development measure, higher is better.

        Returns:
            The student, opened from ``out``.

        Raises:
            MedlinkError: see :meth:`medlink.training.biolord.multilingual.CrossLingualDistillation.train`.
        """
        with _libraries():
            from medlink.training.biolord.multilingual import CrossLingualDistillation

        phase = CrossLingualDistillation(alignments, teacher, self.start, recipe, self._log)
        return phase.train(out, evaluate=evaluate, **self._options())

    def static(
        self,
        names: Callable[[], Iterable[Name]],
        out: str | Path,
        student: str | Path | StaticConfig | None = None,
        recipe: StaticStudentRecipe | None = None,
        *,
        evaluate: Measure | None = None,
    ) -> Encoder:
        """Phase 6: teach a small static encoder, which needs no torch, what the start knows of names.

        Args:
            names: gives the names of a knowledge base.
            out: folder of the encoder.
            student: see :class:`~medlink.training.static.student.StaticStudent`.
            recipe: how.
            evaluate: development measure, higher is better.

        Returns:
            The student, opened from ``out``.

        Raises:
            MedlinkError: see :meth:`medlink.training.static.student.StaticStudent.train`.
        """
        with _libraries():
            from medlink.training.static.student import StaticStudent

        phase = StaticStudent(names, self.start, student, recipe, self._log)
        return phase.train(out, evaluate=evaluate, **self._options())

    def _options(self) -> dict[str, Any]:
        """How the phases that distil are run."""
        return {"resume": self._resume, "checkpoint_steps": self._checkpoint_steps, "workers": self._workers}

    def _run(self, evaluate: Measure | None) -> Run:
        """How the other phases are run."""
        from medlink.training.common.phase import Run

        return Run(log=self._log, evaluate=evaluate, **self._options())


@contextmanager
def _libraries() -> Iterator[None]:
    """Say which extra a library that is missing comes with.

    Raises:
        ConfigError: one is missing.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"a library for training is missing: {error.name}", remedy="install medlink[train]"
        ) from error
