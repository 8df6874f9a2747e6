"""Lists of local codes mapped to concepts: ``medlink map``, and two rivals that compare letters and words.

    python benchmarks/code_lists.py --work FOLDER [--only laboratory] [--mistakes FILE]

``atc_en``, ``pathology_latin`` and ``procedures_en`` are lists that terminologists mapped to OMOP concepts (data
folder); ``tumours_es`` are the distinct mentions of CANTEMIST's development part, compared without grades; the others
are those of ``gold/codes``. A list is mapped to all concepts of one bundle:

- ``omop``: the 12,429 concepts of ``targets.tsv``, with one English name each
- ``loinc``: the German LOINC, and the English names of 4,176 codes
- ``atc``: the German ATC with all its levels
- ``organisms``: the descriptors of tree B of MeSH, with one name each
- ``icdo``: the German ICD-O-3, morphology and topography

Acc@1 and Acc@5 are over the codes that have a concept. A code without one is right if nothing is proposed; in the
share proposed, in its precision and in the calibration error all codes count. The rivals are scikit-learn's TF-IDF over
three letters in a row and rapidfuzz's ratio of sets of words (of equal scores the name of the nearest length comes
first); a concept has the score of its best name. Bundles stay in FOLDER; take another after a change of
``medlink.index``. Needs the data folder.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from open_data import BENCHMARKS, GOLD, TERMINOLOGIES, cantemist

from medlink.evaluation.measures import calibration_error
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.mapping import map_codes

_K = 5
_NEAR = 500  # nearest names among which five concepts are looked for
_BATCH = 256
Ranked = list[list[str]]
"""For each code the ids of concepts, best first."""
TARGETS_OF = {
    "laboratory": ("loinc", "LOINC:"),
    "procedures": ("omop", ""),
    "drugs": ("atc", "ATC:"),
    "organisms": ("organisms", "MESH:"),
}
"""Bundle and prefix of ids for the files of ``gold/codes``, by the first word of their names."""


@dataclass(frozen=True, slots=True)
class Code:
    """A row of a list; ``gold`` are the ids of all concepts that are right for it, none if no concept is."""

    code: str
    name: str
    language: str
    unit: str
    gold: frozenset[str]


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table with tabs, plain or ``.gz``."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def lists() -> Iterator[tuple[str, str, list[Code]]]:
    """Name, bundle and codes of each list."""
    for path in sorted((BENCHMARKS / "code_lists").glob("*_*.tsv")):
        rows = read_table(path)
        yield path.stem, "omop", [Code(r["code"], r["name"], "", "", frozenset({r["concept_id"]})) for r in rows]
    tumours = enumerate(cantemist("dev"))
    yield "tumours_es", "icdo", [Code(str(n), one.text, one.language, "", one.gold) for n, one in tumours]
    for path in sorted((GOLD / "codes").glob("*.tsv")):
        targets, prefix = TARGETS_OF[path.stem.partition("_")[0]]
        yield (
            path.stem,
            targets,
            [
                Code(
                    str(line),
                    r["name"],
                    r["language"],
                    r["unit"],
                    frozenset(prefix + i for i in filter(None, r["gold"].split("|"))),
                )
                for line, r in enumerate(read_table(path), start=2)
            ],
        )


def organisms() -> dict[str, str]:
    """Name by id of each descriptor in tree B of MeSH."""
    with gzip.open(TERMINOLOGIES / "mesh/mtrees2019.txt.gz", "rt", encoding="utf-8") as file:
        names = {name.strip() for name, _, number in (line.rpartition(";") for line in file) if number.startswith("B")}
    descriptors = json.loads((TERMINOLOGIES / "mesh/mesh2020_dui2canonical.json").read_text("utf-8"))
    return {f"MESH:{descriptor}": name for descriptor, name in sorted(descriptors.items()) if name in names}


def _table(path: Path, rows: Iterable[tuple[str, str, str]]) -> Input:
    """A table of id, English name and semantic type."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("concept_id\tname\tlanguage\tsemantic_type\n")
        for concept, name, kind in rows:
            plain = " ".join(name.replace('"', "''").split())
            file.write(f"{concept}\t{plain}\ten\t{kind}\n" * bool(plain))
    return Input("table", path)


def inputs(targets: str, path: Path) -> list[Input]:
    """What a bundle is made of; ``path`` is where a table may be written."""
    if targets == "omop":
        rows = read_table(BENCHMARKS / "code_lists/targets.tsv")
        return [_table(path, ((r["concept_id"], r["name"], r["domain"]) for r in rows))]
    if targets == "icdo":
        return [Input("claml", one) for one in TERMINOLOGIES.glob("icd_de/icdo*.xml")]
    if targets == "organisms":
        return [_table(path, ((concept, name, "organism") for concept, name in organisms().items()))]
    if targets == "atc":
        return [Input("atc", one) for one in TERMINOLOGIES.glob("atc_de/ATC_*.csv")]
    english = read_table(TERMINOLOGIES / "loinc_en/names.tsv.gz")
    variants = TERMINOLOGIES.glob("loinc_de/*LinguisticVariant.csv")
    return [
        *(Input("loinc", one) for one in variants),
        _table(path, ((f"LOINC:{r['code']}", r["name"], "") for r in english)),
    ]


def bundle(targets: str, work: Path) -> Bundle:
    """The bundle of some targets, built where it is missing."""
    folder = work / targets
    if not (folder / "manifest.json").exists():
        work.mkdir(parents=True, exist_ok=True)
        kb = folder.with_suffix(".sqlite")
        build_kb(kb, inputs(targets, folder.with_suffix(".tsv")))
        build_bundle(folder, kb=kb)
    return Bundle(folder)


def map_list(opened: Bundle, codes: Sequence[Code], work: Path) -> list[dict[str, Any]]:
    """What ``medlink map`` writes for each code, as JSON."""
    table, maps = work / "list.csv", work / "maps.jsonl"
    with open(table, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("code", "name", "language", "unit"))
        writer.writerows((code.code, code.name, code.language, code.unit) for code in codes)
    map_codes(opened, table, out=maps)
    found = {line["id"]: line for line in map(json.loads, maps.read_text("utf-8").splitlines())}
    return [found[code.code] for code in codes]


class Rivals:
    """Rankings of the concepts of a bundle by letters and by words of their names."""

    def __init__(self, opened: Bundle) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        rows = sorted({(name.text, name.concept_id) for name in opened.kb.iter_names()})
        self._names, self._concepts = [text for text, _ in rows], np.array([concept for _, concept in rows])
        self._lengths = np.array([len(name) for name in self._names])
        self._vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32)
        self._known = self._vectoriser.fit_transform(self._names).T.tocsr()

    def tfidf(self, texts: Sequence[str]) -> Ranked:
        """By the cosine of weighted triples of letters."""
        return self._best(texts, lambda part: (self._vectoriser.transform(part) @ self._known).toarray())

    def fuzzy(self, texts: Sequence[str]) -> Ranked:
        """By the ratio of the sets of words."""
        from rapidfuzz import fuzz, process, utils

        names = [utils.default_process(name) for name in self._names]

        def scores(part: Sequence[str]) -> NDArray[np.float32]:
            ratio = process.cdist(
                [utils.default_process(text) for text in part], names, scorer=fuzz.token_set_ratio, dtype=np.float32
            )
            apart = np.abs(self._lengths - np.array([[len(text)] for text in part]))
            return np.where(ratio > 0, ratio - 1e-3 * np.minimum(apart, 999), 0).astype(np.float32)

        return self._best(texts, scores)

    def _best(self, texts: Sequence[str], scores: Callable[[Sequence[str]], NDArray[np.float32]]) -> Ranked:
        found = []
        for start in range(0, len(texts), _BATCH):
            for row in scores(texts[start : start + _BATCH]):
                near = np.argpartition(-row, min(_NEAR, len(row) - 1))[:_NEAR]
                near = near[np.lexsort((near, -row[near]))]
                found.append(list(dict.fromkeys(self._concepts[near[row[near] > 0]].tolist()))[:_K])
        return found


def accuracies(codes: Sequence[Code], ranked: Ranked) -> list[str]:
    """Acc@1 and Acc@5 over the codes that have a concept."""
    pairs = [(code.gold, found) for code, found in zip(codes, ranked, strict=True) if code.gold]
    return [f"{np.mean([not gold.isdisjoint(found[:k]) for gold, found in pairs]):.3f}" for k in (1, _K)]


def proposal_cells(codes: Sequence[Code], maps: Sequence[dict[str, Any]]) -> list[str]:
    """Share proposed, its precision, calibration error, and the share of codes without a concept that stay so."""
    proposed = np.array([line["concept_id"] is not None for line in maps])
    firsts = [line["candidates"][0]["concept_id"] if line["candidates"] else "" for line in maps]
    right = np.array([first in code.gold for first, code in zip(firsts, codes, strict=True)])
    scores = np.array([line["score"] for line in maps])
    nil = np.array([not code.gold for code in codes])
    return [
        f"{proposed.mean():.3f}",
        f"{right[proposed].mean():.3f}" if proposed.any() else "-",
        f"{calibration_error(scores, right):.3f}",
        f"{(~proposed[nil]).mean():.3f}" if nil.any() else "-",
    ]


def mistakes(title: str, opened: Bundle, codes: Sequence[Code], maps: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """A row for each code whose first candidate is wrong, or that has no concept and a proposal."""
    names = opened.kb.preferred_names({concept for code in codes for concept in code.gold}, "en")
    for code, line in zip(codes, maps, strict=True):
        candidates = line["candidates"]
        if code.gold.isdisjoint(c["concept_id"] for c in candidates[:1]) and (code.gold or line["concept_id"]):
            gold = " | ".join(f"{concept} {names.get(concept, '?')}" for concept in sorted(code.gold))
            first = [
                f"{c['score']:.3f} {c['concept_id']} {c['preferred_name']} [{c['route']}]" for c in candidates[:_K]
            ]
            yield [title, code.code, code.name, code.language, code.unit, gold, line["status"], *first]


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder for the bundles.")
@click.option("--only", multiple=True, help="Part of the name of a list; the others are left out. May be repeated.")
@click.option("--mistakes", "errors", type=click.File("w", encoding="utf-8"), help="TSV file for the wrong codes.")
def main(work: Path, only: tuple[str, ...], errors: Any) -> None:
    """Print the table."""
    if not TERMINOLOGIES.is_dir():
        raise click.ClickException(f"there is no folder {TERMINOLOGIES}")
    columns = ["codes", "without a concept", "medlink @1", "@5", "TF-IDF @1", "@5", "rapidfuzz @1", "@5"]
    columns += ["proposed", "right of these", "calibration error", "without a concept: not proposed"]
    click.echo(f"| list | targets | {' | '.join(columns)} |\n|---|---|{'---:|' * len(columns)}")
    rivals: dict[str, Rivals] = {}
    if errors:
        errors.write("\t".join(("list", "code", "name", "language", "unit", "gold", "status", *"12345")) + "\n")
    for title, targets, codes in lists():
        if only and not any(part in title for part in only):
            continue
        opened = bundle(targets, work)
        if targets not in rivals:
            rivals = {targets: Rivals(opened)}
        maps, texts = map_list(opened, codes, work), [code.name for code in codes]
        ranked = [[candidate["concept_id"] for candidate in line["candidates"]] for line in maps]
        cells = [str(len(codes)), str(sum(not code.gold for code in codes)), *accuracies(codes, ranked)]
        cells += accuracies(codes, rivals[targets].tfidf(texts)) + accuracies(codes, rivals[targets].fuzzy(texts))
        click.echo(f"| {title} | {targets} | {' | '.join([*cells, *proposal_cells(codes, maps)])} |")
        if errors:
            errors.writelines("\t".join(row) + "\n" for row in mistakes(title, opened, codes, maps))


if __name__ == "__main__":
    main()
