"""Readers of the open ontologies: rows of names, and pairs of ids that are the same."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from medlink.language.text import normalise

Row = tuple[str, str, str, bool]  # concept, name, language, is a label

# how labels of deprecated classes begin, and those of the culture conditions of BTO
_LEFT_OUT = re.compile(r"\W*(?:obsolet[eoa]?|deprecated|veraltete?)(?:\b|_)|culture condition(?::|$)", re.IGNORECASE)


def current(rows: Iterable[Row]) -> list[Row]:
    """The rows without deprecated classes: all names go of one that any source labels so, others that say it go alone.

    >>> current([("A:1", "obsolete fever", "en", True), ("A:1", "fiebre", "es", False), ("A:2", "rash", "en", True)])
    [('A:2', 'rash', 'en', True)]
    """
    given = list(rows)
    gone = {concept for concept, name, _, is_label in given if is_label and _LEFT_OUT.match(name)}
    return [row for row in given if row[0] not in gone and not _LEFT_OUT.match(row[1])]


def ssslm(path: Path) -> Iterator[Row]:
    """Names of a merged ssslm table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["predicate"] in ("rdfs:label", "oboInOwl:hasExactSynonym", "oboInOwl:hasRelatedSynonym"):
                yield row["curie"].upper(), row["text"], "en", row["predicate"] == "rdfs:label"


def obograph(path: Path) -> Iterator[Row]:
    """Labels and synonyms of an OBO-graphs file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        nodes = json.load(file)["graphs"][0]["nodes"]
    for node in nodes:
        meta = node.get("meta", {})
        if not node.get("lbl") or node.get("type") != "CLASS":
            continue
        concept = node["id"].rsplit("/", 1)[-1].replace("_", ":").upper()
        # not every ontology says it in the label as well
        yield concept, "obsolete " * bool(meta.get("deprecated")) + node["lbl"], "en", True
        for synonym in meta.get("synonyms", []):
            if synonym["pred"] in ("hasExactSynonym", "hasRelatedSynonym"):
                yield concept, synonym["val"], "en", False


def translations(folder: Path) -> Iterator[Row]:
    """German and Spanish names of HPO and DOID."""
    for path, idcol, text, language in (
        (folder / "hpo/hp-es.babelon.tsv", "subject_id", "translation_value", "es"),
        (folder / "hpo/hp-de.babelon.tsv", "subject_id", "translation_value", "de"),
        (folder / "hpo/hp-de.synonyms.tsv", "subject_id", "translation_value", "de"),
        (folder / "doid/doid-es-translated.tsv", "source_id", "translation_text", "es"),
    ):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                names = row.get(text) or ""
                wanted = row.get("predicate_id") or row.get("predicate") or "synonym"
                if ":" not in (row[idcol] or "") or "IAO" in wanted or "Broad" in wanted or "Narrow" in wanted:
                    continue
                for name in names.split("|"):
                    yield row[idcol], name, language, False


def names_of_mesh(folder: Path) -> Iterator[Row]:
    """Names of MeSH descriptors, and the CHEBI and DOID names that MeSH ids share."""
    for concept, name in json.loads((folder / "mesh/mesh2020_dui2canonical.json").read_text("utf-8")).items():
        yield f"MESH:{concept}", name, "en", True
    with open(folder / "mesh/gilda_mesh_mappings.tsv", encoding="utf-8") as file:
        for line in file:
            _, mesh, name, system, _, other = line.rstrip("\n").split("\t")[:6]
            if system in ("CHEBI", "DOID"):
                yield f"MESH:{mesh}", name, "en", True
                yield f"MESH:{mesh}", other, "en", False


def exact_matches(folder: Path) -> Iterator[tuple[str, str]]:
    """Pairs of ids or labels that MONDO holds for the same."""
    for name in ("doid", "mesh"):
        with open(folder / f"mappings/mondo_exactmatch_{name}.sssom.tsv", encoding="utf-8") as file:
            for row in csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t"):
                if _LEFT_OUT.match(row["subject_label"]):
                    continue
                yield row["subject_id"], row["object_id"].upper()
                yield row["object_id"].upper(), "label " + normalise(row["subject_label"])
