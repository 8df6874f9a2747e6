"""``medlink evaluate``: the published protocols."""

from __future__ import annotations

from pathlib import Path

import click

from medlink.cli.evaluate_output import bar, print_table, write_table
from medlink.cli.evaluate_ranking import leaf_to_parent, retrieval
from medlink.cli.evaluate_similarity import similarity, sts
from medlink.files.whole import check_targets

_MANY = 1000  # thresholds; more are a slip of the keyboard


@click.group()
def evaluate() -> None:
    """Measure encoders and clusterings by published protocols."""


for _command in (leaf_to_parent, retrieval, similarity, sts):
    evaluate.add_command(_command)


def _thresholds(context: click.Context, parameter: click.Parameter, value: str) -> list[float]:
    """``START:STOP:STEP``, both ends included, as a list."""
    from decimal import Decimal

    try:
        start, stop, step = (Decimal(part) for part in value.split(":"))
        if not (-1 <= start <= stop <= 1 and 0 < step < _MANY and (stop - start) / step < _MANY):
            raise ValueError
    # not a number is of the second kind, as is a quotient too large for a decimal
    except (ValueError, ArithmeticError):
        raise click.BadParameter(
            f"{value!r} is not START:STOP:STEP with -1 <= START <= STOP <= 1, STEP > 0 and up to {_MANY} thresholds"
        ) from None
    return [float(start + i * step) for i in range(int((stop - start) / step) + 1)]


@evaluate.command("clustering")
@click.argument("names", type=click.Path(path_type=Path))
@click.option(
    "--encoder", default="builtin", show_default=True, help="'builtin', a model folder, or the name of a hub model."
)
@click.option(
    "--neighbours",
    default=50,
    show_default=True,
    type=click.IntRange(min=1),
    help="Nearest names that are looked at for each name.",
)
@click.option(
    "--thresholds",
    default="0.30:0.99:0.01",
    show_default=True,
    callback=_thresholds,
    metavar="START:STOP:STEP",
    help="Cosines above which a pair is predicted.",
)
@click.option("--sample", type=click.IntRange(min=2), help="Only so many names, or a few more, of whole concepts.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of the sample.")
@click.option("--plot", type=click.Path(path_type=Path), help="Precision-recall picture, .png or .svg.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Table with every threshold, TSV.")
def clustering(
    names: Path,
    encoder: str,
    neighbours: int,
    thresholds: list[float],
    sample: int | None,
    seed: int,
    plot: Path | None,
    out: Path | None,
) -> None:
    """Find the threshold at which embeddings best keep the names of one concept together (CODER++, section 3).

    NAMES is a knowledge base, a bundle, or a table with the columns concept_id, name and language.
    """
    from medlink.evaluation import sweep
    from medlink.evaluation.names import read_names
    from medlink.evaluation.plot import check_plot, write_plot
    from medlink.evaluation.retrieval import embed
    from medlink.models import load_encoder

    if plot is not None:
        check_plot(plot)
    check_targets({"the table": out, "the picture": plot}, [names, encoder])
    found = read_names(names)
    if sample is not None:
        found = found.sample(sample, seed)
    model = load_encoder(encoder)
    with bar("names embedded") as show:
        vectors = embed(model.encode, found.texts, show)
    with bar("names compared") as show:
        result = sweep(found.concepts, vectors, neighbours=neighbours, thresholds=thresholds, progress=show)
    if out is not None:
        write_table(out, result.to_dicts())
    if plot is not None:
        write_plot(plot, {encoder if encoder == "builtin" else Path(encoder).name: result})
    head = (
        f"{result.names} names of {found.concept_count} concepts, {result.true_pairs} true pairs, "
        f"{result.listed_true_pairs / result.true_pairs:.1%} of them among the {neighbours} nearest"
    )
    best = result.to_dicts()[result.best]
    ratios = {"theta0": f"{best['threshold']:.4g}"} | {
        short: f"{best[name]:.3f}" for short, name in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
    }
    counts = {name.upper(): str(best[name]) for name in ("tp", "fp", "fn", "tn")}
    print_table(head, [ratios | counts])


@evaluate.command("partition")
@click.argument("predicted", type=click.Path(path_type=Path))
@click.argument("gold", type=click.Path(path_type=Path))
def partition(predicted: Path, gold: Path) -> None:
    """Measure the clusters in PREDICTED against the concepts in GOLD.

    PREDICTED is a table with the columns term and cluster, such as 'medlink cluster' writes; GOLD is a knowledge base,
    a bundle, or a table with the columns concept_id, name and language. Where PREDICTED has a term in two clusters, its
    column language parts them. Terms that are in one of them only are counted and left out.
    """
    from medlink.errors import InputError
    from medlink.evaluation import measure_partition
    from medlink.evaluation.names import read_clusters, read_names

    clusters = read_clusters(predicted)
    by_language = any(language for _, language in clusters)
    names = read_names(gold, by_language=by_language)
    keys = [(text, tags[0] if by_language else "") for text, tags in zip(names.texts, names.languages, strict=True)]
    if by_language and not any(language for _, language in keys):
        raise InputError(
            f"it has terms with a cluster for each language, and {gold} names no language",
            path=predicted,
            remedy="give the names their language, or each term one cluster",
        )
    rows = [row for row, key in enumerate(keys) if key in clusters]
    if not rows:
        raise InputError(f"none of its terms is a name in {gold}", path=predicted, remedy="give the names as they were")
    both = names.take(rows)
    found = measure_partition([clusters[keys[row]] for row in rows], both.concepts, both.languages)
    head = (
        f"{found.terms} terms in {found.clusters} clusters; "
        f"{len(clusters) - len(both)} without a concept and {len(names) - len(both)} without a cluster left out"
    )
    across = "-" if found.cross_lingual_recall is None else f"{found.cross_lingual_recall:.3f}"
    pairs = (found.pair_precision, found.pair_recall, found.pair_f1)
    bcubed = (found.bcubed_precision, found.bcubed_recall, found.bcubed_f1)
    measures = [
        {"measure": name, "P": f"{p:.3f}", "R": f"{r:.3f}", "F1": f"{f1:.3f}"}
        for name, (p, r, f1) in (("pairs", pairs), ("B-cubed", bcubed))
    ]
    print_table(head, [*measures, {"measure": "pairs of two languages", "P": "-", "R": across, "F1": "-"}])
