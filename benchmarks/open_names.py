"""Join the open terminologies to one table of names: what the built-in encoder is trained on.

    python benchmarks/open_names.py TERMINOLOGIES names.tsv [--held-out held_out.tsv]

Concepts of HPO, MONDO, DOID, NCIt, SYMP, ORDO, UBERON, MeSH and CHEBI that share a preferred label (normalised) or an
exact cross-reference are one concept here. Broad and narrow synonyms are left out, so are gene names, cell cultures of
BTO, and every name, in any language, of a class that its ontology has deprecated. One German and Spanish label in
twenty, chosen by a hash of its id, goes to ``--held-out`` instead.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

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


class Groups:
    """Union-find over ids and labels."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def find(self, key: str) -> str:
        """The id that stands for the group of ``key``."""
        self.parent.setdefault(key, key)
        while self.parent[key] != key:
            self.parent[key] = self.parent[self.parent[key]]
            key = self.parent[key]
        return key

    def join(self, one: str, other: str) -> None:
        """Make two groups one; the smaller id stands for it."""
        a, b = sorted((self.find(one), self.find(other)))
        self.parent[b] = a


@click.command()
@click.argument("terminologies", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--held-out", type=click.Path(path_type=Path), help="Where the held-out German and Spanish labels go.")
def main(terminologies: Path, out: Path, held_out: Path | None) -> None:
    """Write the joined table of names."""
    rows: list[Row] = []
    for name in ("phenotype", "anatomy"):
        rows += ssslm(terminologies / f"names/{name}.ssslm.tsv.gz")
    for path in sorted(terminologies.glob("*/*.json.gz")):
        rows += obograph(path)
    rows += names_of_mesh(terminologies)
    rows += translations(terminologies)
    rows = current(rows)
    groups = Groups()
    for concept, name, _, is_label in rows:
        groups.find(concept)
        if is_label:
            groups.join(concept, "label " + normalise(name))
    for one, other in exact_matches(terminologies):
        groups.join(one, other)
    names: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    held: list[tuple[str, str, str]] = []
    for concept, name, language, _ in rows:
        text = " ".join(name.split())
        if not normalise(text):
            continue
        group = groups.find(concept)
        if held_out and language != "en" and zlib.crc32(f"{concept} {language}".encode()) % 20 == 0:
            held.append((group, text, language))
        else:
            names[group].setdefault((normalise(text), language), text)
    with open(out, "w", encoding="utf-8", newline="") as file:
        file.write("concept_id\tname\tlanguage\n")
        for group in sorted(names):
            for (_, language), name in sorted(names[group].items()):
                file.write(f"{group}\t{name}\t{language}\n")
    if held_out:
        with open(held_out, "w", encoding="utf-8", newline="") as file:
            file.write("concept_id\tname\tlanguage\n")
            file.writelines("\t".join(row) + "\n" for row in sorted(set(held)))
    total = sum(len(group) for group in names.values())
    click.echo(f"{total} names of {len(names)} concepts to {out}; {len(set(held))} held out", err=True)


if __name__ == "__main__":
    main()
