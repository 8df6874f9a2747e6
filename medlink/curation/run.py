"""Cluster a term list, apply decisions, write the results, and extend a bundle, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from os import fspath
from pathlib import Path
from typing import Any, BinaryIO, cast

from medlink.clustering import Clustering, ClusterOptions, Columns, TermClusterer, Terms, read_terms
from medlink.clustering.clusterer import Progress
from medlink.clustering.clusters import Shape
from medlink.curation.applied_decisions import apply_decisions
from medlink.curation.decisions import NEW_ID, Decisions, read_decisions
from medlink.curation.review_page import write_cluster_page
from medlink.errors import ConfigError
from medlink.files.atomic import check_output_paths, format_of_ending
from medlink.files.problems import pluralize
from medlink.files.workbooks import is_workbook, table_writer
from medlink.models.encoders import split_pooling

StrPath = str | Path
_SHAPES_BY_ENDING = {".tsv": "tsv", ".jsonl": "jsonl", ".txt": "groups", ".xlsx": "tsv"}
_NUMBERS = ("cluster", "frequency", "broader", "joined_score")
_MAX_IDS = 5  # new ids in a message
_SAMPLE = 1000  # clusters that determine the language of a list


class ClusterListOptions(ClusterOptions):
    """Options of :func:`cluster_list`."""

    encoder: StrPath | None = None
    bundle: StrPath | None = None
    prefer: Sequence[str] = ()
    decisions: StrPath | None = None
    add_to: StrPath | None = None


def cluster_list(
    terms: StrPath, *, stream: BinaryIO | None = None, columns: Columns | None = None, encoding: str = "utf-8",
    max_bad_share: float = 0.01, out: StrPath | None = None, shape: Shape | None = None, report: StrPath | None = None,
    on_message: Callable[[str], object] = lambda line: None,
    progress: Progress = lambda step, done, total: None, **options: Any,
) -> Clustering:  # fmt: skip
    """Cluster a term list, apply a reviewer's decisions, write the results, and extend a bundle.

    Options that do not fit together fail before the long work starts. Files are written before the bundle changes.

    Args:
        terms, stream, columns, encoding, max_bad_share: see :func:`medlink.clustering.read_terms`.
        out, shape: file for the clusters, and its format, see :meth:`medlink.clustering.Clustering.lines`; by default,
            the ending determines the format. A TSV becomes a workbook in a file ``.xlsx``.
        report: file for the page to review the clusters.
        on_message: called with each line for the user, such as the summary.
        options: those of :class:`medlink.clustering.ClusterOptions`, and ``encoder`` for :func:`medlink.load_encoder`
            (default: that of the bundle, else the built-in one), ``bundle`` with the known concepts, ``prefer`` as for
            :class:`medlink.Linker`, ``decisions`` saved on the page, and ``add_to``, a bundle that the accepted
            decisions extend.

    Raises:
        ConfigError: options do not fit together, or a file cannot be written.
        InputError: the list or the decisions cannot be read, or the bundle cannot take the decisions.
        BundleError: a bundle is missing or damaged.
    """
    from medlink.index import Bundle
    from medlink.models import load_encoder

    settings = ClusterListOptions(**options)
    encoder, bundle, add_to = settings.encoder, settings.bundle, settings.add_to
    # the name of an encoder may contain its pooling
    bare = None if encoder is None else split_pooling(encoder)[1]
    inputs = [path for path in (settings.decisions, bundle, add_to, bare) if path is not None]
    given: StrPath | int = terms
    if stream is not None:
        given = -1
        with suppress(OSError):
            given = stream.fileno()
    check_output_paths({"the output": out, "the page": report}, [given, *inputs])
    decisions = _check_options(settings)
    shape = shape or ("tsv" if out is None else cast("Shape", format_of_ending(out, _SHAPES_BY_ENDING, "tsv")))
    if out is not None and is_workbook(out) and shape != "tsv":
        raise ConfigError(f"a workbook cannot hold {shape}", path=out, remedy="name another file, or another format")
    if add_to is not None and decisions is not None:
        target = Bundle(add_to)
        _ = target.encoder  # fails now if it is missing
        decisions.check_accepted(lambda concept_id: target.kb.get(concept_id) is not None)
    known, bundled = ({}, None) if bundle is None else _load_known(bundle, settings.prefer)
    used = load_encoder(encoder or "builtin") if encoder is not None or bundled is None else bundled
    table = _read(terms, stream, columns, encoding, max_bad_share, progress)
    for note in table.notes:
        on_message(note)
    own = {name: getattr(settings, name) for name in ClusterOptions.model_fields}
    clustering = TermClusterer(used, progress=progress, **known, **own).cluster(table)
    if decisions is not None:
        applied = apply_decisions(clustering, decisions, used)
        clustering = applied.clustering
        on_message(
            f"{decisions.path}: {pluralize(applied.decided, 'term')} decided, {applied.rejected:,} of them rejected; "
            f"{pluralize(applied.absent, 'term')} of the file {'is' if applied.absent == 1 else 'are'} not in the list"
        )
    if out is not None:
        with table_writer(out, delimiter="\t", numbers=_NUMBERS) as file:
            file.writelines(clustering.lines(shape))
    on_message(clustering.text())
    if report is not None:
        title = Path(terms).name if stream is None else fspath(terms)
        summary, naming = clustering.summary.to_dict(), {}
        if known:
            from medlink.notes.language import NoteLanguages
            from medlink.notes.reading import Note

            kb = known["linker"].kb
            # that of the representatives of the first clusters
            sample = "\n".join(cluster.representative for cluster in islice(clustering.clusters, _SAMPLE))
            summary["language"] = NoteLanguages(kb.languages()).detect(Note("", sample))
            naming = {"kb": kb, "language": summary["language"]}
        clusters = (cluster.to_dict() for cluster in clustering.clusters)
        write_cluster_page(report, clusters, title=title, summary=summary, **naming)
        on_message(f"{fspath(report)}: the page")
    if add_to is not None and decisions is not None:
        _extend(add_to, decisions, on_message)
    return clustering


def _check_options(settings: ClusterListOptions) -> Decisions | None:
    if settings.add_to is not None and settings.decisions is None:
        remedy = "decide on the page of report=..., save, and give the file as decisions=..."
        raise ConfigError("without decisions there is nothing to add to a bundle", remedy=remedy)
    if settings.bundle is None and ("known_at" in settings.model_fields_set or settings.prefer):
        name = "known_at" if "known_at" in settings.model_fields_set else "prefer"
        raise ConfigError("without a bundle no concept is known", remedy=f"name a bundle, or leave {name} out")
    return None if settings.decisions is None else read_decisions(settings.decisions)


def _read(
    terms: StrPath, stream: BinaryIO | None, columns: Columns | None, encoding: str, share: float, progress: Progress
) -> Terms:
    done, size = 0, Path(terms).stat().st_size if stream is None and Path(terms).is_file() else 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress("reading", done, size)

    return read_terms(
        fspath(terms), stream=stream, columns=columns, encoding=encoding, max_bad_share=share, progress=report
    )


def _load_known(bundle: StrPath, prefer: Sequence[str]) -> tuple[dict[str, Any], Any]:
    from medlink.linking import Linker

    linker = Linker(bundle, prefer=prefer)

    @lru_cache(maxsize=100_000)
    def parents(concept_id: str) -> list[tuple[str, str]]:
        ids = list(linker.kb.parents(concept_id))
        names = linker.kb.preferred_names(ids, None)
        return [(parent, names.get(parent, parent)) for parent in ids]

    return {"linker": linker, "parents": parents}, linker.bundle.encoder


def _extend(bundle: StrPath, decisions: Decisions, on_message: Callable[[str], object]) -> None:
    from medlink.index import Bundle, extend_bundle
    from medlink.kb import Input

    with Bundle(bundle).kb as known:
        new = sorted(id_ for id_ in decisions.accepted if id_.startswith(NEW_ID) and id_ not in known)
    added = extend_bundle(Path(bundle), [Input("table", Path(decisions.path))])
    for given in added.kb.inputs:
        for line in given.lines():
            on_message(line)
    on_message(
        f"{fspath(bundle)}: {pluralize(added.kb.names, 'name')} and {pluralize(added.kb.concepts, 'concept')} added"
    )
    if new:
        on_message(f"accepted new ids: {', '.join(new[:_MAX_IDS])}{' ...' * (len(new) > _MAX_IDS)}")
