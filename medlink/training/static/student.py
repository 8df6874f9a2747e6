"""The static student: a transformer distilled into the small encoder that runs on NumPy alone.

This is not in the papers. As in BioLORD-2023, section "Self-distillation phase", the student learns the teacher's
embeddings of names, reduced to its own dimension along the axes that best preserve inner products.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.text import normalise
from medlink.models.encoders import BUILTIN, load_encoder
from medlink.models.static.encoder import StaticConfig, StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.records import Name
from medlink.training.common.checkpoints import process_state
from medlink.training.common.run import Run
from medlink.training.common.targets import (
    fit_to_targets,
    principal_components,
    store_targets,
    store_texts,
    sum_embeddings,
    to_unit,
    write_projection,
)
from medlink.training.common.trainable import TrainedEmbedding
from medlink.training.common.trainer import Trainer
from medlink.training.data.text_store import TextEntry, TextStore
from medlink.training.recipes import StaticStudentRecipe

_ROWS = 8192  # read at a time
CARD = {
    "title": "Static encoder distilled from a transformer",
    "summary": "the teacher's embeddings as targets, mean squared error",
    "command": "medlink train biolord static",
}


class StudentAccuracy(NamedTuple):
    """Acc@1 on held-out names: of the teacher, of its reduced embeddings, and of the student."""

    queries: int
    teacher: float
    reduced: float
    student: float


class StaticStudent(Trainer):
    """Distil an encoder into a static encoder, and measure the lost ``accuracy`` on held-out names.

    Memory grows by 24 bytes for each name; the names and their embeddings by the teacher are on disk.

    Args:
        names: gives the names of a knowledge base, in ascending order of their concepts.
        start: the static encoder to train (``"builtin"`` or a folder), or the shape of a new encoder with random
            weights. The default is a new encoder, which is not wider than the teacher.
        teacher: the encoder to learn from: a folder, or ``hf:NAME`` of the hub.
    """

    recipe: StaticStudentRecipe

    def __init__(
        self,
        names: Callable[[], Iterable[Name]],
        start: str | Path | StaticConfig | None = None,
        recipe: StaticStudentRecipe | None = None,
        *,
        teacher: str | Path,
    ) -> None:
        self._names, self._teacher, self._start = names, teacher, start
        self.recipe = recipe or StaticStudentRecipe()
        self.accuracy: StudentAccuracy | None = None

    def _run(self, run: Run) -> None:
        recipe = self.recipe
        if process_state().num_processes > 1:
            raise ConfigError("a static student is trained by one process", remedy="run it without a launcher")
        module, start = self._module(load_encoder(self._teacher).dimension)
        split = HeldOutSplit(self._names, recipe.held_out, recipe.seed)
        store = store_texts(run, split.entries)
        facts = self._targets(run, store, split, module.shape.dimension, start)
        figures = fit_to_targets(run, SentenceTransformer(modules=[module]), store, recipe)
        student = module.encoder()
        dictionary = ((student.encode(texts), split.owners[rows]) for texts, rows in store.parts(_ROWS))
        accuracy = accuracy_at_1(student.encode(split.texts), split.gold, dictionary)
        count = len(split.texts)
        self.accuracy = StudentAccuracy(count, facts["teacher"], facts["reduced"], accuracy)
        run.progress(f"Acc@1 on {count} names: teacher {facts['teacher']:.4f}, student {accuracy:.4f}")
        data = {
            "names": len(store),
            "concepts": split.concepts,
            "SHA-256 of the names": f"`{store.digest}`",
            "teacher": f"`{facts['fingerprint']}`, of {facts['width']} dimensions",
        }
        results = {
            **figures,
            "names kept from training, one of a concept, looked up among the others": count,
            "Acc@1 on them of the teacher": f"{facts['teacher']:.4f}",
            f"of the teacher, reduced to {student.dimension} dimensions": f"{facts['reduced']:.4f}",
            "of this encoder": f"{accuracy:.4f}",
        }
        run.write(student.save, **CARD, start=start, data=data, recipe=recipe, figures=results)

    def _module(self, width: int) -> tuple[StaticEmbedding, str]:
        dropout = self.recipe.feature_dropout
        start = self._start or StaticConfig(dimension=min(StaticConfig().dimension, width))
        if isinstance(start, StaticConfig):
            module, fingerprint = random_student(start, dropout, self.recipe.seed), ""
        else:
            encoder = load_encoder(start)
            if not isinstance(encoder, StaticEncoder):
                remedy = f"name {BUILTIN!r} or the folder of a static encoder"
                raise ConfigError("the student does not begin with a static encoder", path=start, remedy=remedy)
            module, fingerprint = TrainedEmbedding.of(encoder, dropout), encoder.fingerprint
        if module.shape.dimension > width:
            problem = f"the student embeds in {module.shape.dimension} dimensions, the teacher in {width}"
            raise ConfigError(problem, remedy="begin with a student that is not wider than the teacher")
        return module, fingerprint

    def _targets(self, run: Run, store: TextStore, split: HeldOutSplit, dimension: int, start: str) -> dict[str, Any]:
        teacher = load_encoder(self._teacher)
        run.bind(self.recipe, data=store.digest, teacher=teacher.fingerprint, width=dimension, start=start)

        def make(path: Path) -> Mapping[str, Any]:
            run.progress(f"embedding {store.rows} names by the teacher")
            full = path.with_name("whole.npy")
            rows = sum_embeddings(store, teacher.encode, teacher.dimension, full)
            queries = teacher.encode(split.texts)
            projection = principal_components(rows, dimension, centre=False)
            reduced = write_projection(rows, projection, path, unit=True)
            full.unlink()
            return {
                "fingerprint": teacher.fingerprint,
                "width": teacher.dimension,
                "teacher": accuracy_at_1(queries, split.gold, _in_parts(rows, split.owners)),
                "reduced": accuracy_at_1(to_unit(projection(queries)), split.gold, _in_parts(reduced, split.owners)),
            }

        return store_targets(run, make)


class HeldOutSplit:
    """Names to train on, and up to ``count`` held-out ``texts``, at most one of each concept with several names.

    They are drawn by algorithm R of Vitter 1985: memory grows only with ``count``. After a pass over :meth:`entries`,
    ``owners (n,)`` and ``gold (q,)`` hold the numbers of their concepts. Raises ConfigError if no concept has two
    names.
    """

    def __init__(self, names: Callable[[], Iterable[Name]], count: int, seed: int) -> None:
        rng, drawn = np.random.default_rng(seed), list[Synonym]()
        for seen, synonyms in enumerate(group for group in iter_synonyms(names()) if len(group) > 1):
            synonym = synonyms[int(rng.integers(len(synonyms)))]
            position = int(rng.integers(seen + 1))
            if len(drawn) < count:
                drawn.append(synonym)
            elif position < count:
                drawn[position] = synonym
        if not drawn:
            remedy = "train on a source that has synonyms or translations"
            raise ConfigError("no concept has two names", remedy=remedy)
        self._names, self._held_out, self.texts = names, drawn, [synonym.text for synonym in drawn]
        self.concepts = 0
        self.owners, self.gold = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)

    def entries(self) -> Iterator[TextEntry]:
        """Yield the names to train on, each with its own row."""
        gold = dict.fromkeys(self._held_out, -1)
        owners: array[int] = array("i")
        number = 0
        for number, synonyms in enumerate(iter_synonyms(self._names())):
            for synonym in synonyms:
                if synonym in gold:
                    gold[synonym] = number
                    continue
                yield TextEntry(synonym.text, len(owners))
                owners.append(number)
        self.concepts = number + 1
        self.owners = np.frombuffer(owners, dtype=np.int32)
        self.gold = np.array(list(gold.values()), dtype=np.int64)


class Synonym(NamedTuple):
    """A name of a concept; of several spellings with one exact form (:func:`medlink.language.text.normalise`), only
    the first.
    """

    concept_id: str
    text: str


def iter_synonyms(names: Iterable[Name]) -> Iterator[list[Synonym]]:
    for concept_id, group in groupby(names, key=lambda name: name.concept_id):
        forms: dict[str, str] = {}
        for name in group:
            forms.setdefault(normalise(name.text), name.text)
        yield [Synonym(concept_id, text) for form, text in forms.items() if form]


def accuracy_at_1(
    queries: NDArray[np.float32], gold: NDArray[np.int64], dictionary: Iterable[tuple[NDArray[Any], NDArray[Any]]]
) -> float:
    """Compute the share of queries whose nearest name belongs to their concept; ties go to the first name.

    Acc@1 as in BioLORD-2023, section "Biomedical named entity linking", with the names of all concepts as dictionary.
    ``queries (q, d)`` are unit vectors of concepts ``gold (q,)``. The ``dictionary`` is read once, in parts of unit
    vectors ``(n, d)`` with their concepts ``(n,)``.
    """
    nearest = np.full(len(queries), -np.inf, dtype=np.float32)
    predicted = np.full(len(queries), -1, dtype=np.int64)
    for vectors, concepts in dictionary:
        cosines = queries @ np.asarray(vectors, dtype=np.float32).T
        best = cosines.argmax(axis=1)
        values = cosines[np.arange(len(queries)), best]
        nearer = values > nearest
        nearest[nearer], predicted[nearer] = values[nearer], concepts[best[nearer]]
    return float((predicted == gold).mean())


def random_student(config: StaticConfig, dropout: float, seed: int) -> StaticEmbedding:
    """Make a student with random weights, distributed as in :class:`~medlink.training.static.trainer.StaticTrainer`."""
    torch.manual_seed(seed)
    module = TrainedEmbedding(config, dropout, shipped_forms() if config.families else None)
    with torch.no_grad():
        module.table.weight.mul_(0.1)
        torch.nn.init.normal_(module.up.weight, std=config.dimension**-0.5)
        for tensor in (module.down.weight, module.up.bias, module.down.bias):
            tensor.zero_()
    return module


def _in_parts(rows: NDArray[np.float32], owners: NDArray[np.int32]) -> Iterator[tuple[NDArray[Any], NDArray[np.int32]]]:
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS], owners[start : start + _ROWS]
