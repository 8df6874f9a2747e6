"""What is found in notes: mentions and documents, beside finding names as they are written and rival finders.

    python benchmarks/finding.py --work FOLDER

Texts and concepts are those of ``annotated.py``, the dictionary is all of HPO. The weights by which medlink chooses
mentions are fitted on the texts of the other four fifths (``fit_choice.py``). *P*, *R* and *F1* are of the concepts
that a document affirms; then the share of the annotated mentions that is touched, found to the letter, linked right;
then the calibration error of the scores of what is found where it is known whether it is right; then processor time.
Needs the data folder.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from accuracy import calibration_error
from annotated import SETS, Annotated, phenotypes, retired
from fit_choice import cross_fitted, examples, fold_of, hpo_bundle, in_batches, is_right

from medlink.index import Bundle
from medlink.notes.choice import Choice
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note
from medlink.records import LINKED

THRESHOLDS = (0.5, 0.35)
"""That of medlink when none is given, and a lower one."""


class Linked(NamedTuple):
    """A mention with its best concept, whether the text affirms it, and whether it is linked."""

    start: int
    end: int
    concept: str
    affirmed: bool
    linked: bool
    score: float


@dataclass
class Counts:
    """Right, wrong and missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def add(self, found: Iterable[str], wanted: Iterable[str]) -> None:
        found, wanted = set(found), set(wanted)
        self.right += len(found & wanted)
        self.wrong += len(found - wanted)
        self.missed += len(wanted - found)

    def cells(self) -> list[str]:
        """Precision, recall and F1."""
        precision = self.right / max(self.right + self.wrong, 1)
        recall = self.right / max(self.right + self.missed, 1)
        return [f"{one:.3f}" for one in (precision, recall, 2 * precision * recall / max(precision + recall, 1e-9))]


@dataclass
class Result:
    """What one system found in one set of texts."""

    documents: Counts = field(default_factory=Counts)
    mentions: int = 0
    touched: int = 0
    exact: int = 0
    coded: int = 0
    right: int = 0
    seconds: float = 0.0
    scores: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, text: Annotated, found: Sequence[Linked]) -> None:
        """Take in one text."""
        found = [one for one in found if one.concept in phenotypes()]
        for one in found:
            right = is_right(text, one.start, one.end, one.concept, denied=not one.affirmed)
            if right is not None:
                self.scores.append((one.score, right))
        found = [one for one in found if one.linked]
        self.documents.add((one.concept for one in found if one.affirmed), text.affirmed)
        for finding in text.findings:
            there = [one for one in found if one.start < finding.end and finding.start < one.end]
            self.mentions += 1
            self.touched += bool(there)
            self.exact += any((one.start, one.end) == (finding.start, finding.end) for one in there)
            self.coded += bool(finding.concepts)
            self.right += any(one.concept in finding.concepts for one in there)

    def cells(self) -> list[str]:
        """Document level; share of the mentions touched, to the letter, and with the right concept; seconds."""
        scores, right = (np.array(column) for column in zip(*self.scores, strict=True))
        shares = self.touched / self.mentions, self.exact / self.mentions, self.right / max(self.coded, 1)
        rest = (*shares, calibration_error(scores.astype(float), right.astype(bool)))
        return [*self.documents.cells(), *(f"{share:.3f}" for share in rest), f"{self.seconds:.1f}"]


def links(text: Annotated, note: LinkedNote) -> list[Linked]:
    """The mentions of a note with their best concepts; where a text does not tell persons apart, all count."""
    found = []
    for one in note.mentions:
        said = one.qualifiers
        if said is not None and one.link.candidates:
            best = one.link.candidates[0]
            concept = retired().get(best.concept_id, best.concept_id)
            affirmed = said.is_present if text.persons else said.presence == "present"
            found.append(Linked(one.start, one.end, concept, affirmed, one.link.status == LINKED, best.score))
    return found


def linked(pipeline: NotePipeline, texts: Sequence[Annotated]) -> list[list[Linked]]:
    """What a pipeline links in texts."""
    notes = pipeline.link([Note(text.name, text.text) for text in texts])
    return [links(text, note) for text, note in zip(texts, notes, strict=True)]


def medlink(bundle: Bundle, texts: Sequence[Annotated], choices: Sequence[Choice | None], **options: Any) -> Result:
    """What medlink finds, each text by the choice of its fold."""
    result = Result()
    for batch in in_batches(texts):
        for number, choice in enumerate(choices):
            own = [text for text in batch if choice is None or fold_of(text) == number]
            if own:
                pipeline = NotePipeline(bundle, choice=choice, language=batch[0].language, **options)
                start = time.process_time()
                for text, found in zip(own, linked(pipeline, own), strict=True):
                    result.add(text, found)
                result.seconds += time.process_time() - start
    return result


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("--only", multiple=True, help="Part of the title of a set; the others are left out. May be repeated.")
def main(work: Path, only: tuple[str, ...]) -> None:
    """Print the table."""
    bundle = hpo_bundle(work)
    sets = {title: list(read()) for title, read in SETS.items()}
    choices = cross_fitted(examples(work, sets))
    columns = ["set", "finder", "P", "R", "F1", "touched", "to the letter", "right concept", "calibration", "s"]
    click.echo(f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 2)}")
    for title, texts in sets.items():
        if only and not any(part.lower() in title.lower() for part in only):
            continue
        results = {"names as written": medlink(bundle, texts, [None], verbatim=True)}
        for threshold in THRESHOLDS:
            results[f"medlink, {threshold}"] = medlink(bundle, texts, choices, threshold=threshold)
        for name, result in results.items():
            click.echo(f"| {title} | {name} | {' | '.join(result.cells())} |")


if __name__ == "__main__":
    main()
