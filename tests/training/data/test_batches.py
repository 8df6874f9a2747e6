"""Which rows of a batch share a key, against sets."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.training.data.batches import shared_keys


@pytest.mark.parametrize("size", [1, 4, 12])
def test_shared_keys_against_sets(size: int) -> None:
    rng = np.random.default_rng(size)
    rows, keys = rng.integers(0, 12, 40), rng.integers(-5, 30, 40)
    masks = list(shared_keys(rows, keys, size, 12 // size))
    assert len(masks) == 12 // size
    of_row = [set(keys[rows == row].tolist()) for row in range(12)]
    for batch, mask in enumerate(masks):
        own = of_row[batch * size : (batch + 1) * size]
        expected = [[i == j or bool(a & b) for j, b in enumerate(own)] for i, a in enumerate(own)]
        np.testing.assert_array_equal(mask, expected)
