"""Linking, clustering and spaCy run without torch; errors name the extra that is missing.

The libraries of the extras are hidden from an interpreter, which imports medlink and is forked for each case.
``.ci/wheel`` runs the same tests with the built wheel in a fresh environment, which ``MEDLINK_LIGHT_PYTHON`` names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import medlink
from tests.fork_server import MODULES
from tests.index.test_bundle import refer

pytestmark = pytest.mark.slow
HIDDEN = [
    "accelerate", "datasets", "nmslib", "openpyxl", "psycopg", "pyarrow", "pyspark", "scispacy",
    "sentence_transformers", "sentencepiece", "sklearn", "torch", "transformers",
]  # fmt: skip
FRESH = os.environ.get("MEDLINK_LIGHT_PYTHON")

HIDE = """\
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


FORK = """\
import gc, json, os, sys
from importlib import import_module

for module in sys.argv[1:]:
    import_module(module)
from medlink.language.lexicon import Lexicon

lexicon = Lexicon()  # seconds, shared by all forks
assert "faiss" not in sys.modules
gc.freeze()
for line in sys.stdin:
    code, arguments, hidden = json.loads(line)
    if os.fork() == 0:
        sys.modules["sitecustomize"].HIDDEN += hidden
        for number, name in enumerate((os.devnull, "out", "err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        sys.argv, status = ["-c", *arguments], 0
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
COMMAND = "from medlink.cli.main import main; main()"


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo bundle and small inputs."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "hide").mkdir()
    hidden = [] if FRESH else HIDDEN
    (folder / "hide" / "sitecustomize.py").write_text(f"HIDDEN = {hidden!r}\n{HIDE}", encoding="utf-8")
    for name in ("notes.parquet", "codes.xlsx", "terms.xlsx"):
        (folder / name).write_bytes(b"PK\x03\x04")
    (folder / "codes.csv").write_text("code,name\n1,fever\n", encoding="utf-8")
    (folder / "note.txt").write_text("Z. n. Herzinfarkt. Mitralklappenstenose (MS), MS unverändert.", encoding="utf-8")
    (folder / "terms.txt").write_text("fever\nFieber\nleft arm\nright arm\n", encoding="utf-8")
    (folder / "encoder").mkdir()
    (folder / "encoder" / "modules.json").write_text("[]", encoding="utf-8")
    (folder / "regressor").mkdir()
    (folder / "regressor" / "mlte.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Run]:
    """``medlink ARGUMENTS``, or Python code, without the libraries of the extras but ``cpu``; of all if ``bare``."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    paths = [str(folder / "hide"), *([] if FRESH else [str(Path(medlink.__file__).parents[1])])]
    with subprocess.Popen(
        [FRESH or sys.executable, "-c", FORK, *MODULES.split()],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:

        def run(*arguments: str, code: str = COMMAND, bare: bool = False) -> subprocess.CompletedProcess[str]:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps([code, arguments, ["faiss"] * bare]) + "\n")
            server.stdin.flush()
            status = int(server.stdout.readline())
            out, err = ((folder / name).read_text("utf-8") for name in ("out", "err"))
            return subprocess.CompletedProcess(arguments, status, out, err)

        done = run("demo", "-o", "demo")
        assert done.returncode == 0, done.stderr
        shutil.copytree(folder / "demo" / "bundle", folder / "transformer")
        refer(folder / "transformer", "encoder", folder / "encoder")
        yield run


def test_only_the_base_is_installed(run: Run) -> None:
    code = """
import importlib, medlink, sys
print(medlink.__file__)
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print("found", name)
    except ModuleNotFoundError:
        pass
"""
    done = run(*HIDDEN, code=code)
    assert done.returncode == 0, done.stderr
    assert "found" not in done.stdout
    assert (FRESH is not None) == ("site-packages" in done.stdout)


def test_link(run: Run) -> None:
    done = run("link", "demo/bundle", "note.txt", "--language", "de")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows] == ["Herzinfarkt", "Mitralklappenstenose", "MS", "MS"]
    assert rows[1]["concept_id"] == rows[2]["concept_id"] == rows[3]["concept_id"]


def test_cluster(run: Run) -> None:
    done = run("cluster", "terms.txt", "--bundle", "demo/bundle")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5


def test_spacy(run: Run) -> None:
    code = """
import spacy
nlp = spacy.blank("de")
nlp.add_pipe("medlink_mentions", config={"bundle": "demo/bundle"})
nlp.add_pipe("biolord_linker", config={"bundle": "demo/bundle"})
print([(span.text, span.kb_id_) for span in nlp("Z. n. Herzinfarkt").ents])
"""
    done = run(code=code)
    assert done.returncode == 0, done.stderr
    assert "('Herzinfarkt', 'DEMO:" in done.stdout


def test_serve(run: Run) -> None:
    code = """
import threading, httpx
from medlink.service.app import Service
from medlink.service.options import ServeOptions
with Service(["demo/bundle"], ServeOptions(port=0)) as service:
    thread = threading.Thread(target=service.serve_forever)
    thread.start()
    body = {"notes": [{"text": "Z. n. Herzinfarkt", "language": "de"}]}
    print(httpx.post(f"{service.url}link", json=body).json()["notes"][0]["mentions"][0]["concept_id"])
    service.shutdown()
    thread.join()
"""
    done = run(code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("DEMO:")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "static", "demo/bundle", "-o", "out"], "train"),
        (["train", "biolord", "soup", "one", "two", "-o", "out"], "train"),
        (["train", "coderpp", "demo/bundle", "-o", "out"], "train"),
        (["train", "mlte", "terms.txt", "--start", "encoder", "--beta", "0", "-o", "out"], "train"),
        (["evaluate", "sts", "terms.txt", "--encoder", "regressor"], "train"),
        (["index", "build", "demo/bundle", "--encoder", "encoder"], "transformers"),
        (["cluster", "terms.txt", "--bundle", "transformer"], "transformers"),
        (["index", "build", "demo/bundle", "--encoder", "hf:a/b"], "transformers"),
        (["demo", "-o", "again"], "cpu"),
        (["link", "demo/bundle", "note.txt"], "cpu"),
        (["cluster", "terms.txt"], "cpu"),
        (["index", "build", "demo/bundle"], "cpu"),
        (["map", "demo/bundle", "codes.xlsx", "-o", "o.csv"], "excel"),
        (["cluster", "terms.xlsx"], "excel"),
        (["kb", "build", "x.sqlite", "--table", "terms.xlsx"], "excel"),
        (["link", "demo/bundle", "notes.parquet"], "parquet"),
        (["link", "demo/bundle", "note.txt", "-o", "o.parquet"], "parquet"),
        (["link", "demo/bundle", "--sql", "postgresql://h/d", "--table", "t"], "postgres"),
        (["link", "demo/bundle", "note.txt", "--abbreviations", "scispacy", "--language", "en"], "scispacy"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_missing_extra_is_named(run: Run, arguments: list[str], extra: str) -> None:
    done = run(*arguments, bare=extra == "cpu")
    assert done.returncode == 2, done.stderr
    clone = "cpu" if extra == "cpu" else f"cpu,{extra}"
    assert f'pip install "medlink[{extra}]", in a clone pip install -c constraints.txt ".[{clone}]"' in done.stderr
    assert done.stderr.splitlines()[-1].startswith("medlink: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from medlink.spark import link_notes; link_notes(None, 'demo/bundle')", "spark"),
        ("from medlink.models import MarianTranslator; MarianTranslator('x')", "translate"),
        ("import medlink; medlink.load('demo/bundle').link(['fever'])", "cpu"),
    ],
)
def test_missing_extra_of_a_call(code: str, extra: str, run: Run) -> None:
    done = run(code=code, bare=True)
    assert done.returncode == 1
    assert "MissingLibraryError: " in done.stderr
    assert f'Remedy: pip install "medlink[{extra}]", in a clone ' in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "--help", "kb build kb.sqlite --table demo.tsv", "kb search kb.sqlite fever", "kb changes kb.sqlite kb.sqlite",
        "lexicon show Fieber",
    ],
)  # fmt: skip
def test_what_needs_no_extra(arguments: str, folder: Path, run: Run) -> None:
    (folder / "demo.tsv").write_text("concept_id\tname\tlanguage\nX:1\tfever\ten\n", encoding="utf-8")
    done = run(*arguments.split(), bare=True)
    assert done.returncode == 0, done.stderr
