"""Programs of others: what they are given, what they print, and what failures come to."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from math import isnan
from pathlib import Path

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from medlink.errors import ConfigError, InputError, MedlinkError
from medlink.evaluation import TASKS
from medlink.evaluation.names import Dictionary
from medlink.evaluation.peers import Peer
from medlink.evaluation.retrieval import Query
from tests.scripts import BENCHMARKS

NAMES = Dictionary.of([(("A", "X"), "fever", "en"), (("A", "X"), "Fieber", "de"), (("B",), "fever", "en")])
# Ranks the concepts by how many letters of the mention their names begin with.
PROGRAM = """
import sys
rows = [line.rstrip("\\n").split("\\t") for line in open(sys.argv[1], encoding="utf-8")]
assert rows.pop(0) == ["concept_id", "name", "language"]
queries = [line.rstrip("\\n").split("\\t") for line in open(sys.argv[2], encoding="utf-8")]
assert queries.pop(0) == ["query", "mention", "language"]
print("chatter", file=sys.stderr)
for number, mention, language in reversed(queries):
    found = [i for i, name, tag in rows if name.startswith(mention[:3]) and language in ("", tag)]
    print("\\t".join([number, *found, "unknown"]))
"""


def peer(folder: Path, code: str = PROGRAM, **options: float) -> Peer:
    (folder / "peer.py").write_text(code, "utf-8")
    return Peer(name="mine", command=[sys.executable, "peer.py"], folder=folder, **options)


def test_what_a_peer_reads_and_prints(tmp_path: Path) -> None:
    asked = [("fevers", ""), ("Fieber", "de"), ("Fieber", "en"), ("zzz", "")]
    assert peer(tmp_path).rank(NAMES, asked) == [
        ["A|X", "B", "unknown"],
        ["A|X", "unknown"],
        ["unknown"],
        ["unknown"],
    ]


def test_answers_by_hand(tmp_path: Path) -> None:
    queries = [
        Query(("fevers",), ("B",)),
        Query(("fevers",), ("X", "Q")),  # another id of the first concept
        Query(("fevers", "Fieber"), ("B", "A")),  # every part has a right one, the first of both
        Query(("fevers", "zzz"), ("B", "A")),
        Query(("fevers",), ("Q",)),
    ]
    found = peer(tmp_path).answers(NAMES, queries, 10)
    assert [(one.rank, one.known) for one in found] == [(2, True), (1, True), (1, True), (0, True), (0, False)]
    assert found[2].concept == (("A", "X"), ("A", "X"))
    assert found[3].concept == (("A", "X"), ())
    assert all(isnan(one.cosine) for one in found)
    assert [one.rank for one in peer(tmp_path).answers(NAMES, queries[:2], 1)] == [0, 1]


def test_concepts_that_share_an_id_stay_apart(tmp_path: Path) -> None:
    names = Dictionary.of([(("A", "X"), "cough"), (("A", "Y"), "fever")])
    queries = [Query(("fever",), ("A",)), Query(("fever",), ("Y",)), Query(("fever",), ("X",))]
    found = peer(tmp_path).answers(names, queries, 10)
    assert [(one.rank, one.known, one.concept) for one in found] == [
        *((1, True, (("A", "Y"),)), (1, True, (("A", "Y"),))),
        (0, True, (("A", "Y"),)),
    ]


def test_a_peer_ranks_no_names(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("concept_id\tname\nA\tfever\n", "utf-8")
    files = [tmp_path / "names.tsv"] * 2
    with pytest.raises(ConfigError, match=r'a peer ranks concepts, not names\. Remedy: set rank_by = "concepts"'):
        TASKS["retrieval"]().run(files, peer(tmp_path))
    assert TASKS["retrieval"](rank_by="concepts").run(files, peer(tmp_path)).table[0]["Acc@1"] == 1


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("raise SystemExit(3)", ConfigError, "the peer 'mine' ended with code 3. Remedy: run its command by hand"),
        ("import os; os.kill(os.getpid(), 9)", ConfigError, "the peer 'mine' ended with code -9"),
        ("print('0')", InputError, "the peer 'mine' printed 1 lines that are not those of 2 queries. Remedy: have it"),
        ("print('0')\nprint('7')", InputError, "printed 2 lines that are not those of 2 queries"),
        (r"import sys; sys.stdout.buffer.write(b'\xff\n0\n1\n')", InputError, "printed 3 lines that are not"),
        ("", InputError, "the peer 'mine' printed 0 lines"),
    ],
)
def test_a_peer_that_fails_is_one_error(code: str, kind: type[MedlinkError], said: str, tmp_path: Path) -> None:
    with pytest.raises(kind) as error:
        peer(tmp_path, code).rank(NAMES, [("fever", ""), ("cough", "")])
    assert said in str(error.value)


def test_a_peer_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    code = "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
    code += "open('child', 'w').write(str(child.pid))\ntime.sleep(600)\n"
    start = time.monotonic()
    with pytest.raises(ConfigError, match=r"the peer 'mine' was not ready in 5 s\. Remedy: give it more seconds"):
        peer(tmp_path, code, limit=5.0).rank(NAMES, [("fever", "")])
    assert time.monotonic() - start < 60
    number = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = ""
        with suppress(OSError):
            state = Path(f"/proc/{number}/stat").read_text().split()[2]
        if state in ("", "Z"):
            return
        time.sleep(0.05)
    pytest.fail("what it started goes on")


def test_a_peer_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"nosuch: the peer 'p' cannot be started: .*Remedy: name a program"):
        Peer(name="p", command=["nosuch"]).rank(NAMES, [("fever", "")])


def test_tfidf_of_the_benchmarks_ranks_as_a_loop_does(tmp_path: Path) -> None:
    names = ["fever", "high fever", "cough", "dry cough", "Fieber"]
    entries = [((f"C{at % 3}",), name) for at, name in enumerate(names)]
    mine = Peer(command=[sys.executable, str(BENCHMARKS / "peers/rank_tfidf.py")])
    asked = [("fevers", ""), ("coughing", "en"), ("0", "")]
    found = mine.rank(Dictionary.of(entries), asked)
    texts = sorted(names)
    concepts = [f"C{names.index(text) % 3}" for text in texts]
    model = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    matrix = model.fit_transform(texts).toarray()
    for (text, _), ids in zip(asked, found, strict=True):
        cosines = matrix @ model.transform([text]).toarray()[0]
        best = {one: max(c for c, own in zip(cosines, concepts, strict=True) if own == one) for one in set(concepts)}
        known = [one for one in best if best[one] > 1e-6]
        assert sorted(known, key=lambda one: -best[one]) == ids
    assert found[2] == []
