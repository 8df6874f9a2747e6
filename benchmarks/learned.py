"""Learned mentions: findings of texts, with and without the mentions learned from the other texts of their set.

    python benchmarks/learned.py --work FOLDER

Texts and concepts are those of ``annotated.py``, the dictionary is all of HPO. For each fifth of a set ``learn`` reads
the other four, written as brat standoff, and the fifth is linked with the learned mentions. The columns are those of
``finding.py``. The weights of the span classifier are those that ship, which were fitted on these texts too, so only
the difference is meaningful. Needs the data folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import click
from annotated import SETS
from finding import Result, linked, links
from fit_choice import FOLDS, fold_of, hpo_bundle, in_batches

from medlink.evaluation.notes import GoldText
from medlink.index import Bundle
from medlink.notes.learning import learn
from medlink.notes.pipeline import NotePipeline


def write_brat(folder: Path, texts: Sequence[GoldText]) -> None:
    """Texts and findings as brat standoff, each distinct place once; a finding counts for the first of its concepts."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for text in texts:
        lines = []
        for number, (pieces, concepts) in enumerate({one.pieces: one.concepts for one in text.findings}.items()):
            words = " ".join(" ".join(text.text[start:end] for start, end in pieces).split())
            places = ";".join(f"{start} {end}" for start, end in pieces)
            lines.append(f"T{number}\tFinding {places}\t{words}\n")
            lines += [f"N{number}\tReference T{number} {concept}\n" for concept in sorted(concepts)]
        (folder / f"{text.name}.txt").write_bytes(text.text.encode())
        (folder / f"{text.name}.ann").write_text("".join(lines), "utf-8")


def measured(bundle: Bundle, texts: Sequence[GoldText], work: Path, *, teach: bool) -> Result:
    """What medlink finds in texts, with what the others teach or without."""
    result = Result()
    for fold in range(FOLDS):
        own = [text for text in texts if fold_of(text) == fold]
        options = {"language": texts[0].language}
        if teach:
            write_brat(work / "gold", [text for text in texts if fold_of(text) != fold])
            learn(bundle, [work / "gold"], work / "learned.jsonl", **options)
            options["learned"] = str(work / "learned.jsonl")
        pipeline = NotePipeline(bundle, **options)
        for batch in in_batches(own):
            for text, note in linked(pipeline, batch):
                result.add(text, links(text, note))
    return result


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("--only", multiple=True, help="Part of the title of a set; the others are left out. May be repeated.")
def main(work: Path, only: tuple[str, ...]) -> None:
    """Print the table."""
    bundle = hpo_bundle(work)
    columns = ["set", "learned from", "P", "R", "F1", "touched", "to the letter", "right concept", "calibration"]
    click.echo(f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 2)}")
    for title, read in SETS.items():
        if not only or any(one in title for one in only):
            texts = list(read())
            for teach in (False, True):
                result = measured(bundle, texts, work, teach=teach)
                cells = [*result.cells()[:3], *result.cells()[4:-1]]
                click.echo(f"| {title} | {'the other texts' if teach else 'nothing'} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
