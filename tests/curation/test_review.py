"""A review without its page: input, errors, the server, and exports of decisions."""

from __future__ import annotations

import csv
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from medlink import link_notes
from medlink.curation.decisions import HEADER, DecisionStore
from medlink.curation.review import Review
from medlink.curation.review_items import read_review_items
from medlink.curation.server import ReviewServer
from medlink.errors import ConfigError, InputError
from medlink.evaluation.notes import read_texts
from medlink.files.problems import Problems
from medlink.index import Bundle
from medlink.kb.decision_table import Decision, format_cells
from medlink.mapping import map_codes
from medlink.notes import learning
from medlink.notes.learned import read_learned
from medlink.training.data.rated_pairs import read_pairs

from .pages import CLUSTERS
from .reviewed import TEXTS, Linked, code, codes, row
from .test_page import Page, data

# background jobs of a shell, and their children, ignore SIGINT
WITH_SIGINT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom medlink.cli.main import main; main()"
)


def decisions(notes: Linked) -> str:
    """One decision of each kind about the notes."""
    found = {}
    for line in notes.links.read_text("utf-8").splitlines():
        link = json.loads(line)
        found[link["text"]] = link
    rows = []
    for word, decision, concept in (
        ("fever", "accept", "DEMO:0209"), ("Herzinfarkt", "accept", "DEMO:0014"), ("tos", "none", ""),
        ("Husten", "reject", ""),
    ):  # fmt: skip
        link = found[word]
        more = {name: link[name] for name in ("start", "end", "language")}
        rows.append(row("mention", link["note"], word, decision, id=concept, proposed=link["concept_id"], **more))
    at = TEXTS["en"].index("night")
    rows.append(
        row("mention", notes.item("en"), "night", "accept", id="DEMO:0228", language="en", start=at, end=at + 5)
    )
    rows.append(row("note", notes.item("en"), "", "done"))
    return HEADER + "".join(rows)


@pytest.fixture
def decided(notes: Linked, tmp_path: Path) -> Path:
    path = tmp_path / "decisions.tsv"
    path.write_text(decisions(notes), "utf-8")
    return path


def test_the_page_has_all_data(notes: Linked, demo: Bundle, decided: Path, tmp_path: Path) -> None:
    notes.review(demo, decided).write_page(tmp_path / "page.html")
    page = data(Page(tmp_path / "page.html"))
    assert (page["kind"], page["served"]) == ("mention", False)
    assert page["decisions"] == decided.read_text("utf-8")
    assert [note[2] for note in page["notes"]] == [TEXTS["de"], TEXTS["en"], TEXTS["es"]]
    rows = [dict(zip(page["fields"]["cluster"], one, strict=True)) for one in page["clusters"]]
    texts = {note[0]: note[2] for note in page["notes"]}
    assert all(texts[one["item"]][one["start"] : one["end"]] == one["representative"] for one in rows)
    cough = next(one for one in rows if one["representative"] == "cough")
    assert (cough["qualifiers"], cough["types"]) == (["absent"], ["Symptom"])
    heart = next(one for one in rows if one["representative"] == "Herzinfarkt")
    names = {one[1]: [tag for tag, *_ in one[3]] for one in page["concepts"]}
    assert names[heart["concept_id"]] == ["de", "en", "es"]


def test_invalid_input(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    lines = notes.links.read_text("utf-8").splitlines(keepends=True)
    link = json.loads(lines[0])

    def changed(**more: object) -> str:
        return json.dumps({**link, **more}) + "\n"

    def of_cluster(**more: object) -> str:
        return json.dumps({**CLUSTERS[0].to_dict(), **more}) + "\n"

    path = tmp_path / "bad.jsonl"
    for text, message in (
        (changed(end=link["end"] + 1), ":1: the words at its offsets in the note differ"),
        (changed(note="elsewhere.txt"), ":1: the note of this link is missing"),
        (lines[0] + lines[0], ":2: this mention is also in line 1"),
        (lines[0] + changed(start=True), ":2: not a mention to review"),
        *(
            (changed(**wrong), ":1: not a mention to review")
            for wrong in (
                {"candidates": [{"concept_id": "X"}]}, {"language": "klingon"}, {"status": "sure"},
                {"candidates": [{**link["candidates"][0], "same_as": 3}]}, {"presence": ["absent"]},
                {"concept_id": "A B"},
            )
        ),
        ('{"kind": "code", "id": ""}\n', ":1: not a code to review"),
        ('{"members": []}\n', ":1: not a cluster to review"),
        (of_cluster(neighbours=[{"term": "a", "cluster": 2, "similarity": 0.5}]), ":1: not a cluster to review"),
        (of_cluster(broader={"term": "a"}), ":1: not a cluster to review"),
        (of_cluster(broader="a"), ":1: not a cluster to review"),
        (" \n", ": nothing to review"),
        ("sourceCode,sourceName,status\n", ": is not a file of JSON lines, which a review reads"),
    ):  # fmt: skip
        path.write_text(text, "utf-8")
        with pytest.raises(InputError) as caught:
            Review(demo, path, notes=[str(notes.notes)])
        assert str(caught.value).startswith(f"{path}{message}. Remedy: ")
    path.write_text(notes.links.read_text("utf-8").replace('"text": "fever"', '"text": "MARKER"'), "utf-8")
    with pytest.raises(InputError) as caught:
        Review(demo, path, notes=[str(notes.notes)])
    assert not re.search("MARKER|fever", str(caught.value))
    duplicates = tmp_path / "again.jsonl"
    duplicates.write_text('{"id": "a", "text": "b"}\n' * 2, "utf-8")
    wrong = HEADER + row("mention", notes.item("en"), "cold", "reject", start=0, end=2)
    (tmp_path / "d.tsv").write_text(wrong, "utf-8")
    given = [str(notes.notes)]
    options: dict[str, Any]
    for links, options, error, message in (
        (notes.links, {}, InputError, "a review of links needs their notes"),
        (codes(tmp_path), {"notes": given}, InputError, "codes do not belong to notes"),
        (notes.links, {"notes": [str(duplicates)]}, InputError, "again.jsonl:2: another note has the same id"),
        (notes.links, {"notes": given, "decisions": tmp_path / "d.tsv"}, InputError, "d.tsv:2: the words at its off"),
        (notes.links, {"notes": given, "decisions": tmp_path / "d.tsv.gz"}, ConfigError, "cannot be compressed"),
    ):
        with pytest.raises(error, match=message):
            Review(demo, links, **options)
    with pytest.raises(ConfigError, match="there is no table of decisions"):
        notes.review(demo).server()


def test_output_of_link_and_map(demo: Bundle, tmp_path: Path) -> None:
    given, links, listed = tmp_path / "n.jsonl", tmp_path / "links.jsonl", tmp_path / "codes.jsonl"
    given.write_text(json.dumps({"id": "1", "text": "Hb 7,9 g/dl. Kein Fieber.", "language": "de"}), "utf-8")
    link_notes(demo, given, out=links, values=True)
    (tmp_path / "c.csv").write_text("code,name,frequency,unit\n7,Hb,3,g/dl\nL0,,,\n", "utf-8")
    map_codes(demo, tmp_path / "c.csv", out=listed)
    rows = []
    for items in (read_review_items(links, [str(given)]), read_review_items(listed)):
        rows += [dict(zip(items.fields["cluster"], one, strict=True)) for one in items.page_rows(demo.kb)]
    assert [(row["item"], row["representative"], row["concept_id"]) for row in rows] == [
        ("1", "Hb 7,9 g/dl", "DEMO:0152"), ("1", "Fieber", "DEMO:0209"), ("7", "Hb", "DEMO:0447"), ("L0", "L0", None),
    ]  # fmt: skip
    assert rows[0]["value"].startswith("hemoglobin 7.9 g/dl, low: limit 10.5 (WHO")
    assert [row["value"] for row in rows[1:]] == ["", "", ""]
    first = json.loads(links.read_text("utf-8").splitlines()[0])
    links.write_text(json.dumps({**first, "value": {**first["value"], "number": "<b>"}}), "utf-8")
    with pytest.raises(InputError, match=r"links\.jsonl:1: not a mention to review"):
        read_review_items(links, [str(given)])


def test_exports_of_decisions(notes: Linked, demo: Bundle, decided: Path, tmp_path: Path) -> None:
    review = notes.review(demo, decided)
    pairs, gold = tmp_path / "pairs.tsv", tmp_path / "gold.jsonl"
    assert review.write_pairs(pairs) == len(read_pairs(pairs, Problems(0)))
    rated = {(pair.text_1, pair.ids): pair.rating for pair in read_pairs(pairs, Problems(0))}
    assert rated["fever", ("DEMO:0209", "DEMO:0209")] == 1
    # a rejected proposal is wrong
    assert rated["Herzinfarkt", ("DEMO:0014", "DEMO:0016")] == 0
    assert not any(one == "Husten" for one, _ in rated)
    with pairs.open(newline="") as file:
        assert {one["score"] for one in csv.DictReader(file, delimiter="\t")} == {"0", "1"}

    assert review.write_gold(gold) == 3
    assert gold.stat().st_mode & 0o777 == 0o600
    texts = {one.language: one for one in read_texts([gold], Problems(0))}
    assert {la: (one.text, one.complete, len(one.findings)) for la, one in texts.items()} == {
        "de": (TEXTS["de"], False, 1), "en": (TEXTS["en"], True, 2), "es": (TEXTS["es"], False, 1),
    }  # fmt: skip
    found = texts["en"].findings[-1]
    assert (TEXTS["en"][slice(*found.pieces[0])], found.concepts) == ("night", {"DEMO:0228"})

    learned = tmp_path / "learned.jsonl"
    learning.learn(demo, [decided], learned, least_seen=1)
    _, entries = read_learned(learned)
    assert {mention: dict(one.everywhere) for (mention, _), one in entries.items()} == {
        "fever": {"DEMO:0209": 1}, "herzinfarkt": {"DEMO:0014": 1}, "night": {"DEMO:0228": 1},
        "tos": {"no concept": 1},
        "husten": {"no mention": 1},
    }  # fmt: skip
    with pytest.raises(InputError, match="has no texts of notes"):
        read_texts([decided], Problems(0))


def test_decisions_for_a_concept_that_a_release_retired(
    notes: Linked, demo: Bundle, decided: Path, tmp_path: Path
) -> None:
    (tmp_path / "old.tsv").write_text(decided.read_text("utf-8").replace("DEMO:0014", "GONE:1"), "utf-8")
    review, pairs, gold = notes.review(demo, tmp_path / "old.tsv"), tmp_path / "pairs.tsv", tmp_path / "gold.jsonl"
    assert list(review.warnings()) == [
        "1 decision for a concept that the bundle does not have; pairs and gold lack them"
    ]
    review.write_pairs(pairs)
    assert not any(pair.text_1 == "Herzinfarkt" for pair in read_pairs(pairs, Problems(0)))
    review.write_gold(gold)
    assert {concept for one in read_texts([gold], Problems(0)) for f in one.findings for concept in f.concepts} == {
        "DEMO:0209", "DEMO:0228"
    }  # fmt: skip


def test_no_decisions(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    review = notes.review(demo, tmp_path / "none.tsv")
    with pytest.raises(InputError, match="no decision gives a training pair"):
        review.write_pairs(tmp_path / "pairs.tsv")
    with pytest.raises(InputError, match="there is no decision about a mention of these notes"):
        review.write_gold(tmp_path / "gold.jsonl")
    with pytest.raises(InputError, match="codes give no annotated notes"):
        Review(demo, codes(tmp_path), decisions=tmp_path / "none.tsv").write_gold(tmp_path / "gold.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["codes.jsonl"]


@contextmanager
def serving(review: Review) -> Iterator[ReviewServer]:
    with review.server() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(
    server: ReviewServer, path: str, method: str = "GET", body: bytes | str = "", **headers: str
) -> tuple[int, bytes, str]:
    """Status, content and ETag of an answer; a path without leading slash follows the token."""
    url = f"http://{server.host}" + (path if path.startswith("/") else f"/{server.token}/{path}")
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = httpx.request(method, url, content=body, headers=given, timeout=10, trust_env=False)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Server" not in answer.headers
    return answer.status_code, answer.content, answer.headers.get("ETag", "")


def refusal(*given: Any, **headers: str) -> tuple[int, str]:
    """Status and sentence of a refused request."""
    status, content, _ = request(*given, **headers)
    problem = json.loads(content)
    assert (problem["status"], list(problem)) == (status, ["title", "status", "detail"])
    return status, problem["detail"]


@pytest.mark.slow
def test_the_server(notes: Linked, demo: Bundle, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "decisions.tsv"
    with serving(notes.review(demo, out)) as server:
        assert server.url == f"http://127.0.0.1:{server.port}/{server.token}/"
        status, page, _ = request(server, "")
        assert status == 200
        assert b"connect-src 'self'" in page
        status, table, tag = request(server, "decisions")
        assert (status, table.decode()) == (200, HEADER)
        # another site, another name of this machine, no token
        for path, headers in (
            ("", {"Host": "evil.example"}),
            ("", {"Host": "localhost"}),
            ("", {"Origin": "http://evil.example"}),
            ("", {"Origin": "null"}),
        ):
            assert refusal(server, path, **headers) == (403, "Forbidden")
        token = server.token
        for path in ("/", "/x/", f"/{token}", f"/{token[:-1]}/decisions", f"/{token}/%2e./", "/etc"):
            assert refusal(server, path) == (404, "Not Found")
        assert refusal(server, "decisions", "DELETE") == (405, "Method Not Allowed")
        assert refusal(server, "", "PUT") == (405, "Method Not Allowed")

        first = HEADER + row("note", notes.item("de"), "", "done")
        status, _, second_tag = request(server, "decisions", "PUT", first, If_Match=tag)
        assert (status, out.read_text("utf-8")) == (200, first)
        # a page that has not read this decision cannot remove it
        status, answer = refusal(server, "decisions", "PUT", HEADER, If_Match=tag)
        assert (status, out.read_text("utf-8")) == (412, first)
        assert answer.startswith(f"Not saved: {out}: was changed by another page or program")
        # nor can one that sends an invalid table
        status, answer = refusal(server, "decisions", "PUT", first + "x\n", If_Match=second_tag)
        assert (status, out.read_text("utf-8")) == (500, first)
        assert answer.startswith(f"Not saved: {out}:3: 1 of 2 rows cannot be used")

        hits = json.loads(request(server, "search?text=shortnes+of+breath&language=en")[1])
        assert (hits[0]["concept_id"], hits[0]["preferred_name"]) == ("DEMO:0228", "dyspnea")
        assert json.loads(request(server, "search?text=DEMO:0209&language=de")[1])[0]["preferred_name"] == "Fieber"
        assert json.loads(request(server, "search?text=&language=")[1]) == []
        concept = json.loads(request(server, "concept?id=DEMO:0228&language=es")[1])
        assert [tag for tag, *_ in concept["names"]] == ["de", "en", "es"]
        assert json.loads(request(server, "concept?id=no&language=")[1]) is None
        port = server.port
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be used: .*Remedy: name another port"):
            notes.review(demo, out).server(port)
    # a later review resumes
    assert notes.review(demo, out).store.rows[0].item == notes.item("de")
    assert capfd.readouterr() == ("", "")


def test_a_truncated_request_changes_nothing(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "decisions.tsv"
    with serving(notes.review(demo, out)) as server:
        tag = request(server, "decisions")[2]
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.putrequest("PUT", f"/{server.token}/decisions")
        for name, value in (("If-Match", tag), ("Content-Length", "1000")):
            connection.putheader(name, value)
        connection.endheaders(HEADER.encode())
        connection.sock.shutdown(1)
        with closing(connection), pytest.raises(ConnectionError):
            connection.getresponse()
    assert not out.exists()


def test_a_large_body_is_refused(notes: Linked, demo: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the client states its size or not; the connection stays usable."""
    monkeypatch.setattr("medlink.curation.server._MAX_BYTES", 5_000_000)
    sentence = "The body is larger than 5,000,000 bytes: send less in one request."
    body = b"x" * 6_000_000
    with serving(notes.review(demo, tmp_path / "d.tsv")) as server, httpx.Client(timeout=10, trust_env=False) as client:
        for content in (body, iter([body])):
            answer = client.put(f"{server.url}decisions", content=content)
            assert (answer.status_code, answer.json()["detail"]) == (413, sentence)
        assert client.get(f"{server.url}decisions").status_code == 200
    assert not (tmp_path / "d.tsv").exists()


def test_codes_and_clusters(demo: Bundle, tmp_path: Path) -> None:
    review = Review(demo, codes(tmp_path), decisions=tmp_path / "d.tsv")
    # a code without a name, whose frequency a table wrote as 7.0
    odd = tmp_path / "odd.jsonl"
    odd.write_text(json.dumps({**code("L9", "", "", 7, None, "nil"), "frequency": 7.0}) + "\n", "utf-8")
    ((_, only),) = Review(demo, odd).items.rows
    assert (only["text"], only["frequency"]) == ("L9", 7)
    rows = [Decision("DEMO:0016", "Herzinfarkt", "de", False, "", "accept", 2, "code", "=L1", proposed="DEMO:0016")]
    with serving(review) as server:
        text = HEADER + "".join("\t".join(format_cells(one)) + "\n" for one in rows)
        assert request(server, "decisions", "PUT", text, If_Match=request(server, "decisions")[2])[0] == 200
    assert DecisionStore(tmp_path / "d.tsv").rows == rows
    path = tmp_path / "clusters.jsonl"
    path.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in CLUSTERS), "utf-8")
    Review(demo, path).write_page(tmp_path / "page.html")
    page = data(Page(tmp_path / "page.html"))
    assert (page["kind"], [one[1] for one in page["clusters"]]) == ("cluster", [one.representative for one in CLUSTERS])


@pytest.mark.slow
def test_a_kill_loses_no_decision_and_an_interrupt_ends_the_review(demo_path: Path, tmp_path: Path) -> None:
    """The command prints its address; an answered decision is on the disk."""
    words = ["review", str(demo_path), str(codes(tmp_path)), "-o", str(tmp_path / "d.tsv")]
    ends = ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 0), (signal.SIGTERM, 0))
    for item, (end, status) in zip(("L3", "L2", "L1"), ends, strict=True):
        run = subprocess.Popen(
            [sys.executable, "-c", WITH_SIGINT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        with httpx.Client(timeout=20, trust_env=False) as client:
            answer = client.get(f"{url}decisions")
            table = answer.text + row("code", item, "x", "none")
            headers = {"If-Match": answer.headers["ETag"]}
            assert client.put(f"{url}decisions", content=table, headers=headers).status_code == 200
        run.send_signal(end)
        _, errors = run.communicate(timeout=20)
        assert run.returncode == status
        # neither words of the list nor requests are printed
        assert errors.splitlines() == ["open this address in a browser on this machine; Ctrl-C ends the review"]
        assert (tmp_path / "d.tsv").read_text("utf-8") == table
    assert [one.item for one in DecisionStore(tmp_path / "d.tsv").rows] == ["L3", "L2", "L1"]
