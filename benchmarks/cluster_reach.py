"""Which pairs of one concept clustering finds in the names of 1,500 concepts of ORDO, and which no list can tell.

    python benchmarks/cluster_reach.py

A code is what ``is_code`` of ``clustering.py`` takes for one. A name spells it where it has its letters in their order,
beginning with the first, or has the code as a word. Of a code that no name of its concept spells, a list without a
dictionary of codes says nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import combinations

import click
import numpy as np
from clustering import Row, clustered, is_code, ordo_names

from medlink.clustering.abbreviations import explains
from medlink.index.said import SaidTexts
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.text import normalise
from medlink.models import load_encoder

WORDS, OTHER_WORDS = "two names in words, a word in common", "two names in words, none in common"
SPELT, BESIDE = "a code and a name that spells it", "such a code and another name of its concept"
NOT_SPELT = "a code that no name of its concept spells"
KINDS = (WORDS, OTHER_WORDS, SPELT, BESIDE, NOT_SPELT)


def spells(name: str, code: str) -> bool:
    """Whether a name in words spells a code, digits apart.

    >>> spells("Charcot-Marie-Tooth disease type 4D", "CMT4D"), spells("SLC35C1 deficiency", "SLC35C1")
    (True, True)
    >>> spells("zinc finger", "FLJ13648")
    False
    """
    letters = re.sub(r"[\W\d_]", "", code)
    word = f" {normalise(code)} " in f" {normalise(name)} "
    return word or (len(letters) > 1 and explains(letters, name))


def kinds_of_pairs(rows: list[Row]) -> dict[tuple[int, int], str]:
    """The kind of each pair of places whose names are of one concept."""
    said = SaidTexts([row[0] for row in rows], [row[1] for row in rows], shipped_forms())
    concepts: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        concepts[row[2]].append(place)
    pairs = [pair for places in concepts.values() for pair in combinations(places, 2)]
    common = said.between(*np.array(pairs, dtype=np.int64).T).mention > 0
    code = [is_code(row[0]) for row in rows]
    spelt = {
        (one, other)
        for places in concepts.values()
        for one in places
        for other in places
        if code[one] and not code[other] and spells(rows[other][0], rows[one][0])
    }
    spelt_codes = {one for one, _ in spelt}

    def kind(one: int, other: int, shared: bool) -> str:
        if not code[one] and not code[other]:
            return WORDS if shared else OTHER_WORDS
        if any(code[end] and end not in spelt_codes for end in (one, other)):
            return NOT_SPELT
        return SPELT if (one, other) in spelt or (other, one) in spelt else BESIDE

    return {pair: kind(*pair, bool(shared)) for pair, shared in zip(pairs, common, strict=True)}


@click.command()
@click.option("--encoder", default="builtin", show_default=True)
def main(encoder: str) -> None:
    """Print pairs and recall of each kind."""
    rows = ordo_names()
    labels = clustered(rows, load_encoder(encoder), languages=True)
    kinds = kinds_of_pairs(rows)
    pairs = Counter(kinds.values())
    found = Counter(kind for (one, other), kind in kinds.items() if labels[one] == labels[other])
    click.echo("| pairs of one concept | pairs | share of all | found | recall |")
    click.echo("|---|---:|---:|---:|---:|")
    for kind in (*KINDS, "all"):
        whole, right = (count.total() if kind == "all" else count[kind] for count in (pairs, found))
        click.echo(f"| {kind} | {whole:,} | {whole / len(kinds):.3f} | {right:,} | {right / whole:.3f} |")


if __name__ == "__main__":
    main()
