"""Fit the weights by which candidate spans are filtered and classified, which ship with medlink.

    python benchmarks/fit_choice.py --work FOLDER -o medlink/resources/notes

Candidate spans of the annotated texts (``annotated.py``) are linked to HPO with the bundle in the folder, which is
built if it is missing. The filter is fitted first: a positive span is one that the shipped classifier selects. Then the
classifier: a positive span has a first concept that is annotated there, or, if the concepts of a text have no offsets,
that is annotated in the text. Both are logistic regressions (scikit-learn). These are development texts: the figures of
the documents come from weights fitted on other texts (``finding.py``).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from annotated import SETS, phenotypes, retired
from numpy.typing import NDArray
from open_data import hpo_dictionary, write_dictionary
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from medlink.evaluation.notes import GoldText, is_right
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.scan import ScannedText
from medlink.reading.abbreviations import LongForms, make_detector
from medlink.reading.classifier import (
    LogisticModel,
    SpanClassifier,
    default_span_classifier,
    default_span_filter,
    drop_redundant_spans,
)
from medlink.reading.features import ALONE, COLUMNS, UNRANKED, feature_rows, rival_pairs, rival_rows
from medlink.reading.qualifiers import QualifierReader
from medlink.reading.reader import TextReader

FOLDS = 5
PARTS = {1: 1.0, 10: 0.3, 100: 0.3}
"""How much the spans count that are linked to one concept of HPO in so many."""
LEAST = 0.35
"""Probability that a mention needs; what is linked is decided by the threshold of the linker."""
THRESHOLD = 0.5
"""Score from which on a mention is linked."""
FILTER_LEAST = 0.07
"""Probability of being selected that a candidate needs to be ranked: of what is linked one in a hundred is lost."""
_LINKED = 3.0
_INVERSE_DECAY, _FILTER_DECAY = 1.0, 0.3
_ENDS, _FILTER_ENDS = 0.001, 0.002  # share of the rows at either end of a column that is cut to the next one
# The weight of a span of each set: the gold is annotated in full, DisTEMIST is of diseases alone, the written texts
# are many, the others are many and of one language, and of the case reports not every finding is there.
WEIGHTS = {
    "German letters (gold)": 2.0,
    "Spanish cases (gold)": 2.0,
    "English notes (gold)": 2.0,
    "English vignettes": 0.5,
    "English case reports": 0.2,
    "Spanish cases (DisTEMIST)": 1.0,
    "German texts (written)": 0.5,
    "Spanish texts (written)": 0.5,
    "English texts (written)": 0.5,
}
_BATCH = 32


class _Batch(NamedTuple):
    title: str
    texts: list[GoldText]
    finder: TextReader
    scanned: list[ScannedText]
    explained: list[LongForms]


Pairs = list[tuple[int, int, int]]
"""Rows, each with a row whose span overlaps its span, and how (:func:`medlink.reading.features.rival_pairs`)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Spans of many texts: columns ``(n, c)``, whether each is right, its weight (0: not known), its fold."""

    columns: NDArray[np.float64]
    right: NDArray[np.bool_]
    weight: NDArray[np.float64]
    fold: NDArray[np.int64]

    def __getitem__(self, which: NDArray[np.bool_]) -> Rows:
        return Rows(self.columns[which], self.right[which], self.weight[which], self.fold[which])


def fold_of(text: GoldText) -> int:
    """The part of a text in cross-validation."""
    return zlib.crc32(text.name.encode()) % FOLDS


def hpo_bundle(work: Path, part: int = 1) -> Bundle:
    """A bundle of HPO in a folder, built where it is missing; of one concept in so many."""
    folder = work / ("hpo" if part == 1 else f"hpo{part}")
    if folder.exists():
        return Bundle(folder)
    work.mkdir(parents=True, exist_ok=True)
    names = [row for row in hpo_dictionary() if zlib.crc32(row[0].encode()) % part == 0]
    base = folder.with_suffix(".sqlite")
    build_kb(base, [Input("table", write_dictionary(names, folder.with_suffix(".tsv")))])
    return build_bundle(folder, kb=base)


def in_batches(texts: Sequence[GoldText]) -> Iterator[list[GoldText]]:
    """Texts of one language, a batch at a time."""
    for language in sorted({text.language for text in texts}):
        own = [text for text in texts if text.language == language]
        yield from (own[start : start + _BATCH] for start in range(0, len(own), _BATCH))


def examples(work: Path, sets: Mapping[str, Sequence[GoldText]]) -> tuple[Rows, Pairs]:
    """The spans of annotated texts, by all of HPO and by parts of it, and those that overlap each.

    In a small terminology nothing else is alike, and the best concept of most spans is wrong.
    """
    tables, pairs, start = list[Rows](), Pairs(), 0
    for part, weight in PARTS.items():
        table, own = _examples(hpo_bundle(work, part), sets)
        tables.append(Rows(table.columns, table.right, table.weight * weight, table.fold))
        pairs += [(one + start, other + start, kind) for one, other, kind in own]
        start += len(table.right)
    columns = ((table.columns, table.right, table.weight, table.fold) for table in tables)
    return Rows(*map(np.concatenate, zip(*columns, strict=True))), pairs


def _read(bundle: Bundle, sets: Mapping[str, Sequence[GoldText]]) -> Iterator[_Batch]:
    """Batches of texts, each with its finder, its texts scanned and the long forms that they explain."""
    finders: dict[str, TextReader] = {}
    for title, texts in sets.items():
        for batch in in_batches(texts):
            language = batch[0].language
            finder = finders.setdefault(language, TextReader(bundle, language))
            find = make_detector("builtin", language)
            assert find is not None
            yield _Batch(title, batch, finder, finder.scan([t.text for t in batch]), [find(t.text) for t in batch])


def _examples(bundle: Bundle, sets: Mapping[str, Sequence[GoldText]]) -> tuple[Rows, Pairs]:
    found, pairs = list[tuple[tuple[float, ...], bool, float, int]](), Pairs()
    for title, batch, finder, scanned, explained in _read(bundle, sets):
        scored, _ = finder.score_candidates(scanned, finder.generator.candidates(scanned, explained))
        status = QualifierReader(batch[0].language)
        for text, read, spans in zip(batch, scanned, scored, strict=True):
            left = drop_redundant_spans(spans)
            pairs += [(one + len(found), other + len(found), kind) for one, other, kind in rival_pairs(left)]
            denied = _denied(status, text, [read.span(one.candidate.place) for one in left])
            for one, columns in zip(left, feature_rows(left), strict=True):
                concept = retired().get(one.best.concept_id, one.best.concept_id)
                start, end = read.span(one.candidate.place)
                right = is_right(text, start, end, concept, denied=(start, end) in denied)
                known = right is not None and concept in phenotypes()
                found.append((columns, bool(right), WEIGHTS[title] if known else 0.0, fold_of(text)))
    columns, right, weight, fold = zip(*found, strict=True)
    return Rows(np.array(columns, dtype=np.float64), np.array(right), np.array(weight), np.array(fold)), pairs


def _denied(status: QualifierReader, text: GoldText, spans: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Which spans a text denies or doubts, by their characters."""
    ordered = sorted(set(spans))
    qualified = zip(ordered, status.read(text.text).qualify(ordered), strict=True)
    return {span for span, found in qualified if found is not None and found.presence != "present"}


def filter_rows(bundle: Bundle, sets: Mapping[str, Sequence[GoldText]]) -> Rows:
    """The candidates of texts that are no names, and whether the classifier that ships selects each."""
    found: list[tuple[tuple[float, ...], bool, float, int]] = []
    for _, batch, finder, scanned, explained in _read(bundle, sets):
        candidates = finder.generator.candidates(scanned, explained, filtered=False)
        selected = default_span_classifier().select(finder.score_candidates(scanned, candidates)[0])
        for text, spans, kept in zip(batch, candidates, selected, strict=True):
            scores = {id(one.candidate): one.score or 0.0 for one in kept}
            for one in spans:
                if not one.sure:
                    # what is linked is worth more than what is only shown
                    weight = _LINKED if scores.get(id(one), 0.0) >= THRESHOLD else 1.0
                    found.append((one.context[: len(UNRANKED)], id(one) in scores, weight, fold_of(text)))
    columns, right, weight, fold = zip(*found, strict=True)
    return Rows(np.array(columns, dtype=np.float64), np.array(right), np.array(weight), np.array(fold))


def fit_model(table: Rows, ends: float, inverse_decay: float) -> LogisticModel:
    """A logistic regression fitted on some rows, whose columns are cut at both ``ends``."""
    lowest, highest = (np.quantile(table.columns, end, axis=0) for end in (ends, 1 - ends))
    scaler = StandardScaler()
    x = scaler.fit_transform(np.clip(table.columns, lowest, highest))
    model = LogisticRegression(C=inverse_decay, max_iter=3000).fit(x, table.right, sample_weight=table.weight)
    weights = model.coef_[0] / scaler.scale_
    offset = float(model.intercept_[0] - weights @ scaler.mean_)
    exact = [tuple(round(float(value), 6) for value in column) for column in (weights, lowest, highest)]
    return LogisticModel(exact[0], round(offset, 6), exact[1], exact[2])


def with_rivals(table: Rows, pairs: Pairs) -> Rows:
    """Rows with the columns of their rivals, which models judge that were fitted on other texts."""
    alone = np.zeros(len(table.right))
    for fold in range(FOLDS):
        own = table.fold == fold
        alone[own] = fit_model(table[~own], _ENDS, _INVERSE_DECAY).predict_proba(table.columns[own].tolist())
    rivals = np.array(list(rival_rows(alone.tolist(), pairs)))
    return Rows(np.hstack([table.columns, rivals]), table.right, table.weight, table.fold)


def fit(table: Rows, rivals: Rows) -> SpanClassifier:
    """A classifier fitted on some rows without and with the columns of their rivals."""
    models = (fit_model(rows, _ENDS, _INVERSE_DECAY) for rows in (table, rivals))
    return SpanClassifier(*models, LEAST)


def cross_fitted(table: Rows, pairs: Pairs) -> list[SpanClassifier]:
    """For each fold a classifier fitted on the others."""
    rivals = with_rivals(table, pairs)
    return [fit(table[table.fold != fold], rivals[table.fold != fold]) for fold in range(FOLDS)]


def plain(model: LogisticModel, names: Sequence[str]) -> str:
    """A model as the package reads it."""
    columns = zip(model.weights, model.lowest, model.highest, strict=True)
    lines = ",\n".join(f"  {json.dumps(name)}: {list(values)}" for name, values in zip(names, columns, strict=True))
    return f'"offset": {model.offset},\n "columns": {{\n{lines}\n }}'


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder of the two files.")
@click.option("--part", type=click.Choice(("filter", "classifier")), multiple=True, default=("filter", "classifier"))
def main(work: Path, out: Path, part: tuple[str, ...]) -> None:
    """Gather the spans, fit, write."""
    sets = {title: list(read()) for title, read in SETS.items()}
    if "filter" in part:
        table = filter_rows(hpo_bundle(work), sets)
        model = plain(fit_model(table, _FILTER_ENDS, _FILTER_DECAY), UNRANKED)
        (out / "prefilter.json").write_text(f'{{\n "least": {FILTER_LEAST},\n {model}\n}}\n', "utf-8")
        click.echo(f"{len(table.right)} candidates that are no names, {table.right.mean():.3f} of them selected")
    if "classifier" in part:
        default_span_filter.cache_clear()
        table, pairs = examples(work, sets)
        found = fit(table, with_rivals(table, pairs))
        models = f'"alone": {{\n {plain(found.alone, ALONE)}\n }},\n "model": {{\n {plain(found.model, COLUMNS)}\n }}'
        (out / "choice.json").write_text(f'{{\n "least": {LEAST},\n {models}\n}}\n', "utf-8")
        click.echo(f"{len(table.right)} spans, {table.right.mean():.3f} of them right")


if __name__ == "__main__":
    main()
