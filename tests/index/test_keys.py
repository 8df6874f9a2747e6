"""Keys mean the same in both parts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from medlink.index.keys import Numbering, keys_among


@settings(deadline=None)
@given(st.sets(st.text(max_size=3), max_size=9), st.sets(st.text(max_size=3), max_size=9))
def test_equal_keys_are_the_same_thing_and_sort_alike(main: set[str], added: set[str]) -> None:
    there, later = sorted(main), sorted(added)
    keys = keys_among(later, there)
    by_key = {**dict(enumerate(there)), **dict(zip(keys.tolist(), later, strict=True))}
    assert sorted(by_key.items()) == list(zip(sorted(by_key), sorted(main | added), strict=True))
    part = Numbering(len(later), keys)
    assert part.new == len(added - main)
    assert part.numbers(keys).tolist() == list(range(len(later)))
    assert part.keys(np.arange(len(later))).tolist() == [part.key(i) for i in range(len(later))] == keys.tolist()
    own = Numbering(len(there))
    assert own.numbers(keys).tolist() == [there.index(one) if one in main else -1 for one in later]
    assert part.numbers(np.arange(len(there), dtype=float)).tolist() == [
        later.index(one) if one in added else -1 for one in there
    ]
