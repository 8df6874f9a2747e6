"""The page of a review in a real Chromium: keyboard only, three languages, two widths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from medlink.curation.decisions import DecisionStore, read_decisions
from medlink.curation.review import Review
from medlink.index import Bundle

from .browser import LAPTOP, PHONE, ActionChains, Keys, Select, Tab
from .pages import CLUSTERS
from .reviewed import TEXTS, Linked, code, codes
from .test_page import ATTACKS
from .test_review import decisions, serving

pytestmark = pytest.mark.browser


def press(tab: Tab, *keys: str) -> None:
    """Send keys to the focused element."""
    for key in keys:
        ActionChains(tab.driver).send_keys(key).perform()


def saved(tab: Tab) -> None:
    tab.wait(lambda: tab.texts("#saved") == ["saved"])


def title(tab: Tab) -> str:
    return tab.texts(".card h2")[0]


@contextmanager
def opened(tab: Tab, review: Review, size: tuple[int, int] = LAPTOP) -> Iterator[str]:
    """The served page; afterwards, check that nothing else was loaded."""
    with serving(review) as server, tab.emulating(size), tab.isolated(served=server.url):
        tab.driver.get(server.url)
        saved(tab)
        yield server.url
        tab.driver.get("about:blank")


@pytest.mark.parametrize(
    ("language", "missed", "wanted", "concept", "size"),
    [("de", "links", "Dyspnoe", "DEMO:0228", LAPTOP), ("en", "night", "dyspnea", "DEMO:0228", PHONE)],
)
def test_with_the_keyboard_alone(
    language: str, missed: str, wanted: str, concept: str, size: tuple[int, int],
    notes: Linked, demo: Bundle, chromium: Tab, tmp_path: Path,
) -> None:  # fmt: skip
    lines = [line for line in notes.links.read_text("utf-8").splitlines(True) if f"{language}.txt" in line]
    links = tmp_path / "links.jsonl"
    links.write_text("".join(lines), "utf-8")
    found = [json.loads(line) for line in lines]
    out, item = tmp_path / "decisions.tsv", notes.item(language)
    tab = chromium
    with opened(tab, Review(demo, links, notes=[item], decisions=out), size):
        assert tab.texts(".text .mention") == [one["text"] for one in found]
        assert title(tab) == found[0]["text"]
        tab.wait(lambda: tab.texts(".known-of dt")[-3:] == ["German", "English", "Spanish"])
        assert not tab.scrolls_sideways
        press(tab, "?")
        assert tab.texts("#help-dialog dt:not([hidden])")[:4] == ["j k", "a", "1 to 9", "r"]
        press(tab, Keys.ESCAPE)
        # the browser closes a dialog with a delay
        tab.wait(lambda: tab.texts("dialog[open]") == [])
        press(tab, "a", "r")
        # search for another concept
        press(tab, "k", "c")
        press(tab, wanted)
        press(tab, Keys.ENTER)
        tab.wait(lambda: f"as {concept}." in tab.texts("#message")[0])
        # add a missed mention by its words
        press(tab, "i")
        press(tab, missed)
        press(tab, Keys.ENTER)
        tab.wait(lambda: tab.texts("#concept-dialog[open]") != [])
        press(tab, wanted)
        press(tab, Keys.ENTER)
        tab.wait(lambda: f"Accepted “{missed}” as {concept}." in tab.texts("#message"))
        press(tab, "f")
        saved(tab)
        tab.driver.refresh()
        saved(tab)
        tab.wait(lambda: tab.texts("#decided") == [f"3 of {len(found) + 1} decided"])
        assert tab.texts(".text .mention.accept") == sorted(
            [found[0]["text"], found[1]["text"], missed], key=TEXTS[language].index
        )
        assert tab.find("[aria-pressed=true]").text.startswith("✓ Fully annotated")
        assert tab.low_contrast == []
    rows = DecisionStore(out).rows
    assert [(row.term, row.decision, row.concept_id) for row in rows if row.kind == "mention"] == sorted(
        [
            (found[0]["text"], "accept", found[0]["concept_id"]),
            (found[1]["text"], "accept", concept),
            (missed, "accept", concept),
        ],
        key=lambda row: TEXTS[language].index(row[0]),
    )
    assert [row.decision for row in rows if row.kind == "note"] == ["done"]
    assert all(TEXTS[language][row.start : row.end] == row.term for row in rows if row.kind == "mention")


def test_filters_of_mentions(notes: Linked, demo: Bundle, chromium: Tab, tmp_path: Path) -> None:
    out = tmp_path / "decisions.tsv"
    out.write_text(decisions(notes), "utf-8")
    links = [json.loads(line) for line in notes.links.read_text("utf-8").splitlines()]
    tab = chromium
    with opened(tab, notes.review(demo, out)):
        number = len(links) + 1  # one was added
        for name, choice, count in (
            ("language", "Spanish", sum(one["language"] == "es" for one in links)),
            ("below", "below 0.5", sum(one["candidates"][0]["score"] < 0.5 for one in links) + 1),
            ("qualifiers", "absent", sum(one["presence"] == "absent" for one in links)),
            ("status", "linked", sum(one["status"] == "linked" for one in links)),
            ("decision", "accepted", 4),
            ("decision", "undecided", number - 5),
            ("type", "Disease", sum(one["candidates"][0]["semantic_types"] == ["Disease"] for one in links)),
        ):
            Select(tab.find(f"[name={name}]")).select_by_visible_text(choice)
            assert tab.texts("#found") == [f"{count} of {number}"], choice
            tab.run("document.getElementById('filters').reset()")


def test_selected_words_are_added(notes: Linked, demo: Bundle, chromium: Tab, tmp_path: Path) -> None:
    out, tab = tmp_path / "decisions.tsv", chromium
    select = """
        const walk = document.createTreeWalker(document.querySelector(".text"), NodeFilter.SHOW_TEXT);
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
          const at = node.data.indexOf(arguments[0]);
          if (at >= 0) getSelection().setBaseAndExtent(node, at, node, at + arguments[0].length);
        }"""
    with opened(tab, notes.review(demo, out)):
        # behind an emoji and line ends of two characters
        tab.run(select, " jetzt")
        press(tab, "i")
        tab.wait(lambda: tab.texts("#concept-dialog[open]") != [])
        press(tab, Keys.ESCAPE)
        # until the dialog is closed, the next key would go into its search field
        tab.wait(lambda: tab.texts("#concept-dialog[open]") == [])
        press(tab, "a")
        tab.wait(lambda: tab.texts("#decided")[0].startswith("1 of"))
        saved(tab)
        tab.run(select, "Fieber")
        press(tab, "i")
        assert tab.texts("#message") == ["Not added: it overlaps “Fieber”. Reject that first."]
    (row,) = DecisionStore(out).rows
    assert (TEXTS["de"][row.start : row.end], row.term, row.decision) == ("jetzt", "jetzt", "none")
    links = [json.loads(line) for line in notes.links.read_text("utf-8").splitlines()]
    assert row.section == next(one["section"] for one in links if one["text"] == "Herzinfarkt") == "diagnoses"


def test_no_key_is_lost_behind_a_dialog(notes: Linked, demo: Bundle, chromium: Tab, tmp_path: Path) -> None:
    out, tab = tmp_path / "decisions.tsv", chromium
    with opened(tab, notes.review(demo, out)):
        press(tab, "?")
        tab.wait(lambda: tab.texts("#help-dialog[open]") != [])
        # in one task: no frame is drawn between them, so that the focus is still in the closed dialog
        tab.run("""
            const dialog = document.querySelector("#help-dialog"), button = dialog.querySelector("button");
            button.focus();
            dialog.close();
            button.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true, cancelable: true }));""")
        tab.wait(lambda: tab.texts("#decided")[0].startswith("1 of"))
        saved(tab)


def test_a_page_does_not_overwrite_another(notes: Linked, demo: Bundle, chromium: Tab, tmp_path: Path) -> None:
    out, tab = tmp_path / "decisions.tsv", chromium
    with serving(notes.review(demo, out)) as server:
        tab.driver.get(server.url)
        saved(tab)
        out.write_text(decisions(notes), "utf-8")
        press(tab, "a")
        tab.wait(lambda: "was changed by another page or program" in tab.texts("#message")[0])
        assert tab.texts("#saved") == ["not saved"]
        assert out.read_text("utf-8") == decisions(notes)
        tab.driver.get_log("browser")  # the console shows the error status
        assert not tab.run("return window.dispatchEvent(new Event('beforeunload', {cancelable: true}))")
        tab.driver.refresh()
        saved(tab)
        tab.wait(lambda: tab.texts("#decided")[0].startswith("5 of"))
        tab.driver.get("about:blank")


def test_codes_in_one_file(demo: Bundle, chromium: Tab, tmp_path: Path) -> None:
    path, tab, page = codes(tmp_path), chromium, tmp_path / "page.html"
    hostile = [code(attack, attack, "en", 1, "DEMO:0209", "linked") for attack in ATTACKS[:6]]
    for number, one in enumerate(hostile):
        one["id"] = f"{number} {one['id']}"
        one["candidates"] = [{**one["candidates"][0], "preferred_name": ATTACKS[number]}]
    hostile[5]["id"] = hostile[4]["id"]  # a code with two descriptions
    path.write_text(path.read_text("utf-8") + "".join(json.dumps(one) + "\n" for one in hostile), "utf-8")
    Review(demo, path).write_page(page)
    (tab.downloads).mkdir(exist_ok=True)
    for old in tab.downloads.iterdir():
        old.unlink()
    with tab.isolated(page):
        tab.driver.get(page.as_uri())
        assert tab.texts(".row .term")[:3] == ["Herzinfarkt", "fever of <b>unknown</b> origin", "desconocido"]
        assert tab.texts(".row .size")[:3] == ["70", "500", "3"]
        assert "code =L1" in tab.texts(".card .facts")[0]
        press(tab, "a", "r", "a")
        assert tab.texts("#message") == ["Accepted “desconocido” as a code without a concept."]
        press(tab, *"aaaaaa", "e")
        tab.wait(lambda: [one.suffix for one in tab.downloads.iterdir()] == [".tsv"])
    rows = DecisionStore(next(tab.downloads.iterdir())).rows
    assert [(row.item, row.decision, row.concept_id) for row in rows[:3]] == [
        ("=L1", "accept", "DEMO:0016"),
        ("L2", "reject", ""),
        ("L3", "none", ""),
    ]
    assert [row.decision for row in rows[3:]] == ["accept"] * 6
    # the page in one file resumes with these decisions
    Review(demo, path, decisions=next(tab.downloads.iterdir())).write_page(page)
    with tab.isolated(page):
        tab.driver.get(page.as_uri())
        tab.wait(lambda: tab.texts("#decided") == ["9 of 9 decided"])


def test_clusters_are_saved_immediately(demo: Bundle, chromium: Tab, tmp_path: Path) -> None:
    path, out, tab = tmp_path / "clusters.jsonl", tmp_path / "decisions.tsv", chromium
    path.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in CLUSTERS), "utf-8")
    with opened(tab, Review(demo, path, decisions=out)):
        press(tab, "a", "j", "c")
        press(tab, "DEMO:0228")
        press(tab, Keys.ENTER)
        tab.wait(lambda: "DEMO:0228" in tab.texts(".choice:has(:checked) code"))
        press(tab, "a", "m")
        tab.wait(lambda: "Accepted “pain in the left arm” as DEMO:0228." in tab.texts("#message"))
        saved(tab)
    decided = read_decisions(out)
    assert decided.accepted == {"H:1", "DEMO:0228"}
    assert decided.terms >= {"Fieber", "Schmerz im linken Arm"}
