"""Development accuracy: exact match, character TF-IDF, the encoder alone, and the joined ranking.

    python benchmarks/accuracy.py --work FOLDER [--encoder builtin] [--only german_terms]
    python benchmarks/accuracy.py --work FOLDER --scores [--diagram docs/pictures/reliability.svg]
    python benchmarks/accuracy.py --dense-only --encoder FOLDER

Acc@1 and Acc@5 over all mentions whose concept is in the dictionary; in brackets over distinct mentions. ``--scores``
measures the scores instead, over distinct mentions; ``--diagram`` draws them against the share of right links, by
language. ``--dense-only`` builds no bundle and measures the encoder alone. Needs the data folder.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from open_data import (
    DictionaryRow,
    Query,
    alpha_id_held_out,
    bc5cdr,
    distemist,
    german_terms,
    hpo_dictionary,
    in_dictionary,
    mesh_dictionary,
    ncbi,
    notes_gold,
    ordo_dictionary,
    write_dictionary,
)
from reliability_diagram import bins, draw

from medlink.evaluation.measures import calibration_error
from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker, Mention
from medlink.models import load_encoder
from medlink.records import LINKED, Link

PRECISION = 0.95
LANGUAGES = {"de": "German", "es": "Spanish", "en": "English"}
Ranked = list[list[str]]  # for each query the ids of concepts, best first

_BATCH = 256
_NEAR = 100  # nearest names among which five concepts are looked for

DICTIONARIES = {"hpo": hpo_dictionary, "ordo": ordo_dictionary, "mesh": mesh_dictionary}
SETS: dict[str, tuple[str, Callable[[], list[Query]]]] = {
    "distemist to HPO": ("hpo", distemist),
    "german_terms to HPO": ("hpo", german_terms),
    "mentions of 12 letters, German, to HPO": ("hpo", lambda: notes_gold("de")),
    "mentions of 12 cases, Spanish, to HPO": ("hpo", lambda: notes_gold("es")),
    "mentions of 12 notes, English, to HPO": ("hpo", lambda: notes_gold("en")),
    "Alpha-ID held out, one ORPHA code in twenty, to English ORDO names": ("ordo", alpha_id_held_out),
    "NCBI-disease dev to MeSH": ("mesh", lambda: ncbi("develop")),
    "NCBI-disease dev, abbreviations expanded": ("mesh", lambda: ncbi("develop", expand=True)),
    "BC5CDR disease dev to MeSH": ("mesh", lambda: bc5cdr("Development")),
    "BC5CDR disease dev, abbreviations expanded": ("mesh", lambda: bc5cdr("Development", expand=True)),
}
"""Dictionary and mentions of each set."""


class Dictionary:
    """The names of a terminology, and what finds mentions in them; each costly part is made when first asked for.

    Args:
        name: its key in ``DICTIONARIES``.
        encoder: name or folder of an encoder.
        work: folder of its bundle.
    """

    def __init__(self, name: str, encoder: str, work: Path | None) -> None:
        self.rows: list[DictionaryRow] = DICTIONARIES[name]()
        self._encoder, self._bundle = encoder, work and work / name
        concepts = defaultdict(set)
        for concept, text, _ in self.rows:
            concepts[text].add(concept)
        self.names = list(concepts)
        self._concepts = [sorted(ids) for ids in concepts.values()]

    @cached_property
    def linker(self) -> Linker:
        """A linker with a bundle of these names."""
        assert self._bundle is not None
        self._bundle.parent.mkdir(parents=True, exist_ok=True)
        table = write_dictionary(self.rows, self._bundle.with_suffix(".tsv"))
        build_kb(self._bundle.with_suffix(".sqlite"), [Input("table", table)])
        return Linker(build_bundle(self._bundle, kb=self._bundle.with_suffix(".sqlite"), encoder=self._encoder))

    @cached_property
    def _lexical(self) -> tuple[Any, Any]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32)
        return vectoriser, vectoriser.fit_transform(self.names).T.tocsr()

    @cached_property
    def _embedded(self) -> tuple[Any, NDArray[np.float32]]:
        encoder = load_encoder(self._encoder)
        return encoder, encoder.encode(self.names)

    def exact(self, queries: Sequence[Query]) -> Ranked:
        """The concepts, by id, with a name of the same exact form in any language."""
        return [sorted({name.concept_id for name in self.linker.kb.lookup(q.search_text)}) for q in queries]

    def tfidf(self, queries: Sequence[Query]) -> Ranked:
        """Exact character TF-IDF (scikit-learn, char_wb 2 to 4), the lexical bar."""
        vectoriser, names = self._lexical
        vectors, found = vectoriser.transform([query.search_text for query in queries]), []
        for start in range(0, len(queries), _BATCH):
            best = np.asarray((vectors[start : start + _BATCH] @ names).argmax(axis=1)).ravel()
            found += [self._concepts[i] for i in best]
        return found

    def dense(self, queries: Sequence[Query]) -> Ranked:
        """The concepts of the nearest names by embedding, exact search."""
        encoder, names = self._embedded
        vectors, found = encoder.encode([query.search_text for query in queries]), []
        for start in range(0, len(queries), _BATCH):
            for cosines in vectors[start : start + _BATCH] @ names.T:
                near = np.argpartition(-cosines, min(_NEAR, len(cosines) - 1))[:_NEAR]
                near = near[np.lexsort((near, -cosines[near]))]
                found.append(list(dict.fromkeys(concept for i in near for concept in self._concepts[i])))
        return found

    def links(self, queries: Sequence[Query]) -> list[Link]:
        """What ``Linker.link`` makes of them."""
        return self.linker.link([Mention(query.text, query.language, query.expanded) for query in queries], k=5)

    def joined(self, queries: Sequence[Query]) -> Ranked:
        """What ``Linker.link`` puts first."""
        return [[candidate.concept_id for candidate in link.candidates] for link in self.links(queries)]


def share_at_precision(scores: NDArray[np.float64], right: NDArray[np.bool_], precision: float = PRECISION) -> float:
    """The largest share of n items that a threshold takes with a precision, 0 where no threshold has it."""
    order = np.argsort(-scores, kind="stable")
    linked = np.arange(1, len(scores) + 1)
    good = np.cumsum(right[order]) / linked >= precision
    # a threshold takes all items of one score
    good &= np.append(np.diff(scores[order]) != 0, True)
    return float(linked[good].max(initial=0) / len(scores))


def accuracy(queries: Sequence[Query], times: Sequence[int], ranked: Ranked, k: int) -> str:
    """Acc@k over all mentions, in brackets over distinct ones."""
    hit = [not query.gold.isdisjoint(found[:k]) for query, found in zip(queries, ranked, strict=True)]
    return f"{np.average(hit, weights=times):.3f} ({np.mean(hit):.3f})"


class Scores(NamedTuple):
    """The score of the best candidate of each of n mentions, whether it is right, and whether it is linked."""

    score: NDArray[np.float64]
    right: NDArray[np.bool_]
    linked: NDArray[np.bool_]


def best_scores(queries: Sequence[Query], links: Sequence[Link]) -> Scores:
    """The scores of the best candidates; a mention without candidates has the score 0 and is wrong."""
    best = [
        (link.candidates[0].score, link.candidates[0].concept_id) if link.candidates else (0.0, "") for link in links
    ]
    return Scores(
        np.array([score for score, _ in best]),
        np.array([concept in query.gold for query, (_, concept) in zip(queries, best, strict=True)]),
        np.array([link.status == LINKED for link in links]),
    )


def score_cells(found: Scores) -> list[str]:
    """Calibration error, share linked and precision at the threshold, share linked at precision .95."""
    precision = f"{found.right[found.linked].mean():.3f}" if found.linked.any() else "-"
    error, share = calibration_error(found.score, found.right), share_at_precision(found.score, found.right)
    return [f"{error:.3f}", f"{found.linked.mean():.3f}", precision, f"{share:.3f}"]


def write_diagram(path: Path, found: Sequence[tuple[str, Scores]]) -> None:
    """Draw all scores of each language, given with the language."""
    curves = {}
    for language, name in LANGUAGES.items():
        if own := [scores for of, scores in found if of == language]:
            curves[name] = bins(np.concatenate([s.score for s in own]), np.concatenate([s.right for s in own]))
    path.write_text(draw(curves), encoding="utf-8")


@click.command()
@click.option("--work", type=click.Path(path_type=Path), help="Folder for the bundles.")
@click.option("--encoder", default="builtin", show_default=True)
@click.option("--only", multiple=True, help="Part of the title of a set; the others are left out. May be repeated.")
@click.option("--scores", is_flag=True, help="Compare scores with the share of right links.")
@click.option("--diagram", type=click.Path(path_type=Path), help="SVG file for a reliability diagram, with --scores.")
@click.option("--dense-only", is_flag=True, help="Measure the encoder alone.")
def main(
    work: Path | None, encoder: str, only: tuple[str, ...], scores: bool, diagram: Path | None, dense_only: bool
) -> None:
    """Print the table."""
    if work is None and not dense_only:
        raise click.UsageError("--work names the folder for the bundles; only --dense-only needs none")
    columns = ["exact", "TF-IDF", "dense", "dense @5", "joined", "joined @5"]
    if scores:
        columns = ["calibration error", "linked", "precision of linked", f"linked at precision {PRECISION}"]
    elif dense_only:
        columns = ["dense", "dense @5"]
    click.echo(f"| {' | '.join(['set', 'language', 'names', 'mentions', *columns])} |")
    click.echo(f"|---|---|{'---:|' * (2 + len(columns))}")
    dictionaries: dict[str, Dictionary] = {}
    scored: list[tuple[str, Scores]] = []
    for title, (name, read) in SETS.items():
        if only and not any(part.lower() in title.lower() for part in only):
            continue
        if name not in dictionaries:
            dictionaries[name] = Dictionary(name, encoder, work)
        dictionary = dictionaries[name]
        counts = Counter(in_dictionary(read(), dictionary.rows))
        queries, times = list(counts), list(counts.values())
        if scores:
            scored.append((queries[0].language, best_scores(queries, dictionary.links(queries))))
            cells = score_cells(scored[-1][1])
        else:
            cells = []
            for rank, column in (
                (dictionary.exact, "exact"),
                (dictionary.tfidf, "TF-IDF"),
                (dictionary.dense, "dense"),
                (dictionary.joined, "joined"),
            ):
                if column in columns:
                    ranked = rank(queries)
                    cells += [accuracy(queries, times, ranked, k) for k in (1, 5)[: 1 + (f"{column} @5" in columns)]]
        about = f"{queries[0].language} | {len(dictionary.rows):,} | {sum(times)}"
        click.echo(f"| {title} | {about} | {' | '.join(cells)} |")
    if diagram is not None:
        write_diagram(diagram, scored)


if __name__ == "__main__":
    main()
