"""Codes of Spanish cases: ICD-10-CM diagnoses of CodiEsp, learned from its train part, measured on its dev part.

    python benchmarks/codiesp.py --work FOLDER

The bundle has the English titles of ICD-10-CM; a code without a title has that of the code above it. A code counts if
the annotators gave it to the case, wherever its words are. *Linked* are the concepts of the linked mentions, whether
negated or not, *affirmed* those that the patient has, *note* the codes of the note as a whole
(:mod:`medlink.notes.coding`). Categories are the first three characters of the codes. Needs the data folder.
"""

from __future__ import annotations

import csv
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from open_data import BENCHMARKS, DATA, write_dictionary

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.learning import learn
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note

CORPUS = BENCHMARKS / "codiesp"
SYSTEM = "ICD10CM:"
_BATCH = 32
Codes = Mapping[str, set[str]]


def diagnoses(part: str) -> Iterator[tuple[str, str, str]]:
    """Case, code and offsets of each annotated diagnosis."""
    for line in (CORPUS / part / f"{part}X.tsv").read_text("utf-8").splitlines():
        case, kind, code, _, offsets = line.split("\t")
        if kind == "DIAGNOSTICO":
            yield case, code.upper(), offsets


def cases(part: str) -> dict[str, str]:
    paths = sorted((CORPUS / part / "text_files").glob("*.txt"))
    return {path.stem: path.read_bytes().decode("utf-8-sig") for path in paths}


def icd_bundle(work: Path) -> Bundle:
    """A bundle of the titles, built where it is missing."""
    folder = work / "icd10cm"
    if not folder.exists():
        work.mkdir(parents=True, exist_ok=True)
        with open(DATA / "terminologies/icd10cm/categories.csv", encoding="utf-8", newline="") as file:
            titles = {row[0]: row[1] for row in csv.reader(file)}
        for code in sorted({code.replace(".", "") for _, code, _ in diagnoses("train")} - titles.keys()):
            titles[code] = next(titles[code[:n]] for n in range(len(code), 0, -1) if code[:n] in titles)
        rows = [(f"{SYSTEM}{code[:3]}{'.' * (len(code) > 3)}{code[3:]}", title, "en") for code, title in titles.items()]
        kb = folder.with_suffix(".sqlite")
        build_kb(kb, [Input("table", write_dictionary(rows, folder.with_suffix(".tsv")))])
        build_bundle(folder, kb=kb)
    return Bundle(folder)


def write_brat(folder: Path, part: str) -> None:
    """Cases of a part with their diagnoses as brat standoff."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = defaultdict[str, list[str]](list)
    texts = cases(part)
    for number, (case, code, offsets) in enumerate(diagnoses(part)):
        pieces = sorted(tuple(map(int, piece.split())) for piece in offsets.split(";"))
        words = " ".join(" ".join(texts[case][start:end] for start, end in pieces).split())
        places = ";".join(f"{start} {end}" for start, end in pieces)
        lines[case].append(f"T{number}\tDiagnosis {places}\t{words}\nN{number}\tReference T{number} {SYSTEM}{code}\n")
    for case, text in texts.items():
        (folder / f"{case}.txt").write_bytes(text.encode())
        (folder / f"{case}.ann").write_text("".join(lines[case]), "utf-8")


def read_codes(notes: Mapping[str, LinkedNote]) -> dict[str, Codes]:
    """The codes of notes by kind."""
    kinds: dict[str, dict[str, set[str]]] = {"linked": {}, "affirmed": {}, "note": {}}
    for case, note in notes.items():
        linked = [mention for mention in note.mentions if mention.link.concept_id is not None]
        affirmed = [mention for mention in linked if mention.qualifiers is None or mention.qualifiers.is_present]
        kinds["linked"][case] = {str(mention.link.concept_id) for mention in linked}
        kinds["affirmed"][case] = {str(mention.link.concept_id) for mention in affirmed}
        kinds["note"][case] = {code.concept_id for code in note.codes}
    return {kind: codes for kind, codes in kinds.items() if any(codes.values())}


def scores(found: Codes, gold: Codes, characters: int | None = None) -> list[str]:
    """Precision, recall and F1 of all codes of all cases, cut to a number of characters behind the system."""
    stop = None if characters is None else len(SYSTEM) + characters
    pairs, wanted = ({(case, code[:stop]) for case, own in codes.items() for code in own} for codes in (found, gold))
    right = len(pairs & wanted)
    return [f"{right / len(pairs):.3f}", f"{right / len(wanted):.3f}", f"{2 * right / (len(pairs) + len(wanted)):.3f}"]


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
def main(work: Path) -> None:
    """Print the table."""
    bundle = icd_bundle(work)
    write_brat(work / "train", "train")
    gold = defaultdict[str, set[str]](set)
    for case, code, _ in diagnoses("dev"):
        gold[case].add(SYSTEM + code)
    notes = [Note(case, text, "es") for case, text in cases("dev").items()]
    columns = ["learned from", "codes", "P", "R", "F1", "P of categories", "R", "F1", "learning, s", "linking, s"]
    click.echo(f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 2)}")
    for title, least in (("nothing", 0), ("train", 2), ("train, `--least-seen 1`", 1)):
        options, begin = {}, time.perf_counter()
        if least:
            learn(bundle, [work / "train"], work / "learned.jsonl", language="es", least_seen=least)
            options["learned"] = str(work / "learned.jsonl")
        taught = time.perf_counter()
        pipeline, linked = NotePipeline(bundle, language="es", **options), dict[str, LinkedNote]()
        for start in range(0, len(notes), _BATCH):
            linked.update((note.note.note_id, note) for note in pipeline.link(notes[start : start + _BATCH]))
        times = [f"{taught - begin:.0f}", f"{time.perf_counter() - taught:.0f}"]
        for kind, found in read_codes(linked).items():
            cells = [*scores(found, gold), *scores(found, gold, 3), *times]
            click.echo(f"| {title} | {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
