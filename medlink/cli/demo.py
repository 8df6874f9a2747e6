"""``medlink demo``: the whole way on one machine, without the network."""

from __future__ import annotations

from pathlib import Path

import click

from medlink.errors import ConfigError
from medlink.files.whole import check_targets


@click.command()
@click.option(
    "-o",
    "--out",
    default=Path("medlink-demo"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for the demo bundle and the page.",
)
def demo(out: Path) -> None:
    """Build the demo bundle, link one note in each language, write a page with the linked notes."""
    from medlink.cli.page import write_page
    from medlink.linking.demo import build_demo_bundle, demo_notes
    from medlink.spacy_components.pipeline import build_pipeline

    try:
        (out / "bundle").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder cannot be made: {error.strerror}", path=error.filename, remedy="name another folder"
        ) from error
    check_targets({"the page": out / "notes.html"}, [out / "bundle"])
    bundle = build_demo_bundle(out / "bundle")
    docs = {language: build_pipeline(bundle.folder, language)(note) for language, note in demo_notes().items()}
    # before anything is printed: who reads the first lines alone gets the page too
    page = write_page(out / "notes.html", docs, bundle.kb)
    for language, doc in docs.items():
        click.echo(f"\n{language}: {len(doc.ents)} mentions")
        click.echo(f"{'mention':38}{'concept':11}{'preferred name':34}{'score':>6}  came from")
        for span in doc.ents:
            link = span._.medlink
            best = link["candidates"][0] if link["candidates"] else None
            name, score, origin = "", 0.0, ""
            if best is not None:
                name, score = best["preferred_name"], best["score"]
                origin = f"{best['route']}: {best['name']} [{best['language']}, {best['source']}]"
            if link["expanded"]:
                origin += f", as long form {link['expanded']!r}"
            click.echo(f"{_cut(span.text, 36):38}{span.kb_id_:11}{_cut(name, 32):34}{score:6.3f}  {origin}")
    click.echo(f"\nbundle: {bundle.folder}\npage:   {page.resolve()}")


def _cut(text: str, width: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
