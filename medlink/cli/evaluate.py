"""``medlink evaluate``: a command for each evaluation of :data:`medlink.evaluation.TASKS`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click

from medlink.cli.options import (
    PATH,
    PATH_OR_NAME,
    Command,
    Commands,
    explicit_options,
    pooling_option,
    settings_options,
)
from medlink.cli.output import ProgressBars
from medlink.evaluation import TASKS, Report, Task
from medlink.evaluation.task import format_rows
from medlink.files.atomic import atomic_text_writer, check_output_paths, format_of_ending, standard_output
from medlink.models.encoders import split_pooling

_FORMATS = {"table": Report.text, "csv": Report.csv, "json": Report.json}


@click.group(cls=Commands)
def evaluate() -> None:
    """Measure encoders, bundles and clusterings by published protocols."""


def _command(name: str, task: type[Task]) -> Command:
    """Build the command of a task: inputs are arguments, fields are options."""

    def run(shape: str, encoder: str = "builtin", out: Path | None = None, **options: Any) -> None:
        """Run the task and print its report."""
        paths: list[Path] = []
        for argument in task.inputs:
            value = options[argument.removesuffix("...")]
            paths += value if argument.endswith("...") else [value]
        settings = task(**explicit_options(options, task))
        check_output_paths({"the table": out}, [*paths, split_pooling(encoder)[1]])
        if out is not None:
            format_of_ending(out, {".tsv": "tsv"}, "tsv")  # fails before the work
        with ProgressBars() as bars:
            report = settings.run(paths, encoder, bars.step)
        for line in report.problems.summary_lines():
            click.echo(line, err=True)
        if out is not None:
            with atomic_text_writer(out, "the table") as file:
                file.writelines(format_rows(report.items, "\t"))
        with standard_output("send it to a terminal, or a file with room") as file:
            click.echo(_FORMATS[shape](report), file=file)

    parameters: list[click.Parameter] = [
        click.Argument([name.removesuffix("...")], type=PATH, required=True, nargs=-1 if name.endswith("...") else 1)
        for name in task.inputs
    ]
    if task.needs_encoder:
        run = pooling_option("encoder")(run)
        help_ = "'builtin', a model folder, or hf:NAME of the hub."
        parameters.append(
            click.Option(["--encoder"], default="builtin", show_default=True, type=PATH_OR_NAME, help=help_)
        )
    settings_options(task)(run)
    parameters += reversed(getattr(run, "__click_params__", []))
    if task.has_items:
        parameters.append(click.Option(["-o", "--out"], type=PATH, help="Table with every item, TSV."))
    help_, shapes = "Format of the printed measures.", click.Choice(list(_FORMATS))
    parameters.append(click.Option(["--format", "shape"], default="table", show_default=True, type=shapes, help=help_))
    return Command(name, callback=run, params=parameters, help=inspect.getdoc(task))


for _name, _task in TASKS.items():
    evaluate.add_command(_command(_name, _task))
