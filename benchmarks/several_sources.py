"""Linking against a bundle of several sources, beside the names of one source alone.

    python benchmarks/several_sources.py --work out/bench/several

The bundle is of the release of the data folder that is shaped as the UMLS: HPO, DOID and NCIt, 47,270 concepts, many of
them there twice. Mentions are those of ``gold`` whose concept of HPO has a CUI there; their spans are given, without a
context. A link is right where it is that CUI, or where the two are presumed equal.
"""

from __future__ import annotations

import csv
import tarfile
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from open_data import DATA, GOLD

from medlink import Linker, build_bundle, build_kb
from medlink.index import Bundle
from medlink.kb import Input
from medlink.linking import Mention
from medlink.records import AMBIGUOUS, LINKED, Candidate, Link

HPO = ("HPO", "HPOGER", "HPOSPA")
_BINS = 10


@dataclass(frozen=True, slots=True)
class Case:
    """A mention and the CUIs that are right for it."""

    text: str
    right: frozenset[str]


def bundle_of(work: Path) -> Bundle:
    """The bundle of the release, built when it is not there."""
    if not (work / "bundle").exists():
        work.mkdir(parents=True, exist_ok=True)
        with tarfile.open(DATA / "releases/umls.tar.xz") as archive:
            archive.extractall(work, filter="data")
        build_kb(work / "kb.sqlite", [Input("rrf", work / "umls/META")])
        build_bundle(work / "bundle", kb=work / "kb.sqlite")
    return Bundle(work / "bundle")


def cases(bundle: Bundle, language: str) -> list[Case]:
    """The mentions of the gold notes of a language."""
    found = []
    for path in sorted((GOLD / language).glob("*.tsv")):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                right = frozenset(
                    bundle.kb.concepts_mapped_to("HPO", row["hpo"])
                )  # "~" marks a concept that is only near
                if right:
                    found.append(Case(row["quote"].replace(" ... ", " "), right))
    return found


def is_right(candidate: Candidate, case: Case) -> bool:
    """Whether a candidate is the concept, or presumed equal to it."""
    return not case.right.isdisjoint((candidate.concept_id, *candidate.same_as))


def calibration_error(links: list[Link], known: list[Case]) -> float:
    """Expected calibration error of the first candidates, ten bins of one width (Guo et al. 2017, eq. 3)."""
    firsts = [(link.candidates[0], case) for link, case in zip(links, known, strict=True) if link.candidates]
    scores = np.array([first.score for first, _ in firsts])
    right = np.array([is_right(first, case) for first, case in firsts], dtype=float)
    bins = np.minimum((scores * _BINS).astype(int), _BINS - 1)
    gaps = [abs(scores[bins == i].mean() - right[bins == i].mean()) * (bins == i).mean() for i in set(bins.tolist())]
    return float(sum(gaps))


def row(name: str, links: list[Link], known: list[Case]) -> str:
    """One row of the table."""
    pairs = list(zip(links, known, strict=True))
    linked = [is_right(link.candidates[0], case) for link, case in pairs if link.status == LINKED]
    first = sum(is_right(link.candidates[0], case) for link, case in pairs if link.candidates)
    five = sum(any(is_right(one, case) for one in link.candidates[:5]) for link, case in pairs)
    ambiguous = sum(link.status == AMBIGUOUS for link in links)
    shares = (sum(linked), len(linked) - sum(linked), ambiguous, first, five)
    cells = [f"{share / len(known):.3f}" for share in shares]
    return f"| {name} | {len(known)} | {' | '.join(cells)} | {calibration_error(links, known):.3f} |"


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path))
def main(work: Path) -> None:
    """Print the table."""
    bundle = bundle_of(work)
    click.echo(
        "| names | mentions | linked and right | linked and wrong | ambiguous | right first | within five "
        "| calibration error |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    ways = {"HPO's alone": {"sources": HPO}, "all": {}, "all, nothing presumed": {"presume": False}}
    linkers = {name: Linker(bundle, **options) for name, options in ways.items()}
    for language, title in {"de": "German", "es": "Spanish", "en": "English"}.items():
        known = cases(bundle, language)
        mentions = [Mention(case.text, language) for case in known]
        for name, linker in linkers.items():
            click.echo(row(f"{title}, {name}", linker.link(mentions), known))


if __name__ == "__main__":
    main()
