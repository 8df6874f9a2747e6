"""Speed and memory of linking: medlink against scispaCy's candidate generator, in one run.

    python benchmarks/speed.py --work FOLDER

One dictionary (HPO in English, Spanish and German) and kinds of mentions, because they cost differently:

- what medlink's own finder takes from the notes of the data folder, in order, repeats included;
- of these, those that are names of the dictionary, to the letter or inflected: medlink looks such a mention up and
  searches for nothing;
- no names: distinct mentions of the benchmarks (DisTEMIST, the German terms, NCBI-disease and BC5CDR) of which no form
  is a name of the dictionary. Both linkers have to search.

Building is compared with building and opening with opening: each linker builds and saves in one process and opens what
it saved in another (scispaCy as in ``peers/scispacy_index.py``).

scispaCy gets the mentions note by note, as its pipeline does, or 64 at a time where there are no notes; medlink in
batches of 64 notes, as ``nlp.pipe`` does. The table has the median of five passes: scispaCy's in one process, as it
caches nothing; medlink's each in a new process, because a linker caches the concepts of recent mentions.
Memory is that of the process at the end (``VmRSS``), of it what belongs to the process alone (``RssAnon``): pages of
medlink's memory-mapped files are shared by all processes that have them open.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import Any

import click
from open_data import (
    DATA,
    DictionaryRow,
    bc5cdr,
    distemist_spans,
    german_terms,
    hpo_dictionary,
    mesh_dictionary,
    ncbi,
    write_dictionary,
)
from peers.scispacy_index import build_index, open_index

Notes = list[list[tuple[str, str]]]  # text and language of each mention, by note

_BATCH = 64
_K = 5
_PASSES = 5
_OTHERS = 1000  # mentions that are no names, of each language at most


def memory() -> dict[str, float]:
    """Resident memory of this process in MB."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("VmRSS", "RssAnon")):
            found[line.split(":")[0]] = int(line.split()[1]) / 1024
    return found


def run_medlink(work: Path, notes: Notes) -> dict[str, Any]:
    """Open the bundle, link all mentions once."""
    start = time.perf_counter()
    import medlink

    linker = medlink.load(work / "bundle")
    open_s = time.perf_counter() - start
    linker.link(["warm up"])
    begin = time.perf_counter()
    for i in range(0, len(notes), _BATCH):
        batch = [medlink.Mention(text, language) for note in notes[i : i + _BATCH] for text, language in note]
        linker.link(batch, k=_K)
    seconds = time.perf_counter() - begin
    return {"open_s": open_s, "link_s": [seconds], **memory()}


def build_scispacy(work: Path, notes: Notes) -> dict[str, Any]:
    """Build scispaCy's knowledge base and index with its own settings, and save both."""
    begin = time.perf_counter()
    rows = (line.split("\t") for line in (work / "names.tsv").read_text("utf-8").splitlines()[1:])
    folder = work / "scispacy"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    build_index(((concept, name) for concept, name, _ in rows), folder)
    return {"build_s": time.perf_counter() - begin}


def run_scispacy(work: Path, notes: Notes) -> dict[str, Any]:
    """Open what scispaCy saved, generate candidates for all mentions, five times."""
    start = time.perf_counter()
    generator = open_index(work / "scispacy")
    open_s = time.perf_counter() - start
    generator(["warm up"], 30)
    seconds = []
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for note in notes:
            for found in generator([text for text, _ in note], 30) if note else []:
                sorted(found, key=lambda c: -max(c.similarities))[:_K]
        seconds.append(time.perf_counter() - begin)
    return {"open_s": open_s, "link_s": sorted(seconds), **memory()}


def open_large(work: Path, notes: Notes) -> dict[str, Any]:
    """Seconds to import medlink and open the large bundle."""
    begin = time.perf_counter()
    import medlink

    medlink.load(work / "bundle").link([])
    return {"open_s": time.perf_counter() - begin}


PARTS = {"medlink": run_medlink, "scispacy": run_scispacy, "build-scispacy": build_scispacy, "open": open_large}


def found_in_notes(bundle: Path) -> Notes:
    """Mentions that medlink's own finder takes from the notes, with their language."""
    from medlink.spacy_components.pipeline import build_pipeline

    found = []
    for language in ("de", "en", "es"):
        nlp = build_pipeline(bundle, language)
        nlp.remove_pipe("biolord_linker")
        for path in sorted((DATA / "notes" / language).glob("*.txt")):
            doc = nlp(path.read_text("utf-8-sig"))
            found.append([(span.text, language) for span in doc.ents])
    return found


def are_names(bundle: Path, mentions: list[tuple[str, str]]) -> list[bool]:
    """Whether the exact or an inflected form of each mention is a name."""
    import medlink

    links = medlink.load(bundle).link([medlink.Mention(*mention) for mention in mentions], k=1)
    return [bool(link.candidates) and link.candidates[0].route in ("exact", "inflected") for link in links]


def names_of(bundle: Path, notes: Notes) -> Notes:
    """The mentions of notes that are names, by note."""
    distinct = sorted({mention for note in notes for mention in note})
    names = set(compress(distinct, are_names(bundle, distinct)))
    return [[mention for mention in note if mention in names] for note in notes]


def no_names(bundle: Path, texts: Iterator[str], language: str) -> Notes:
    """Distinct mentions that are no names, in groups of 64."""
    distinct = [(text, language) for text in sorted(set(texts))]
    random.Random(1).shuffle(distinct)
    others = [mention for mention, is_name in zip(distinct, are_names(bundle, distinct), strict=True) if not is_name]
    return [others[i : min(i + _BATCH, _OTHERS)] for i in range(0, min(len(others), _OTHERS), _BATCH)]


def build_medlink(work: Path, rows: list[DictionaryRow]) -> float:
    """Write the names and build a bundle of them; returns seconds."""
    # imported here: a process that only links must not find it done
    from medlink.index import build_bundle
    from medlink.kb import Input, build_kb

    work.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    build_kb(work / "kb.sqlite", [Input("table", write_dictionary(rows, work / "names.tsv"))])
    build_bundle(work / "bundle", kb=work / "kb.sqlite")
    return time.perf_counter() - begin


def child(part: str, work: Path, notes: Notes | None = None) -> dict[str, Any]:
    """Run one part in a process of its own."""
    (work / "mentions.json").write_text(json.dumps(notes or []), encoding="utf-8")
    command = [sys.executable, __file__, "--work", str(work), "--only", part]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(work: Path, build_s: float, kinds: dict[str, Notes]) -> Iterator[str]:
    """Lines of the table: both linkers on each kind of mentions, and what building and opening cost.

    Args:
        work: folder with medlink's bundle and the names it was built from.
        build_s: seconds that building the bundle took.
        kinds: mentions by what they are.
    """
    built = {"scispaCy": child("build-scispacy", work)["build_s"], "medlink": build_s}
    runs: dict[str, dict[str, dict[str, Any]]] = {"scispaCy": {}, "medlink": {}}
    yield (
        "| mentions | number | distinct | scispaCy, a second | medlink, a second | ratio "
        "| slowest pass: scispaCy | medlink |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for kind, notes in kinds.items():
        count, distinct = sum(map(len, notes)), len({mention for note in notes for mention in note})
        rival = child("scispacy", work, notes)
        passes = sorted((child("medlink", work, notes) for _ in range(_PASSES)), key=lambda run: run["link_s"])
        ours = {**passes[_PASSES // 2], "link_s": [run["link_s"][0] for run in passes]}
        runs["scispaCy"][kind], runs["medlink"][kind] = rival, ours
        middle, last = ([run["link_s"][i] for run in (rival, ours)] for i in (_PASSES // 2, -1))
        yield (
            f"| {kind} | {count:,} | {distinct:,} | {count / middle[0]:,.0f} | {count / middle[1]:,.0f} "
            f"| {middle[0] / middle[1]:.1f} | {count / last[0]:,.0f} | {count / last[1]:,.0f} |"
        )
    yield ""
    yield "| linker | build s | import and open s | memory MB | of it own MB |"
    yield "|---|---:|---:|---:|---:|"
    for name, by_kind in runs.items():
        r = next(iter(by_kind.values()))
        cells = f"{r['open_s']:.2f} | {r['VmRSS']:.0f} | {r['RssAnon']:.0f}"
        yield f"| {name} | {built[name]:.0f} | {cells} |"


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for what is built.")
@click.option("--only", type=click.Choice(sorted(PARTS)), hidden=True)
def main(work: Path, only: str | None) -> None:
    """Print the tables; with --only run one part in this process."""
    if only is not None:
        notes = json.loads((work / "mentions.json").read_text("utf-8"))
        click.echo(json.dumps(PARTS[only](work, notes)))
        return
    hpo = hpo_dictionary()
    build_s = build_medlink(work, hpo)
    bundle = work / "bundle"
    english = (query.text for query in (*ncbi("train"), *ncbi("develop"), *bc5cdr("Development")))
    found = found_in_notes(bundle)
    kinds = {
        "found in 240 notes": found,
        "of them, names": names_of(bundle, found),
        "no names, Spanish": no_names(bundle, distemist_spans(), "es"),
        "no names, German": no_names(bundle, (query.text for query in german_terms()), "de"),
        "no names, English": no_names(bundle, english, "en"),
    }
    click.echo(f"{len(hpo):,} names of HPO in three languages.\n")
    for line in compare(work, build_s, kinds):
        click.echo(line)
    large = sorted({*hpo, *mesh_dictionary()})
    large_s = build_medlink(work / "large", large)
    seconds = [child("open", work / "large")["open_s"] for _ in range(5)]
    click.echo(
        f"\nmedlink built a bundle of {len(large):,} names in {large_s:.0f} s and opens it in {min(seconds):.2f} to "
        f"{max(seconds):.2f} s, imports included (5 processes)."
    )


if __name__ == "__main__":
    main()
