"""``medlink evaluate linking``: ranks, linked mentions and calibration, by hand and against the linker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from medlink.errors import InputError
from medlink.evaluation.measures import calibration_error
from medlink.evaluation.retrieval import Query, read_queries
from medlink.files.problems import Problems
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.records import LINKED
from tests.evaluation import commands
from tests.evaluation.commands import rows

GOLD = (
    "concept_id\tmention\tlanguage\tcontext\n"
    "DEMO:0016\tmyocardial infarct\ten\tSmoker. Had a myocardial infarct last year.\n"
    "X:1|DEMO:0016\theart attacks\ten\tTwo heart attacks.\n"
    "X:1+X:2\tMigräne\tde\tSie hat Migräne.\n"
    "DEMO:0039\tgarden fence\ten\tA garden fence.\n"
    "X:1|DEMO:0016\theart attacks\ten\tMore heart attacks.\n"
)


@pytest.fixture(autouse=True, scope="module")
def _demo_stays_open(demo: Bundle) -> Iterator[None]:
    """Open the demo bundle once for all runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medlink.evaluation.linking.Bundle", lambda path: demo)
        yield


def run(*args: object) -> Result:
    return commands.run("linking", *args)


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    (tmp_path / "gold.tsv").write_text(GOLD, "utf-8")
    return tmp_path / "gold.tsv"


def test_the_report_agrees_with_the_linker(demo_path: Path, linker: Linker, gold: Path, tmp_path: Path) -> None:
    printed = run(demo_path, gold, "-o", tmp_path / "items.tsv").stdout.splitlines()
    assert printed[0] == "5 mentions, 479 concepts of bundle, linked in their contexts"
    given = [line.split("\t") for line in GOLD.splitlines()[1:]]
    links = linker.link([Mention(row[1], row[2]) for row in given], [row[3] for row in given], k=10)
    ids = [[one.concept_id for one in link.candidates] for link in links]
    ranks = [one.index("DEMO:0016") + 1 if "DEMO:0016" in one else 0 for one in ids[:2]] + [0]
    ranks += [ids[3].index("DEMO:0039") + 1 if "DEMO:0039" in ids[3] else 0, ranks[1]]
    items = rows(tmp_path / "items.tsv")
    assert [int(item["rank"] or 0) for item in items] == ranks
    assert [item["in_dictionary"] for item in items] == ["1", "1", "0", "1", "1"]
    np.testing.assert_allclose(
        [float(item["score"]) for item in items], [link.candidates[0].score for link in links], rtol=1e-5
    )
    linked, first = [link.status == LINKED for link in links], [rank == 1 for rank in ranks]
    # a mention whose concept the dictionary lacks counts, and is wrong if it is linked
    assert (ranks[0], ranks[1], linked[2]) == (1, 1, True)
    reciprocal = [1 / rank if rank else 0 for rank in ranks]
    scores = np.array([link.candidates[0].score for link in links])
    for line in printed[2:]:
        tag, mentions, known, *values = line.split()
        of = [at for at, row in enumerate(given) if tag in (row[2], "all")]
        columns = (first, [0 < rank <= 5 for rank in ranks], reciprocal, linked)
        wanted = [np.mean(np.array(column)[of]) for column in columns]
        precision = np.mean([first[at] for at in of if linked[at]])
        wanted += [precision, calibration_error(scores[of], np.array(first)[of])]
        assert (int(mentions), int(known)) == (len(of), sum(items[at]["in_dictionary"] == "1" for at in of))
        assert [float(value) for value in values] == pytest.approx(wanted, abs=5e-4)
    assert "heart" not in (tmp_path / "items.tsv").read_text("utf-8")


@pytest.mark.slow
def test_each_option_changes_the_output(demo_path: Path, linker: Linker, gold: Path, tmp_path: Path) -> None:
    options = ((), ("--distinct",), ("--sample", 2), ("--sample", 2, "--seed", 3), ("--threshold", 0.99))
    printed = [run(demo_path, gold, *given).stdout for given in (*options, ("--languages", "de"))]
    assert len(set(printed)) == len(printed)
    assert run(demo_path, gold, "--distinct").stdout.startswith("4 mentions")
    for options, count in (((), 5), (("--distinct",), 4)):
        looked_up = commands.run("retrieval", demo_path, gold, *options)
        assert looked_up.stdout.startswith(f"{count} queries")
    plain = tmp_path / "plain.tsv"
    second = linker.link(["heart failure"])[0].candidates[1].concept_id
    plain.write_text(f"id\tname\n{second}\theart failure\n", "utf-8")
    assert run(demo_path, plain, "--language", "es").stdout.splitlines()[-1].startswith("es ")
    deep, low = (run(demo_path, plain, "-o", tmp_path / f"{k}.tsv", "--k", k).stdout for k in (50, 1))
    assert deep != low


def test_composite_mentions_count_as_in_biosyn(demo_path: Path, tmp_path: Path) -> None:
    lines = [
        # one of the ids is enough for each part, whichever it is
        "1||0|9||D||migraine|heart attack||DEMO:0016|DEMO:0026|X:7",
        "1||0|9||D||migraine+asthma||X:7+X:8",
        "1||0|9||D||heart attack||DEMO:0016+X:7",
    ]
    (tmp_path / "a.concept").write_text("\n".join(lines) + "\n", "utf-8")
    with_migraine = run(demo_path, tmp_path / "a.concept", "-o", tmp_path / "out.tsv")
    assert with_migraine.exit_code == 0
    items = rows(tmp_path / "out.tsv")
    first, migraine = items[0]["first"].split(), items[1]["first"].split()[0]
    assert first == [migraine, "DEMO:0016"]
    assert [item["rank"] for item in items] == ["", "", "1"]
    (tmp_path / "a.concept").write_text(f"1||0|9||D||migraine|heart attack||DEMO:0016|{migraine}\n", "utf-8")
    run(demo_path, tmp_path / "a.concept", "-o", tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text("utf-8").splitlines()[1].split("\t")[5] == "1"


@pytest.mark.slow
def test_annotated_notes_are_gold(demo_path: Path, tmp_path: Path) -> None:
    text = "Patient had a heart attack and gout."
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text(text, "utf-8")
    (tmp_path / "notes/a.ann").write_text(
        "T1\tD 14 26\theart attack\nN1\tReference T1 DEMO:DEMO:0016\nT2\tD 31 35\tgout\n", "utf-8"
    )
    (tmp_path / "b.pubtator").write_text(f"1|t|{text}\n1\t14\t26\theart attack\tD\tDEMO:0016|X:1\n", "utf-8")
    links = [
        {"note": "n", "text": "gout", "language": "en", "concept_id": "DEMO:0002", "decision": "reject"},
        {"note": "n", "text": "Herzinfarkt", "language": "de", "concept_id": "DEMO:0016", "decision": "accept"},
    ]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(one) + "\n" for one in links), "utf-8")
    problems = Problems(adjustable=False)
    paths = [tmp_path / "notes", tmp_path / "b.pubtator", tmp_path / "c.jsonl"]
    found = read_queries(paths, problems, language="en")
    assert found == (
        Query(("heart attack",), ("DEMO:DEMO:0016",), "en", "a.ann", 1, text),
        Query(("heart attack",), ("DEMO:0016", "X:1"), "en", "b.pubtator", 1, text),
        Query(("Herzinfarkt",), ("DEMO:0016",), "de", "c.jsonl", 1),
    )
    assert problems.skipped == {"query without a concept": 1}
    printed = run(demo_path, *paths, "--language", "en").stdout.splitlines()
    # ids are known without what stands before them
    assert [line.split()[:3] for line in printed[2:]] == [["de", "1", "1"], ["en", "2", "2"], ["all", "3", "3"]]
    alike = commands.run("retrieval", demo_path, *paths)
    assert alike.stdout.splitlines()[-1].split()[:3] == ["all", "3", "3"]
    (tmp_path / "notes/a.ann").unlink()
    with pytest.raises(InputError, match=r"notes: there is no \*\.concept file or annotated note in the folder"):
        run(demo_path, tmp_path / "notes")


def test_gold_of_another_terminology_is_refused(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "gold.tsv").write_text("id\tname\nX:1\tfever\n", "utf-8")
    with pytest.raises(InputError, match=r"gold\.tsv: none of the concepts of its queries is in .*Remedy: give"):
        run(demo_path, tmp_path / "gold.tsv")
