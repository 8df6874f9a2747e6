"""The static student: a trained transformer distilled into the small encoder that runs on NumPy alone.

Not in the papers. The student learns, as in BioLORD-2023, section "Self-distillation phase", to embed names where the
teacher puts them; a teacher that is wider is reduced to the student's width by the axes that keep most of the inner
products. What that costs is measured on names of the user's own knowledge base that were kept from training.
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
from medlink.training.common.fit import processes_here
from medlink.training.common.run import Run
from medlink.training.common.targets import (
    keep_targets,
    keep_texts,
    principal_components,
    project,
    regress,
    sum_embeddings,
    to_unit,
)
from medlink.training.common.trainable import TrainedEmbedding
from medlink.training.common.trainer import Trainer
from medlink.training.data.text_store import Entry, TextStore
from medlink.training.recipes import StaticStudentRecipe

_READ = 8192
CARD = {
    "title": "Static encoder distilled from a transformer",
    "summary": "the teacher's embeddings as targets, mean squared error",
    "command": "medlink train biolord static",
}


class Accuracies(NamedTuple):
    """Acc@1 on names kept from training: of the teacher, of the teacher reduced, and of the student."""

    queries: int
    teacher: float
    reduced: float
    student: float


class StaticStudent(Trainer):
    """Distil an encoder into a static one, and measure what was lost; ``accuracies`` says it too.

    Memory grows by 24 bytes for each name; the names and the teacher's embeddings of them lie on disk.

    Args:
        names: gives the names of a knowledge base, in ascending order of their concepts.
        start: the static encoder that is trained (``"builtin"`` or a folder), or the shape of one with random weights;
            by default a shape of the usual width, or of the teacher's if that is smaller.
        recipe: how to train.
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
        self.accuracies: Accuracies | None = None

    def _run(self, run: Run) -> None:
        recipe = self.recipe
        if processes_here().num_processes > 1:
            raise ConfigError("a static student is trained by one process", remedy="run it without a launcher")
        module, start = self._module(load_encoder(self._teacher).dimension)
        split = Split(self._names, recipe.held_out, recipe.seed)
        store = keep_texts(run, split.entries)
        facts = self._targets(run, store, split, module.shape.dimension, start)
        figures = regress(run, SentenceTransformer(modules=[module]), store, recipe)
        student = module.encoder()
        read = store.batches(np.arange(len(store), dtype=np.int32), _READ)
        dictionary = ((student.encode(texts), split.owners[rows]) for texts, rows, _ in read)
        accuracy = accuracy_at_1(student.encode(split.texts), split.gold, dictionary)
        count = len(split.texts)
        self.accuracies = Accuracies(count, facts["teacher"], facts["reduced"], accuracy)
        run.progress(f"Acc@1 on {count} names: teacher {facts['teacher']:.4f}, student {accuracy:.4f}")
        data = {
            "names": len(store),
            "concepts": split.concepts,
            "SHA-256 of the names": f"`{store.digest}`",
            "teacher": f"`{facts['fingerprint']}`, of {facts['width']} dimensions",
        }
        measured = {
            "names kept from training, one of a concept, looked up among the others": count,
            "Acc@1 on them of the teacher": f"{facts['teacher']:.4f}",
            f"of the teacher, reduced to {student.dimension} dimensions": f"{facts['reduced']:.4f}",
            "of this encoder": f"{accuracy:.4f}",
        }
        figures_of_run = {**figures.facts(), **measured}
        run.write(student.save, **CARD, start=start, data=data, recipe=recipe, figures=figures_of_run)

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
            raise ConfigError(
                f"the student embeds in {module.shape.dimension} dimensions, the teacher in {width}",
                remedy="begin with a student that is not wider than the teacher",
            )
        return module, fingerprint

    def _targets(self, run: Run, store: TextStore, split: Split, dimension: int, start: str) -> dict[str, Any]:
        teacher = load_encoder(self._teacher)
        run.bind(self.recipe, data=store.digest, teacher=teacher.fingerprint, width=dimension, start=start)

        def make(path: Path) -> Mapping[str, Any]:
            run.progress(f"embedding {store.rows} names by the teacher")
            whole = path.with_name("whole.npy")
            rows = sum_embeddings(store, teacher.encode, teacher.dimension, whole)
            queries = teacher.encode(split.texts)
            projection = principal_components(rows, dimension, centre=False)
            reduced = project(rows, projection, path, unit=True)
            figures = {
                "fingerprint": teacher.fingerprint,
                "width": teacher.dimension,
                "teacher": accuracy_at_1(queries, split.gold, _parts(rows, split.owners)),
                "reduced": accuracy_at_1(to_unit(projection(queries)), split.gold, _parts(reduced, split.owners)),
            }
            del rows
            whole.unlink()
            return figures

        return keep_targets(run, make)


class Split:
    """The names to train on, and those that :func:`hold_out` kept from it, in ``texts``.

    When :meth:`entries` has been read, ``owners (n,)`` has the number of the concept of each name to train on, and
    ``gold (q,)`` that of each name kept.
    """

    def __init__(self, names: Callable[[], Iterable[Name]], count: int, seed: int) -> None:
        self._names = names
        self._held = hold_out(names, count, seed)
        self.texts = [synonym.text for synonym in self._held]
        self.concepts = 0
        self.owners = np.empty(0, dtype=np.int32)
        self.gold = np.empty(0, dtype=np.int64)

    def entries(self) -> Iterator[Entry]:
        """The names to train on, each with a row of its own."""
        held = dict.fromkeys(self._held, -1)
        owners: array[int] = array("i")
        number = 0
        for number, of_concept in enumerate(synonyms(self._names())):
            for synonym in of_concept:
                if synonym in held:
                    held[synonym] = number
                    continue
                yield Entry(synonym.text, len(owners))
                owners.append(number)
        self.concepts = number + 1
        self.owners = np.frombuffer(owners, dtype=np.int32)
        self.gold = np.array(list(held.values()), dtype=np.int64)


class Synonym(NamedTuple):
    """A name of a concept; all names of one exact form (:func:`medlink.language.text.normalise`) are one."""

    concept_id: str
    text: str


def synonyms(names: Iterable[Name]) -> Iterator[list[Synonym]]:
    """The different names of one concept after the other, the first spelling of each."""
    for concept_id, of_concept in groupby(names, key=lambda name: name.concept_id):
        forms: dict[str, str] = {}
        for name in of_concept:
            forms.setdefault(normalise(name.text), name.text)
        yield [Synonym(concept_id, text) for form, text in forms.items() if form]


def hold_out(names: Callable[[], Iterable[Name]], count: int, seed: int) -> list[Synonym]:
    """Draw up to ``count`` names that another name of their concept remains for, at most one of a concept.

    One pass over the concepts with several names (Vitter 1985, algorithm R): memory grows with ``count`` alone.

    Raises:
        ConfigError: no concept has two names.
    """
    rng = np.random.default_rng(seed)
    held: list[Synonym] = []
    for seen, of_concept in enumerate(one for one in synonyms(names()) if len(one) > 1):
        drawn = of_concept[int(rng.integers(len(of_concept)))]
        place = int(rng.integers(seen + 1))
        if len(held) < count:
            held.append(drawn)
        elif place < count:
            held[place] = drawn
    if not held:
        raise ConfigError("no concept has two names", remedy="train on a source that has synonyms or translations")
    return held


def accuracy_at_1(
    queries: NDArray[np.float32], gold: NDArray[np.int64], dictionary: Iterable[tuple[NDArray[Any], NDArray[Any]]]
) -> float:
    """Share of queries whose nearest name belongs to their concept.

    Acc@1 as in BioLORD-2023, section "Biomedical named entity linking", with the names of all concepts as dictionary.
    Of names equally near the first counts. ``queries (q, d)`` are unit vectors, ``gold (q,)`` the concept of each; the
    ``dictionary`` is read once, in parts: ``(n, d)`` unit vectors and the concept of each, ``(n,)``.
    """
    nearest = np.full(len(queries), -np.inf, dtype=np.float32)
    found = np.full(len(queries), -1, dtype=np.int64)
    for vectors, concepts in dictionary:
        cosines = queries @ np.asarray(vectors, dtype=np.float32).T
        best = cosines.argmax(axis=1)
        values = cosines[np.arange(len(queries)), best]
        nearer = values > nearest
        nearest[nearer], found[nearer] = values[nearer], concepts[best[nearer]]
    return float((found == gold).mean())


def random_student(config: StaticConfig, dropout: float, seed: int) -> StaticEmbedding:
    """A student with random weights, drawn as :class:`medlink.training.static.trainer.StaticTrainer` draws them."""
    torch.manual_seed(seed)
    module = TrainedEmbedding(config, dropout, shipped_forms() if config.families else None)
    with torch.no_grad():
        module.table.weight.mul_(0.1)
        torch.nn.init.normal_(module.up.weight, std=config.dimension**-0.5)
        for tensor in (module.down.weight, module.up.bias, module.down.bias):
            tensor.zero_()
    return module


def _parts(rows: NDArray[np.float32], owners: NDArray[np.int32]) -> Iterator[tuple[NDArray[Any], NDArray[np.int32]]]:
    """Embeddings with the concepts they are of, a few thousand at a time."""
    for start in range(0, len(rows), _READ):
        yield rows[start : start + _READ], owners[start : start + _READ]
