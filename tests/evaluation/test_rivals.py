"""The rivals of ``benchmarks/finding.py``: how they are spoken to, what they answer, and what failures come to."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medlink.evaluation.findings import Finding, GoldText
from medlink.records import Qualifiers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# Finds the names of its table as they are written; with a word of what is to go wrong.
PROGRAM = """
import sys, time
from protocol import serve

def build(names, folder):
    print("chatter on standard output")
    (folder / "names").write_text("".join(f"{name['name']}={name['concept_id']}" + chr(10) for name in names))

def opened(folder, language):
    known = dict(line.split("=") for line in (folder / "names").read_text().splitlines())
    def find(text):
        FAULT
        return [(text.index(n), text.index(n) + len(n), c, 0.5) for n, c in known.items() if n in text]
    return find

serve("Fake 1.0", build, opened)
"""


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """The modules ``rivals`` and ``finding``."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    rivals, finding = map(importlib.import_module, ("rivals", "finding"))
    return rivals, finding


@pytest.fixture
def peers(scripts: tuple[ModuleType, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of rivals without any, and a table of names; programs lie in ``programs``."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(BENCHMARKS / "peers/protocol.py", programs)
    monkeypatch.setattr(scripts[0], "PROGRAMS", programs)
    rows = ["concept_id\tname\tsemantic_type\tlanguage", "HP:1\tfever\tphenotype\ten", 'HP:2\t"dry" cough\t\ten']
    (tmp_path / "names.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    return tmp_path


def environment(folder: Path, name: str) -> None:
    """An environment that is the one of this test."""
    (folder / name / "bin").mkdir(parents=True)
    python = folder / name / "bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)


def fake(folder: Path, name: str, fault: str = "pass") -> None:
    """A rival with a fault in its finder."""
    environment(folder, name)
    (folder / "programs" / f"find_{name}.py").write_text(PROGRAM.replace("FAULT", fault))


def texts(*given: str) -> list[Any]:
    return [GoldText(str(number), "en", text, (), frozenset(), frozenset()) for number, text in enumerate(given)]


def test_a_rival_is_asked_once(scripts: tuple[Any, ...], peers: Path) -> None:
    rivals = scripts[0]
    fake(peers, "one", 'open("runs", "a").write("x")'.replace("runs", str(peers / "runs")))
    asked = texts('Übelkeit, fever and "dry" cough', "nothing")

    def found() -> Any:
        return rivals.Rival("one", peers, peers / "names.tsv").find(asked)

    (first, day), (second, later) = found(), found()
    assert first == second
    assert first.found == [[(10, 15, "HP:1", 0.5), (20, 31, "HP:2", 0.5)], []]
    assert (day, len(later)) == ("", len("2026-01-01"))
    assert first.seconds >= 0
    assert first.about == "Fake 1.0"
    assert 1 < first.memory < 1000
    assert (peers / "runs").read_text() == "xx"
    # other texts, another program, other packages or other names are another run
    asked = asked[:1]
    assert not found()[1]
    program = peers / "programs/find_one.py"
    program.write_text(program.read_text() + "# another\n")
    assert not found()[1]
    (peers / "one/lib/python3/site-packages/other-1.0.dist-info").mkdir(parents=True)
    assert not found()[1]
    (peers / "names.tsv").write_text((peers / "names.tsv").read_text().replace("HP:2", "HP:3"), "utf-8")
    assert found()[0].found[0][1][2] == "HP:3"
    assert found()[1]


BAD = "its answers are no JSON lines of spans"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("sys.exit(3)", "it ended with code 3; see kept/bad-[0-9a-f]*/errors.txt beside it"),
        ("time.sleep(60)", "it was not ready in 2 s"),
        ("return [(1, 2)]", BAD),
        ("return [('x', 2, 'HP:1', 1)]", BAD),
        ("sys.__stdout__.write('oh\\n')", BAD),
        ("return [(1, 2, 'HP:1', 1)] if sys.__stdout__.write('{}\\n') else 0", BAD),
        ("sys.__stdout__.write('{\"id\": 7}\\n')", "its answers are not those of the texts"),
        ("import os; os._exit(0)", BAD),
        ("print('3', file=sys.__stdout__, flush=True); import os; os._exit(0)", "its answers are not those"),
    ],
)
def test_a_rival_that_fails_is_said_and_asked_again(
    scripts: tuple[Any, ...], peers: Path, fault: str, said: str
) -> None:
    rivals = scripts[0]
    fake(peers, "bad", fault)
    limit = 2 if "sleep" in fault else 60
    rival = rivals.Rival("bad", peers, peers / "names.tsv", limit=limit)
    for _ in range(2):
        with pytest.raises(rivals.RivalError, match=said):
            rival.find(texts("fever"))
    assert not list(peers.glob("kept/*/en-*"))


def test_the_race_goes_on_without_those_that_fail(
    scripts: tuple[Any, ...], peers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = scripts[1]
    fake(peers, "bad", "sys.exit(3)")
    fake(peers, "good")
    languages = {"bad": ("en",), "missing": ("en",), "good": ("en",), "german": ("de",)}
    monkeypatch.setattr(finding, "LANGUAGES", languages)
    monkeypatch.setattr(finding, "phenotypes", lambda: {"HP:1", "HP:9"})
    monkeypatch.setattr(finding, "retired", lambda: {"HP:2": "HP:9"})
    affirmed = Finding(((10, 15),), frozenset({"HP:1"}))
    absent = Finding(((3, 14),), frozenset({"HP:9"}), Qualifiers("absent"))
    ids = frozenset({"HP:1"})
    sets = {
        "first": [GoldText("a", "en", "There was fever.", (affirmed,), ids, ids)],
        "second": [GoldText("b", "en", 'No "dry" cough.', (absent,), frozenset({"HP:9"}), frozenset())],
    }
    race = finding.Race(peers, peers / "names.tsv")
    results = {title: race.run(title, given) for title, given in sets.items()}
    assert [list(one) for one in results.values()] == [["Fake 1.0"], ["Fake 1.0"]]
    first, second = (one["Fake 1.0"] for one in results.values())
    cells = ["1.000", "1.000", "1.000", "1.000", "1.000", "1.000", "1.000", ""]
    assert first.cells(probabilities=False)[:8] == cells
    # medlink's reader of status takes "no cough" for what it is; without it there is a wrong finding
    counts = ("documents wrong", "regardless wrong", "exact", "right")
    assert [second.counts[name] for name in counts] == [0, 1, 1, 1]
    (row,) = race.costs({(name, title): 2.0 for name in (finding.VERBATIM, "medlink, 0.5") for title in sets})
    assert row[:5] == ["Fake 1.0", "2", "0.0", "0.00", "0.00"]
    assert len(row) == 8
    bad, missing = race.remarks()
    assert bad.startswith("bad is left out of first, second: it ended with code 3; see kept/bad-")
    assert missing == (
        "missing is left out of first, second: it is not installed; benchmarks/peers/install.sh does it."
    )
    again = finding.Race(peers, peers / "names.tsv")
    again.run("first", sets["first"])
    assert again.remarks()[-1].startswith("Fake 1.0: a stored pass of 20")


WORDS = "atypical", "benign", "chronic", "distal", "episodic", "focal", "growing", "hidden", "intrinsic", "juvenile"
# scispaCy leaves out groups of letters in fewer than ten names
NAMES = {"de": "starkes Fieber", "en": "severe fever", "es": "fiebre alta"}
TEXTS = {
    "de": "Sie hat starkes Fieber, sonst nichts.",
    "en": "She had severe fever and nothing else.",
    "es": "Tuvo fiebre alta y nada más.",
}


REAL = [("quickumls", ("de", "en", "es")), ("tfidf", ("de", "en", "es")), ("fasthpocr", ("en",))]


@pytest.mark.parametrize(("name", "language"), [(name, language) for name, known in REAL for language in known])
def test_real_rivals(scripts: tuple[Any, ...], tmp_path: Path, name: str, language: str) -> None:
    """The real ones run where ``MEDLINK_PEERS`` has them."""
    rivals = scripts[0]
    home = Path(os.environ.get("MEDLINK_PEERS", ".")) / name
    if not (home / "bin/python").exists():
        pytest.skip("MEDLINK_PEERS names no folder with this rival")
    (tmp_path / name).symlink_to(home.resolve())
    right = NAMES[language]
    rows = [("HP:0000118", "Phenotypic abnormality", "", "en"), ("HP:0000001", right, "phenotype", language)]
    said = [f"{word} {part}" for part in right.split() for word in WORDS]
    rows += [(f"HP:{n:07}", text, "phenotype", language) for n, text in enumerate(said, 2)]
    table = "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "names.tsv").write_text(f"concept_id\tname\tsemantic_type\tlanguage\n{table}", "utf-8")
    text = GoldText("a", language, TEXTS[language], (), frozenset(), frozenset())
    passed, _ = rivals.Rival(name, tmp_path, tmp_path / "names.tsv").find([text])
    (found,) = passed.found
    assert [(text.text[start:end], concept) for start, end, concept, _ in found] == [(right, "HP:0000001")]
    assert all(0.7 <= score <= 1.001 for *_, score in found)


def test_stored_answers_are_json_lines(scripts: tuple[Any, ...], peers: Path) -> None:
    rivals = scripts[0]
    fake(peers, "one")
    rivals.Rival("one", peers, peers / "names.tsv").find(texts("fever"))
    (path,) = peers.glob("kept/one-*/en-*.jsonl")
    answer, last = map(json.loads, path.read_text("utf-8").splitlines())
    assert answer.keys() == {"id", "seconds", "found"}
    assert last.keys() == {"about", "seconds", "memory"}
    # no word of a note is kept
    assert "fever" not in path.read_text("utf-8")
