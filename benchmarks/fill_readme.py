"""Put the tables of ``make bench`` between the marks of a document.

python benchmarks/fill_readme.py README.md accuracy=accuracy.md speed=speed.md
"""

from __future__ import annotations

import re
from pathlib import Path

import click


@click.command()
@click.argument("document", type=click.Path(exists=True, path_type=Path))
@click.argument("tables", nargs=-1, required=True, metavar="MARK=FILE...")
def main(document: Path, tables: tuple[str, ...]) -> None:
    """Replace what stands between the marks of each table."""
    text = document.read_text("utf-8")
    for given in tables:
        name, _, source = given.partition("=")
        block = f"<!-- {name} -->\n{Path(source).read_text('utf-8').strip()}\n<!-- end -->"
        text, count = re.subn(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, block=block: block, text, flags=re.DOTALL)
        if not count:
            raise click.ClickException(f"{document} has no mark <!-- {name} -->")
    document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
