"""``medlink evaluate all`` on the demo terminology: one report of encoders, bundles and peers, of which some fail."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from medlink import __version__
from medlink.errors import ConfigError, InputError
from medlink.evaluation import TASKS
from medlink.evaluation.report import evaluate_all
from medlink.evaluation.suite import compare, read_suite, run_suite
from medlink.evaluation.task import Report
from medlink.files.problems import Problems
from medlink.index import Bundle
from medlink.linking.demo import demo_folder
from medlink.models import load_encoder
from tests.evaluation import commands
from tests.evaluation.commands import rows
from tests.scripts import BENCHMARKS

PAIRS = (
    "text_1\ttext_2\tscore\nfever\tpyrexia\t3\nasthma\tcough\t1\nfever\tcough\t0\ngout\tarthritis\t2\ngout\tfever\t0\n"
)
TEXT = {"id": 1, "language": "en", "text": "She has gout, no asthma.", "findings": []}
SUITE = """
seed = 3
resamples = 60

[encoders]
builtin = "builtin"
lost = "nowhere"

[bundles]
demo = "BUNDLE"

[peers.tfidf]
command = ["PYTHON", "PEER"]

[peers.crashes]
command = ["PYTHON", "-c", "raise SystemExit(7)"]

[peers.hangs]
command = ["PYTHON", "-c", "import time; time.sleep(600)"]
limit = 1

[[tasks]]
task = "linking"
title = "typing | errors"
inputs = ["gold.tsv"]

[[tasks]]
task = "similarity"
inputs = ["pairs.tsv"]

[[tasks]]
task = "notes"
inputs = ["notes.jsonl"]

[[tasks]]
task = "synonyms"
inputs = ["BUNDLE"]
options = { sample = 20 }
systems = ["builtin"]

[[tasks]]
task = "partition"
inputs = ["clusters.tsv", "terminology.tsv"]

[[tasks]]
task = "sts"
inputs = ["missing.tsv"]
systems = ["builtin"]
"""


def filled(folder: Path, bundle: Path) -> Path:
    """A folder with an evaluation file and what it names."""
    (folder / "pairs.tsv").write_text(PAIRS, "utf-8")
    table = (demo_folder() / "terminology.tsv").read_text("utf-8")
    (folder / "terminology.tsv").write_text(table, "utf-8")
    rows = [line.split("\t")[:3] for line in table.splitlines()[1:]][::40]
    # every word without its third letter
    wrong = [(concept, re.sub(r"(\w\w)\w", r"\1", name, count=1), tag) for concept, name, tag in rows]
    lines = ["concept_id\tmention\tlanguage", *map("\t".join, wrong)]
    (folder / "gold.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "clusters.tsv").write_text("term\tcluster\n" + "".join(f"{row[1]}\t1\n" for row in rows), "utf-8")
    gout = next(row[0] for row in (line.split("\t") for line in table.splitlines()) if row[1] == "gout")
    marked = {**TEXT, "findings": [{"pieces": [[8, 12]], "concepts": [gout], "presence": "present"}]}
    (folder / "notes.jsonl").write_text(json.dumps(marked) + "\n", "utf-8")
    said = SUITE.replace("BUNDLE", str(bundle)).replace("PYTHON", sys.executable)
    (folder / "evaluation.toml").write_text(said.replace("PEER", str(BENCHMARKS / "peers/rank_tfidf.py")), "utf-8")
    return folder / "evaluation.toml"


def run(*args: object) -> Result:
    return commands.run("all", *args)


@pytest.fixture(scope="module")
def report(demo_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder of a report, in that of its files, and what the command said."""
    folder = tmp_path_factory.mktemp("suite")
    return folder / "report", run(filled(folder, demo_path), "-o", folder / "report")


def test_what_fails_is_named_and_the_rest_goes_on(report: tuple[Path, Result]) -> None:
    folder, said = report
    assert said.exit_code == 3
    assert f"7 runs done, 5 failed: {folder}" in said.stderr
    outcomes = json.loads((folder / "report.json").read_text("utf-8"))["outcomes"]
    errors = {(one["task"], one["system"]): one["error"] for one in outcomes}
    assert {key for key, error in errors.items() if error} == {
        *(("linking", system) for system in ("lost", "crashes", "hangs")),
        *(("similarity", "lost"), ("sts", "builtin")),
    }
    assert "no such encoder folder. Remedy: " in errors["linking", "lost"]
    assert "the peer 'crashes' ended with code 7" in errors["linking", "crashes"]
    assert "the peer 'hangs' was not ready in 1 s" in errors["linking", "hangs"]
    text = (folder / "report.md").read_text("utf-8")
    assert "\n## Failed\n" in text
    assert all(error.split(".")[0] in text for error in errors.values() if error)


def test_values_are_those_of_each_task_alone(report: tuple[Path, Result], demo_path: Path) -> None:
    folder, _ = report
    found = {
        (one["title"], one["system"], one["measure"], one["group"]): one for one in rows(folder / "report.csv", ",")
    }
    alone = TASKS["linking"](seed=3).run([demo_path, folder.parent / "gold.tsv"]).table[-1]
    here = found["typing | errors", "demo", "Acc@1", "all"]
    assert float(here["value"]) == pytest.approx(alone["Acc@1"], abs=1e-5)
    assert float(here["low"]) <= float(here["value"]) <= float(here["high"])
    assert (here["kind"], here["items"]) == ("bundles", str(alone["mentions"]))
    table = TASKS["similarity"](seed=3, resamples=60).run([folder.parent / "pairs.tsv"]).table[0]
    pair = found["similarity pairs.tsv", "builtin", "spearman", "pairs.tsv"]
    assert [float(pair[name]) for name in ("value", "low", "high")] == pytest.approx(
        [table[name] for name in ("value", "low", "high")], abs=1e-5
    )
    assert found["notes notes.jsonl", "demo", "F1", "en"]["value"]
    assert found["synonyms " + str(demo_path), "builtin", "mAP", "test"]["best"] == "1"
    # mentions that a peer and an encoder look up are those of the linker, of which one at least is the best
    linking = [one for key, one in found.items() if key[0] == "typing | errors" and key[2:] == ("MRR", "all")]
    assert {one["system"] for one in linking} == {"demo", "builtin", "tfidf"}
    assert len({one["items"] for one in linking}) == 1
    top = max(float(one["value"]) for one in linking)
    assert [float(one["value"]) == top for one in linking] == [one["best"] == "1" for one in linking]
    assert all((one["p"] == "") == (one["best"] == "1") for one in linking)
    assert all(0 < float(one["p"]) <= 1 for one in linking if one["p"])


def test_tables_of_the_report(report: tuple[Path, Result]) -> None:
    text = (report[0] / "report.md").read_text("utf-8")
    assert "\n## typing \\| errors\n" in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for table in tables:
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table
    best = re.search(r"^\| all \| \w+ \| \w+ \| \d+ \| \*\*0\.\d{3} \[0\.\d{3}, [01]\.\d{3}\]\*\*", text, re.MULTILINE)
    assert best is not None or "| **1.000" in text
    assert "| - | B-cubed |" in text
    assert "\nstatus as it was read:\n" in text


def test_the_page_fetches_nothing(report: tuple[Path, Result]) -> None:
    page = (report[0] / "index.html").read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    for tag, what in (("style", "style"), ('script type="module"', "script")):
        (inner,) = re.findall(f"<{tag}>(.*?)</{what}>", page, re.DOTALL)
        digest = b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}'" in policy[1]
    assert "http:" not in page.replace("http-equiv", "")
    (data,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    parts = json.loads(data)
    assert [part["title"] for part in parts][::6] == ["typing | errors", "Failed"]
    value, low, high, best, worse = parts[0]["grids"][0]["rows"][0][4]
    assert low <= value <= high
    assert {type(best), type(worse)} == {bool}


def test_the_manifest_binds_what_was_measured(report: tuple[Path, Result], demo_path: Path) -> None:
    found = json.loads((report[0] / "manifest.json").read_text("utf-8"))
    folder = report[0].parent

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert found["evaluation"]["sha256"] == digest(folder / "evaluation.toml")
    assert found["inputs"]["pairs.tsv"] == digest(folder / "pairs.tsv")
    assert found["inputs"]["missing.tsv"] is None
    assert found["encoders"]["builtin"]["fingerprint"] == load_encoder().fingerprint
    assert "no such encoder folder" in found["encoders"]["lost"]["error"]
    bundle = Bundle(demo_path)
    assert found["bundles"]["demo"]["kb"] == bundle.versions["kb"]
    assert found["bundles"]["demo"]["parts"]["index"] == bundle.manifest["parts"]["index"]["folder"]
    program = str(BENCHMARKS / "peers/rank_tfidf.py")
    assert found["peers"]["tfidf"]["files"][program] == digest(Path(program))
    assert (found["seed"], found["resamples"], found["versions"]["medlink"]) == (3, 60, __version__)
    assert {"platform", "cores", "memory"} == found["machine"].keys()
    assert len(found["seconds"]) == 12


def small(folder: Path, text: str) -> Path:
    (folder / "pairs.tsv").write_text(PAIRS, "utf-8")
    (folder / "small.toml").write_text(text, "utf-8")
    return folder / "small.toml"


SMALL = '[encoders]\none = "builtin"\n[[tasks]]\ntask = "similarity"\ninputs = ["pairs.tsv"]\n'


def test_remarks_are_kept() -> None:
    problems = Problems()
    assert "notes" not in Report("", [{"rows": 1}], [], problems).to_dict()
    problems.notes.append("one link without a decision")
    assert Report("", [{"rows": 1}], [], problems).to_dict()["notes"] == ["one link without a decision"]


def test_an_encoder_with_its_pooling_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    names = {"plain": "mine", "pooled": "cls:mine", "shipped": "builtin", "hub": "mean:hf:org/model"}
    given = "".join(f'{name} = "{value}"\n' for name, value in names.items())
    task = '[[tasks]]\ntask = "similarity"\ninputs = ["pairs.tsv"]\n'
    (tmp_path / "all.toml").write_text(f"[encoders]\n{given}\n{task}", encoding="utf-8")
    suite, mine = read_suite(tmp_path / "all.toml"), tmp_path / "mine"
    opened = [suite.encoder(name) for name in names]
    assert opened == [str(mine), f"cls:{mine}", "builtin", "mean:hf:org/model"]


def test_same_input_same_report(tmp_path: Path) -> None:
    file = small(tmp_path, "resamples = 9\n" + SMALL)
    for name in ("a", "b"):
        assert run(file, "-o", tmp_path / name).exit_code == 0
    for name in ("report.md", "report.csv", "report.json", "index.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(ConfigError, match=r"a: the folder of the report is there\. Remedy: name a new one"):
        run(file, "-o", tmp_path / "a")
    changed = small(tmp_path, "resamples = 9\nseed = 9\n" + SMALL)
    run(changed, "-o", tmp_path / "c")
    assert (tmp_path / "a/report.csv").read_text("utf-8") != (tmp_path / "c/report.csv").read_text("utf-8")


def test_an_encoder_that_breaks_is_one_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("a word of a note")

    monkeypatch.setattr("medlink.models.load_encoder", broken)
    suite = read_suite(small(tmp_path, SMALL))
    (outcome,) = run_suite(suite)
    assert outcome.error == "ValueError; 'medlink evaluate similarity' alone shows where"
    assert compare(suite, [outcome]) == []


def test_a_text_is_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    class Letters:
        def encode(self, texts: Sequence[str]) -> Any:
            asked.extend(texts)
            angles = np.array([sum(map(ord, text)) for text in texts])
            return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    monkeypatch.setattr("medlink.models.load_encoder", lambda _: Letters())
    again = '[[tasks]]\ntask = "sts"\ninputs = ["pairs.tsv"]\n'
    outcomes = run_suite(read_suite(small(tmp_path, SMALL + again)))
    assert [one.error for one in outcomes] == ["", ""]
    assert sorted(asked) == sorted({*(word for line in PAIRS.splitlines()[1:] for word in line.split("\t")[:2])})
    monkeypatch.setattr("medlink.evaluation.suite._REMEMBERED", 2)
    forgotten = run_suite(read_suite(tmp_path / "small.toml"))
    assert len(asked) == 3 * 6
    for one, other in zip(outcomes, forgotten, strict=True):
        assert one.report is not None
        assert other.report is not None
        assert one.report.table == other.report.table


def test_without_matplotlib_the_rest_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = list[str]()
    evaluate_all(small(tmp_path, SMALL), tmp_path / "out", say=said.append)
    assert said[-1].startswith("no picture: a picture needs matplotlib")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("index.html", "manifest.json", "report.csv", "report.json", "report.md"),
    }


def test_titles_are_no_formulas(tmp_path: Path) -> None:
    said = list[str]()
    text = "resamples = 9\n" + SMALL + "title = 'a $\\x$ b'\n"
    evaluate_all(small(tmp_path, text), tmp_path / "out", say=said.append)
    assert not any("no picture" in line for line in said)
    assert (tmp_path / "out/plot.svg").exists()


def test_what_breaks_at_the_end_undoes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("a title")

    monkeypatch.setattr("medlink.evaluation.report.write_intervals", broken)
    monkeypatch.setattr("medlink.evaluation.report.load_encoder", broken)
    monkeypatch.setattr("hashlib.file_digest", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    said = list[str]()
    evaluate_all(small(tmp_path, "resamples = 9\n" + SMALL), tmp_path / "out", say=said.append)
    assert said[-1] == "no picture: ValueError"
    found = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))
    assert found["encoders"]["one"] == {"path": "builtin", "error": "ValueError"}
    assert found["inputs"]["pairs.tsv"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks = 3", r"small\.toml: tasks is 3, "),
        ("tasks = [", r"small\.toml: is not TOML: .*Remedy: mend the file"),
        (SMALL.replace("similarity", "nosuch"), r"unknown task 'nosuch'\. Remedy: one of clustering, "),
        (SMALL + "options = { sample = 0 }", r"small\.toml: sample is 0, at least 2 expected"),
        (SMALL + "options = { tempo = 0 }", r"unknown option 'tempo'"),
        (SMALL + 'systems = ["two"]', r"unknown system 'two'\. Remedy: one of one"),
        (
            SMALL + '[[tasks]]\ntask = "similarity"\ninputs = ["pairs.tsv"]\n',
            r"title 'similarity pairs\.tsv' is there tw",
        ),
        ('[bundles]\none = "b"\n' + SMALL, r"the system 'one' is there twice\. Remedy: give each its own name"),
        ("[peers.p]\nlimit = 3\n" + SMALL, r"small\.toml: command is missing\. Remedy: add it"),
        ("speed = 3\n" + SMALL, r"unknown option 'speed'\. Remedy: one of"),
        ('[encoders]\none = "builtin"\n', r"small\.toml: tasks "),
        (SMALL.replace("similarity", "notes"), r"no system fits\. Remedy: name some of bundles"),
        (SMALL.replace('"pairs.tsv"', ""), r"0 inputs\. Remedy: give files"),
        (SMALL.replace("similarity", "synonyms").replace('"pairs.tsv"', '"a", "b"'), r"2 inputs\. Remedy: give kb"),
        (SMALL.replace('inputs = ["pairs.tsv"]', ""), r"inputs is missing"),
    ],
)
def test_files_that_cannot_be_run_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, InputError), match=said):
        read_suite(small(tmp_path, text))
    with pytest.raises(InputError, match=r"nosuch\.toml: cannot be read"):
        read_suite(tmp_path / "nosuch.toml")


def test_linking_needs_a_bundle_for_names(tmp_path: Path) -> None:
    file = small(tmp_path, SMALL.replace("similarity", "linking"))
    (outcome,) = run_suite(read_suite(file))
    assert outcome.error.endswith("linking needs a bundle. Remedy: name a bundle, whose names are looked up.")
