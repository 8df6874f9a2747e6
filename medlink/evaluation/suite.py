"""A set of tasks over encoders, bundles and peers, as a TOML file names them: what fails is noted, the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.errors import ConfigError, MedlinkError
from medlink.evaluation import TASKS
from medlink.evaluation.linking import LinkingTask
from medlink.evaluation.peers import Peer
from medlink.evaluation.resampling import RESAMPLES, chance
from medlink.evaluation.task import Progress, Report, Row, Task
from medlink.files.toml import read_toml
from medlink.models.encoders import parted
from medlink.settings import Settings

if TYPE_CHECKING:
    from medlink.models import Encoder

KINDS = ("bundles", "encoders", "peers")
_REMEMBERED = 500_000  # texts whose embeddings are kept for each encoder, less than 1 GB each at 384 dimensions
FILES = "files"
"""Kind of what a task measures that reads nothing but files."""


class Entry(Settings):
    """A task on some files: with which options, and on which systems (all that fit when none is named)."""

    task: str
    title: str = ""
    inputs: Annotated[tuple[str, ...], Field(strict=False)]
    options: Annotated[dict[str, Any], Field(default_factory=dict)]
    systems: Annotated[tuple[str, ...], Field(strict=False)] = ()


class Suite(Settings):
    """What an evaluation file says; ``path`` is that file, beside which its files lie."""

    path: Path
    seed: Annotated[int, Field(ge=0)] = 1
    resamples: Annotated[int, Field(ge=1, le=1_000_000)] = RESAMPLES
    encoders: Annotated[dict[str, str], Field(default_factory=dict)]
    bundles: Annotated[dict[str, str], Field(default_factory=dict)]
    peers: Annotated[dict[str, Peer], Field(default_factory=dict)]
    tasks: Annotated[tuple[Entry, ...], Field(strict=False, min_length=1)]

    def place(self, name: str) -> str:
        """A file or folder beside the evaluation file; what is none there stays as it is."""
        beside = self.path.parent / name
        return str(beside) if beside.exists() else name

    def encoder(self, name: str) -> str:
        """What :func:`load_encoder` is to open for an encoder: its folder may lie beside the evaluation file."""
        given = self.encoders[name]
        bare = parted(given)[1]
        return f"{given.removesuffix(bare)}{self.place(bare)}"

    def task(self, entry: Entry) -> Task:
        """The task of an entry, with the seed and the resamples of all."""
        kind = TASKS[entry.task]
        shared: dict[str, Any] = {
            name: getattr(self, name) for name in ("seed", "resamples") if name in kind.model_fields
        }
        return kind(**{**shared, **entry.options})

    def systems(self, entry: Entry) -> list[tuple[str, str]]:
        """Kind and name of what an entry measures."""
        fit, named = TASKS[entry.task].systems, entry.systems
        found = [(kind, name) for kind in fit for name in getattr(self, kind) if name in named or not named]
        return found if fit else [(FILES, "-")]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task found of a system, or why it failed (``error``), and the seconds that it took."""

    entry: Entry
    kind: str
    system: str
    report: Report | None
    error: str
    seconds: float


def read_suite(path: str | Path) -> Suite:
    """Read an evaluation file, which ``docs/evaluation.md`` describes.

    Raises:
        InputError: it cannot be read, or is not TOML.
        ConfigError: something is missing, unknown or of the wrong kind, or a system has the name of another.
    """
    path = Path(path).absolute()
    try:
        suite = Suite(**{**read_toml(path), "path": path})
        titled = (one.replace(title=one.title or " ".join((one.task, *one.inputs))) for one in suite.tasks)
        suite = suite.replace(tasks=tuple(titled))
        _check(suite)
    except ConfigError as error:
        raise ConfigError(error.message, path=error.path or path, remedy=error.remedy) from error
    return suite


def _check(suite: Suite) -> None:
    """Refuse what cannot be run, before the long work starts."""
    names = [name for kind in KINDS for name in getattr(suite, kind)]
    titles = [entry.title for entry in suite.tasks]
    for what, given in (("system", names), ("title", titles)):
        if twice := next((one for at, one in enumerate(given) if one in given[:at]), None):
            raise ConfigError(f"the {what} {twice!r} is there twice", remedy="give each its own name")
    for entry in suite.tasks:
        if entry.task not in TASKS:
            raise ConfigError(f"unknown task {entry.task!r}", remedy=f"one of {', '.join(TASKS)}")
        if unknown := sorted(set(entry.systems) - set(names)):
            raise ConfigError(f"{entry.title}: unknown system {unknown[0]!r}", remedy=f"one of {', '.join(names)}")
        suite.task(entry)
        kind = TASKS[entry.task]
        if not suite.systems(entry):
            raise ConfigError(f"{entry.title}: no system fits", remedy=f"name some of {', '.join(kind.systems)}")
        wanted = kind.inputs[1:] if "bundles" in kind.systems else kind.inputs
        more = wanted[-1].endswith("...") and len(entry.inputs) > len(wanted)
        if len(entry.inputs) != len(wanted) and not more:
            remedy = f"give {' and '.join(wanted)}"
            raise ConfigError(f"{entry.title}: {len(entry.inputs)} inputs", remedy=remedy)


def run_suite(
    suite: Suite, progress: Progress | None = None, say: Callable[[str], object] = lambda _: None
) -> list[Outcome]:
    """Run every task on every system that fits; ``say`` is called with a line for each."""
    loaded, outcomes = dict[str, Any](), list[Outcome]()
    for entry in suite.tasks:
        for kind, name in suite.systems(entry):
            start, report, error = time.perf_counter(), None, ""
            try:
                report = _run(suite, entry, kind, name, loaded, progress)
            except MedlinkError as refused:
                error = str(refused)
            except Exception as failed:  # whatever a library or a damaged file does to one, the others are measured
                # its words may be those of a note
                error = f"{type(failed).__name__}; 'medlink evaluate {entry.task}' alone shows where"
            outcomes.append(Outcome(entry, kind, name, report, error, time.perf_counter() - start))
            say(f"{entry.title}, {name}: {error or f'{outcomes[-1].seconds:.1f} s'}")
    return outcomes


def _run(suite: Suite, entry: Entry, kind: str, name: str, loaded: dict[str, Any], progress: Progress | None) -> Report:
    task, inputs = suite.task(entry), [suite.place(one) for one in entry.inputs]
    if kind == FILES:
        return task.run(inputs, progress=progress)
    if kind == "bundles":
        return task.run([suite.place(suite.bundles[name]), *inputs], progress=progress)
    if isinstance(task, LinkingTask):
        own = [one for of, one in suite.systems(entry) if of == "bundles"] or list(suite.bundles)
        if not own:
            remedy = "name a bundle, whose names are looked up"
            raise ConfigError("linking needs a bundle", path=suite.path, remedy=remedy)
        inputs, task = [suite.place(suite.bundles[own[0]]), *inputs], task.by_name()
    if name not in loaded:
        loaded[name] = _system(suite, kind, name)
    return task.run(inputs, loaded[name], progress)


def _system(suite: Suite, kind: str, name: str) -> Any:
    from medlink.models import load_encoder
    from medlink.training.mlte import is_mlte

    if kind == "peers":
        return suite.peers[name].replace(name=name, folder=suite.path.parent)
    given = suite.encoder(name)
    return given if is_mlte(given) else _Remembering(load_encoder(given))


class _Remembering:
    """An encoder that embeds a text once: several tasks look among the names of one dictionary."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._known = encoder, dict[str, NDArray[np.float32]]()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def compare(suite: Suite, outcomes: Sequence[Outcome]) -> list[Row]:
    """Every measure of every system with its interval: a row of texts and numbers, beside the best of the same items.

    ``best`` is 1 for the best of all systems, ``p`` how likely the difference to the best is by chance; ``None`` stands
    for what is not defined.
    """
    return [row for entry in suite.tasks for row in _compared(suite, [o for o in outcomes if o.entry is entry])]


def _compared(suite: Suite, outcomes: Sequence[Outcome]) -> Iterator[Row]:
    found = [(one, score) for one in outcomes if one.report is not None for score in one.report.scores]
    for measure, group in dict.fromkeys((score.measure, score.group) for _, score in found):
        own = [(one, score) for one, score in found if (score.measure, score.group) == (measure, group)]
        estimates = [score.estimate(suite.resamples, suite.seed) for _, score in own]
        first = max(range(len(own)), key=lambda at: estimates[at].value)
        for (one, score), known in zip(own, estimates, strict=True):
            best = known.value == estimates[first].value
            alike = not best and known.items == estimates[first].items
            p = chance(score, own[first][1], suite.resamples, suite.seed) if alike else None
            numbers = {name: number if np.isfinite(number) else None for name, number in asdict(known).items()}
            head = {"title": one.entry.title, "measure": measure, "group": group, "kind": one.kind}
            yield {**head, "system": one.system, **numbers, "best": int(best), "p": p}
