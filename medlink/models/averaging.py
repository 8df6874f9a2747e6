"""Averaging the weights of encoders trained from one start: better than any of them, at the cost of one.

Model soup (Wortsman et al. 2022, section 2, uniform soup), as BioLORD 2023 uses it on its runs. It works because the
runs share their first weights (same ``seed``) and differ in the recipe.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medlink.errors import EncoderError
from medlink.models.static import StaticEncoder, quantise


def average(encoders: Sequence[StaticEncoder]) -> StaticEncoder:
    """Mean of the weights of static encoders, quantised anew.

    Args:
        encoders: at least one; all of one shape.

    Returns:
        An encoder of the same shape.

    Raises:
        EncoderError: there is none, or their shapes differ.
    """
    if not encoders:
        raise EncoderError("no encoders to average")
    first = encoders[0]
    for other in encoders[1:]:
        if other.config != first.config:
            raise EncoderError(
                f"encoders of different shapes cannot be averaged: {first.config} and {other.config}",
                path=other.folder,
                remedy="average runs of one configuration",
            )
    table = np.mean(
        [e.tensors["table"].astype(np.float32) * e.tensors["scale"].astype(np.float32)[:, None] for e in encoders],
        axis=0,
    )
    codes, scale = quantise(table.astype(np.float32))
    others = {
        name: np.mean([e.tensors[name] for e in encoders], axis=0).astype(np.float32)
        for name in first.tensors
        if name not in ("table", "scale")
    }
    return StaticEncoder(first.config, {"table": codes, "scale": scale, **others})
