"""A training run that the system kills in its seventh step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import torch

import medlink

_KILL = """
import os, signal, sys

def kill(line):
    if line.startswith("step 7/"):
        os.kill(os.getpid(), signal.SIGKILL)

"""


def killed(script: str, start: Path, out: Path) -> None:
    """Run a script that trains into its second argument from its first one, with ``kill`` as progress."""
    done = subprocess.run(
        [sys.executable, "-c", _KILL + script, str(start), str(out)],
        cwd=Path(medlink.__file__).parents[1],
        check=False,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
