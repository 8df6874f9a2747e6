"""What becomes of medlink's files when something goes wrong: kills, writers at once, full disks, flipped bits.

    python benchmarks/faults.py --points full

Runs tests/faults and prints its table; what a test finds wrong goes to standard error. All points take two hours on one
core, the sample that the tests take by default a minute. The file takes each test that passed with its rows, so that a
run goes on after an interruption; it goes with the last test. 50 kills and resumes of each format of links
(tests/notes/writers/test_kills.py) go with them and have no row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("fault", "of", "runs", "old", "new", "refused", "unnoticed", "other")


@click.command()
@click.option("--points", type=click.Choice(["full", "sample"]), default="full", show_default=True)
@click.option(
    "--done", default="out/bench/faults.jsonl", show_default=True, type=click.Path(path_type=Path),
    help="File of what has passed.",
)  # fmt: skip
def main(points: str, done: Path) -> None:
    """Run the tests and print the table; the exit code is theirs."""
    done.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "MEDLINK_FAULTS": points, "MEDLINK_FAULTS_DONE": str(done.resolve())}
    words = [sys.executable, "-m", "pytest", "tests/faults", "tests/notes/writers/test_kills.py"]
    code = subprocess.run(words, cwd=ROOT, env=environment, stdout=sys.stderr, check=False).returncode
    lines = done.read_text("utf-8").splitlines() if done.exists() else []
    click.echo(f"| {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * 6}")
    for row in sorted(row for line in lines for row in json.loads(line)["rows"]):
        click.echo(f"| {' | '.join(map(str, row))} |")
    if code == 0:
        done.unlink(missing_ok=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
