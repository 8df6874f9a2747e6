"""Fit the prior of concepts that share a name.

    python benchmarks/fit_prior.py BUNDLE -o medlink/resources/linking/prior.json

The bundle contains the UMLS-shaped release of the data folder. The mentions are those of the train parts of
NCBI-disease and BC5CDR; the exact matches of MONDO map their MeSH ids to CUIs. A mention is used if several concepts
share its best name and one of them is right. Some weights cannot be fitted on these mentions and stay as set by hand:
those of kinds, because the release has only findings; of spelling; and of preferred names, because no mention here
means a concept of NCIt.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from open_data import TERMINOLOGIES, Query, bc5cdr, ncbi
from scipy.optimize import minimize

from medlink import Linker
from medlink.linking import Mention
from medlink.linking.decision import SharedNamePolicy
from medlink.linking.profiles import PriorFeatures

_PENALTY = 2.0  # of a squared distance from what a weight is without mentions
_BEFORE = PriorFeatures(likeness=1.0)
_FREE = [name for name in PriorFeatures._fields if name not in ("preferred", "spelt", "kind")]


def exact_matches(name: str) -> dict[str, set[str]]:
    """The ids that MONDO matches exactly, by id of MONDO."""
    found = defaultdict(set)
    with open(TERMINOLOGIES / f"mappings/mondo_exactmatch_{name}.sssom.tsv", encoding="utf-8") as file:
        for row in csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t"):
            found[row["subject_id"]].add(row["object_id"].upper())
    return found


def with_cuis(queries: list[Query]) -> list[Query]:
    """Mentions whose MeSH ids have CUIs, with these."""
    mesh, umls = exact_matches("mesh"), exact_matches("umls")
    cuis = defaultdict(set)
    for mondo, ids in mesh.items():
        for one in ids:
            cuis[one] |= {cui.removeprefix("UMLS:") for cui in umls.get(mondo, ())}
    distinct = {(q.text, frozenset(cui for one in q.gold for cui in cuis.get(one, ())), q.language) for q in queries}
    return [Query(*one) for one in sorted(distinct, key=lambda one: (one[0], sorted(one[1]))) if one[1]]


Choice = tuple[NDArray[np.float64], int]
"""Features ``(concepts, features)`` of the concepts of a name, and which of them is right."""


def choices(linker: Linker, queries: list[Query]) -> list[Choice]:
    """The mentions whose best name several concepts have, one of them right."""
    decision, found = linker.decision, []
    assert isinstance(decision, SharedNamePolicy)
    mentions = [Mention(query.text, query.language) for query in queries]
    ranked = linker.rank(mentions)
    grouped = decision.group_concepts(ranked)
    features = decision.prior_features(mentions, [holders for holders, _ in grouped], ranked)
    for query, (_, same), own in zip(queries, grouped, features, strict=True):
        alike = [{one: own[one] for one in group.concepts if one in own} for group in same]
        groups = [group for group in alike if group]
        ids = [set(linker.index.concept_ids(np.array(sorted(group)))) for group in groups]
        right = [at for at, own in enumerate(ids) if own & query.gold]
        if len(groups) > 1 and len(right) == 1:
            rows = [[max(column) for column in zip(*group.values(), strict=True)] for group in groups]
            found.append((np.array(rows), right[0]))
    return found


def loss(free: NDArray[np.float64], known: list[Choice], columns: list[int], kept: PriorFeatures) -> float:
    """Negative log likelihood of the weights that are fitted, with the penalty."""
    weights, away = np.array(kept), free - np.array(_BEFORE)[columns]
    weights[columns] = free
    total = _PENALTY * float(away @ away)
    for features, right in known:
        z = features @ weights
        total += float(np.log(np.exp(z - z.max()).sum()) + z.max() - z[right])
    return total


@click.command()
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
def main(bundle: Path, out: Path) -> None:
    """Gather the mentions, fit, write."""
    raw = json.loads(out.read_text("utf-8"))
    known = choices(Linker(bundle), with_cuis(ncbi("train") + bc5cdr("Training")))
    columns = [PriorFeatures._fields.index(name) for name in _FREE]
    bounds = [(0.0, None)] * len(columns)  # each feature is higher for the likelier concept
    fitted = minimize(loss, np.zeros(len(columns)), (known, columns, PriorFeatures(**raw["weights"])), bounds=bounds).x
    raw["weights"] |= dict(zip(_FREE, np.round(fitted, 4).tolist(), strict=True))
    out.write_text(json.dumps(raw, indent=2) + "\n", encoding="utf-8")
    weights = np.array(PriorFeatures(**raw["weights"]))
    rights = sum(int((features @ weights).argmax() == right) for features, right in known)
    click.echo(f"{len(known)} mentions, {rights} right first; {raw['weights']}")


if __name__ == "__main__":
    main()
