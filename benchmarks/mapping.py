"""Mapping lists of local codes: medlink, and TF-IDF over the names, which is how Usagi ranks.

    python benchmarks/mapping.py --work FOLDER

Each list is made of texts that the index, which holds HPO in three languages, does not hold, and that the built-in
encoder never met: German and Spanish names of HPO that are held out of its training, with all names of their language
gone from the index for these concepts, and English mentions of findings in annotated notes (``gold/README.md``) that
are no name of HPO. The codes say nothing. The join's weights were fitted with the held-out names (``fit_join.py``), so
that the German and Spanish rows may flatter medlink.

Usagi ranks by Lucene's term vectors and their cosine. Its stand-in is scikit-learn's ``TfidfVectorizer``: over words
in lower case, stemmed by Porter's rules, and once more over two and three letters in a row. A concept has the cosine of
its best name. All methods see the descriptions as they are, none is translated. Needs the data folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import Stemmer
from accuracy import PRECISION, share_at_precision
from open_data import (
    TERMINOLOGIES,
    DictionaryRow,
    Query,
    hpo_dictionary,
    in_dictionary,
    notes_gold,
    write_dictionary,
)
from open_names import held_out_label

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.text import normalise
from medlink.mapping import Mapper, SourceCode

_K = 5
_BATCH = 256
_NEAR = 100  # nearest names among which five concepts are looked for
_WORD = re.compile(r"\w+")
Ranked = list[list[tuple[str, float]]]
"""For each description concepts with their scores, best first."""


def known_rows(held: bool) -> list[DictionaryRow]:
    """The names of HPO that are held out, or all others."""
    return [row for row in hpo_dictionary() if held_out_label(row[0], row[2]) == held]


def held_out(language: str) -> list[Query]:
    """Held-out names of HPO in a language, the first of each concept."""
    first: dict[str, str] = {}
    for concept, name, tag in known_rows(True):
        if tag == language:
            first.setdefault(concept, name)
    return [Query(name, frozenset({concept}), language) for concept, name in first.items()]


LISTS: dict[str, Callable[[], list[Query]]] = {
    "names, German": lambda: held_out("de"),
    "names, Spanish": lambda: held_out("es"),
    "mentions of notes, English": lambda: notes_gold("en"),
}


def not_held(queries: Sequence[Query], rows: Sequence[DictionaryRow]) -> list[Query]:
    """The queries whose concept the index has, but whose text is no name in it; each text once."""
    names = {normalise(name) for _, name, _ in rows}
    found = {normalise(q.text): q for q in in_dictionary(list(queries), list(rows)) if normalise(q.text) not in names}
    return list(found.values())


_PORTER = Stemmer.Stemmer("porter")


def stemmed_words(text: str) -> list[str]:
    """The words of a text in lower case, stemmed by Porter's rules."""
    return _PORTER.stemWords(_WORD.findall(text.lower()))


class Tfidf:
    """The names of an index as TF-IDF vectors; ``how`` says of what, as ``TfidfVectorizer`` has it."""

    def __init__(self, rows: Sequence[DictionaryRow], **how: Any) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._concepts: dict[str, set[str]] = {}
        for concept, name, _ in rows:
            self._concepts.setdefault(name, set()).add(concept)
        self._names = sorted(self._concepts)
        self._vectoriser = TfidfVectorizer(dtype=np.float32, **how)
        self._known = self._vectoriser.fit_transform(self._names).T.tocsr()

    def __call__(self, queries: Sequence[Query]) -> Ranked:
        """Concepts by the cosine of their best name."""
        vectors, found = self._vectoriser.transform([query.text for query in queries]), []
        for start in range(0, len(queries), _BATCH):
            for cosines in (vectors[start : start + _BATCH] @ self._known).toarray():
                near = np.argpartition(-cosines, min(_NEAR, len(cosines) - 1))[:_NEAR]
                near = near[np.lexsort((near, -cosines[near]))]
                best: dict[str, float] = {}
                for place in near.tolist():
                    for concept in sorted(self._concepts[self._names[place]]) if cosines[place] > 0 else ():
                        best.setdefault(concept, float(cosines[place]))
                found.append(list(best.items())[:_K])
        return found


def mapped(mapper: Mapper, queries: Sequence[Query]) -> Ranked:
    """What ``medlink map`` ranks."""
    codes = [SourceCode(str(place), query.text, language=query.language) for place, query in enumerate(queries)]
    return [[(one.concept_id, one.score) for one in found.candidates] for found in mapper.propose(codes)]


def cells(queries: Sequence[Query], ranked: Ranked) -> list[str]:
    """Acc@1, Acc@5, and the share that is proposed where .95 of the proposals are right."""
    hits = [[concept in query.gold for concept, _ in found] for query, found in zip(queries, ranked, strict=True)]
    first = np.array([bool(hit) and hit[0] for hit in hits])
    scores = np.array([found[0][1] if found else 0.0 for found in ranked])
    return [
        f"{value:.3f}" for value in (first.mean(), np.mean([any(h) for h in hits]), share_at_precision(scores, first))
    ]


def bundle(rows: list[DictionaryRow], folder: Path) -> Bundle:
    """A bundle of some names, built where it is missing."""
    if not (folder / "manifest.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        table = write_dictionary(rows, folder.with_suffix(".tsv"))
        build_kb(folder.with_suffix(".sqlite"), [Input("table", table)])
        build_bundle(folder, kb=folder.with_suffix(".sqlite"), encoder="builtin")
    return Bundle(folder)


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder for the bundles.")
def main(work: Path) -> None:
    """Print the table."""
    if not TERMINOLOGIES.is_dir():
        raise click.ClickException(f"there is no folder {TERMINOLOGIES}")
    click.echo(f"| list | names in the index | codes | method | Acc@1 | Acc@5 | proposed at precision {PRECISION} |")
    click.echo("|---|---:|---:|---|---:|---:|---:|")
    known = known_rows(False)
    methods: list[tuple[str, Callable[[Sequence[Query]], Ranked]]] = [
        ("TF-IDF, words", Tfidf(known, analyzer=stemmed_words)),
        ("TF-IDF, letters", Tfidf(known, analyzer="char", ngram_range=(2, 3))),
        ("medlink map", partial(mapped, Mapper(bundle(known, work / "hpo"), k=_K))),
    ]
    for title, read in LISTS.items():
        queries = not_held(read(), known)
        for method, rank in methods:
            figures = " | ".join(cells(queries, rank(queries)))
            click.echo(f"| {title} | {len(known):,} | {len(queries):,} | {method} | {figures} |")


if __name__ == "__main__":
    main()
