"""``medlink demo``: build a bundle, link notes and write a page, without the network."""

from __future__ import annotations

from pathlib import Path

import click

from medlink.cli.options import PATH, Command
from medlink.files.atomic import check_output_paths
from medlink.files.escapes import escape_controls
from medlink.files.folders import ensure_folder
from medlink.files.problems import pluralize


@click.command(cls=Command)
@click.option(
    "-o", "--out", default="medlink-demo", show_default=True, type=PATH, help="Folder for the demo bundle and the page."
)
def demo(out: Path) -> None:
    """Build the demo bundle, link one note in each language, and write a page with the linked notes."""
    from medlink.curation.note_page import write_note_page
    from medlink.linking.demo import build_demo_bundle, demo_notes
    from medlink.notes.pipeline import NotePipeline
    from medlink.notes.reading import Note
    from medlink.notes.writers.readable import concept_word, cut

    page = out / "notes.html"
    with ensure_folder(out / "bundle", "the demo bundle"):
        check_output_paths({"the page": page}, [out / "bundle"])
        bundle = build_demo_bundle(out / "bundle")
    notes = NotePipeline(bundle).link([Note(f"{tag}.txt", text, tag) for tag, text in demo_notes().items()])
    # before anything is printed: a reader may close the pipe after the first lines
    write_note_page(page, notes, bundle.kb, title="Linked notes")
    for note in notes:
        click.echo(f"\n{note.language}: {pluralize(len(note.mentions), 'mention')}")
        click.echo(f"{'mention':38}{'concept':11}{'preferred name':34}{'score':>6}  came from")
        for mention in note.mentions:
            link = mention.link
            name, score, origin = "", 0.0, ""
            for best in link.candidates[:1]:
                name, score = best.preferred_name, best.score
                origin = f"{best.route}: {best.name} [{best.language}, {best.source}]"
            if link.expanded:
                origin += f", as long form {link.expanded!r}"
            click.echo(
                f"{cut(link.mention, 36):38}{concept_word(mention):11}{cut(name, 32):34}{score:6.3f}  "
                f"{escape_controls(origin)}"
            )
    click.echo(f"\nbundle: {out / 'bundle'}\npage:   {page}")
