"""Self-distillation (BioLORD-2023, section "Self-distillation phase").

The base model from before the contrastive phase learns the principal components of the contrastive model's embedding of
each concept, with a linear head on top that is discarded afterwards. Runs differ in their seed, which determines the
order of the texts and a random head. :func:`medlink.training.common.averaging.soup` averages them.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor

from medlink.errors import ConfigError
from medlink.files.folders import remove
from medlink.files.json import write_json
from medlink.models.transformer import compute_fingerprint
from medlink.training.biolord import RUNS
from medlink.training.common.run import Run, new_folder
from medlink.training.common.targets import compute_teacher_targets, fit_head, fit_to_targets, store_texts
from medlink.training.common.trainable import load_transformer
from medlink.training.data.text_store import ConceptTexts, TextEntry
from medlink.training.recipes import DistillationRecipe

CARD = {
    "title": "Encoder trained by BioLORD: self-distillation",
    "summary": "regression on concept targets (Remy et al. 2024, section Self-distillation phase)",
    "command": "medlink train biolord distill",
}


def distill(
    run: Run,
    concepts: Callable[[], Iterable[ConceptTexts]],
    start: str | Path,
    recipe: DistillationRecipe,
    *,
    teacher: str | Path,
) -> None:
    """Train several copies of a transformer on the concept targets of a teacher: ``run-1``, ``run-2`` and so on.

    Memory grows by 20 bytes for each text. While the main process writes texts, it also holds the data of ``concepts``.
    The disk holds the texts and, for each concept, 4 bytes per component, or per dimension of the teacher while the
    targets are computed. ``run`` measures the encoder without the head. Each call of ``concepts`` gives the names and
    definitions of every concept in the same order (:func:`~medlink.training.data.text_store.group_by_concept`). Raises
    ConfigError if there are no definitions or too few concepts.
    """
    store = store_texts(run, lambda: concept_entries(iter(concepts())))
    before = compute_fingerprint(load_transformer(start))
    _, teacher_facts = compute_teacher_targets(run, store, recipe, teacher, recipe.dimension, start=before)
    facts = {"texts": len(store), "concepts": store.rows, "SHA-256 of the texts": f"`{store.digest}`", **teacher_facts}
    folders = [run.folder / f"encoder-{number + 1}" for number in range(recipe.runs)]
    head = fit_head(run, load_transformer(start), store, recipe.max_tokens) if recipe.head_start == "ridge" else None
    measure = run.evaluate
    for number, folder in enumerate(folders):
        if not folder.exists():
            seeded = recipe.replace(seed=recipe.seed + number)
            run.progress(f"run {number + 1} of {recipe.runs}, seed {seeded.seed}")
            model, trunk = with_head(start, recipe.dimension, seeded.seed, head)
            if measure is not None:
                run.evaluate = lambda _, trunk=trunk: measure(trunk)
            figures = fit_to_targets(run, model, store, seeded, f"run-{number + 1}")
            run.write(trunk, folder, **CARD, start=before, data=facts, recipe=seeded, figures=figures)
            if run.is_main:
                remove(run.folder / f"run-{number + 1}")
    if run.is_main:
        with new_folder(run.out, "the encoders") as draft:
            for number, folder in enumerate(folders):
                # copied, not moved: a kill here must not lose a training
                shutil.copytree(folder, draft / f"run-{number + 1}")
            write_json(draft / RUNS, {"data": store.digest, "start": before, "recipe": recipe.to_dict()})
    run.wait()


def concept_entries(concepts: Iterator[ConceptTexts]) -> Iterator[TextEntry]:
    """Yield the entries of self-distillation: one row for each concept, half from its names, half from its definitions.

    In the paper the target of a concept's name and definition is the average of the contrastive model's embeddings of
    the two. Here several names or definitions share their half evenly. If a concept lacks one kind, the other makes up
    the whole. Raises ConfigError if no concept has a definition, or none has a name.

    >>> concepts = [ConceptTexts("A", ("cold", "coryza"), ("An infection.",)), ConceptTexts("B", ("stroke",))]
    >>> [(entry.row, entry.share, entry.text) for entry in concept_entries(iter(concepts))]
    [(0, 0.25, 'cold'), (0, 0.25, 'coryza'), (0, 0.5, 'An infection.'), (1, 1.0, 'stroke')]
    """
    names = definitions = 0
    for row, concept in enumerate(concepts):
        kinds = [texts for texts in (concept.names, concept.definitions) if texts]
        for texts in kinds:
            for text in texts:
                yield TextEntry(text, row, 1 / len(kinds) / len(texts))
        names, definitions = names + len(concept.names), definitions + len(concept.definitions)
    if not names:
        raise ConfigError("no concept has a name", remedy="name a knowledge base that has names")
    if not definitions:
        remedy = "add a table of definitions, or distil from a knowledge base that has some or has relations"
        raise ConfigError("no concept has a definition", remedy=remedy)


def with_head(
    base: str | Path, dimension: int, seed: int, initial: tuple[Tensor, Tensor] | None = None
) -> tuple[SentenceTransformer, SentenceTransformer]:
    """Return a transformer with a linear head, and the same transformer without it; the two share their weights.

    The head is a module of the model: processes share it, and checkpoints include it. ``initial`` are its weights
    ``(dimension, d)`` and bias ``(dimension,)``. By default they are random as in the paper: torch's initial weights of
    a linear layer, by ``seed``. With larger weights that give the variance of the targets, the base learns less in the
    same number of steps (``docs/explanation/training-biolord.md``).
    """
    trunk = load_transformer(base)
    torch.manual_seed(seed)
    head = Dense(int(trunk.get_embedding_dimension() or 0), dimension, activation_function=torch.nn.Identity())
    if initial is not None:
        head.linear.load_state_dict(dict(zip(("weight", "bias"), initial, strict=True)))
    # `head_rate` finds the head by this name; the base may have linear layers too
    modules = OrderedDict([*trunk.named_children(), ("head", head)])
    model = SentenceTransformer(modules=modules, device=str(trunk.device))  # type: ignore[arg-type]  # it takes names too
    return model, trunk
