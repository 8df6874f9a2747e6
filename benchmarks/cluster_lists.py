"""Lists of terms with the concept of each: what people wrote, and names of terminologies with lonely ones among them.

A term stands once, without regard to case, and only where it has one concept. Lists of people come from annotated
texts; *broader* gives, of a concept, those that it is a kind of: by the tree numbers of MeSH, or by the is-a relations
of an ontology.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from classifications import alpha_id
from open_data import TERMINOLOGIES, Query, bc5cdr, distemist_rows, ncbi, notes_gold
from open_sources import ssslm, translations

from medlink.language.text import normalise

Row = tuple[str, str, str]  # term, language, concept
Broader = Mapping[str, Collection[str]]
ONTOLOGIES = {"hpo": "HP:", "doid": "DOID:", "ncit_disease": "NCIT:", "ordo": "ORPHANET:"}
_LENGTHS = range(2, 121)  # characters of the names of made lists
_NAMES = (2, 2, 3, 4, 6)  # names that a concept has which is not alone, drawn from these
_RUN = 6  # codes in a row
_AROUND = 2  # children, and siblings of each parent, that come with a concept


class TermList(NamedTuple):
    """Terms with their concepts, and what each concept is a kind of."""

    rows: list[Row]
    broader: Broader


def once(rows: Iterable[Row]) -> list[Row]:
    """Each term once, those of several concepts left out, sorted.

    >>> once([("Fever", "en", "1"), ("fever", "en", "1"), ("MS", "en", "2"), ("ms", "en", "3")])
    [('Fever', 'en', '1')]
    """
    concepts: dict[str, set[str]] = defaultdict(set)
    spelled: dict[str, tuple[str, str]] = {}
    for text, language, concept in rows:
        term = " ".join(text.split())
        if len(term) > 1:
            concepts[term.lower()].add(concept)
            spelled.setdefault(term.lower(), (term, language))
    return sorted((*spelled[term], *of) for term, of in concepts.items() if len(of) == 1)


def written_by_people(part: str) -> dict[str, TermList]:
    """Lists of mentions: those of the ``fit`` part or of the ``report`` part.

    DisTEMIST has one part, so that its documents are halved by a hash of their names.
    """
    fit = part == "fit"
    broader = mesh_broader()

    def mentions(queries: Iterable[Query]) -> TermList:
        return TermList(
            once((q.text, q.language, "+".join(sorted(q.gold))) for q in queries if q.gold != {"-1"}), broader
        )

    cdr = "Training" if fit else "Development"
    found = {
        "NCBI-disease, diseases (en)": mentions(ncbi("train" if fit else "develop")),
        "BC5CDR, diseases (en)": mentions(bc5cdr(cdr)),
        "BC5CDR, chemicals (en)": mentions(bc5cdr(cdr, ("Chemical",))),
        "DisTEMIST, half of the documents (es)": TermList(_distemist(int(not fit)), _distemist_broader(broader)),
    }
    if fit:
        rows = [row for name in ("NCBI-disease, diseases (en)", "BC5CDR, diseases (en)") for row in found[name].rows]
        rows += [
            (row["span"], "es", f"MESH:{row['mesh_code']}") for row in _distemist_half(0) if row["mesh_code"] != "None"
        ]
        found["diseases of the three (en, es)"] = TermList(once(rows), broader)
    else:
        gold = [(q.text, q.language, min(q.gold)) for language in ("de", "es", "en") for q in notes_gold(language)]
        found["notes, findings (de, es, en)"] = TermList(once(gold), ancestors(ontology("hpo")[1]))
    return found


def _distemist(half: int) -> list[Row]:
    return once((row["span"], "es", row["code"]) for row in _distemist_half(half))


def _distemist_half(half: int) -> list[dict[str, str]]:
    return [
        row
        for row in distemist_rows()
        if row["semantic_rel"] == "EXACT" and zlib.crc32(row["filename"].encode()) % 2 == half
    ]


def _distemist_broader(mesh: Broader) -> Broader:
    """What a code is a kind of, by the MeSH codes that are given for both."""
    codes = {row["code"]: f"MESH:{row['mesh_code']}" for row in distemist_rows() if row["mesh_code"] != "None"}
    of: dict[str, set[str]] = defaultdict(set)
    for code, concept in codes.items():
        of[concept].add(code)
    return {code: {one for above in mesh.get(concept, ()) for one in of[above]} for code, concept in codes.items()}


def mesh_broader() -> Broader:
    """The descriptors above each descriptor in the trees of MeSH."""
    names = json.loads((TERMINOLOGIES / "mesh/mesh2020_dui2canonical.json").read_text("utf-8"))
    concept_of = {name.lower(): f"MESH:{concept}" for concept, name in names.items()}
    numbers: dict[str, str] = {}
    with gzip.open(TERMINOLOGIES / "mesh/mtrees2019.txt.gz", "rt", encoding="utf-8") as file:
        for line in file:
            name, _, number = line.strip().rpartition(";")
            if name.lower() in concept_of:
                numbers[number] = concept_of[name.lower()]
    found: dict[str, set[str]] = defaultdict(set)
    for number, concept in numbers.items():
        parts = number.split(".")
        above = (".".join(parts[:end]) for end in range(1, len(parts)))
        found[concept] |= {numbers[one] for one in above if one in numbers} - {concept}
    return found


def ontology(name: str) -> tuple[dict[str, list[tuple[str, str]]], dict[str, set[str]]]:
    """Names with their languages, and the parents, of the concepts of an ontology in use."""
    names: dict[str, dict[str, str]] = defaultdict(dict)
    parents: dict[str, set[str]] = defaultdict(set)

    def concept(iri: str) -> str:
        return iri.rsplit("/", 1)[-1].replace("_", ":").upper()

    for path in sorted(TERMINOLOGIES.glob(f"{name}/*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            graph = json.load(file)["graphs"][0]
        for node in graph["nodes"]:
            meta, label = node.get("meta", {}), node.get("lbl") or ""
            known = concept(node["id"]).startswith(ONTOLOGIES[name]) and node.get("type") == "CLASS"
            if not known or not label or meta.get("deprecated") or label.lower().startswith("obsolete"):
                continue
            exact = [one["val"] for one in meta.get("synonyms", []) if one["pred"] == "hasExactSynonym"]
            names[concept(node["id"])].update(dict.fromkeys([label, *exact], "en"))
        for edge in graph["edges"]:
            if edge["pred"] == "is_a":
                parents[concept(edge["sub"])].add(concept(edge["obj"]))
    for one, text, language, _ in translations(TERMINOLOGIES):
        if one in names:
            names[one].setdefault(text, language)
    inside = {one: parents[one] & names.keys() for one in names}
    return {one: list(texts.items()) for one, texts in names.items()}, inside


def ancestors(parents: Mapping[str, set[str]]) -> Broader:
    """All concepts above each concept."""
    found: dict[str, set[str]] = {}
    for concept in parents:
        above, queue = set[str](), list(parents[concept])
        while queue:
            one = queue.pop()
            if one not in above:
                above.add(one)
                queue += parents.get(one, ())
        found[concept] = above - {concept}
    return found


def held_out(concept: str) -> bool:
    """Whether a concept is one of the quarter that no weight is fitted on."""
    return zlib.crc32(f"cluster {concept}".encode()) % 4 == 0


def made(
    name: str, met: Callable[[str], bool], rng: random.Random, *, size: int, lonely: float, held: bool = False
) -> TermList:
    """Names of concepts that lie near each other in an ontology: some at random, with parents, children and siblings.

    A concept has one name with a probability of ``lonely``, names first that nobody has ``met``. Concepts are those
    that are :func:`held_out`, or the others.
    """
    names, parents = ontology(name)
    inside = {one for one in names if held_out(one) == held}
    children: dict[str, set[str]] = defaultdict(set)
    for concept in sorted(inside):
        for parent in parents[concept] & inside:
            children[parent].add(concept)
    rows: dict[str, Row] = {}
    seen: set[str] = set()

    def add(concept: str) -> None:
        if concept in seen:
            return
        seen.add(concept)
        own = names[concept]
        fresh = [one for one in own if not met(one[0])] or list(own)
        rng.shuffle(fresh)
        count = 1 if rng.random() < lonely else rng.choice(_NAMES)
        for text, language in fresh[:count]:
            if len(text) in _LENGTHS:
                rows.setdefault(text.lower(), (text, language, concept))

    order = sorted(one for one in inside if not all(met(text) for text, _ in names[one]))
    rng.shuffle(order)
    for concept in order:
        if len(rows) >= size:
            break
        above = sorted(parents[concept] & inside)
        around = [children[concept], *(children[one] for one in above)]
        add(concept)
        for one in [*above, *(o for some in around for o in rng.sample(sorted(some), min(_AROUND, len(some))))]:
            add(one)
    return TermList(once(rows.values()), ancestors(parents))


def code_lists(rng: random.Random, size: int) -> dict[str, TermList]:
    """Lists as classifications have them: neighbours in the order of their codes, so that most are siblings.

    Drugs, procedures and diagnoses have one name for each code, laboratory values German and English ones, anatomy
    synonyms, and the German rare diseases of Alpha-ID-SE several terms for each ORPHA code.
    """
    drugs = _table("atc_de/ATC_*.csv", "\t")
    laboratory = [(code, name, "en") for code, name in _table("loinc_en/names.tsv.gz", "\t")]
    for row in _table("loinc_de/*.csv", ","):
        laboratory.append((row[0], row[9] or row[1], "de"))
    both = {code for code, _, language in laboratory if language == "en"}
    sources: dict[str, list[tuple[str, str, str]]] = {
        "drugs (de)": [(name.lower(), name, "de") for code, _, name, *_ in drugs if len(code.strip()) == 7],
        "procedures (en)": [(code, name, "en") for code, name in _table("icd10pcs/codes.tsv.gz", "\t")],
        "diagnoses (en)": [(code, name, "en") for code, name, *_ in _table("icd10cm/categories.csv", ",")],
        "laboratory (de, en)": [row for row in laboratory if row[0] in both],
        "anatomy (en)": [(one, name, "en") for one, name, _, _ in ssslm(TERMINOLOGIES / "names/anatomy.ssslm.tsv.gz")],
        "rare diseases (de)": list(alpha_id(TERMINOLOGIES)),
    }
    return {name: TermList(_neighbours(rows, rng, size), {}) for name, rows in sources.items()}


def _table(pattern: str, delimiter: str) -> list[list[str]]:
    """Rows of a table of a terminology."""
    (path,) = TERMINOLOGIES.glob(pattern)
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
        return [row for row in csv.reader(file, delimiter=delimiter) if len(row) > 1]


def _neighbours(rows: Iterable[tuple[str, str, str]], rng: random.Random, size: int) -> list[Row]:
    """Names of runs of codes, without those that only repeat the name of another."""
    names: dict[str, list[Row]] = defaultdict(list)
    for code, name, language in rows:
        if len(name) in _LENGTHS:
            names[code].append((name, language, code))
    order, found = sorted(names), list[Row]()
    for start in rng.sample(range(len(order)), len(order)):
        if len(found) >= size:
            break
        found += [row for code in order[start : start + _RUN] for row in names[code]]
    return once(found)


def thinned(listed: TermList, rng: random.Random) -> TermList:
    """Some of the concepts of a list, a share of them with one term alone."""
    lonely, share = rng.uniform(0.3, 0.95), rng.uniform(0.4, 1)
    concepts: dict[str, list[Row]] = defaultdict(list)
    for row in listed.rows:
        concepts[row[2]].append(row)
    rows: list[Row] = []
    for concept in sorted(concepts):
        if rng.random() < share:
            terms = concepts[concept]
            rows += [rng.choice(terms)] if rng.random() < lonely else terms
    return TermList(sorted(rows), listed.broader)


def names_met(path: str) -> Callable[[str], bool]:
    """Whether a name stands in a table of names, which an encoder was trained on."""
    with open(path, encoding="utf-8") as file:
        column = next(file).rstrip("\n").split("\t").index("name")
        met = {normalise(line.rstrip("\n").split("\t")[column]) for line in file}
    return lambda text: normalise(text) in met
