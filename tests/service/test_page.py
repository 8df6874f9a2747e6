"""The page of ``medlink serve`` in a real Chromium, and what it keeps.

Skipped without Chromium, unless ``MEDLINK_REQUIRE_BROWSER`` is set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from medlink.curation.decisions import HEADER, DecisionStore
from medlink.curation.review import Review
from medlink.index import Bundle
from medlink.kb.decision_table import Decision
from medlink.notes import learning
from medlink.notes.learned import read_learned
from tests.curation.browser import PHONE, ActionChains, Keys, Select, Tab

from .running import Running, serving

TEXT = (
    "\U0001f493 Diagnosen: Z. n. Herzinfarkt.\nKein Fieber, aber <b>Husten</b>. Hb 7,9 g/dl.\n"
    "Vater mit 54 J. an Herzinfarkt verstorben. Dg. MS."
)
WORDS = ["Herzinfarkt", "Fieber", "Husten", "Hb 7,9 g/dl", "Herzinfarkt", "MS"]


@dataclass(frozen=True)
class ServicePage:
    """The page in Chromium, and the actions of a reader."""

    tab: Tab
    running: Running
    decisions: Path

    def open(self) -> None:
        self.tab.driver.get(self.running.url)
        self.tab.wait(lambda: len(self.tab.texts("#ask [name=language] option")) == 4)

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.tab.driver).send_keys(key).perform()

    def link(self, text: str) -> None:
        self.tab.find("#text").clear()
        self.tab.run("document.querySelector('#text').value = arguments[0]", text)  # emoji cannot be typed
        self.tab.run("document.querySelector('#notes').replaceChildren()")
        self.tab.run("document.querySelector('#message').classList.remove('failed')")
        self.tab.find("#text").send_keys(Keys.CONTROL, Keys.ENTER)
        self.tab.wait(lambda: self.tab.texts(".text") or self.failed)

    @property
    def failed(self) -> str:
        return " ".join(self.tab.texts("#message.failed"))

    def click(self, selector: str, text: str) -> None:
        """Click the first element whose text begins so."""
        find = "[...document.querySelectorAll(arguments[0])].find((one) => one.textContent.startsWith(arguments[1]))"
        self.tab.run(f"{find}.click()", selector, text)

    def choose(self, words: str) -> None:
        self.click(".text .mention", words)

    def decide(self, button: str) -> None:
        self.tab.run("document.querySelector('#message').textContent = ''")
        self.click(".decide button", button)
        self.tab.wait(lambda: self.tab.texts("#message") == ["saved"])

    @property
    def marks(self) -> dict[str, str]:
        rows = "[...document.querySelectorAll('.mention[data-mark]')].map((one) => [one.textContent, one.dataset.mark])"
        return dict(self.tab.run(f"return {rows}"))

    @property
    def rows(self) -> list[Decision]:
        return DecisionStore(self.decisions).rows


@pytest.fixture(scope="module")
def running(demo_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("page"), demo_path, "--decisions", "decisions.tsv") as running:
        yield running


@pytest.fixture
def page(running: Running, chromium: Tab) -> Iterator[ServicePage]:
    """The opened page without decisions; afterwards, check that nothing of another server was loaded."""
    decisions = running.log.with_name("decisions.tsv")
    decisions.unlink(missing_ok=True)
    opened = ServicePage(chromium, running, decisions)
    with chromium.isolated(served=running.url):
        opened.open()
        yield opened


@pytest.mark.browser
def test_findings_with_status_value_and_candidates(page: ServicePage) -> None:
    tab = page.tab
    page.link(TEXT)
    assert tab.texts(".text .mention") == WORDS
    assert tab.find(".text").text.startswith("\U0001f493 Diagnosen: Z. n. Herzinfarkt.")
    assert "<b>" in tab.find(".text").text
    assert tab.texts(".facts")[0].startswith("German · 6 mentions: ")
    titles = tab.run("return [...document.querySelectorAll('.text .mention')].map((one) => one.title)")
    assert titles[0].startswith("Myokardinfarkt · 0.")  # what a hand that rests on the words sees
    assert titles[1].endswith("· absent")
    page.choose("Hb 7,9 g/dl")
    assert tab.find(".card h2").text == "Anämie"
    assert "hemoglobin 7.9 g/dl, low: limit 10.5" in tab.find(".card").text
    assert tab.texts(".card .decide button")[0].startswith("Accept")
    page.choose("MS")
    assert [one.partition("\n")[0] for one in tab.texts(".card .other summary")]
    Select(tab.find("#ask [name=language]")).select_by_visible_text("English")
    page.link("He has a fever.")
    assert (tab.texts(".text .mention"), tab.texts(".facts")[0][:7]) == (["fever"], "English")
    assert not tab.low_contrast
    page.link("x" * 1_100_000)
    assert page.failed == "The body is larger than 1,000,000 bytes: send less in one request."
    assert [entry["message"] for entry in tab.driver.get_log("browser") if " 413 " not in entry["message"]] == []


@pytest.mark.browser
def test_by_keyboard_alone(page: ServicePage) -> None:
    tab = page.tab
    tab.run("document.querySelector('#text').value = arguments[0]", TEXT)
    page.press(Keys.TAB, Keys.TAB, Keys.ENTER)  # from the note over the language to the button
    tab.wait(lambda: tab.texts(".text .mention"))
    tab.run("document.activeElement.blur()")
    page.press("j", "j", "j")
    assert tab.texts("[aria-expanded=true]") == ["Husten"]
    page.press("a")
    tab.wait(lambda: page.marks == {"Husten": "✓"})
    page.press("c")
    tab.wait(lambda: tab.texts("dialog[open] li button"))
    page.press(*"Lungenentzündung")
    tab.wait(lambda: "Pneumonie" in " ".join(tab.texts("dialog[open] li button")[:1]))
    page.press(Keys.ENTER)
    tab.wait(lambda: [row.concept_id for row in page.rows] == ["DEMO:0039"])
    page.press("r")
    tab.wait(lambda: page.marks == {"Husten": "✕"})
    page.press("o")
    tab.wait(lambda: page.marks == {})
    page.press(Keys.ESCAPE)
    assert tab.find(".card h2, .card .empty").text.startswith("Choose a mention")
    assert page.decisions.read_text("utf-8") == HEADER


@pytest.mark.browser
def test_corrections_are_those_of_a_review(page: ServicePage, demo: Bundle, tmp_path: Path) -> None:
    """The table continues in ``medlink review``, and ``medlink learn`` learns from it."""
    tab = page.tab
    page.link(TEXT)
    page.choose("Husten")
    page.decide("Accept")
    page.choose("Fieber")
    page.decide("No mention")
    page.choose("Hb 7,9 g/dl")
    page.decide("No concept")
    page.choose("MS")
    tab.run("document.querySelector('.card .other').open = true")
    page.decide("Take this concept")
    page.open()
    page.link(TEXT)  # the same note has its decisions
    assert page.marks == {"Husten": "✓", "Fieber": "✕", "Hb 7,9 g/dl": "∅", "MS": "✓"}
    rows = page.rows
    assert [(row.term, row.decision, TEXT[row.start : row.end]) for row in rows] == [
        ("Husten", "accept", "Husten"), ("Fieber", "reject", "Fieber"), ("Hb 7,9 g/dl", "none", "Hb 7,9 g/dl"),
        ("MS", "accept", "MS"),
    ]  # fmt: skip
    assert rows[3].proposed != rows[3].concept_id
    assert page.decisions.stat().st_mode & 0o777 == 0o600

    notes, links = tmp_path / "notes.jsonl", tmp_path / "links.jsonl"
    notes.write_text(json.dumps({"id": rows[0].item, "text": TEXT, "language": "de"}), "utf-8")
    given = [{"id": rows[0].item, "text": TEXT, "language": "de"}]
    links.write_text(page.running.post("/link", notes=given, values=True, format="jsonl").text, "utf-8")
    review = Review(demo, links, notes=[str(notes)], decisions=page.decisions)
    assert review.write_gold(tmp_path / "gold.jsonl") == 1
    learning.learn(demo, [page.decisions], tmp_path / "learned.jsonl", least_seen=1)
    assert {mention for (mention, _) in read_learned(tmp_path / "learned.jsonl")[1]} >= {"husten", "fieber", "MS"}


@pytest.mark.browser
def test_copy_as_json(page: ServicePage) -> None:
    tab = page.tab
    page.link(TEXT)
    rights = {"origin": page.running.url.rstrip("/"), "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    tab.driver.execute_cdp_cmd("Browser.grantPermissions", rights)
    tab.find("#copy").click()
    tab.wait(lambda: tab.texts("#message") == ["copied"])
    copied = json.loads(tab.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])"))
    item = copied["notes"][0]["note"]
    assert copied == page.running.post("/link", notes=[{"id": item, "text": TEXT}], values=True).json()


@pytest.mark.browser
def test_in_a_narrow_window_and_in_the_dark(page: ServicePage) -> None:
    tab = page.tab
    for scheme in ("light", "dark"):
        with tab.emulating(PHONE, prefers_color_scheme=scheme):
            page.open()
            assert not tab.low_contrast
            page.link(TEXT)
            page.choose("Husten")
            assert tab.find(".card.open .decide button").is_displayed()
            assert not tab.low_contrast
            assert not tab.scrolls_sideways


@pytest.mark.browser
def test_a_token_and_no_table(demo_path: Path, tmp_path: Path, chromium: Tab) -> None:
    (tmp_path / "token").write_text("4711-a-token-of-the-tests")
    with serving(tmp_path, demo_path, "--token", "token") as running:
        page = ServicePage(chromium, running, tmp_path / "none.tsv")
        chromium.driver.get(running.url)
        chromium.wait(lambda: chromium.find("#token").is_displayed())
        assert page.failed.startswith("The token is missing or wrong")
        chromium.find("#token input").send_keys("4711-a-token-of-the-tests")
        page.link("Seit Tagen Husten.")
        assert chromium.texts(".text .mention") == ["Husten"]
        assert not chromium.find("#token").is_displayed()
        page.choose("Husten")
        assert not chromium.texts(".decide")
    chromium.driver.get_log("browser")  # the refusal without the token


@pytest.mark.slow
def test_decisions_without_a_table_and_damaged_ones(service: Running, running: Running) -> None:
    row = {
        "item": "note-0123456789abcdef", "start": 0, "end": 5, "name": "fever", "language": "en", "section": "",
        "proposed": "", "decision": "accept", "concept_id": "DEMO:0209",
    }  # fmt: skip
    sentence = "There is no table of decisions: start the service with --decisions."
    assert service.refusal(service.post("/decisions", **row)) == (422, sentence)
    table = running.log.with_name("decisions.tsv")
    table.write_text(HEADER, "utf-8")
    assert running.refusal(running.post("/decisions", **{**row, "concept_id": "a b"}))[0] == 422
    assert running.refusal(running.post("/decisions", **{**row, "end": 0}))[0] == 422
    unknown = running.refusal(running.post("/decisions", **{**row, "concept_id": "NOPE:1"}))
    assert unknown == (422, "The bundle has no concept with this id.")
    assert table.read_text("utf-8") == HEADER
    assert running.post("/decisions", **row).status_code == 200
    before = table.read_text("utf-8")
    table.write_text(before + "broken\n", "utf-8")
    assert running.refusal(running.post("/decisions", **row))[0] == 422
    assert table.read_text("utf-8") == before + "broken\n"
    table.unlink()
