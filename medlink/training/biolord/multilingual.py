"""Cross-lingual distillation: a student learns where the teacher puts the English names, for names in other languages.

BioLORD-2023, section "Cross-lingual distillation", after Reimers and Gurevych 2020: a multilingual student is to give,
for a name in whatever language, the embedding that the teacher gives for the English name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from medlink.errors import ConfigError, EncoderError
from medlink.models import load_encoder
from medlink.models.transformer import fingerprint_of
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
from medlink.training.common.run import Run, transformer
from medlink.training.common.teacher import keep_texts, regress, teach
from medlink.training.data.text_store import Entry

CARD = {
    "title": "Encoder trained by BioLORD: cross-lingual distillation",
    "summary": "regression on a teacher's embeddings of English names (Remy et al. 2024, section Cross-lingual "
    "distillation)",
    "command": "medlink train biolord multilingual",
}


def train_multilingual(
    run: Run, alignments: Alignments, start: str | Path, recipe: MultilingualRecipe, *, teacher: str | Path
) -> None:
    """Train a student on the teacher's embeddings of English names, for those names and their translations.

    Memory grows by 4 bytes for each text; the texts and the teacher's embeddings of the English names lie on disk.

    Raises:
        ConfigError: a language is missing, the filter knows none of the languages, or the student is of another width.
        InputError: a table of alignments is not as it should be.
    """
    student = transformer(start)
    before, width = fingerprint_of(student), int(student.get_embedding_dimension() or 0)
    if run.first and not recipe.project and width != (expected := load_encoder(teacher).dimension):
        remedy = "name a student as wide as the teacher, or add a linear layer with project"
        raise ConfigError(f"the student embeds in {width} dimensions, the teacher in {expected}", remedy=remedy)
    said: dict[str, Any] = {}
    store = keep_texts(run, lambda: _entries(run, alignments, recipe, said))
    known = {"similarity filter": said.get("similarity filter")}
    taught_width, facts = teach(run, store, recipe, teacher, None, start=before, **known)
    model = fitted(student, taught_width, recipe.seed)
    figures = regress(run, model, store, recipe)
    data = {
        "languages": ", ".join(alignments.languages),
        "names in the language of the teacher": store.rows,
        "names in other languages": len(store) - store.rows,
        "SHA-256 of the names": f"`{store.digest}`",
        **said,
        **facts,
    }
    run.write(model, **CARD, start=before, data=data, recipe=recipe, figures=figures.facts())


def _entries(run: Run, alignments: Alignments, recipe: MultilingualRecipe, said: dict[str, Any]) -> Iterator[Entry]:
    """The names with their weights; what the filter found goes into ``said``."""
    if not recipe.filter:
        return aligned_entries(alignments, first_source)
    encoder = load_encoder(recipe.filter)
    low, high = recipe.low, recipe.high
    if low is None or high is None:
        low, high = thresholds(encoder, sample(alignments, SAMPLED, recipe.seed))
    said |= {
        "similarity filter": f"`{encoder.fingerprint}`",
        "its cosines of weights 0 and 1": f"{low:.3f} and {high:.3f}",
    }
    run.progress(f"similarity filter: weight 0 up to cosine {low:.3f}, 1 from {high:.3f}")
    return aligned_entries(alignments, SenseFilter(encoder, low, high))


def fitted(student: SentenceTransformer, width: int, seed: int) -> SentenceTransformer:
    """A student that embeds in ``width`` dimensions: itself, or with a random linear layer before its normalisation.

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
