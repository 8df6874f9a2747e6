"""Dictionaries and mentions of the public benchmarks, read from the data folder beside the repository.

``DATA`` is that folder (``MEDLINK_DATA`` overrides it). Mentions come as :class:`Query`: text, right concept ids and
language.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from classifications import alpha_id, held_out_orpha, icd_o
from open_sources import current, names_of_mesh, obograph, ssslm, translations

if TYPE_CHECKING:
    pass

DATA = Path(os.environ.get("MEDLINK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
TERMINOLOGIES = DATA / "terminologies"
BENCHMARKS = DATA / "benchmarks"
GOLD = Path(__file__).resolve().parent / "gold"

DictionaryRow = tuple[str, str, str]  # concept id, name, language


@dataclass(frozen=True, slots=True)
class Query:
    """A mention with its right concept ids."""

    text: str
    gold: frozenset[str]
    language: str
    expanded: str | None = None
    """The text with its abbreviations written out, where the document explains one."""

    @property
    def search_text(self) -> str:
        """What is looked for."""
        return self.expanded or self.text


def hpo_dictionary() -> list[DictionaryRow]:
    """English, Spanish and German names of HPO."""
    rows = {(c, n, la) for c, n, la, _ in obograph(TERMINOLOGIES / "hpo/hp.v2024-08-13.json.gz") if c.startswith("HP:")}
    ids = {concept for concept, _, _ in rows}
    rows |= {(c, n, la) for c, n, la, _ in translations(TERMINOLOGIES) if c in ids}
    return sorted(rows)


def mesh_dictionary() -> list[DictionaryRow]:
    """English names by MeSH id: MeSH itself, and the names of DOID and MONDO concepts that refer to it."""
    rows = {(c, n, la) for c, n, la, _ in names_of_mesh(TERMINOLOGIES)}
    with gzip.open(TERMINOLOGIES / "doid/doid-2018-07-05.json.gz", "rt", encoding="utf-8") as file:
        for node in json.load(file)["graphs"][0]["nodes"]:
            meta = node.get("meta", {})
            if meta.get("deprecated") or not node.get("lbl"):
                continue
            synonyms = [s["val"] for s in meta.get("synonyms", []) if s["pred"] == "hasExactSynonym"]
            for xref in meta.get("xrefs", []):
                if xref["val"].startswith("MESH:"):
                    rows |= {(xref["val"], name, "en") for name in [node["lbl"], *synonyms]}
    names: dict[str, set[str]] = defaultdict(set)
    by_label: dict[str, set[str]] = defaultdict(set)
    for concept, name, _, is_label in ssslm(TERMINOLOGIES / "names/phenotype.ssslm.tsv.gz"):
        names[concept].add(name)
        if is_label:
            by_label[name.lower()].add(concept)
    with open(TERMINOLOGIES / "mappings/mondo_exactmatch_mesh.sssom.tsv", encoding="utf-8") as file:
        for row in csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t"):
            mesh, label = row["object_id"].upper(), row["subject_label"]
            rows.add((mesh, label, "en"))
            for concept in by_label[label.lower()] | {row["subject_id"]}:
                rows |= {(mesh, name, "en") for name in names[concept]}
    return sorted((c, " ".join(n.split()), la) for c, n, la in rows)


def _pubtator(path: Path, types: tuple[str, ...] = (), expand: bool = False) -> Iterator[Query]:
    text, expanded = "", None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if part := re.match(r"\d+\|([ta])\|(.*)", line):
                # offsets count from the title, one character parts it from the abstract
                text = part[2] if part[1] == "t" else f"{text} {part[2]}"
                expanded = written_out(text) if expand and part[1] == "a" else None
            fields = line.rstrip("\n").split("\t")
            if len(fields) >= 6 and (not types or fields[4] in types):
                ids = re.split(r"[|+]", fields[5].replace("MESH:", ""))
                gold = frozenset(f"MESH:{i}" if re.fullmatch(r"[DC]\d+", i) else i for i in ids)
                yield Query(fields[3], gold, "en", expanded and expanded(int(fields[1]), int(fields[2])))


def written_out(text: str) -> Callable[[int, int], str | None]:
    """What writes out the abbreviations in a stretch of an English text, by the long forms that the text gives.

    >>> expanded = written_out("Wilson disease (WD). Late WD.")
    >>> expanded(21, 28), expanded(0, 19), expanded(0, 14)
    ('Late Wilson disease', None, None)
    """
    from medlink.reading.abbreviations import long_forms

    places = sorted(long_forms(text).items())

    def expanded(start: int, end: int) -> str | None:
        found = text[start:end]
        for (a, b), long in reversed(places):
            # "Wilson disease (WD)" has its long form already
            if start <= a and b <= end and long not in text[start:end]:
                found = found[: a - start] + long + found[b - start :]
        return None if found == text[start:end] else found

    return expanded


def ncbi(part: str, expand: bool = False) -> list[Query]:
    """NCBI-disease mentions of ``train`` or ``develop``."""
    return list(_pubtator(BENCHMARKS / f"ncbi_disease/NCBI{part}set_corpus.txt", expand=expand))


def bc5cdr(part: str, types: tuple[str, ...] = ("Disease",), expand: bool = False) -> list[Query]:
    """BC5CDR mentions of ``Training`` or ``Development``."""
    return list(_pubtator(BENCHMARKS / f"bc5cdr/CDR_{part}Set.PubTator.txt", types, expand))


def distemist_rows() -> list[dict[str, str]]:
    path = BENCHMARKS / "distemist/distemist_subtrack2_training1_linking_crossmappings.tsv"
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def distemist() -> list[Query]:
    """DisTEMIST mentions with an HPO code (Spanish)."""
    return [
        Query(row["span"], frozenset(re.split(r"[+,;| ]+", row["hpo_code"])), "es")
        for row in distemist_rows()
        if row["hpo_code"] != "None"
    ]


def distemist_documents() -> set[str]:
    """The documents of DisTEMIST; many are in other corpora of the same cases, CodiEsp for one."""
    return {row["filename"].removeprefix("es-") for row in distemist_rows()}


def distemist_spans() -> Iterator[str]:
    """Every DisTEMIST mention, with a code or without (Spanish)."""
    return (row["span"] for row in distemist_rows())


def cantemist(part: str) -> list[Query]:
    """Distinct Spanish mentions of tumours in CANTEMIST, ``train`` or ``dev``, with codes of the German ICD-O-3.

    A mention has all codes that it is annotated with and that have a German name, without the digit of the grade and
    the mark H: 8140/33/H is 8140/3.
    """
    known = {concept.replace("ICDO:", "ICDO3:") for (concept, *_), _ in icd_o(TERMINOLOGIES)}
    codes: dict[str, set[str]] = defaultdict(set)
    for path in sorted(BENCHMARKS.glob(f"cantemist/{part}/*.ann")):
        # T1, kind and place, words; #1, its T, code
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
        mentions = {row[0]: row[2] for row in rows}
        for _, about, code in (row for row in rows if row[1].startswith("AnnotatorNotes ")):
            codes[mentions[about.split()[1]]] |= known & {f"ICDO3:{code[:6]}"}
    return [Query(text, frozenset(own), "es") for text, own in codes.items()]


def german_terms() -> list[Query]:
    """German terms with HPO ids, single terms and short phrases of two."""
    found = []
    for name in ("70cases_gemini_v1", "small_v1"):
        for row in json.loads((BENCHMARKS / f"german_terms/{name}.json").read_text("utf-8")):
            found.append(Query(row["text"], frozenset(row["expected_hpo_ids"]), "de"))
    return found


def notes_gold(language: str) -> list[Query]:
    """Mentions of findings in notes, annotated by hand (``gold/README.md``), that have a concept of HPO.

    A mention in several pieces is asked as one text.
    """
    found = []
    for path in sorted(GOLD.glob(f"{language}/*.tsv")):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                concept = row["hpo"].removeprefix("~")
                if concept != "-":
                    found.append(Query(row["quote"].replace(" ... ", " "), frozenset({concept}), language))
    return found


def ordo_dictionary() -> list[DictionaryRow]:
    """English names of ORDO."""
    rows = current(row for path in sorted(TERMINOLOGIES.glob("ordo/*.json.gz")) for row in obograph(path))
    return sorted({(c, " ".join(n.split()), la) for c, n, la, _ in rows if c.startswith("ORPHANET:")})


def alpha_id_held_out(fitted: bool = False) -> list[Query]:
    """German terms of Alpha-ID-SE that are of a held-out ORPHA code, with all codes that have the term.

    Those of one half of the codes are what the scores are ``fitted`` on, those of the other are measured.
    """
    codes: dict[str, set[str]] = defaultdict(set)
    for concept, term, _ in alpha_id(TERMINOLOGIES):
        codes[term].add(concept)
    held_out = [(term, ids) for term, ids in sorted(codes.items()) if any(map(held_out_orpha, ids))]
    halves = [zlib.crc32(f"{min(ids)} fitted".encode()) % 2 == fitted for _, ids in held_out]
    return [Query(term, frozenset(ids), "de") for (term, ids), own in zip(held_out, halves, strict=True) if own]


def in_dictionary(queries: list[Query], dictionary: list[DictionaryRow]) -> list[Query]:
    """Queries with a right concept that the dictionary has."""
    known = {concept for concept, _, _ in dictionary}
    return [query for query in queries if query.gold & known]


def misspell(text: str, rng: random.Random) -> str:
    """One typing error: a letter lost, doubled, swapped with the next, or replaced."""
    places = [i for i in range(1, len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    if not places:
        return text
    i = rng.choice(places)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:i] + text[i + 1 :]
    if kind == 1:
        return text[:i] + text[i] + text[i:]
    if kind == 2:
        return text[:i] + text[i + 1] + text[i] + text[i + 2 :]
    return text[:i] + rng.choice("abcdefghijklmnopqrstuvwxyz") + text[i + 1 :]


def write_dictionary(rows: list[DictionaryRow], path: Path) -> Path:
    """Write a dictionary as a table that ``medlink kb build --table`` reads."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("concept_id\tname\tlanguage\n")
        file.writelines(f"{concept}\t{' '.join(name.split())}\t{language}\n" for concept, name, language in rows)
    return path
