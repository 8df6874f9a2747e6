"""The page of linked notes: its data, and its behaviour in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medlink.curation.note_page import write_note_page
from medlink.index import Bundle
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.linking.demo import demo_notes
from medlink.notes.pipeline import LinkedMention, LinkedNote, NotePipeline
from medlink.notes.reading import Note
from medlink.records import Attribute, Candidate, Link, Qualifiers, Value

from .browser import LAPTOP, PHONE, Keys, Tab
from .test_page import ATTACKS, Page, data

TABLE = """id	name	language	type	definition	parent	semantic_type
H:0	finding	en	preferred			Finding
H:0	Befund	de	preferred
H:1	fever	en	preferred	A <b>raised</b> body temperature.	H:0	Symptom
H:1	pyrexia	en	synonym
H:1	Fieber	de	preferred
H:2	hay fever	en	preferred			Disease
H:3	<img src=x onerror=alert(3)>	en	preferred	<script>alert(4)</script>	H:2	<i>
"""
FEVER = Candidate("H:1", "Fieber", 0.912345, "Fieber", "de", "exact", "house", ("Symptom",))
HAY = Candidate("H:2", "hay fever", 0.25, "hay fever", "en", "dense", "house", ("Disease",))
FAR = Candidate("H:0", "Befund", 0.0499, "Befund", "de", "lexical", "house", ("Finding",))
IMAGE = Candidate("H:3", "<img src=x onerror=alert(5)>", 0.8, "<img src=x>", "en", "inflected", "<u>house")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("kb")
    width = TABLE.splitlines()[0].count("\t")
    rows = (line + "\t" * (width - line.count("\t")) + "\n" for line in TABLE.splitlines())
    (folder / "house.tsv").write_text("".join(rows), "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "house.tsv", {"source": "house"})])
    with KnowledgeBase(folder / "kb.sqlite") as opened:
        yield opened


def linked(text: str, *links: Link, note_id: str = "n", language: str = "de") -> LinkedNote:
    """A note with links at the first occurrences of their mentions, in order."""
    mentions, end = [], 0
    for link in links:
        start = text.index(link.mention, end)
        end = start + len(link.mention)
        mentions.append(LinkedMention(start, end, link))
    return LinkedNote(Note(note_id, text), language, tuple(mentions))


def fever(mention: str = "Fieber", *others: Candidate, expanded: str | None = None) -> Link:
    return Link(mention, (FEVER, *others), status="linked", expanded=expanded)


def page_data(kb: KnowledgeBase, path: Path, *notes: LinkedNote) -> dict[str, Any]:
    write_note_page(path, notes, kb, title="t")
    found: dict[str, Any] = data(Page(path))
    return found


def test_the_data(kb: KnowledgeBase, tmp_path: Path) -> None:
    note = linked("\U0001f493 Fieber, FX und Fieber.", fever("Fieber", HAY, FAR), Link("FX", (HAY, FAR)), fever())
    given = page_data(kb, tmp_path / "p.html", note, LinkedNote(Note("bad", problem="too long")))
    assert (tmp_path / "p.html").stat().st_mode & 0o777 == 0o600, "it has the words of a note"
    fields = given["fields"]

    def named(kind: str, row: list[Any]) -> dict[str, Any]:
        return dict(zip(fields[kind], row, strict=True))

    good, bad = (named("note", row) for row in given["notes"])
    assert bad == {"name": "bad", "language": "", "problem": "too long", "parts": [""]}
    assert [part if isinstance(part, str) else part[0] for part in good["parts"]] == [
        *("\U0001f493 ", "Fieber", ", ", "FX", " und ", "Fieber", ".")
    ]
    first, second = (named("mention", good["parts"][at]) for at in (1, 3))
    assert (first["status"], second["status"], second["expanded"]) == ("linked", "nil", None)
    # candidates with a low score are left out
    assert [row[0] for row in first["candidates"]] == ["H:1", "H:2"]
    assert [row[0] for row in second["candidates"]] == ["H:2"]
    best = named("candidate", first["candidates"][0])
    assert (best["score"], best["route"], best["source"]) == (0.9123, "exact", "house")
    assert [named("concept", row) for row in given["concepts"]] == [
        {
            "language": "de", "concept_id": "H:1", "source": "house", "semantic_types": ["Symptom"],
            "names": [["de", ["Fieber"], 0], ["en", ["fever", "pyrexia"], 0]], "parents": ["Befund"],
            "definitions": ["A <b>raised</b> body temperature."],
        },
        {
            "language": "de", "concept_id": "H:2", "source": "house", "definitions": [],
            "names": [["en", ["hay fever"], 0]], "semantic_types": ["Disease"], "parents": [],
        },
    ]  # fmt: skip
    # a linked concept appears despite its low score
    low = page_data(kb, tmp_path / "p.html", linked("Befund", Link("Befund", (FAR,), status="linked")))
    assert low["notes"][0][3][1][3][0][0] == "H:0"


def test_a_measured_value_is_described(kb: KnowledgeBase, tmp_path: Path) -> None:
    note = linked("T 39,2", fever("T 39,2", expanded="Fieber"))
    value = Value("temperature", 39.2, "°C", "high", "range", 37.5)
    given = page_data(kb, tmp_path / "p.html", replace(note, mentions=(replace(note.mentions[0], value=value),)))
    row = dict(zip(given["fields"]["mention"], given["notes"][0][3][1], strict=True))
    assert row["value"] == "temperature 39.2 °C, high: limit 37.5 of the laboratory"


def qualified_note() -> LinkedNote:
    """A note with a finding of each qualifier."""
    text = "Befund: Kein Fieber. V. a. Fieber li. Vater: Fieber. Z. n. Fieber."
    qualifiers = (
        Qualifiers("absent", section="results"), Qualifiers("uncertain", section="results"),
        Qualifiers("present", "current", "family"), Qualifiers("present", "historical"),
    )  # fmt: skip
    note = linked(text, *[fever()] * 4)
    at = text.index("li.")
    own = ((), (Attribute(at, at + 2, "li", "laterality", "H:9", "<b>links</b>"),), (), None)
    pairs = zip(note.mentions, qualifiers, own, strict=True)
    return replace(note, mentions=tuple(replace(m, qualifiers=q, attributes=a) for m, q, a in pairs))


def test_the_data_of_qualifiers_attributes_and_headings(kb: KnowledgeBase, tmp_path: Path) -> None:
    given = page_data(kb, tmp_path / "p.html", qualified_note())
    parts = given["notes"][0][3]
    assert parts[1] == {"heading": "Befund:", "section": "results"}
    rows = [dict(zip(given["fields"]["mention"], part, strict=True)) for part in parts if isinstance(part, list)]
    assert [(row["qualifiers"], row["section"]) for row in rows] == [
        (["absent"], "results"), (["uncertain"], "results"), (["family"], ""), (["historical"], ""),
    ]  # fmt: skip
    assert [row["attributes"] for row in rows] == [[], [["li", "laterality", "H:9", "<b>links</b>"]], [], []]
    # without qualifiers there are no headings
    parts = page_data(kb, tmp_path / "p.html", linked("Befund: Fieber", fever()))["notes"][0][3]
    assert [parts[0], parts[1][4:]] == ["Befund: ", [None, None, [], None, 8, 14]]


class NotePage:
    """The page in Chromium, and the actions of a reader."""

    def __init__(self, tab: Tab, path: Path, kb: KnowledgeBase) -> None:
        self.tab, self.path, self.kb = tab, path, kb

    def open(self, *notes: LinkedNote, title: str = "Linked notes") -> None:
        write_note_page(self.path, notes, self.kb, title=title)
        self.tab.driver.get(self.path.as_uri())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.driver.switch_to.active_element.send_keys(key)

    def click(self, selector: str) -> None:
        self.tab.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.tab.find(selector).click()

    @property
    def title(self) -> str:
        return "".join(self.tab.texts(".card.open h2"))

    @property
    def focused(self) -> str:
        return str(self.tab.run("return document.activeElement.textContent"))

    def show(self, status: str) -> None:
        self.click(f".chip:has([value={status}])")

    @property
    def marked(self) -> list[str]:
        return self.tab.texts(".text .mention:not(.off)")


@pytest.fixture
def page(chromium: Tab, kb: KnowledgeBase, tmp_path: Path) -> Iterator[NotePage]:
    """The page of three notes; afterwards, check that the console is empty and nothing was fetched."""
    notes = NotePage(chromium, tmp_path / "notes.html", kb)
    with chromium.isolated(notes.path):
        notes.open(
            linked(
                "Fieber, HF und PYX.\n\tFieber", fever("Fieber", HAY, FAR), Link("HF", (HAY, FAR)),
                fever("PYX", expanded="Pyrexie"), fever(), note_id="a.txt",
            ),
            linked("Fieber", fever(), note_id="b.txt"),
            LinkedNote(Note("c.txt", problem="12 characters, 10 at most")),
        )  # fmt: skip
        yield notes


@pytest.mark.browser
def test_notes_and_cards(page: NotePage) -> None:
    assert page.tab.find("#summary").text == "3 notes · 5 mentions: 4 linked, 1 NIL"
    assert page.tab.texts(".note h2") == ["a.txt", "b.txt", "c.txt"]
    assert page.tab.texts(".note > .facts") == [
        "German · 4 mentions: 3 linked, 1 NIL", "German · 1 mention: 1 linked", "",
    ]  # fmt: skip
    assert page.tab.texts(".note .problem") == ["This note was not linked: 12 characters, 10 at most"]
    assert page.tab.run("return document.querySelector('.text').textContent") == "Fieber, HF und PYX.\n\tFieber"
    page.click(".links summary")
    assert page.tab.texts(".note:first-child td") == [
        *("Fieber H:1", "0.91", "NIL", "–", "Fieber H:1", "0.91", "Fieber H:1", "0.91")
    ]
    assert page.title == ""
    page.click(".mention.linked[role=button]")
    assert page.title == "Fieber"
    assert page.tab.find(".card .badge").text == "linked"
    assert page.tab.find(".card .definition").text == "A <b>raised</b> body temperature."
    facts = dict(zip(page.tab.texts(".card > .known-of dt"), page.tab.texts(".card > .known-of dd"), strict=True))
    assert facts == {
        "id": "H:1", "source": "house", "type": "Symptom", "score": "0.91", "why": "the name Fieber (German)",
        "is a": "Befund", "German": "Fieber", "English": "fever · pyrexia",
    }  # fmt: skip
    assert page.tab.texts(".other summary") == ["hay fever\nH:2\nhouse\n0.25"]
    page.click(".other summary")
    assert "close in meaning to the name hay fever (English)" in page.tab.texts(".other dd")
    assert page.tab.find(".least").text == "Candidates with a score below 0.05 are not shown."
    page.click(".card .close")
    assert page.title == ""
    page.click(".text .mention.nil")
    assert (page.title, page.tab.texts(".card h3")) == ("No concept", ["Candidates"])
    page.press("j")
    assert page.tab.find(".card > .facts").text.replace("\n", " ") == "PYX for Pyrexie linked"
    assert page.tab.texts(".card h3") == ["No other candidates"]


@pytest.mark.browser
def test_cards_open_by_keyboard(page: NotePage) -> None:
    opened = "return document.querySelector('[aria-expanded=true]')"
    page.tab.find("[name=status]:checked").send_keys(Keys.TAB)
    assert page.focused == "Fieber"
    page.press(Keys.ENTER)
    assert page.title == "Fieber"
    assert page.tab.run("return document.activeElement.id") == "card"
    mention = page.tab.run(opened)
    page.press(Keys.ESCAPE)
    assert page.title == ""
    assert mention == page.tab.driver.switch_to.active_element
    assert mention.get_attribute("aria-expanded") == "false"
    page.press(Keys.TAB, Keys.SPACE)
    assert page.title == "No concept"
    page.press("j")
    assert (page.title, page.focused) == ("Fieber", "PYX")
    page.press("k", "K", "k")
    assert page.tab.run(f"{opened} === document.querySelector('.text .mention')")
    page.press(Keys.ESCAPE, *"jjjjjjj")
    assert page.tab.run(f"{opened}.closest('section').innerText").startswith("b.txt")


@pytest.mark.browser
def test_filter_by_status(page: NotePage) -> None:
    page.show("nil")
    assert page.marked == ["HF"]
    page.press("j", "j")
    assert (page.title, page.focused) == ("No concept", "HF")
    page.show("linked")
    assert page.marked == ["Fieber", "PYX", "Fieber", "Fieber"]
    assert page.title == ""
    assert page.tab.texts(".chip") == ["all\n5", "linked\n4", "ambiguous\n0", "NIL\n1"]
    assert not page.tab.find("[value=ambiguous]").is_enabled()
    page.show("all")
    assert len(page.marked) == 5
    # an ambiguous mention has no concept
    other = replace(FEVER, concept_id="H:2", preferred_name="hay fever", same_as=("S:1", "S:2"))
    page.open(linked("Fieber", Link("Fieber", (FEVER, other), "ambiguous"), note_id="a.txt"))
    page.show("ambiguous")
    page.click(".text .mention")
    assert (page.title, page.tab.find(".card .badge").text) == ("Several concepts", "ambiguous")
    assert [text.split("\n")[0] for text in page.tab.texts(".other summary")] == ["Fieber", "hay fever"]
    page.click(".other:last-of-type summary")
    assert "H:2 = S:1 = S:2" in page.tab.texts(".other dd")
    page.click(".links summary")
    assert page.tab.texts(".links td") == ["ambiguous", "–"]


@pytest.mark.browser
def test_qualifiers_attributes_and_headings(page: NotePage) -> None:
    assert page.tab.find("#legend").get_attribute("hidden") is not None, "there are no qualifiers"
    page.open(qualified_note())
    assert page.tab.texts(".text .heading") == ["Befund:"]
    signs = (
        "return [...document.querySelectorAll('.text .mention')].map((one) => getComputedStyle(one, '::after').content)"
    )
    assert page.tab.run(signs) == ['"−"', '"?"', '"F"', '"«"']
    chips = page.tab.texts(".chips:last-of-type .chip")
    assert chips == ["all\n4", "absent\n1", "uncertain\n1", "historical\n1", "family member\n1"]
    page.click(".text .says-uncertain")
    assert page.tab.texts(".card .badge") == ["linked", "? uncertain"]
    assert page.tab.texts(".card .attributes li") == ["li laterality"]
    assert page.tab.find(".card .attributes li").get_attribute("title") == "<b>links</b> · H:9"
    assert page.tab.texts(".card .section") == ["section: results"]
    page.show("family")
    assert (len(page.marked), page.title) == (1, "")
    page.press("j")
    assert page.tab.texts(".card .badge") == ["linked", "F family member"]
    page.click(".links summary")
    words = [text.split(maxsplit=2)[2] for text in page.tab.texts(".links tbody th")]
    assert words == ["absent", "uncertain", "family member", "historical"]
    page.click("#legend summary")
    assert {"English", "Deutsch", "Español"} <= set(page.tab.texts(".legend thead th"))
    assert page.tab.low_contrast == []


@pytest.mark.browser
def test_printing_opens_the_tables(page: NotePage) -> None:
    count = "return document.querySelectorAll('.links[open]').length"
    assert page.tab.run(count) == 0
    assert page.tab.driver.print_page()
    assert page.tab.run(count) == 2


@pytest.mark.browser
def test_the_content_security_policy(page: NotePage) -> None:
    page.tab.run(
        "const one = document.createElement('script'); one.textContent = 'window.ran = 1'; document.body.append(one)"
    )
    page.tab.run("document.body.setAttribute('onclick', 'window.ran = 2'); document.body.click()")
    page.tab.run("document.body.setAttribute('style', 'opacity: 0')")
    assert page.tab.run("return window.ran ?? 0") == 0
    assert page.tab.run("return getComputedStyle(document.body).opacity") == "1"
    refused = page.tab.driver.get_log("browser")
    assert len(refused) == 3
    assert all("Content Security Policy" in entry["message"] for entry in refused)


@pytest.mark.browser
def test_hostile_texts(page: NotePage) -> None:
    notes = []
    for attack in ATTACKS:
        word = attack.replace("\r", "")
        image, own = Link(word, (IMAGE,), status="linked"), fever("Fieber", expanded=attack)
        notes.append(linked(f"{word} Fieber {word}", image, own, note_id=attack))
    page.open(*notes, title="".join(ATTACKS))
    texts = page.tab.run("return [...document.querySelectorAll('.text')].map((one) => one.textContent)")
    for note, text in zip(notes, texts, strict=True):
        expected = note.note.text
        for mark, symbol in (("\x07", "␇"), ("\x00", "␀"), ("\u202e", "‹U+202E›"), ("\ud800", "‹U+D800›")):
            expected = expected.replace(mark, symbol)
        assert text == expected
    page.click(".text .mention")
    assert page.title == IMAGE.preferred_name
    assert page.tab.find(".card .definition").text == "<script>alert(4)</script>"
    for _ in notes:
        page.press("j", "j")
        assert not page.tab.run(
            "return document.querySelectorAll('img, i, u, b, body script:not(#data):not([type=module])').length"
        )


@pytest.fixture(scope="module")
def letters(demo: Bundle) -> list[LinkedNote]:
    notes = [Note(f"{language}.txt", text, language) for language, text in demo_notes().items()]
    return NotePipeline(demo).link(notes)


@pytest.mark.browser
@pytest.mark.parametrize(("size", "highest"), [(LAPTOP, 6000), (PHONE, 9000)])
def test_layout_of_the_demo(
    chromium: Tab, demo: Bundle, letters: list[LinkedNote], tmp_path: Path, size: tuple[int, int], highest: int
) -> None:
    page = NotePage(chromium, tmp_path / "notes.html", demo.kb)
    with chromium.isolated(page.path), chromium.emulating(size, prefers_color_scheme="light"):
        page.open(*letters)
        assert chromium.run("return document.documentElement.scrollHeight") < highest
        assert chromium.run("return document.querySelector('.top').offsetHeight") <= 110
        assert not chromium.scrolls_sideways
        page.click(".links summary")
        page.click(".text .mention")
        assert page.title
        assert not chromium.scrolls_sideways
        # the card does not cover its mention
        card, mention = (
            chromium.run("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector)
            for selector in (".card", "[aria-expanded=true]")
        )
        assert card["bottom"] <= size[1]
        assert mention["bottom"] <= card["top"] or mention["right"] <= card["left"]
        for scheme in ("light", "dark"):
            with chromium.emulating(size, prefers_color_scheme=scheme):
                assert chromium.low_contrast == []
                page.press(Keys.ESCAPE)
    with chromium.emulating(size):
        for number, note in enumerate(letters):
            # mentions flow like plain words: without marks the text has the same height
            high, plain, text = chromium.run(
                "const one = document.querySelectorAll('.text')[arguments[0]], high = one.offsetHeight;"
                "one.textContent = one.textContent; return [high, one.offsetHeight, one.textContent]",
                number,
            )
            assert high == plain
            assert text == note.note.text


@pytest.mark.browser
def test_long_words_do_not_widen_a_phone(page: NotePage) -> None:
    with page.tab.emulating(PHONE):
        long = "Donaudampfschifffahrt" * 20
        note = linked(f"{long} {long}", fever(long, expanded=long), Link(long, (IMAGE, HAY)), note_id=long)
        page.open(note, title=long)
        page.click(".links summary")
        page.click(".text .mention")
        assert not page.tab.scrolls_sideways
