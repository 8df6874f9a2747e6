"""Take the pictures of the documents: a linked note with one card open, its review, a page of clusters, the service.

    python docs/pictures/make.py

Links some lines of the German demo note with the demo bundle, clusters the terms of the tutorial, serves the bundle,
opens the pages in Chromium and writes ``note.png`` and the other pictures beside this file. Take them anew after a
change of a page.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Thread

from medlink import link_notes
from medlink.curation import cluster_list
from medlink.curation.note_page import write_note_page
from medlink.curation.review import Review
from medlink.index import Bundle
from medlink.linking.demo import demo_bundle, demo_notes
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note
from medlink.service.app import Service
from medlink.service.options import ServeOptions

PICTURES = {kind: Path(__file__).with_name(f"{kind}.png") for kind in ("note", "review", "clusters", "serve")}
_FROM, _TO = "Diagnosen:", "EKG:"
_KEYS = {"note": "", "review": "aaara", "clusters": "aa", "serve": ""}  # what a reader did before
_OPENED = {  # what is clicked on each page, so that its card is open
    "note": (".text .mention", "Wasser in den Beinen"),
    "review": (".text .mention", "Wasser in den Beinen"),
    "clusters": ("#list *", "Pneumonie"),
    "serve": (".text .mention", "Hb 7,9 g/dl"),
}
_WIDE, _HIGH, _SCALE = 1000, 740, 1.25  # in pixels of the page, and pixels of the picture for each of them
_FLAGS = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
_TEXT = "Z. n. Herzinfarkt. Kein Fieber, aber Husten und Wasser in den Beinen. Hb 7,9 g/dl. Vater: MS."
_FLAGS += " --disable-component-update --hide-scrollbars"


class Pages:
    """The pages of the pictures.

    Args:
        bundle: folder of the demo bundle.
        folder: where pages and their inputs are written.
    """

    def __init__(self, bundle: Path, folder: Path) -> None:
        self._path, self._bundle, self._folder = bundle, Bundle(bundle), folder
        tutorial = Path(__file__).parents[1] / "tutorial" / "clusters.md"
        (terms,) = re.findall(r'^```txt title="terms.txt"\n(.*?)^```$', tutorial.read_text("utf-8"), re.M | re.S)
        self._terms = folder / "terms.txt"
        self._terms.write_text(terms, encoding="utf-8")

    def _note(self) -> LinkedNote:
        """Lines of the demo note with their links."""
        note = demo_notes()["de"]
        text = note[note.index(_FROM) : note.index(_TO)].strip()
        return NotePipeline(self._bundle).link([Note("de.txt", text, "de")])[0]

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve the bundle; yields the address of the page."""
        with Service([str(self._path)], ServeOptions(port=0, decisions=str(self._folder / "decisions.tsv"))) as service:
            thread = Thread(target=service.serve_forever)
            thread.start()
            yield service.url
            service.shutdown()
            thread.join()

    def write(self, kind: str) -> Path:
        """Write the page of a picture, but that of the service; returns its path."""
        page = self._folder / f"{kind}.html"
        if kind == "clusters":
            cluster_list(self._terms, bundle=self._path, report=page)
        elif kind == "note":
            write_note_page(page, [self._note()], self._bundle.kb, title="Linked notes")
        elif kind == "review":
            self._write_review(page, self._note())
        return page

    def _write_review(self, page: Path, note: LinkedNote) -> None:
        notes, links = self._folder / "notes.jsonl", self._folder / "links.jsonl"
        notes.write_text(json.dumps({"id": "de.txt", "text": note.note.text, "language": "de"}), encoding="utf-8")
        link_notes(self._bundle, [notes], out=links)
        Review(self._bundle, links, notes=[str(notes)]).write_page(page)


def take(kind: str, url: str, folder: Path) -> bytes:
    """The picture of a page as PNG."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS.split(), f"--user-data-dir={folder}/profile-{kind}"):
        options.add_argument(flag)
    with Chrome(options, ChromeService(shutil.which("chromedriver"))) as driver:
        size = {"width": _WIDE, "height": _HIGH, "deviceScaleFactor": _SCALE, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(url)
        if kind == "serve":
            driver.find_element("css selector", "#text").send_keys(_TEXT, Keys.CONTROL, Keys.ENTER)
            WebDriverWait(driver, 60).until(lambda _: driver.find_elements("css selector", ".text"))
        if _KEYS[kind]:
            ActionChains(driver).send_keys(*_KEYS[kind]).perform()
        selector, text = _OPENED[kind]
        find = "[...document.querySelectorAll(arguments[0])].find((one) => one.textContent.trim() === arguments[1])"
        driver.execute_script(f"{find}.click()", selector, text)
        return bytes(driver.get_screenshot_as_png())


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Pages(demo_bundle(), Path(folder))
        for kind, path in PICTURES.items():
            with pages.served() if kind == "serve" else nullcontext(pages.write(kind).as_uri()) as url:
                path.write_bytes(take(kind, url, Path(folder)))


if __name__ == "__main__":
    main()
