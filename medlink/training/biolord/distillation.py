"""Self-distillation: what the contrastive model knows of concepts, taught to the model it came from.

BioLORD-2023, section "Self-distillation phase". A base model that has not seen the contrastive phase learns, below a
random linear head that is thrown away afterwards, the principal components of the contrastive model's embeddings of
each concept. Runs that differ in their seed, and so in their head, are averaged afterwards
(:func:`medlink.training.common.averaging.soup`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense

from medlink.errors import ConfigError
from medlink.models.encoders import Encoder, check_folder, fingerprint_of, load_encoder
from medlink.models.static.encoder import write_json
from medlink.training.biolord.distillation_targets import concept_entries, principal_components, project, sum_embeddings
from medlink.training.biolord.distillation_work import PhaseWork, phase_work
from medlink.training.biolord.recipes import DistillationRecipe
from medlink.training.common import checkpoint
from medlink.training.common.loop import CHECKPOINT_STEPS
from medlink.training.common.trainer import precision_here, processes_here, settings_here
from medlink.training.common.transformer import save_encoder, trainable_transformer
from medlink.training.data.text_store import ConceptTexts, TextStore

RUNS = "runs.json"


class SelfDistillation:
    """Train several copies of a base model on the concept targets of a contrastive model.

    Args:
        concepts: gives names and definitions of every concept, in the same order each time
            (:func:`~medlink.training.data.text_store.concept_texts`).
        teacher: the contrastive model, or any encoder: a folder, a hub model or ``"builtin"``.
        base: the transformer that learns; the paper's is the one that the contrastive phase began with.
        recipe: how to train.
        log: called with one line now and then.
    """

    def __init__(
        self,
        concepts: Callable[[], Iterable[ConceptTexts]],
        teacher: str | Path,
        base: str | Path,
        recipe: DistillationRecipe | None = None,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._concepts, self._teacher, self._base, self._log = concepts, teacher, base, log
        self.recipe = recipe or DistillationRecipe()

    def train(
        self,
        out: str | Path,
        *,
        resume: bool = False,
        evaluate: Callable[[SentenceTransformer], float] | None = None,
        checkpoint_steps: int = CHECKPOINT_STEPS,
        workers: int = 0,
    ) -> list[Path]:
        """Run the recipe and write ``run-1``, ``run-2`` and so on into a folder.

        Memory grows by 4 bytes for each text. On disk lie the texts, and 4 bytes for each concept and dimension of the
        teacher while the targets are made, then for each concept and component.

        Args:
            out: the folder; what is not finished lies in one of that name with ``.checkpoints``.
            resume: go on where a run that was cut short stopped.
            evaluate: development measure of an encoder without its head, higher is better.
            checkpoint_steps: steps between two checkpoints.
            workers: processes that turn batches into tensors while the model is busy.

        Returns:
            The folders of the encoders, to be averaged.

        Raises:
            ConfigError: there are no definitions or too few concepts, an option does not fit, or a folder is in use.
            EncoderError: an encoder cannot be used, the loss is no number, or the disk is full.
        """
        out, recipe = Path(out).resolve(), self.recipe
        check_folder(out, RUNS, "encoders")
        precision_here(recipe.precision)
        with phase_work(out, "distill", resume=resume) as work:
            store = work.store(lambda: concept_entries(iter(self._concepts())))
            start = fingerprint_of(trainable_transformer(self._base))
            facts = {"data": store.digest, "start": start, "recipe": settings_here(recipe)}
            targets = self._targets(work, store, facts)
            finished = [work.folder / f"encoder-{number + 1}" for number in range(recipe.runs)]
            for number, folder in enumerate(finished):
                if (folder / "modules.json").exists():
                    continue
                one = recipe.replace(seed=recipe.seed + number)
                if processes_here().is_main_process:
                    self._log(f"run {number + 1} of {recipe.runs}, seed {one.seed}")
                model, trunk = with_head(self._base, recipe.dimension, one.seed)
                figures = work.regress(
                    model,
                    store,
                    one,
                    name=f"run-{number + 1}",
                    log=self._log,
                    evaluate=None if evaluate is None else lambda _: evaluate(trunk),  # noqa: B023  # called in the loop
                    checkpoint_steps=checkpoint_steps,
                    workers=workers,
                )
                if processes_here().is_main_process:
                    data = {
                        "texts": len(store),
                        "concepts": store.rows,
                        "SHA-256 of the texts": store.digest,
                        **targets,
                    }
                    save_encoder(trunk, folder, "distill", start=start, data=data, recipe=one, figures=figures)
                    checkpoint.remove(work.folder / f"run-{number + 1}")
                processes_here().wait_for_everyone()
            if processes_here().is_main_process:
                with checkpoint.replacing(out, "the encoders") as beside:
                    beside.mkdir()
                    for number, folder in enumerate(finished):
                        # a copy: were this cut short, nothing would have to be trained again
                        shutil.copytree(folder, beside / f"run-{number + 1}")
                    write_json(beside / RUNS, facts)
        return [out / f"run-{number + 1}" for number in range(recipe.runs)]

    def _targets(self, work: PhaseWork, store: TextStore, facts: dict[str, Any]) -> dict[str, Any]:
        """Embed every text by the teacher, make the concept targets, and reduce them."""
        dimension = self.recipe.dimension
        made_of: dict[str, Any] = {}
        teacher: Encoder | None = None
        if processes_here().is_main_process:
            teacher = load_encoder(self._teacher)
            made_of = {"data": store.digest, "teacher": teacher.fingerprint, "dimension": dimension}
            most = min(teacher.dimension, store.rows - 1)
            if dimension > most:
                raise ConfigError(
                    f"{dimension} dimensions from {store.rows} concepts and a teacher of {teacher.dimension}",
                    remedy=f"give at most {most} dimensions"
                    if most > 0
                    else "name a knowledge base of several concepts",
                )
            work.settle({**facts, "teacher": teacher.fingerprint})

        def make(path: Path) -> Mapping[str, Any]:
            """Write the targets."""
            assert teacher is not None
            self._log(f"embedding the texts of {store.rows} concepts")
            whole = path.with_name("whole.npy")
            rows = sum_embeddings(store, teacher.encode, teacher.dimension, whole)
            projection = principal_components(rows, dimension)
            project(rows, projection, path)
            del rows
            whole.unlink()
            return {"teacher": teacher.fingerprint, "variance kept by the targets": f"{projection.kept:.4f}"}

        return work.targets(made_of, make)


def with_head(base: str | Path, dimension: int, seed: int) -> tuple[SentenceTransformer, SentenceTransformer]:
    """A transformer below a random linear head.

    BioLORD-2023, section "Self-distillation phase": a randomly initialised linear projection on top of the base model.
    The head is a module of the model, so that several processes keep it alike and checkpoints hold it.

    Args:
        base: the transformer.
        dimension: numbers that the head gives.
        seed: of its weights, which are drawn as torch draws those of a linear layer. Larger ones, that spread as the
            targets do, teach the base less in as many steps (``docs/distillation.md``).

    Returns:
        The model with its head, and the same model without it; the two share their weights.
    """
    trunk = trainable_transformer(base)
    torch.manual_seed(seed)
    head = Dense(int(trunk.get_embedding_dimension() or 0), dimension, activation_function=torch.nn.Identity())
    return SentenceTransformer(modules=[*trunk, head], device=str(trunk.device)), trunk
