"""Training steps a second of the contrastive phase beside a bare sentence-transformers loop on the same batches.

    python benchmarks/train_cost.py KB MODEL

The bare loop is ``SentenceTransformerTrainer`` with ``MultipleNegativesRankingLoss`` on the pairs made beforehand; ours
makes its pairs from the knowledge base while it trains. Both take turns, so that what else the machine does meets both;
processor time is given too, for machines that do much else.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import click
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import PrinterCallback, TrainerCallback

from medlink.kb import KnowledgeBase
from medlink.training.biolord.contrastive import InfoNceLoss, PairBatches
from medlink.training.common.batch_trainer import BatchTrainer
from medlink.training.common.resumable_trainer import resolve_precision
from medlink.training.common.run import Run
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.pairs import KnowledgeBasePairs
from medlink.training.data.view import TrainingView
from medlink.training.recipes import ContrastiveRecipe, Recipe, RunOptions

PRECISIONS = get_args(Recipe.model_fields["precision"].annotation)


class Clock(TrainerCallback):
    """Time from the end of the first step to that of the last: what comes before and after is not part of the loop."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """After each step."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.wall.append(time.perf_counter())
        self.processor.append(time.process_time())

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


def ours(model: SentenceTransformer, source: KnowledgeBasePairs, recipe: ContrastiveRecipe, work: Path) -> Clock:
    """The contrastive phase."""
    clock = Clock()
    run = Run(work, work, RunOptions(checkpoint_steps=10**9))
    loss = InfoNceLoss(recipe.temperature)
    loop = BatchTrainer(model, PairBatches(source, recipe.batch_size), loss, recipe, run, work)
    loop.add_callback(clock)
    loop.run(None)
    return clock


@click.command()
@click.argument("kb", type=click.Path(exists=True, path_type=Path))
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--steps", default=12, show_default=True, type=click.IntRange(min=3), help="Steps of a turn.")
@click.option("--turns", default=3, show_default=True, type=click.IntRange(min=1), help="Turns of each loop.")
@click.option("--batch-size", default=64, show_default=True, type=click.IntRange(min=2), help="Pairs of a step.")
@click.option("--precision", default="auto", show_default=True, type=click.Choice(PRECISIONS), help="Of both loops.")
def main(kb: Path, model: Path, steps: int, turns: int, batch_size: int, precision: str) -> None:
    """Print the table: medians over the turns, and the median of the ratios of each two turns."""
    recipe = ContrastiveRecipe(batch_size=batch_size, precision=precision)
    with KnowledgeBase(kb) as store:
        source = KnowledgeBasePairs(TrainingView(store), PairRecipe(pairs=steps * batch_size))
    pairs = [(pair.name, pair.text) for batch in source.batches(0, batch_size) for pair in batch]
    found: dict[str, list[tuple[float, float]]] = {"bare": [], "medlink": []}
    with tempfile.TemporaryDirectory() as work:
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
    click.echo("| loop | steps/s | pairs/s | steps per second of the processor |")
    click.echo("|---|---:|---:|---:|")
    for name, rates in found.items():
        wall, processor = (statistics.median(rate[i] for rate in rates) for i in (0, 1))
        click.echo(f"| {name} | {wall:.2f} | {wall * batch_size:.0f} | {processor:.2f} |")
    wall, processor = (
        statistics.median(one[i] / other[i] for one, other in zip(found["medlink"], found["bare"], strict=True))
        for i in (0, 1)
    )
    click.echo(f"| medlink / bare | {wall:.3f} | {wall:.3f} | {processor:.3f} |")


if __name__ == "__main__":
    main()
