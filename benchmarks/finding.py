"""What is found in notes: mentions and documents, beside finding names as they are written and rival finders.

    python benchmarks/finding.py --work FOLDER

Texts and concepts are those of ``annotated.py``, the dictionary is all of HPO. The weights by which medlink chooses
mentions are fitted on the texts of the other four fifths (``fit_choice.py``). ``--calibration`` shows what the scores
are worth instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from annotated import SETS, Annotated, phenotypes, retired
from fit_choice import Rows, cross_fitted, examples, fold_of, hpo_bundle, in_batches

from medlink.index import Bundle
from medlink.notes.choice import Choice
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note

THRESHOLD = 0.35


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

    def add(self, text: Annotated, found: Sequence[tuple[int, int, str, bool]]) -> None:
        """Take in one text: start, end, concept of each link, and whether it is affirmed."""
        found = [one for one in found if one[2] in phenotypes()]
        self.documents.add((concept for *_, concept, affirmed in found if affirmed), text.affirmed)
        for finding in text.findings:
            there = [one for one in found if one[0] < finding.end and finding.start < one[1]]
            self.mentions += 1
            self.touched += bool(there)
            self.exact += any((one[0], one[1]) == (finding.start, finding.end) for one in there)
            self.coded += bool(finding.concepts)
            self.right += any(one[2] in finding.concepts for one in there)

    def cells(self) -> list[str]:
        """Document level; share of the mentions touched, to the letter, and with the right concept; seconds."""
        shares = self.touched / self.mentions, self.exact / self.mentions, self.right / max(self.coded, 1)
        return [*self.documents.cells(), *(f"{share:.3f}" for share in shares), f"{self.seconds:.1f}"]


def links(text: Annotated, note: LinkedNote) -> list[tuple[int, int, str, bool]]:
    """The links of a note; in texts that do not tell persons apart, those of all persons are affirmed."""
    found = []
    for one in note.mentions:
        concept, said = one.link.concept_id, one.qualifiers
        if concept is not None and said is not None:
            affirmed = said.is_present if text.persons else said.presence == "present"
            found.append((one.start, one.end, retired().get(concept, concept), affirmed))
    return found


def linked(pipeline: NotePipeline, texts: Sequence[Annotated]) -> list[list[tuple[int, int, str, bool]]]:
    """What a pipeline links in texts."""
    notes = pipeline.link([Note(text.name, text.text) for text in texts])
    return [links(text, note) for text, note in zip(texts, notes, strict=True)]


def medlink(bundle: Bundle, texts: Sequence[Annotated], choices: Sequence[Choice | None], *, verbatim: bool) -> Result:
    """What medlink finds, each text by the choice of its fold."""
    result = Result()
    for batch in in_batches(texts):
        for number, choice in enumerate(choices):
            own = [text for text in batch if choice is None or fold_of(text) == number]
            if own:
                options = {
                    "language": batch[0].language,
                    "threshold": THRESHOLD if choice else 0.5,
                    "verbatim": verbatim,
                }
                pipeline = NotePipeline(bundle, choice=choice, **options)
                start = time.process_time()
                for text, found in zip(own, linked(pipeline, own), strict=True):
                    result.add(text, found)
                result.seconds += time.process_time() - start
    return result


def calibration(table: Rows, choices: Sequence[Choice]) -> None:
    """Print what the scores are worth, on rows that no weight was fitted on."""


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option("--only", multiple=True, help="Part of the title of a set; the others are left out. May be repeated.")
def main(work: Path, only: tuple[str, ...]) -> None:
    """Print the table."""
    bundle = hpo_bundle(work)
    sets = {title: list(read()) for title, read in SETS.items()}
    choices = cross_fitted(examples(work, sets))
    columns = ["set", "finder", "P", "R", "F1", "touched", "to the letter", "right concept", "s"]
    click.echo(f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 2)}")
    for title, texts in sets.items():
        if only and not any(part.lower() in title.lower() for part in only):
            continue
        for name, result in (
            ("names as written", medlink(bundle, texts, [None], verbatim=True)),
            ("medlink", medlink(bundle, texts, choices, verbatim=False)),
        ):
            click.echo(f"| {title} | {name} | {' | '.join(result.cells())} |")


if __name__ == "__main__":
    main()
