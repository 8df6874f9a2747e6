"""Development accuracy: exact match, character TF-IDF, the encoder alone, and the joined ranking.

    python benchmarks/accuracy.py --work FOLDER [--encoder builtin]

Acc@1 over all mentions whose concept is in the dictionary; in brackets over distinct mentions. Needs the data folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from open_data import (
    DictionaryRow,
    Query,
    bc5cdr,
    distemist,
    german_terms,
    hpo_dictionary,
    in_dictionary,
    mesh_dictionary,
    ncbi,
    write_dictionary,
)

from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker, Mention

Ranker = Callable[[list[Query]], list[str]]


def tfidf(dictionary: list[DictionaryRow]) -> Ranker:
    """Exact character TF-IDF (scikit-learn, char_wb 2 to 4), the lexical bar."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32)
    names = vectoriser.fit_transform([name for _, name, _ in dictionary]).T.tocsr()

    def rank(queries: list[Query]) -> list[str]:
        found: list[str] = []
        asked = vectoriser.transform([query.text for query in queries])
        for start in range(0, len(queries), 256):
            best = np.asarray((asked[start : start + 256] @ names).argmax(axis=1)).ravel()
            found += [dictionary[i][0] for i in best]
        return found

    return rank


def exact(linker: Linker) -> Ranker:
    """The first concept, by id, with a name of the same exact form."""

    def rank(queries: list[Query]) -> list[str]:
        return [min((n.concept_id for n in linker.kb.lookup(q.text, q.language)), default="") for q in queries]

    return rank


def dense(linker: Linker) -> Ranker:
    """The concept of the nearest name by embedding, exact search."""
    index = linker.index
    names = index.keys()
    vectors = index.vectors(names)

    def rank(queries: list[Query]) -> list[str]:
        asked = linker.bundle.encoder.encode([query.text for query in queries])
        best = np.concatenate([(asked[i : i + 256] @ vectors.T).argmax(axis=1) for i in range(0, len(asked), 256)])
        return [min(entry.concept_id for entry in index.entries_of(name)) for name in names[best].tolist()]

    return rank


def joined(linker: Linker) -> Ranker:
    """What ``Linker.link`` puts first."""

    def rank(queries: list[Query]) -> list[str]:
        links = linker.link([Mention(query.text, query.language) for query in queries], k=1)
        return [link.candidates[0].concept_id if link.candidates else "" for link in links]

    return rank


def accuracy(queries: list[Query], rank: Ranker) -> tuple[float, float]:
    """Acc@1 over all mentions and over distinct ones."""
    right = [concept in query.gold for query, concept in zip(queries, rank(queries), strict=True)]
    distinct = {(query.text, query.gold): hit for query, hit in zip(queries, right, strict=True)}
    return sum(right) / len(right), sum(distinct.values()) / len(distinct)


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundles.")
@click.option("--encoder", default="builtin", show_default=True)
def main(work: Path, encoder: str) -> None:
    """Print the table."""
    work.mkdir(parents=True, exist_ok=True)
    hpo, mesh = hpo_dictionary(), mesh_dictionary()
    phrases = german_terms()
    click.echo("| set | language | names | mentions | exact | TF-IDF | dense | joined |")
    click.echo("|---|---|---:|---:|---:|---:|---:|---:|")
    linkers: dict[str, Linker] = {}
    for title, name, dictionary, queries in (
        ("distemist to HPO", "hpo", hpo, distemist()),
        ("german_terms to HPO, 70 single terms", "hpo", hpo, [q for q in phrases if len(q.gold) == 1]),
        ("german_terms to HPO, all", "hpo", hpo, phrases),
        ("NCBI-disease dev to MeSH", "mesh", mesh, ncbi("develop")),
        ("BC5CDR disease dev to MeSH", "mesh", mesh, bc5cdr("Development")),
    ):
        if name not in linkers:
            table = write_dictionary(dictionary, work / f"{name}.tsv")
            build_kb(work / f"{name}.sqlite", [Input("table", table)])
            linkers[name] = Linker(build_bundle(work / name, kb=work / f"{name}.sqlite", encoder=encoder))
        linker = linkers[name]
        asked = in_dictionary(queries, dictionary)
        cells = [accuracy(asked, rank) for rank in (exact(linker), tfidf(dictionary), dense(linker), joined(linker))]
        shown = " | ".join(f"{all_:.3f} ({distinct:.3f})" for all_, distinct in cells)
        click.echo(f"| {title} | {asked[0].language} | {len(dictionary):,} | {len(asked)} | {shown} |")


if __name__ == "__main__":
    main()
