"""The ablation of CODER++ (Zeng et al. 2022, Table 5) on open names, by the static encoder.

    python benchmarks/coderpp.py names.tsv --work FOLDER

``names.tsv`` is made by ``open_names.py``. Whole concepts are drawn for training and others for testing; the base is a
static encoder trained by InfoNCE on the names of all other concepts, as the paper's was one that clusters its test
poorly. Settings (a), (b) and (c) train it further on the first part for equally many steps, and every encoder is
evaluated on both parts by the protocol of the paper's section 3 (``medlink.evaluation.clustering``) at its own best
threshold; no encoder has met a concept of the test. A run that is cut short goes on where it was.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from medlink.evaluation.clusters import sweep
from medlink.models import load_encoder
from medlink.models.encoders import Encoder
from medlink.records import Name
from medlink.training import CoderPlusPlusTrainer
from medlink.training.coderpp.terms import Terms
from medlink.training.recipes import CoderPlusPlusRecipe, StaticRecipe
from medlink.training.static.trainer import StaticTrainer

SETTINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("a", "(a) k = 1, m = 30, neighbours kept", {"positives": 1, "neighbours": 30, "refresh": "never"}),
    ("b", "(b) k = m = 30, neighbours kept", {"positives": 30, "neighbours": 30, "refresh": "never"}),
    ("c", "(c) k = m = 30, neighbours renewed", {"positives": 30, "neighbours": 30, "refresh": "epoch"}),
)


def split(table: Path, train: int, held_out: int, seed: int) -> tuple[list[Name], list[Name], list[Name]]:
    """Names of concepts drawn at random, at least ``train`` of them, of others, at least ``held_out``, and the rest."""
    by_concept: dict[str, list[Name]] = defaultdict(list)
    with open(table, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            by_concept[row["concept_id"]].append(Name(row["concept_id"], row["name"], row["language"]))
    concepts = sorted(by_concept)
    random.Random(seed).shuffle(concepts)
    parts: tuple[list[Name], list[Name]] = ([], [])
    for part, wanted in zip(parts, (train, held_out), strict=True):
        while len(part) < wanted:
            if not concepts:
                raise click.ClickException(f"{table} has fewer than {train + held_out} names")
            part.extend(by_concept[concepts.pop()])
    return *parts, [name for concept in sorted(concepts) for name in by_concept[concept]]


def base(names: list[Name], folder: Path, epochs: int, seed: int) -> Path:
    """A static encoder trained on these names, stored in a folder."""
    recipe = StaticRecipe(epochs=epochs, hard_epochs=1, seed=seed)
    digest = hashlib.sha256(json.dumps([Terms(names).digest, recipe.to_dict()]).encode()).hexdigest()
    out = folder / f"base-{digest[:12]}"
    if not out.exists():
        click.echo(f"base: {len(names):,} names", err=True)
        StaticTrainer(names, recipe=recipe).train(out, progress=lambda line: click.echo(line, err=True))
    return out


def figures(encoder: Encoder, terms: Terms) -> str:
    """Columns of the table: best threshold, precision, recall, F1."""
    concepts = [terms.concepts_of(term).astype(str).tolist() for term in range(len(terms))]
    found = sweep(concepts, np.asarray(encoder.encode(terms.texts(np.arange(len(terms))))))
    best = found.best
    return f"{found.thresholds[best]:.2f} | " + " | ".join(
        f"{share[best]:.3f}" for share in (found.precision, found.recall, found.f1)
    )


@click.command()
@click.argument("table", type=click.Path(exists=True, path_type=Path))
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the encoders.")
@click.option("--names", default=100_000, show_default=True, help="Names to train on, at least.")
@click.option("--held-out", default=20_000, show_default=True, help="Names of other concepts, at least.")
@click.option("--epochs", default=3, show_default=True, help="Passes over the training names.")
@click.option("--base-epochs", default=4, show_default=True, help="Passes of the base over the names of the others.")
@click.option("--seed", default=1, show_default=True)
def main(table: Path, work: Path, names: int, held_out: int, epochs: int, base_epochs: int, seed: int) -> None:
    """Train the base and the three settings, print the table."""
    train, other, rest = split(table, names, held_out, seed)
    work.mkdir(parents=True, exist_ok=True)
    start = base(rest, work, base_epochs, seed)
    parts = Terms(train), Terms(other)
    recipe = CoderPlusPlusRecipe.static().replace(epochs=epochs, seed=seed)
    run = json.dumps([parts[0].digest, load_encoder(start).fingerprint, recipe.to_dict()])
    folder = work / hashlib.sha256(run.encode()).hexdigest()[:12]
    rows = [f"| base | {' | '.join(figures(load_encoder(start), part) for part in parts)} |"]
    for setting, label, sampling in SETTINGS:
        out = folder / setting
        if not out.exists():
            click.echo(f"setting {setting}", err=True)
            trainer = CoderPlusPlusTrainer(train, start, recipe.replace(**sampling))
            trainer.train(out, resume=True, progress=lambda line: click.echo(line, err=True))
        rows.append(f"| {label} | {' | '.join(figures(load_encoder(out), part) for part in parts)} |")
    click.echo(
        f"{len(train):,} training names, {len(other):,} names of concepts held out, {len(rest):,} names of others for "
        f"the base; {epochs} epochs, seed {seed}.\n"
    )
    click.echo("| setting | theta 0 | P | R | F1 | theta 0, held out | P, held out | R, held out | F1, held out |")
    click.echo("|---|" + "---:|" * 8)
    click.echo("\n".join(rows))


if __name__ == "__main__":
    main()
