"""``medlink kb``: build, describe, search, export and update a knowledge base, and show its concepts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from medlink.bundles.paths import KB_FILE, MANIFEST, check_bundle_target
from medlink.cli.options import (
    PATH,
    PATH_OR_NAME,
    Commands,
    integer_option,
    json_option,
    language_option,
    progress_option,
)
from medlink.cli.output import as_typed, print_json, print_lines, print_report
from medlink.cli.release_options import (
    allow_loss_option,
    changes_option,
    files_argument,
    pop_inputs,
    pop_required_inputs,
    release_options,
    under_options,
)
from medlink.errors import ConfigError, InputError
from medlink.files.escapes import escape_controls
from medlink.files.problems import pluralize

_kb = click.argument("kb_path", metavar="KB", type=PATH)
_ECL_HELP = "Only concepts that an expression constraint selects, such as '<< A MINUS << B'."
_KINDS = click.Choice(["fhir", "ftrm", "sssom"])


@click.group(cls=Commands)
def kb() -> None:
    """Build a knowledge base from release files, search it, show a concept.

    KB is a knowledge base file, or a bundle folder.
    """


@kb.command()
@click.argument("out", type=PATH_OR_NAME)
@files_argument
@click.option("--format", "description", type=PATH, help="TOML file that describes the format of each FOLDER_OR_FILE.")
@release_options
@progress_option
@json_option
def build(out: str, paths: tuple[Path, ...], description: Path | None, as_json: bool, **given: Any) -> None:
    """Build the knowledge base OUT from release files.

    OUT is a file if its name has a suffix, such as site.sqlite. Otherwise it is a bundle folder, such as site, which
    'medlink index build' then completes. Replaces an existing knowledge base when the new one is complete, and leaves
    any other file alone. Detects the format of each FOLDER_OR_FILE; the options below name it, and --format describes
    your own format. If inputs disagree, the earlier of these options wins.
    """
    from medlink.kb import Input, build_kb

    # with JSON on standard output, messages go to standard error
    say = partial(click.echo, err=as_json)
    if description is not None:
        if not paths:
            raise ConfigError("--format needs a file to read", remedy="name it after OUT")
        if description.suffix != ".toml":
            toml = next((path for path in paths if path.suffix == ".toml"), "FORMAT.toml")
            message = f"{description} is not a description of a format"
            raise ConfigError(message, remedy=f"write --format {toml} {description}")
        inputs = [*pop_inputs(given), *(Input(str(description), path) for path in paths)]
    else:
        inputs = pop_required_inputs(given, paths, say)
    target = Path(out)
    bundle = _is_bundle(out)
    if bundle:
        check_bundle_target(target, f"name a new folder, or a file in it such as {target / KB_FILE}")
        target = target / KB_FILE
    report = build_kb(target, inputs, **given)
    print_report(report, as_json)
    if bundle and (target.parent / MANIFEST).exists():
        say("the bundle stays as it is until it is built")
        _say_names_left_out(out, say)
    say(f"next: medlink index build {'' if bundle else 'BUNDLE --kb '}{shlex.quote(out)}")


def _say_names_left_out(bundle: str | Path, say: Callable[[str], object]) -> None:
    from medlink.index.bundle import describe_names_left_out

    if sentence := describe_names_left_out(bundle):
        say(escape_controls(as_typed(sentence)))


def _is_bundle(out: str) -> bool:
    path = Path(out)
    if out.endswith(os.sep) and path.exists() and not path.is_dir():
        message = "is a file, and a name that ends in a slash is a bundle folder"
        raise ConfigError(message, path=path, remedy="name another folder")
    return path.is_dir() or out.endswith(os.sep) or not (path.suffix[1:2].isalpha() or path.exists())


@kb.command()
@_kb
@json_option
def info(kb_path: Path, as_json: bool) -> None:
    """Describe the knowledge base KB: sources, versions, languages, counts."""
    from medlink.kb import KnowledgeBase
    from medlink.kb.formatting import select_fields
    from medlink.kb.report import format_language_counts

    with KnowledgeBase(kb_path) as opened:
        counts = opened.counts()
        sources = opened.sources()
        waiting = kb_path / KB_FILE
        path = waiting if opened.path == waiting.absolute() else kb_path
        if as_json:
            about = {"path": str(path), **select_fields([opened], "schema_version", "content_hash")[0]}
            by_source = counts.pop("sources")
            rows = [row | by_source[row["name"]] for row in select_fields(sources, "name", "version", "title")]
            print_json({**about, **counts, "sources": rows})
            return
        click.echo(f"{escape_controls(str(path))}\nschema {opened.schema_version}, content {opened.content_hash[:16]}")
        kinds = ("concepts", "names", "definitions", "semantic_types", "relations", "mappings")
        click.echo(", ".join(pluralize(counts[kind], kind[:-1].replace("_", " ")) for kind in kinds))
        click.echo("names by language: " + format_language_counts(counts["names_by_language"]))
        for source in sources:
            held = counts["sources"][source.name]
            concepts, names = pluralize(held["concepts"], "concept"), format_language_counts(held["names"])
            click.echo(f"  {escape_controls(source.release)}: {concepts}, names {names}")


@kb.command()
@_kb
@click.argument("text")
@language_option("Language of the names, such as de; all when left out.")
@under_options
@click.option("--ecl", metavar="CONSTRAINT", help=_ECL_HELP)
@integer_option("--limit", 10, "Maximum number of names.", minimum=1, maximum=1_000_000)
@json_option
def search(
    kb_path: Path, text: str, language: str | None, ecl: str | None, limit: int, as_json: bool, **under: Any
) -> None:
    """Search the names of KB for TEXT, whose last word may be a prefix; names with TEXT inside words come last."""
    from medlink.kb import KnowledgeBase
    from medlink.kb.formatting import select_fields

    with KnowledgeBase(kb_path) as opened:
        among = None
        if ecl is not None:
            from medlink.kb.ecl import select_concepts

            among = select_concepts(opened, ecl)
        names = opened.search(text, limit, language, among=among, **under)
        preferred = opened.preferred_names([name.concept_id for name in names], language)
        if as_json:
            fields = select_fields(names, "language", "type", "source")
            ids = [{"concept_id": name.concept_id, "name": name.text} for name in names]
            titles = [{"preferred_name": preferred[name.concept_id]} for name in names]
            print_json([first | rest | title for first, rest, title in zip(ids, fields, titles, strict=True)])
            return
        if not names:
            of_code = opened.ids_of_code(text)
            show = f"medlink kb show {shlex.join([str(kb_path), *of_code[:1]])}"
            remedy = f"; see the concept with: {show}" if of_code else ""
            click.echo(f"no name matches {text!r}{remedy}", err=True)
        for name in names:
            title = preferred[name.concept_id]
            suffix = "" if title == name.text else f"  = {title}"
            click.echo("\t".join(map(escape_controls, (name.concept_id, name.language or "-", name.text + suffix))))


@kb.command()
@_kb
@click.argument("concept_id", metavar="ID")
@language_option("Preferred language of the names of concepts.")
@integer_option("--depth", 8, "Levels of parents shown.", maximum=1000)
@json_option
def show(kb_path: Path, concept_id: str, language: str | None, depth: int, as_json: bool) -> None:
    """Show the concept ID of KB: parents as a tree, names by language, definitions, semantic types, maps.

    For a retired concept: the records of its retirement, and its current successors.
    """
    from medlink.kb import KnowledgeBase
    from medlink.kb.formatting import concept_to_dict, format_concept, format_retired, retired_to_dict

    with KnowledgeBase(kb_path) as opened:
        view = opened.get(concept_id)
        if view is None and (retired := opened.retired(concept_id)):
            if as_json:
                print_json(retired_to_dict(opened, retired, language))
            else:
                print_lines(format_retired(opened, retired, language))
            return
        if view is None:
            remedy = f"find its id with: medlink kb search {shlex.quote(str(kb_path))} NAME"
            if of_code := opened.ids_of_code(concept_id):
                remedy = f"name it by its id, {of_code[0]}"
            raise InputError(f"there is no concept {concept_id!r}", path=kb_path, remedy=remedy)
        if as_json:
            print_json(concept_to_dict(opened, view, language, depth))
        else:
            print_lines(format_concept(opened, view, language, depth))


@kb.command()
@_kb
@click.option("--format", "kind", type=_KINDS, required=True, help="Format of the export.")
@click.option("-o", "--output", type=PATH, required=True, help="The file to write.")
def export(kb_path: Path, kind: str, output: Path) -> None:
    """Export KB to another format.

    fhir: each source as a FHIR R4 CodeSystem, several in a Bundle. ftrm: the same and all mappings as a SQLite
    container of FHIR terminology. sssom: all mappings as SSSOM TSV.
    """
    from medlink.files.atomic import atomic_text_writer, check_output_paths
    from medlink.kb import KnowledgeBase
    from medlink.kb.export.fhir import write_fhir
    from medlink.kb.export.ftrm import write_ftrm
    from medlink.kb.export.sssom import write_sssom

    check_output_paths({"the output": output}, [kb_path])
    with KnowledgeBase(kb_path) as opened:
        if kind == "ftrm":
            count = write_ftrm(opened, output)
        else:
            with atomic_text_writer(output) as file:
                count = write_fhir(opened, file) if kind == "fhir" else write_sssom(opened, file)
    what = pluralize(count, "mapping" if kind == "sssom" else "concept")
    click.echo(f"wrote {what} to {escape_controls(str(output))}")


@kb.command()
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@changes_option
@json_option
def changes(old: Path, new: Path, out: Path | None, as_json: bool) -> None:
    """Count the differences of the knowledge bases OLD and NEW, such as two releases.

    Counts concepts added, retired and merged, and for concepts in both: names added and removed, and changed
    preferred names, parents and semantic types.
    """
    from medlink.kb import compare_kbs

    report = compare_kbs(old, new, out)
    print_report(report, as_json)


@kb.command()
@_kb
@files_argument
@release_options
@allow_loss_option
@changes_option
@progress_option
@json_option
def update(kb_path: Path, paths: tuple[Path, ...], out: Path | None, as_json: bool, **given: Any) -> None:
    """Build the knowledge base KB again from the files of a new release, and count the changes.

    Detects the format of each FOLDER_OR_FILE; the options below name it. The new file replaces KB once it is complete.
    In a bundle, it waits in the folder until 'medlink index update' uses it.
    """
    from medlink.kb import update_kb

    # with JSON on standard output, messages go to standard error
    say = partial(click.echo, err=as_json)
    report, changed = update_kb(kb_path, pop_required_inputs(given, paths, say), changes=out, **given)
    if as_json:
        print_json({"build": report.to_dict(), "changes": changed.to_dict()})
    else:
        print_lines((*report.lines(), *changed.lines()))
    if (kb_path / MANIFEST).exists():
        _say_names_left_out(kb_path, say)
        say(f"next: medlink index update {shlex.quote(str(kb_path))}")
