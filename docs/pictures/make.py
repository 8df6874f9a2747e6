"""Draw the linked note of the README.

    python docs/pictures/make.py

Links some lines of the German demo note with the demo bundle and writes ``docs/pictures/note.svg``: every mention in a
box, under it the id and the preferred English name of its concept. A test holds the file equal to what this prints.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from medlink.linking.demo import demo_bundle, demo_notes
from medlink.spacy_components.pipeline import build_pipeline

HERE = Path(__file__).parent
_FROM, _TO = "Diagnosen:", "- COPD"
_WIDE, _HIGH, _LEFT, _TOP = 8.4, 52, 16, 30  # of a letter, of a line, and the margins, in pixels
_SMALL = 5.8  # of a letter under the line
_KNOWN, _NIL = "#cfe8d5", "#eceff1"


def draw() -> str:
    """The note as SVG."""
    note = demo_notes()["de"]
    text = note[note.index(_FROM) : note.index(_TO)].strip()
    nlp = build_pipeline(demo_bundle(), "de")
    kb = nlp.get_pipe("biolord_linker").linker.kb
    doc = nlp(text)
    lines = text.split("\n")
    starts = [0, *(i + 1 for i, letter in enumerate(text) if letter == "\n"), len(text) + 1]
    ends: dict[tuple[int, int], float] = {}
    drawn = []
    for span in doc.ents:
        row = max(i for i, start in enumerate(starts) if start <= span.start_char)
        x, y = _LEFT + _WIDE * (span.start_char - starts[row]), _TOP + _HIGH * row
        nil = span.kb_id_ == "NIL"
        under = "NIL" if nil else f"{span.kb_id_.removeprefix('DEMO:')} {kb.preferred_name(span.kb_id_, 'en')}"
        width = _WIDE * len(span.text)
        # a label that would run into the one before it stands one step lower
        step = int(x < ends.get((row, 0), 0))
        ends[row, step] = x + _SMALL * (len(under) + 1)
        drawn.append(
            f'<rect x="{x - 3:.1f}" y="{y - 16}" width="{width + 6:.1f}" height="22" rx="4" '
            f'fill="{_NIL if nil else _KNOWN}"/>'
            f'<text class="under" x="{x:.1f}" y="{y + 17 + 11 * step}">{escape(under)}</text>'
        )
    for row, line in enumerate(lines):
        drawn.append(
            f'<text x="{_LEFT}" y="{_TOP + _HIGH * row}" textLength="{_WIDE * len(line):.1f}" '
            f'xml:space="preserve">{escape(line)}</text>'
        )
    page = int(_LEFT + max(*ends.values(), _WIDE * max(map(len, lines)) + _LEFT))
    height = _TOP + _HIGH * len(lines) - 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{page}" height="{height}" '
        f'viewBox="0 0 {page} {height}" role="img" aria-label="A German note with its mentions linked">\n'
        "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#1b2b34}"
        ".under{font-size:9.5px;fill:#3b6b4a}</style>\n"
        f'<rect width="{page}" height="{height}" rx="8" fill="#ffffff" stroke="#d7dde0"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    (HERE / "note.svg").write_text(draw(), encoding="utf-8")
