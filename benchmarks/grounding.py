"""Conceptual grounding on a knowledge base, as in tables 3 and 4 of Fivez et al. 2021.

    python benchmarks/grounding.py kb.sqlite --work FOLDER
    python benchmarks/grounding.py kb.sqlite --work FOLDER --fuse ICD-10
    python benchmarks/grounding.py kb.sqlite --work FOLDER --encoder ENCODER

The word vectors are fastText's (gensim), of 300 dimensions as in the paper, trained on the names to train on and on all
definitions; a name is the mean of its words (equation 1). Words that training did not meet are made of their n-grams,
as fastText does, so the vectors of all words of the terminology lie in one table: an encoder of sentence-transformers.
``--encoder`` takes another one in their place. Names are split as ``medlink evaluate synonyms`` splits them. A run that
is cut short goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from medlink.evaluation.synonyms import SynonymsTask
from medlink.evaluation.task import Run
from medlink.kb import KnowledgeBase
from medlink.models import load_encoder
from medlink.training import ConceptualGroundingTrainer
from medlink.training.grounding.synonyms import SetOptions, SynonymSets, hash_sets, read_sets, split
from medlink.training.recipes import GroundingRecipe

KINDS = ("train", "test", "zero-shot")


def word_vectors(folder: Path, texts: Iterable[str], every: Iterable[str], epochs: int, seed: int) -> None:
    """Train fastText on texts, and write the encoder of its vectors for the words of ``every`` text."""
    from gensim.models import FastText
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    def words(text: str) -> list[str]:
        return [word for word, _ in Whitespace().pre_tokenize_str(text.lower())]

    # one thread: with more the vectors differ from run to run
    model = FastText([words(text) for text in texts], vector_size=300, min_count=1, epochs=epochs, seed=seed, workers=1,
                     sg=1, bucket=200_000)  # fmt: skip
    vocabulary = sorted({word for text in every for word in words(text)})
    vectors = np.zeros((len(vocabulary) + 1, 300), dtype=np.float32)
    vectors[1:] = [model.wv[word] for word in vocabulary]
    # an unknown word is zeros: it turns no mean
    tokenizer = Tokenizer(WordLevel({"": 0, **{word: row for row, word in enumerate(vocabulary, 1)}}, unk_token=""))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    module = StaticEmbedding(tokenizer, embedding_weights=vectors)
    SentenceTransformer(modules=[module], device="cpu").save(str(folder), create_model_card=False)


class _Drawn(SynonymsTask):
    """The task on synonym sets that are at hand."""

    def measured(self, sets: SynonymSets, encoder: Any) -> str:
        """Cells of a row: mAP, Acc and MRR of each kind."""
        train, test, zero_shot = split(sets, self)
        run, cells = Run([], encoder, None), []
        for kind, part, queries in zip(KINDS, (train, train, zero_shot), (None, test, None), strict=True):
            row, _ = self._ranked(kind, part, queries, run)
            cells += [f"{row[name]:.3f}" for name in ("mAP", "Acc", "MRR")]
        return " | ".join(cells)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a run that its folder depends on, by their names on the command line."""

    fuse: str | None
    languages: str
    hidden: int
    pairs: int
    validation: float
    word_epochs: int
    sample: int
    seed: int


def say(line: str) -> None:
    """Progress on standard error."""
    click.echo(line, err=True)


@click.command()
@click.argument("kb", type=click.Path(exists=True, path_type=Path))
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the encoders.")
@click.option("--fuse", help="System whose codes fuse concepts; none for table 4.")
@click.option("--languages", default="en", show_default=True)
@click.option("--encoder", help="Encoder in place of word vectors.")
@click.option("--concepts", default=0, show_default=True, help="Only so many concepts; 0 for all.")
@click.option("--hidden", default=38_400, show_default=True, help="Width of the network.")
@click.option("--pairs", default=0, show_default=True, help="Synonym pairs of an epoch; 0 for all.")
@click.option("--validation", default=0.1, show_default=True)
@click.option("--word-epochs", default=5, show_default=True, help="Passes of fastText.")
@click.option("--sample", default=2000, show_default=True, help="Queries of each kind, at most.")
@click.option("--seed", default=1, show_default=True)
def main(kb: Path, work: Path, encoder: str | None, concepts: int, **settings: Any) -> None:
    """Train the four encoders, print the table."""
    chosen = Settings(**settings)
    seed, fuse, languages, sample = chosen.seed, chosen.fuse, chosen.languages, chosen.sample
    options = SetOptions(languages=languages, fuse=fuse, split_seed=seed)
    sets = read_sets(kb, options)
    if concepts:
        drawn = set(np.random.default_rng(seed).permutation(list(sets))[:concepts].tolist())
        sets = {concept: names for concept, names in sets.items() if concept in drawn}
    train, test, zero_shot = split(sets, options)
    task = _Drawn(**options.to_dict(), sample=sample, trained=True)
    recipe = GroundingRecipe(hidden=chosen.hidden, pairs=chosen.pairs, validation=chosen.validation, seed=seed)
    run = json.dumps([hash_sets(sets), recipe.to_dict(), encoder, chosen.word_epochs])
    folder = work / hashlib.sha256(run.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    start = encoder or str(folder / "words")
    if not encoder and not (folder / "words").exists():
        with KnowledgeBase(kb) as store:
            definitions = [one.text for one in store.iter_definitions(languages=languages.split(","))]
        names = [text for texts in train.values() for text in texts]
        every = [text for texts in sets.values() for text in texts]
        word_vectors(folder / "words", [*names, *definitions], every, chosen.word_epochs, seed)
    if not (folder / "cca").exists():
        ConceptualGroundingTrainer(train, start, GroundingRecipe.map_only()).train(folder / "cca")
    for name, change in (("dan", {"cca": False}), ("cca-dan", {})):
        if not (folder / name).exists():
            trainer = ConceptualGroundingTrainer(train, start, recipe.replace(**change))
            trainer.train(folder / name, resume=True, progress=say)
    counts, width = [sum(map(len, part.values())) for part in (train, zero_shot)], chosen.hidden
    click.echo(
        f"{counts[0]:,} names of {len(train):,} {fuse or 'concept'} sets to train on, {len(test):,} kept of these, "
        f"{counts[1]:,} of {len(zero_shot):,} others; {languages}; width {width:,}, seed {seed}; at most {sample:,} "
        "queries of a kind.\n"
    )
    click.echo("| encoder | " + " | ".join(f"{kind} {name}" for kind in KINDS for name in ("mAP", "Acc", "MRR")) + " |")
    click.echo("|---|" + "---:|" * 9)
    base = "word vectors" if encoder is None else Path(encoder).name
    rows = {base: start, "CCA": folder / "cca", "DAN": folder / "dan", "CCA + DAN": folder / "cca-dan"}
    for label, place in rows.items():
        click.echo(f"| {label} | {task.measured(sets, load_encoder(place))} |")


if __name__ == "__main__":
    main()
