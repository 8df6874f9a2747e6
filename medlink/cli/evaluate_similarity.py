"""``medlink evaluate similarity`` and ``sts``: cosines against what people said of pairs and triplets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medlink.cli.evaluate_output import bar, print_table, say_left_out, write_table
from medlink.files.whole import check_targets

if TYPE_CHECKING:
    from medlink.evaluation.retrieval import Encode
    from medlink.evaluation.similarity import Estimate
    from medlink.training.data.rated import RatedPair, Triplet

F = TypeVar("F", bound=Callable[..., Any])
Row = dict[str, float | int | str]
_SIMILARITY, _STS = ("spearman",), ("pearson", "spearman")


def _options(command: F) -> F:
    """What both commands are given."""
    for option in (
        click.option("-o", "--out", type=click.Path(path_type=Path), help="Table with every pair or triplet, TSV."),
        click.option(
            "--resamples",
            default=1000,
            show_default=True,
            type=click.IntRange(1, 1_000_000),
            help="Resamples of the interval.",
        ),
        click.option(
            "--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of sample and interval."
        ),
        click.option("--sample", type=click.IntRange(min=2), help="Only so many pairs or triplets of each file."),
        click.option(
            "--encoder",
            default="builtin",
            show_default=True,
            help="'builtin', a model folder, or the name of a hub model.",
        ),
        click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@click.command()
@_options
def similarity(
    files: tuple[Path, ...], encoder: str, sample: int | None, seed: int, resamples: int, out: Path | None
) -> None:
    """Spearman correlation of cosines with the ratings of concept pairs (BioLORD 2022, table 1), accuracy of triplets.

    FILES are rated pairs in the layout of EHR-Rel, MayoSRS, UMNSRS or a table with text_1, text_2 and score, or
    triplets: labelled pairs as MedNLI has them (BioLORD 2022, section 4.4) or a table with premise, entailed and
    contradicted. The 95 % interval is that of a bootstrap.
    """
    _measure(files, _SIMILARITY, encoder, sample, seed, resamples, out)


@click.command()
@_options
def sts(files: tuple[Path, ...], encoder: str, sample: int | None, seed: int, resamples: int, out: Path | None) -> None:
    """Pearson and Spearman correlation of cosines with the scores of sentence pairs (BioLORD 2022, table 3).

    FILES are tables with text_1, text_2 and score, STS-B as in GLUE, SICK, or three columns text, text, score without a
    header. The 95 % interval is that of a bootstrap.
    """
    _measure(files, _STS, encoder, sample, seed, resamples, out)


def _measure(
    files: Sequence[Path],
    measures: Sequence[str],
    encoder: str,
    sample: int | None,
    seed: int,
    resamples: int,
    out: Path | None,
) -> None:
    """Measure each file, print one table, and write every item where a file is named for it."""
    from medlink.files.problems import Problems
    from medlink.models import load_encoder
    from medlink.training.data.rated import has_triplets, read_pairs, read_triplets

    check_targets({"the table": out}, [*files, encoder])
    problems = Problems(adjustable=False)
    read: list[tuple[Path, list[RatedPair] | list[Triplet]]] = []
    for path in files:
        # scores of sentences have no triplets among them
        triplets = "pearson" not in measures and has_triplets(path)
        items: Any = read_triplets(path, problems) if triplets else read_pairs(path, problems)
        read.append((path, items if sample is None else _drawn(items, sample, seed)))
    say_left_out(problems)
    model = load_encoder(encoder)
    found: list[tuple[Path, str, Estimate]] = []
    rows: list[Row] = []
    for path, items in read:
        estimates, written = _one(model.encode, path, items, measures, seed, resamples)
        found += [(path, name, estimate) for name, estimate in estimates.items()]
        rows += written
    if out is not None:
        write_table(out, rows)
    print_table(
        f"{sum(len(items) for _, items in read)} items of {len(read)} file{'s' * (len(read) != 1)}",
        [
            {
                "file": path.name,
                "items": str(estimate.items),
                "measure": name,
                "value": f"{estimate.value:.3f}",
                "low": f"{estimate.low:.3f}",
                "high": f"{estimate.high:.3f}",
            }
            for path, name, estimate in found
        ],
    )


def _drawn(items: list[Any], count: int, seed: int) -> list[Any]:
    """At most so many of the items, in their order."""
    import numpy as np

    rows = np.sort(np.random.default_rng(seed).permutation(len(items))[:count])
    return [items[row] for row in rows.tolist()]


def _one(
    encode: Encode, path: Path, items: Sequence[Any], measures: Sequence[str], seed: int, resamples: int
) -> tuple[dict[str, Estimate], list[Row]]:
    """The measures of one file, and a row for each of its items, without their texts."""
    from medlink.errors import ConfigError, InputError
    from medlink.evaluation.retrieval import embed
    from medlink.evaluation.similarity import correlate, pair_cosines, triplet_accuracy
    from medlink.training.data.rated import RatedPair

    pairs = isinstance(items[0], RatedPair)
    fields = ("one", "other") if pairs else ("premise", "entailed", "contradicted")
    texts = list(dict.fromkeys(getattr(item, field) for item in items for field in fields))
    with bar("texts embedded", "texts") as show:
        vectors = embed(encode, texts, show)
    at = {text: row for row, text in enumerate(texts)}
    columns = [vectors[[at[getattr(item, field)] for item in items]] for field in fields]
    near = pair_cosines(columns[0], columns[1])
    if not pairs:
        far = pair_cosines(columns[0], columns[2])
        rows: list[Row] = [
            {"file": path.name, "row": item.row, "entailed": one, "contradicted": other}
            for item, one, other in zip(items, near.tolist(), far.tolist(), strict=True)
        ]
        return {"accuracy": triplet_accuracy(near, far, resamples=resamples, seed=seed)}, rows
    ratings = [item.rating for item in items]
    rows = [
        {"file": path.name, "row": item.row, "id_1": item.ids[0], "id_2": item.ids[1], "rating": item.rating}
        | {"cosine": cosine}
        for item, cosine in zip(items, near.tolist(), strict=True)
    ]
    try:
        found = {name: correlate(ratings, near, measure=name, resamples=resamples, seed=seed) for name in measures}
    except ConfigError as error:
        raise InputError(error.message, path=path, remedy=error.remedy) from error
    return found, rows
