"""What each set of extras costs to install: seconds, packages, size of the environment; and the demo in the light one.

    python benchmarks/install_cost.py --work FOLDER [--extras cpu --extras cpu,train]

Each set is installed from this checkout, with the versions of ``constraints.txt``, into an environment of its own.
Seconds depend on the network and on what pip has in its cache.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import click

_ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path) -> float:
    """Run a command to its end; returns seconds."""
    begin = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the environments.")
@click.option("--extras", multiple=True, default=("cpu", "cpu,transformers"), help="Sets.")
def main(work: Path, extras: tuple[str, ...]) -> None:
    """Print the table."""
    click.echo("| `pip install` | seconds | packages | size, MB | `medlink demo`, seconds |")
    click.echo("|---|---:|---:|---:|---:|")
    for chosen in extras:
        folder = work / "environment"
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", folder)
        python = folder / "bin" / "python"
        seconds = run(python, "-m", "pip", "install", "-c", _ROOT / "constraints.txt", f"{_ROOT}[{chosen}]")
        listed = subprocess.check_output([python, "-m", "pip", "list", "--format=freeze"], text=True)
        used = subprocess.check_output(["du", "-sm", folder], text=True).split()[0]
        demo = run(folder / "bin" / "medlink", "demo", "-o", work / "demo")
        size = f"{int(used):,}"
        click.echo(f"| `medlink[{chosen}]` | {seconds:.0f} | {len(listed.splitlines())} | {size} | {demo:.0f} |")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
