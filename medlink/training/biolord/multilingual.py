"""Cross-lingual distillation: a student learns where the teacher puts the English names, for names in other languages.

BioLORD-2023, section "Cross-lingual distillation", after Reimers and Gurevych 2020: a multilingual student is to give,
for a name in whatever language, the embedding that the teacher gives for the English name. Which names are of one
meaning, and how far, is told here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from medlink.errors import ConfigError, EncoderError
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.models import load_encoder
from medlink.models.encoders import Encoder
from medlink.models.transformer import fingerprint_of
from medlink.records import Name
from medlink.training.common.run import Run
from medlink.training.common.targets import keep_texts, regress, teach
from medlink.training.common.trainable import transformer
from medlink.training.data.text_store import Entry
from medlink.training.recipes import MultilingualRecipe

COLUMNS = ("source", "target", "language")
SAMPLED = 5000
_AT_ONCE = 1024
_CHANCE = 0.95


class Aligned(NamedTuple):
    """Names of one meaning: ``sources`` in the language of the teacher, ``targets`` in those of ``languages``."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    languages: tuple[str, ...]


class Alignments:
    """Groups of names of one meaning, from a knowledge base, a table, or both; to be gone through more than once.

    Args:
        languages: of the names that the student is to learn; ``de`` stands for its regions too.
        names: gives the names of a knowledge base, in ascending order of their concepts and preferred names first.
        table: see :func:`read_alignments`.
        source: language of the teacher.
    """

    def __init__(
        self,
        languages: Sequence[str],
        *,
        names: Callable[[], Iterable[Name]] | None = None,
        table: str | Path | None = None,
        source: str = "en",
    ) -> None:
        self.languages = tuple(dict.fromkeys(language for language in languages if language != source))
        if not self.languages:
            raise ConfigError(f"no language besides {source}", remedy="name the languages that the student is to learn")
        if names is None and table is None:
            raise ConfigError("nothing to align", remedy="name a knowledge base or a table of alignments")
        self._names, self._table, self._source = names, table, source

    def __iter__(self) -> Iterator[Aligned]:
        """One group after the other.

        Raises:
            ConfigError: in the end, when a language had no pair: it would be left out in silence.
            InputError: the table is not as it should be.
        """
        found: Counter[str] = Counter()
        of_kb = () if self._names is None else aligned_names(self._names(), self.languages, self._source)
        of_table = () if self._table is None else read_alignments(self._table, self.languages)
        for group in chain(of_kb, of_table):
            found.update(group.languages)
            yield group
        missing = [language for language in self.languages if not found[language]]
        if missing:
            there = ", ".join(f"{language} ({count})" for language, count in sorted(found.items())) or "no language"
            raise ConfigError(
                f"no name in {', '.join(missing)} is aligned with one in {self._source}; there are some in {there}",
                remedy="leave the language out, or add a source or a table of alignments that has it",
            )


def aligned_names(names: Iterable[Name], languages: Sequence[str], source: str = "en") -> Iterator[Aligned]:
    """The names of each concept, in ascending order, that has some in the ``source`` language and in others."""
    for _, of_concept in groupby(names, key=lambda name: name.concept_id):
        sources: dict[str, None] = {}
        targets: dict[str, str] = {}
        for name in of_concept:
            base = _base(name.language, [source, *languages])
            if base == source:
                sources.setdefault(name.text)
            elif base:
                targets.setdefault(name.text, base)
        new = {text: language for text, language in targets.items() if text not in sources}
        if sources and new:
            yield Aligned(tuple(sources), tuple(new), tuple(new.values()))


def _base(tag: str, languages: Sequence[str]) -> str:
    return next((one for one in languages if tag == one or tag.startswith(f"{one}-")), "")


def read_alignments(path: str | Path, languages: Sequence[str]) -> Iterator[Aligned]:
    """Read a table of alignments: tab-separated UTF-8, its first line names ``source``, ``target`` and ``language``.

    It is plain or ``.gz``; other columns, and lines of other languages, are left out.

    Raises:
        InputError: the file cannot be read, or a line is not as it should be.
    """
    # not one line may be lost
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    places = table.places(COLUMNS)
    for line, cells in table.rows:
        source, target, tag = (cells[place].strip() for place in places)
        language = _base(tag.lower(), languages)
        if not (source and target and tag):
            table.lines.bad("empty cell", line)
        elif language:
            yield Aligned((source,), (target,), (language,))


@dataclass(frozen=True, slots=True)
class SenseFilter:
    """How far two names mean the same, by an encoder that knows both languages.

    BioLORD-2023, section "Cross-lingual distillation", takes an aligned corpus found with LaBSE; how the similarity
    became an alignment is not in the paper. Here the weight of a pair grows evenly from 0 at cosine ``low`` to 1 at
    cosine ``high``; :func:`thresholds` finds both.
    """

    encoder: Encoder
    low: float
    high: float

    def __call__(self, groups: Sequence[Aligned]) -> list[list[tuple[int, float]]]:
        """For each target of each group, the number of the source that is nearest to it, and the weight of the pair."""
        return [
            list(zip(numbers, sense_weights(cosines, self.low, self.high).tolist(), strict=True))
            for numbers, cosines in best_cosines(self.encoder, groups, groups)
        ]


def sense_weights(cosines: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    """Weights of pairs by the cosine of their texts: 0 up to ``low``, 1 from ``high`` on, even growth between.

    ``low`` is a cosine that texts of different meaning reach, ``high`` one of texts of one meaning. The shape stays.

    Raises:
        ConfigError: ``high`` is not above ``low``: the encoder does not tell a translation from any other text.
    """
    if not low < high:
        raise ConfigError(
            f"the similarity filter finds translations (cosine {high:.2f}) no nearer than chance ({low:.2f})",
            remedy="name an encoder that knows the languages, or none",
        )
    return np.clip((np.asarray(cosines, dtype=np.float64) - low) / (high - low), 0, 1)


def thresholds(encoder: Encoder, groups: Sequence[Aligned]) -> tuple[float, float]:
    """What cosines mean to an encoder: what chance reaches, and what a translation has.

    They are the 95th percentile of the cosines of targets with the nearest source of another group, and the median of
    those with the nearest source of their own. The other group is half the sample away: neighbours in a terminology are
    often related.

    Raises:
        ConfigError: there is one group only.
    """
    if len(groups) < 2:
        remedy = "give both thresholds, or no filter"
        raise ConfigError("one alignment does not show what chance reaches", remedy=remedy)
    own = np.concatenate([cosines for _, cosines in best_cosines(encoder, groups, groups)])
    half = len(groups) // 2
    others = [*groups[half:], *groups[:half]]
    chance = np.concatenate([cosines for _, cosines in best_cosines(encoder, groups, others)])
    return float(np.quantile(chance, _CHANCE)), float(np.median(own))


def best_cosines(
    encoder: Encoder, groups: Sequence[Aligned], others: Sequence[Aligned]
) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """For each target of each group the nearest source, the first of several, of the group at its place in ``others``.

    Yields the numbers of the sources and the cosines, ``(targets,)`` of each group.
    """
    for start in range(0, len(groups), _AT_ONCE):
        some, beside = groups[start : start + _AT_ONCE], others[start : start + _AT_ONCE]
        texts = sorted({*chain(*(one.targets for one in some)), *chain(*(one.sources for one in beside))})
        vectors = encoder.encode(texts)
        place = {text: i for i, text in enumerate(texts)}
        for one, other in zip(some, beside, strict=True):
            targets = vectors[[place[text] for text in one.targets]]
            cosines = targets @ vectors[[place[text] for text in other.sources]].T
            yield cosines.argmax(axis=1).tolist(), cosines.max(axis=1)


def sample(groups: Iterable[Aligned], size: int, seed: int) -> list[Aligned]:
    """A random sample in one pass, every group with the same chance (Vitter 1985, algorithm R)."""
    rng = np.random.default_rng(seed)
    held: list[Aligned] = []
    for seen, group in enumerate(groups):
        if len(held) < size:
            held.append(group)
        elif (place := int(rng.integers(seen + 1))) < size:
            held[place] = group
    return held


def aligned_entries(
    groups: Iterable[Aligned], weigh: Callable[[Sequence[Aligned]], list[list[tuple[int, float]]]]
) -> Iterator[Entry]:
    """The texts of cross-lingual distillation: a row for each source, which its own text and its translations share.

    ``weigh`` gives for each target the number of its source and the weight of the pair; one of weight 0 is left out.
    """
    row = 0
    stream = iter(groups)
    while some := list(islice(stream, _AT_ONCE)):
        for group, pairs in zip(some, weigh(some), strict=True):
            for text in group.sources:
                yield Entry(text, row)
                row += 1
            first = row - len(group.sources)
            for text, (number, weight) in zip(group.targets, pairs, strict=True):
                if weight > 0:
                    yield Entry(text, first + number, 0.0, weight)


def first_source(groups: Sequence[Aligned]) -> list[list[tuple[int, float]]]:
    """Each target with the first source, the preferred name, at full weight: what there is without a filter."""
    return [[(0, 1.0)] * len(group.targets) for group in groups]


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

    Memory grows by 20 bytes for each text; the texts and the teacher's embeddings of the English names lie on disk.

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
    """A student that embeds in ``width`` dimensions: itself, or with a random linear layer before its normalisation."""
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
