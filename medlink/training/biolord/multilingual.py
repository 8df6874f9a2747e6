"""Cross-lingual distillation: a student learns to embed names in all languages as a teacher embeds English names.

The method is that of BioLORD-2023, section "Cross-lingual distillation", after Reimers and Gurevych 2020.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.models import load_encoder
from medlink.models.encoders import Encoder
from medlink.models.transformer import compute_fingerprint
from medlink.records import Name
from medlink.training.common.run import Run
from medlink.training.common.targets import compute_teacher_targets, fit_to_targets, store_texts
from medlink.training.common.trainable import load_transformer
from medlink.training.data.batches import chunked
from medlink.training.data.text_store import TextEntry
from medlink.training.recipes import MultilingualRecipe

COLUMNS, SOURCE = ("source", "target", "language"), "en"
CARD = {
    "title": "Encoder trained by BioLORD: cross-lingual distillation",
    "summary": "regression on a teacher's embeddings of English names (Remy et al. 2024, section Cross-lingual "
    "distillation)",
    "command": "medlink train biolord multilingual",
}
_SAMPLE = 5000  # groups from which thresholds are estimated
_GROUPS = 1024  # embedded at a time
_CHANCE_QUANTILE = 0.95


class AlignedNames(NamedTuple):
    """Names with the same meaning: ``sources`` in the language of the teacher, and ``targets`` with their languages."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    languages: tuple[str, ...]


class Alignments:
    """Groups of aligned names from a knowledge base, a table, or both; may be iterated more than once.

    The student is to learn names in ``languages``; ``de`` includes its regions. ``names`` gives the names of a
    knowledge base, in ascending order of their concepts and preferred names first.
    """

    def __init__(
        self,
        languages: Sequence[str],
        *,
        names: Callable[[], Iterable[Name]] | None = None,
        table: str | Path | None = None,
    ) -> None:
        self.languages = tuple(dict.fromkeys(language for language in languages if language != SOURCE))
        if not self.languages:
            raise ConfigError(f"no language besides {SOURCE}", remedy="name the languages that the student is to learn")
        if names is None and table is None:
            raise ConfigError("nothing to align", remedy="name a knowledge base or a table of alignments")
        self._names, self._table = names, table

    def __iter__(self) -> Iterator[AlignedNames]:
        """Yield the groups; raise ConfigError at the end if a language had no pair, and as :func:`read_alignments`."""
        counts: Counter[str] = Counter()
        from_kb = () if self._names is None else iter_aligned_names(self._names(), self.languages)
        from_table = () if self._table is None else read_alignments(self._table, self.languages)
        for group in chain(from_kb, from_table):
            counts.update(group.languages)
            yield group
        missing = [language for language in self.languages if not counts[language]]
        if missing:
            there = ", ".join(f"{language} ({count})" for language, count in sorted(counts.items())) or "no language"
            raise ConfigError(
                f"no name in {', '.join(missing)} is aligned with one in {SOURCE}; there are some in {there}",
                remedy="leave the language out, or add a source or a table of alignments that has it",
            )


def iter_aligned_names(names: Iterable[Name], languages: Sequence[str]) -> Iterator[AlignedNames]:
    """Yield the names of concepts with names in English and in ``languages``; ``names`` are in concept order."""
    for _, group in groupby(names, key=lambda name: name.concept_id):
        sources: dict[str, None] = {}
        targets: dict[str, str] = {}
        for name in group:
            language = _match_language(name.language, [SOURCE, *languages])
            if language == SOURCE:
                sources.setdefault(name.text)
            elif language:
                targets.setdefault(name.text, language)
        new = {text: language for text, language in targets.items() if text not in sources}
        if sources and new:
            yield AlignedNames(tuple(sources), tuple(new), tuple(new.values()))


def _match_language(tag: str, languages: Sequence[str]) -> str:
    return next((language for language in languages if tag == language or tag.startswith(f"{language}-")), "")


def read_alignments(path: str | Path, languages: Sequence[str]) -> Iterator[AlignedNames]:
    """Read a table of alignments: tab-separated UTF-8 with the columns ``source``, ``target`` and ``language``.

    The file is plain or ``.gz``. Other columns, and lines of other languages, are ignored. Raises InputError if the
    file cannot be read, or a line is bad.
    """
    # a bad line is an error: every line matters
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    columns = table.column_indices(COLUMNS)
    for line, cells in table.rows:
        source, target, tag = (cells[column].strip() for column in columns)
        language = _match_language(tag.lower(), languages)
        if not (source and target and tag):
            table.lines.bad_row("empty cell", line)
        elif language:
            yield AlignedNames((source,), (target,), (language,))


def alignment_weights(cosines: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    """Compute weights of pairs from the cosines of their texts: 0 up to ``low``, 1 from ``high`` on, linear in between.

    BioLORD-2023, section "Cross-lingual distillation", uses a corpus aligned with LaBSE, but does not say how
    similarity becomes alignment. :func:`estimate_thresholds` gives ``low`` and ``high``. Raises ConfigError if ``high``
    is not above ``low``, because the encoder does not recognise translations.
    """
    if not low < high:
        raise ConfigError(
            f"the similarity filter finds translations (cosine {high:.2f}) no nearer than chance ({low:.2f})",
            remedy="name an encoder that knows the languages, or none",
        )
    return np.clip((np.asarray(cosines, dtype=np.float64) - low) / (high - low), 0, 1)


def estimate_thresholds(encoder: Encoder, groups: Sequence[AlignedNames]) -> tuple[float, float]:
    """Estimate ``low`` and ``high`` of :func:`alignment_weights` from a sample of groups.

    ``low`` is the 95th percentile of the cosines of targets with the nearest source of another group. ``high`` is the
    median of their cosines with the nearest source of their own group. The other group is far away in the sample, by
    half its length, because neighbours in a terminology are often related. Raises ConfigError for a single group.
    """
    if len(groups) < 2:
        remedy = "give both thresholds, or no filter"
        raise ConfigError("one alignment does not show what chance reaches", remedy=remedy)
    half = len(groups) // 2
    own, chance = (
        np.concatenate([cosines for _, cosines in nearest_sources(encoder, groups, others)])
        for others in (groups, [*groups[half:], *groups[:half]])
    )
    return float(np.quantile(chance, _CHANCE_QUANTILE)), float(np.median(own))


def nearest_sources(
    encoder: Encoder, groups: Sequence[AlignedNames], others: Sequence[AlignedNames]
) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Find, for each target of ``groups[i]``, the nearest source of ``others[i]``; ties go to the first.

    Yields, for each group, the indices of these sources and the cosines ``(targets,)``.
    """
    for start in range(0, len(groups), _GROUPS):
        some, beside = groups[start : start + _GROUPS], others[start : start + _GROUPS]
        texts = sorted({*chain(*(group.targets for group in some)), *chain(*(group.sources for group in beside))})
        vectors = encoder.encode(texts)
        row = {text: i for i, text in enumerate(texts)}
        for group, other in zip(some, beside, strict=True):
            targets = vectors[[row[text] for text in group.targets]]
            cosines = targets @ vectors[[row[text] for text in other.sources]].T
            yield cosines.argmax(axis=1).tolist(), cosines.max(axis=1)


def reservoir_sample(groups: Iterable[AlignedNames], size: int, seed: int) -> list[AlignedNames]:
    """Draw a uniform random sample in one pass (Vitter 1985, algorithm R)."""
    rng = np.random.default_rng(seed)
    drawn: list[AlignedNames] = []
    for seen, group in enumerate(groups):
        if len(drawn) < size:
            drawn.append(group)
        elif (position := int(rng.integers(seen + 1))) < size:
            drawn[position] = group
    return drawn


def aligned_entries(
    groups: Iterable[AlignedNames], encoder: Encoder | None = None, low: float = 0, high: float = 0
) -> Iterator[TextEntry]:
    """Yield the entries of cross-lingual distillation; a source and its translations share a target row.

    With an ``encoder``, a target is a translation of its nearest source, weighted by :func:`alignment_weights`; pairs
    with weight 0 are left out. Without one, it is a translation of the first source, the preferred name, with weight
    1.
    """
    row = 0
    for part in chunked(groups, _GROUPS):
        nearest = repeat(None) if encoder is None else nearest_sources(encoder, part, part)
        for group, found in zip(part, nearest, strict=False):
            yield from (TextEntry(text, row + i) for i, text in enumerate(group.sources))
            sources, weights = [0] * len(group.targets), [1.0] * len(group.targets)
            if found is not None:
                sources, weights = found[0], alignment_weights(found[1], low, high).tolist()
            for text, source, weight in zip(group.targets, sources, weights, strict=True):
                if weight > 0:
                    yield TextEntry(text, row + source, 0.0, weight)
            row += len(group.sources)


def train_multilingual(
    run: Run, alignments: Alignments, start: str | Path, recipe: MultilingualRecipe, *, teacher: str | Path
) -> None:
    """Train a student on the teacher's embeddings of English names, for those names and their translations.

    Memory grows by 20 bytes for each text; the texts and the teacher's embeddings of English names are on disk. Raises
    ConfigError if a language is missing, the filter knows none of the languages, or the student has another dimension.
    """
    student = load_transformer(start)
    before, width = compute_fingerprint(student), int(student.get_embedding_dimension() or 0)
    if run.is_main and not recipe.project and width != (expected := load_encoder(teacher).dimension):
        remedy = "name a student as wide as the teacher, or add a linear layer with project"
        raise ConfigError(f"the student embeds in {width} dimensions, the teacher in {expected}", remedy=remedy)
    filter_facts: dict[str, Any] = {}

    def entries() -> Iterator[TextEntry]:
        if not recipe.filter:
            return aligned_entries(alignments)
        encoder, low, high = load_encoder(recipe.filter), recipe.low, recipe.high
        if low is None or high is None:
            low, high = estimate_thresholds(encoder, reservoir_sample(alignments, _SAMPLE, recipe.seed))
        filter_facts["similarity filter"] = f"`{encoder.fingerprint}`"
        filter_facts["its cosines of weights 0 and 1"] = f"{low:.3f} and {high:.3f}"
        run.progress(f"similarity filter: weight 0 up to cosine {low:.3f}, 1 from {high:.3f}")
        return aligned_entries(alignments, encoder, low, high)

    store = store_texts(run, entries)
    bound = {"similarity filter": filter_facts.get("similarity filter")}
    teacher_width, teacher_facts = compute_teacher_targets(run, store, recipe, teacher, None, start=before, **bound)
    model = match_width(student, teacher_width, recipe.seed)
    figures = fit_to_targets(run, model, store, recipe)
    data = {
        "languages": ", ".join(alignments.languages),
        "names in the language of the teacher": store.rows,
        "names in other languages": len(store) - store.rows,
        "SHA-256 of the names": f"`{store.digest}`",
        **filter_facts,
        **teacher_facts,
    }
    run.write(model, **CARD, start=before, data=data, recipe=recipe, figures=figures)


def match_width(student: SentenceTransformer, width: int, seed: int) -> SentenceTransformer:
    """Give a student ``width`` dimensions, if necessary by a random linear layer before its normalisation."""
    own = int(student.get_embedding_dimension() or 0)
    if own == width:
        return student
    modules = list(student)
    end = [modules.pop()] if isinstance(modules[-1], Normalize) else []
    torch.manual_seed(seed)
    layer = Dense(own, width, activation_function=torch.nn.Identity())
    return SentenceTransformer(modules=[*modules, layer, *end], device=str(student.device))
