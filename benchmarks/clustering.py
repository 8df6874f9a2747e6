"""Term clustering on the open names: against its rivals, known or new, and what each guard separates.

    python benchmarks/clustering.py split NAMES training.tsv        names of the concepts an encoder may be trained on
    python benchmarks/clustering.py rivals NAMES --encoder FOLDER   F1 of all rivals on concepts held out
    python benchmarks/clustering.py known NAMES --work FOLDER --encoder FOLDER
    python benchmarks/clustering.py guards NAMES --encoder FOLDER   what each guard separates, on development concepts
    python benchmarks/clustering.py ordo                            F1 on the English names of 1,500 concepts of ORDO

NAMES is what ``open_names.py`` writes. One concept in ten, by a hash of its id, is for the tables (``--part test``),
one in ten for choosing thresholds (``--part development``), the others for training. Rivals get the threshold that
suits them best on the very terms of the table; ``medlink cluster`` keeps its own.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from open_data import TERMINOLOGIES, hpo_dictionary, ordo_dictionary

from medlink.clustering import TermClusterer, Terms
from medlink.clustering.cut import average_cut, components
from medlink.clustering.evidence import crowding
from medlink.clustering.graph import near_pairs
from medlink.clustering.guards import COMPARED, Guards
from medlink.evaluation.partition import PartitionMeasures, measure_partition
from medlink.index import build_bundle
from medlink.index.selfjoin import nearest
from medlink.kb import Input, build_kb
from medlink.language.guard_words import NEGATION
from medlink.language.text import is_short
from medlink.linking import Linker
from medlink.models import Encoder, load_encoder

Row = tuple[str, str, str]  # term, language, concept
PARTS = {"test": 0, "development": 1}
_K = 30
_ORDO = 1_500


def part_of(concept: str) -> str:
    """Which part a concept is for."""
    place = zlib.crc32(f"held-out {concept}".encode()) % 10
    return {number: part for part, number in PARTS.items()}.get(place, "training")


def names_of(path: Path, part: str) -> dict[str, list[Row]]:
    """Names of the concepts of a part, by concept."""
    found: dict[str, list[Row]] = defaultdict(list)
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if part_of(row["concept_id"]) == part:
                found[row["concept_id"]].append((row["name"], row["language"], row["concept_id"]))
    return found


def sample(path: Path, part: str, count: int, seed: int) -> list[Row]:
    """Whole concepts, taken at random until there are so many names; a name of several concepts keeps the first."""
    names = names_of(path, part)
    order = sorted(names)
    random.Random(seed).shuffle(order)
    rows: dict[str, Row] = {}
    for concept in order:
        if len(rows) >= count:
            break
        for row in names[concept]:
            rows.setdefault(row[0], row)
    return list(rows.values())


def ordo_names(*, whole: bool = False) -> list[Row]:
    """English names of 1,500 concepts of ORDO drawn at random, or of all; a name of several is left out."""
    names: dict[str, list[str]] = defaultdict(list)
    for concept, name, _ in ordo_dictionary():
        names[concept].append(name)
    drawn = sorted(names) if whole else random.Random(7).sample(sorted(names), _ORDO)
    concepts: dict[str, set[str]] = defaultdict(set)
    for concept in drawn:
        for name in names[concept]:
            concepts[name].add(concept)
    return [(name, "en", *of) for name, of in sorted(concepts.items()) if len(of) == 1]


def measure(labels: Iterable[object], rows: list[Row]) -> PartitionMeasures:
    """Measures of one cluster label per row."""
    return measure_partition([str(label) for label in labels], [row[2] for row in rows], [row[1] for row in rows])


def clustered(rows: list[Row], encoder: Encoder, *, languages: bool) -> list[int]:
    """What ``medlink cluster`` gives: the cluster of each row."""
    terms = Terms.of((text, 1, language if languages else "", "") for text, language, _ in rows)
    found = TermClusterer(encoder).cluster(terms)
    place = {member.term: cluster.number for cluster in found.clusters for member in cluster.members}
    return [place[text] for text, _, _ in rows]


Cutter = Callable[[float], NDArray[np.int64]]


def connected(rows: NDArray[np.int64], cosines: NDArray[np.float32]) -> Cutter:
    """Connected components of the pairs above a cosine."""
    ends, place = np.nonzero(rows >= 0)
    far, cosine = rows[ends, place], cosines[ends, place]
    return lambda at: components(len(rows), ends[cosine >= at], far[cosine >= at])


def agglomerative(vectors: NDArray[np.float32]) -> Cutter:
    """Average linkage of scikit-learn, computed once and cut anywhere."""
    from scipy.cluster.hierarchy import fcluster
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(n_clusters=None, distance_threshold=0, metric="cosine", linkage="average")
    model.fit(vectors)
    tree = np.column_stack([model.children_, model.distances_, np.zeros(len(model.children_))]).astype(np.float64)
    return lambda at: fcluster(tree, 1 - at, "distance")


def hdbscan(vectors: NDArray[np.float32]) -> Cutter:
    """HDBSCAN of scikit-learn; what it calls noise stands alone."""
    from sklearn.cluster import HDBSCAN

    def cut(at: float) -> NDArray[np.int64]:
        epsilon = float(np.sqrt(2 - 2 * at))
        model = HDBSCAN(
            min_cluster_size=2,
            min_samples=1,
            cluster_selection_epsilon=epsilon,
            cluster_selection_method="leaf",
            copy=True,
        )
        labels = model.fit_predict(vectors).astype(np.int64)
        return np.where(labels < 0, len(labels) + np.arange(len(labels)), labels)

    return cut


def tfidf(rows: list[Row]) -> Cutter:
    """Character TF-IDF (char_wb 2 to 4) with the guards and the cut of ``medlink cluster``."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32)
    table = vectoriser.fit_transform([row[0] for row in rows])
    near = np.full((len(rows), _K), -1, dtype=np.int64)
    cosines = np.full((len(rows), _K), -1, dtype=np.float32)
    for start in range(0, len(rows), 512):
        part = (table[start : start + 512] @ table.T).toarray()
        part[np.arange(len(part)), start + np.arange(len(part))] = -1
        best = np.argsort(-part, axis=1, kind="stable")[:, :_K]
        near[start : start + 512], cosines[start : start + 512] = best, np.take_along_axis(part, best, 1)
    guards = Guards([row[0] for row in rows], [row[1] for row in rows])

    one, other, cosine = near_pairs(near, cosines)
    around = crowding(cosines)
    likeness = cosine - 0.2 * (around[one] + around[other] - 0.9)
    apart = guards.apart(one, other) > 0

    def cut(at: float) -> NDArray[np.int64]:
        # a steep curve around the threshold: a cosine alone is all the evidence there is
        weight = 1 / (1 + np.exp(np.clip((at - likeness) / 0.01, -50, 50)))
        return average_cut(len(rows), one, other, np.where(apart, -0.5, weight), 0.12)

    return cut


def best_cut(cut: Cutter, places: Iterable[float], rows: list[Row]) -> tuple[float, PartitionMeasures]:
    """The place with the best pairwise F1."""
    found = [(at, measure(cut(at).tolist(), rows)) for at in places]
    return max(found, key=lambda one: (one[1].pair_f1, -one[0]))


@click.group()
def main() -> None:
    """Tables of term clustering on the open names."""


_NAMES = click.argument("names", type=click.Path(exists=True, path_type=Path))
_ENCODER = click.option("--encoder", default="builtin", show_default=True)
_PART = click.option("--part", default="test", show_default=True, type=click.Choice(sorted(PARTS)))
_SEED = click.option("--seed", default=1, show_default=True)


@main.command()
@_NAMES
@click.argument("out", type=click.Path(path_type=Path))
def split(names: Path, out: Path) -> None:
    """Write the names that an encoder may be trained on."""
    with open(names, encoding="utf-8") as file, open(out, "w", encoding="utf-8") as kept:
        kept.write(next(file))
        kept.writelines(line for line in file if part_of(line.partition("\t")[0]) == "training")


@main.command()
@_NAMES
@_ENCODER
@_PART
@_SEED
@click.option("--terms", multiple=True, default=(5000, 20000), show_default=True, type=int)
def rivals(names: Path, encoder: str, part: str, seed: int, terms: tuple[int, ...]) -> None:
    """Print the table of rivals."""
    used = load_encoder(encoder)
    click.echo("| terms | clustering | threshold | pair P | pair R | pair F1 | B-cubed F1 | cross-lingual recall |")
    click.echo("|---:|---|---:|---:|---:|---:|---:|---:|")
    for count in terms:
        rows = sample(names, part, count, seed)

        def show(title: str, at: str, found: PartitionMeasures, count: int = len(rows)) -> None:
            cross = "" if found.cross_lingual_recall is None else f"{found.cross_lingual_recall:.3f}"
            click.echo(
                f"| {count:,} | {title} | {at} | {found.pair_precision:.3f} | {found.pair_recall:.3f} | "
                f"{found.pair_f1:.3f} | {found.bcubed_f1:.3f} | {cross} |"
            )

        show("`medlink cluster`", "default", measure(clustered(rows, used, languages=True), rows))
        show("`medlink cluster`, no languages given", "default", measure(clustered(rows, used, languages=False), rows))
        vectors = used.encode([row[0] for row in rows])
        near, cosines = nearest(vectors, _K)
        wide, narrow = np.arange(0.5, 0.95, 0.02).round(2), (0.7, 0.8, 0.86, 0.92)
        for title, cut, places in (
            ("connected components", connected(near, cosines), wide),
            ("agglomerative, average linkage (scikit-learn)", agglomerative(vectors), wide),
            ("character TF-IDF, same cut", tfidf(rows), wide),
            ("HDBSCAN (scikit-learn)", hdbscan(vectors), narrow),
        ):
            at, found = best_cut(cut, places, rows)
            show(title, f"{at:.2f}", found)


def is_code(text: str) -> bool:
    """Whether a name is an abbreviation, a symbol of a gene or the like, whose words say nothing."""
    return is_short(text) or (len(text) < 10 and (text.isupper() or any(letter.isdigit() for letter in text)))


@main.command()
@_ENCODER
def ordo(encoder: str) -> None:
    """Print the table of the 1,500 concepts of ORDO: all names, and those that are no abbreviation or code."""
    rows = ordo_names()
    labels = clustered(rows, load_encoder(encoder), languages=True)
    kept = [place for place, row in enumerate(rows) if not is_code(row[0])]
    concepts: dict[str, list[bool]] = defaultdict(list)
    for text, _, concept in rows:
        concepts[concept].append(is_code(text))
    pairs = sum(len(codes) * (len(codes) - 1) // 2 for codes in concepts.values())
    plain = sum(codes.count(False) * (codes.count(False) - 1) // 2 for codes in concepts.values())
    click.echo("| names | terms | pairs of one concept | pair P | pair R | pair F1 | B-cubed F1 |")
    click.echo("|---|---:|---:|---:|---:|---:|---:|")
    for title, places, count in (("all", range(len(rows)), pairs), ("without codes", kept, plain)):
        found = measure([labels[place] for place in places], [rows[place] for place in places])
        click.echo(
            f"| {title} | {len(places):,} | {count:,} | {found.pair_precision:.3f} | {found.pair_recall:.3f} | "
            f"{found.pair_f1:.3f} | {found.bcubed_f1:.3f} |"
        )


@main.command()
@_NAMES
@_ENCODER
@_SEED
@click.option("--terms", default=20000, show_default=True)
def guards(names: Path, encoder: str, seed: int, terms: int) -> None:
    """Print what each guard separates on development concepts: pairs of one concept, and near pairs of two."""
    rows = sample(names, "development", terms, seed)
    texts = [row[0] for row in rows]
    near, cosines = nearest(load_encoder(encoder).encode(texts), _K)
    ends, place = np.nonzero((near >= 0) & (cosines >= 0.6))
    pairs = np.unique(np.sort(np.column_stack([ends, near[ends, place]]), axis=1), axis=0)
    concept = np.unique([row[2] for row in rows], return_inverse=True)[1]
    same = concept[pairs[:, 0]] == concept[pairs[:, 1]]
    click.echo(f"{same.sum():,} near pairs of one concept, {(~same).sum():,} of two, cosine 0.6 and above\n")
    click.echo("| guard | compared by | pairs of one concept | pairs of two concepts |")
    click.echo("|---|---|---:|---:|")
    compared = Guards(texts, [row[1] for row in rows])
    for kind in (*COMPARED, NEGATION):
        hit = compared.parted_by(kind, pairs[:, 0], pairs[:, 1])
        way = COMPARED.get(kind, "words")
        click.echo(f"| {kind} | {way} | {100 * hit[same].mean():.2f} % | {100 * hit[~same].mean():.2f} % |")


def hpo_parents() -> dict[str, list[str]]:
    """Parents of each HPO concept."""
    with gzip.open(TERMINOLOGIES / "hpo/hp.v2024-08-13.json.gz", "rt", encoding="utf-8") as file:
        edges = json.load(file)["graphs"][0]["edges"]
    found: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        if edge["pred"] == "is_a":
            head, tail = (edge[end].rsplit("/", 1)[-1].replace("_", ":") for end in ("sub", "obj"))
            found[head].append(tail)
    return found


def above(concept: str, kept: set[str], parents: dict[str, list[str]]) -> list[str]:
    """Nearest ancestors that were not taken out."""
    found: list[str] = []
    queue = list(parents.get(concept, []))
    while queue:
        one = queue.pop(0)
        if one in kept:
            found.append(one)
        else:
            queue += parents.get(one, [])
    return sorted(set(found))


def _coin(text: str) -> bool:
    """Heads or tails, by a hash that knows nothing of the one that parts the concepts (a CRC of the same id would)."""
    return bool(blake2b(text.encode(), digest_size=1).digest()[0] & 1)


def half_bundle(work: Path, encoder: str, held: set[str]) -> tuple[Linker, set[str], set[tuple[str, str]]]:
    """A bundle of HPO without half of the held-out concepts and without every second name of the other half.

    Returns its linker, the concepts that are in it, and the names that are.
    """
    parents = hpo_parents()
    rows = hpo_dictionary()
    kept = {c for c, _, _ in rows if c not in held or _coin(f"known {c}")}
    inside = [(c, n, la) for c, n, la in rows if c in kept and (c not in held or zlib.crc32(f"name {n}".encode()) % 2)]
    kept &= {c for c, _, _ in inside}
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "half.tsv", "w", encoding="utf-8") as file:
        file.write("concept_id\tname\tlanguage\tparent\n")
        file.writelines(f"{c}\t{n}\t{la}\t{'|'.join(above(c, kept, parents))}\n" for c, n, la in inside)
    build_kb(work / "half.sqlite", [Input("table", work / "half.tsv")])
    linker = Linker(build_bundle(work / "half", kb=work / "half.sqlite", encoder=encoder))
    return linker, kept, {(c, n) for c, n, _ in inside}


def listed(names: Path, part: str, without: set[tuple[str, str]]) -> Iterator[Row]:
    """Names of held-out HPO concepts, without those named (concept and name)."""
    for concept, rows in sorted(names_of(names, part).items()):
        if concept.startswith("HP:"):
            yield from (row for row in rows if (concept, row[0]) not in without)


@main.command()
@_NAMES
@_ENCODER
@_PART
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("--all-names", is_flag=True, help="The list has the names of the bundle too, as a list from notes has.")
def known(names: Path, encoder: str, part: str, work: Path, all_names: bool) -> None:
    """Print precision and recall of NEW, accuracy of the known, and how often the parent is right."""
    held = {concept for concept in names_of(names, part) if concept.startswith("HP:")}
    linker, kept, inside = half_bundle(work, encoder, held)
    rows = {row[0]: row for row in listed(names, part, set() if all_names else inside)}
    parents = hpo_parents()

    def named(concept: str) -> list[tuple[str, str]]:
        return [(parent, parent) for parent in linker.kb.parents(concept)]

    terms = Terms.of((text, 1, language, "") for text, language, _ in rows.values())
    click.echo(
        "| known at | clusters | NEW: precision | NEW: recall | known: right | "
        "parent proposed | parent or grandparent | parent |"
    )
    click.echo("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for known_at in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6):
        found = TermClusterer(load_encoder(encoder), linker=linker, parents=named, known_at=known_at).cluster(terms)
        counts: Counter[str] = Counter()
        for cluster in found.clusters:
            golds = Counter(rows[member.term][2] for member in cluster.members)
            gold = min(golds, key=lambda one: (-golds[one], one))
            new, said_new = gold not in kept, cluster.concept_id is None
            counts["new"] += new
            counts["said new"] += said_new
            counts["both"] += new and said_new
            counts["known"] += not new
            counts["right"] += cluster.concept_id == gold
            if new and said_new and cluster.parent_id is not None:
                first = above(gold, kept, parents)
                second = {two for one in first for two in above(one, kept, parents)}
                counts["placed"] += 1
                counts["parent"] += cluster.parent_id in first
                counts["near"] += cluster.parent_id in {*first, *second}
        shares = (
            ("both", "said new"),
            ("both", "new"),
            ("right", "known"),
            ("placed", "both"),
            ("near", "placed"),
            ("parent", "placed"),
        )
        # no parent is proposed for a score below 0.3, so none where --known-at is as low
        cells = (f"{counts[part] / counts[whole]:.3f}" if counts[whole] else "" for part, whole in shares)
        click.echo(f"| {known_at} | {len(found.clusters)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
