"""A reliability diagram as SVG: the share of right links against their score, in ten bins of one width.

``accuracy.py --scores --diagram FILE`` draws it. A curve on the diagonal is calibrated; below it, scores are
too high.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS = 10
_SIDE, _LEFT, _TOP, _RIGHT, _BOTTOM = 320, 56, 16, 170, 48  # pixels: the square of the axes, and what is around it
_COLOURS = ("#00695c", "#c2410c", "#4338ca", "#7c2d12")


class Bin(NamedTuple):
    """The items of one bin: their mean score, the share of them that is right, and their number."""

    score: float
    right: float
    items: int


def bins(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> list[Bin]:
    """The bins that hold items; ``scores (n,)`` from 0 to 1, ``right (n,)``.

    >>> bins(np.array([0.9, 0.98, 0.21]), np.array([True, False, True]))
    [Bin(score=0.21, right=1.0, items=1), Bin(score=0.94, right=0.5, items=2)]
    """
    number = np.minimum((scores * BINS).astype(int), BINS - 1)
    return [
        Bin(float(scores[number == at].mean()), float(right[number == at].mean()), int((number == at).sum()))
        for at in range(BINS)
        if (number == at).any()
    ]


def draw(curves: Mapping[str, list[Bin]]) -> str:
    """The diagram of curves by their titles; the area of a point is in proportion to its items."""
    width, height = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Share of right links against their score</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_axes(),
    ]
    most = max((one.items for curve in curves.values() for one in curve), default=1)
    for at, (title, curve) in enumerate(curves.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        points = " ".join(f"{_x(one.score):.1f},{_y(one.right):.1f}" for one in curve)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for one in curve:
            radius = 2 + 8 * (one.items / most) ** 0.5
            lines.append(
                f'<circle cx="{_x(one.score):.1f}" cy="{_y(one.right):.1f}" r="{radius:.1f}" fill="{colour}" '
                f'fill-opacity="0.55"><title>{title}: {one.items} mentions, mean score {one.score:.2f}, '
                f"{one.right:.2f} right</title></circle>"
            )
        top, left = _TOP + 16 + 22 * at, _LEFT + _SIDE + 16
        items = sum(one.items for one in curve)
        lines.append(f'<circle cx="{left}" cy="{top - 4}" r="5" fill="{colour}"/>')
        lines.append(f'<text x="{left + 12}" y="{top}">{title}, {items:,} mentions</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(score: float) -> float:
    return _LEFT + _SIDE * score


def _y(share: float) -> float:
    return _TOP + _SIDE * (1 - share)


def _axes() -> Iterator[str]:
    for tick in np.linspace(0, 1, 6):
        x, y, ends = _x(tick), _y(tick), (_x(0), _y(0), _x(1), _y(1))
        yield f'<path d="M{x:.1f} {ends[1]}V{ends[3]}M{ends[0]} {y:.1f}H{ends[2]}" stroke="#e0e0e0"/>'
        yield f'<text x="{x:.1f}" y="{ends[1] + 18}" text-anchor="middle">{tick:.1f}</text>'
        yield f'<text x="{ends[0] - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.1f}</text>'
    yield f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#757575" stroke-dasharray="5 4"/>'
    yield f'<text x="{_x(0.5)}" y="{_y(0) + 38}" text-anchor="middle">score of the best candidate</text>'
    middle = _y(0.5)
    yield f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">share right</text>'
