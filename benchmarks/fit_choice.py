"""Fit the weights by which the finder chooses mentions, which ship with medlink.

    python benchmarks/fit_choice.py --work FOLDER -o medlink/resources/notes/choice.json

Stretches of the annotated texts (``annotated.py``) are linked to HPO with the bundle in the folder, which is built
where it is missing. A stretch is right where its likeliest concept is one that was annotated there; where a text has
concepts without places, where it is one of the text. A logistic regression (scikit-learn) tells right ones from others.
These are development texts: what stands in the documents is measured with weights fitted on other texts
(``finding.py``).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from annotated import SETS, phenotypes, retired
from numpy.typing import NDArray
from open_data import hpo_dictionary, write_dictionary
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from spacy.tokens import Doc

from medlink.evaluation.findings import GoldText, is_right
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.language import blank
from medlink.reading.abbreviations import detector
from medlink.reading.choice import COLUMNS, Choice, Judged, rows, without_longer
from medlink.reading.finder import MentionFinder
from medlink.reading.status import StatusReader

FOLDS = 5
PARTS = {1: 1.0, 10: 0.3, 100: 0.3}
"""How much the stretches count that are linked to one concept of HPO in so many."""
LEAST = 0.35
"""Probability that a mention needs; what is linked is decided by the threshold of the linker."""
_INVERSE_DECAY = 0.1
_ENDS = 0.005  # share of the rows at either end of a column that is cut to the next one
# How much a stretch of a set counts: the gold is annotated in full, DisTEMIST is of diseases alone, the written texts
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


@dataclass(frozen=True, slots=True)
class Rows:
    """Stretches of many texts: columns ``(n, c)``, whether each is right, its weight, and the fold of its text."""

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


def examples(work: Path, sets: Mapping[str, Sequence[GoldText]]) -> Rows:
    """The stretches of annotated texts of which it is known whether they are right, by all of HPO and by parts of it.

    In a small terminology nothing else is alike, and the best concept of most stretches is wrong.
    """
    parts = [(_examples(hpo_bundle(work, part), sets), weight) for part, weight in PARTS.items()]
    columns = ((table.columns, table.right, table.weight * weight, table.fold) for table, weight in parts)
    return Rows(*map(np.concatenate, zip(*columns, strict=True)))


def _examples(bundle: Bundle, sets: Mapping[str, Sequence[GoldText]]) -> Rows:
    found: list[tuple[tuple[float, ...], bool, float, int]] = []
    finders: dict[str, MentionFinder] = {}
    for title, texts in sets.items():
        for batch in in_batches(texts):
            language = batch[0].language
            finder = finders.setdefault(language, MentionFinder(bundle, language))
            nlp, status = blank(language), StatusReader(language)
            docs = [nlp.tokenizer(text.text) for text in batch]
            explained = detector("builtin", nlp.vocab)
            assert explained is not None
            judged = finder.judged([finder.note(doc, explained(doc)) for doc in docs])
            for text, doc, stretches in zip(batch, docs, judged, strict=True):
                left = without_longer(stretches)
                denied = _denied(status, text, doc, left)
                for one, columns in zip(left, rows(left), strict=True):
                    first, stop = one.stretch.place
                    concept = retired().get(one.best.concept_id, one.best.concept_id)
                    start, end = doc[first:stop].start_char, doc[first:stop].end_char
                    right = is_right(text, start, end, concept, denied=(start, end) in denied)
                    if right is not None and concept in phenotypes():
                        found.append((columns, right, WEIGHTS[title], fold_of(text)))
    columns, right, weight, fold = zip(*found, strict=True)
    return Rows(np.array(columns, dtype=np.float64), np.array(right), np.array(weight), np.array(fold))


def _denied(status: StatusReader, text: GoldText, doc: Doc, stretches: Sequence[Judged]) -> set[tuple[int, int]]:
    """Which stretches a text denies or doubts, by their characters."""
    spans = [doc[slice(*one.stretch.place)] for one in stretches]
    places = sorted({(span.start_char, span.end_char) for span in spans})
    said = zip(places, status.read(text.text).said_of(places), strict=True)
    return {place for place, found in said if found is not None and found.presence != "present"}


def fit(table: Rows) -> Choice:
    """A choice fitted on some rows."""
    lowest, highest = (np.quantile(table.columns, end, axis=0) for end in (_ENDS, 1 - _ENDS))
    scaler = StandardScaler()
    x = scaler.fit_transform(np.clip(table.columns, lowest, highest))
    model = LogisticRegression(C=_INVERSE_DECAY, max_iter=1000).fit(x, table.right, sample_weight=table.weight)
    weights = model.coef_[0] / scaler.scale_
    offset = float(model.intercept_[0] - weights @ scaler.mean_)
    exact = [tuple(round(float(value), 6) for value in column) for column in (weights, lowest, highest)]
    return Choice(exact[0], round(offset, 6), exact[1], exact[2], LEAST)


def cross_fitted(table: Rows) -> list[Choice]:
    """For each fold a choice fitted on the others."""
    return [fit(table[table.fold != fold]) for fold in range(FOLDS)]


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
def main(work: Path, out: Path) -> None:
    """Gather the stretches, fit, write."""
    table = examples(work, {title: list(read()) for title, read in SETS.items()})
    choice = fit(table)
    columns = zip(choice.weights, choice.lowest, choice.highest, strict=True)
    lines = ",\n".join(f"  {json.dumps(name)}: {list(values)}" for name, values in zip(COLUMNS, columns, strict=True))
    head = f'"offset": {choice.offset},\n "least": {choice.least}'
    out.write_text(f'{{\n {head},\n "columns": {{\n{lines}\n }}\n}}\n', "utf-8")
    click.echo(f"{len(table.right)} stretches, {table.right.mean():.3f} of them right: {out}")


if __name__ == "__main__":
    main()
