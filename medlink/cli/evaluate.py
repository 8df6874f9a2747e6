"""``medlink evaluate``: a command for each evaluation of :data:`medlink.evaluation.TASKS`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Commands, given, pooling, settings_options
from medlink.cli.output import Bars
from medlink.evaluation import TASKS, Report, Task
from medlink.evaluation.task import separated
from medlink.files.escapes import visible
from medlink.files.problems import counted
from medlink.files.whole import check_targets, standard_output, whole_text
from medlink.models.encoders import parted

_FAILED = 3  # exit code of a report that is whole but for tasks that failed
_FORMATS = {"table": Report.text, "csv": Report.csv, "json": Report.json}


@click.group(cls=Commands)
def evaluate() -> None:
    """Measure encoders, bundles and clusterings by published protocols."""


def _command(name: str, task: type[Task]) -> click.Command:
    """The command of a task: its inputs as arguments, its fields as options."""

    def run(
        shape: str, encoder: str = "builtin", out: Path | None = None, plot: Path | None = None, **options: Any
    ) -> None:
        """Run the task, and print or write what it says."""
        paths: list[Path] = []
        for argument in task.inputs:
            value = options[argument.removesuffix("...")]
            paths += value if argument.endswith("...") else [value]
        settings = task(**given(options, task))
        check_targets({"the table": out, "the picture": plot}, [*paths, parted(encoder)[1]])
        if plot is not None:
            from medlink.evaluation.plot import check_plot

            check_plot(plot)
        with Bars() as bars:
            report = settings.run(paths, encoder, bars.step)
        _write(report, shape, out, plot, encoder)

    parameters: list[click.Parameter] = [
        click.Argument([one.removesuffix("...")], type=PATH, required=True, nargs=-1 if one.endswith("...") else 1)
        for one in task.inputs
    ]
    if task.encodes:
        run = pooling("encoder")(run)
        help_ = "'builtin', a model folder, or hf:NAME of the hub."
        parameters.append(
            click.Option(["--encoder"], default="builtin", show_default=True, type=PATH_OR_NAME, help=help_)
        )
    settings_options(task)(run)
    parameters += reversed(getattr(run, "__click_params__", []))
    if task.draws:
        parameters.append(click.Option(["--plot"], type=PATH, help="Precision-recall picture, .png or .svg."))
    if task.itemised:
        parameters.append(click.Option(["-o", "--out"], type=PATH, help="Table with every item, TSV."))
    help_, shapes = "How the measures are printed.", click.Choice(list(_FORMATS))
    parameters.append(click.Option(["--format", "shape"], default="table", show_default=True, type=shapes, help=help_))
    return click.Command(name, callback=run, params=parameters, help=inspect.getdoc(task))


def _write(report: Report, shape: str, out: Path | None, plot: Path | None, encoder: str) -> None:
    """Say what was left out, write the files, and print the measures."""
    for line in report.problems.left_out():
        click.echo(line, err=True)
    if out is not None:
        with whole_text(out, "the table") as file:
            file.writelines(separated(report.items, "\t"))
    if plot is not None and report.sweep is not None:
        from medlink.evaluation.plot import write_plot

        bare = parted(encoder)[1]
        write_plot(plot, {bare if bare == "builtin" else Path(bare).name: report.sweep})
    with standard_output("send it to a terminal, or a file with room") as file:
        click.echo(_FORMATS[shape](report), file=file)


@evaluate.command("all")
@click.argument("file", type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="New folder of the report.")
def everything(file: Path, out: Path) -> None:
    """Run the tasks of an evaluation file over encoders, bundles and peers, and write one report.

    FILE is a TOML file (docs/evaluation.md). The exit code is 3 where some tasks failed; the report names them.
    """
    from medlink.evaluation.report import evaluate_all

    with Bars() as bars:
        outcomes = evaluate_all(file, out, progress=bars.step, say=lambda line: bars.say(visible(line)))
    failed = sum(bool(one.error) for one in outcomes)
    click.echo(f"{counted(len(outcomes) - failed, 'run')} done, {failed} failed: {visible(str(out))}", err=True)
    if failed:
        click.get_current_context().exit(_FAILED)


for _name, _task in TASKS.items():
    evaluate.add_command(_command(_name, _task))
