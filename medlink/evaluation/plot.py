"""Pictures of evaluations: precision against recall, threshold by threshold, and the intervals of several systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medlink.errors import ConfigError, needs_extra
from medlink.evaluation.clustering import Sweep
from medlink.files.whole import check_targets, whole_file

if TYPE_CHECKING:
    from medlink.evaluation.suite import Measured

FORMATS = (".png", ".svg")
_APART = 0.08  # between two points whose threshold stands beside the curve


def check_plot(path: str | PathLike[str]) -> None:
    """Refuse a picture that could not be written in the end, before the long work starts.

    Raises:
        ConfigError: the ending is no known format, the folder is missing, or matplotlib is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ConfigError("unknown format of a picture", path=path, remedy=f"end it in {' or '.join(FORMATS)}")
    check_targets({"the picture": target}, [])
    with needs_extra("plot", "a picture"):
        import matplotlib  # noqa: F401  # only whether it is there


def write_plot(path: str | PathLike[str], sweeps: Mapping[str, Sweep]) -> None:
    """Draw one curve for each evaluation, by label, its best F1 as a dot with the threshold beside it.

    Thresholds at which nothing is predicted have no precision and are left out. Equal input gives an equal file.

    Raises:
        ConfigError: as :func:`check_plot`, or the file cannot be written.
    """
    check_plot(path)
    with needs_extra("plot", "a picture"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for label, found in sweeps.items():
        some = np.flatnonzero(found.tp + found.fp)
        precision, recall, best = found.precision, found.recall, found.best
        (line,) = axes.plot(
            recall[some], precision[some], label=f"{label}: F1 {found.f1[best]:.3f} at {found.thresholds[best]:.2f}"
        )
        axes.plot(recall[best], precision[best], "o", color=line.get_color())
        last = (2.0, 2.0)
        for i in some:
            here = (float(recall[i]), float(precision[i]))
            if math.dist(last, here) >= _APART:
                beside: dict[str, Any] = {"xytext": (-4, -4), "textcoords": "offset points", "ha": "right", "va": "top"}
                axes.annotate(f"{found.thresholds[i]:.2f}", here, fontsize=7, color="0.35", **beside)
                last = here
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="recall", ylabel="precision", title="Pairs of names by threshold")
    axes.grid(color="0.9")
    axes.legend(loc="lower left", fontsize=8)
    _write(path, figure)


def write_intervals(path: str | PathLike[str], measured: Sequence[Measured]) -> None:
    """Draw every system of every task as a dot with its interval: the first measure of the task, of its last group.

    Raises:
        ConfigError: as :func:`check_plot`, or the file cannot be written.
    """
    check_plot(path)
    with needs_extra("plot", "a picture"):
        from matplotlib.figure import Figure

    titles = {one.title: one.measure for one in reversed(measured)}
    panels = []
    for title, measure in reversed(titles.items()):
        own = [one for one in measured if (one.title, one.measure) == (title, measure)]
        panels.append((title, measure, [one for one in own if one.group == own[-1].group]))
    heights = [len(own) + 1 for *_, own in panels] or [1]
    figure = Figure(figsize=(7, 0.6 + 0.32 * sum(heights) + 0.3 * len(heights)), dpi=150, layout="constrained")
    axes = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    for panel, (title, measure, own) in zip(axes, panels, strict=False):
        for row, one in enumerate(reversed(own)):
            found, colour = one.estimate, "C0" if one.best else "0.45"
            panel.plot([found.low, found.high], [row, row], color=colour)
            panel.plot(found.value, row, "o", color=colour)
        panel.set(
            yticks=range(len(own)),
            yticklabels=[_literal(one.system) for one in reversed(own)],
            ylim=(-0.6, len(own) - 0.4),
        )
        panel.set_title(_literal(f"{title}: {measure}, {own[-1].group}"), fontsize=9, loc="left")
        panel.set_xlim(min(0, panel.get_xlim()[0]), max(1, panel.get_xlim()[1]))
        panel.tick_params(labelsize=8)
        panel.grid(axis="x", color="0.9")
    _write(path, figure)


def _literal(text: str) -> str:
    """A text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


def _write(path: str | PathLike[str], figure: Any) -> None:
    with needs_extra("plot", "a picture"):
        from matplotlib import rc_context

    form = Path(path).suffix.lower()[1:]
    # A date, a version and random ids would make two equal pictures differ.
    with rc_context({"svg.hashsalt": "medlink"}), whole_file(path, "the picture") as file:
        figure.savefig(file, format=form, metadata={"Date": None} if form == "svg" else {"Software": None})
