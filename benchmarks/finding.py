"""Finding and linking in notes: mentions and documents, compared with verbatim names and with other programs.

    python benchmarks/finding.py --work FOLDER --peers FOLDER

Texts and concepts are those of ``annotated.py``, the dictionary is all of HPO. The weights of the span classifier are
fitted on the texts of the other four fifths (``fit_choice.py``). The columns are precision, recall and F1 of the
concepts that a document affirms; F1 without qualifiers; the shares of the annotated mentions that overlap a mention,
that have a mention with the same offsets, and with a right concept; the calibration error of the scores, where it is
known whether a link is right; processor time. The other programs (``rivals.py``) read no qualifiers: medlink's are
applied to them, and its time is not counted as theirs. Needs the data folder.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

import click
import numpy as np
from annotated import SETS, phenotypes, retired
from fit_choice import cross_fitted, examples, fold_of, hpo_bundle, in_batches
from open_data import TERMINOLOGIES
from rivals import LANGUAGES, Passed, Rival, RivalError, Span, write_names

from medlink.evaluation.measures import calibration_error
from medlink.evaluation.notes import (
    SHARES,
    BestConcept,
    GoldText,
    best_concepts,
    count,
    is_affirmed,
    rates,
    scored_outcomes,
)
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note
from medlink.reading.classifier import SpanClassifier
from medlink.reading.qualifiers import QualifierReader

THRESHOLDS = (0.5, 0.35)
"""That of medlink when none is given, and a lower one."""
VERBATIM = "names as written"
DISEASES = "Spanish cases (DisTEMIST)"
COMPARED = VERBATIM, f"medlink, {THRESHOLDS[0]}"


@dataclass
class Result:
    """What one system found in one set of texts."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    scores: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, text: GoldText, found: Sequence[BestConcept]) -> None:
        """Take in one text."""
        found = [one for one in found if one.concept in phenotypes()]
        self.scores += scored_outcomes(text, found)
        self.counts += count(text, found)

    def cells(self, *, probabilities: bool = True) -> list[str]:
        """Document level; shares of the mentions; calibration, where scores are probabilities; seconds."""
        calibration = ""
        if probabilities:
            scores, right = (np.array(column) for column in zip(*self.scores, strict=True))
            calibration = f"{calibration_error(scores.astype(float), right.astype(bool)):.3f}"
        counts = self.counts
        shares = (counts[name] / max(counts[of], 1) for name, of in SHARES.items())
        rated = *rates(counts, "documents"), rates(counts, "regardless")[-1], *shares
        return [*(f"{one:.3f}" for one in rated), calibration, f"{self.seconds:.1f}"]


def links(text: GoldText, note: LinkedNote) -> list[BestConcept]:
    """The mentions of a note with their best concepts, retired ones mapped."""
    return [one._replace(concept=retired().get(one.concept, one.concept)) for one in best_concepts(text, note)]


def linked(pipeline: NotePipeline, texts: Sequence[GoldText]) -> list[tuple[GoldText, LinkedNote]]:
    """Texts with what a pipeline reads in them."""
    notes = pipeline.link([Note(text.name, text.text) for text in texts])
    return list(zip(texts, notes, strict=True))


def notes_read(
    bundle: Bundle, texts: Sequence[GoldText], choices: Sequence[SpanClassifier | None], **options: Any
) -> Iterator[tuple[list[tuple[GoldText, LinkedNote]], float]]:
    """What medlink reads in texts, each by the choice of its fold: batches, with their processor time."""
    for batch in in_batches(texts):
        for number, choice in enumerate(choices):
            own = [text for text in batch if choice is None or fold_of(text) == number]
            if own:
                pipeline = NotePipeline(bundle, classifier=choice, language=batch[0].language, **options)
                start = time.process_time()
                notes = linked(pipeline, own)
                yield notes, time.process_time() - start


def medlink(
    bundle: Bundle, texts: Sequence[GoldText], choices: Sequence[SpanClassifier | None], **options: Any
) -> Result:
    """What medlink finds, each text by the choice of its fold."""
    result = Result()
    for batch, seconds in notes_read(bundle, texts, choices, **options):
        for text, note in batch:
            result.add(text, links(text, note))
        result.seconds += seconds
    return result


def spans(bundle: Bundle, texts: Sequence[GoldText], choices: Sequence[SpanClassifier]) -> list[str]:
    """Shares of the annotated mentions: touched and found to the letter, by all spans and by those with a link."""
    counts: Counter[str] = Counter()
    for batch, _ in notes_read(bundle, texts, choices):
        for text, note in batch:
            found = best_concepts(text, note)
            every = count(text, [one._replace(linked=True) for one in found])
            counts += count(text, found) + Counter({f"every {name}": number for name, number in every.items()})
    shares = (counts[name] / counts["annotated"] for name in ("every touched", "every exact", "touched", "exact"))
    return [f"{share:.3f}" for share in shares]


def wide_bundle(work: Path) -> Bundle:
    """A bundle of HPO and DOID with their Spanish names, built where it is missing."""
    folder = work / "hpo-doid"
    if folder.exists():
        return Bundle(folder)
    files = ("obograph", "hpo/hp.v2024-08-13.json.gz"), ("babelon", "hpo/hp-es.babelon.tsv")
    files += ("obograph", "doid/doid-2018-07-05.json.gz"), ("babelon", "doid/doid-es-translated.tsv")
    base = folder.with_suffix(".sqlite")
    build_kb(base, [Input(kind, TERMINOLOGIES / file) for kind, file in files])
    return build_bundle(folder, kb=base)


def with_status(text: GoldText, spans: Sequence[Span], reader: QualifierReader) -> list[BestConcept]:
    """What a rival found, with the status that medlink reads of it; what lies in a heading is not affirmed."""
    qualified = reader.read(text.text).qualify([(start, end) for start, end, _, _ in spans])
    return [
        BestConcept(
            start,
            end,
            retired().get(concept, concept),
            q is not None and is_affirmed(q, text.annotated_fields),
            True,
            score,
        )
        for (start, end, concept, score), q in zip(spans, qualified, strict=True)
    ]


class Race:
    """The rivals on one set after the other, and what there is to say of them.

    Args:
        peers: the folder of their environments.
        names: the table of their names.
    """

    def __init__(self, peers: Path, names: Path) -> None:
        self._rivals = {name: Rival(name, peers, names) for name in LANGUAGES}
        self._passed: dict[str, dict[str, tuple[Passed, str]]] = {}
        self._failed: dict[tuple[str, str], list[str]] = {}

    def run(self, title: str, texts: Sequence[GoldText]) -> dict[str, Result]:
        """What each rival that reads their language finds in the texts of a set."""
        results, language = {}, texts[0].language
        for name, rival in self._rivals.items():
            if language not in LANGUAGES[name]:
                continue
            try:
                passed, day = rival.find(texts)
            except RivalError as error:
                self._failed.setdefault((name, str(error)), []).append(title)
                continue
            self._passed.setdefault(name, {})[title] = passed, day
            results[passed.about] = result = Result(seconds=passed.seconds)
            reader = QualifierReader(language)
            for text, spans in zip(texts, passed.found, strict=True):
                result.add(text, with_status(text, spans, reader))
        return results

    def costs(self, seconds: dict[tuple[str, str], float]) -> list[list[str]]:
        """What each took in all its sets, in parts of what medlink took there, by finder and set; then its index."""
        rows = []
        for name, passes in self._passed.items():
            took, built = sum(passed.seconds for passed, _ in passes.values()), self._rivals[name].built()
            ratios = [took / sum(seconds[finder, title] for title in passes) for finder in COMPARED]
            row = built.about, str(len(passes)), f"{took:.1f}", *(f"{ratio:.2f}" for ratio in ratios)
            most = max(passed.memory for passed, _ in passes.values())
            rows.append([*row, *("" if isnan(one) else f"{one:.0f}" for one in (most, built.seconds, built.memory))])
        return rows

    def remarks(self) -> list[str]:
        """Which rows are left out and why, and which are of another day."""
        found = [f"{name} is left out of {', '.join(sets)}: {why}." for (name, why), sets in self._failed.items()]
        for passes in self._passed.values():
            if days := sorted({day for _, day in passes.values() if day}):
                about = next(iter(passes.values()))[0].about
                found.append(f"{about}: a stored pass of {', '.join(days)} with these texts, names and program.")
        return found


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> None:
    """Print a table whose first columns are of text."""
    click.echo(f"| {' | '.join(columns)} |\n|{'---|' * text}{'---:|' * (len(columns) - text)}")
    for row in rows:
        click.echo(f"| {' | '.join(row)} |")


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
@click.option(
    "--peers",
    envvar="MEDLINK_PEERS",
    type=click.Path(path_type=Path),
    help="Folder of the rivals (peers/install.sh) and of what they built and found; in <work>/peers by default.",
)
@click.option("--only", multiple=True, help="Part of the title of a set; the others are left out. May be repeated.")
def main(work: Path, peers: Path | None, only: tuple[str, ...]) -> None:
    """Print the table."""
    bundle = hpo_bundle(work)
    sets = {title: list(read()) for title, read in SETS.items()}
    choices = cross_fitted(*examples(work, sets))
    race = Race(peers or work / "peers", write_names(work / "names.tsv"))
    rows, seconds = [], {}
    for title, texts in sets.items():
        if only and not any(part.lower() in title.lower() for part in only):
            continue
        results = {VERBATIM: medlink(bundle, texts, [None], verbatim=True)}
        for threshold in THRESHOLDS:
            results[f"medlink, {threshold}"] = medlink(bundle, texts, choices, threshold=threshold)
        rows += [[title, name, *result.cells()] for name, result in results.items()]
        seconds.update({(name, title): result.seconds for name, result in results.items()})
        rows += [[title, name, *one.cells(probabilities=False)] for name, one in race.run(title, texts).items()]
    columns = ["P", "R", "F1", "F1, status not read", "touched", "to the letter", "right concept", "calibration", "s"]
    table(["set", "finder", *columns], rows, text=2)
    if costs := race.costs(seconds):
        click.echo("\nThe rivals in all their sets, their time in parts of that of medlink, and their index:\n")
        columns = ["sets", "s", *(f"to {one}" for one in COMPARED), "MB", "index s", "index MB"]
        table(["rival", *columns], costs, text=1)
    if not only:
        click.echo(f"\n{DISEASES}, spans by terminology, whatever they are linked to; then those with a link alone:\n")
        known = {"HPO": bundle, "HPO and DOID": wide_bundle(work)}
        rows = [[name, *spans(one, sets[DISEASES], choices)] for name, one in known.items()]
        columns = ["touched", "to the letter", "linked: touched", "linked: to the letter"]
        table(["terminology", *columns], rows, text=1)
    for remark in race.remarks():
        click.echo(f"\n{remark}")


if __name__ == "__main__":
    main()
