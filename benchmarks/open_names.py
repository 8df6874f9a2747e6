"""Join the open terminologies to tables of names: what the built-in encoder is trained on.

    python benchmarks/open_names.py TERMINOLOGIES names.tsv [--held-out held_out.tsv] [--further FOLDER]

Concepts of HPO, MONDO, DOID, NCIt, SYMP, ORDO, UBERON, MeSH and CHEBI that share a preferred label (normalised) or an
exact cross-reference are one concept here. Broad and narrow synonyms are left out, so are gene names, cell cultures of
BTO, and every name, in any language, of a class that its ontology has deprecated. One German and Spanish label in
twenty, chosen by a hash of its id, goes to ``--held-out`` instead.

``--further`` writes tables of the same columns, with the same ids where a concept is the same, to train with each or
without it:

- ``alpha.tsv``: German terms of Alpha-ID-SE by ORPHA code.
- ``oncology.tsv``: German and Spanish names and synonyms of the morphology codes of ICD-O-3.
- ``drugs.tsv``: German names of ATC whose English spelling is a name of MeSH or CHEBI.
- ``siblings.tsv``: what shares a code and is often no synonym: terms of ICD-10-GM's alphabet and of ICD-O-3, phrases of
  CodiEsp's train part with the titles of ICD-10-CM; where both ICDs divide a chapter alike, a code is one.
- ``mentions.tsv``: mentions of the train parts of NCBI-disease and BC5CDR. Those with the text of a mention of a
  development part are left out, and so are documents of CodiEsp that are also in DisTEMIST.
- ``held_out_alpha.tsv``: the terms of one ORPHA code in ten, by its ORDO id and as they stand in Alpha-ID-SE. No table
  has one of these terms, for any concept, nor another German name of these concepts.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import click
from classifications import (
    Term,
    alpha_id,
    atc,
    codiesp_train,
    english_drug,
    held_out_orpha,
    icd_alphabet,
    icd_o,
    icd_o_spanish,
    in_all_forms,
    one_code,
)
from open_data import BENCHMARKS, bc5cdr, distemist_documents, ncbi
from open_sources import Row, current, exact_matches, names_of_mesh, obograph, ssslm, translations

from medlink.language.text import normalise


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


def held_out_label(concept: str, language: str) -> bool:
    """Whether a German or Spanish label is one of the twentieth that is held out, by a hash of its id."""
    return language != "en" and zlib.crc32(f"{concept} {language}".encode()) % 20 == 0


class Allowed:
    """Which names training may see: none that is held out."""

    def __init__(self, held: Iterable[Term], hidden: Iterable[Term], groups: Groups) -> None:
        self.held = {(concept, normalise(name), language) for concept, name, language in held}
        self.hidden_groups = {groups.find(concept) for concept, _, _ in hidden}
        self.hidden_terms = {normalise(form) for _, form, _ in in_all_forms(hidden)}

    def __call__(self, concept: str, name: str, language: str) -> bool:
        """Whether a name of a joined concept may stand in a table."""
        text = normalise(name)
        if language == "de" and (concept in self.hidden_groups or text in self.hidden_terms):
            return False
        return (concept, text, language) not in self.held


def write_table(path: Path, rows: Iterable[Term]) -> None:
    """Write names as a table that ``medlink kb build --table`` reads: a concept's names stand once, in their order."""
    names: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for concept, name, language in rows:
        text = " ".join(name.split())
        names[concept].setdefault((normalise(text), language), text)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("concept_id\tname\tlanguage\n")
        for concept in sorted(names):
            for (_, language), name in sorted(names[concept].items()):
                file.write(f"{concept}\t{name}\t{language}\n")
    total = sum(len(group) for group in names.values())
    click.echo(f"{total} names of {len(names)} concepts to {path}", err=True)


def drugs(terminologies: Path, names: Iterable[Term]) -> list[Term]:
    """German names of drugs by the one concept of MeSH or CHEBI that has the English spelling."""
    substances = defaultdict(set)
    for concept, name, language in names:
        if language == "en" and concept.startswith(("CHEBI:", "MESH:")):
            substances[name.lower()].add(concept)
    found = []
    for name in atc(terminologies):
        # a name that is English as it stands teaches nothing
        if name.lower() not in substances and len(concepts := substances.get(english_drug(name), set())) == 1:
            found.append((*concepts, name, "de"))
    return found


def mentions(groups: Groups) -> list[Term]:
    """Mentions of the train parts with one MeSH id that the joined names have, without texts of a development part."""
    development = {normalise(query.text) for query in ncbi("develop") + bc5cdr("Development")}
    found, met = [], set()
    for query in ncbi("train") + bc5cdr("Training"):
        if len(query.gold) == 1 and (concept := min(query.gold)) in groups.parent:
            met.add(normalise(query.text))
            if normalise(query.text) not in development:
                found.append((groups.find(concept), query.text, "en"))
    click.echo(f"mentions: {len(met & development)} of {len(met)} texts are in a development part, left out", err=True)
    return found


@click.command()
@click.argument("terminologies", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--held-out", type=click.Path(path_type=Path), help="Where the held-out German and Spanish labels go.")
@click.option("--further", type=click.Path(path_type=Path), help="Folder for the tables of coded terms and mentions.")
def main(terminologies: Path, out: Path, held_out: Path | None, further: Path | None) -> None:
    """Write the joined tables of names."""
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
    joined: list[Term] = []
    held: list[Term] = []
    for concept, name, language, _ in rows:
        if not normalise(name):
            continue
        apart = held_out and held_out_label(concept, language)
        (held if apart else joined).append((groups.find(concept), name, language))
    alpha = alpha_id(terminologies) if further else []
    hidden = [term for term in alpha if held_out_orpha(term[0])]
    allowed = Allowed(held, hidden, groups)
    names = [row for row in joined if allowed(*row)]
    write_table(out, names)
    if held_out:
        write_table(held_out, held)
    if further is None:
        return
    further.mkdir(parents=True, exist_ok=True)
    known = [(groups.find(concept), name, la) for concept, name, la in in_all_forms(alpha) if concept in groups.parent]
    tumours = list(icd_o(terminologies))
    spanish = list(icd_o_spanish(BENCHMARKS))
    coded = [
        *icd_alphabet(terminologies),
        *(term for term, _ in tumours),
        *spanish,
        *codiesp_train(terminologies, BENCHMARKS, distemist_documents()),
    ]
    for title, table in (
        ("alpha", known),
        ("oncology", in_all_forms([*(term for term, exact in tumours if exact), *spanish])),
        ("drugs", drugs(terminologies, names)),
        ("siblings", in_all_forms(map(one_code, coded))),
        ("mentions", mentions(groups)),
    ):
        write_table(further / f"{title}.tsv", (row for row in table if allowed(*row)))
    write_table(further / "held_out_alpha.tsv", hidden)


if __name__ == "__main__":
    main()
