"""What the programs of rival finders share; it runs in their environments, without medlink.

    python find_NAME.py build NAMES FOLDER
    python find_NAME.py find FOLDER LANGUAGE <TEXTS >FOUND

``NAMES`` is a table of ``concept_id``, ``name``, ``semantic_type`` and ``language``; the first name of a concept is its
label. ``TEXTS`` are JSON lines of ``id`` and ``text``. ``FOUND`` has a line for each: ``id``, ``seconds`` of processor
time, and ``found``, lists of start, end, concept id and score. Both commands print a last line of what building or
opening cost: ``about`` (what runs), ``seconds``, and ``memory``, the most that was resident, in MB.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Find = Callable[[str], list[tuple[int, int, str, float]]]
"""The spans of a text with their concepts and scores."""
Name = dict[str, str]
"""A row of the dictionary."""


def serve(about: str, build: Callable[[list[Name], Path], None], opened: Callable[[Path, str], Find]) -> None:
    """Do what the command line asks for.

    Args:
        about: name and version of what runs.
        build: writes the index of names into an empty folder.
        opened: opens such a folder for texts of a language.
    """
    # what a library prints is no answer
    answers, sys.stdout = sys.stdout, sys.stderr
    what, first, second = sys.argv[1:]
    start = time.process_time()
    if what == "build":
        with open(first, encoding="utf-8", newline="") as file:
            build(list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)), Path(second))
        seconds = time.process_time() - start
    else:
        find = opened(Path(first), second)
        seconds = time.process_time() - start
        for text in map(json.loads, sys.stdin):
            start = time.process_time()
            found = find(text["text"])
            answer = {"id": text["id"], "seconds": time.process_time() - start, "found": found}
            print(json.dumps(answer), file=answers)
    # the maximum of getrusage is that of the parent where it was larger
    status = Path("/proc/self/status").read_text("utf-8").splitlines()
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    print(json.dumps({"about": about, "seconds": seconds, "memory": memory}), file=answers)
