"""An evaluation: a group of options (:class:`medlink.settings.Settings`) whose :meth:`Task.run` gives a report."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.errors import ConfigError, needs_extra
from medlink.files.escapes import as_cell
from medlink.files.problems import Problems
from medlink.settings import Settings

if TYPE_CHECKING:
    from medlink.models import Encoder
    from medlink.training import MlteRegressor

    System: TypeAlias = str | Encoder | MlteRegressor

StrPath = str | PathLike[str]
Cell = float | int | str | None
Row = Mapping[str, Cell]
Progress = Callable[[str, int, int], object]
"""Called with the name of a step, how much of it is done, and its whole."""
Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""n texts to ``(n, d)`` float32 unit vectors."""
Item = TypeVar("Item")

_CHUNK = 8192


@dataclass(frozen=True, slots=True)
class Report:
    """What an evaluation found.

    ``head`` says what was measured, in one line. ``table`` has a row of measures for each file, language or kind,
    ``None`` for one that is not defined; ``items`` one for each query, pair or threshold, without texts, which may come
    from notes. ``problems`` are rows of the input that were left out, ``further`` tables of another kind, by title.
    """

    head: str
    table: Sequence[Row]
    items: Sequence[Row] = ()
    problems: Problems = field(default_factory=Problems)
    further: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    def text(self) -> str:
        """The head, and the tables with their columns aligned and three decimals."""
        further = [line for title, rows in self.further.items() if rows for line in ("", title, *_aligned(rows))]
        return "\n".join([self.head, *_aligned(self.table), *further])

    def csv(self) -> str:
        """The first table as CSV, numbers with six digits."""
        return "".join(separated(self.table, ",")).rstrip("\n")

    def json(self) -> str:
        """The report as indented JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: head, tables, how many rows were left out for which reason, and remarks."""
        left_out = dict(sorted((self.problems.bad + self.problems.skipped).items()))
        further = {title: [dict(row) for row in rows] for title, rows in self.further.items()}
        found = {"head": self.head, "table": [dict(row) for row in self.table], "left_out": left_out}
        some = {"further": further, "notes": list(self.problems.notes)}
        return found | {name: value for name, value in some.items() if value}


def _aligned(table: Sequence[Row]) -> Iterator[str]:
    lines = [list(table[0]), *([shown(cell) for cell in row.values()] for row in table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def shown(cell: Cell, digits: str = ".3f", none: str = "-") -> str:
    """A cell as text.

    >>> shown(0.25), shown(None), shown(3)
    ('0.250', '-', '3')
    """
    return none if cell is None else format(cell, digits) if isinstance(cell, float) else str(cell)


def separated(rows: Iterable[Row], separator: str) -> Iterator[str]:
    r"""Lines of a table: TSV of cells as :func:`as_cell` makes them, or CSV with quotes; floats have six digits.

    >>> list(separated([{"name": "=a", "cosine": -1 / 3}], "\t"))
    ['name\tcosine\n', "'=a\t-0.333333\n"]
    """
    quoted = csv.writer(SimpleNamespace(write=str), delimiter=separator, lineterminator="\n").writerow
    for number, row in enumerate(rows):
        cells = [as_cell(cell) if isinstance(cell, str) else shown(cell, ".6g", "") for cell in row.values()]
        for line in ([*row], cells) if not number else (cells,):
            yield "\t".join(line) + "\n" if separator == "\t" else str(quoted(line))


class Run:
    """What a task is given when it runs; readers count in ``problems`` the rows that they leave out.

    ``encoder`` is an encoder, or what :func:`medlink.load_encoder` takes; for tasks on pairs also a regressor of pairs
    (:class:`medlink.MlteRegressor`), or its folder.
    """

    def __init__(self, paths: Sequence[StrPath], encoder: System, progress: Progress | None) -> None:
        self.paths, self.progress, self._encoder = paths, progress, encoder
        self.problems = Problems(adjustable=False)

    @cached_property
    def encode(self) -> Encode:
        """What embeds texts; an encoder that is named is loaded when it is first asked for."""
        from medlink.models import load_encoder

        if self.regressor is not None:
            remedy = "name an encoder, such as the folder 'encoder' in that of the regressor"
            raise ConfigError("a regressor of pairs gives no embeddings, which this task needs", remedy=remedy)
        encoder: Any = self._encoder
        return (load_encoder(encoder) if isinstance(encoder, str) else encoder).encode

    @cached_property
    def regressor(self) -> MlteRegressor | None:
        """The regressor of pairs, where one stands in the place of the encoder."""
        encoder: Any = self._encoder
        if not isinstance(encoder, str):
            return None if hasattr(encoder, "encode") else encoder
        from medlink.training.mlte import is_mlte

        if not is_mlte(encoder):
            return None
        with needs_extra("train", "a regressor of pairs"):
            from medlink.training import MlteRegressor

        return MlteRegressor.load(encoder)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings ``(n, d)`` of one or more texts."""
        return embed(self.encode, texts, self.progress)


class Task(Settings, ABC):
    """Base of all tasks: the fields are the options, the docstring is the help of the command.

    ``inputs`` are names of the files that it reads; one that ends in ``...`` stands for one or more. ``encodes`` says
    whether an encoder is measured, ``itemised`` whether the report has a row for each item.
    """

    inputs: ClassVar[tuple[str, ...]]
    encodes: ClassVar[bool] = True
    itemised: ClassVar[bool] = True

    def run(self, paths: Sequence[StrPath], encoder: System = "builtin", progress: Progress | None = None) -> Report:
        """Read the files, measure, and report; the arguments are those of :class:`Run`.

        Raises:
            MedlinkError: a file cannot be read, or does not fit the task.
        """
        return self.measure(Run(paths, encoder, progress))

    @abstractmethod
    def measure(self, run: Run) -> Report:
        """What a task does; called by :meth:`run`."""


class Sampled(Task):
    """A task that may be run on a part of its items."""

    sample: Annotated[int | None, Field(ge=1, description="Only so many items, drawn at random.")] = None
    seed: Annotated[int, Field(ge=0, description="Seed of the sample.")] = 1

    def drawn(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """The items, or :attr:`sample` of them."""
        return tuple(items) if self.sample is None else draw(items, self.sample, self.seed)


def draw(items: Sequence[Item], count: int, seed: int) -> tuple[Item, ...]:
    """At most so many of the items, one or more, drawn at random without replacement, in their order."""
    if count < 1:
        raise ConfigError(f"a sample of {count}, 1 or more expected")
    rows = np.sort(np.random.default_rng(seed).permutation(len(items))[:count])
    return tuple(items[row] for row in rows.tolist())


def by_language(tags: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """The rows of each language, by tag, and all of them (``"all"``) unless there is only one."""
    given = np.array(tags, dtype=np.str_)
    found = {str(tag): np.flatnonzero(given == tag) for tag in np.unique(given)}
    return found if len(found) == 1 else {**found, "all": np.arange(len(given))}


def step(progress: Progress | None, name: str) -> Callable[[int, int], object] | None:
    """What reports the progress of one step."""
    return None if progress is None else partial(progress, name)


def embed(encode: Encode, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
    """Embed one or more texts some at a time, so that a progress bar moves: ``(n, d)`` float32."""
    if not texts:
        raise ConfigError("no texts to embed", remedy="give one or more")
    first = encode(texts[:_CHUNK])
    # filled in place, since two copies of all vectors may not fit
    vectors = np.empty((len(texts), first.shape[1]), dtype=np.float32)
    for start in range(0, len(texts), _CHUNK):
        vectors[start : start + _CHUNK] = encode(texts[start : start + _CHUNK]) if start else first
        if progress is not None:
            progress("texts embedded", min(start + _CHUNK, len(texts)), len(texts))
    return vectors
