"""Term clustering on the open names: against its rivals, known or new, and what each guard separates.

    python benchmarks/clustering.py split NAMES training.tsv        names of the concepts an encoder may be trained on
    python benchmarks/clustering.py lists                           lists that people wrote, beside rivals
    python benchmarks/clustering.py narrower NAMES                  how many of *narrower than* are right
    python benchmarks/clustering.py known NAMES --work FOLDER --encoder FOLDER
    python benchmarks/clustering.py guards NAMES --encoder FOLDER   what each guard separates, on development concepts
    python benchmarks/clustering.py ordo                            F1 on the English names of 1,500 concepts of ORDO

NAMES is what ``open_names.py`` writes. One concept in ten, by a hash of its id, is for the tables (``--part test``),
one in ten for development (``--part development``), the others for training. Rivals get the threshold that suits them
best on the very terms of the table; ``medlink cluster`` keeps its own.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from open_data import TERMINOLOGIES, hpo_dictionary, ordo_dictionary

from medlink.clustering import TermClusterer, Terms
from medlink.clustering.guards import COMPARED, KINDS, Guards
from medlink.evaluation.clusters import PartitionMeasures, best_average_linkage, equal_letters, measure_partition
from medlink.index import build_bundle
from medlink.index.knn_graph import nearest
from medlink.kb import Input, build_kb
from medlink.language.guard_words import NEGATION
from medlink.language.text import is_short
from medlink.linking import Linker
from medlink.models import Encoder, load_encoder

Row = tuple[str, str, str]  # term, language, concept
PARTS = {"test": 0, "development": 1}
_K = 30
_ORDO = 1_500
_DRAWS = 3  # lists of each ontology


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


def clustered(rows: list[Row], encoder: Encoder, *, languages: bool, **options: float) -> list[int]:
    """What ``medlink cluster`` gives: the cluster of each row."""
    terms = Terms.from_rows((text, 1, language if languages else "", "") for text, language, _ in rows)
    found = TermClusterer(encoder, **options).cluster(terms)
    place = {member.term: cluster.number for cluster in found.clusters for member in cluster.members}
    return [place[text] for text, _, _ in rows]


def tfidf(texts: list[str]) -> NDArray[np.float32]:
    """Character TF-IDF of length 1 (char_wb, three letters)."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32)
    return np.asarray(vectoriser.fit_transform(texts).toarray())


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
@click.option("--threshold", multiple=True, type=float, default=(0.4, 0.5), show_default=True)
def lists(threshold: tuple[float, ...]) -> None:
    """Print the table of what people wrote, beside its rivals; no weight was fitted on these lists."""
    from cluster_lists import written_by_people

    encoder = load_encoder()
    click.echo("| list | terms, concepts | clustering | pair P | pair R | pair F1 | B-cubed F1 | mixed |")
    click.echo("|---|---:|---|---:|---:|---:|---:|---:|")
    means: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for name, (rows, _) in written_by_people("report").items():
        texts, concepts = [row[0] for row in rows], [row[2] for row in rows]
        found = {
            f"medlink, {at}": measure(clustered(rows, encoder, languages=False, threshold=at), rows) for at in threshold
        }
        found |= {
            "its encoder, average linkage, best cut": best_average_linkage(encoder.encode(texts), concepts),
            "character TF-IDF, average linkage, best cut": best_average_linkage(tfidf(texts), concepts),
            "same letters": measure_partition(equal_letters(texts), concepts),
        }
        size = f"{len(rows):,}, {len({row[2] for row in rows}):,}"
        for title, one in found.items():
            values = (one.pair_precision, one.pair_recall, one.pair_f1, one.bcubed_f1, one.mixed)
            means[title].append(values)
            click.echo(f"| {name} | {size} | {title} | {' | '.join(f'{value:.3f}' for value in values)} |")
    for title, of in means.items():
        # the first four are those of the same lists in earlier tables
        values = tuple(np.mean(of[:4], axis=0).tolist())
        click.echo(f"| mean of the first four | | {title} | {' | '.join(f'{value:.3f}' for value in values)} |")


@main.command()
@click.argument("met", type=click.Path(exists=True))
@_SEED
def narrower(met: str, seed: int) -> None:
    """Print how many clusters are marked as narrower than another one, and how many of them are, on concepts held out.

    MET holds the names that no list prefers, as those on which the weights were fitted.
    """
    from cluster_lists import ONTOLOGIES, made, names_met

    encoder, never, rng = load_encoder(), names_met(met), random.Random(seed)
    click.echo("| ontology | terms | clusters | narrower than another one | right |")
    click.echo("|---|---:|---:|---:|---:|")
    for name in ONTOLOGIES:
        counts: Counter[str] = Counter()
        for _ in range(_DRAWS):
            rows, broader = made(name, never, rng, size=3_000, lonely=0.6, held=True)
            concept = {text: of for text, _, of in rows}
            terms = Terms.from_rows((text, 1, language, "") for text, language, _ in rows)
            found = TermClusterer(encoder).cluster(terms).clusters
            marked = [one.broader for one in found if one.broader]
            right = sum(concept[one.term] in broader.get(concept[one.member], ()) for one in marked)
            counts.update(terms=len(rows), clusters=len(found), marked=len(marked), right=right)
        share = counts["right"] / max(counts["marked"], 1)
        sizes = " | ".join(f"{counts[key]:,}" for key in ("terms", "clusters", "marked"))
        click.echo(f"| {name} | {sizes} | {share:.3f} |")


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
    separated = compared.kinds(pairs[:, 0], pairs[:, 1])
    for kind in (*COMPARED, NEGATION):
        hit = separated[:, KINDS.index(kind)]
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

    terms = Terms.from_rows((text, 1, language, "") for text, language, _ in rows.values())
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
            new, predicted_new = gold not in kept, cluster.concept_id is None
            counts["new"] += new
            counts["predicted new"] += predicted_new
            counts["both"] += new and predicted_new
            counts["known"] += not new
            counts["right"] += cluster.concept_id == gold
            if new and predicted_new and cluster.parent_id is not None:
                first = above(gold, kept, parents)
                second = {two for one in first for two in above(one, kept, parents)}
                counts["placed"] += 1
                counts["parent"] += cluster.parent_id in first
                counts["near"] += cluster.parent_id in {*first, *second}
        shares = (
            ("both", "predicted new"),
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
