"""``medlink kb``: build a knowledge base, describe it, search it, show a concept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medlink.errors import ConfigError
from medlink.kb.readers import formats

if TYPE_CHECKING:
    from medlink.kb import BuildReport, ConceptView, KnowledgeBase
    from medlink.records import Source

F = TypeVar("F", bound=Callable[..., Any])

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_file = click.Path(path_type=Path)
_kb = click.argument("kb_path", metavar="KB", type=_file)
max_bad_share = click.option(
    "--max-bad-share",
    type=float,
    default=0.01,
    show_default=True,
    help="Stop when a larger share of a file's rows cannot be used; 0 stops at the first.",
)
_language = click.option("--language", metavar="TAG", help="Language of the names, such as de; all when left out.")


def _listed(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Values parted by commas."""
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def kb() -> None:
    """Build a knowledge base from release files, search it, show a concept.

    KB is a knowledge base file, or a bundle folder that holds kb.sqlite.
    """


def _releases(command: F) -> F:
    """An option for each format that can be read."""
    for found in reversed(formats().values()):
        text = f"{found.help} May be repeated."
        command = click.option(found.option, found.name, multiple=True, type=_file, help=text)(command)
    return command


@kb.command()
@click.argument("out", type=_file)
@_releases
@click.option("--languages", callback=_listed, metavar="TAGS", help="Keep these languages only, such as en,de,es.")
@click.option(
    "--sources", callback=_listed, metavar="SABS", help="UMLS: keep these sources only, such as MSH,SNOMEDCT_US."
)
@click.option(
    "--term-types", callback=_listed, metavar="TTYS", help="UMLS: keep names of these types only, such as PT,SY."
)
@click.option("--include-suppressed", is_flag=True, help="UMLS: take in suppressed rows too.")
@max_bad_share
@click.option("--progress/--no-progress", default=None, help="Show a progress bar; by default on a terminal only.")
@_as_json
def build(
    out: Path,
    *,
    languages: list[str] | None,
    sources: list[str] | None,
    term_types: list[str] | None,
    include_suppressed: bool,
    max_bad_share: float,
    progress: bool | None,
    as_json: bool,
    **releases: tuple[Path, ...],
) -> None:
    """Build the knowledge base OUT from release files.

    OUT is a file, or a folder in which kb.sqlite is written. An existing knowledge base is replaced when the new one
    is complete, anything else is left alone. Where inputs disagree, the order is that of the options below.
    """
    from medlink.kb import Input, build_kb

    umls: dict[str, Any] = {
        "sources": sources,
        "term_types": term_types,
        "include_suppressed": include_suppressed or None,
    }
    options: dict[str, Any] = {key: value for key, value in umls.items() if value is not None}
    if options and not releases["rrf"]:
        names = ", ".join("--" + key.replace("_", "-") for key in options)
        raise ConfigError(f"{names} is for UMLS, and there is no --umls", remedy="add --umls META or leave it out")
    inputs = []
    for name, found in formats().items():
        given, several = options if name == "rrf" else {}, releases[name]
        if found.further:
            given, several = {found.further: several[1:]}, several[:1]
        inputs += [Input(name, path, given) for path in several]
    if not inputs:
        raise ConfigError("no release is given", remedy="name at least one, for example --obograph hp.json.gz")
    target = out / "kb.sqlite" if out.is_dir() else out
    report = build_kb(target, inputs, languages=languages, max_bad_share=max_bad_share, progress=progress)
    click.echo(_json(report.to_dict()) if as_json else "\n".join(_report(report)))


@kb.command()
@_kb
@_as_json
def info(kb_path: Path, as_json: bool) -> None:
    """Describe the knowledge base KB: sources, versions, languages, counts."""
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(kb_path) as opened:
        counts = opened.counts()
        sources = opened.sources()
        if as_json:
            about = _fields([opened], "path", "schema_version", "content_hash")[0]
            listed = [
                shown | counts["sources"][shown["name"]] for shown in _fields(sources, "name", "version", "title")
            ]
            # the counts of each source stand behind all the others
            total = {key: value for key, value in counts.items() if key != "sources"}
            click.echo(_json({**about, **total, "sources": listed}))
            return
        click.echo(f"{opened.path}\nschema {opened.schema_version}, content {opened.content_hash[:16]}")
        click.echo(
            ", ".join(
                f"{counts[kind]:,} {kind.replace('_', ' ')}"
                for kind in ("concepts", "names", "definitions", "semantic_types", "relations", "mappings")
            )
        )
        click.echo("names by language: " + _by_language(counts["names_by_language"]))
        for source in sources:
            held = counts["sources"][source.name]
            click.echo(f"  {_release(source)}: {held['concepts']:,} concepts, names {_by_language(held['names'])}")


@kb.command()
@_kb
@click.argument("text")
@_language
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="How many names at most.")
@_as_json
def search(kb_path: Path, text: str, language: str | None, limit: int, as_json: bool) -> None:
    """Search the names of KB for TEXT, whose last word may be a beginning."""
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(kb_path) as opened:
        found = opened.search(text, limit, language)
        preferred = opened.preferred_names([name.concept_id for name in found], language)
        if as_json:
            rows = [
                {"concept_id": name.concept_id, "name": name.text}
                | _fields([name], "language", "type", "source")[0]
                | {"preferred_name": preferred[name.concept_id]}
                for name in found
            ]
            click.echo(_json(rows))
            return
        if not found:
            click.echo(f"no name matches {text!r}", err=True)
        for name in found:
            shown = preferred[name.concept_id]
            also = "" if shown == name.text else f"  = {shown}"
            click.echo(f"{name.concept_id}\t{name.language or '-'}\t{name.text}{also}")


@kb.command()
@_kb
@click.argument("concept_id", metavar="ID")
@click.option("--language", metavar="TAG", help="Language in which concepts are named where they have a name in it.")
@click.option("--depth", type=click.IntRange(0), default=8, show_default=True, help="Levels of parents shown.")
@_as_json
def show(kb_path: Path, concept_id: str, language: str | None, depth: int, as_json: bool) -> None:
    """Show the concept ID of KB: parents as a tree, names by language, definitions, semantic types, maps."""
    from medlink.errors import InputError
    from medlink.kb import KnowledgeBase

    with KnowledgeBase(kb_path) as opened:
        view = opened.get(concept_id)
        if view is None:
            raise InputError(
                f"there is no concept {concept_id!r}", path=opened.path, remedy="find its id with: medlink kb search"
            )
        if as_json:
            click.echo(_json(_concept(opened, view, language, depth)))
        else:
            click.echo("\n".join(_page(opened, view, language, depth)))


def _json(value: Any) -> str:
    """A value as readable JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _fields(records: Iterable[object], *names: str) -> list[dict[str, Any]]:
    """Some fields of each record."""
    return [{name: getattr(record, name) for name in names} for record in records]


def _release(source: Source) -> str:
    """A source with its version, where it has one."""
    return f"{source.name} {source.version}".rstrip()


def _by_language(names: dict[str, int]) -> str:
    """Counts of names by language."""
    return ", ".join(f"{tag or '-'} {count:,}" for tag, count in names.items()) or "none"


def _report(report: BuildReport) -> Iterator[str]:
    """What was read and what was built, line by line."""
    for given in report.inputs:
        yield from given.lines()
    for entry in report.sources:
        yield (
            f"{_release(entry.source)}: {entry.concepts:,} concepts, names {_by_language(entry.names)}, "
            f"{entry.definitions:,} definitions, {entry.semantic_types:,} semantic types, "
            f"{entry.relations:,} relations, {entry.mappings:,} mappings"
        )
    yield f"wrote {report.path} in {report.seconds:.1f} s"


def _walk(opened: KnowledgeBase, concept_id: str, depth: int) -> Iterator[tuple[int, str, bool]]:
    """The concepts above one, depth first: level, id, and whether it was already shown with all that is above it."""
    shown: set[str] = {concept_id}
    waiting = [(1, parent) for parent in reversed(opened.parents(concept_id))] if depth else []
    while waiting:
        level, current = waiting.pop()
        again = current in shown
        yield level, current, again
        shown.add(current)
        if not again and level < depth:
            waiting += [(level + 1, parent) for parent in reversed(opened.parents(current))]


def _concept(opened: KnowledgeBase, view: ConceptView, language: str | None, depth: int) -> dict[str, Any]:
    """A concept as plain data."""
    ancestors = opened.ancestors(view.concept_id, depth) if depth else []
    shown = opened.preferred_names([concept_id for concept_id, _ in ancestors], language)
    return {
        **_fields([view], "concept_id", "source")[0],
        "preferred_name": opened.preferred_name(view.concept_id, language),
        "ancestors": [
            {"concept_id": above, "depth": level, "preferred_name": shown.get(above)} for above, level in ancestors
        ],
        "names": _fields(view.names, "text", "language", "type", "preferred"),
        "definitions": _fields(view.definitions, "text", "language"),
        "semantic_types": _fields(view.semantic_types, "semantic_type", "code"),
        "mappings": _fields(view.mappings, "system", "code", "type"),
    }


def _page(opened: KnowledgeBase, view: ConceptView, language: str | None, depth: int) -> Iterator[str]:
    yield f"{view.concept_id}  {opened.preferred_name(view.concept_id, language)}  ({view.source})"
    types = sorted({item.semantic_type + (f" ({item.code})" if item.code else "") for item in view.semantic_types})
    if types:
        yield "semantic type: " + ", ".join(types)
    for item in view.definitions:
        yield f"definition ({item.language or '-'}): {item.text}"
    above = list(_walk(opened, view.concept_id, depth))
    shown = opened.preferred_names([concept_id for _, concept_id, _ in above], language)
    if above:
        yield "parents:"
    for level, concept_id, again in above:
        yield "  " * level + f"{concept_id}  {shown.get(concept_id, '')}" + ("  (see above)" if again else "")
    yield "names:"
    for tag in dict.fromkeys(name.language for name in view.names):
        texts: dict[str, str] = {}
        for name in view.names:
            if name.language == tag:
                texts.setdefault(name.text, "*" if name.preferred else "")
        yield f"  {tag or '-'}: " + "; ".join(text + mark for text, mark in texts.items())
    if view.mappings:
        yield "maps:"
    systems: dict[str, dict[str, None]] = {}
    for mapped in view.mappings:
        systems.setdefault(mapped.system, {})[mapped.code] = None
    for system, codes in systems.items():
        yield f"  {system}: " + ", ".join(codes)
