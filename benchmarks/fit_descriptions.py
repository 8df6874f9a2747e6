"""Fit the ranking of descriptions in code lists that ships with medlink.

    python benchmarks/fit_descriptions.py --work FOLDER -o medlink/resources/mapping/descriptions.json

One dictionary holds MeSH, the English names of LOINC, and the operations of ICD-10-PCS on each part of the body.
Training descriptions: names of CHEBI for chemicals of MeSH, most with a route, a form or a combination as lists of
drugs have them; the train parts of NCBI-disease and BC5CDR; German names of LOINC codes, and component and system of
English ones; entries of the index of ICD-10-PCS that refer to parts of the body. Where a concept has one of these names
in the dictionary, the dictionary lacks it, unless it is the preferred name. The curves are fitted first; then a best
name that equals the main part is raised as far as the same descriptions say. Needs the data folder.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from fit_join import join_tables
from open_data import TERMINOLOGIES, Query, bc5cdr, in_dictionary, mesh_dictionary, ncbi, write_dictionary

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.text import normalise
from medlink.linking.arrays import Bools, Floats
from medlink.linking.calibration import Curves
from medlink.linking.candidates import QueryBatch
from medlink.linking.features import compute_features
from medlink.linking.fit import NIL_SHARE, Table, fit_curves, ranking_weights
from medlink.linking.ranking import FittedRanker, LinearRanker, compute_margins, default_ranker
from medlink.mapping.ranking import FEATURES, POOL, best_names, columns, equals_main_part

_BATCH = 128
_RAISES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)  # of the rank of a name that equals the main part; margins end at 5
_SIZE = 3_000  # most descriptions of a kind
_ROUTES = (
    "oral", "parenteral", "systemic", "topical", "local oral", "ophthalmic", "nasal", "rectal", "vaginal", "inhalant",
    "otic", "transdermal", "sublingual", "implant", "tablets", "capsules", "i.v.", "cream", "eye drops", "injection",
)  # fmt: skip
_WITH = ("combinations", "combinations with psycholeptics", "combinations excl. psycholeptics", "incl. combinations")
_CLASSES = ("diuretics", "corticosteroids", "antibiotics", "psycholeptics", "other drugs", "beta blocking agents")
_SYSTEM = re.compile(r"^(?P<component>.+?) \[(?P<property>[^\]]+)\] in (?P<system>.+?)(?: by .+)?$")


def chemicals(rng: random.Random) -> Iterator[Query]:
    """CHEBI names of MeSH ids that differ from the name of MeSH or not, as a list of drugs would write them."""
    with open(TERMINOLOGIES / "mesh/gilda_mesh_mappings.tsv", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t")[:6] for line in file]
    pairs = [(mesh, other) for _, mesh, _, system, _, other in rows if system == "CHEBI" and len(other) < 40]
    for mesh, other in sorted(rng.sample(sorted(set(pairs)), 2 * _SIZE)):
        text = other
        if rng.random() < 0.3:
            text = f"{text}, {rng.choice(_WITH)}" if rng.random() < 0.5 else f"{text} and {rng.choice(_CLASSES)}"
        if rng.random() < 0.7:
            routes = ", ".join(rng.sample(_ROUTES, rng.choice((1, 1, 1, 2, 3))))
            text = rng.choice((f"{text}; {routes}", f"{text}; {routes}", f"{text} {routes}", f"{text} ({routes})"))
        yield Query(text, frozenset({f"MESH:{mesh}"}), "en")


def loinc() -> tuple[list[tuple[str, str, str]], list[Query]]:
    """English names of LOINC, and German names and short descriptions of their codes."""
    with gzip.open(TERMINOLOGIES / "loinc_en/names.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        names = {row["code"]: row["name"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    with open(TERMINOLOGIES / "loinc_de/deDE15LinguisticVariant.csv", encoding="utf-8-sig", newline="") as file:
        german = {row["LOINC_NUM"]: row["LONG_COMMON_NAME"] for row in csv.DictReader(file)}
    parts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for code, name in names.items():
        if found := _SYSTEM.match(name):
            parts[found["component"], found["system"]].add(f"LOINC:{code}")
    queries = [Query(german[code], frozenset({f"LOINC:{code}"}), "de") for code in sorted(names) if german.get(code)]
    for (component, system), codes in sorted(parts.items()):
        queries.append(Query(f"{component} in {system.split(' or ')[0]}", frozenset(codes), "en"))
    return [(f"LOINC:{code}", name, "en") for code, name in sorted(names.items())], queries


def operations() -> tuple[list[tuple[str, str, str]], list[Query]]:
    """Operations of ICD-10-PCS on parts of the body, and entries of the index that refer to them."""
    with gzip.open(TERMINOLOGIES / "icd10pcs/codes.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    of_name: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["code"][0] == "0":
            name = re.sub(r" (?:with|using) .*$", "", row["name"].split(",")[0])
            of_name[name].add(row["code"][:4])
    by_prefix: dict[str, set[str]] = defaultdict(set)
    for name, prefixes in of_name.items():
        for prefix in prefixes:
            by_prefix[prefix].add(_operation_id(name))
    dictionary = [(_operation_id(name), name, "en") for name in sorted(of_name)]
    queries = []
    with gzip.open(TERMINOLOGIES / "icd10pcs/index.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            codes = re.findall(r"\b(0[0-9A-Z]{3})[0-9A-Z]{0,3}\b", row["see"])
            right = frozenset(name for code in codes for name in by_prefix.get(code, ()))
            if right:
                queries.append(Query(row["term"], right, "en"))
    return dictionary, queries


def _operation_id(name: str) -> str:
    return "PCS:" + re.sub(r"\W+", "_", name)


def tabulate(bundle: Bundle, queries: Sequence[Query], weight: float) -> Table:
    """Gather the columns of all descriptions, which together count ``weight``."""
    index, first, parts = bundle.index, default_ranker().ranker, []
    for start in range(0, len(queries), _BATCH):
        batch = queries[start : start + _BATCH]
        texts, languages = [q.text for q in batch], [q.language for q in batch]
        found = compute_features(QueryBatch(index, bundle.encoder, texts, languages, k=POOL))
        entries = index.entries(found.name)
        ids = index.concept_ids(entries.concept)
        gold, concept = np.zeros(len(found.name), dtype=bool), np.full(len(found.name), -1)
        for position, key, concept_id in zip(entries.position.tolist(), entries.concept.tolist(), ids, strict=True):
            right = concept_id in batch[found.mention[position]].gold
            if right or concept[position] < 0:
                concept[position] = key
            gold[position] |= right
        language = np.array(languages)[found.mention]
        table = columns(found, first)
        is_part = equals_main_part(found, np.arange(len(found.name)))
        named = np.column_stack([table, found.route == 0, found.route <= 1, is_part]).astype(np.float32)
        parts.append(Table(found.mention, concept, named, gold, np.full(len(gold), weight / len(queries)), language))
    return join_tables(parts)


def loss(table: Table, rank: Floats, equal: Bools, is_part: Bools, curves: Curves, amount: float) -> float:
    """The mean loss of the scores if the best name of a description is raised where it equals the main part.

    As in the fit of the curves, descriptions also count without their right names.
    """
    starts = np.flatnonzero(np.diff(table.example, prepend=-1))
    has_gold = np.logical_or.reduceat(table.gold, starts)[table.example - table.example[0]]
    total = np.zeros(2)
    for used, share in ((np.ones(len(rank), dtype=bool), 1.0), (~table.gold & has_gold, NIL_SHARE)):
        at, moved = np.flatnonzero(used), rank[used]
        best = best_names(table.example[at], moved, equal[at])
        moved[best] += amount * is_part[at[best]]
        margin = compute_margins(table.example[at], moved, table.concept[at])[best]
        best_at = at[best]
        score = curves.score(moved[best], margin, equal[best_at], table.language[best_at].tolist())
        right = np.where(table.gold[best_at], score, 1 - score)
        weight = share * table.weight[best_at]
        total += -weight @ np.log(np.maximum(right, 1e-9)), weight.sum()
    return float(total[0] / total[1])


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path))
@click.option("--seed", default=1, show_default=True)
@click.option("--decay", default=0.03, show_default=True, help="Chosen on the development lists.")
def main(work: Path, out: Path, seed: int, decay: float) -> None:
    """Build the bundle, gather the columns, fit, write."""
    rng = random.Random(seed)
    work.mkdir(parents=True, exist_ok=True)
    laboratory, of_laboratory = loinc()
    surgery, of_surgery = operations()
    drugs = list(chemicals(rng))
    hidden = {(next(iter(q.gold)), normalise(re.split(r"[;,(]| and ", q.text)[0])) for q in drugs}
    mesh = mesh_dictionary()
    labels = {c: n for c, n, _ in reversed(mesh)}
    shown = [row for row in mesh if (row[0], normalise(row[1])) not in hidden or labels[row[0]] == row[1]]
    dictionary = [*shown, *laboratory, *surgery]
    folder = work / "bundle"
    if not folder.exists():
        table = write_dictionary(dictionary, work / "names.tsv")
        build_kb(work / "names.sqlite", [Input("table", table)])
        build_bundle(folder, kb=work / "names.sqlite")
    bundle = Bundle(folder)
    kinds = {
        "drugs": (drugs, 1.0),
        "diseases": (in_dictionary(ncbi("train") + bc5cdr("Training"), mesh), 1.0),
        "chemicals": (in_dictionary(bc5cdr("Training", ("Chemical",)), mesh), 0.3),
        "laboratory": (of_laboratory, 1.0),
        "surgery": (of_surgery, 0.1),
    }
    tables = []
    for name, (queries, weight) in kinds.items():
        distinct = sorted({(q.text, q.language, q.gold) for q in queries}, key=lambda q: (q[0], q[1], sorted(q[2])))
        chosen = rng.sample(distinct, min(_SIZE, len(distinct)))
        tables.append(tabulate(bundle, [Query(text, gold, language) for text, language, gold in chosen], weight))
        found = np.logical_or.reduceat(tables[-1].gold, np.flatnonzero(np.diff(tables[-1].example, prepend=-1)))
        click.echo(f"{name}: {len(chosen)} descriptions, {found.mean():.3f} among the candidates", err=True)
    table = join_tables(tables)
    np.savez(work / "table.npz", **{name: getattr(table, name) for name in Table.__dataclass_fields__})
    exact, named, is_part = (table.features[:, at] > 0 for at in (-3, -2, -1))
    table = Table(table.example, table.concept, table.features[:, :-3], table.gold, table.weight, table.language)
    # lists differ, so what the training descriptions do not decide stays as the ranker of mentions has it
    center = np.array([float(name == "rank") for name in FEATURES])
    weights = ranking_weights(table, decay, center=center)
    rank = table.features.astype(np.float64) @ weights
    curves = fit_curves(table, rank, exact, named)
    losses = {amount: loss(table, rank, named, is_part, curves, amount) for amount in _RAISES}
    amount = min(losses, key=lambda one: losses[one])
    click.echo(f"losses of a name that equals the main part, raised: {losses}", err=True)
    fitted = FittedRanker(LinearRanker(tuple(round(float(value), 4) for value in weights)), curves)
    content = {**fitted.to_dict(FEATURES), "main_part": amount}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    click.echo(json.dumps(content))


if __name__ == "__main__":
    main()
