"""The page of an evaluation in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from medlink.evaluation.report import write_tables
from medlink.evaluation.resampling import Scores
from medlink.evaluation.suite import Entry, Outcome, Suite
from medlink.evaluation.task import Report

from .browser import Tab
from .test_page import ATTACKS


def test_intervals_are_drawn_and_texts_stay_texts(chromium: Tab) -> None:
    folder = chromium.folder / "evaluation"
    folder.mkdir()
    rng = np.random.default_rng(0)
    entries = [Entry(task="retrieval", title=title, inputs=("a",)) for title in ATTACKS[:3]]
    suite = Suite(path=Path("e.toml"), tasks=tuple(entries), resamples=50)
    outcomes = []
    for entry in entries:
        for system, share in (("good", 0.9), ("bad <b>", 0.2)):
            hits = (rng.uniform(size=80) < share).astype(float)
            table: Any = [{"language": ATTACKS[1], "Acc@1": float(hits.mean()), "none": None}]
            report = Report("80 queries", table, scores=[Scores("Acc@1", "de", (hits,))])
            outcomes.append(Outcome(entry, "encoders", system, report, "", 0.1))
    outcomes.append(Outcome(entries[0], "encoders", "lost", None, ATTACKS[0], 0.1))
    write_tables(folder, suite, outcomes)
    with chromium.alone(folder / "index.html"):
        chromium.driver.get((folder / "index.html").as_uri())
        assert chromium.texts("section h2")[-1] == "Failed"
        assert chromium.texts("section:last-child td")[2] == ATTACKS[0]
        assert chromium.texts("section:first-child h2") == [ATTACKS[0]]
        assert len(chromium.texts("section:first-child tbody tr")) == 4
        assert len(chromium.texts(".measure.best")) == 3
        assert chromium.texts(".measure:not(.best) abbr") == ["*"] * 3
        # the dot of a value stands on its line
        lines = chromium.run(
            "return [...document.querySelectorAll('.interval')].map((one) => [one.offsetWidth,"
            " parseFloat(getComputedStyle(one, '::before').left), parseFloat(getComputedStyle(one, '::before').width)])"
        )
        assert len(lines) == 6
        assert all(left >= 0 and left + width <= whole and width > 0 for whole, left, width in lines)
        assert chromium.run("return document.querySelectorAll('b, img').length") == 0
