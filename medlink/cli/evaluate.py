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
from medlink.files.atomic import check_targets, standard_output, whole_text
from medlink.models.encoders import parted

_FORMATS = {"table": Report.text, "csv": Report.csv, "json": Report.json}


@click.group(cls=Commands)
def evaluate() -> None:
    """Measure encoders, bundles and clusterings by published protocols."""


def _command(name: str, task: type[Task]) -> click.Command:
    """The command of a task: its inputs as arguments, its fields as options."""

    def run(shape: str, encoder: str = "builtin", out: Path | None = None, **options: Any) -> None:
        """Run the task, and print or write what it says."""
        paths: list[Path] = []
        for argument in task.inputs:
            value = options[argument.removesuffix("...")]
            paths += value if argument.endswith("...") else [value]
        settings = task(**given(options, task))
        check_targets({"the table": out}, [*paths, parted(encoder)[1]])
        with Bars() as bars:
            report = settings.run(paths, encoder, bars.step)
        for line in report.problems.left_out():
            click.echo(line, err=True)
        if out is not None:
            with whole_text(out, "the table") as file:
                file.writelines(separated(report.items, "\t"))
        with standard_output("send it to a terminal, or a file with room") as file:
            click.echo(_FORMATS[shape](report), file=file)

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
    if task.itemised:
        parameters.append(click.Option(["-o", "--out"], type=PATH, help="Table with every item, TSV."))
    help_, shapes = "How the measures are printed.", click.Choice(list(_FORMATS))
    parameters.append(click.Option(["--format", "shape"], default="table", show_default=True, type=shapes, help=help_))
    return click.Command(name, callback=run, params=parameters, help=inspect.getdoc(task))


for _name, _task in TASKS.items():
    evaluate.add_command(_command(_name, _task))
