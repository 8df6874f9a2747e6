"""Small knowledge bases of which pairs are made, in the layout of a UMLS release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.training.data.pairs import KnowledgeBasePairs
from tests.kb.writers import conso, rel, write_lines

WORDS = ["renal", "hepatic", "acute", "chronic", "Pain", "stone", "Fever", "left", "right", "minor"]
RELATIONS = ["finding_site_of", "may_treat", "due_to"]


def build(
    folder: Path,
    *,
    names: list[tuple[str, str, str]],
    relations: Sequence[tuple[str, str, str]] = (),
    definitions: Sequence[tuple[str, str]] = (),
    types: Sequence[tuple[str, str]] = (),
) -> KnowledgeBase:
    """A knowledge base of names (id, text, LAT), relations (head, type, tail), definitions and semantic types."""
    write_lines(folder / "MRCONSO.RRF", [conso(cui, text, LAT=language) for cui, text, language in names])
    # MRREL reads backwards
    write_lines(folder / "MRREL.RRF", [rel(tail, "RO", head, kind) for head, kind, tail in relations])
    write_lines(folder / "MRDEF.RRF", [f"{cui}|A1|AT1||DEMO|{text}|N||" for cui, text in definitions])
    write_lines(folder / "MRSTY.RRF", [f"{cui}|T000|A1|{kind}|AT1||" for cui, kind in types])
    build_kb(folder / "kb.sqlite", [Input("rrf", folder)])
    return KnowledgeBase(folder / "kb.sqlite")


def random_kb(folder: Path, concepts: int = 300, seed: int = 0) -> KnowledgeBase:
    """Concepts in a tree with other relations, of which some share a name or a definition."""
    rng = np.random.default_rng(seed)
    ids = [f"C{number:04}" for number in range(concepts)]
    names = [
        (cui, f"{' '.join(rng.choice(WORDS, 2))} {number if rng.random() < 0.9 else ''}".strip(), "ENG")
        for number, cui in enumerate(ids)
        for _ in range(1 + rng.integers(3))
    ]
    names += [(cui, f"Name {number}", str(rng.choice(["GER", "SPA"]))) for number, cui in enumerate(ids) if number % 3]
    relations = [(ids[number], "isa", ids[rng.integers(number)]) for number in range(1, concepts)]
    relations += [(str(rng.choice(ids)), str(rng.choice(RELATIONS)), str(rng.choice(ids))) for _ in range(2 * concepts)]
    definitions = [(cui, f"A state that has the number {number % 97}.") for number, cui in enumerate(ids[::2])]
    types = [(cui, str(rng.choice(["Disease or Syndrome", "Finding"]))) for cui in ids[::3]]
    return build(folder, names=names, relations=relations, definitions=definitions, types=types)


class Pair(NamedTuple):
    """What the numbers of a pair stand for."""

    concept_id: str
    name: str
    text: str
    kind: str


def read_batches(source: KnowledgeBasePairs, epoch: int, size: int, start: int = 0) -> list[list[Pair]]:
    """The batches of an epoch in words."""
    sources, batches = source.texts, []
    texts, owners = list(sources), sources.names.owners()
    for batch in source.batches(size).epoch(epoch, start):
        pairs = []
        for name, parts in zip(*(column.tolist() for column in batch.columns), strict=True):
            of_text = [texts[part] for part in parts if part >= 0]
            kind = "definition" if sources.first_definition <= parts[0] < sources.first_type else "name"
            kind = "description" if len(of_text) == 3 else kind
            [concept] = sources.view.concept_ids(owners[name : name + 1])
            pairs.append(Pair(concept, texts[name], "".join(of_text), kind))
        batches.append(pairs)
    return batches
