"""Self-distillation: what the contrastive model knows of concepts, taught to the model it came from.

BioLORD-2023, section "Self-distillation phase". A base model that has not seen the contrastive phase learns, below a
linear head that is thrown away afterwards, the principal components of the contrastive model's embeddings of each
concept. Runs that differ in their seed, and so in the order of the texts and in a random head, are averaged afterwards
(:func:`medlink.training.common.averaging.soup`).
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor

from medlink.errors import ConfigError
from medlink.files.folders import remove
from medlink.files.json import write_json
from medlink.models.transformer import fingerprint_of
from medlink.training.biolord import RUNS
from medlink.training.common.fit import Measure
from medlink.training.common.run import Run, new_folder
from medlink.training.common.targets import fit_head, keep_texts, regress, teach
from medlink.training.common.trainable import transformer
from medlink.training.data.text_store import ConceptTexts, Entry
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
    """Train several copies of a transformer on the concept targets of a teacher; ``run-1``, ``run-2`` and so on.

    Memory grows by 20 bytes for each text. While texts are written, the first process holds what ``concepts`` holds,
    such as names and relations that descriptions are made of. On disk lie the texts, and 4 bytes for each concept and
    dimension of the teacher while the targets are made, then for each concept and component.

    Args:
        run: of the folder of the encoders; its measure is of an encoder without its head.
        concepts: gives names and definitions of every concept, in the same order each time
            (:func:`~medlink.training.data.text_store.concept_texts`).
        start: the transformer that learns; the paper's is the one that the contrastive phase began with.
        recipe, teacher: how to train; the contrastive model, or any encoder.

    Raises:
        ConfigError: there are no definitions or too few concepts.
    """
    store = keep_texts(run, lambda: concept_entries(iter(concepts())))
    before = fingerprint_of(transformer(start))
    _, said = teach(run, store, recipe, teacher, recipe.dimension, start=before)
    facts = {"texts": len(store), "concepts": store.rows, "SHA-256 of the texts": f"`{store.digest}`", **said}
    made = [run.folder / f"encoder-{number + 1}" for number in range(recipe.runs)]
    fitted = fit_head(run, transformer(start), store, recipe.max_tokens) if recipe.head_start == "ridge" else None
    measure = run.evaluate
    for number, folder in enumerate(made):
        if not folder.exists():
            one = recipe.replace(seed=recipe.seed + number)
            run.progress(f"run {number + 1} of {recipe.runs}, seed {one.seed}")
            model, trunk = with_head(start, recipe.dimension, one.seed, fitted)
            # the head is left out of what is measured
            run.evaluate = None if measure is None else partial(_of_trunk, measure, trunk)
            figures = regress(run, model, store, one, f"run-{number + 1}")
            run.write(trunk, folder, **CARD, start=before, data=facts, recipe=one, figures=figures.facts())
            if run.first:
                remove(run.folder / f"run-{number + 1}")
    if run.first:
        with new_folder(run.out, "the encoders") as draft:
            for number, folder in enumerate(made):
                # a copy: were this cut short, nothing would have to be trained again
                shutil.copytree(folder, draft / f"run-{number + 1}")
            write_json(draft / RUNS, {"data": store.digest, "start": before, "recipe": recipe.to_dict()})
    run.wait()


def concept_entries(concepts: Iterator[ConceptTexts]) -> Iterator[Entry]:
    """The texts of self-distillation: a row for each concept, half of it from its names, half from its definitions.

    BioLORD-2023, section "Self-distillation phase": the target of a concept's name and definition is the average of the
    contrastive model's embeddings of the two. Of several names or definitions each has an even share of the half; where
    a concept has only one kind, that makes the whole.

    Raises:
        ConfigError: no concept has a definition, or none has a name.

    >>> concepts = [ConceptTexts("A", ("cold", "coryza"), ("An infection.",)), ConceptTexts("B", ("stroke",))]
    >>> [(entry.row, entry.share, entry.text) for entry in concept_entries(iter(concepts))]
    [(0, 0.25, 'cold'), (0, 0.25, 'coryza'), (0, 0.5, 'An infection.'), (1, 1.0, 'stroke')]
    """
    names = definitions = 0
    for row, concept in enumerate(concepts):
        kinds = [texts for texts in (concept.names, concept.definitions) if texts]
        for texts in kinds:
            for text in texts:
                yield Entry(text, row, 1 / len(kinds) / len(texts))
        names, definitions = names + len(concept.names), definitions + len(concept.definitions)
    if not names:
        raise ConfigError("no concept has a name", remedy="name a knowledge base that has names")
    if not definitions:
        remedy = "add a table of definitions, or distil from a knowledge base that has some or has relations"
        raise ConfigError("no concept has a definition", remedy=remedy)


def _of_trunk(measure: Measure, trunk: SentenceTransformer, model: object) -> float:
    return measure(trunk)


def with_head(
    base: str | Path, dimension: int, seed: int, fitted: tuple[Tensor, Tensor] | None = None
) -> tuple[SentenceTransformer, SentenceTransformer]:
    """A transformer below a linear head, and the same without it; the two share their weights.

    BioLORD-2023, section "Self-distillation phase". The head is a module of the model, so that several processes keep
    it alike and checkpoints hold it. Its weights are drawn from ``seed`` as torch draws those of a linear layer, as the
    paper's are random, unless ``fitted`` has weights ``(dimension, d)`` and bias ``(dimension,)``. Larger random ones,
    that spread as the targets do, teach the base less in as many steps (``docs/explanation/training-biolord.md``).
    """
    trunk = transformer(base)
    torch.manual_seed(seed)
    head = Dense(int(trunk.get_embedding_dimension() or 0), dimension, activation_function=torch.nn.Identity())
    if fitted is not None:
        head.linear.load_state_dict(dict(zip(("weight", "bias"), fitted, strict=True)))
    # by its name a rate of its own finds it among the linear layers that the base may have
    modules = OrderedDict([*trunk.named_children(), ("head", head)])
    model = SentenceTransformer(modules=modules, device=str(trunk.device))  # type: ignore[arg-type]  # it takes names too
    return model, trunk
