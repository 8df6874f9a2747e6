"""The page in a real Chromium: search, filter, decide, save, go on later.

Skipped where no Chromium is installed, unless ``MEDLINK_REQUIRE_BROWSER`` is set.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from medlink.cli.kb import kb
from medlink.clustering import Cluster, Clustering, Member, Neighbour, Summary
from medlink.curation.applied_decisions import apply
from medlink.curation.decisions import read_decisions
from medlink.curation.review_page import write_report
from medlink.kb import KnowledgeBase
from medlink.records import Candidate

from .browser import LAPTOP, PHONE, Tab
from .pages import CLUSTERING, CLUSTERS
from .test_decisions import HEADER, Letters
from .test_page import ATTACKS


class Browser:
    """The page of clusters in Chromium, and what a reader does with it."""

    def __init__(self, tab: Tab) -> None:
        self.tab, self.driver, self.find, self.texts, self.wait = tab, tab.driver, tab.find, tab.texts, tab.wait
        self.path, self.downloads = tab.folder / "page.html", tab.downloads

    def open(self, clusters: Sequence[Cluster]) -> None:
        rows = (c.to_dict() for c in clusters)
        write_report(self.path, rows, title="Clusters", summary={"clusters": len(clusters)})
        shutil.rmtree(self.downloads, ignore_errors=True)
        self.downloads.mkdir()
        self.driver.get(self.path.as_uri())

    @property
    def rows(self) -> list[str]:
        """Names in the list, as far as it is drawn."""
        return self.texts(".row .term")

    @property
    def title(self) -> str:
        return str(self.find(".card h2").text)

    @property
    def message(self) -> str:
        return str(self.find("#message").text)

    @property
    def members(self) -> list[str]:
        return self.texts(".members tbody bdi:not(.quoted)")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.find("#list").send_keys(key)

    def filter(self, **values: str) -> None:
        for name, text in values.items():
            Select(self.find(f"[name={name}]")).select_by_visible_text(text)

    def search(self, text: str) -> None:
        self.type("#filters [name=search]", text)
        self.settle()

    def type(self, selector: str, text: str, *more: str) -> None:
        """Type over what stands in a field, as a person does."""
        self.find(selector).send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE, text, *more)

    def paste(self, selector: str, text: str) -> None:
        """Put a text in place of what stands in a field, tabs and all, and leave the field."""
        field = self.find(selector)
        field.send_keys(Keys.CONTROL, "a")
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})
        field.send_keys(Keys.TAB)

    def settle(self) -> None:
        """Wait until the rest after typing is over."""
        self.driver.execute_async_script("setTimeout(arguments[0], 160)")

    def go(self, name: str) -> None:
        """Choose a cluster by its name."""
        find = "[...document.querySelectorAll('.row .term')].find((term) => term.textContent === arguments[0])"
        self.driver.execute_script(f"{find}.click()", name)
        assert self.title == name

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def save(self) -> Path:
        """Save the decisions and give the file."""
        before = set(self.downloads.iterdir())
        self.press("e")

        def done() -> list[Path]:
            # while it is written there is also a file of the browser's own
            found = [path for path in self.downloads.iterdir() if path not in before]
            return found if [path.suffix for path in found] == [".tsv"] else []

        self.wait(done)
        return done()[0]

    def load(self, path: Path) -> None:
        # what an earlier file of this name gave is no answer
        self.driver.execute_script("document.querySelector('#message').textContent = ''")
        self.find("#file").send_keys(str(path))
        self.wait(lambda: path.name in self.message)

    @property
    def warns(self) -> bool:
        """Whether the page would ask before it is left."""
        leave = "new Event('beforeunload', {cancelable: true})"
        return not self.driver.execute_script(f"return window.dispatchEvent({leave})")


@pytest.fixture
def browser(chromium: Tab) -> Iterator[Browser]:
    """The page of the shared clusters; afterwards, that the console is clean and nothing was fetched."""
    started = Browser(chromium)
    with chromium.alone(started.path):
        started.open(CLUSTERS)
        yield started


def test_search_filter_and_order(browser: Browser) -> None:
    assert browser.rows == [
        "fever",
        "pyrexia",
        "pain in the left arm",
        "k. A.",
        "pain in the right arm",
        "niño con tos",
    ]
    assert browser.find("#found").text == "6 of 6"
    for words, found in (
        ("FIEBER", ["fever"]),
        ("nino", ["niño con tos"]),
        ("h:1", ["fever", "pyrexia"]),
        ("arm left", ["pain in the left arm"]),
        ("k7", ["fever"]),
        ("nothing", []),
    ):
        browser.search(words)
        assert browser.rows == found, words
    assert browser.find(".empty").text == "No cluster fits the filters."
    assert not browser.find("#accept").is_enabled()
    browser.search("")
    for chosen, found in (
        ({"status": "doubtful"}, ["fever"]),
        ({"status": "known"}, ["fever", "pyrexia"]),
        ({"status": "new", "size": "one"}, ["pain in the right arm", "niño con tos"]),
        ({"size": "two and more"}, ["pain in the left arm", "k. A."]),
        ({"status": "all", "size": "five and more"}, ["fever"]),
    ):
        browser.filter(**chosen)
        assert browser.rows == found, chosen
    for order, first in (
        ("most terms first", ["fever", "pyrexia"]),
        ("most frequent first", ["fever", "k. A."]),
        ("most doubtful first", ["fever", "k. A."]),
        ("lowest score first", ["k. A.", "niño con tos"]),
        ("highest score first", ["fever", "pyrexia"]),
        ("by name", ["fever", "k. A."]),
    ):
        browser.filter(size="any number", order=order)
        assert browser.rows[:2] == first, order


def test_the_card_says_why(browser: Browser) -> None:
    assert browser.title == "fever"
    assert browser.texts(".card .badge")[:2] == ["known", "doubtful"]
    assert browser.texts(".choice") == ["fever\nH:1\n0.93", "pain\nH:2\n0.71", browser.texts(".choice")[2]]
    assert browser.texts(".members td.why") == [
        "the first term", "alike fever0.88", "same form, with Fieber", "alike Fieber0.90", "alike fever0.66",
    ]  # fmt: skip
    assert browser.texts(".neighbours tbody th") == ["pyrexia\nwith Fieber"]
    assert browser.texts(".neighbours td.why .badge.maybe") == ["maybe"]
    assert browser.texts(".neighbours .likeness") == ["0.74"]
    browser.go("pain in the left arm")
    assert browser.texts(".neighbours td.why") == ["laterality", "not alike enough"]
    assert browser.find("#parent").get_attribute("value") == "H:2"
    browser.click(".neighbours tbody .plain")
    assert browser.title == "pain in the right arm"


def test_what_a_cluster_is_narrower_than(browser: Browser) -> None:
    narrower = replace(CLUSTERS[1], broader=Neighbour("Fieber", 1, 0.8, member="pyrexia"))
    browser.open([CLUSTERS[0], narrower, *CLUSTERS[2:]])
    assert browser.texts(".row .below") == ["below fever"]
    assert browser.texts(".card .broader") == []
    browser.go("pyrexia")
    assert browser.texts(".card .broader") == ["narrower than\nfever\n0.80"]
    assert browser.tab.faint == []
    # by keyboard, and where the filters hide it, as with the neighbours
    browser.search("pyrexia")
    browser.find(".broader button").send_keys(Keys.ENTER)
    assert (browser.title, len(browser.rows)) == ("fever", 6)
    browser.press("j")
    browser.click(".broader button")
    assert browser.title == "fever"
    # it follows its term
    browser.press("2", "s")
    browser.go("pyrexia")
    assert browser.texts(".card .broader button") == ["Fieber"]
    browser.click(".broader button")
    browser.press("r")
    browser.go("pyrexia")
    assert browser.texts(".broader, .row .below") == []
    browser.press("u", "u")
    browser.go("fever")
    browser.click(".neighbours tbody button")
    assert browser.message == "“pyrexia” is now part of “fever”."
    assert browser.texts(".broader, .row .below") == []
    with browser.tab.seen_as(PHONE):
        browser.press("u")
        browser.go("pyrexia")
        assert browser.texts(".card .broader button") == ["fever"]
        assert not browser.tab.scrolls_sideways


def test_merged_clusters_are_narrower_as_the_larger_one(browser: Browser) -> None:
    arm = "pain in the left arm"
    browser.open([*CLUSTERS[:2], replace(CLUSTERS[2], broader=Neighbour("k. A.", 5, 0.8)), *CLUSTERS[3:]])
    browser.go("pain in the right arm")
    browser.click(".neighbours tbody button")
    assert arm in browser.members
    assert browser.texts(".card .broader button") == ["k. A."]


def test_keys(browser: Browser) -> None:
    browser.press("j", "j")
    assert browser.title == "pain in the left arm"
    browser.press("k")
    assert browser.title == "pyrexia"
    browser.press(Keys.END)
    assert browser.title == "niño con tos"
    browser.press(Keys.HOME, Keys.ARROW_DOWN)
    assert browser.title == "pyrexia"
    assert browser.find("#list").get_attribute("aria-activedescendant") == "row-2"
    assert browser.find("#row-2").get_attribute("aria-selected") == "true"
    browser.press("/")
    browser.driver.switch_to.active_element.send_keys("rasm")
    browser.settle()
    assert browser.texts(".row.accept, .row.reject") == []
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.search("")
    browser.press("?")
    assert browser.find("#help-dialog").is_displayed()
    browser.click("#help-dialog .close")
    assert not browser.find("#help-dialog").is_displayed()


def test_on_a_phone_the_clusters_have_the_room(browser: Browser) -> None:
    with browser.tab.seen_as(PHONE):
        browser.open(CLUSTERS)
        above = "return document.querySelector('main').getBoundingClientRect().top"
        assert browser.tab.run(above) <= 100
        assert not browser.tab.scrolls_sideways
        assert browser.find("#save").is_displayed()
        assert not browser.find("[name=status]").is_displayed()
        more = browser.find("#more")
        more.click()
        assert more.get_attribute("aria-expanded") == "true"
        assert not browser.tab.scrolls_sideways
        browser.filter(status="doubtful")
        assert browser.rows == ["fever"]
        assert browser.find("#load").is_displayed()
        more.click()
        assert more.get_attribute("aria-expanded") == "false"
        assert browser.tab.run(above) <= 100


def test_colours_can_be_told_apart(browser: Browser) -> None:
    browser.press("a", "r", "k", "k")
    for size, scheme in product((LAPTOP, PHONE), ("light", "dark")):
        with browser.tab.seen_as(size, prefers_color_scheme=scheme):
            assert browser.tab.faint == []


def test_concepts_of_one_name_say_where_they_are_from(browser: Browser) -> None:
    near = (
        Candidate("D:1", "Hypothyreose", 0.46, "Hypothyreose", "de", "exact", "DEMO"),
        Candidate("H:1", "hypothyreose", 0.46, "hypothyreose", "de", "exact", "house"),
        Candidate("D:2", "Myxödem", 0.05, "Myxödem", "de", "dense", "DEMO"),
        Candidate("D:3", "Struma", 0.0499, "Struma", "de", "dense", "DEMO"),
    )
    browser.open([Cluster(1, "Hypothyreose", (Member("Hypothyreose"),), nearest=near, score=0.46)])
    assert browser.texts(".choice .what")[:3] == ["Hypothyreose\nD:1\nDEMO", "hypothyreose\nH:1\nhouse", "Myxödem\nD:2"]
    assert len(browser.texts(".choice")) == 4
    assert browser.find(".concept .least").text == "Candidates with a score below 0.05 are not shown."
    # what was chosen keeps its source when another one is
    browser.click(".choice:nth-of-type(2) input")
    browser.click(".choice:nth-of-type(1) input")
    assert browser.texts(".choice .source") == ["DEMO", "house"]


def test_a_name_of_several_concepts_waits_for_a_choice(browser: Browser) -> None:
    heart = Candidate("H:1", "mitral stenosis", 0.03, "MS", "en", "exact", "house", same_as=("S:1",))
    nerve = Candidate("H:2", "multiple sclerosis", 0.02, "MS", "en", "exact", "house")
    known = Cluster(2, "fever", (Member("fever"),), "H:3", "fever", 0.9)
    browser.open([Cluster(1, "MS", (Member("MS", 2),), nearest=(heart, nerve), candidates=(heart, nerve)), known])
    assert browser.texts(".row .badge, .card .badge") == ["ambiguous", "ambiguous"]
    browser.filter(status="new")
    assert browser.rows == []
    browser.filter(status="ambiguous")
    assert browser.rows == ["MS"]
    # both are shown although their scores are low
    assert browser.texts(".choice .what")[:2] == ["mitral stenosis\nH:1 = S:1", "multiple sclerosis\nH:2"]
    assert browser.texts(".choice:has(:checked)") == []
    assert browser.texts("#parent") == []
    browser.press("a")
    assert browser.message == "Not accepted: “MS” is a name of several concepts. Choose one."
    assert browser.find("#decided").text == "0 of 2 decided"
    browser.click(".choice:nth-of-type(2) input")
    browser.press("u")
    assert browser.texts(".choice:has(:checked)") == []
    browser.filter(status="all")
    browser.go("MS")
    browser.click(".choice:nth-of-type(2) input")
    browser.press("a")
    assert browser.message == "Accepted “MS” as H:2."
    assert browser.save().read_text("utf-8") == HEADER + "H:2\tMS\t\tsynonym\t\taccept\n"


def decide(browser: Browser) -> Path:
    """Split, merge, accept, edit, reject, undo and save."""
    assert not browser.warns
    browser.press("5", "s")
    assert browser.message.startswith("Split “fever”")
    assert browser.members == ["fever", "Fieber", "FIEBER", "fiebre"]
    browser.press("m")
    assert browser.texts("#merge-dialog li .term") == ["pyrexia"]
    assert browser.texts("#merge-dialog li .quoted") == []
    browser.find("#merge-dialog input").send_keys("tos")
    assert browser.texts("#merge-dialog li .term") == ["niño con tos"]
    browser.type("#merge-dialog input", "pyrexie")
    assert browser.texts("#merge-dialog li .quoted") == ["Pyrexie"]
    browser.find("#merge-dialog input").send_keys(Keys.ENTER)
    assert browser.members == ["fever", "Fieber", "FIEBER", "fiebre", "pyrexia", "Pyrexie"]
    browser.press("a")
    assert browser.message == "Accepted “fever” as H:1."
    browser.go("pain in the left arm")
    browser.type("#parent", "H:9")
    # the click that leaves the field still counts
    browser.click("#tick-0")
    assert browser.find("#tick-0").is_selected()
    browser.click("#tick-0")
    browser.click(".members .plain")
    assert browser.title == "Schmerz im linken Arm"
    browser.press("a")
    browser.go("k. A.")
    browser.press("r")
    assert browser.message == "Rejected 2 terms of “k. A.”."
    browser.go("niño con tos")
    browser.press("r", "u")
    assert browser.message == "Undone: reject “niño con tos”."
    assert browser.find("#decided").text == "3 of 6 decided"
    browser.filter(decision="accepted")
    assert browser.rows == ["fever", "Schmerz im linken Arm"]
    browser.filter(decision="rejected")
    assert browser.rows == ["k. A."]
    browser.filter(decision="undecided")
    assert browser.rows == ["pain in the right arm", "niño con tos", "feverfew"]
    assert browser.warns
    path = browser.save()
    assert path.name == "decisions.tsv"
    assert browser.message == "Saved 11 rows as decisions.tsv."
    assert not browser.warns
    return path


def test_merged_clusters_have_the_neighbours_of_both(browser: Browser) -> None:
    browser.go("pain in the right arm")
    browser.click(".neighbours tbody button")
    assert browser.members == ["pain in the right arm", "pain in the left arm", "Schmerz im linken Arm"]
    assert browser.texts(".neighbours tbody th") == ["fever"]
    browser.press("3", "s")
    browser.go("Schmerz im linken Arm")
    assert browser.texts(".neighbours tbody th") == ["pain in the left arm in pain in the right arm", "fever"]


def test_a_key_held_down_decides_once(browser: Browser) -> None:
    held = "{key: arguments[0], repeat: true, bubbles: true}"
    for key in ("a", "j"):
        browser.driver.execute_script(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {held}))", key)
    assert browser.title == "pyrexia"
    browser.press("A")
    assert browser.texts(".row.accept .term") == ["pyrexia"]


def test_a_large_cluster_is_drawn_on_demand(browser: Browser) -> None:
    browser.open([Cluster(1, "t0", tuple(Member(f"t{n}") for n in range(250)))])

    def count() -> int:
        return len(browser.driver.find_elements(By.CSS_SELECTOR, ".members tbody tr"))

    assert count() == 200
    browser.click("#tick-1")
    browser.driver.execute_script("document.querySelector('.members + button').click()")
    assert count() == 250
    assert browser.find("#tick-1").is_selected()
    browser.click(".summary summary")
    assert browser.texts("#summary dt, #summary dd") == ["clusters", "1"]


def test_decide_save_apply_and_build(browser: Browser, tmp_path: Path) -> None:
    path = decide(browser)
    decisions = read_decisions(path)
    found = {
        (row.term, row.decision): row.concept_id
        for term in decisions.terms
        for tag in ("en", "de", "es", "")
        if (row := decisions.of(term, tag))
    }
    arm = found["Schmerz im linken Arm", "accept"]
    assert arm.startswith("NEW:")
    assert found == {
        **dict.fromkeys([(t, "accept") for t in ("fever", "Fieber", "FIEBER", "fiebre", "pyrexia", "Pyrexie")], "H:1"),
        ("feverfew", "group"): found["feverfew", "group"],
        ("Schmerz im linken Arm", "accept"): arm,
        ("pain in the left arm", "accept"): arm,
        ("k. A.", "reject"): "",
        ("n/a", "reject"): "",
    }
    assert (decisions.names[arm], decisions.parents[arm]) == ("Schmerz im linken Arm", "H:9")
    result = apply(CLUSTERING, decisions, Letters())
    assert [[m.term for m in c.members] for c in result.clustering.clusters] == [
        ["fever", "Fieber", "FIEBER", "fiebre", "pyrexia", "Pyrexie"],
        ["Schmerz im linken Arm", "pain in the left arm"],
        ["pain in the right arm"],
        ["niño con tos"],
        ["feverfew"],
    ]
    house, out = tmp_path / "house.tsv", tmp_path / "kb.sqlite"
    house.write_text("id\tname\tlanguage\nH:1\tfever\ten\nH:9\tlimb pain\ten\n")
    args = ["build", str(out), "--table", str(house), "--table", str(path)]
    built = CliRunner().invoke(kb, args, catch_exceptions=False).output
    assert "left out: 1 row with the decision group" in built
    assert "left out: 2 row with the decision reject" in built
    assert "bad rows" not in built
    with KnowledgeBase(out) as opened:
        assert {name.concept_id for name in opened.iter_names()} == {"H:1", "H:9", arm}
        assert opened.preferred_name(arm, "de") == "Schmerz im linken Arm"
        assert list(opened.parents(arm)) == ["H:9"]
        assert "pyrexia" in {name.text for name in opened.names("H:1")}


def test_a_parent_that_is_pasted_is_cleaned(browser: Browser, tmp_path: Path) -> None:
    browser.go("pain in the left arm")
    browser.paste("#parent", "\tH:9\t|\u2028H:2\r\n")
    assert browser.find("#parent").get_property("value") == "H:9 | H:2"
    browser.press("a")
    decisions = read_decisions(browser.save())
    assert decisions.parents[decisions.of("pain in the left arm", "en").concept_id] == "H:9 | H:2"


def test_what_cannot_be_done_is_said(browser: Browser, tmp_path: Path) -> None:
    browser.press("s")
    assert browser.message == "Tick the members to move first."
    browser.press("1", "2", "3", "4", "5", "s")
    assert browser.message == "Leave at least one member where it is."
    bad = tmp_path / "bad.tsv"
    for text, message in (
        (
            HEADER + "H:1\tx\t\tsynonym\t\tacept\n",
            "bad.tsv:2: unknown word in the column decision. Use accept, group or reject.",
        ),
        (HEADER + "H:1\t\t\tsynonym\t\taccept\n", "bad.tsv:2: there is no name."),
        (HEADER + "\tx\t\tsynonym\t\taccept\n", "bad.tsv:2: there is no id."),
        (HEADER + "H:1\tx\t\tlay\t\taccept\n", "bad.tsv:2: unknown word in the column type. Use preferred or synonym."),
        (HEADER + "H:1\tx\n", "bad.tsv:2: 2 columns, 6 expected."),
        (
            HEADER + "H:1\tx\t\tsynonym\t\taccept\n\tx\t\t\t\treject\n",
            "bad.tsv:3: this term is decided otherwise in line 2. Keep one of the two rows.",
        ),
        ("id\tname\n", "bad.tsv:1: the column language is missing."),
        ("id\t" + HEADER, "bad.tsv:1: the column id is there twice. Leave one of them."),
        (
            "concept_id\t" + HEADER,
            "bad.tsv:1: there are the columns id and concept_id. Leave id and take off the other.",
        ),
        *(
            (HEADER + f"{bad}\tx\t\tsynonym\t\taccept\n", "bad.tsv:2: the id has a blank, | or an invisible character.")
            for bad in ("A b", "A|b", "A\u202eb", "A\x07b", "A\u2028b")
        ),
        (HEADER + "NEW:1\tx\t\tsynonym\tH:1|H 2\taccept\n", "bad.tsv:2: the parent is no id."),
        (
            HEADER + "H:1\tx\t\tpreferred\t\taccept\nH:1\ty\t\tpreferred\t\taccept\n",
            "bad.tsv:3: the preferred term of this id and language is in line 2.",
        ),
    ):
        bad.write_text(text, "utf-8")
        browser.load(bad)
        assert browser.message == message
    bad.write_bytes(b"id\xff")
    browser.load(bad)
    assert browser.message == "bad.tsv: is not UTF-8. Save it as UTF-8."
    assert not browser.warns


def test_an_id_that_two_new_clusters_would_share_is_refused(browser: Browser) -> None:
    browser.open([Cluster(1, "Sarcoma", (Member("Sarcoma"),)), Cluster(2, "sarcoma", (Member("sarcoma"),))])
    browser.press("a", "a")
    assert browser.message == "Not accepted: “Sarcoma” was accepted with the same new id. Merge the two."
    assert browser.find("#decided").text == "1 of 2 decided"


def test_concept_can_be_changed_and_decisions_reopened(browser: Browser) -> None:
    browser.click(".choice:nth-of-type(2) input")
    browser.press("a")
    assert browser.message == "Accepted “fever” as H:2."
    browser.press("k", "o")
    assert browser.message == "“fever” is undecided again."
    browser.click(".choice:nth-of-type(3) input")
    assert browser.find("#parent").get_attribute("value") == ""
    assert browser.driver.switch_to.active_element.get_attribute("name") == "concept"
    browser.press("3", "r")
    assert browser.message == "Rejected 1 term of “fever”."
    assert "FIEBER" not in browser.members
    browser.press("a")
    # another concept is another decision
    browser.press("k")
    browser.click(".choice:nth-of-type(1) input")
    assert browser.texts(".row.accept") == []
    browser.press(*"uuuuuuu")
    assert not browser.warns
    assert browser.find("#undo").get_attribute("disabled") == "true"
    assert len(browser.members) == 5


def test_a_new_concept_of_an_earlier_time_keeps_its_name(browser: Browser) -> None:
    members = (Member("Armweh", 9, "de"), Member("arm pain", 1, "en"))
    known = Cluster(1, "Armweh", members, "NEW:1", "arm pain", 0.9)
    other = Cluster(2, "brachialgia", (Member("brachialgia"),), "NEW:1", "arm pain", 0.8)
    browser.open([known, other])
    browser.press("a", "a")
    assert browser.find("#decided").text == "2 of 2 decided"
    assert browser.save().read_text("utf-8") == HEADER + (
        "NEW:1\tArmweh\tde\tsynonym\t\taccept\n"
        "NEW:1\tarm pain\ten\tpreferred\t\taccept\n"
        "NEW:1\tbrachialgia\t\tsynonym\t\taccept\n"
    )


def test_hostile_terms(browser: Browser) -> None:
    members = tuple(Member(text, id=text) for text in ATTACKS)
    # an id has no blank
    browser.open([Cluster(1, ATTACKS[0], members, ATTACKS[0], ATTACKS[1], 0.5)])
    assert browser.title == ATTACKS[0]
    assert browser.members[1] == ATTACKS[1].strip()
    assert browser.members[5:7] == ["‹U+202E›gnp.exe אב", "bell␇ null␀ tab line end"]
    browser.press("a")
    decisions = read_decisions(browser.save())
    # what is no character at all cannot be written as UTF-8
    assert decisions.terms == {" ".join(text.split()).replace("\ud800", "\ufffd") for text in ATTACKS}


def test_a_formula_is_saved_as_text_and_loaded_as_it_was(browser: Browser, tmp_path: Path) -> None:
    terms = ["=cmd()", "+ Fieber", "'n Husten", '"quoted', "-1"]
    clusters = [Cluster(1, terms[0], tuple(Member(term) for term in terms), "H:1", "fever", 0.5)]
    browser.open(clusters)
    browser.press("a")
    saved = browser.save().rename(tmp_path / "earlier.tsv")
    names = [line.split("\t")[1] for line in saved.read_text("utf-8").splitlines()[1:]]
    assert sorted(names) == sorted(f"'{term}" for term in terms)
    assert read_decisions(saved).terms == set(terms)
    browser.open(clusters)
    browser.load(saved)
    assert read_decisions(browser.save()).terms == set(terms)


def random_case(seed: int) -> tuple[Clustering, str]:
    """A list and a decisions file, some terms of which are not in the list."""
    pick = random.Random(seed)
    names = [f"{a}{b}" for a in "abcdef" for b in "xyz"]
    pick.shuffle(names)
    clusters: list[Cluster] = []
    waiting = list(names)
    while waiting:
        some = [waiting.pop() for _ in range(min(len(waiting), pick.randint(1, 5)))]
        members = tuple(
            Member(t, pick.randint(1, 3), pick.choice(["", "en"]), "", 1.0, "" if not i else pick.choice(some[:i]))
            for i, t in enumerate(some)
        )
        near = (Neighbour(pick.choice(names), 1, 0.5),)
        clusters.append(Cluster(len(clusters) + 1, some[0], members, pick.choice([None, "H:1"]), neighbours=near))
    ids = {i: pick.choice(["accept", "group"]) for i in ("NEW:1", "NEW:2", "H:1", "H:2")}
    rows = []
    for term in (*names, "absent"):
        given = pick.choice(["", "reject", *ids])
        if given == "reject":
            rows.append(f"\t{term}\t\tsynonym\t\treject\n")
        elif given:
            rows.append(f"{given}\t{term}\t\tsynonym\t\t{ids[given]}\n")
    return Clustering(clusters, Summary(terms=len(names))), HEADER + "".join(rows)


@pytest.mark.parametrize("seed", [0, 25, 36])  # the last two part clusters by a majority or a tie
def test_loaded_decisions_mean_what_they_mean_to_the_command(browser: Browser, seed: int, tmp_path: Path) -> None:
    clustering, text = random_case(seed)
    path = tmp_path / "earlier.tsv"
    path.write_text(text, "utf-8")
    decisions = read_decisions(path)
    result = apply(clustering, decisions, Letters())
    browser.open(list(clustering.clusters))
    browser.load(path)
    shown = {}
    rows = "return [...document.querySelectorAll('.row:not(.reject)')].map((row) => row.id)"
    numbers = browser.driver.execute_script(rows)
    for number in numbers:
        browser.driver.execute_script("document.getElementById(arguments[0]).click()", number)
        own = browser.members
        checked = browser.driver.find_elements(By.CSS_SELECTOR, ".choice:has(:checked) code")[0].text
        shown[frozenset(own)] = checked
    expected = {frozenset(m.term for m in c.members): c.concept_id for c in result.clustering.clusters}
    assert set(shown) == set(expected)
    for members, concept_id in expected.items():
        assert shown[members] == concept_id if concept_id else shown[members].startswith("NEW:")

    # saved again, nothing is lost and nothing is added
    again = read_decisions(browser.save())
    assert again.terms == decisions.terms
    for term in decisions.terms:
        one, other = decisions.of(term, ""), again.of(term, "en") or again.of(term, "")
        assert one is not None
        assert other is not None
        assert one.decision == other.decision
        if one.decision == "accept" or not one.concept_id.startswith("NEW:"):
            assert one.concept_id == other.concept_id
    second = apply(clustering, again, Letters())
    assert {frozenset(m.term for m in c.members) for c in second.clustering.clusters} == set(expected)


def test_going_on_later(browser: Browser) -> None:
    browser.go("pain in the left arm")
    browser.press("a")
    first = browser.save()
    kept = first.rename(first.with_name("earlier.tsv"))
    wider = replace(
        CLUSTERS[2],
        members=(*CLUSTERS[2].members, Member("left arm pain", 2, "en", "", 0.9, CLUSTERS[2].representative)),
    )
    pages = kept.read_text("utf-8")
    browser.open([CLUSTERS[0], wider])
    (browser.downloads / "earlier.tsv").write_text(pages, "utf-8")
    browser.load(browser.downloads / "earlier.tsv")
    browser.go("pain in the left arm")
    # a term came in, so the cluster asks for a reader again; what was accepted stays accepted
    assert browser.texts(".row.accept") == []
    assert browser.save().read_text("utf-8") == pages
    browser.press("a")
    rows = browser.save().read_text("utf-8").splitlines()
    assert len(rows) == 4
    assert len({row.split("\t")[0] for row in rows[1:]}) == 1
    assert rows[1] == pages.splitlines()[1]
    browser.press("u", "u")
    assert browser.message == "Undone: load decisions."
    assert browser.save().read_text("utf-8") == HEADER
    assert browser.texts(".row .size") == ["5", "3"]


def test_rows_about_terms_of_another_list_are_kept(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "earlier.tsv"
    english = "H:2\tGift\ten\tsynonym\t\taccept\n"
    path.write_text(
        HEADER + "H:1\tGift\tde\tsynonym\t\taccept\n" + english + "\tabsent\t\tsynonym\t\treject\n", "utf-8"
    )
    browser.open([Cluster(1, "Gift", (Member("Gift", 1, "de"),))])
    browser.load(path)
    browser.press("r")
    saved = browser.save().read_text("utf-8")
    assert saved == HEADER + english + "\tabsent\t\tsynonym\t\treject\n" + "\tGift\tde\tsynonym\t\treject\n"


def test_many_clusters_draw_few_rows(browser: Browser) -> None:
    many = [Cluster(n, f"term {n}", (Member(f"term {n}"),)) for n in range(1, 5001)]
    browser.open(many)
    assert len(browser.rows) < 60
    began = time.perf_counter()
    browser.press(Keys.END)
    assert browser.title == "term 5000"
    assert "term 5000" in browser.rows
    browser.search("4321")
    assert browser.rows == ["term 4321"]
    assert time.perf_counter() - began < 5
