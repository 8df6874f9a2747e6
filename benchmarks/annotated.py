"""Texts with findings that people or readers annotated by HPO: letters and cases of ``gold``, HPO's texts, DisTEMIST;
and short ones that were written with their findings (``gold/written``).

Ids are those of the release in the data folder, retired ones mapped; findings are what is below *Phenotypic
abnormality*.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

from open_data import BENCHMARKS, DATA, GOLD, TERMINOLOGIES

from medlink.evaluation.notes import Finding, GoldText
from medlink.records import Qualifiers

_HPO = TERMINOLOGIES / "hpo/hp.v2024-08-13.json.gz"
_ROOT = "HP:0000118"
_PIECES = re.compile(r"\s\.\.\.\s")
_MARKED = re.compile(r"\{([-?<>@]?)([^{}|]+)\|([^{}|]+)\}")
_HEAD = re.compile(r"^=== (.+)\n", re.MULTILINE)
_SIGNS = {
    "": Qualifiers(),
    "-": Qualifiers("absent"),
    "?": Qualifiers("uncertain"),
    "<": Qualifiers(temporality="historical"),
    ">": Qualifiers(temporality="hypothetical"),
    "@": Qualifiers(experiencer="family"),
}
"""What the sign before the words of a finding says in ``gold/written``."""


@cache
def _graph() -> dict[str, Any]:
    with gzip.open(_HPO, "rt", encoding="utf-8") as file:
        graph: dict[str, Any] = json.load(file)["graphs"][0]
    return graph


def _curie(uri: str) -> str:
    return uri.rsplit("/", 1)[-1].replace("_", ":", 1)


@cache
def retired() -> dict[str, str]:
    """The concepts that stand for retired ids."""
    found = {}
    for node in _graph()["nodes"]:
        for value in node.get("meta", {}).get("basicPropertyValues", []):
            if value["pred"].endswith("hasAlternativeId"):
                found[value["val"]] = _curie(node["id"])
            if value["pred"].endswith("IAO_0100001"):
                found[_curie(node["id"])] = _curie(value["val"])
    return found


def labels() -> dict[str, str]:
    """The English label of each concept."""
    named = (node for node in _graph()["nodes"] if node.get("lbl"))
    return {_curie(node["id"]): " ".join(node["lbl"].split()) for node in named}


@cache
def phenotypes() -> frozenset[str]:
    """Every concept below *Phenotypic abnormality*."""
    below = defaultdict(list)
    for edge in _graph()["edges"]:
        if edge["pred"] == "is_a":
            below[_curie(edge["obj"])].append(_curie(edge["sub"]))
    found, left = set[str](), [*below[_ROOT]]
    while left:
        concept = left.pop()
        if concept not in found:
            found.add(concept)
            left += below[concept]
    return frozenset(found)


def _current(*ids: str) -> frozenset[str]:
    return frozenset(retired().get(one, one) for one in ids)


def occurrences(text: str, piece: str) -> list[tuple[int, int, int]]:
    """Start and end of each occurrence of some words, and how many of its two ends are ends of words."""
    found, pattern = [], r"\s+".join(map(re.escape, piece.split()))
    for match in re.finditer(f"(?=({pattern}))", text):
        start, end = match.span(1)
        left = start == 0 or not (text[start - 1].isalnum() and text[start].isalnum())
        right = end == len(text) or not (text[end - 1].isalnum() and text[end].isalnum())
        found.append((start, end, left + right))
    return found


def places(text: str, quote: str, nth: str) -> list[tuple[int, int]]:
    """The pieces of a quote in its note, as ``gold/GUIDELINES.md`` counts them.

    >>> places("Leber- und Niereninsuffizienz, Leberinsuffizienz", "Leber- ... insuffizienz", "1")
    [(0, 6), (16, 29)]
    """
    first, *others = _PIECES.split(quote)
    found = occurrences(text, first)
    if nth.startswith("@"):
        spans = [next(one for one in found if one[0] == int(nth[1:]))[:2]]
    else:
        edges = max(one[2] for one in found)
        spans = [[one for one in found if one[2] == edges][int(nth) - 1][:2]]
    for piece in others:
        spans.append(next(one for one in occurrences(text, piece) if one[0] >= spans[-1][1] and one[2])[:2])
    return spans


@cache
def _regions() -> dict[str, int]:
    with open(GOLD / "regions.tsv", encoding="utf-8", newline="") as file:
        return {row["note"]: int(row["end"]) for row in csv.DictReader(file, delimiter="\t")}


def gold_notes(language: str) -> Iterator[GoldText]:
    """The notes of ``gold``, each as far as it was annotated."""
    for path in sorted((GOLD / language).glob("*.tsv")):
        note = DATA / "notes" / language / f"{path.stem}.txt"
        with open(note, encoding="utf-8-sig", newline="") as file:
            text = file.read()
        text = text[: _regions().get(path.stem, len(text))]
        findings = []
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                concept = row["hpo"].removeprefix("~")
                right = frozenset() if concept == "-" else _current(concept)
                qualifiers = Qualifiers(row["presence"], row["time"], row["person"])
                findings.append(Finding(tuple(places(text, row["quote"], row["nth"])), right, qualifiers))
        yield GoldText.from_findings(path.stem, language, text, findings)


@cache
def _named() -> dict[str, str]:
    """The concept of each English name of a phenotype; a label goes before synonyms."""
    found = dict[str, str]()
    for node in _graph()["nodes"]:
        concept = _curie(node["id"])
        if concept in phenotypes() and not node.get("meta", {}).get("deprecated"):
            for synonym in node.get("meta", {}).get("synonyms", []):
                found.setdefault(" ".join(synonym["val"].lower().split()), concept)
    return found | {label.lower(): concept for concept, label in labels().items() if concept in phenotypes()}


def written_texts(language: str) -> Iterator[GoldText]:
    """The texts of ``gold/written``, whose findings stand in braces: sign, words, English name of the concept.

    Raises:
        KeyError: HPO has no such name.
    """
    _, *parts = _HEAD.split((GOLD / "written" / f"{language}.txt").read_text("utf-8"))
    for number, marked in enumerate(parts[1::2], start=1):
        text, findings, done = "", list[Finding](), 0
        for found in _MARKED.finditer(marked):
            text += marked[done : found.start()]
            done, name = found.end(), " ".join(found[3].lower().removeprefix("~").split())
            right = frozenset[str]() if name == "-" else frozenset((_named()[name],))
            findings.append(Finding(((len(text), len(text) + len(found[2])),), right, _SIGNS[found[1]]))
            text += found[2]
        yield GoldText.from_findings(f"{language}-{number}", language, text + marked[done:], findings)


def hpo_texts(kind: str) -> Iterator[GoldText]:
    """English texts by HPO: vignettes (``id_68``) and case reports (``csc``).

    Not every id has its place in the text, and not every finding of a case report is there. Findings of the family are
    not distinguished.
    """
    for path in sorted((BENCHMARKS / "hpo_text" / kind).glob("*.json"), key=lambda path: path.name):
        raw = json.loads(path.read_text("utf-8"))
        findings = []
        for one in raw["annotations"]:
            right, qualifiers = (
                _current(one["hpo_id"]),
                Qualifiers("present" if one["assertion_status"] == "affirmed" else "absent"),
            )
            spans = [((span["start_char"], span["end_char"]),) for span in one["evidence_spans"]]
            findings += [Finding(pieces, right, qualifiers) for pieces in spans or [()]]
        told = frozenset(("presence",))
        yield GoldText.from_findings(
            raw["doc_id"], "en", raw["full_text"], findings, has_spans=False, annotated_fields=told
        )


def distemist_texts() -> Iterator[GoldText]:
    """Spanish cases with their diseases; signs and symptoms are not annotated."""
    rows = defaultdict(list)
    folder = BENCHMARKS / "distemist"
    table = folder / "distemist_subtrack2_training1_linking_crossmappings.tsv"
    with open(table, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            rows[row["filename"]].append(row)
    for name in sorted(rows):
        path = folder / "text_files" / f"{name}.txt"
        if not path.exists():
            continue
        findings = []
        for row in rows[name]:
            code = row["hpo_code"]
            right = frozenset[str]() if code == "None" else _current(*re.split(r"[+,;| ]+", code))
            findings.append(Finding(((int(row["off0"]), int(row["off1"])),), right))
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        yield GoldText.from_findings(name, "es", text, findings, complete=False)


SETS = {
    "German letters (gold)": lambda: gold_notes("de"),
    "Spanish cases (gold)": lambda: gold_notes("es"),
    "English notes (gold)": lambda: gold_notes("en"),
    "English vignettes": lambda: hpo_texts("id_68"),
    "English case reports": lambda: hpo_texts("csc"),
    "Spanish cases (DisTEMIST)": distemist_texts,
    "German texts (written)": lambda: written_texts("de"),
    "Spanish texts (written)": lambda: written_texts("es"),
    "English texts (written)": lambda: written_texts("en"),
}
"""All sets of texts."""
