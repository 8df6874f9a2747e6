"""Peers of ``suite.py`` made of programs that find names in texts, and of rapidfuzz.

    python rank_names.py quickumls|tfidf|fasthpocr|rapidfuzz DICTIONARY QUERIES

The first three are the rivals of ``finding.py`` in their environments (``install.sh``): each mention is a text to
them, and what they find in it counts by score, then by length. They read running text, and bare mentions understate
them. Their index of a dictionary is kept in the folder that MEDLINK_PEERS names, where it names one. rapidfuzz ranks
names by its ratio (normalised indel similarity) in lower case.
"""

from __future__ import annotations

import csv
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

Row = dict[str, str]
_ROOT = "HP:0000118"
_NAMES = 100  # nearest names whose concepts are printed


def read(path: str) -> list[Row]:
    """The rows of a table."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def by_rapidfuzz(dictionary: list[Row], queries: list[Row]) -> Iterator[tuple[str, list[str]]]:
    """The ids of concepts for each query, best name first."""
    from rapidfuzz import fuzz, process

    names = [row["name"].lower() for row in dictionary]
    for query in queries:
        near = process.extract(query["mention"].lower(), names, scorer=fuzz.ratio, limit=_NAMES)
        yield query["query"], [dictionary[at]["concept_id"] for _, _, at in near]


def by_finder(name: str, dictionary: list[Row], queries: list[Row]) -> Iterator[tuple[str, list[str]]]:
    """The ids of what a rival finds in each mention; a language is opened once, English where none is named."""
    if name == "fasthpocr" and all(row["concept_id"] != _ROOT for row in dictionary):
        # it takes nothing but what is below
        dictionary = [*dictionary, {"concept_id": _ROOT, "name": "Phenotypic abnormality", "language": "en"}]
    rows = [{"semantic_type": "phenotype" * (row["concept_id"] != _ROOT), **row} for row in dictionary]
    rival = import_module(f"find_{name}")
    groups = defaultdict(list)
    for query in queries:
        groups[query["language"] or "en"].append(query)
    with TemporaryDirectory() as scratch:
        folder = (
            Path(os.environ.get("MEDLINK_PEERS", scratch)) / f"{name}-{sha256(repr(rows).encode()).hexdigest()[:16]}"
        )
        if not folder.exists():
            part = folder.with_suffix(f".{os.getpid()}")
            part.mkdir(parents=True)
            rival.build(rows, part)
            part.rename(folder)
        for language, own in sorted(groups.items()):
            find = rival.opened(folder, language)
            for query in own:
                spans = sorted(find(query["mention"]), key=lambda span: (-span[3], span[0] - span[1]))
                yield query["query"], [concept for _, _, concept, _ in spans]


def main() -> None:
    """Print a line for each query."""
    name, dictionary, queries = sys.argv[1:]
    # what a library prints is no answer
    answers, sys.stdout = sys.stdout, sys.stderr
    given = read(dictionary), read(queries)
    for query, ids in by_rapidfuzz(*given) if name == "rapidfuzz" else by_finder(name, *given):
        print("\t".join([query, *dict.fromkeys(ids)]), file=answers)


if __name__ == "__main__":
    main()
