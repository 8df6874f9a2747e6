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

from medlink.errors import ConfigError, InputError
from medlink.evaluation.names import Dictionary, Ids, plain
from medlink.evaluation.retrieval import Answer, Query

LIMIT = 3600.0
"""Seconds that a peer may take when nothing else is said."""


class Peer:
    """A program that ranks concepts for mentions; it stands in the place of an encoder.

    Args:
        name: what it is called in errors.
        command: its words; the paths of the two tables follow.
        limit: seconds after which it is ended, with all that it has started.
        folder: where it runs; the current folder when left out.
    """

    def __init__(self, name: str, command: Sequence[str], *, limit: float = LIMIT, folder: Path | None = None) -> None:
        self.name, self.command, self._limit, self._folder = name, list(command), limit, folder

    def answers(self, dictionary: Dictionary, queries: Sequence[Query], depth: int) -> list[Answer]:
        """What it ranks for queries, as :func:`medlink.evaluation.retrieval.retrieve` gives it; it has no cosines.

        Raises:
            ConfigError: it cannot be started, ends with an error, or is not ready in time.
            InputError: what it prints is not one line for each query.
        """
        asked = [(part, query.language) for query in queries for part in query.parts]
        ranked = iter(self.rank(dictionary, asked))
        numbers = {"|".join(ids): ids for ids in dictionary.concepts}
        by_id = dict[str, set[Ids]]()
        for ids in dictionary.concepts:
            for one in ids:
                by_id.setdefault(one, set()).add(ids)
        found = []
        for query in queries:
            lists = [list(dict.fromkeys(numbers[one] for one in next(ranked) if one in numbers)) for _ in query.parts]
            right = {ids for one in query.gold for ids in by_id.get(one, ())}
            ranks = [next((at for at, ids in enumerate(one[:depth], 1) if ids in right), 0) for one in lists]
            first = tuple(one[0] if one else () for one in lists)
            found.append(Answer(query, bool(right), max(ranks) if all(ranks) else 0, first, float("nan")))
        return found

    def rank(self, dictionary: Dictionary, asked: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The ids that it ranks for mentions with their languages; raises as :meth:`answers` does."""
        with TemporaryDirectory(prefix="medlink-peer-") as folder:
            names, queries, out = (Path(folder) / name for name in ("dictionary.tsv", "queries.tsv", "ranked.tsv"))
            concepts = (
                ("|".join(ids) for ids in map(dictionary.concepts.__getitem__, own)) for own in dictionary.owners
            )
            languages = dictionary.languages or [("",)] * len(dictionary)
            rows = zip(dictionary.texts, concepts, languages, strict=True)
            entries = ((one, text, tag) for text, ids, tags in rows for one in ids for tag in tags or ("",))
            _write(names, ("concept_id", "name", "language"), entries)
            mentions = ((str(number), plain(text), tag) for number, (text, tag) in enumerate(asked))
            _write(queries, ("query", "mention", "language"), mentions)
            self._run([*self.command, str(names), str(queries)], out)
            return self._read(out, len(asked))

    def _run(self, command: Sequence[str], out: Path) -> None:
        """Run the program in a session of its own, so that what it started ends with it."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with open(out, "wb") as file:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    cwd=self._folder,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                remedy = "name a program that is there, or leave the peer out"
                message = f"the peer {self.name!r} cannot be started: {error.strerror}"
                raise ConfigError(message, path=command[0], remedy=remedy) from error
            try:
                code = process.wait(self._limit)
            except subprocess.TimeoutExpired as error:
                remedy = "give it more seconds with 'limit', or leave it out"
                raise ConfigError(
                    f"the peer {self.name!r} was not ready in {self._limit:g} s", remedy=remedy
                ) from error
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            remedy = "run its command by hand, or leave it out"
            raise ConfigError(f"the peer {self.name!r} ended with code {code}", remedy=remedy)

    def _read(self, out: Path, count: int) -> list[list[str]]:
        """What it printed, by query."""
        found = dict[str, list[str]]()
        for line in out.read_text("utf-8", errors="replace").splitlines():
            number, *ids = line.split("\t")
            found[number] = [one for one in ids if one]
        if found.keys() != set(map(str, range(count))):
            remedy = "have it print a line for each: its number, then ids, with tabs between"
            message = f"the peer {self.name!r} printed {len(found)} lines that are not those of {count} queries"
            raise InputError(message, remedy=remedy)
        return [found[str(number)] for number in range(count)]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(row) + "\n" for row in (header, *rows))
