"""A cross-encoder as a re-ranker, against the built-in ranking alone, on the development sets of accuracy.py.

    python benchmarks/rankers.py --base FOLDER --work FOLDER

``--base`` is the folder of a sentence-transformers model; ``benchmarks/run.sh`` says where one is to be had. It is
fine-tuned on training mentions only: a sample of the train parts of NCBI-disease and BC5CDR (diseases) against MeSH,
and of the German terms of Alpha-ID-SE that the scores of medlink are fitted on, against English ORDO names; of these
two, those whose dictionary is named. Some are held back for weights and curves. Of each development set of the named
dictionaries a sample of distinct mentions is measured: the share whose first candidate is right, how many are right
with one of the two alone, and what the scores are worth. The folder of the ranker and the bundles stay in ``--work``;
what is there is not made again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from accuracy import DICTIONARIES, SETS, Dictionary
from open_data import Query, alpha_id_held_out, bc5cdr, in_dictionary, ncbi

from medlink.evaluation.measures import calibration_error
from medlink.linking import Linker, Mention
from medlink.linking.fit import Example, collect_groups
from medlink.records import Link
from medlink.training.ranker.trainer import RankerTrainer
from medlink.training.recipes import RankerRecipe

TRAINING: dict[str, Callable[[], list[Query]]] = {
    "mesh": lambda: ncbi("train") + bc5cdr("Training"),
    "ordo": lambda: alpha_id_held_out(fitted=True),
}
"""Training mentions by the dictionary that they are linked to."""


def drawn(queries: list[Query], count: int, seed: int) -> list[Query]:
    """A sample of distinct mentions, always the same."""
    distinct = sorted(set(queries), key=lambda one: (one.search_text, one.text, sorted(one.gold)))
    return random.Random(seed).sample(distinct, min(count, len(distinct)))


def right(queries: list[Query], links: list[Link]) -> np.ndarray:
    """Whether the first candidate of each mention is right."""
    firsts = [link.candidates[0].concept_id if link.candidates else "" for link in links]
    return np.array([first in query.gold for query, first in zip(queries, firsts, strict=True)])


def error(links: list[Link], hits: np.ndarray) -> float:
    """Calibration error of the first scores."""
    return calibration_error(np.array([link.candidates[0].score if link.candidates else 0.0 for link in links]), hits)


def opened(name: str, work: Path) -> tuple[Dictionary, Linker]:
    """A terminology, and a linker on its bundle, which is built where it is not there."""
    dictionary = Dictionary(name, "builtin", work)
    return dictionary, Linker(work / name) if (work / name / "manifest.json").exists() else dictionary.linker


Opened = dict[str, tuple[Dictionary, Linker]]


def trained(out: Path, base: Path, dictionaries: Opened, mentions: int, recipe: RankerRecipe) -> str:
    """Train the ranker, and say on what and how long."""
    groups = []
    for name, read in TRAINING.items():
        if name not in dictionaries:
            continue
        dictionary, linker = dictionaries[name]
        some = drawn(in_dictionary(read(), dictionary.rows), mentions, recipe.seed)
        examples = [Example(one.search_text, one.language, one.gold) for one in some]
        groups += collect_groups(linker, examples, recipe.candidates)
    begun = time.perf_counter()
    figures = RankerTrainer(groups, base, recipe).train(out, progress=lambda line: click.echo(line, err=True))
    return (
        f"Trained on {figures['trained']:,} mentions, {figures['held']:,} held back for weights and curves, in "
        f"{(time.perf_counter() - begun) / 60:.0f} minutes beside other work; {recipe.epochs} epochs."
    )


@click.command(context_settings={"show_default": True})
@click.option("--base", required=True, type=click.Path(exists=True, path_type=Path), help="Transformer to start from.")
@click.option("--work", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder of all.")
@click.option("--dictionary", "names", multiple=True, type=click.Choice(sorted(DICTIONARIES)), default=DICTIONARIES)
@click.option("--mentions", default=300, help="Training mentions of each of the two sources.")
@click.option("--sample", default=50, help="Distinct mentions of each set that are measured.")
@click.option("--candidates", default=5, help="Candidates that are read.")
@click.option("--epochs", default=1, help="Passes over the training mentions.")
@click.option("--learning-rate", default=1e-4, help="Its peak.")
@click.option("--seed", default=1)
def main(
    base: Path,
    work: Path,
    names: tuple[str, ...],
    mentions: int,
    sample: int,
    candidates: int,
    epochs: int,
    learning_rate: float,
    seed: int,
) -> None:
    """Train the ranker that is not there yet, measure, print the table."""
    recipe = RankerRecipe(
        candidates=candidates, epochs=epochs, learning_rate=learning_rate, max_tokens=48, negatives=2, seed=seed
    )
    dictionaries = {name: opened(name, work) for name in names}
    out = work / f"ranker-{'-'.join(names)}-{mentions}-{candidates}-{epochs}-{learning_rate:g}-{seed}"
    summary = out.with_name(f"{out.name}.txt")
    if not out.exists():
        summary.write_text(trained(out, base, dictionaries, mentions, recipe), encoding="utf-8")
    click.echo(f"{summary.read_text('utf-8')} At most {sample:,} distinct mentions of each set.\n")
    columns = ["set", "mentions", "built-in", "cross-encoder", "better", "worse", "ms each"]
    columns += ["calibration error, built-in", "cross-encoder"]
    click.echo(f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")
    rankers: dict[str, Linker] = {}
    for title, (name, read) in SETS.items():
        if name not in dictionaries:
            continue
        dictionary, linker = dictionaries[name]
        if name not in rankers:
            rankers[name] = Linker(linker.bundle, ranker=out)
            rankers[name].link(["fever"])
        queries = drawn(in_dictionary(read(), dictionary.rows), sample, seed)
        batch = [Mention(query.text, query.language, query.expanded) for query in queries]
        before = linker.link(batch)
        begun = time.perf_counter()
        after = rankers[name].link(batch)
        each = 1000 * (time.perf_counter() - begun) / len(batch)
        one, other = right(queries, before), right(queries, after)
        cells = [title, len(queries), f"{one.mean():.3f}", f"{other.mean():.3f}", (other & ~one).sum()]
        cells += [(one & ~other).sum(), f"{each:.0f}", f"{error(before, one):.3f}", f"{error(after, other):.3f}"]
        click.echo(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
