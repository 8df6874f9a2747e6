"""Speed and memory of linking real notes: medlink against scispaCy's candidate generator, in one run.

    python benchmarks/speed.py --work FOLDER

One dictionary (HPO in English, Spanish and German), one list of mentions (those that ``medlink_mentions`` finds in
the notes of the data folder, in order, repeats included). Each linker runs in a process of its own: medlink opens a
bundle that was built before, scispaCy builds its index. scispaCy gets the mentions note by note, as its pipeline
does; medlink in batches of 64 notes, as ``nlp.pipe`` does. The median of five passes over all mentions counts:
scispaCy's in one process, which remembers nothing of them; medlink's each in a new process, because a linker keeps
the concepts of mentions that it met lately. Memory is that of the process at the end (``VmRSS``), of it what belongs to
the process alone (``RssAnon``): pages of medlink's memory-mapped files are shared by all processes that have them open.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
from open_data import DATA, DictionaryRow, hpo_dictionary, mesh_dictionary, write_dictionary

_BATCH = 64
_K = 5
_PASSES = 5


def memory() -> dict[str, float]:
    """Resident memory of this process in MB."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("VmRSS", "RssAnon")):
            found[line.split(":")[0]] = int(line.split()[1]) / 1024
    return found


def run_medlink(work: Path, mentions: list[list[tuple[str, str]]]) -> dict[str, Any]:
    """Open the bundle, link all mentions."""
    start = time.perf_counter()
    import medlink.linking

    imported = time.perf_counter()
    linker = medlink.load(work / "hpo")
    opened = time.perf_counter()
    linker.link(["warm up"])
    begin = time.perf_counter()
    for i in range(0, len(mentions), _BATCH):
        batch = [medlink.Mention(text, language) for note in mentions[i : i + _BATCH] for text, language in note]
        linker.link(batch, k=_K)
    seconds = time.perf_counter() - begin
    return {"import_s": imported - start, "open_s": opened - imported, "link_s": seconds, **memory()}


def run_scispacy(work: Path, mentions: list[list[tuple[str, str]]]) -> dict[str, Any]:
    """Build scispaCy's index with its own settings, generate candidates for all mentions.

    It is built here because what it saves (float16) the installed scipy refuses to write.
    """
    start = time.perf_counter()
    import scispacy.candidate_generation as generation
    from scispacy.linking_utils import Entity, KnowledgeBase

    imported = time.perf_counter()
    names: dict[str, list[str]] = {}
    for line in (work / "hpo.tsv").read_text("utf-8").splitlines()[1:]:
        concept, name, _ = line.split("\t")
        names.setdefault(concept, []).append(name)
    kb = KnowledgeBase([Entity(concept_id=c, canonical_name=n[0], aliases=n[1:]) for c, n in names.items()])
    # the check refuses scipy 1.11 and newer, with which the index builds all the same
    generation.scipy_supports_sparse_float16 = lambda: True
    aliases, vectoriser, index = generation.create_tfidf_ann_index(None, kb)
    generator = generation.CandidateGenerator(index, vectoriser, aliases, kb)
    built = time.perf_counter()
    generator(["warm up"], 30)
    seconds = []
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for note in mentions:
            for found in generator([text for text, _ in note], 30) if note else []:
                sorted(found, key=lambda c: -max(c.similarities))[:_K]
        seconds.append(time.perf_counter() - begin)
    return {"import_s": imported - start, "build_s": built - imported, "link_s": sorted(seconds), **memory()}


def find_mentions(work: Path) -> list[list[tuple[str, str]]]:
    """Mentions of every note with their language."""
    from medlink.spacy_components.pipeline import build_pipeline

    found = []
    for language in ("de", "en", "es"):
        nlp = build_pipeline(work / "hpo", language)
        nlp.remove_pipe("biolord_linker")
        for path in sorted((DATA / "notes" / language).glob("*.txt")):
            doc = nlp(path.read_text("utf-8-sig"))
            found.append([(span.text, language) for span in doc.ents])
    return found


def build_medlink(work: Path, name: str, rows: list[DictionaryRow]) -> float:
    """Build a bundle; returns seconds."""
    # imported here: a child that only links must not find it done
    from medlink.index import build_bundle
    from medlink.kb import Input, build_kb

    begin = time.perf_counter()
    build_kb(work / f"{name}.sqlite", [Input("table", write_dictionary(rows, work / f"{name}.tsv"))])
    build_bundle(work / name, kb=work / f"{name}.sqlite")
    return time.perf_counter() - begin


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for what is built.")
@click.option("--only", type=click.Choice(["medlink", "scispacy", "open"]), hidden=True)
def main(work: Path, only: str | None) -> None:
    """Print the table; with --only run one part in this process."""
    work.mkdir(parents=True, exist_ok=True)
    if only == "open":
        begin = time.perf_counter()
        import medlink

        medlink.load(work / "large").link([])
        click.echo(time.perf_counter() - begin)
        return
    if only is not None:
        mentions = json.loads((work / "mentions.json").read_text("utf-8"))
        run = run_medlink if only == "medlink" else run_scispacy
        click.echo(json.dumps(run(work, mentions)))
        return
    hpo = hpo_dictionary()
    build_s = build_medlink(work, "hpo", hpo)
    mentions = find_mentions(work)
    (work / "mentions.json").write_text(json.dumps(mentions), encoding="utf-8")
    count = sum(map(len, mentions))
    distinct = len({mention for note in mentions for mention in note})

    def child(part: str) -> str:
        command = [sys.executable, __file__, "--work", str(work), "--only", part]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    rows = {"scispacy": json.loads(child("scispacy").splitlines()[-1])}
    passes = sorted((json.loads(child("medlink")) for _ in range(_PASSES)), key=lambda row: row["link_s"])
    rows["medlink"] = {**passes[_PASSES // 2], "link_s": [row["link_s"] for row in passes]}
    rows["medlink"]["build_s"], rows["scispacy"]["open_s"] = build_s, rows["scispacy"]["build_s"]
    click.echo(f"{len(mentions)} notes, {count:,} mentions, {distinct:,} distinct; {len(hpo):,} names\n")
    click.echo("| linker | build s | import s | open s | mentions/s | slowest pass | memory MB | of it own MB |")
    click.echo("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, r in rows.items():
        click.echo(
            f"| {name} | {r['build_s']:.0f} | {r['import_s']:.1f} | {r['open_s']:.2f} "
            f"| {count / r['link_s'][_PASSES // 2]:,.0f} | {count / r['link_s'][-1]:,.0f} "
            f"| {r['VmRSS']:.0f} | {r['RssAnon']:.0f} |"
        )
    a, b = rows["medlink"], rows["scispacy"]
    click.echo(
        f"| ratio | {a['build_s'] / b['build_s']:.2f} | {a['import_s'] / b['import_s']:.2f} "
        f"| {a['open_s'] / b['open_s']:.2f} | {b['link_s'][_PASSES // 2] / a['link_s'][_PASSES // 2]:.1f} "
        f"| {b['link_s'][-1] / a['link_s'][-1]:.1f} "
        f"| {a['VmRSS'] / b['VmRSS']:.2f} | {a['RssAnon'] / b['RssAnon']:.2f} |"
    )
    large = sorted({*hpo, *mesh_dictionary()})
    large_s = build_medlink(work, "large", large)
    seconds = [float(child("open")) for _ in range(5)]
    click.echo(
        f"\nA bundle of {len(large):,} names was built in {large_s:.0f} s and opens in {min(seconds):.2f} to "
        f"{max(seconds):.2f} s, imports included (5 processes)."
    )


if __name__ == "__main__":
    main()
