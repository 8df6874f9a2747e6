"""The harness tells processes that hang from killed ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from . import children


@pytest.mark.faults
def test_a_process_that_hangs_is_told_from_a_killed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LIMIT", 2.0)
    hung = children.call(tmp_path, time.sleep, 60)
    assert (hung.hung, hung.signal) == (True, 9)
    assert hung.crashed == "not done within 2 s"
    killed = children.call(tmp_path, time.sleep, 60, kill_after=0.1)
    assert (killed.hung, killed.crashed) == (False, "signal 9")
