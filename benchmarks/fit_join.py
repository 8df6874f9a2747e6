"""Fit the weights of the ranking that ship with medlink.

    python benchmarks/fit_join.py --held-out held_out.tsv --work FOLDER -o medlink/resources/linking/join.json

Training mentions: the train parts of NCBI-disease and BC5CDR (diseases and chemicals) against the MeSH dictionary;
German and Spanish HPO names that the encoder was not trained on (``open_names.py --held-out``), against an HPO
dictionary without them; names of both dictionaries with one typing error, against the dictionary without that
spelling; German terms of Alpha-ID-SE of one ORPHA code in twenty, on which the encoder was not trained either, against
English ORDO names. No development mention is used.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from open_data import (
    Query,
    alpha_id_held_out,
    bc5cdr,
    hpo_dictionary,
    in_dictionary,
    mesh_dictionary,
    misspell,
    ncbi,
    ordo_dictionary,
    write_dictionary,
)

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.linking.candidates import QueryBatch
from medlink.linking.features import FEATURES, compute_features
from medlink.linking.fit import Example, Table, fit_curves, ranking_weights
from medlink.linking.ranking import FittedRanker, LinearRanker

_BATCH = 256
_TYPING_ERRORS = 500
_TYPING_WEIGHT = 0.2  # an invented error counts less than a mention that somebody wrote
_ALPHA_WEIGHT = 0.5  # and so does a term of an alphabet
_CHEMICAL_WEIGHT = 0.3  # most are names to the letter; they show that not every mention is of a finding


def _examples(queries: list[Query]) -> list[Example]:
    distinct = {(q.text, q.language, q.gold) for q in queries}
    ordered = sorted(distinct, key=lambda q: (q[0], q[1], sorted(q[2])))
    return [Example(text, language, gold) for text, language, gold in ordered]


def tabulate(bundle: Bundle, examples: Sequence[Example], weight: float = 1.0) -> Table:
    """Gather the evidence of all examples with one bundle; ``weight`` is how much each of them counts."""
    index = bundle.index
    parts: list[Table] = []
    for start in range(0, len(examples), _BATCH):
        batch = examples[start : start + _BATCH]
        texts, languages = [e.text for e in batch], [e.language for e in batch]
        found = compute_features(QueryBatch(index, bundle.encoder, texts, languages))
        entries = index.entries(found.name)
        ids = index.concept_ids(entries.concept)
        gold = np.zeros(len(found.name), dtype=bool)
        concept = np.full(len(found.name), -1)
        for position, key, concept_id in zip(entries.position.tolist(), entries.concept.tolist(), ids, strict=True):
            right = concept_id in batch[found.mention[position]].concept_ids
            if right or concept[position] < 0:
                concept[position] = key
            gold[position] |= right
        language = np.array([base(example.language) for example in batch])[found.mention]
        weights = np.full(len(gold), weight)
        parts.append(Table(found.mention + start, concept, found.features, gold, weights, language))
    return join_tables(parts)


def join_tables(parts: Sequence[Table]) -> Table:
    """Several tables as one; examples are numbered on."""
    example, shift = [], 0
    for part in parts:
        _, numbers = np.unique(part.example, return_inverse=True)
        example.append(numbers + shift)
        shift += int(numbers.max(initial=-1)) + 1
    rest = [(part.concept, part.features, part.gold, part.weight, part.language) for part in parts]
    columns = zip(*rest, strict=True)
    return Table(np.concatenate(example), *map(np.concatenate, columns))


def fit(table: Table, *, decay: float = 1e-3) -> FittedRanker:
    """Fit ranking weights with their decay, then the curves of the score; the same table gives the same weights."""
    w = ranking_weights(table, decay)
    exact, inflected = (table.features[:, FEATURES.index(kind)] > 0 for kind in ("exact", "inflected"))
    curves = fit_curves(table, table.features.astype(np.float64) @ w, exact, exact | inflected)
    return FittedRanker(LinearRanker(tuple(round(float(v), 4) for v in w)), curves)


@click.command()
@click.option("--held-out", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the three bundles.")
@click.option("--encoder", default="builtin", show_default=True)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
@click.option("--seed", default=1, show_default=True)
def main(held_out: Path, work: Path, encoder: str, out: Path, seed: int) -> None:
    """Build the three bundles, gather the evidence, fit, write."""
    rng = random.Random(seed)
    work.mkdir(parents=True, exist_ok=True)
    hpo, mesh = hpo_dictionary(), mesh_dictionary()
    with open(held_out, encoding="utf-8", newline="") as file:
        hidden = {
            (row["name"], row["language"]) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        }
    shown = [row for row in hpo if (" ".join(row[1].split()), row[2]) not in hidden]
    translated = [Query(n, frozenset({c}), la) for c, n, la in hpo if (" ".join(n.split()), la) in hidden]
    parts = []
    for name, dictionary, queries in (
        ("hpo", shown, translated),
        ("mesh", mesh, ncbi("train") + bc5cdr("Training")),
    ):
        table = write_dictionary(dictionary, work / f"{name}.tsv")
        build_kb(work / f"{name}.sqlite", [Input("table", table)])
        bundle = build_bundle(work / name, kb=work / f"{name}.sqlite", encoder=encoder)
        known = {normalise(n) for _, n, _ in dictionary}
        noisy = []
        for concept, text, language in rng.sample(dictionary, _TYPING_ERRORS):
            wrong = misspell(text, rng)
            if normalise(wrong) not in known:
                noisy.append(Query(wrong, frozenset({concept}), language))
        examples = _examples(in_dictionary(queries, dictionary))
        parts.append(tabulate(bundle, examples))
        parts.append(tabulate(bundle, _examples(noisy), _TYPING_WEIGHT))
        if name == "mesh":
            chemicals = in_dictionary(bc5cdr("Training", ("Chemical",)), dictionary)
            parts.append(tabulate(bundle, _examples(chemicals), _CHEMICAL_WEIGHT))
        click.echo(f"{name}: {len(examples)} mentions, {len(noisy)} typing errors", err=True)
    ordo = ordo_dictionary()
    table = write_dictionary(ordo, work / "ordo.tsv")
    build_kb(work / "ordo.sqlite", [Input("table", table)])
    bundle = build_bundle(work / "ordo", kb=work / "ordo.sqlite", encoder=encoder)
    examples = _examples(in_dictionary(alpha_id_held_out(fitted=True), ordo))
    parts.append(tabulate(bundle, examples, _ALPHA_WEIGHT))
    click.echo(f"ordo: {len(examples)} terms", err=True)
    join = fit(join_tables(parts))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(join.to_dict(), indent=2) + "\n", encoding="utf-8")
    click.echo(json.dumps(join.to_dict()))


if __name__ == "__main__":
    main()
