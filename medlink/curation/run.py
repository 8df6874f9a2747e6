"""A term list to clusters and decisions, in one call: what ``medlink cluster`` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from medlink.clustering import Clustering, ClusterOptions, Columns, TermClusterer, Terms, read_terms
from medlink.clustering.clusterer import Progress
from medlink.clustering.clusters import Shape
from medlink.curation.applied_decisions import apply
from medlink.curation.decisions import NEW_ID, Decisions, read_decisions
from medlink.curation.review_page import write_report
from medlink.errors import ConfigError
from medlink.files.atomic import check_targets, whole_text
from medlink.files.problems import counted
from medlink.models.encoders import parted

if TYPE_CHECKING:
    from medlink.kb import KnowledgeBase

StrPath = str | Path
_IDS = 5  # new ids that are said
_SAMPLE = 1000  # clusters that tell the language of a list


def cluster_list(
    terms: StrPath,
    *,
    stream: BinaryIO | None = None,
    columns: Columns | None = None,
    encoding: str = "utf-8",
    encoder: StrPath | None = None,
    bundle: StrPath | None = None,
    prefer: Sequence[str] = (),
    decisions: StrPath | None = None,
    add_to: StrPath | None = None,
    out: StrPath | None = None,
    shape: Shape = "tsv",
    report: StrPath | None = None,
    say: Callable[[str], object] = lambda line: None,
    progress: Progress = lambda step, done, whole: None,
    **options: Any,
) -> Clustering:
    """Cluster a term list, apply what a reader decided, write what is asked for, and add it to a bundle.

    What cannot work is refused before the long work starts. The files are written before the bundle is changed.

    Args:
        terms: the list, or what to call ``stream``.
        stream: where to read instead of opening ``terms``.
        columns, encoding: see :func:`medlink.clustering.read_terms`.
        encoder: what :func:`medlink.load_encoder` takes; by default that of the bundle, else the built-in one.
        bundle: where the known concepts are.
        prefer: sources whose concept is shown where several have the same, as for :class:`medlink.Linker`.
        decisions: a file that was saved on the page; see :func:`medlink.curation.apply`.
        add_to: a bundle that takes in what the decisions accept.
        out, shape: file for the clusters, and how they are written, see :meth:`medlink.clustering.Clustering.lines`.
        report: file for the page to look through the clusters and decide.
        say: called with each line that a reader should see, such as the summary.
        progress: called with step, done and whole.
        options: those of :class:`medlink.clustering.ClusterOptions`.

    Returns:
        The clusters, with the decisions applied.

    Raises:
        ConfigError: options do not fit together, or a file cannot be written.
        InputError: the list or the decisions cannot be read, or the bundle cannot take the decisions in.
        BundleError: a bundle is missing or broken.
    """
    from medlink.index import Bundle
    from medlink.models import load_encoder

    settings = ClusterOptions(**options)
    # the pooling that an encoder is named with is no part of its place
    bare = None if encoder is None else parted(encoder)[1]
    read_too = [path for path in (decisions, bundle, add_to, bare) if path is not None]
    check_targets({"the output": out, "the page": report}, [terms if stream is None else _number(stream), *read_too])
    if add_to is not None and decisions is None:
        remedy = "decide on the page of report=..., save, and give the file as decisions=..."
        raise ConfigError("without decisions there is nothing to add to a bundle", remedy=remedy)
    if bundle is None and ("known_at" in options or prefer):
        without = "known_at" if "known_at" in options else "prefer"
        raise ConfigError("without a bundle no concept is known", remedy=f"name a bundle, or leave {without} out")
    decided = read_decisions(decisions) if decisions is not None else None
    if add_to is not None and decided is not None:
        target = Bundle(add_to)
        # it is needed in the end, and may be missing
        _ = target.encoder
        decided.check_accepted(lambda concept_id: target.kb.get(concept_id) is not None)
    known, bundled = ({}, None) if bundle is None else _known(bundle, prefer)
    used = load_encoder(encoder or "builtin") if encoder is not None or bundled is None else bundled
    read = _read(terms, stream, columns, encoding, progress)
    for note in read.notes:
        say(note)
    clusterer = TermClusterer(used, progress=progress, **known, **dict(settings))
    found = clusterer.cluster(read)
    if decided is not None:
        applied = apply(found, decided, used)
        found = applied.clustering
        say(
            f"{decided.path}: {counted(applied.decided, 'term')} decided, {applied.rejected:,} of them rejected; "
            f"{counted(applied.absent, 'term')} of the file {'is' if applied.absent == 1 else 'are'} not in the list"
        )
    if out is not None:
        with whole_text(out) as file:
            file.writelines(found.lines(shape))
    say(found.text())
    if report is not None:
        title = Path(terms).name if stream is None else fspath(terms)
        summary, named = found.summary.to_dict(), {}
        if known:
            kb = known["linker"].kb
            summary["language"] = _language(found, kb)
            named = {"kb": kb, "language": summary["language"]}
        write_report(report, (one.to_dict() for one in found.clusters), title=title, summary=summary, **named)
        say(f"{fspath(report)}: the page")
    if add_to is not None and decided is not None:
        _add(decided, add_to, say)
    return found


def _read(terms: StrPath, stream: BinaryIO | None, columns: Columns | None, encoding: str, progress: Progress) -> Terms:
    done, size = 0, Path(terms).stat().st_size if stream is None and Path(terms).is_file() else 0

    def read(count: int) -> None:
        nonlocal done
        done += count
        progress("reading", done, size)

    return read_terms(fspath(terms), stream=stream, columns=columns, encoding=encoding, progress=read)


def _number(stream: BinaryIO) -> int:
    with suppress(OSError):
        return stream.fileno()
    return -1


def _known(bundle: StrPath, prefer: Sequence[str]) -> tuple[dict[str, Any], Any]:
    from medlink.linking import Linker

    linker = Linker(bundle, prefer=prefer)

    @lru_cache(maxsize=100_000)
    def parents(concept_id: str) -> list[tuple[str, str]]:
        ids = list(linker.kb.parents(concept_id))
        names = linker.kb.preferred_names(ids, None)
        return [(parent, names.get(parent, parent)) for parent in ids]

    return {"linker": linker, "parents": parents}, linker.bundle.encoder


def _language(found: Clustering, kb: KnowledgeBase) -> str:
    from medlink.notes.language import NoteLanguages
    from medlink.notes.reading import Note

    sample = "\n".join(one.representative for one in islice(found.clusters, _SAMPLE))
    return NoteLanguages(kb.languages()).of(Note("", sample))


def _add(decided: Decisions, bundle: StrPath, say: Callable[[str], object]) -> None:
    from medlink.index import Bundle, extend_bundle
    from medlink.kb import Input

    with Bundle(bundle).kb as known:
        new = sorted(one for one in decided.accepted if one.startswith(NEW_ID) and one not in known)
    added = extend_bundle(Path(bundle), [Input("table", Path(decided.path))])
    for given in added.kb.inputs:
        for line in given.lines():
            say(line)
    say(f"{fspath(bundle)}: {counted(added.kb.names, 'name')} and {counted(added.kb.concepts, 'concept')} added")
    if new:
        say(f"accepted new ids: {', '.join(new[:_IDS])}{' ...' * (len(new) > _IDS)}")
