"""Run ``medlink evaluate``, read its tables; an encoder of random weights, random groups."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

from medlink.cli.evaluate import evaluate
from medlink.models import StaticEncoder
from medlink.models.encoders import builtin_folder


def run(*args: object) -> Result:
    return CliRunner().invoke(evaluate, [str(arg) for arg in args], catch_exceptions=False)


def rows(path: Path, delimiter: str = "\t") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder / name


def noise(folder: Path) -> Path:
    """A folder with an encoder of random weights."""
    encoder = StaticEncoder.load(builtin_folder())
    table = np.random.default_rng(0).integers(-127, 127, encoder.tensors["table"].shape).astype(np.int8)
    return StaticEncoder(encoder.config, {**encoder.tensors, "table": table}, forms=encoder.forms).save(
        folder / "noise"
    )


def random_groups(n: int, concepts: int, seed: int) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 1, 1, 2, 4], n)
    return [tuple(f"C{c}" for c in rng.choice(concepts, size, replace=False)) for size in sizes]
