"""Base classes of evaluation tasks, and their reports."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError, needs_extra
from medlink.files.escapes import escape_cell
from medlink.files.problems import Problems
from medlink.settings import Settings, option

if TYPE_CHECKING:
    from medlink.models import Encoder
    from medlink.training import MlteRegressor

    System: TypeAlias = str | Encoder | MlteRegressor

StrPath = str | PathLike[str]
Cell = float | int | str | None
Row = Mapping[str, Cell]
Progress = Callable[[str, int, int], object]
"""Called with the name of a step, the amount done, and the total."""
Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""n texts to ``(n, d)`` float32 unit vectors."""
Item = TypeVar("Item")
_CHUNK = 8192  # texts


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an evaluation.

    Attributes:
        head: the data in one line.
        table: measures of each file, language or kind; ``None`` is an undefined measure.
        items: a row for each query, pair or threshold, without texts, which may come from notes.
        problems: rows of the input that were left out.
        further: other tables by title.
    """

    head: str
    table: Sequence[Row]
    items: Sequence[Row] = ()
    problems: Problems = field(default_factory=Problems)
    further: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    def text(self) -> str:
        """Format head and tables as text, with three decimals."""
        further = [line for title, rows in self.further.items() if rows for line in ("", title, *_aligned(rows))]
        return "\n".join([self.head, *_aligned(self.table), *further])

    def csv(self) -> str:
        """Format the first table as CSV, with six digits."""
        return "".join(format_rows(self.table, ",")).rstrip("\n")

    def json(self) -> str:
        """Format the report as indented JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_dict(self) -> dict[str, Any]:
        left_out = dict(sorted((self.problems.bad + self.problems.skipped).items()))
        data = {"head": self.head, "table": self.table, "left_out": left_out}
        some = {"further": self.further, "notes": list(self.problems.notes)}
        return data | {name: value for name, value in some.items() if value}


def _aligned(table: Sequence[Row]) -> Iterator[str]:
    lines = [list(table[0]), *([format_cell(cell) for cell in row.values()] for row in table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def format_cell(cell: Cell, digits: str = ".3f", none: str = "-") -> str:
    """Format a cell of a report.

    >>> format_cell(0.25), format_cell(None), format_cell(3)
    ('0.250', '-', '3')
    """
    return none if cell is None else format(cell, digits) if isinstance(cell, float) else str(cell)


def format_rows(rows: Sequence[Row], separator: str) -> Iterator[str]:
    r"""Format a table as lines of TSV, without quotes, or CSV; floats have six digits.

    The columns are those of all rows, in the order of their first occurrence.

    >>> list(format_rows([{"name": "=a", "cosine": -1 / 3}], "\t"))
    ['name\tcosine\n', "'=a\t-0.333333\n"]
    """
    quoted = csv.writer(SimpleNamespace(write=str), delimiter=separator, lineterminator="\n").writerow
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for number, row in enumerate(rows):
        cells = [row.get(column) for column in columns]
        texts = [escape_cell(cell) if isinstance(cell, str) else format_cell(cell, ".6g", "") for cell in cells]
        for line in (columns, texts) if not number else (texts,):
            yield "\t".join(line) + "\n" if separator == "\t" else str(quoted(line))


class Run:
    """Inputs of a task while it runs; ``problems`` counts the rows that readers leave out.

    ``encoder`` is an encoder or an argument of :func:`medlink.load_encoder`; tasks on pairs also take a
    :class:`medlink.MlteRegressor` or its folder.
    """

    def __init__(self, paths: Sequence[StrPath], encoder: System, progress: Progress | None) -> None:
        self.paths, self.progress, self._encoder = paths, progress, encoder
        self.problems = Problems(adjustable=False)

    @cached_property
    def encode(self) -> Encode:
        """The encoder as a function, loaded when it is first used."""
        from medlink.models import load_encoder

        if self.regressor is not None:
            remedy = "name an encoder, such as the folder 'encoder' in that of the regressor"
            raise ConfigError("a regressor of pairs gives no embeddings, which this task needs", remedy=remedy)
        encoder: Any = self._encoder
        return (load_encoder(encoder) if isinstance(encoder, str) else encoder).encode

    @cached_property
    def regressor(self) -> MlteRegressor | None:
        """The regressor of pairs, if given instead of an encoder."""
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
        return embed(self.encode, texts, self.progress)


class Task(Settings, ABC):
    """Base of all tasks: the fields are the options, the docstring is the help of the command.

    ``inputs`` names the input files; a name that ends in ``...`` stands for one or more.
    """

    inputs: ClassVar[tuple[str, ...]]
    needs_encoder: ClassVar[bool] = True
    has_items: ClassVar[bool] = True

    def run(self, paths: Sequence[StrPath], encoder: System = "builtin", progress: Progress | None = None) -> Report:
        """Read the files, measure, and report, see :class:`Run`; MedlinkError if a file does not fit the task."""
        return self.measure(Run(paths, encoder, progress))

    @abstractmethod
    def measure(self, run: Run) -> Report: ...


class Sampled(Task):
    """A task that can be run on a sample of its items."""

    sample: int | None = option(None, "Number of items, drawn at random.", ge=1)
    seed: int = option(1, "Seed of the sample.", ge=0)

    def draw_sample(self, items: Sequence[Item]) -> tuple[Item, ...]:
        return tuple(items) if self.sample is None else draw_sample(items, self.sample, self.seed)


def draw_sample(items: Sequence[Item], count: int, seed: int) -> tuple[Item, ...]:
    """Draw at most ``count`` items at random without replacement; keep their order."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(items))[:count])
    return tuple(items[row] for row in rows.tolist())


def by_language(tags: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Group rows by language tag, with all rows as ``"all"`` if there are several languages."""
    given = np.array(tags, dtype=np.str_)
    rows = {str(tag): np.flatnonzero(given == tag) for tag in np.unique(given)}
    return rows if len(rows) == 1 else {**rows, "all": np.arange(len(given))}


def step(progress: Progress | None, name: str) -> Callable[[int, int], object] | None:
    return None if progress is None else partial(progress, name)


def embed(encode: Encode, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
    """Embed texts in chunks: ``(n, d)`` float32."""
    if not texts:
        raise ConfigError("no texts to embed", remedy="give one or more")
    for start in range(0, len(texts), _CHUNK):
        chunk = encode(texts[start : start + _CHUNK])
        if not start:  # filled in place: memory may not hold two copies of all vectors
            vectors = np.empty((len(texts), chunk.shape[1]), dtype=np.float32)
        vectors[start : start + _CHUNK] = chunk
        if progress is not None:
            progress("texts embedded", min(start + _CHUNK, len(texts)), len(texts))
    return vectors
