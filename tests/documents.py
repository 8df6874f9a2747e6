"""The blocks of a document, run as a reader would run them.

    python -m tests.documents README.md

runs every block of a document in an empty folder and writes what it printed behind it: the README after a change of
what medlink prints. ``tests/test_readme.py`` demands that nothing changes.

- A block ``console`` holds commands behind ``$`` and, under each, what it prints.
- A block ``python`` is a script of its own; a block ``text`` right behind it is what it prints.
- A block whose language is followed by a file name is that file.

Times, which differ from run to run, are compared as if they were equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")


def without_times(text: str) -> str:
    """The text with every duration as ``0 s``.

    >>> without_times("wrote kb.sqlite in 1.3 s")
    'wrote kb.sqlite in 0 s'
    """
    return _SECONDS.sub("0 s", text)


def run_blocks(document: str, folder: Path) -> str:
    """The document with what its blocks print now; the parts without blocks stay."""
    parts, end, printed = [], 0, None
    for block in _BLOCK.finditer(document):
        kind, name, body = block.groups()
        between = document[end : block.start()]
        if name:
            (folder / name).write_text(body, encoding="utf-8")
        elif kind == "console":
            commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            body = "".join(f"$ {command}\n{_run(command, folder)}" for command in commands)
        elif kind == "text" and printed is not None and not between.strip():
            body = printed
        printed = None
        if kind == "python" and not name:
            (folder / "example.py").write_text(body, encoding="utf-8")
            printed = _run(f'"{sys.executable}" example.py', folder)
        parts += [between, f"```{kind}{' ' + name if name else ''}\n{body}```"]
        end = block.end()
    return "".join([*parts, document[end:]])


def _run(command: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    # a pipe that "head" closed is no failure of the command
    if done.returncode not in (0, 120, 141):
        raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> None:
    """Run the blocks of the documents that the command line names, and fill in what they print."""
    for name in sys.argv[1:]:
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            filled = run_blocks(path.read_text("utf-8"), Path(folder))
        path.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
