"""scispaCy's candidate generator on names of one's own: its index is built with its own settings, saved and opened.

scispaCy saves its vectors in 16 bits, which scipy 1.11 and newer refuse to write; they are saved in 32 bits here, and
scispaCy's own loader reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def build_index(names: Iterable[tuple[str, str]], folder: Path) -> None:
    """Build scispaCy's knowledge base and index of concept ids with names, and save both in a folder that is there."""
    import numpy as np
    import scispacy.candidate_generation as generation
    from scispacy.linking_utils import KnowledgeBase

    concepts: dict[str, list[str]] = {}
    for concept, name in names:
        concepts.setdefault(concept, []).append(name)
    with open(folder / "kb.jsonl", "w", encoding="utf-8") as file:
        for concept, (first, *aliases) in concepts.items():
            entity = {"concept_id": concept, "canonical_name": first, "aliases": aliases, "types": []}
            file.write(json.dumps(entity) + "\n")
    # its check refuses scipy 1.11 and newer, with which all but 16 bits works
    generation.scipy_supports_sparse_float16 = lambda: True
    generation.numpy = SimpleNamespace(**{**vars(np), "float16": np.float32})
    generation.create_tfidf_ann_index(str(folder), KnowledgeBase(str(folder / "kb.jsonl")))


def open_index(folder: Path) -> Any:
    """scispaCy's candidate generator from a folder of ``build_index``."""
    import scispacy.candidate_generation as generation
    from scispacy.linking_utils import KnowledgeBase

    aliases, vectoriser, index = generation.LinkerPaths.from_directory(str(folder)).load(ef_search=200)
    return generation.CandidateGenerator(index, vectoriser, aliases, KnowledgeBase(str(folder / "kb.jsonl")))
