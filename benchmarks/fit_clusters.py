"""Fit the model of term pairs for clustering that ships with medlink.

    python benchmarks/fit_clusters.py --apart FOLDER --met TABLE -o medlink/resources/clustering/join.json

FOLDER is an encoder that was trained on TABLE alone, so all other names are new to it. The pairs come from

- lists that people wrote: mentions of the train parts of NCBI-disease and BC5CDR and of half of the documents of
  DisTEMIST, each list whole and in three samples in which .3 to .95 of the concepts have one term, with both encoders:
  the built-in one was trained on the train parts, which makes them easier than lists of users;
- drugs, procedures, diagnoses, laboratory values, anatomy and German rare diseases, codes beside their siblings, each
  list with a fifth of the weight, with both encoders;
- names of HPO, DOID, NCIt and ORDO that the encoder in FOLDER was not trained on, with parents, children and siblings,
  each list with a tenth of the weight. None is of a concept that is held out, nor of those that ``clustering.py ordo``
  reports.

*Same* is fitted on all pairs that no guard separates, and its trees on those that may be synonyms. *Narrower* is fitted
with the built-in encoder, on pairs in which one term has all words of the other and more, of lists that people wrote
and of the ontologies. It leaves out pairs of one concept from lists that people wrote: an annotator who links *stage II
colorectal cancer* to colorectal cancer does not deny that it is narrower.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from cluster_lists import ONTOLOGIES, TermList, code_lists, made, names_met, thinned, written_by_people
from clustering import ordo_names
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from medlink.clustering import Terms
from medlink.clustering.graph import candidate_pairs
from medlink.clustering.pair_features import MIN_REFINED, NARROWER, SAME, PairClassifier, PairFeatures, Pairs
from medlink.clustering.terms import find_forms
from medlink.index.knn_graph import nearest
from medlink.models import Encoder, load_encoder

OTHER, IS_SAME, ONE_NARROWER, OTHER_NARROWER = range(4)
_K = 30
_THINNED = 3
_TERMS = 3_000
_LONELY = (0.3, 0.6, 0.9)
_OF_TERMINOLOGIES, _OF_CODES = 0.1, 0.2
_STRENGTH = 0.3  # of the fit against the penalty of its weights
_TREES, _LEAVES, _LEAST = 80, 12, 200  # trees, leaves of each, and pairs of a leaf

Parts = list[tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float64]]]
"""Columns, classes and weights of the pairs of each list."""


class Judged(NamedTuple):
    """Pairs of a list that no guard parts, with their measures, ends, and what they are."""

    pairs: Pairs
    ends: NDArray[np.int64]
    texts: list[str]
    relation: NDArray[np.int8]


def judged(listed: TermList, encoder: Encoder, tagged: bool) -> Judged:
    """Measures of the pairs of a list, and what they are; the languages are known if it is ``tagged``."""
    gold = {text: concept for text, _, concept in listed.rows}
    terms = Terms.from_rows((text, 1, language if tagged else "", "") for text, language, _ in listed.rows).ordered()
    forms = find_forms(terms)
    texts = [terms.texts[row] for row in forms.row.tolist()]
    languages = [terms.languages[terms.language[row]] for row in forms.row.tolist()]
    vectors = encoder.encode(texts)
    near, cosines = nearest(vectors, _K)
    evidence = PairFeatures(texts, languages, cosines)
    one, other, cosine = candidate_pairs(near, cosines, vectors, evidence)
    unguarded = evidence.guards.apart(one, other) == 0
    one, other = one[unguarded], other[unguarded]
    relation = np.zeros(len(one), dtype=np.int8)
    for place, (first, second) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        here, there = gold[texts[first]], gold[texts[second]]
        if here == there:
            relation[place] = IS_SAME
        elif there in listed.broader.get(here, ()):
            relation[place] = ONE_NARROWER
        elif here in listed.broader.get(there, ()):
            relation[place] = OTHER_NARROWER
    return Judged(evidence.measure(one, other, cosine[unguarded]), np.stack([one, other]), texts, relation)


def fit(names: tuple[str, ...], columns: Any, found: Any, weights: Any) -> PairClassifier:
    """Logistic regression on columns of about the same size."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = columns.mean(axis=0), columns.std(axis=0) + 1e-6
    model = LogisticRegression(C=_STRENGTH, max_iter=1000)
    model.fit((columns - mean) / spread, found, sample_weight=weights / weights.mean())
    scaled = (model.coef_[0] / spread).astype(np.float64)
    offset = float(model.intercept_[0] - scaled @ mean)
    return PairClassifier(names, round(offset, 4), tuple(np.round(scaled, 4).tolist()))


def boost(base: PairClassifier, rate: float, share: float, columns: Any, found: Any, weights: Any) -> PairClassifier:
    """Refine a classifier by trees, each of which sees a share of the pairs, and at each branch of the columns."""
    from sklearn.ensemble import GradientBoostingClassifier

    refined = np.concatenate([base.probability(part) for part in np.array_split(columns, 50)]) >= MIN_REFINED
    columns, found, weights = columns[refined].astype(np.float32), found[refined], weights[refined]
    model = GradientBoostingClassifier(
        init=_Base(base), learning_rate=rate, n_estimators=_TREES, max_leaf_nodes=_LEAVES, max_depth=None,
        min_samples_leaf=_LEAST, subsample=share, max_features=share, random_state=0,
    )  # fmt: skip
    model.fit(columns, found, sample_weight=weights / weights.mean())

    def read(tree: Any, at: int = 0) -> Any:
        if tree.children_left[at] < 0:
            return round(rate * float(tree.value[at, 0, 0]), 4)
        branches = (read(tree, one[at]) for one in (tree.children_left, tree.children_right))
        return [base.names[tree.feature[at]], round(float(tree.threshold[at]), 5), *branches]

    return replace(base, trees=tuple(read(one.tree_) for one in model.estimators_[:, 0]))


class _Base(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """The classifier from which boosting begins."""

    def __init__(self, base: PairClassifier) -> None:
        self.base = base

    def fit(self, columns: Any, found: Any, sample_weight: Any = None) -> _Base:
        self.classes_ = np.array([False, True])
        return self

    def predict_proba(self, columns: Any) -> NDArray[np.float64]:
        probability = self.base.probability(columns)
        return np.stack([1 - probability, probability], axis=1)


def fit_narrower(parts: Parts) -> PairClassifier:
    """Fit trees on columns, classes and weights of several lists."""
    columns, found, weights = (np.concatenate(some) for some in zip(*parts, strict=True))
    odds = float(np.average(found, weights=weights))
    before = PairClassifier(NARROWER, round(float(np.log(odds / (1 - odds))), 4))
    return boost(before, 0.1, 1.0, columns, found, weights)


def as_json(**models: PairClassifier) -> str:
    """The model file, with a tree on each line."""
    rows = []
    for key, model in models.items():
        raw = model.to_dict()
        trees = ",\n".join(map(json.dumps, raw.pop("trees")))
        rows.append(f'"{key}": {json.dumps(raw)[:-1]}, "trees": [\n{trees}\n]}}')
    return "{" + ",\n".join(rows) + "}\n"


def weights_of(found: Judged, share: float = 1.0) -> NDArray[np.float64]:
    """Weights of the pairs of a list, which grow with the root of their number."""
    count = len(found.relation)
    return np.full(count, share * 100 / np.sqrt(count))


def made_lists(met: str, rng: random.Random) -> Iterator[tuple[str, TermList]]:
    """Lists of names of the ontologies, without the names that ``clustering.py ordo`` reports."""
    never, reported = names_met(met), {text.lower() for text, _, _ in ordo_names()}
    for name in ONTOLOGIES:
        for lonely in _LONELY:
            listed = made(name, never, rng, size=_TERMS, lonely=lonely)
            rows = [row for row in listed.rows if row[0].lower() not in reported]
            yield name, TermList(rows, listed.broader)


def narrower_parts(encoder: Encoder, met: str, rng: random.Random) -> Parts:
    """Pairs in which one term has all words of the other and more, in both orders."""
    parts = Parts()
    lists = [(True, judged(listed, encoder, tagged=False)) for listed in written_by_people("fit").values()]
    lists += [(False, judged(listed, encoder, rng.random() < 0.5)) for _, listed in made_lists(met, rng)]
    for people, found in lists:
        weights = weights_of(found)
        for pairs, is_narrower in ((found.pairs, ONE_NARROWER), (found.pairs.swapped(), OTHER_NARROWER)):
            selected = pairs.may_be_narrower[:, 0] & ~(people & (found.relation == IS_SAME))
            columns = pairs.select(selected).narrower()
            parts.append((columns, found.relation[selected] == is_narrower, weights[selected]))
    return parts


@click.command()
@click.option("--apart", required=True, help="Encoder that met TABLE alone.")
@click.option("--met", required=True, type=click.Path(exists=True), help="The names that it met.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
@click.option("--seed", default=3, show_default=True)
def main(apart: str, met: str, out: Path, seed: int) -> None:
    """Fit and write the model."""
    rng = random.Random(seed)
    encoders = load_encoder(), load_encoder(apart)
    same = Parts()

    def take(found: Judged, share: float) -> None:
        same.append((found.pairs.same(), found.relation == IS_SAME, weights_of(found, share)))

    for name, listed in written_by_people("fit").items():
        for one in (listed, *(thinned(listed, rng) for _ in range(_THINNED))):
            for encoder in encoders:
                take(judged(one, encoder, tagged=False), 1)
        click.echo(f"{name}: {len(listed.rows)} terms", err=True)
    for name, listed in code_lists(rng, _TERMS).items():
        for encoder in encoders:
            take(judged(listed, encoder, rng.random() < 0.5), _OF_CODES)
        click.echo(f"{name}: {len(listed.rows)} terms", err=True)
    for name, listed in made_lists(met, rng):
        take(judged(listed, encoders[1], rng.random() < 0.5), _OF_TERMINOLOGIES)
        click.echo(name, err=True)
    narrower = narrower_parts(encoders[0], met, random.Random(seed))
    columns = tuple(np.concatenate(some) for some in zip(*same, strict=True))
    # slower, because trees learn the lists that people wrote by heart
    model = boost(fit(SAME, *columns), 0.07, 0.4, *columns)
    out.write_text(as_json(same=model, narrower=fit_narrower(narrower)), encoding="utf-8")


if __name__ == "__main__":
    main()
