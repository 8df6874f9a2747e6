"""Splitting of German compounds, compared with another package.

    pip install compound-split
    python benchmarks/compounds.py

The test set ``tests/language/compounds_de.tsv`` has 500 compounds of clinical notes with all their parts, a linking
letter at the part before it, and 250 other words. *Exact* is the share of words that are split as there; *recall* and
*precision* count the split points. medlink does not split a compound that its lexicon has as one meaning
(*Blutdruck*), which costs recall. Speed is per second of processor time.

``compound-split`` is CharSplit by n-grams (Tuggener 2016). Its best split is taken if its score is
above 0, and each part is split again; ``maximal_split`` is its own recursion with its word list.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import click
from compound_split import char_split, doc_split

from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import LexicalAnalyser
from medlink.language.text import normalise

_LIST = Path(__file__).resolve().parents[1] / "tests" / "language" / "compounds_de.tsv"


def by_ngrams(word: str) -> list[str]:
    """The parts by CharSplit, parted again."""
    score, first, last = char_split.split_compound(word)[0]
    return [*by_ngrams(first), *by_ngrams(last)] if score > 0 and first != last else [word]


def by_lexicon() -> Callable[[str], list[str]]:
    """medlink's way."""
    reader = LexicalAnalyser(shipped_forms())
    return lambda word: reader.read(word, "de").words[0].pieces


def _cuts(parts: list[str]) -> set[int]:
    return set(accumulate(map(len, parts[:-1])))


@click.command()
def main() -> None:
    """Print the table."""
    with _LIST.open(encoding="utf-8", newline="") as file:
        rows = [(row["word"], row["parts"].split("|")) for row in csv.DictReader(file, delimiter="\t")]
    click.echo("| splitter | exact, compounds | exact, other words | recall | precision | words a second |")
    click.echo("|---|---:|---:|---:|---:|---:|")
    ways = {"medlink": by_lexicon(), "CharSplit": by_ngrams, "`maximal_split`": doc_split.maximal_split}
    for name, way in ways.items():
        way("Nierenzyste")  # what is loaded once
        start = time.process_time()
        found = [[normalise(part) for part in way(word)] for word, _ in rows]
        speed = len(rows) / (time.process_time() - start)
        gold = [[normalise(part) for part in parts] for _, parts in rows]
        pairs = list(zip(found, gold, strict=True))
        exact = [
            sum(one == other for one, other in some) / len(some)
            for some in ([p for p in pairs if len(p[1]) > 1], [p for p in pairs if len(p[1]) == 1])
        ]
        right = sum(len(_cuts(one) & _cuts(other)) for one, other in pairs)
        recall = right / sum(len(_cuts(other)) for other in gold)
        precision = right / sum(len(_cuts(one)) for one in found)
        click.echo(
            f"| {name} | {exact[0]:.3f} | {exact[1]:.3f} | {recall:.3f} | {precision:.3f} | {round(speed, -2):,.0f} |"
        )


if __name__ == "__main__":
    main()
