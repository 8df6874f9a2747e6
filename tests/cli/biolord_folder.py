"""A folder for the tests of ``medlink train biolord``: a knowledge base, a transformer, tables and a recipe."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.runner import run
from tests.training.data.pairs_kb import random_kb
from tests.training.small_bert import small_bert

TOML = """
kb = "kb.sqlite"
out = "run"
base = "base"

[data]
definitions = ["glossary.tsv"]
languages = ["en"]
without = "held_out.txt"

[run]
checkpoint_steps = 2

[sts]
tables = ["sts.tsv"]
dev = "sts.tsv"
epochs = 1
batch_size = 8
learning_rate = 1e-2

[contrastive]
batch_size = 16
learning_rate = 1e-2
pairs = { pairs = 80, definition_share = 0.3 }

[sts-again]
tables = ["sts.tsv"]
epochs = 1
batch_size = 8

[distill]
dimension = 8
runs = 2
batch_size = 64

[multilingual]
student = "base"
languages = ["de"]
filter = ""
epochs = 1
batch_size = 64
"""


def fill(folder: Path) -> None:
    """Write the inputs of the commands."""
    random_kb(folder, concepts=60).close()
    shutil.copytree(small_bert(folder / "bert"), folder / "base")
    (folder / "sts.tsv").write_text(rated(range(5)), encoding="utf-8")
    (folder / "glossary.tsv").write_text("concept_id\tdefinition\nC0001\tof the glossary\nX9\tof nothing\n")
    (folder / "held_out.txt").write_text("C0003\n\nC0005\n")
    (folder / "aligned.tsv").write_text("source\ttarget\tlanguage\nfever\tFieber\tde\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(TOML, encoding="utf-8")


def rated(scores: range) -> str:
    """A table of twenty rated pairs with these scores in turn."""
    rows = (f"{chr(97 + i)} stone\t{chr(97 + i // 2)} stone\t{scores[i % len(scores)]}\n" for i in range(20))
    return "text_1\ttext_2\tscore\n" + "".join(rows)


def train(*arguments: object) -> str:
    """Run a command that succeeds; returns its output."""
    return run("train", "biolord", *arguments).output


def copy_of(folder: Path, target: Path, *, with_run: bool = False) -> Path:
    """Copy the folder, with or without the run in it."""
    left = ("bert",) if with_run else ("bert", "run")
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*left))
    return target


def rewrite(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the recipe with some of its text replaced; returns its path."""
    text = TOML
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    (folder / "recipe.toml").write_text(text, encoding="utf-8")
    return folder / "recipe.toml"
