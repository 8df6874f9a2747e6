"""Encoders, the linker and programs of others on all development sets, by ``suite.py``, in one report.

    python benchmarks/evaluation.py --work FOLDER [--encoder NAME=FOLDER] [--peers FOLDER] [--sample 300]

The mentions are those of ``accuracy.py``, each distinct one once; texts those of ``annotated.py``; pairs EHR-Rel-A and
STS-B. Peers are TF-IDF and rapidfuzz, and those that ``--peers`` has (``peers/install.sh``), for the languages that
they read. What is printed is the first measure of each set; ``FOLDER/report`` has the rest. Needs the data folder.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from accuracy import DICTIONARIES
from accuracy import SETS as MENTIONS
from annotated import SETS as TEXTS
from open_data import BENCHMARKS, DATA, write_dictionary
from rivals import LANGUAGES, PROGRAMS
from suite import Entry, Peer, Suite, evaluate

from medlink.evaluation.notes import GoldText
from medlink.index import build_bundle
from medlink.kb import Input, build_kb

STS = ("en", "de", "es")
_SLOW = 7200
PYTHON_PEERS = {"TF-IDF": ["rank_tfidf.py"], "rapidfuzz": ["rank_names.py", "rapidfuzz"]}


def bundle(work: Path, name: str) -> str:
    """A bundle of a dictionary, built where it is missing."""
    folder = work / name
    if not folder.exists():
        table = write_dictionary(DICTIONARIES[name](), folder.with_suffix(".tsv"))
        build_kb(folder.with_suffix(".sqlite"), [Input("table", table)])
        build_bundle(folder, kb=folder.with_suffix(".sqlite"))
    return str(folder.absolute())


def plain(text: GoldText) -> dict[str, Any]:
    """A text as ``medlink evaluate notes`` reads it."""
    findings = [
        {"pieces": one.pieces, "concepts": sorted(one.concepts)}
        | {field: getattr(one.qualifiers, field) for field in text.annotated_fields}
        for one in text.findings
    ]
    # concepts without a place
    there = {concept for one in text.findings for concept in one.concepts}
    findings += [
        {"concepts": [one], "presence": "present" if one in text.affirmed else "absent"}
        for one in sorted(text.concepts - there)
    ]
    head = {"id": text.name, "language": text.language, "text": text.text, "complete": text.complete and text.has_spans}
    return {**head, "findings": findings}


def tasks(
    work: Path, sample: int, readers: dict[str, tuple[str, ...]], encoders: list[str]
) -> Iterator[dict[str, Any]]:
    """The tasks of the report; ``readers`` are peers by name with the languages that they read."""
    for number, (title, (name, read)) in enumerate(MENTIONS.items()):
        queries, path = read(), work / f"mentions-{number}.tsv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
            table.writerow(("concept_id", "mention", "language"))
            table.writerows(
                ("|".join(sorted(one.gold)), " ".join(one.search_text.split()), one.language) for one in queries
            )
        language = Counter(one.language for one in queries).most_common(1)[0][0]
        systems = [name, *encoders, *(peer for peer, known in readers.items() if language in known)]
        options = {"distinct": True, "sample": sample}
        yield {"task": "linking", "title": title, "inputs": [path.name], "options": options, "systems": systems}
    for number, (title, read_texts) in enumerate(TEXTS.items()):
        path = work / f"texts-{number}.jsonl"
        path.write_text("".join(json.dumps(plain(text)) + "\n" for text in read_texts()), "utf-8")
        yield {"task": "notes", "title": title, "inputs": [path.name], "systems": ["hpo"]}
    pairs = {"EHR-Rel-A": ("similarity", "ehr_rel/EHR-RelA.tsv")}
    pairs |= {f"STS-B dev, {tag}": ("sts", f"stsb/stsb-{tag}-dev.csv") for tag in STS}
    for title, (task, file) in pairs.items():
        yield {"task": task, "title": title, "inputs": [str(BENCHMARKS.absolute() / file)]}
    leaves, options = work / "leaves.sqlite", {"sample": sample, "languages": "en"}
    if not leaves.exists():  # the dictionary has names alone
        build_kb(leaves, [Input("obograph", DATA / "terminologies/hpo/hp.v2024-08-13.json.gz")])
    systems = [*encoders, *(peer for peer in readers if peer in PYTHON_PEERS)]
    yield {
        "task": "leaf-to-parent",
        "title": "HPO, leaf to parent",
        "inputs": [leaves.name],
        "options": options,
        "systems": systems,
    }


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for bundles, sets and the report.")
@click.option("--encoder", "further", multiple=True, help="NAME=FOLDER of an encoder beside the built-in one.")
@click.option("--peers", envvar="MEDLINK_PEERS", type=click.Path(path_type=Path), help="Folder of the rivals.")
@click.option("--sample", default=300, show_default=True, help="Mentions of each set.")
@click.option("--only", multiple=True, help="Part of a title; other tasks are left out. May be repeated.")
def main(work: Path, further: tuple[str, ...], peers: Path | None, sample: int, only: tuple[str, ...]) -> None:
    """Run the evaluation, and print the first measure of each set."""
    work.mkdir(parents=True, exist_ok=True)
    named = dict(one.split("=", 1) for one in further)
    encoders = {"built-in": "builtin"} | {name: str(Path(folder).absolute()) for name, folder in named.items()}
    commands = {name: [sys.executable, *words] for name, words in PYTHON_PEERS.items()}
    readers = dict.fromkeys(commands, ("de", "en", "es"))
    for name, languages in LANGUAGES.items():
        python = peers / name / "bin/python" if peers else Path(name)
        if python.exists():
            commands[name], readers[name] = [str(python.absolute()), "rank_names.py", name], languages
    for command in commands.values():
        command[1] = str(PROGRAMS / command[1])
    wanted = tasks(work, sample, readers, list(encoders))
    every = [one for one in wanted if not only or any(part.lower() in one["title"].lower() for part in only)]
    bundles = {
        name: bundle(work, name) for name in DICTIONARIES if any(name in one.get("systems", ()) for one in every)
    }
    peers = {name: Peer(command=tuple(words), limit=_SLOW) for name, words in commands.items()}
    entries = tuple(Entry(**one) for one in every)
    shutil.rmtree(work / "report", ignore_errors=True)
    suite = Suite(folder=work.absolute(), encoders=encoders, bundles=bundles, peers=peers, tasks=entries)
    outcomes, rows = evaluate(suite, work / "report")
    click.echo("| set | measure | items | system | value | 95 % | p |\n|---|---|---:|---|---:|---|---:|")
    last = {row["title"]: row["group"] for row in rows}
    first = {row["title"]: row["measure"] for row in reversed(rows)}
    for row in rows:
        if (row["measure"], row["group"]) == (first[row["title"]], last[row["title"]]):
            value, low, high = (f"{row[name]:.3f}" for name in ("value", "low", "high"))
            cells = row["title"], row["measure"], str(row["items"]), row["system"], value, f"{low} to {high}"
            click.echo(f"| {' | '.join(cells)} | {'' if row['p'] is None else format(row['p'], '.3f')} |")
    for one in outcomes:
        if one.error:
            click.echo(f"\n{one.entry.title}, {one.system}: {one.error}")


if __name__ == "__main__":
    main()
