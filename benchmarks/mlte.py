"""MLTE on sentence pairs in three languages, from a small pretrained transformer: a table after its Table IV.

    python benchmarks/mlte.py --base FOLDER --work FOLDER

``--base`` is the folder of a sentence-transformers model; ``benchmarks/biolord.py`` says where one is to be had. Of the
train part of the STS benchmark so many pairs of each language are trained on, and some others choose beta and the
epoch. What is measured is the dev part, and EHR-RelA, of which nothing is trained on. Rows: cosines of the base, MLTE
on the frozen base, cosines of the fine-tuned encoder, MLTE on it. Both runs have folders in ``--work``: one that was
cut short goes on where it was.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from open_data import BENCHMARKS

from medlink.evaluation import TASKS
from medlink.files.problems import Problems
from medlink.training import MlteRegressor, MlteTrainer
from medlink.training.data.rated_pairs import RatedPair, read_pairs
from medlink.training.recipes import MlteRecipe

LANGUAGES = ("en", "de", "es")
SETS = {f"STS dev, {tag}": BENCHMARKS / f"stsb/stsb-{tag}-dev.csv" for tag in LANGUAGES}
SETS["EHR-RelA"] = BENCHMARKS / "ehr_rel/EHR-RelA.tsv"


def drawn(pairs: int, choosing: int, seed: int) -> tuple[list[RatedPair], list[RatedPair]]:
    """So many training pairs of each language, and others to choose by."""
    train: list[RatedPair] = []
    choose: list[RatedPair] = []
    for tag in LANGUAGES:
        rows = read_pairs(BENCHMARKS / f"stsb/stsb-{tag}-train.csv", Problems())
        # the same sentences in each language: what chooses is in none of them
        random.Random(seed).shuffle(rows)
        choose += rows[:choosing]
        train += rows[choosing : choosing + pairs]
    return train, choose


def measured(encoder: str | MlteRegressor, sample: int, seed: int) -> dict[tuple[str, str], float]:
    """Pearson and Spearman correlation on each set."""
    found: dict[tuple[str, str], float] = {}
    for title, path in SETS.items():
        report = TASKS["sts"](sample=sample, seed=seed, resamples=1).run([path], encoder)
        found |= {(title, str(row["measure"])): float(str(row["value"])) for row in report.table}
    return found


def table(rows: dict[str, dict[tuple[str, str], float]]) -> Iterator[str]:
    """One row for each method, Pearson and Spearman of each set."""
    columns = [(title, measure) for title in SETS for measure in ("pearson", "spearman")]
    yield f"| method | {' | '.join(f'{title}: {measure.capitalize()}' for title, measure in columns)} |"
    yield "|---|" + "---:|" * len(columns)
    for name, found in rows.items():
        yield f"| {name} | {' | '.join(f'{found[column]:.4f}' for column in columns)} |"


@click.command(context_settings={"show_default": True})
@click.option("--base", required=True, type=click.Path(exists=True, path_type=Path), help="Transformer to start from.")
@click.option("--work", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder of the runs.")
@click.option("--pairs", default=1900, help="Training pairs of each language.")
@click.option("--choosing", default=300, help="Further pairs of each language that choose beta and the epoch.")
@click.option("--sample", default=1500, help="Pairs of each set that are measured.")
@click.option("--epochs", default=10, help="Passes of the fine-tuning.")
@click.option("--learning-rate", default=1e-5, help="Its peak.")
@click.option("--seed", default=1)
def main(
    base: Path, work: Path, pairs: int, choosing: int, sample: int, epochs: int, learning_rate: float, seed: int
) -> None:
    """Train both runs that are not there yet, measure, print the table."""
    train, choose = drawn(pairs, choosing, seed)
    tuned: dict[str, Any] = {"fine_tune": True, "epochs": epochs, "learning_rate": learning_rate}
    rows: dict[str, dict[tuple[str, str], float]] = {}
    lines: list[str] = []
    for name, how in (("frozen", {}), ("fine-tuned", tuned)):
        out, begun = work / f"{name}-{pairs}-{choosing}-{epochs}-{learning_rate:g}-{seed}", time.perf_counter()
        if not out.exists():
            trainer = MlteTrainer(train, base, MlteRecipe(seed=seed, **how), dev=choose)
            trainer.train(out, resume=True, checkpoint_steps=50, progress=lambda line: click.echo(line, err=True))
        regressor = MlteRegressor.load(out)
        seconds = time.perf_counter() - begun
        of_beta = ", ".join(f"{value:.3f}" for value in regressor.record["figures"]["dev by beta"])
        lines.append(f"{name}: beta {regressor.record['figures']['beta']:g} of {of_beta}; {seconds / 60:.0f} minutes")
        for row, encoder in ((f"{name}, cosine", str(out / "encoder")), (f"{name}, MLTE", regressor)):
            click.echo(f"measuring {row}", err=True)
            rows[row] = measured(encoder, sample, seed)
    click.echo(
        f"{len(train):,} training pairs, {len(choose):,} that choose, at most {sample:,} of each set measured.\n"
    )
    click.echo("\n".join(table(rows)) + "\n")
    click.echo("Measure of each beta from 0 to 3 on the pairs that choose: " + "; ".join(lines) + ".")


if __name__ == "__main__":
    main()
