"""Averaging the weights of encoders."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.errors import EncoderError
from medlink.models import StaticConfig
from medlink.models.averaging import average
from tests.models.test_static import random_encoder


def test_the_mean_by_hand() -> None:
    one, other = random_encoder(seed=1), random_encoder(seed=2)
    mean = average([one, other])
    tables = [e.tensors["table"] * e.tensors["scale"][:, None] for e in (one, other, mean)]
    step = mean.tensors["scale"].max()
    assert np.abs(tables[2] - (tables[0] + tables[1]) / 2).max() <= step / 2 + 1e-6
    np.testing.assert_allclose(
        mean.tensors["up.bias"], (one.tensors["up.bias"] + other.tensors["up.bias"]) / 2, rtol=1e-6
    )


def test_one_alone_is_itself() -> None:
    one = random_encoder()
    assert average([one]).fingerprint == one.fingerprint


def test_what_does_not_match_is_refused() -> None:
    with pytest.raises(EncoderError, match="different shapes"):
        average([random_encoder(), random_encoder(StaticConfig(rows=50, dimension=6, hidden=5))])
    with pytest.raises(EncoderError, match="no encoders"):
        average([])
