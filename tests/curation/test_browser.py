"""The page of clusters in a real Chromium: search, filter, decide, save, resume.

Skipped without Chromium, unless ``MEDLINK_REQUIRE_BROWSER`` is set.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.kb import kb
from medlink.clustering import Cluster, Member, Neighbour
from medlink.curation.applied_decisions import apply_decisions
from medlink.curation.decisions import read_decisions
from medlink.curation.review_page import write_cluster_page
from medlink.kb import KnowledgeBase
from medlink.records import Candidate

from .browser import LAPTOP, PHONE, By, Keys, Select, Tab
from .pages import CLUSTERING, CLUSTERS, HEADER, random_case
from .test_decisions import LetterEncoder
from .test_page import ATTACKS

pytestmark = pytest.mark.browser


class ClusterPage:
    """The page of clusters in Chromium, and the actions of a reviewer."""

    def __init__(self, tab: Tab) -> None:
        self.tab, self.driver, self.find, self.texts, self.wait = tab, tab.driver, tab.find, tab.texts, tab.wait
        self.path, self.downloads = tab.folder / "page.html", tab.downloads

    def open(self, clusters: Sequence[Cluster]) -> None:
        rows = (c.to_dict() for c in clusters)
        write_cluster_page(self.path, rows, title="Clusters", summary={"clusters": len(clusters)})
        shutil.rmtree(self.downloads, ignore_errors=True)
        self.downloads.mkdir()
        self.driver.get(self.path.as_uri())

    @property
    def rows(self) -> list[str]:
        """The drawn names of the list."""
        return self.texts(".row .term")

    @property
    def tree(self) -> list[tuple[str, int]]:
        """The drawn names of the list, and how far they are indented."""
        depths = self.tab.run(
            "return [...document.querySelectorAll('.row')].map((row) => row.style.getPropertyValue('--depth'))"
        )
        return list(zip(self.rows, map(int, depths), strict=True))

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

    def type(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        self.find(selector).send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE, text)

    def settle(self) -> None:
        """Wait for the delay after typing."""
        self.driver.execute_async_script("setTimeout(arguments[0], 160)")

    def go(self, name: str) -> None:
        find = "[...document.querySelectorAll('.row .term')].find((term) => term.textContent === arguments[0])"
        self.driver.execute_script(f"{find}.click()", name)
        assert self.title == name

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def save(self) -> Path:
        """Save the decisions and return the file."""
        before = set(self.downloads.iterdir())
        self.press("e")

        def saved() -> list[Path]:
            # the browser has a file of its own while it writes
            found = [path for path in self.downloads.iterdir() if path not in before]
            return found if [path.suffix for path in found] == [".tsv"] else []

        self.wait(saved)
        return saved()[0]

    def load(self, path: Path) -> None:
        # clear the answer to an earlier file of this name
        self.driver.execute_script("document.querySelector('#message').textContent = ''")
        self.find("#file").send_keys(str(path))
        self.wait(lambda: path.name in self.message)

    @property
    def warns(self) -> bool:
        """Whether the page asks before it is left."""
        leave = "new Event('beforeunload', {cancelable: true})"
        return not self.driver.execute_script(f"return window.dispatchEvent({leave})")


@pytest.fixture
def browser(chromium: Tab) -> Iterator[ClusterPage]:
    """The page of the shared clusters; afterwards, check that the console is empty and nothing was fetched."""
    page = ClusterPage(chromium)
    with chromium.isolated(page.path):
        page.open(CLUSTERS)
        yield page


def test_search_filter_and_order(browser: ClusterPage) -> None:
    assert browser.rows == [
        "fever", "pyrexia", "pain in the left arm", "k. A.", "pain in the right arm", "niño con tos",
    ]  # fmt: skip
    for words, found in (
        ("nino", ["niño con tos"]), ("h:1", ["fever", "pyrexia"]), ("arm left", ["pain in the left arm"]),
        ("k7", ["fever"]), ("nothing", []),
    ):  # fmt: skip
        browser.search(words)
        assert browser.rows == found, words
    assert browser.find(".empty").text == "No cluster matches the filters."
    assert not browser.find("#accept").is_enabled()
    browser.search("")
    for chosen, found in (
        ({"status": "doubtful"}, ["fever"]),
        ({"status": "new", "size": "one"}, ["pain in the right arm", "niño con tos"]),
        ({"status": "all", "size": "five and more"}, ["fever"]),
    ):
        browser.filter(**chosen)
        assert browser.rows == found, chosen
    browser.filter(size="any number")
    for order, first in (
        ("most terms first", "pyrexia"), ("most frequent first", "k. A."), ("lowest score first", "niño con tos"),
        ("by name", "k. A."),
    ):  # fmt: skip
        browser.filter(order=order)
        assert browser.rows[1] == first, order


def test_the_card_gives_reasons(browser: ClusterPage) -> None:
    assert browser.texts(".card .badge")[:2] == ["known", "doubtful"]
    assert browser.texts(".choice")[:2] == ["fever\nH:1\n0.93", "pain\nH:2\n0.71"]
    assert browser.texts(".members td.why") == [
        "the first term", "similar to fever0.88", "same form, with Fieber", "similar to Fieber0.90",
        "similar to fever0.66",
    ]  # fmt: skip
    assert browser.texts(".neighbours tbody th") == ["pyrexia\nwith Fieber"]
    assert browser.texts(".neighbours td.why .badge.maybe") == ["maybe"]
    browser.go("pain in the left arm")
    assert browser.texts(".neighbours td.why") == ["laterality", "not similar enough"]
    assert browser.find("#parent").get_attribute("value") == "H:2"
    browser.click(".neighbours tbody .plain")
    assert browser.title == "pain in the right arm"
    browser.click(".summary summary")
    assert browser.texts("#summary dt, #summary dd") == ["clusters", "6"]


def test_the_broader_cluster(browser: ClusterPage) -> None:
    narrower = replace(CLUSTERS[1], broader=Neighbour("Fieber", 1, 0.8, member="pyrexia"))
    browser.open([CLUSTERS[0], narrower, *CLUSTERS[2:]])
    assert browser.texts(".row .below") == ["below fever"]
    browser.go("pyrexia")
    assert browser.texts(".card .broader") == ["narrower than\nfever\n0.80"]
    assert browser.tab.low_contrast == []
    # by keyboard, even if the filters hide it
    browser.search("pyrexia")
    browser.find(".broader button").send_keys(Keys.ENTER)
    assert (browser.title, len(browser.rows)) == ("fever", 6)
    # it follows its term after a split, and disappears when that is rejected
    browser.press("2", "s")
    browser.go("pyrexia")
    assert browser.texts(".card .broader button") == ["Fieber"]
    browser.click(".broader button")
    browser.press("r")
    browser.go("pyrexia")
    assert browser.texts(".broader, .row .below") == []
    browser.press("u", "u")
    with browser.tab.emulating(PHONE):
        browser.go("pyrexia")
        assert browser.texts(".card .broader button") == ["fever"]
        assert not browser.tab.scrolls_sideways
    browser.go("fever")
    browser.click(".neighbours tbody button")
    assert browser.message == "“pyrexia” is now part of “fever”."
    assert browser.texts(".broader, .row .below") == []


def test_narrower_clusters_are_indented_below_the_broader_one(browser: ClusterPage) -> None:
    below = {
        3: Neighbour("pyrexia", 2, 0.8),
        4: Neighbour("pain in the left arm", 3, 0.7),
        6: Neighbour("fever", 1, 0.6),
    }
    browser.open([replace(cluster, broader=below.get(cluster.number)) for cluster in CLUSTERS])
    depths = [
        ("fever", 0), ("niño con tos", 1), ("pyrexia", 0), ("pain in the left arm", 1), ("pain in the right arm", 2),
        ("k. A.", 0),
    ]  # fmt: skip
    assert browser.tree == depths
    browser.filter(order="most terms first")
    assert browser.tree[-1] == ("niño con tos", 0)
    # without its parent, a cluster stands at the top
    browser.filter(order="most terms first, as a tree")
    browser.search("arm")
    assert browser.tree == [("pain in the left arm", 0), ("pain in the right arm", 1)]
    # merged with what was two levels below it, a group is narrower than itself
    browser.search("")
    browser.go("pyrexia")
    browser.press("m")
    browser.find("#merge-dialog input").send_keys("right arm", Keys.ENTER)
    assert {name for name, _ in browser.tree} == {"fever", "niño con tos", "pyrexia", "pain in the left arm", "k. A."}


def test_merged_clusters_combine_neighbours_and_the_broader_cluster(browser: ClusterPage) -> None:
    browser.open([*CLUSTERS[:2], replace(CLUSTERS[2], broader=Neighbour("k. A.", 5, 0.8)), *CLUSTERS[3:]])
    browser.go("pain in the right arm")
    browser.click(".neighbours tbody button")
    assert browser.members == ["pain in the right arm", "pain in the left arm", "Schmerz im linken Arm"]
    assert browser.texts(".card .broader button") == ["k. A."]
    assert browser.texts(".neighbours tbody th") == ["fever"]
    browser.press("3", "s")
    browser.go("Schmerz im linken Arm")
    assert browser.texts(".neighbours tbody th") == ["pain in the left arm in pain in the right arm", "fever"]


def test_keys(browser: ClusterPage) -> None:
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


def test_a_held_key_moves_but_does_not_decide(browser: ClusterPage) -> None:
    held = "{key: arguments[0], repeat: true, bubbles: true}"
    for key in ("a", "j"):
        browser.driver.execute_script(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {held}))", key)
    assert browser.title == "pyrexia"
    browser.press("A")
    assert browser.texts(".row.accept .term") == ["pyrexia"]
    for size, scheme in product((LAPTOP, PHONE), ("light", "dark")):
        with browser.tab.emulating(size, prefers_color_scheme=scheme):
            assert browser.tab.low_contrast == []


def test_on_a_phone_the_clusters_get_the_space(browser: ClusterPage) -> None:
    with browser.tab.emulating(PHONE):
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
        assert browser.tab.run(above) <= 100


def test_the_source_distinguishes_concepts_of_one_name(browser: ClusterPage) -> None:
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
    # a choice keeps its source when another one is chosen
    browser.click(".choice:nth-of-type(2) input")
    browser.click(".choice:nth-of-type(1) input")
    assert browser.texts(".choice .source") == ["DEMO", "house"]


def test_an_ambiguous_cluster_needs_a_choice(browser: ClusterPage) -> None:
    heart = Candidate("H:1", "mitral stenosis", 0.03, "MS", "en", "exact", "house", same_as=("S:1",))
    nerve = Candidate("H:2", "multiple sclerosis", 0.02, "MS", "en", "exact", "house")
    known = Cluster(2, "fever", (Member("fever"),), "H:3", "fever", 0.9)
    browser.open([Cluster(1, "MS", (Member("MS", 2),), nearest=(heart, nerve), candidates=(heart, nerve)), known])
    assert browser.texts(".row .badge, .card .badge") == ["ambiguous", "ambiguous"]
    browser.filter(status="new")
    assert browser.rows == []
    browser.filter(status="ambiguous")
    assert browser.rows == ["MS"]
    # both candidates appear despite their low scores
    assert browser.texts(".choice .what")[:2] == ["mitral stenosis\nH:1 = S:1", "multiple sclerosis\nH:2"]
    assert browser.texts(".choice:has(:checked), #parent") == []
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


def decide(browser: ClusterPage) -> Path:
    """Split, merge, accept, edit, reject, undo and save."""
    assert not browser.warns
    browser.press("5", "s")
    assert browser.message.startswith("Split “fever”")
    assert browser.members == ["fever", "Fieber", "FIEBER", "fiebre"]
    browser.press("m")
    assert browser.texts("#merge-dialog li .term") == ["pyrexia"]
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
    for decision, found in (
        ("accepted", ["fever", "Schmerz im linken Arm"]), ("rejected", ["k. A."]),
        ("undecided", ["pain in the right arm", "niño con tos", "feverfew"]),
    ):  # fmt: skip
        browser.filter(decision=decision)
        assert browser.rows == found
    assert browser.warns
    path = browser.save()
    assert path.name == "decisions.tsv"
    assert browser.message == "Saved 11 rows as decisions.tsv."
    assert not browser.warns
    return path


def test_decide_save_apply_and_build(browser: ClusterPage, tmp_path: Path) -> None:
    path = decide(browser)
    decisions = read_decisions(path)
    found = {
        (row.term, row.decision): row.concept_id
        for term in decisions.terms
        for tag in ("en", "de", "es", "")
        if (row := decisions.find(term, tag))
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
    result = apply_decisions(CLUSTERING, decisions, LetterEncoder())
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
    output = CliRunner().invoke(kb, args, catch_exceptions=False).output
    assert "row with the decision group: 1" in output
    assert "row with the decision reject: 2" in output
    with KnowledgeBase(out) as opened:
        assert {name.concept_id for name in opened.iter_names()} == {"H:1", "H:9", arm}
        assert opened.preferred_name(arm, "de") == "Schmerz im linken Arm"
        assert list(opened.parents(arm)) == ["H:9"]
        assert "pyrexia" in {name.text for name in opened.names("H:1")}


def test_a_pasted_parent_is_cleaned(browser: ClusterPage) -> None:
    browser.go("pain in the left arm")
    field = browser.find("#parent")
    field.send_keys(Keys.CONTROL, "a")
    browser.driver.execute_cdp_cmd("Input.insertText", {"text": "\tH:9\t|\u2028H:2\r\n"})
    field.send_keys(Keys.TAB)
    assert browser.find("#parent").get_property("value") == "H:9 | H:2"
    browser.press("a")
    decisions = read_decisions(browser.save())
    assert decisions.parents[decisions.find("pain in the left arm", "en").concept_id] == "H:9 | H:2"


ROW = HEADER + "{}\tx\t\t{}\t{}\t{}\n"


def test_problems_are_reported(browser: ClusterPage, tmp_path: Path) -> None:
    browser.press("s")
    assert browser.message == "Tick the members to move first."
    browser.press("1", "2", "3", "4", "5", "s")
    assert browser.message == "Leave at least one member where it is."
    bad = tmp_path / "bad.tsv"
    for text, line, problem in (
        (ROW.format("H:1", "synonym", "", "acept"), 2, "decision"),
        (HEADER + "H:1\t\t\tsynonym\t\taccept\n", 2, "name"),
        (ROW.format("", "synonym", "", "accept"), 2, "no id"),
        (ROW.format("H:1", "lay", "", "accept"), 2, "column type"),
        (HEADER + "H:1\tx\n", 2, "2 columns, 6 expected"),
        (ROW.format("H:1", "synonym", "", "accept") + "\tx\t\t\t\treject\n", 3, "line 2"),
        ("id\tname\n", 1, "column language"),
        ("id\t" + HEADER, 1, "column id"),
        ("concept_id\t" + HEADER, 1, "concept_id"),
        (ROW.format("A|b", "synonym", "", "accept"), 2, "id has a blank"),
        (ROW.format("A\u202eb", "synonym", "", "accept"), 2, "id has a blank"),
        (ROW.format("NEW:1", "synonym", "H:1|H 2", "accept"), 2, "parent"),
        (ROW.format("H:1", "preferred", "", "accept") + "H:1\ty\t\tpreferred\t\taccept\n", 3, "preferred term"),
    ):
        bad.write_text(text, "utf-8")
        browser.load(bad)
        assert browser.message.startswith(f"bad.tsv:{line}: ")
        assert problem in browser.message
    bad.write_bytes(b"id\xff")
    browser.load(bad)
    assert "UTF-8" in browser.message
    assert not browser.warns
    # two new clusters with the same set of terms
    browser.open([Cluster(1, "Sarcoma", (Member("Sarcoma"),)), Cluster(2, "sarcoma", (Member("sarcoma"),))])
    browser.press("a", "a")
    assert browser.message == "Not accepted: “Sarcoma” was accepted with the same new id. Merge the two."
    assert browser.find("#decided").text == "1 of 2 decided"


def test_concept_can_be_changed_and_decisions_reopened(browser: ClusterPage) -> None:
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
    # another concept clears the decision
    browser.press("k")
    browser.click(".choice:nth-of-type(1) input")
    assert browser.texts(".row.accept") == []
    browser.press(*"uuuuuuu")
    assert not browser.warns
    assert browser.find("#undo").get_attribute("disabled") == "true"
    assert len(browser.members) == 5


def test_an_earlier_new_concept_keeps_its_name(browser: ClusterPage) -> None:
    members = (Member("Armweh", 9, "de"), Member("arm pain", 1, "en"))
    known = Cluster(1, "Armweh", members, "NEW:1", "arm pain", 0.9)
    browser.open([known, Cluster(2, "brachialgia", (Member("brachialgia"),), "NEW:1", "arm pain", 0.8)])
    browser.press("a", "a")
    assert browser.find("#decided").text == "2 of 2 decided"
    assert browser.save().read_text("utf-8") == HEADER + (
        "NEW:1\tArmweh\tde\tsynonym\t\taccept\n"
        "NEW:1\tarm pain\ten\tpreferred\t\taccept\n"
        "NEW:1\tbrachialgia\t\tsynonym\t\taccept\n"
    )


def test_hostile_terms_and_formulas(browser: ClusterPage, tmp_path: Path) -> None:
    members = tuple(Member(text, id=text) for text in ATTACKS)
    browser.open([Cluster(1, ATTACKS[0], members, ATTACKS[0], ATTACKS[1], 0.5)])
    assert browser.title == ATTACKS[0]
    assert browser.members[1] == ATTACKS[1].strip()
    assert browser.members[5:7] == ["‹U+202E›gnp.exe אב", "bell␇ null␀ tab line end"]
    browser.press("a")
    # UTF-8 cannot encode a lone surrogate
    expected = {" ".join(text.split()).replace("\ud800", "\ufffd") for text in ATTACKS}
    assert read_decisions(browser.save()).terms == expected
    # formulas of a spreadsheet are saved as text, and loaded as they were
    terms = ["=cmd()", "+ Fieber", "'n Husten", '"quoted', "-1"]
    clusters = [Cluster(1, terms[0], tuple(Member(term) for term in terms), "H:1", "fever", 0.5)]
    browser.open(clusters)
    browser.press("a")
    saved = browser.save().rename(tmp_path / "earlier.tsv")
    names = [line.split("\t")[1] for line in saved.read_text("utf-8").splitlines()[1:]]
    assert sorted(names) == sorted(f"'{term}" for term in terms)
    browser.open(clusters)
    browser.load(saved)
    assert read_decisions(browser.save()).terms == set(terms)


@pytest.mark.parametrize("seed", [25, 36])  # they split clusters by a majority and by a tie
def test_loaded_decisions_mean_the_same_in_python(browser: ClusterPage, seed: int, tmp_path: Path) -> None:
    clustering, text = random_case(seed)
    path = tmp_path / "earlier.tsv"
    path.write_text(text, "utf-8")
    decisions = read_decisions(path)
    result = apply_decisions(clustering, decisions, LetterEncoder())
    browser.open(list(clustering.clusters))
    browser.load(path)
    concepts = {}
    rows = "return [...document.querySelectorAll('.row:not(.reject)')].map((row) => row.id)"
    for number in browser.driver.execute_script(rows):
        browser.driver.execute_script("document.getElementById(arguments[0]).click()", number)
        checked = browser.driver.find_elements(By.CSS_SELECTOR, ".choice:has(:checked) code")[0].text
        concepts[frozenset(browser.members)] = checked
    expected = {frozenset(m.term for m in c.members): c.concept_id for c in result.clustering.clusters}
    assert set(concepts) == set(expected)
    for members, concept_id in expected.items():
        assert concepts[members] == concept_id if concept_id else concepts[members].startswith("NEW:")
    # saving again loses and adds nothing
    again = read_decisions(browser.save())
    assert again.terms == decisions.terms
    for term in decisions.terms:
        one, other = decisions.find(term, ""), again.find(term, "en") or again.find(term, "")
        assert one is not None
        assert other is not None
        assert one.decision == other.decision
        if one.decision == "accept" or not one.concept_id.startswith("NEW:"):
            assert one.concept_id == other.concept_id
    second = apply_decisions(clustering, again, LetterEncoder())
    assert {frozenset(m.term for m in c.members) for c in second.clustering.clusters} == set(expected)


def test_resume_with_a_longer_list(browser: ClusterPage) -> None:
    browser.go("pain in the left arm")
    browser.press("a")
    pages = browser.save().read_text("utf-8")
    new = Member("left arm pain", 2, "en", "", 0.9, CLUSTERS[2].representative)
    browser.open([CLUSTERS[0], replace(CLUSTERS[2], members=(*CLUSTERS[2].members, new))])
    (browser.downloads / "earlier.tsv").write_text(pages, "utf-8")
    browser.load(browser.downloads / "earlier.tsv")
    browser.go("pain in the left arm")
    # the new term reopens the cluster; accepted terms stay accepted
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


def test_rows_about_terms_of_another_list_stay(browser: ClusterPage, tmp_path: Path) -> None:
    path = tmp_path / "earlier.tsv"
    other = "H:2\tGift\ten\tsynonym\t\taccept\n", "\tabsent\t\tsynonym\t\treject\n"
    path.write_text(HEADER + "H:1\tGift\tde\tsynonym\t\taccept\n" + "".join(other), "utf-8")
    browser.open([Cluster(1, "Gift", (Member("Gift", 1, "de"),))])
    browser.load(path)
    browser.press("r")
    saved = browser.save().read_text("utf-8")
    assert saved == HEADER + "".join(other) + "\tGift\tde\tsynonym\t\treject\n"


def test_large_lists_and_clusters_are_drawn_on_demand(browser: ClusterPage) -> None:
    browser.open([Cluster(n, f"term {n}", (Member(f"term {n}"),)) for n in range(1, 5001)])
    assert len(browser.rows) < 60
    began = time.perf_counter()
    browser.press(Keys.END)
    assert browser.title == "term 5000"
    assert "term 5000" in browser.rows
    browser.search("4321")
    assert browser.rows == ["term 4321"]
    assert time.perf_counter() - began < 5
    browser.open([Cluster(1, "t0", tuple(Member(f"t{n}") for n in range(250)))])
    count = "return document.querySelectorAll('.members tbody tr').length"
    assert browser.tab.run(count) == 200
    browser.click("#tick-1")
    browser.driver.execute_script("document.querySelector('.members + button').click()")
    assert browser.tab.run(count) == 250
    assert browser.find("#tick-1").is_selected()
