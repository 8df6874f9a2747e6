"""Rival finders on the texts and names that medlink gets, each in an environment of its own (``peers/install.sh``).

Beside the environments is kept what each rival built and found, by its program, its installed packages, names and
texts: a second run with the same of all asks nobody. ``peers/protocol.py`` says how they are spoken to.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from annotated import labels, phenotypes
from open_data import hpo_dictionary

from medlink.evaluation.notes import GoldText

PROGRAMS = Path(__file__).resolve().parent / "peers"
LANGUAGES = {"quickumls": ("de", "es", "en"), "tfidf": ("de", "es", "en"), "fasthpocr": ("en",)}
"""The languages that each rival reads."""
_LIMIT = 7200  # seconds that a rival may take

Span = tuple[int, int, str, float]


class RivalError(Exception):
    """Why a rival has no row."""


class Passed(NamedTuple):
    """What a rival found, text by text, and what it cost: name, seconds of its processor, most memory in MB."""

    found: list[list[Span]]
    about: str
    seconds: float
    memory: float

    @classmethod
    def read(cls, answers: str, ids: list[str]) -> Passed:
        """The answers of ``peers/protocol.py`` on texts of these ids; seconds are of the texts, if there are any."""
        try:
            *lines, cost = map(json.loads, answers.splitlines())
            if [line["id"] for line in lines] != ids:
                raise RivalError("its answers are not those of the texts")
            found = [[(int(a), int(b), str(id_), float(score)) for a, b, id_, score in line["found"]] for line in lines]
            seconds = sum(float(line["seconds"]) for line in lines) if ids else float(cost["seconds"])
            return cls(found, str(cost["about"]), seconds, float(cost["memory"]))
        except (KeyError, TypeError, ValueError) as error:
            raise RivalError("its answers are no JSON lines of spans") from error


def write_names(path: Path) -> Path:
    """All names of HPO, as medlink gets them, for the rivals: the English label of a concept is its first name."""
    first = labels()
    rows = {(concept, " ".join(name.split()), language) for concept, name, language in hpo_dictionary()}
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        table.writerow(("concept_id", "name", "semantic_type", "language"))
        for row in sorted(rows, key=lambda row: (row[0], row[2] != "en" or first.get(row[0]) != row[1], row)):
            table.writerow((*row[:2], "phenotype" if row[0] in phenotypes() else "", row[2]))
    return path


class Rival:
    """A rival whose environment is ``folder/NAME``; ``limit`` is the seconds that it may take."""

    def __init__(self, name: str, folder: Path, names: Path, *, limit: float = _LIMIT) -> None:
        self._names, self._limit = names, limit
        self._home, self._program, self._cache = folder / name, PROGRAMS / f"find_{name}.py", folder / "kept"

    @cached_property
    def folder(self) -> Path:
        """Where its index and answers are kept, by its program with what it imports, its packages and the names."""
        program = self._program.read_text("utf-8")
        used = [path.read_bytes() for path in sorted(PROGRAMS.glob("*.py")) if path.stem in program]
        packages = sorted(path.name for path in self._home.glob("lib/python*/site-packages/*.dist-info"))
        parts = [program.encode(), *used, "\n".join(packages).encode(), self._names.read_bytes()]
        return self._cache / f"{self._home.name}-{_key(parts)}"

    def built(self) -> Passed:
        """What its index cost, which is built where it is missing."""
        cost, index = self.folder / "cost.jsonl", self.folder / "index"
        if not cost.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            index.mkdir(parents=True)
        return self._answers(cost, ["build", self._names, index], "", [])

    def find(self, texts: Sequence[GoldText]) -> tuple[Passed, str]:
        """What it finds in texts of one language, and the day of that run if it was kept.

        Raises:
            RivalError: it is not installed, ends with an error or too late, or answers what is no answer.
        """
        if not (self._home / "bin/python").exists():
            raise RivalError("it is not installed; benchmarks/peers/install.sh does it")
        self.built()
        request = "".join(json.dumps({"id": text.name, "text": text.text}) + "\n" for text in texts)
        language = texts[0].language
        path = self.folder / f"{language}-{_key([request.encode()])}.jsonl"
        day = str(datetime.date.fromtimestamp(path.stat().st_mtime)) if path.exists() else ""
        arguments = ["find", self.folder / "index", language]
        return self._answers(path, arguments, request, [text.name for text in texts]), day

    def _answers(self, path: Path, arguments: Sequence[object], request: str, ids: list[str]) -> Passed:
        """The answers that a file keeps, or those of a run, which the file then keeps if they are good."""
        if path.exists():
            return Passed.read(path.read_text("utf-8"), ids)
        answers = self._run([str(one) for one in arguments], request)
        passed = Passed.read(answers, ids)
        part = path.with_suffix(".part")
        part.write_text(answers, encoding="utf-8")
        part.replace(path)
        return passed

    def _run(self, arguments: Sequence[str], request: str) -> str:
        """Standard output of its program."""
        command = [str(self._home / "bin/python"), str(self._program), *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        environment.pop("PYTHONPATH", None)
        errors = self.folder / "errors.txt"
        with open(errors, "w", encoding="utf-8") as file:
            try:
                pipes = {"stdout": subprocess.PIPE, "stderr": file, "env": environment, "encoding": "utf-8"}
                done = subprocess.run(command, check=True, input=request, timeout=self._limit, **pipes)
            except subprocess.TimeoutExpired as error:
                raise RivalError(f"it was not ready in {self._limit:.0f} s") from error
            except subprocess.CalledProcessError as error:
                where = errors.relative_to(self._home.parent)
                raise RivalError(f"it ended with code {error.returncode}; see {where} beside it") from error
        return done.stdout


def _key(parts: Iterable[bytes]) -> str:
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()[:16]
