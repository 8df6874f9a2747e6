"""Take the pictures of the documents: a linked note with one card open, and the same lines under review.

    python docs/pictures/make.py

Links some lines of the German demo note with the demo bundle, opens their pages in Chromium and writes
``docs/pictures/note.png``, which the README shows, and ``docs/pictures/review.png``. Each file names what it was made
of, and a test compares that with what it would be made of now: the links, and the files that the page is made of.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import tempfile
import zlib
from importlib import resources
from pathlib import Path

from medlink import link_notes
from medlink.curation.note_page import write_notes
from medlink.curation.review import Review
from medlink.index import Bundle
from medlink.linking.demo import demo_bundle, demo_notes
from medlink.notes.pipeline import LinkedNote, NotePipeline
from medlink.notes.reading import Note

PICTURES = {kind: Path(__file__).with_name(f"{name}.png") for kind, name in (("notes", "note"), ("review", "review"))}
"""The pictures by the folders of their pages."""
_FROM, _TO, _CARD = "Diagnosen:", "EKG:", "Wasser in den Beinen"
_KEYS = "aaara"  # what a reader of the review did before
_WIDE, _HIGH, _SCALE = 1000, 740, 1.25  # in pixels of the page, and pixels of the picture for each of them
_FLAGS = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
_FLAGS += " --disable-component-update --hide-scrollbars"


def linked(bundle: Bundle) -> LinkedNote:
    """The lines of the note with their links."""
    note = demo_notes()["de"]
    text = note[note.index(_FROM) : note.index(_TO)].strip()
    return NotePipeline(bundle).link([Note("de.txt", text, "de")])[0]


def made_of(note: LinkedNote, kind: str) -> bytes:
    """A hash of the links and of a page's files; scores may differ in their last digits from machine to machine."""
    digest = hashlib.sha256()
    for mention in note.mentions:
        digest.update(f"{mention.start} {mention.end} {mention.link.concept_id}\n".encode())
    pages = Path(str(resources.files("medlink"))) / "resources" / "pages"
    for path in sorted((*pages.glob("*.*"), *(pages / kind).iterdir())):
        digest.update(path.read_bytes())
    return b"Comment\0made of " + digest.hexdigest().encode()


def write_page(kind: str, note: LinkedNote, bundle: Bundle, folder: Path) -> Path:
    """The page of one kind; that of a review with the first decisions made."""
    page = folder / f"{kind}.html"
    if kind == "notes":
        write_notes(page, [note], bundle.kb, title="Linked notes")
        return page
    notes, links = folder / "notes.jsonl", folder / "links.jsonl"
    notes.write_text(json.dumps({"id": "de.txt", "text": note.note.text, "language": "de"}), encoding="utf-8")
    link_notes(bundle, [notes], out=links)
    Review(bundle, links, notes=[str(notes)]).write_report(page)
    return page


def take(kind: str, note: LinkedNote, bundle: Bundle) -> bytes:
    """The picture as PNG, without what it was made of."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    from selenium.webdriver.common.action_chains import ActionChains

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as folder:
        for flag in (*_FLAGS.split(), f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        page = write_page(kind, note, bundle, Path(folder))
        with Chrome(options, ChromeService(shutil.which("chromedriver"))) as driver:
            size = {"width": _WIDE, "height": _HIGH, "deviceScaleFactor": _SCALE, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(page.as_uri())
            if kind == "review":
                ActionChains(driver).send_keys(*_KEYS).perform()
            find = "[...document.querySelectorAll('.text .mention')].find((one) => one.textContent === arguments[0])"
            driver.execute_script(f"{find}.click()", _CARD)
            return bytes(driver.get_screenshot_as_png())


def main() -> None:
    """Write the pictures."""
    bundle = Bundle(demo_bundle())
    note = linked(bundle)
    for kind, path in PICTURES.items():
        picture, text = take(kind, note, bundle), b"tEXt" + made_of(note, kind)
        # a chunk of a PNG: length, kind and text, check sum; the last twelve bytes are the chunk that ends the file
        chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
        path.write_bytes(picture[:-12] + chunk + picture[-12:])


if __name__ == "__main__":
    main()
