"""``medlink index``: build the index of a bundle, describe it."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group()
def index() -> None:
    """Build the index of a bundle, or describe it."""


@index.command("build")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--kb", type=click.Path(path_type=Path), help="Knowledge base to copy in [default: BUNDLE/kb.sqlite].")
@click.option(
    "--encoder", default="builtin", show_default=True, help="'builtin', a model folder, or the name of a hub model."
)
@click.option("--kind", type=click.Choice(["flat", "hnsw"]), help="Exact search or a graph [default: chosen by size].")
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Threads that build the graph; with more than one it may differ from run to run.",
)
def build(bundle: Path, kb: Path | None, encoder: str, kind: str | None, threads: int) -> None:
    """Build encoder and index of BUNDLE from its knowledge base, or renew them."""
    from tqdm import tqdm

    from medlink.index import build_bundle
    from medlink.linking.join import default_join

    with tqdm(desc="names embedded", unit=" names", disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        built = build_bundle(
            bundle,
            kb=kb,
            encoder=encoder,
            calibration=default_join().to_dict(),
            kind=kind,
            threads=threads,
            progress=show,
        )
    facts = built.index.manifest
    click.echo(
        f"{built.folder}: {facts['names']} names of {facts['concepts']} concepts, {facts['rows']} distinct, "
        f"{facts['kind']} index of {facts['dimension']} dimensions"
    )


@index.command("info")
@click.argument("bundle", type=click.Path(path_type=Path))
def info(bundle: Path) -> None:
    """Print what BUNDLE is made of, as JSON; opening it checks that its parts belong together."""
    from medlink.index import Bundle

    opened = Bundle(bundle)
    facts = {key: value for key, value in opened.index.manifest.items() if key != "files"}
    click.echo(json.dumps({**opened.versions, "index": facts}, indent=2, sort_keys=True))
