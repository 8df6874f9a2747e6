"""Changes of links by a new release: rows, counts, and the page in a real Chromium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import medlink
from medlink.cli.main import app
from medlink.curation.impact import RESULTS, ChangeGroups, ImpactReport, LinkChange, check_links, write_impact
from medlink.errors import BundleError, ConfigError, InputError
from medlink.files.escapes import unescape_cell
from medlink.index import Bundle, build_bundle, update_bundle
from medlink.kb import Input, build_kb
from tests.kb.writers import write_lines

from .browser import LAPTOP, PHONE, By, Select, Tab
from .test_page import ATTACKS, Page

# names of each concept in two releases, and tags of the retired ones in the second
OLD = {
    "X:1": ["fever", "pyrexia"], "X:2": ["cough"], "X:3": ["whooping cough"], "X:4": ["ice hockey knee"],
    "X:5": ["nephropathy"], "X:6": ["hepatomegaly", "large liver"], "X:7": ["itch"], "X:8": ["migraine"],
    "X:9": ["tinnitus"],
}  # fmt: skip
NEW = {
    "X:1": ["fever", "pyrexia"], "X:2": ["tussis", "cough"], "X:5": ["nephropathy"], "X:6": ["hepatomegaly"],
    "X:7": ["itch"], "X:8": ["headache of one side"], "X:10": ["large liver"], "X:11": ["nephropathy"],
    "X:9": ["tinnitus"],
}  # fmt: skip
RETIRED = {"X:3": ["is_obsolete: true", "replaced_by: X:2"], "X:4": ["is_obsolete: true", "consider: X:7"]}
NOTES = (
    "Fever and cough. Large liver.",
    "Whooping cough, ice hockey knee, nephropathy.",
    "Fever. Migraine.",
    "Tinnitus. Whooping cough.",
)


def obo(path: Path, terms: dict[str, list[str]], retired: dict[str, list[str]]) -> Input:
    lines = ["format-version: 1.2", f"data-version: {path.stem}"]
    for concept_id, (name, *others) in terms.items():
        synonyms = [f'synonym: "{other}" EXACT []' for other in others]
        lines += ["", "[Term]", f"id: {concept_id}", f"name: {name}", *synonyms]
    for concept_id, tags in retired.items():
        lines += ["", "[Term]", f"id: {concept_id}", "name: gone", *tags]
    return Input("obo", write_lines(path, lines))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundles, and the links of notes made with the first."""
    folder = tmp_path_factory.mktemp("impact")
    build_kb(folder / "kb.sqlite", [obo(folder / "2025.obo", OLD, {})])
    build_bundle(folder / "old", kb=folder / "kb.sqlite")
    shutil.copytree(folder / "old", folder / "new", copy_function=shutil.copy2)
    update_bundle(folder / "new", [obo(folder / "2026.obo", NEW, RETIRED)])
    notes = [json.dumps({"id": f"n{number}", "text": text}) for number, text in enumerate(NOTES)]
    write_lines(folder / "notes.jsonl", notes)
    medlink.link_notes(folder / "old", [folder / "notes.jsonl"], out=folder / "links.jsonl", language="en")
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_every_result(place: Path, tmp_path: Path) -> None:
    steps = list[int]()
    report = check_links(
        place / "old", place / "new", place / "links.jsonl", out=tmp_path / "out.jsonl", progress=steps.append
    )
    found = {(one["note"], one["text"].lower()): one for one in rows(tmp_path / "out.jsonl")}
    brief = {
        key: (one["result"], one["new_concept_id"], one["reason"], one["replaced_by"], one["how"])
        for key, one in found.items()
    }
    whooping = ("merged", brief["n1", "whooping cough"][1], "concept merged", "X:2", "replaced_by")
    assert brief == {
        ("n0", "cough"): ("renamed", "X:2", "preferred name", "", ""),
        ("n0", "large liver"): ("another", "X:10", "name removed", "", ""),
        ("n1", "whooping cough"): whooping,
        ("n1", "ice hockey knee"): ("retired", "", "concept retired", "X:7", "consider"),
        ("n1", "nephropathy"): ("ambiguous", "", "concept added", "", ""),
        ("n2", "migraine"): ("nil", "", "name removed", "", ""),
        ("n3", "whooping cough"): whooping,
    }
    assert report.results == {
        "retired": 1, "merged": 2, "another": 1, "ambiguous": 1, "nil": 1, "renamed": 1, "same": 3,
    }  # fmt: skip
    assert tuple(report.results) == RESULTS
    assert report.checked == len(rows(place / "links.jsonl")) == report.links == steps[-1] == 10
    assert (report.notes, report.changed_notes) == (4, 4)
    assert report.reasons["name removed"] == 2
    # the old link is copied from the file of links, and nothing else of the note
    lines = {(one["note"], one["start"]): one for one in rows(place / "links.jsonl")}
    for one in found.values():
        line = lines[one["note"], one["start"]]
        for field in ("end", "text", "language", "concept_id", "preferred_name", "score"):
            assert one[field] == line[field]
    assert set(next(iter(found.values()))) == set(LinkChange.__slots__)
    strict = check_links(place / "old", place / "new", place / "links.jsonl", threshold=1.0)
    assert strict.results != report.results


@pytest.mark.slow
def test_a_name_of_another_concept(place: Path, tmp_path: Path) -> None:
    """An effect of the context is not a change."""
    shutil.copytree(place / "old", tmp_path / "new", copy_function=shutil.copy2)
    both = {**OLD, "X:7": ["tinnitus", "itch"], "X:9": ["ringing", "tinnitus"]}
    update_bundle(tmp_path / "new", [obo(tmp_path / "x.obo", both, {})])
    check_links(place / "old", tmp_path / "new", place / "links.jsonl", out=tmp_path / "out.jsonl")
    (one,) = rows(tmp_path / "out.jsonl")
    assert (one["text"], one["reason"]) == ("Tinnitus", "name added to another concept")
    # as if the context had decided for the other concept
    line = next(line for line in rows(place / "links.jsonl") if line["text"] == "Tinnitus")
    versions = {**line["versions"], **{key: Bundle(tmp_path / "new").versions[key] for key in ("kb", "encoder")}}
    other = json.dumps({**line, "concept_id": "X:9", "preferred_name": "ringing", "versions": versions})
    report = check_links(tmp_path / "new", tmp_path / "new", write_lines(tmp_path / "l.jsonl", [other]))
    assert report.results["same"] == 1


@pytest.mark.slow
def test_command(place: Path, tmp_path: Path) -> None:
    words = [*map(str, (place / "old", place / "new", place / "links.jsonl"))]
    more = ["-o", str(tmp_path / "out.tsv"), "--report", str(tmp_path / "page.html")]
    output = CliRunner().invoke(app, ["impact", *words, *more], catch_exceptions=False).stdout.splitlines()
    assert output[0] == "10 links, 10 with a concept"
    assert output[2] == "merged              2"
    assert "  concept merged: 2" in output
    assert output[-1] == "4 of 4 notes would be coded differently"
    head, *lines = (tmp_path / "out.tsv").read_text("utf-8").splitlines()
    assert head.split("\t") == list(LinkChange.__slots__)
    assert len(lines) == 7
    read = [dict(zip(head.split("\t"), map(unescape_cell, line.split("\t")), strict=True)) for line in lines]
    assert read[0]["text"] == "cough"
    assert len(Page(tmp_path / "page.html").tags) > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "links", "checked"),
    [
        (None, 0, 0),
        ({"concept_id": None, "preferred_name": None, "score": None}, 1, 0),
        ({"score": 1}, 1, 1),  # other programs write 1.0 as 1
    ],
)
def test_unusual_links(changes: dict[str, Any] | None, links: int, checked: int, place: Path, tmp_path: Path) -> None:
    lines = [] if changes is None else [json.dumps({**rows(place / "links.jsonl")[0], **changes})]
    path, out = write_lines(tmp_path / "links.jsonl", lines), tmp_path / "o.tsv"
    report = check_links(place / "old", place / "new", path, out=out, report=tmp_path / "page.html")
    assert (report.links, report.checked, report.notes) == (links, checked, checked)
    assert out.read_text("utf-8").count("\n") == 1


@pytest.mark.slow
def test_refusals(place: Path, tmp_path: Path) -> None:
    old, new, links = place / "old", place / "new", place / "links.jsonl"
    for arguments, options, error, message in (
        ((new, old, links), {}, InputError, "links.jsonl:1: the link was made with another bundle"),
        ((old, new, tmp_path / "nothing.jsonl"), {}, InputError, "no such file"),
        ((old, tmp_path / "none", links), {}, BundleError, "no such bundle"),
        ((old, new, links), {"out": links}, ConfigError, "the output is the input"),
        ((old, new, links), {"report": new / "page.html"}, ConfigError, "is in a folder that is read"),
    ):
        with pytest.raises(error, match=message):
            check_links(*arguments, **options)
    first = rows(links)[0]
    for changed, match in (
        ({"note": None}, "1: not a link of a note"),
        ({"versions": {}}, "1: not a link of a note"),
        ({"score": None}, "1: the link has no score"),
        ({"candidates": []}, "1: the link has no score"),
        ({"score": float("nan")}, "1: the link has no score"),
        ({"score": float("inf")}, "1: the link has no score"),
        ({"score": True}, "1: the link has no score"),
        ({"start": False}, "1: not a link of a note"),
        ({"expanded": ["fever"]}, "1: not a link of a note"),
        ({"language": "!!"}, "bad.jsonl:1: unknown language '!!'"),
    ):
        bad = write_lines(tmp_path / "bad.jsonl", [json.dumps({**first, **changed})])
        with pytest.raises(InputError, match=match):
            check_links(old, new, bad, out=tmp_path / "out.tsv", report=tmp_path / "page.html")
    for lines in (["[]", json.dumps(first)], ["note,start,end,text", "1,0,5,fever"], ["(fever) since Monday"]):
        bad = write_lines(tmp_path / "bad.csv", lines)
        with pytest.raises(InputError, match=r"no JSON object.*Remedy: give the JSON lines that link_notes\("):
            check_links(old, new, bad)
    assert not (tmp_path / "out.tsv").exists()
    assert not (tmp_path / "page.html").exists()


def attacked(number: int, result: str = "another", text: str = "fever", note: str = "n") -> LinkChange:
    evil = ATTACKS[number % len(ATTACKS)]
    return LinkChange(
        note, 0, 5, text, "en", result, f"X:{number}", evil, 0.9, "X:0", evil, 0.4, "name removed", evil, "same_as"
    )


def test_groups() -> None:
    groups = ChangeGroups()
    for number in range(40):
        one = attacked(1, text=f"text {number % 20}", note=f"n{number // 2}")
        groups.add(one)
    groups.add(attacked(2))
    (result, reason, *_, links, notes, texts, more, some), second = groups.rows()
    assert (result, reason, links, notes) == ("another", "name removed", 40, 20)
    assert (len(texts), more, len(some)) == (12, 16, 12)
    assert second[2] == "X:2"


@pytest.mark.browser
def test_page_in_a_browser(chromium: Tab) -> None:
    path = chromium.folder / "impact.html"
    groups = ChangeGroups()
    for number, text in enumerate(ATTACKS):
        groups.add(attacked(number, RESULTS[number % 6], text, note=text))
    report = ImpactReport(9, 9, {**dict.fromkeys(RESULTS, 1), "same": 2}, {}, 4, 3).to_dict()
    write_impact(path, groups, report, ["X 2025", ATTACKS[1]])
    with chromium.isolated(path):
        chromium.driver.get(path.as_uri())
        assert len(chromium.texts("#changes tr")) == len(ATTACKS)
        assert chromium.texts("#found") == [f"{len(ATTACKS)} changes"]
        assert "3 of 4 notes would be coded differently" in chromium.texts("#summary")[0]
        assert chromium.texts("#changes td:nth-child(2) bdi")[0] == ATTACKS[0]
        assert chromium.run("return document.querySelectorAll('#changes img, #changes script').length") == 0
        Select(chromium.find("[name=result]")).select_by_visible_text("merged")
        chromium.wait(lambda: chromium.texts("#found") == ["2 changes"])
        assert len(chromium.driver.find_elements(By.CSS_SELECTOR, "#changes tr:not([hidden])")) == 2
        Select(chromium.find("[name=result]")).select_by_visible_text("all")
        chromium.find("[name=search]").send_keys("x:3")
        chromium.wait(lambda: chromium.texts("#found") == ["1 change"])
        chromium.find("#changes tr:not([hidden]) summary").click()
        assert chromium.find("#changes tr:not([hidden]) details").get_attribute("open")
        for size in (LAPTOP, PHONE):
            for scheme in ("light", "dark"):
                with chromium.emulating(size, prefers_color_scheme=scheme):
                    assert not chromium.scrolls_sideways
                    assert chromium.low_contrast == []
