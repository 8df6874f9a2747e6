"""Cross-lingual distillation: a student learns where the teacher puts the English names, for names in other languages.

BioLORD-2023, section "Cross-lingual distillation", after Reimers and Gurevych 2020: a multilingual student is to give,
for a name in whatever language, the embedding that the teacher gives for the English name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from medlink.errors import ConfigError, EncoderError
from medlink.models.encoders import Encoder, check_folder, fingerprint_of, load_encoder
from medlink.training.biolord.distillation_targets import sum_embeddings
from medlink.training.biolord.distillation_work import PhaseWork, phase_work
from medlink.training.biolord.multilingual_data import (
    SAMPLED,
    Alignments,
    SenseFilter,
    aligned_entries,
    first_source,
    sample,
    thresholds,
)
from medlink.training.biolord.recipes import MultilingualRecipe
from medlink.training.common.loop import CHECKPOINT_STEPS
from medlink.training.common.trainer import precision_here, processes_here, settings_here
from medlink.training.common.transformer import save_encoder, trainable_transformer
from medlink.training.data.text_store import Entry, TextStore


class CrossLingualDistillation:
    """Train a student on the teacher's embeddings of English names, for those names and their translations.

    Args:
        alignments: names of one meaning in several languages.
        teacher: any encoder: a folder, a hub model or ``"builtin"``.
        student: the transformer that learns.
        recipe: how to train.
        log: called with one line now and then.
    """

    def __init__(
        self,
        alignments: Alignments,
        teacher: str | Path,
        student: str | Path,
        recipe: MultilingualRecipe | None = None,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._alignments, self._teacher, self._student, self._log = alignments, teacher, student, log
        self.recipe = recipe or MultilingualRecipe()

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        evaluate: Callable[[SentenceTransformer], float] | None = None,
        checkpoint_steps: int = CHECKPOINT_STEPS,
        workers: int = 0,
    ) -> Encoder:
        """Run the recipe and write the student.

        Memory grows by 4 bytes for each text; the texts and the teacher's embeddings of the English names lie on disk.

        Args:
            out: folder of the student; what is not finished lies in one of that name with ``.checkpoints``.
            resume: go on where a run that was cut short stopped.
            evaluate: development measure, higher is better.
            checkpoint_steps: steps between two checkpoints.
            workers: processes that turn batches into tensors while the model is busy.

        Returns:
            The student, opened from ``out``.

        Raises:
            ConfigError: a language is missing, the filter knows none of the languages, the student is of another width,
                or a folder is in use.
            InputError: a table of alignments is not as it should be.
            EncoderError: an encoder cannot be used, the loss is no number, or the disk is full.
        """
        out, recipe = Path(out).resolve(), self.recipe
        check_folder(out)
        precision_here(recipe.precision)
        with phase_work(out, "multilingual", resume=resume) as work:
            student = trainable_transformer(self._student)
            start = fingerprint_of(student)
            if processes_here().is_main_process:
                self._check_width(int(student.get_embedding_dimension() or 0), load_encoder(self._teacher).dimension)
            said: dict[str, Any] = {}
            store = work.store(lambda: self._entries(said))
            facts = self._targets(work, store, {"start": start, "similarity filter": said.get("similarity filter")})
            model = fitted(student, facts.pop("width"), recipe.seed)
            figures = work.regress(
                model,
                store,
                recipe,
                name="run",
                log=self._log,
                evaluate=evaluate,
                checkpoint_steps=checkpoint_steps,
                workers=workers,
            )
            if processes_here().is_main_process:
                data = {
                    "languages": ", ".join(self._alignments.languages),
                    "names in the language of the teacher": store.rows,
                    "names in other languages": len(store) - store.rows,
                    "SHA-256 of the names": store.digest,
                    **said,
                    **facts,
                }
                save_encoder(model, out, "multilingual", start=start, data=data, recipe=recipe, figures=figures)
        return load_encoder(out)

    def _targets(self, work: PhaseWork, store: TextStore, encoders: Mapping[str, Any]) -> dict[str, Any]:
        """Embed the English names by the teacher, which is then let go; ``encoders`` are the others that matter."""
        made_of: dict[str, Any] = {}
        teacher: Encoder | None = None
        if processes_here().is_main_process:
            teacher = load_encoder(self._teacher)
            made_of = {"data": store.digest, "teacher": teacher.fingerprint}
            work.settle({**made_of, **encoders, "recipe": settings_here(self.recipe)})

        def make(path: Path) -> Mapping[str, Any]:
            """Write the targets."""
            assert teacher is not None
            self._log(f"embedding {store.rows} names by the teacher")
            sum_embeddings(store, teacher.encode, teacher.dimension, path)
            return {"teacher": teacher.fingerprint, "width": teacher.dimension}

        return work.targets(made_of, make)

    def _check_width(self, width: int, expected: int) -> None:
        """Refuse a student whose embeddings cannot be compared with the teacher's."""
        if width != expected and not self.recipe.project:
            raise ConfigError(
                f"the student embeds in {width} dimensions, the teacher in {expected}",
                remedy="name a student as wide as the teacher, or add a linear layer with project",
            )

    def _entries(self, said: dict[str, Any]) -> Iterator[Entry]:
        """The names with their weights; what the filter found goes into ``said``."""
        recipe = self.recipe
        if not recipe.filter:
            return aligned_entries(self._alignments, first_source)
        encoder = load_encoder(recipe.filter)
        low, high = recipe.low, recipe.high
        if low is None or high is None:
            low, high = thresholds(encoder, sample(self._alignments, SAMPLED, recipe.seed))
        sense = SenseFilter(encoder, low, high)
        said |= {
            "similarity filter": encoder.fingerprint,
            "its cosines of weights 0 and 1": f"{low:.3f} and {high:.3f}",
        }
        self._log(f"similarity filter: weight 0 up to cosine {low:.3f}, 1 from {high:.3f}")
        return aligned_entries(self._alignments, sense)


def fitted(student: SentenceTransformer, width: int, seed: int) -> SentenceTransformer:
    """A student that embeds in the given number of dimensions: itself, or with a random linear layer.

    Args:
        student: the transformer; the layer comes before a normalisation that it ends in.
        width: of the embeddings.
        seed: of the layer's weights.

    Raises:
        EncoderError: the student says no width of its own.
    """
    own = student.get_embedding_dimension()
    if own is None:
        raise EncoderError("the student does not say how wide its embeddings are", remedy="name another student")
    if own == width:
        return student
    modules = list(student)
    end = [modules.pop()] if isinstance(modules[-1], Normalize) else []
    torch.manual_seed(seed)
    layer = Dense(own, width, activation_function=torch.nn.Identity())
    return SentenceTransformer(modules=[*modules, layer, *end], device=str(student.device))
