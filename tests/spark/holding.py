"""What a test sends to executors; a module of its own, as each imports it anew."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def hold_up(flag: str, frames: Iterator[Any]) -> Iterator[Any]:
    """Say which executor has begun a partition, and wait until it was killed; another one does not wait."""
    for frame in frames:
        if frame["id"].min() == 2**60:
            try:
                with Path(flag).open("x", encoding="utf-8") as file:
                    # this process is a child of the daemon of an executor
                    stat = Path(f"/proc/{os.getppid()}/stat").read_text("utf-8")
                    file.write(stat.rpartition(")")[2].split()[1])
            except FileExistsError:
                pass
            else:
                time.sleep(120)
        yield frame
