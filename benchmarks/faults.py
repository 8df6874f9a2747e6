"""What becomes of medlink's files when something goes wrong: kills, writers at once, full disks, flipped bits.

    python benchmarks/faults.py --points full

Runs tests/faults and prints its table; what a test finds wrong goes to standard error. All points take about an
hour on two cores, the sample that the tests take by default a minute. 50 kills and resumes of each format of links
(tests/notes/writers/test_kills.py) go with them and have no row.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

ROOT = Path(__file__).resolve().parents[1]


@click.command()
@click.option("--points", type=click.Choice(["full", "sample"]), default="full", show_default=True)
def main(points: str) -> None:
    """Run the tests and print the table; the exit code is theirs."""
    with TemporaryDirectory() as folder:
        table = Path(folder) / "table.md"
        environment = {**os.environ, "MEDLINK_FAULTS": points, "MEDLINK_FAULTS_TABLE": str(table)}
        words = [sys.executable, "-m", "pytest", "tests/faults", "tests/notes/writers/test_kills.py"]
        code = subprocess.run(words, cwd=ROOT, env=environment, stdout=sys.stderr, check=False).returncode
        click.echo(table.read_text("utf-8"), nl=False)
    sys.exit(code)


if __name__ == "__main__":
    main()
