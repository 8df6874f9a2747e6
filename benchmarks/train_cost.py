"""What training costs beside the model: batches made a second, steps a second, and the share of a step for all else.

    python benchmarks/train_cost.py KB MODEL

The first table has no model: ours draws pairs and pads their tokens; the other tokenises the texts of the same pairs
anew for each batch, as sentence-transformers does, and draws nothing. The second table is of the contrastive phase and
of a bare loop, ``SentenceTransformerTrainer`` with ``MultipleNegativesRankingLoss`` on the pairs made beforehand. All
take turns, so that what else the machine does meets all; processor time is given too, for machines that do much else.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import PrinterCallback, TrainerCallback

from medlink.kb import KnowledgeBase
from medlink.training.biolord.contrastive import InfoNceLoss
from medlink.training.common.loader import EpochLoader
from medlink.training.common.resumable_trainer import BatchTrainer, resolve_precision
from medlink.training.common.run import Run
from medlink.training.data.batches import Batch
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.pairs import KnowledgeBasePairs
from medlink.training.data.view import TrainingView
from medlink.training.recipes import ContrastiveRecipe, Recipe, RunOptions

PRECISIONS = get_args(Recipe.model_fields["precision"].annotation)


class Clock(TrainerCallback):
    """Time from the end of the first step to that of the last: what comes before and after is not part of the loop.

    ``within`` is the processor time of forward and backward passes.
    """

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []
        self.passes: list[float] = []
        self.within = 0.0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """After each step."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.wall.append(time.perf_counter())
        self.processor.append(time.process_time())
        self.passes.append(self.within)

    def outside(self) -> float:
        """Share of the processor time that is not of forward and backward passes."""
        return 1 - (self.passes[-1] - self.passes[0]) / (self.processor[-1] - self.processor[0])

    def a_second(self) -> tuple[float, float]:
        """Steps in a second on the clock, and of the processor."""
        steps = len(self.wall) - 1
        return steps / (self.wall[-1] - self.wall[0]), steps / (self.processor[-1] - self.processor[0])


def bare(model: SentenceTransformer, pairs: list[tuple[str, str]], recipe: ContrastiveRecipe, work: Path) -> Clock:
    """The loop that anyone would write."""
    clock = Clock()
    precision = resolve_precision(recipe.precision)
    args = SentenceTransformerTrainingArguments(
        output_dir=str(work),
        max_steps=len(pairs) // recipe.batch_size,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        batch_sampler=lambda dataset, batch_size, **_: BatchSampler(SequentialSampler(dataset), batch_size, True),
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        use_cpu=not torch.cuda.is_available(),
    )
    names, texts = zip(*pairs, strict=True)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict({"name": names, "text": texts}),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[clock],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return clock


class TimedTrainer(BatchTrainer):
    """The trainer of the phases, with a clock for its forward and backward passes."""

    clock: Clock

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Both passes of a batch."""
        start = time.process_time()
        loss = super().training_step(*args, **kwargs)
        self.clock.within += time.process_time() - start
        return loss


def ours(model: SentenceTransformer, source: KnowledgeBasePairs, recipe: ContrastiveRecipe, work: Path) -> Clock:
    """The contrastive phase."""
    run = Run(work.parent, work, RunOptions(checkpoint_steps=10**9))
    batches = source.batches(recipe.batch_size)
    inputs = run.read_inputs(model, batches.texts)
    loop = TimedTrainer(model, batches, inputs, InfoNceLoss(recipe.temperature), recipe, run, work)
    loop.clock = Clock()
    loop.add_callback(loop.clock)
    loop.run(None)
    return loop.clock


def batches_made(
    model: SentenceTransformer, source: KnowledgeBasePairs, size: int, turns: int, work: Path
) -> dict[str, list[tuple[float, float]]]:
    """Names a second, on the clock and of the processor, of each turn of both ways."""
    batches = source.batches(size)
    run = Run(work, work, RunOptions())
    loader = EpochLoader(batches, run.read_inputs(model, batches.texts), is_whole=False, is_shared=True)
    columns = [list(zip(*in_words(source, batch), strict=True)) for batch in batches.epoch(0)]

    def draw() -> None:
        for _ in loader:
            pass

    def tokenise() -> None:
        for batch in columns:
            for texts in batch:
                model.preprocess(list(texts))

    found: dict[str, list[tuple[float, float]]] = {"tokenised anew": [], "medlink": []}
    for turn in range(turns):
        for name, make in sorted({"tokenised anew": tokenise, "medlink": draw}.items(), reverse=bool(turn % 2)):
            wall, processor = time.perf_counter(), time.process_time()
            make()
            names = 2 * size * len(columns)
            found[name].append((names / (time.perf_counter() - wall), names / (time.process_time() - processor)))
    return found


def in_words(source: KnowledgeBasePairs, batch: Batch) -> list[tuple[str, str]]:
    """The texts of the pairs of a batch."""
    names, texts = batch.columns
    parts = zip(*(source.texts.take(np.maximum(column, 0)) for column in texts.T), strict=True)
    joined = ["".join(part[: np.count_nonzero(row >= 0)]) for part, row in zip(parts, texts, strict=True)]
    return list(zip(source.texts.take(names), joined, strict=True))


def medians(found: dict[str, list[tuple[float, float]]], mine: str, other: str) -> dict[str, tuple[float, float]]:
    """Medians over the turns, and of the ratios of each two turns."""
    rows = {**found, f"{mine} / {other}": ratios(found[mine], found[other])}
    return {name: tuple(statistics.median(rate[i] for rate in rates) for i in (0, 1)) for name, rates in rows.items()}


def ratios(mine: list[tuple[float, float]], others: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Ratios of the rates of each turn."""
    return [(a[0] / b[0], a[1] / b[1]) for a, b in zip(mine, others, strict=True)]


@click.command()
@click.argument("kb", type=click.Path(exists=True, path_type=Path))
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--steps", default=12, show_default=True, type=click.IntRange(min=3), help="Steps of a turn.")
@click.option("--turns", default=3, show_default=True, type=click.IntRange(min=1), help="Turns of each loop.")
@click.option("--batch-size", default=64, show_default=True, type=click.IntRange(min=2), help="Pairs of a step.")
@click.option("--batches", default=300, show_default=True, type=click.IntRange(min=1), help="Batches without a model.")
@click.option("--precision", default="auto", show_default=True, type=click.Choice(PRECISIONS), help="Of both loops.")
def main(kb: Path, model: Path, steps: int, turns: int, batch_size: int, batches: int, precision: str) -> None:
    """Print the tables."""
    recipe = ContrastiveRecipe(batch_size=batch_size, precision=precision)
    with KnowledgeBase(kb) as store:
        view = TrainingView(store)
    shares = {} if len(view.relations.values) and len(view.definitions.values) else {"name_share": 1.0}
    shares |= {"definition_share": 0.0} if shares else {}
    source, many = (
        KnowledgeBasePairs(view, PairRecipe(pairs=count * batch_size, **shares)) for count in (steps, batches)
    )
    found: dict[str, list[tuple[float, float]]] = {"bare": [], "medlink": []}
    outside: list[float] = []
    with tempfile.TemporaryDirectory() as work:
        made = batches_made(SentenceTransformer(str(model)), many, batch_size, turns, Path(work))
        pairs = [pair for batch in source.batches(batch_size).epoch(0) for pair in in_words(source, batch)]
        for turn in range(turns):
            # who begins changes, or the second would always meet a warm machine
            for name in sorted(found, reverse=bool(turn % 2)):
                trained = SentenceTransformer(str(model))
                folder = Path(work, f"{name}-{turn}")
                folder.mkdir()
                clock = (
                    bare(trained, pairs, recipe, folder) if name == "bare" else ours(trained, source, recipe, folder)
                )
                found[name].append(clock.a_second())
                if name == "medlink":
                    outside.append(clock.outside())
    click.echo(f"Batches of {batch_size} pairs, {len(many.texts):,} texts, without a model:\n")
    click.echo("| batches | names/s | names per second of the processor |")
    click.echo("|---|---:|---:|")
    for name, rates in medians(made, "medlink", "tokenised anew").items():
        click.echo(f"| {name} | {' | '.join(f'{rate:,.0f}' if rate > 100 else f'{rate:.1f}' for rate in rates)} |")
    click.echo("\nWith the model:\n")
    click.echo("| loop | steps/s | pairs/s | steps per second of the processor |")
    click.echo("|---|---:|---:|---:|")
    for name, (wall, processor) in medians(found, "medlink", "bare").items():
        of_pairs = f"{wall:.3f}" if "/" in name else f"{wall * batch_size:.0f}"
        click.echo(f"| {name} | {wall:.3f} | {of_pairs} | {processor:.3f} |")
    click.echo(
        f"\nOf the processor time of medlink's steps, {statistics.median(outside):.3f} is outside of forward and "
        "backward passes."
    )


if __name__ == "__main__":
    main()
