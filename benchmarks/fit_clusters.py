"""Fit the weights by which clustering judges pairs of terms, those that ship with medlink.

    python benchmarks/fit_clusters.py NAMES --encoder FOLDER -o medlink/resources/clustering/join.json

NAMES is what ``open_names.py`` writes, FOLDER an encoder that was trained on the training part of ``clustering.py
split`` alone. Pairs of these lists, with their languages and without, in which one name in twenty stands once more with
a typing error:

- names of development concepts, in three languages, with that encoder, which never met them;
- names of training concepts, in three languages, with the built-in one, which met them all;
- names of ORDO with the built-in one, twice;
- names of ORDO of which NAMES has none (genes, most of them), with the encoder that never met them.

Of each only concepts whose hash is even: the others are there to choose the threshold. None of them has a name of the
1,500 concepts of ORDO on which ``clustering.py ordo`` reports.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

import click
import numpy as np
from clustering import Row, names_of, ordo_names
from numpy.typing import NDArray
from open_data import misspell

from medlink.clustering import Terms
from medlink.clustering.evidence import FEATURES, Evidence, Join
from medlink.clustering.forms import find_forms
from medlink.clustering.graph import pairs_to_judge
from medlink.clustering.guards import Guards
from medlink.index.selfjoin import nearest
from medlink.language.text import normalise
from medlink.models import Encoder, load_encoder

_TERMS = {"unseen": 20_000, "seen": 12_000}
_ORDO = 1_500  # concepts of each list of ORDO
_TYPING_ERRORS = 20  # one name in so many stands once more with one
_WEIGHTS = {"unseen": 1.0, "seen": 1.0, "ordo 1": 3.0, "ordo 2": 3.0, "genes": 3.0}
_K = 30


def is_fitted(concept: str) -> bool:
    """Whether a concept is for fitting, by a hash that knows nothing of the one that parts the concepts."""
    return not blake2b(f"half {concept}".encode(), digest_size=1).digest()[0] & 1


def whole(concepts: Iterable[list[Row]], count: int, rng: random.Random) -> list[Row]:
    """Names of concepts in a random order, until there are so many, some once more with a typing error."""
    order = list(concepts)
    rng.shuffle(order)
    rows: dict[str, Row] = {}
    for concept in order:
        if len(rows) >= count:
            break
        for text, language, identifier in concept:
            rows.setdefault(text, (text, language, identifier))
            if rng.randrange(_TYPING_ERRORS) == 0:
                rows.setdefault(wrong := misspell(text, rng), (wrong, language, identifier))
    return list(rows.values())


def judged(rows: list[Row], encoder: Encoder, tagged: bool) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Features of the pairs of a list that no guard parts, and whether they are of one concept.

    The languages of a list are known if it is ``tagged``.
    """
    gold = {text: concept for text, _, concept in rows}
    terms = Terms.of((text, 1, language if tagged else "", "") for text, language, _ in rows).ordered()
    forms = find_forms(terms)
    texts = [terms.texts[row] for row in forms.row.tolist()]
    languages = [terms.languages[terms.language[row]] for row in forms.row.tolist()]
    vectors = encoder.encode(texts)
    near, cosines = nearest(vectors, _K)
    guards = Guards(texts, languages)
    evidence = Evidence(texts, languages, guards, cosines)
    one, other, cosine = pairs_to_judge(near, cosines, vectors, evidence)
    kept = guards.apart(one, other) == 0
    concept = np.unique([gold[text] for text in texts], return_inverse=True)[1]
    features = evidence.measure(one[kept], other[kept], cosine[kept])
    return features, concept[one[kept]] == concept[other[kept]]


def lists(names: Path, part: Callable[[str], bool], seed: int) -> dict[str, list[Row]]:
    """The lists by their names."""
    rng = random.Random(seed)
    report = {normalise(text) for text, _, _ in ordo_names()}

    def of(concepts: dict[str, list[Row]]) -> list[list[Row]]:
        fit = (rows for concept, rows in sorted(concepts.items()) if part(concept))
        return [rows for rows in fit if not any(normalise(row[0]) in report for row in rows)]

    met = {normalise(row[0]) for one in ("training", "test") for rows in names_of(names, one).values() for row in rows}
    rare: dict[str, list[Row]] = defaultdict(list)
    for row in ordo_names(whole=True):
        rare[row[2]].append(row)
    ordo = of(rare)
    rng.shuffle(ordo)
    genes = [rows for rows in ordo if not any(normalise(row[0]) in met for row in rows)]
    some = len(rare)
    return {
        "unseen": whole(of(names_of(names, "development")), _TERMS["unseen"], rng),
        "seen": whole(of(names_of(names, "training")), _TERMS["seen"], rng),
        "ordo 1": whole(ordo[:_ORDO], 10 * some, rng),
        "ordo 2": whole(ordo[_ORDO : 2 * _ORDO], 10 * some, rng),
        "genes": whole(genes, 10 * some, rng),
    }


@click.command()
@click.argument("names", type=click.Path(exists=True, path_type=Path))
@click.option("--encoder", required=True, help="Encoder that met the training part alone.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
@click.option("--seed", default=1, show_default=True)
def main(names: Path, encoder: str, out: Path, seed: int) -> None:
    """Gather the evidence of the lists, fit, write."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    unmet, shipped = load_encoder(encoder), load_encoder()
    parts = []
    for title, rows in lists(names, is_fitted, seed).items():
        for tagged in (True, False):
            features, same = judged(rows, unmet if title in ("unseen", "genes") else shipped, tagged)
            parts.append((features, same, np.full(len(same), _WEIGHTS[title] / len(same))))
        click.echo(f"{title}: {len(rows)} names, {len(same)} pairs, {same.sum()} of one concept", err=True)
    features, same, weight = map(np.concatenate, zip(*parts, strict=True))
    scaler = StandardScaler().fit(features)
    model = LogisticRegression(max_iter=300)
    model.fit(scaler.transform(features), same, sample_weight=weight * len(weight) / weight.sum())
    weights = model.coef_[0] / scaler.scale_
    offset = model.intercept_[0] - weights @ scaler.mean_
    join = Join(tuple(round(float(value), 4) for value in weights), round(float(offset), 4))
    assert len(weights) == len(FEATURES)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(join.to_dict(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
