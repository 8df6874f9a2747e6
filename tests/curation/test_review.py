"""A review without its page: what is read, what is refused, the server, and what becomes of decisions."""

from __future__ import annotations

import csv
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from medlink import link_notes
from medlink.cli.main import app
from medlink.curation.decisions import HEADER, Kept
from medlink.curation.review import Review
from medlink.curation.review_items import read_work
from medlink.curation.server import ReviewServer
from medlink.errors import ConfigError, InputError
from medlink.evaluation.notes import read_texts
from medlink.files.problems import Problems
from medlink.index import Bundle
from medlink.kb.decision_table import Decision, cells
from medlink.linking import Linker
from medlink.mapping import map_codes
from medlink.notes import learning
from medlink.notes.learned import read_learned
from medlink.training.data.rated import read_pairs

from .pages import CLUSTERS
from .reviewed import TEXTS, Linked, code, codes, row
from .test_page import Page, data

# the background jobs of a shell ignore an interrupt, and so do the processes that they start
HEEDING = (
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


def test_the_report_holds_all_that_the_page_needs(notes: Linked, demo: Bundle, decided: Path, tmp_path: Path) -> None:
    notes.review(demo, decided).write_report(tmp_path / "page.html")
    page = data(Page(tmp_path / "page.html"))
    assert (page["kind"], page["served"]) == ("mention", False)
    assert page["decisions"] == decided.read_text("utf-8")
    assert [note[2] for note in page["notes"]] == [TEXTS["de"], TEXTS["en"], TEXTS["es"]]
    rows = [dict(zip(page["fields"]["cluster"], one, strict=True)) for one in page["clusters"]]
    texts = {note[0]: note[2] for note in page["notes"]}
    assert all(texts[one["item"]][one["start"] : one["end"]] == one["representative"] for one in rows)
    cough = next(one for one in rows if one["representative"] == "cough")
    assert (cough["said"], cough["types"]) == (["absent"], ["Symptom"])
    heart = next(one for one in rows if one["representative"] == "Herzinfarkt")
    names = {one[1]: [tag for tag, *_ in one[3]] for one in page["concepts"]}
    assert names[heart["concept_id"]] == ["de", "en", "es"]


def test_what_is_no_review_is_refused(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    lines = notes.links.read_text("utf-8").splitlines(keepends=True)
    link = json.loads(lines[0])

    def changed(**more: object) -> str:
        return json.dumps({**link, **more}) + "\n"

    def of_cluster(**more: object) -> str:
        return json.dumps({**CLUSTERS[0].to_dict(), **more}) + "\n"

    for text, message in (
        (changed(end=link["end"] + 1), ":1: other words stand at its place in the note. Remedy: link the notes again"),
        (
            changed(note="elsewhere.txt"),
            ":1: its note is not among those that were named. Remedy: name the notes ",
        ),
        (lines[0] + lines[0], ":2: this mention is in line 1, too. Remedy: leave one of the two lines."),
        (lines[0] + changed(start=True), ":2: is no mention to review. Remedy: give a file that link_notes() wrote."),
        (changed(candidates=[{"concept_id": "X"}]), ":1: is no mention to review."),
        (changed(language="klingon"), ":1: is no mention to review."),
        (changed(status="sure"), ":1: is no mention to review."),
        (changed(candidates=[{**link["candidates"][0], "same_as": 3}]), ":1: is no mention to review."),
        (changed(presence=["absent"]), ":1: is no mention to review."),
        (changed(concept_id="A B"), ":1: is no mention to review."),
        ('{"kind": "code", "id": ""}\n', ":1: is no code to review. Remedy: give JSON lines of kind 'code' with id, "),
        (
            '{"members": []}\n',
            ":1: is no cluster to review. Remedy: give a file that cluster_list(format=jsonl) ",
        ),
        (of_cluster(neighbours=[{"term": "a", "cluster": 2, "similarity": 0.5}]), ":1: is no cluster to review."),
        (of_cluster(broader={"term": "a"}), ":1: is no cluster to review."),
        (of_cluster(broader="a"), ":1: is no cluster to review."),
        (" \n", ": there is nothing to review in it. Remedy: give a file with links."),
    ):
        path = tmp_path / "bad.jsonl"
        path.write_text(text, "utf-8")
        with pytest.raises(InputError) as caught:
            Review(demo, path, notes=[str(notes.notes)])
        assert str(caught.value).startswith(f"{path}{message}")
    with pytest.raises(InputError, match=r"links cannot be reviewed without notes to show them in. Remedy: name"):
        Review(demo, notes.links)
    with pytest.raises(InputError, match=r"codes are of no note. Remedy: leave notes out."):
        Review(demo, codes(tmp_path), notes=[str(notes.notes)])
    again = tmp_path / "again.jsonl"
    again.write_text('{"id": "a", "text": "b"}\n' * 2, "utf-8")
    with pytest.raises(InputError, match=r"again.jsonl:2: another note has the same id. Remedy: give each note an id"):
        Review(demo, notes.links, notes=[str(again)])
    (tmp_path / "d.tsv").write_text(
        HEADER + row("mention", notes.item("en"), "cold", "reject", start=0, end=2), "utf-8"
    )
    with pytest.raises(
        InputError, match=r"d.tsv:2: other words stand at its place in the note. Remedy: give the notes"
    ):
        notes.review(demo, tmp_path / "d.tsv")
    with pytest.raises(ConfigError, match=r"decisions are not packed. Remedy: name a file without .gz."):
        notes.review(demo, tmp_path / "d.tsv.gz")
    with pytest.raises(ConfigError, match=r"there is no table of decisions. Remedy: name one"):
        notes.review(demo).server()


def test_what_link_and_map_write_is_read(demo: Bundle, tmp_path: Path) -> None:
    given, links, listed = tmp_path / "n.jsonl", tmp_path / "links.jsonl", tmp_path / "codes.jsonl"
    given.write_text(json.dumps({"id": "1", "text": "Hb 7,9 g/dl. Kein Fieber.", "language": "de"}), "utf-8")
    link_notes(demo, given, out=links, values=True)
    (tmp_path / "c.csv").write_text("code,name,frequency,unit\n7,Hb,3,g/dl\nL0,,,\n", "utf-8")
    map_codes(demo, tmp_path / "c.csv", out=listed)
    rows = []
    for work in (read_work(links, [str(given)]), read_work(listed)):
        rows += [dict(zip(work.fields["cluster"], one, strict=True)) for one in work.page_rows(demo.kb)]
    assert [(row["item"], row["representative"], row["concept_id"]) for row in rows] == [
        ("1", "Hb 7,9 g/dl", "DEMO:0152"), ("1", "Fieber", "DEMO:0209"), ("7", "Hb", "DEMO:0447"), ("L0", "L0", None),
    ]  # fmt: skip
    assert rows[0]["value"].startswith("hemoglobin 7.9 g/dl, low: limit 10.5 (WHO")
    assert [row["value"] for row in rows[1:]] == ["", "", ""]
    first = json.loads(links.read_text("utf-8").splitlines()[0])
    links.write_text(json.dumps({**first, "value": {**first["value"], "number": "<b>"}}), "utf-8")
    with pytest.raises(InputError, match=r"links\.jsonl:1: is no mention to review"):
        read_work(links, [str(given)])


def test_no_words_of_notes_in_errors(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text(notes.links.read_text("utf-8").replace('"text": "fever"', '"text": "MARKER"'), "utf-8")
    with pytest.raises(InputError) as caught:
        Review(demo, path, notes=[str(notes.notes)])
    assert not re.search("MARKER|fever", str(caught.value))


def test_decisions_are_pairs_gold_synonyms_and_learned_mentions(
    notes: Linked, demo: Bundle, decided: Path, tmp_path: Path
) -> None:
    review = notes.review(demo, decided)
    pairs, gold = tmp_path / "pairs.tsv", tmp_path / "gold.jsonl"
    assert review.write_pairs(pairs) == len(read_pairs(pairs, Problems(0)))
    rated = {(one.one, one.ids): one.rating for one in read_pairs(pairs, Problems(0))}
    assert rated["fever", ("DEMO:0209", "DEMO:0209")] == 1
    # what was proposed and not taken is wrong
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
    with pytest.raises(
        InputError, match=r"has no texts of notes. Remedy: write the texts with the decisions, by Review"
    ):
        read_texts([decided], Problems(0))


def test_decisions_are_synonyms_of_a_bundle(decided: Path, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("id\tname\tlanguage\nDEMO:0228\tdyspnea\ten\nDEMO:0209\tfever\ten\n", "utf-8")
    for words in (f"kb build {tmp_path}/own --table {tmp_path}/own.tsv", f"index build {tmp_path}/own"):
        CliRunner().invoke(app, words.split(), catch_exceptions=False)
    text = "".join(line for line in decided.read_text("utf-8").splitlines(True) if "DEMO:0014" not in line)
    decided.write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["index", "add", f"{tmp_path}/own", "--table", str(decided)], catch_exceptions=False)
    assert "columns left out" not in done.output
    assert Linker(tmp_path / "own").link(["night"])[0].concept_id == "DEMO:0228"


def test_nothing_decided_gives_nothing(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    review = notes.review(demo, tmp_path / "none.tsv")
    with pytest.raises(InputError, match=r"no decision gives a training pair. Remedy: decide about mentions first"):
        review.write_pairs(tmp_path / "pairs.tsv")
    with pytest.raises(InputError, match=r"nothing was decided about a mention of these notes. Remedy: decide"):
        review.write_gold(tmp_path / "gold.jsonl")
    with pytest.raises(InputError, match=r"codes are no gold for notes. Remedy: give links of notes, and the notes."):
        Review(demo, codes(tmp_path), decisions=tmp_path / "none.tsv").write_gold(tmp_path / "gold.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["codes.jsonl"]


@contextmanager
def serving(review: Review) -> Iterator[ReviewServer]:
    with review.server() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: ReviewServer, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, bytes, str]:
    """Status, content and ETag of an answer; the path is that behind the token unless it begins with a slash."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    given = {"Host": server.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path if path.startswith("/") else f"/{server.token}/{path}", body.encode(), given)
    answer = connection.getresponse()
    assert answer.getheader("Cache-Control") == "no-store"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    return answer.status, answer.read(), answer.getheader("ETag", "")


def test_the_server(notes: Linked, demo: Bundle, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "decisions.tsv"
    with serving(notes.review(demo, out)) as server:
        assert server.url == f"http://127.0.0.1:{server.server_address[1]}/{server.token}/"
        assert server.server_address[0] == "127.0.0.1"
        status, page, _ = ask(server, "")
        assert status == 200
        assert b"connect-src 'self'" in page
        status, table, tag = ask(server, "decisions")
        assert (status, table.decode()) == (200, HEADER)
        # of another site, of another name for this machine, without the token
        for path, headers in (
            ("", {"Host": "evil.example"}),
            ("", {"Host": "localhost"}),
            ("", {"Origin": "http://evil.example"}),
            ("", {"Origin": "null"}),
        ):
            assert ask(server, path, **headers)[:2] == (403, b"Forbidden")
        for path in ("/", "/x/", f"/{server.token}", f"/{server.token[:-1]}/decisions", f"/{server.token}/../", "/etc"):
            assert ask(server, path)[:2] == (404, b"Not Found")
        assert ask(server, "decisions", "DELETE")[0] == 501
        assert ask(server, "", "PUT")[0] == 404

        first = HEADER + row("note", notes.item("de"), "", "done")
        status, _, second_tag = ask(server, "decisions", "PUT", first, If_Match=tag)
        assert (status, out.read_text("utf-8")) == (200, first)
        # a page that did not see this decision takes none away
        status, said, _ = ask(server, "decisions", "PUT", HEADER, If_Match=tag)
        assert (status, out.read_text("utf-8")) == (412, first)
        assert said.decode().startswith(f"Not saved: {out}: was changed by another page or program. Remedy: reload the")
        # nor does one that writes what cannot be read
        status, said, _ = ask(server, "decisions", "PUT", first + "x\n", If_Match=second_tag)
        assert (status, out.read_text("utf-8")) == (500, first)
        assert said.decode().startswith(f"Not saved: {out}:3: 1 of 2 rows cannot be used")

        hits = json.loads(ask(server, "search?text=shortnes+of+breath&language=en")[1])
        assert (hits[0]["concept_id"], hits[0]["preferred_name"]) == ("DEMO:0228", "dyspnea")
        assert json.loads(ask(server, "search?text=DEMO:0209&language=de")[1])[0]["preferred_name"] == "Fieber"
        assert json.loads(ask(server, "search?text=&language=")[1]) == []
        concept = json.loads(ask(server, "concept?id=DEMO:0228&language=es")[1])
        assert [tag for tag, *_ in concept["names"]] == ["de", "en", "es"]
        assert json.loads(ask(server, "concept?id=no&language=")[1]) is None
        port = server.server_address[1]
        with pytest.raises(ConfigError, match=f"port {port} cannot be used: .*Remedy: name another port"):
            notes.review(demo, out).server(port)
    # a later review goes on
    assert notes.review(demo, out).kept.rows[0].item == notes.item("de")
    assert capfd.readouterr() == ("", "")


def test_a_request_that_is_cut_off_decides_nothing(notes: Linked, demo: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "decisions.tsv"
    with serving(notes.review(demo, out)) as server:
        tag = ask(server, "decisions")[2]
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
        connection.putrequest("PUT", f"/{server.token}/decisions", skip_host=True)
        for name, value in (("Host", server.host), ("If-Match", tag), ("Content-Length", "1000")):
            connection.putheader(name, value)
        connection.endheaders(HEADER.encode())
        connection.sock.shutdown(1)
        assert connection.getresponse().status == 400
    assert not out.exists()


def test_codes_and_clusters(demo: Bundle, tmp_path: Path) -> None:
    review = Review(demo, codes(tmp_path), decisions=tmp_path / "d.tsv")
    # of a code without a name, and with a number that a table gave as 7.0
    odd = tmp_path / "odd.jsonl"
    odd.write_text(json.dumps({**code("L9", "", "", 7, None, "nil"), "frequency": 7.0}) + "\n", "utf-8")
    ((_, only),) = Review(demo, odd).work.rows
    assert (only["text"], only["frequency"]) == ("L9", 7)
    rows = [Decision("DEMO:0016", "Herzinfarkt", "de", False, "", "accept", 2, "code", "=L1", proposed="DEMO:0016")]
    with serving(review) as server:
        text = HEADER + "".join("\t".join(cells(one)) + "\n" for one in rows)
        assert ask(server, "decisions", "PUT", text, If_Match=ask(server, "decisions")[2])[0] == 200
    assert Kept(tmp_path / "d.tsv").rows == rows
    path = tmp_path / "clusters.jsonl"
    path.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in CLUSTERS), "utf-8")
    Review(demo, path).write_report(tmp_path / "page.html")
    page = data(Page(tmp_path / "page.html"))
    assert (page["kind"], [one[1] for one in page["clusters"]]) == ("cluster", [one.representative for one in CLUSTERS])


def test_a_kill_loses_no_decision_and_an_interrupt_ends_the_review(demo_path: Path, tmp_path: Path) -> None:
    """The command itself: it says its address, and each answer means that the decision is on the disk."""
    words = ["review", str(demo_path), str(codes(tmp_path)), "-o", str(tmp_path / "d.tsv")]
    for end, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 0)):
        run = subprocess.Popen(
            [sys.executable, "-c", HEEDING, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        host, path = url.removeprefix("http://").split("/", 1)
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("GET", f"/{path}decisions")
        answer = connection.getresponse()
        table, tag = answer.read().decode(), answer.getheader("ETag", "")
        table += row("code", "L2" if "L3" in table else "L3", "x", "none")
        connection.request("PUT", f"/{path}decisions", table.encode(), {"If-Match": tag})
        assert connection.getresponse().status == 200
        run.send_signal(end)
        _, said = run.communicate(timeout=20)
        assert run.returncode == status
        # the words of the list, and what was asked for, are not told
        assert said.splitlines() == ["open this address in a browser on this machine; Ctrl-C ends the review"]
        assert (tmp_path / "d.tsv").read_text("utf-8") == table
    assert [one.item for one in Kept(tmp_path / "d.tsv").rows] == ["L3", "L2"]
