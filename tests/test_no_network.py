"""Every command and the main calls of the library run without the network."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from medlink.cli.main import app
from medlink.linking.demo import demo_folder, demo_notes
from tests.cli.biolord_folder import fill
from tests.small_lexicon import write_small_lexicon

pytestmark = pytest.mark.slow

# An audit hook sees the calls of Python's own C code too, also in workers. It writes them into a file, since a library
# may swallow the error as a network that is down.
GUARD = """
import os, sys

def refuse(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg") and type(args[1]) is not tuple:
        return  # a socket of this machine alone, between processes
    if event.startswith("socket.") and event.split(".")[1] in (
        "connect", "sendto", "sendmsg", "getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo"
    ):
        with open(os.environ["NETWORK_CALLS"], "a") as file:
            file.write(f"{event} {args}\\n")
        raise OSError(101, "Network is unreachable")

sys.addaudithook(refuse)
"""
# a part of the demo terminology and of the lexicon, which are files like any other
RUN = """
import json, os, signal, sys, threading, time
from pathlib import Path
from medlink.cli.main import main
from medlink.language.lexicon import lexicon
from medlink.linking import demo

demo.demo_folder = lambda: Path("little").absolute()
lexicon.SHIPPED = Path("lexicon").absolute()
def end_service():
    before = signal.getsignal(signal.SIGINT)
    while signal.getsignal(signal.SIGINT) == before:  # it listens soon after
        time.sleep(0.1)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)

for line in open("commands.jsonl", encoding="utf-8"):
    words = json.loads(line)
    if words[0] == "serve":
        threading.Thread(target=end_service).start()
    try:
        main(words)
    except SystemExit as end:
        if end.code:
            sys.exit(f"{words} ended with {end.code}")
"""
LIBRARY = """
import spacy, medlink
from medlink.kb import KnowledgeBase

found = medlink.load("house").link([medlink.Mention("Fieber", "de"), medlink.Mention("shortnes of breath", "en")])
assert len(found) == 2
medlink.link_notes("house", ["notes"], out="library.jsonl", processes=2)
medlink.TermClusterer(medlink.load_encoder()).cluster(["fever", "fevers"])
nlp = spacy.blank("de")
nlp.add_pipe("medlink_mentions")
nlp.add_pipe("biolord_linker")
assert list(nlp.pipe(["Vorhofflimmern"] * 4, n_process=2, batch_size=2))[0].ents
for name in ("nosuch", "someone/model"):
    try:
        medlink.load_encoder(name)
    except medlink.MedlinkError as error:
        assert "no such encoder folder" in str(error)
"""
PAIRS = "id_1\ttext_1\tid_2\ttext_2\tscore\nA\tfever\tB\tpyrexia\t3\nC\tasthma\tD\tcough\t1\nA\tfever\tD\tcough\t0\n"
GOLD = {
    "id": 1,
    "text": "No fever.",
    "findings": [{"pieces": [[3, 8]], "concepts": ["DEMO:0001"], "presence": "absent"}],
}
COMMANDS = [
    "demo -o demo",
    "kb build house --table terminology.tsv",
    "kb info house",
    "kb search house fieber",
    "kb show house DEMO:0001",
    "kb build release.sqlite --table more.tsv",
    "kb changes house release.sqlite -o changes.jsonl",
    "kb export house --format sssom -o mappings.tsv",
    "index build house",
    "index add house --table more.tsv",
    "index build old --kb house",
    "index info house",
    "index verify house",
    "link house notes -o links.jsonl",
    "link house notes -o links.csv --map ICD10 --failures failures.jsonl",
    "link house notes -o links.parquet",
    "link house notes -o brat --format brat",
    "link house notes -o docbin --format docbin",
    "link house notes -o links.fhir.ndjson",
    "link house --sql sqlite:///notes.db --table note -o sqlite:///links.db",
    "link house --sql sqlite:///notes.db --query 'select * from note' -o nlp.csv --format note_nlp --date 2026-11-30",
    "kb update release.sqlite terminology.tsv --progress --allow-loss",
    "index update house --table terminology.tsv --table more.tsv -o changes.tsv",
    "link old notes -o old.jsonl",
    "impact old house old.jsonl -o impact.tsv --report impact.html",
    "map house codes.csv -o map.csv",
    "review house links.jsonl --notes notes -o decisions.tsv --report review.html",
    "serve house --port 0",
    "learn house links.jsonl -o learned.jsonl --least-seen 1",
    "cluster terms.txt --bundle house --report page.html -o clusters.tsv",
    "lexicon show Fieber",
    "lexicon info",
    "lexicon check own",
    "evaluate clustering terminology.tsv --sample 100",
    "evaluate leaf-to-parent house --sample 20",
    "evaluate linking house terminology.tsv --sample 20",
    "evaluate notes house gold.jsonl",
    "evaluate partition clusters.tsv house",
    "evaluate retrieval terminology.tsv terminology.tsv --sample 50",
    "evaluate similarity pairs.tsv",
    "evaluate sts sts.tsv",
    "evaluate synonyms house --sample 20",
    "train names kb.sqlite -o made.tsv",
    "train static kb.sqlite -o static --epochs 1 --hard-epochs 0 --batch-size 64 --rows 4096 --no-families",
    "train average static static -o mean",
    "train coderpp kb.sqlite -o coderpp --start static --epochs 1 --anchors 8 --positives 2 --neighbours 3",
    "train map kb.sqlite -o map --start static",
    "train grounding kb.sqlite -o grounded --start static --epochs 1 --hidden 8",
    "train mlte sts.tsv -o mlte --start base --dev sts.tsv --head-epochs 1",
    "train ranker house mentions.tsv -o ranker --start base --epochs 1 --held-share 0.5",
    "link house notes -o ranked.jsonl --ranker ranker --ranker-cache answers",
    "train biolord run recipe.toml",
    "train biolord sts sts.tsv -o sts --start base --epochs 1 --batch-size 8",
    "train biolord contrastive kb.sqlite -o contrastive --start base --epochs 1 --batch-size 16 --pairs 40",
    "train biolord distill kb.sqlite -o distilled --teacher base --start base --dimension 8 --runs 2 --batch-size 64",
    "train biolord soup distilled -o soup",
    "train biolord multilingual kb.sqlite -o multi --teacher base --start base --language de --epochs 1",
    "train biolord static kb.sqlite -o student --teacher base --epochs 1 --batch-size 64",
]


@pytest.fixture
def guarded(tmp_path: Path) -> dict[str, str]:
    """The environment of a program that may not use the network; its calls are in the file ``network_calls``."""
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "guard"), *filter(None, sys.path)])
    folders = {"NETWORK_CALLS": str(tmp_path / "network_calls"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    # with these set, as hospitals set them, the library of the hub would not even try
    online = {
        name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    }
    return {**online, **folders, "PYTHONPATH": path, "XDG_STATE_HOME": str(tmp_path / "state")}


def run(code: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stderr


NETWORK_USERS = (
    "import socket; socket.create_connection(('localhost', 9))",
    "import socket; socket.socket().connect(('127.0.0.1', 9))",
    "import urllib.request; urllib.request.urlopen('http://192.0.2.1')",
    "from huggingface_hub import model_info; model_info('someone/model', timeout=1)",
)


def test_the_guard_finds_each_use_of_the_network(guarded: dict[str, str], tmp_path: Path) -> None:
    blocks = "".join(f"try: {code}\nexcept Exception: pass\nmark()\n" for code in NETWORK_USERS)
    run("def mark(): open('network_calls', 'a').write('end\\n')\n" + blocks, tmp_path, guarded)
    calls = (tmp_path / "network_calls").read_text("utf-8").split("end\n")
    assert [call.startswith("socket.") for call in calls] == [True] * len(NETWORK_USERS) + [False]


def test_no_command_and_no_call_uses_the_network(guarded: dict[str, str], tmp_path: Path) -> None:
    words = [shlex.split(command) for command in COMMANDS]
    every = set(commands(app))
    assert {next(name for name in every if line[: len(name)] == list(name)) for line in words} == every
    fill(tmp_path)
    shutil.copytree(demo_folder(), tmp_path / "little")
    terminology = tmp_path / "little" / "terminology.tsv"
    lines = terminology.read_text("utf-8").splitlines(keepends=True)[:300]
    for path in (terminology, tmp_path / "terminology.tsv"):
        path.write_text("".join(lines), encoding="utf-8")
    write_small_lexicon(tmp_path / "lexicon")
    (tmp_path / "more.tsv").write_text("concept_id\tname\tlanguage\nX:1\tHausbegriff\tde\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "gold.jsonl").write_text(json.dumps(GOLD) + "\n", encoding="utf-8")
    (tmp_path / "codes.csv").write_text("code,name,language\n1,Fieber,de\n", encoding="utf-8")
    rows = [line.split("\t")[:3] for line in lines]
    (tmp_path / "terms.txt").write_text("".join(f"{name}\n" for _, name, _ in rows[1:5]), encoding="utf-8")
    mentions = [f"{name}\t{concept_id}\t{language}\n" for concept_id, name, language in rows[1:200]]
    (tmp_path / "mentions.tsv").write_text("mention\tconcept_id\tlanguage\n" + "".join(mentions), encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "families.tsv").write_text("family\tde\nward round\tKurvenvisite {f}\n", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    for language, note in demo_notes().items():
        (tmp_path / "notes" / f"{language}.txt").write_text(note, encoding="utf-8")
    with sqlite3.connect(tmp_path / "notes.db") as notes:
        notes.execute("create table note (id integer, text text)")
        notes.execute("insert into note values (1, 'No fever.')")
    notes.close()
    (tmp_path / "commands.jsonl").write_text("\n".join(map(json.dumps, words)), encoding="utf-8")
    run(RUN + LIBRARY, tmp_path, guarded)
    assert not (tmp_path / "network_calls").exists(), (tmp_path / "network_calls").read_text("utf-8")


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    """The names of every command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        else:
            yield *above, name
