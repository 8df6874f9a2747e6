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

*Same* is fitted on all pairs that no guard separates. *Narrower* is fitted on pairs in which one term has all words of
the other and more. It leaves out pairs of one concept from lists that people wrote: an annotator who links *stage II
colorectal cancer* to colorectal cancer does not deny that it is narrower.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from cluster_lists import ONTOLOGIES, TermList, code_lists, made, names_met, thinned, written_by_people
from clustering import ordo_names
from numpy.typing import NDArray

from medlink.clustering import Terms
from medlink.clustering.graph import candidate_pairs
from medlink.clustering.pair_features import NARROWER, SAME, Logistic, PairFeatures, Pairs
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


def fit(names: tuple[str, ...], columns: Any, found: Any, weights: Any) -> Logistic:
    """Logistic regression on columns of about the same size."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = columns.mean(axis=0), columns.std(axis=0) + 1e-6
    model = LogisticRegression(C=_STRENGTH, max_iter=1000)
    model.fit((columns - mean) / spread, found, sample_weight=weights / weights.mean())
    scaled = model.coef_[0] / spread
    return Logistic(names, tuple(np.round(scaled, 4).tolist()), round(float(model.intercept_[0] - scaled @ mean), 4))


@click.command()
@click.option("--apart", required=True, help="Encoder that met TABLE alone.")
@click.option("--met", required=True, type=click.Path(exists=True), help="The names that it met.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
@click.option("--seed", default=3, show_default=True)
def main(apart: str, met: str, out: Path, seed: int) -> None:
    """Fit and write the model."""
    rng = random.Random(seed)
    encoders = load_encoder(), load_encoder(apart)
    same: list[tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float64]]] = []
    narrower = same.copy()

    def take(found: Judged, share: float, people: bool, hierarchy: bool = True) -> None:
        """Add the pairs of a list, with a weight that grows with the root of their number."""
        count = len(found.relation)
        weights = np.full(count, share * 100 / np.sqrt(count))
        same.append((found.pairs.same(), found.relation == IS_SAME, weights))
        for pairs, is_narrower in ((found.pairs, ONE_NARROWER), (found.pairs.swapped(), OTHER_NARROWER)):
            selected = pairs.may_be_narrower[:, 0] & ~(people & (found.relation == IS_SAME))
            if not hierarchy:
                continue
            narrower.append(
                (pairs.select(selected).narrower(), found.relation[selected] == is_narrower, weights[selected] / share)
            )

    for name, listed in written_by_people("fit").items():
        for one in (listed, *(thinned(listed, rng) for _ in range(_THINNED))):
            for encoder in encoders:
                take(judged(one, encoder, tagged=False), 1, people=True)
        click.echo(f"{name}: {len(listed.rows)} terms", err=True)
    for name, listed in code_lists(rng, _TERMS).items():
        for encoder in encoders:
            take(judged(listed, encoder, rng.random() < 0.5), _OF_CODES, people=True, hierarchy=False)
        click.echo(f"{name}: {len(listed.rows)} terms", err=True)
    never, reported = names_met(met), {text.lower() for text, _, _ in ordo_names()}
    for name in ONTOLOGIES:
        for lonely in _LONELY:
            listed = made(name, never, rng, size=_TERMS, lonely=lonely)
            rows = [row for row in listed.rows if row[0].lower() not in reported]
            take(
                judged(TermList(rows, listed.broader), encoders[1], rng.random() < 0.5), _OF_TERMINOLOGIES, people=False
            )
        click.echo(name, err=True)
    models = {
        key: fit(names, *(np.concatenate(some) for some in zip(*parts, strict=True))).to_dict()
        for key, names, parts in (("same", SAME, same), ("narrower", NARROWER, narrower))
    }
    out.write_text(json.dumps(models, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
