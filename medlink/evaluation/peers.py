"""Programs of others, each in an environment of its own: they read two tables and print ranked ids.

    COMMAND DICTIONARY QUERIES

``DICTIONARY`` is a TSV of ``concept_id``, ``name`` and ``language``, ``QUERIES`` one of ``query`` (a number),
``mention`` and ``language``, both with a header and without quoting. For each query the program prints a line: its
number and ids as the dictionary has them, best first, with tabs between. What it prints on standard error is shown as
it comes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from pydantic import Field

from medlink.errors import ConfigError, InputError
from medlink.evaluation.names import Dictionary, plain
from medlink.evaluation.retrieval import Answer, Query
from medlink.settings import Settings


class Peer(Settings):
    """A program that ranks concepts for mentions; it stands in the place of an encoder.

    ``command`` are its words, which the paths of the two tables follow; after ``limit`` seconds it is ended, with all
    that it has started. ``name`` is what errors call it, ``folder`` where it runs if not in the current one.
    """

    command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    limit: Annotated[float, Field(gt=0, strict=False)] = 3600.0
    name: str = ""
    folder: Path | None = None

    def answers(self, dictionary: Dictionary, queries: Sequence[Query], depth: int) -> list[Answer]:
        """What it ranks for queries, as :func:`medlink.evaluation.retrieval.retrieve` gives it; it has no cosines.

        Raises:
            ConfigError: it cannot be started, ends with an error, or is not ready in time.
            InputError: what it prints is not one line for each query.
        """
        ranked = iter(self.rank(dictionary, [(part, query.language) for query in queries for part in query.parts]))
        rows, known = {"|".join(ids): row for row, ids in enumerate(dictionary.concepts)}, dictionary.by_id()
        found = []
        for query in queries:
            lists = [list(dict.fromkeys(rows[one] for one in next(ranked) if one in rows)) for _ in query.parts]
            right = {row for one in query.gold for row in known.get(one, ())}
            ranks = [next((at for at, row in enumerate(one[:depth], 1) if row in right), 0) for one in lists]
            first = tuple(dictionary.concepts[one[0]] if one else () for one in lists)
            found.append(Answer(query, bool(right), max(ranks) if all(ranks) else 0, first, float("nan")))
        return found

    def rank(self, dictionary: Dictionary, asked: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The ids that it ranks for mentions with their languages; raises as :meth:`answers` does."""
        languages = dictionary.languages or [("",)] * len(dictionary)
        entries = (
            ("|".join(dictionary.concepts[row]), text, tag)
            for text, own, tags in zip(dictionary.texts, dictionary.owners, languages, strict=True)
            for row in own
            for tag in tags or ("",)
        )
        mentions = ((str(number), plain(text), tag) for number, (text, tag) in enumerate(asked))
        with TemporaryDirectory(prefix="medlink-peer-") as folder:
            names, queries, out = (Path(folder) / name for name in ("dictionary.tsv", "queries.tsv", "ranked.tsv"))
            _write(names, ("concept_id", "name", "language"), entries)
            _write(queries, ("query", "mention", "language"), mentions)
            self._run([*self.command, str(names), str(queries)], out)
            lines = [line.split("\t") for line in out.read_text("utf-8", errors="replace").splitlines()]
        found = {number: [one for one in ids if one] for number, *ids in lines}
        if found.keys() != set(map(str, range(len(asked)))):
            message = f"the peer {self.name!r} printed {len(found)} lines that are not those of {len(asked)} queries"
            remedy = "have it print a line for each: its number, then ids, with tabs between"
            raise InputError(message, remedy=remedy)
        return [found[str(number)] for number in range(len(asked))]

    def _run(self, command: Sequence[str], out: Path) -> None:
        """Run the program in a session of its own, so that what it started ends with it."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with open(out, "wb") as file:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, cwd=self.folder, env=own, start_new_session=True
                )
            except OSError as error:
                message = f"the peer {self.name!r} cannot be started: {error.strerror}"
                remedy = "name a program that is there, or leave the peer out"
                raise ConfigError(message, path=command[0], remedy=remedy) from error
            try:
                code = process.wait(self.limit)
            except subprocess.TimeoutExpired as error:
                message = f"the peer {self.name!r} was not ready in {self.limit:g} s"
                raise ConfigError(message, remedy="give it more seconds with 'limit', or leave it out") from error
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            remedy = "run its command by hand, or leave it out"
            raise ConfigError(f"the peer {self.name!r} ended with code {code}", remedy=remedy)


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(row) + "\n" for row in (header, *rows))
