"""``medlink kb``: build, describe, search and export a knowledge base, show a concept, take in a new release."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from medlink.bundles.paths import KB_FILE, MANIFEST, refuse_other
from medlink.cli.options import PATH, PATH_OR_NAME, Commands, json_output, number, one_language, show_progress
from medlink.cli.output import as_typed, print_json
from medlink.cli.release_options import changes_out, inputs_of, release_options, some_inputs, under_options
from medlink.errors import ConfigError, InputError
from medlink.files.escapes import visible
from medlink.files.problems import counted
from medlink.kb.readers import formats

_kb = click.argument("kb_path", metavar="KB", type=PATH)


@click.group(cls=Commands)
def kb() -> None:
    """Build a knowledge base from release files, search it, show a concept.

    KB is a knowledge base file, or a bundle folder.
    """


@kb.command()
@click.argument("out", type=PATH_OR_NAME)
@click.argument("paths", metavar="[FOLDER_OR_FILE]...", nargs=-1, type=PATH)
@click.option("--format", "description", type=PATH, help="TOML file that says what each FOLDER_OR_FILE is made of.")
@release_options
@show_progress
@json_output
def build(out: str, paths: tuple[Path, ...], description: Path | None, as_json: bool, **given: Any) -> None:
    """Build the knowledge base OUT from release files.

    OUT is a file if its name has a suffix, such as house.sqlite, else a bundle folder, such as house, which
    'medlink index build' then makes complete. An existing knowledge base is replaced when the new one is complete,
    anything else is left alone. Of each FOLDER_OR_FILE the format is found out; the options below name it, and
    --format describes one of your own. Where inputs
    disagree, the order is that of the options below.
    """
    from medlink.kb import Input, build_kb

    # beside JSON what else there is to say goes to standard error
    say = partial(click.echo, err=as_json)
    if description is not None:
        if not paths:
            raise ConfigError("--format needs a file to read", remedy="name it behind OUT")
        inputs = [*inputs_of(given), *(Input(str(description), path) for path in paths)]
    else:
        for name, path in _found_out(paths, say):
            given[name] += (path,)
        inputs = some_inputs(given)
    target = Path(out)
    bundle = _is_bundle(out)
    if bundle:
        refuse_other(target, f"name a new folder, or a file in it such as {target / KB_FILE}")
        target = target / KB_FILE
    report = build_kb(target, inputs, **given)
    if as_json:
        print_json(report.to_dict())
    else:
        click.echo("\n".join(map(visible, report.lines())))
    if bundle and (target.parent / MANIFEST).exists():
        from medlink.index.bundle import left_out

        say("the bundle stays as it is until it is built")
        if sentence := left_out(out):
            say(visible(as_typed(sentence)))
    say(f"next: medlink index build {'' if bundle else 'BUNDLE --kb '}{shlex.quote(out)}")


def _found_out(paths: tuple[Path, ...], say: Callable[[str], object]) -> Iterator[tuple[str, Path]]:
    if not paths:
        return
    from medlink.kb.format_detection import recognise

    for path in paths:
        found, left = recognise(path)
        for one in found:
            say(visible(f"{one.path}: taken for {formats()[one.format].option}"))
            yield one.format, one.path
        for file in left:
            say(visible(f"{file}: left out, its beginning does not tell one format"))


def _is_bundle(out: str) -> bool:
    path = Path(out)
    if out.endswith(os.sep) and path.exists() and not path.is_dir():
        raise ConfigError(
            "is a file, and a name that ends in a slash is a bundle folder", path=path, remedy="name another folder"
        )
    return path.is_dir() or out.endswith(os.sep) or not (path.suffix[1:2].isalpha() or path.exists())


@kb.command()
@_kb
@json_output
def info(kb_path: Path, as_json: bool) -> None:
    """Describe the knowledge base KB: sources, versions, languages, counts."""
    from medlink.kb import KnowledgeBase
    from medlink.kb.formatting import fields
    from medlink.kb.report import by_language

    with KnowledgeBase(kb_path) as opened:
        counts = opened.counts()
        sources = opened.sources()
        waiting = kb_path / KB_FILE
        shown = waiting if opened.path == waiting.absolute() else kb_path
        if as_json:
            about = {"path": str(shown), **fields([opened], "schema_version", "content_hash")[0]}
            held = counts.pop("sources")
            listed = [shown | held[shown["name"]] for shown in fields(sources, "name", "version", "title")]
            print_json({**about, **counts, "sources": listed})
            return
        click.echo(f"{visible(str(shown))}\nschema {opened.schema_version}, content {opened.content_hash[:16]}")
        kinds = ("concepts", "names", "definitions", "semantic_types", "relations", "mappings")
        click.echo(", ".join(counted(counts[kind], kind[:-1].replace("_", " ")) for kind in kinds))
        click.echo("names by language: " + by_language(counts["names_by_language"]))
        for source in sources:
            held = counts["sources"][source.name]
            click.echo(
                f"  {visible(source.release)}: {counted(held['concepts'], 'concept')}, "
                f"names {by_language(held['names'])}"
            )


@kb.command()
@_kb
@click.argument("text")
@one_language("Language of the names, such as de; all when left out.")
@under_options
@click.option(
    "--ecl", metavar="CONSTRAINT", help="Only concepts of an expression constraint, such as '<< A MINUS << B'."
)
@number("--limit", 10, "How many names at most.", least=1, most=1_000_000)
@json_output
def search(
    kb_path: Path, text: str, language: str | None, ecl: str | None, limit: int, as_json: bool, **under: Any
) -> None:
    """Search the names of KB for TEXT, whose last word may be a beginning."""
    from medlink.kb import KnowledgeBase
    from medlink.kb.formatting import fields

    with KnowledgeBase(kb_path) as opened:
        among = None
        if ecl is not None:
            from medlink.kb.ecl import select_concepts

            among = select_concepts(opened, ecl)
        found = opened.search(text, limit, language, among=among, **under)
        preferred = opened.preferred_names([name.concept_id for name in found], language)
        if as_json:
            rows = [
                {"concept_id": name.concept_id, "name": name.text, **fields([name], "language", "type", "source")[0]}
                for name in found
            ]
            print_json([{**row, "preferred_name": preferred[row["concept_id"]]} for row in rows])
            return
        if not found:
            click.echo(f"no name matches {text!r}", err=True)
        for name in found:
            shown = preferred[name.concept_id]
            also = "" if shown == name.text else f"  = {shown}"
            click.echo("\t".join(map(visible, (name.concept_id, name.language or "-", name.text + also))))


@kb.command()
@_kb
@click.argument("concept_id", metavar="ID")
@one_language("Language in which concepts are named where they have a name in it.")
@number("--depth", 8, "Levels of parents shown.", most=1000)
@json_output
def show(kb_path: Path, concept_id: str, language: str | None, depth: int, as_json: bool) -> None:
    """Show the concept ID of KB: parents as a tree, names by language, definitions, semantic types, maps.

    Of a concept that its source has retired: what the source says of it, and the concepts that stand for it now.
    """
    from medlink.kb import KnowledgeBase
    from medlink.kb.formatting import concept_facts, concept_lines, retired_facts, retired_lines

    with KnowledgeBase(kb_path) as opened:
        view = opened.get(concept_id)
        if view is None and (said := opened.retired(concept_id)):
            if as_json:
                print_json(retired_facts(opened, said, language))
            else:
                click.echo("\n".join(map(visible, retired_lines(opened, said, language))))
            return
        if view is None:
            raise InputError(
                f"there is no concept {concept_id!r}",
                path=kb_path,
                remedy=f"find its id with: medlink kb search {shlex.quote(str(kb_path))} NAME",
            )
        if as_json:
            print_json(concept_facts(opened, view, language, depth))
        else:
            click.echo("\n".join(map(visible, concept_lines(opened, view, language, depth))))


@kb.command()
@_kb
@click.option("--format", "kind", type=click.Choice(["fhir", "ftrm", "sssom"]), required=True, help="What to write.")
@click.option("-o", "--output", type=PATH, required=True, help="The file to write.")
def export(kb_path: Path, kind: str, output: Path) -> None:
    """Write KB in a format of others.

    fhir: each source as a FHIR R4 CodeSystem, several in a Bundle. ftrm: the same and all mappings as a SQLite
    container of FHIR terminology. sssom: all mappings as SSSOM TSV.
    """
    from medlink.files.atomic import check_targets, whole_text
    from medlink.kb import KnowledgeBase
    from medlink.kb.export.fhir import write_fhir
    from medlink.kb.export.ftrm import write_ftrm
    from medlink.kb.export.sssom import write_sssom

    check_targets({"the output": output}, [kb_path])
    with KnowledgeBase(kb_path) as opened:
        if kind == "ftrm":
            what = counted(write_ftrm(opened, output), "concept")
        elif kind == "fhir":
            with whole_text(output) as file:
                what = counted(write_fhir(opened, file), "concept")
        else:
            with whole_text(output) as file:
                what = counted(write_sssom(opened, file), "mapping")
    click.echo(f"wrote {what} to {visible(str(output))}")


@kb.command()
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@changes_out
@json_output
def changes(old: Path, new: Path, out: Path | None, as_json: bool) -> None:
    """Count what differs between the knowledge bases OLD and NEW, such as those of two releases.

    Concepts added, retired and merged; of those that stay, names added and removed, other preferred names, other
    parents, other semantic types.
    """
    from medlink.kb import compare_kbs

    report = compare_kbs(old, new, out)
    if as_json:
        print_json(report.to_dict())
    else:
        click.echo("\n".join(map(visible, report.lines())))


@kb.command()
@_kb
@release_options
@changes_out
@show_progress
@json_output
def update(kb_path: Path, out: Path | None, as_json: bool, **given: Any) -> None:
    """Build the knowledge base KB anew from the files of a new release, and say what it changes.

    KB stays as it is until the new one is complete, and the old one is replaced by it. Of a bundle the new one waits
    in its folder until 'medlink index update' takes it in.
    """
    from medlink.kb import update_kb

    report, changed = update_kb(kb_path, some_inputs(given), changes=out, **given)
    if as_json:
        print_json({"build": report.to_dict(), "changes": changed.to_dict()})
    else:
        click.echo("\n".join(map(visible, (*report.lines(), *changed.lines()))))
    # beside JSON what else there is to say goes to standard error
    say = partial(click.echo, err=as_json)
    if (kb_path / MANIFEST).exists():
        from medlink.index.bundle import left_out

        if sentence := left_out(kb_path):
            say(visible(as_typed(sentence)))
        say(f"next: medlink index update {shlex.quote(str(kb_path))}")
