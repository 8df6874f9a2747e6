"""A ranker, trained once on the demo bundle: misspelt names with their concepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.linking import Linker
from medlink.linking.fit import Example, Group, collect_groups
from medlink.training.recipes import RankerRecipe

RECIPE = RankerRecipe(epochs=2, learning_rate=2e-2, held_share=0.4, batch_size=16, max_tokens=48, candidates=4)


@pytest.fixture(scope="session")
def groups(demo: Bundle, linker: Linker) -> list[Group]:
    """Misspelt names and their candidates."""
    names = sorted({(name.text, name.language, name.concept_id) for name in demo.kb.iter_names()})[::20]
    examples = [Example(f"{text[:-1]}x", language, frozenset({concept_id})) for text, language, concept_id in names]
    return collect_groups(linker, examples, RECIPE.candidates)


@pytest.fixture(scope="session")
def folder(bert: Path, groups: list[Group], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a ranker."""
    from medlink.training.ranker.trainer import RankerTrainer

    out = tmp_path_factory.mktemp("ranker") / "out"
    RankerTrainer(groups, bert, RECIPE).train(out)
    return out
