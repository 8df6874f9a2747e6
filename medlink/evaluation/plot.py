"""Pictures of evaluations: precision against recall, threshold by threshold, and the intervals of several systems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from medlink.errors import ConfigError, needs_extra
from medlink.evaluation.clustering import Sweep
from medlink.files.whole import check_targets, whole_file

FORMATS = (".png", ".svg")
_APART = 0.08  # between two points whose threshold stands beside the curve


def check_plot(path: str | PathLike[str]) -> None:
    """Refuse a picture that could not be written in the end, before the long work starts.

    Raises:
        ConfigError: the ending is no known format, the folder is missing, or matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise ConfigError("unknown format of a picture", path=path, remedy=f"end it in {' or '.join(FORMATS)}")
    check_targets({"the picture": path}, [])
    with needs_extra("plot", "a picture"):
        import matplotlib  # noqa: F401  # only whether it is there


def write_plot(path: str | PathLike[str], sweeps: Mapping[str, Sweep]) -> None:
    """Draw one curve for each evaluation, by label, its best F1 as a dot with the threshold beside it.

    Thresholds at which nothing is predicted have no precision and are left out. Equal input gives an equal file.

    Raises:
        ConfigError: as :func:`check_plot`, or the file cannot be written.
    """
    check_plot(path)
    beside: dict[str, Any] = {"xytext": (-4, -4), "textcoords": "offset points", "ha": "right", "va": "top"}
    with _drawing(path, 6.4, 5.6) as figure:
        axes = figure.add_subplot()
        for label, found in sweeps.items():
            some, best = np.flatnonzero(found.tp + found.fp), found.best
            points = np.column_stack([found.recall, found.precision])
            told = f"{label}: F1 {found.f1[best]:.3f} at {found.thresholds[best]:.2f}"
            (line,) = axes.plot(*points[some].T, label=told)
            axes.plot(*points[best], "o", color=line.get_color())
            last = (2.0, 2.0)
            for here, threshold in zip(points[some].tolist(), found.thresholds[some], strict=True):
                if math.dist(last, here) >= _APART:
                    axes.annotate(f"{threshold:.2f}", here, fontsize=7, color="0.35", **beside)
                    last = here
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="recall", ylabel="precision", title="Pairs of names by threshold")
        axes.grid(color="0.9")
        axes.legend(loc="lower left", fontsize=8)


def write_intervals(path: str | PathLike[str], measured: Sequence[Mapping[str, Any]]) -> None:
    """Draw every system of every task as a dot with its interval: the first measure of the task, of its last group.

    ``measured`` is what :func:`medlink.evaluation.suite.compare` gives.

    Raises:
        ConfigError: as :func:`check_plot`, or the file cannot be written.
    """
    check_plot(path)
    panels = []
    for _, rows in groupby(measured, lambda row: row["title"]):
        of_task = list(rows)
        own = [row for row in of_task if row["measure"] == of_task[0]["measure"]]
        panels.append([row for row in own[::-1] if row["group"] == own[-1]["group"]])
    heights = [len(own) + 1 for own in panels] or [1]
    with _drawing(path, 7, 0.6 + 0.32 * sum(heights) + 0.3 * len(heights)) as figure:
        axes = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
        for panel, own in zip(axes, panels, strict=False):
            for at, row in enumerate(own):
                low, value, high = (math.nan if row[name] is None else row[name] for name in ("low", "value", "high"))
                panel.plot([low, value, high], [at] * 3, "-o", color="C0" if row["best"] else "0.45", markevery=[1])
            # matplotlib takes what stands between dollars for a formula
            names = [row["system"].replace("$", r"\$") for row in own]
            title = "{title}: {measure}, {group}".format(**own[0]).replace("$", r"\$")
            panel.set(yticks=range(len(own)), yticklabels=names, ylim=(-0.6, len(own) - 0.4))
            panel.set_title(title, fontsize=9, loc="left")
            panel.set_xlim(min(0, panel.get_xlim()[0]), max(1, panel.get_xlim()[1]))
            panel.tick_params(labelsize=8)
            panel.grid(axis="x", color="0.9")


@contextmanager
def _drawing(path: str | PathLike[str], width: float, height: float) -> Iterator[Any]:
    """A figure that is written when the block ends."""
    with needs_extra("plot", "a picture"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    yield figure
    form = Path(path).suffix.lower()[1:]
    # A date, a version and random ids would make two equal pictures differ.
    with rc_context({"svg.hashsalt": "medlink"}), whole_file(path, "the picture") as file:
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else {"Software": None})
