"""Put the tables of ``make bench`` into the README.

python benchmarks/fill_readme.py README.md accuracy.md speed.md
"""

from __future__ import annotations

import re
from pathlib import Path

import click


@click.command()
@click.argument("readme", type=click.Path(exists=True, path_type=Path))
@click.argument("accuracy", type=click.Path(exists=True, path_type=Path))
@click.argument("speed", type=click.Path(exists=True, path_type=Path))
def main(readme: Path, accuracy: Path, speed: Path) -> None:
    """Replace what stands between the marks of each table."""
    text = readme.read_text("utf-8")
    for name, source in (("accuracy", accuracy), ("speed", speed)):
        table = source.read_text("utf-8").strip()
        block = f"<!-- {name} -->\n{table}\n<!-- end -->"
        text = re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, block=block: block, text, flags=re.DOTALL)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
