"""A new release in the place of an old one, with what differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from medlink.bundles.places import KB_FILE
from medlink.files.whole import check_targets
from medlink.kb.build import build_kb
from medlink.kb.changes import ChangeReport, compare_kbs, read_of
from medlink.kb.report import BuildReport, Input
from medlink.kb.store import KnowledgeBase


def update_kb(
    path: str | PathLike[str],
    inputs: Sequence[Input],
    *,
    changes: str | PathLike[str] | None = None,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    progress: bool | None = False,
) -> tuple[BuildReport, ChangeReport]:
    """Build a knowledge base from new release files, compare it with the one that is there, and put it in its place.

    Killed at any moment, the knowledge base is the old one or the new one. Of a bundle the new one waits in its folder
    to be taken in, as that of a build does.

    Args:
        path: the knowledge base: a file, a bundle, or a folder with ``kb.sqlite``.
        changes: where to write what differs; see :func:`~medlink.kb.changes.compare_kbs`.
        inputs, languages, under, not_under, max_bad_share, progress: as for :func:`~medlink.kb.build_kb`, whose errors
            are raised.

    Raises:
        KnowledgeBaseError: there is no knowledge base at ``path``.
    """
    target, found = Path(path), list[ChangeReport]()
    with KnowledgeBase(target) as old:
        # refused before the work
        check_targets({"the output": changes}, [*read_of(path, old), *(one.path for one in inputs)])
        report = build_kb(
            target / KB_FILE if target.is_dir() else target,
            inputs,
            languages=languages,
            under=under,
            not_under=not_under,
            max_bad_share=max_bad_share,
            progress=progress,
            before=lambda new: found.append(compare_kbs(old.path, new, changes)),
        )
    return report, found[0]
