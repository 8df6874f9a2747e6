"""``medlink evaluate retrieval`` and ``leaf-to-parent``: what is found first among the names of a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medlink.cli.evaluate_output import bar, print_table, say_left_out, write_table
from medlink.errors import ConfigError
from medlink.files.whole import check_targets

if TYPE_CHECKING:
    from medlink.evaluation.retrieval import Answer, Dictionary, Query

F = TypeVar("F", bound=Callable[..., Any])
_PLACES = click.Choice(["concepts", "names"])


def _options(place_by: str) -> Callable[[F], F]:
    """What both commands are given; ``place_by`` is the default."""

    def added(command: F) -> F:
        """The command with its options."""
        for option in (
            click.option("-o", "--out", type=click.Path(path_type=Path), help="Table with every query, TSV."),
            click.option(
                "--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of the sample."
            ),
            click.option("--sample", type=click.IntRange(min=1), help="Only so many queries, drawn at random."),
            click.option(
                "--depth",
                default=1000,
                show_default=True,
                type=click.IntRange(1, 10_000),
                help="Names looked at for each query.",
            ),
            click.option(
                "--place-by",
                default=place_by,
                show_default=True,
                type=_PLACES,
                help="What takes a place: a concept by its best name, or each name.",
            ),
            click.option(
                "--encoder",
                default="builtin",
                show_default=True,
                help="'builtin', a model folder, or the name of a hub model.",
            ),
        ):
            command = option(command)
        return command

    return added


@click.command()
@click.argument("dictionary", type=click.Path(path_type=Path))
@click.argument("queries", nargs=-1, required=True, type=click.Path(path_type=Path))
@_options("names")
@click.option(
    "--dictionary-languages", metavar="TAGS", help="Look among names of these languages only, such as en or en,de."
)
@click.option("--language", default="", metavar="TAG", help="Language of queries that name none.")
def retrieval(
    dictionary: Path,
    queries: tuple[Path, ...],
    encoder: str,
    place_by: str,
    depth: int,
    sample: int | None,
    seed: int,
    out: Path | None,
    dictionary_languages: str | None,
    language: str,
) -> None:
    """Acc@1, Acc@5 and MRR of names that are looked up in a dictionary, for each language.

    DICTIONARY is a knowledge base, a bundle, a table with concept_id and name, or lines id||name. QUERIES are files in
    the layout of BioSyn (*.concept, or a folder of them) or XL-BEL, or tables with concept_id and name. Queries whose
    concept the dictionary does not have count as not found.
    """
    from medlink.evaluation.retrieval import sample_queries
    from medlink.evaluation.retrieval_data import read_dictionary, read_queries
    from medlink.files.problems import Problems
    from medlink.language.tags import language_filter, language_tag

    check_targets({"the table": out}, [dictionary, *queries, encoder])
    tags = language_filter(dictionary_languages)
    tag = language_tag(language) if language else ""
    if tag is None:
        raise ConfigError(f"unknown language {language!r}", remedy="give a BCP 47 tag, such as de")
    problems = Problems(adjustable=False)
    read = read_queries(queries, problems, language=tag)
    names = read_dictionary(dictionary, problems, languages=tags)
    if read.without_concept:
        problems.skipped["query without a concept"] += read.without_concept
    say_left_out(problems)
    drawn = read.queries if sample is None else sample_queries(read.queries, sample, seed)
    answers = _answers(names, drawn, encoder, depth, place_by)
    _report(f"{len(drawn)} queries, {len(names)} names of {len(names.concepts)} concepts", answers, names, out)


@click.command("leaf-to-parent")
@click.argument("kb", type=click.Path(path_type=Path))
@_options("concepts")
@click.option("--languages", metavar="TAGS", help="Names of these languages only, such as en or en,de.")
def leaf_to_parent(
    kb: Path,
    encoder: str,
    place_by: str,
    depth: int,
    sample: int | None,
    seed: int,
    out: Path | None,
    languages: str | None,
) -> None:
    """How near the names of leaves are to their parents among all concepts that are no leaves (SCT-L2P, BioLORD 2022).

    KB is a knowledge base or a bundle, of whatever source that has a hierarchy.
    """
    from medlink.evaluation.leaf_to_parent import leaf_task
    from medlink.kb import KnowledgeBase
    from medlink.language.tags import language_filter

    check_targets({"the table": out}, [kb, encoder])
    tags = language_filter(languages)
    with KnowledgeBase(kb) as store:
        task = leaf_task(store, languages=tags)
    if task.nameless:
        click.echo(f"leaves left out: {task.nameless} (no name)", err=True)
    if sample is not None:
        task = task.sample(sample, seed)
    head = (
        f"{len(task.queries)} names of {task.leaves} leaves, "
        f"{len(task.dictionary)} names of {len(task.dictionary.concepts)} concepts with children"
    )
    _report(head, _answers(task.dictionary, task.queries, encoder, depth, place_by), task.dictionary, out)


def _answers(names: Dictionary, queries: Sequence[Query], encoder: str, depth: int, place_by: str) -> list[Answer]:
    from medlink.evaluation.retrieval import retrieve
    from medlink.models import load_encoder

    model = load_encoder(encoder)
    with bar("texts embedded", "texts") as embedded, bar("queries ranked", "queries") as ranked:
        return retrieve(model.encode, names, queries, depth=depth, place_by=place_by, progress=embedded, ranked=ranked)


def _report(head: str, answers: Sequence[Answer], names: Dictionary, out: Path | None) -> None:
    """Print the measures for each language, and write every query where a file is named for it, without its text."""
    from collections import Counter

    from medlink.evaluation.retrieval import measure_answers

    if out is not None:
        write_table(out, (_row(answer) for answer in answers))
    known = Counter(answer.query.language for answer in answers if answer.known)
    known["all"] = known.total()
    print_table(
        head,
        [
            {
                "language": tag or "-",
                "queries": str(found.queries),
                "in dictionary": str(known[tag]),
                "Acc@1": f"{found.acc1:.3f}",
                "Acc@5": f"{found.acc5:.3f}",
                "MRR": f"{found.mrr:.3f}",
                "not found": f"{found.unfound:.3f}",
            }
            for tag, found in measure_answers(answers).items()
        ],
    )


def _row(answer: Answer) -> dict[str, float | int | str]:
    """One query as ids and numbers: its text may come from a note."""
    return {
        "source": answer.query.source,
        "row": answer.query.row or "",
        "language": answer.query.language,
        "gold": "|".join(answer.query.gold),
        "in_dictionary": int(answer.known),
        "rank": answer.rank or "",
        "first": " ".join("|".join(ids) for ids in answer.concept),
        "cosine": answer.cosine,
    }
