"""A new release in a bundle: its knowledge base is replaced, and its index follows by what is new.

The names that stay are not embedded again. All else is as in a build, and both parts count when the manifest that names
them takes its place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from medlink import __version__
from medlink.bundles import parts
from medlink.bundles.places import KB_FILE
from medlink.errors import ConfigError
from medlink.files.whole import check_targets
from medlink.index.bundle import Bundle, fill_index, finish, present, reopened, say_left_out, take
from medlink.index.embedded import same_rows
from medlink.index.manifest import BundleManifest, facts
from medlink.index.part import Part
from medlink.index.vectors import choose
from medlink.index.waiting import lost_names
from medlink.kb import BuildReport, ChangeReport, Input, KnowledgeBase, build_kb, compare_kbs

logger = logging.getLogger("medlink")


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What :func:`update_bundle` did.

    ``kb`` is what became of the inputs, ``None`` where there were none; ``changes`` what the release changes; ``names``
    are the distinct names of the index now, ``embedded`` those of them that were embedded anew.
    """

    path: str
    kb: BuildReport | None
    changes: ChangeReport
    names: int
    embedded: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def update_bundle(
    folder: str | Path,
    inputs: Sequence[Input] = (),
    *,
    changes: str | Path | None = None,
    languages: Iterable[str] | None = None,
    under: Iterable[str] = (),
    not_under: Iterable[str] = (),
    max_bad_share: float = 0.01,
    threads: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    say: Callable[[str], object] = logger.warning,
) -> UpdateReport:
    """Replace the knowledge base of a bundle by one of a new release, and build its index anew from what is known.

    Links are those of a bundle that was built with the new release; encoder, weights, the words of a house and a kind
    of index that was named stay. What was added to the bundle is not in it unless the inputs bring it. While another
    process writes the bundle, this one waits. Killed at any moment, the bundle is the old one or the new one.

    Args:
        folder: the bundle.
        inputs: the new release; see :func:`medlink.kb.build_kb`. Without one the knowledge base that waits in the
            folder is taken in, and without that the bundle's own with all that was added to it.
        changes: where to write what differs; see :func:`medlink.kb.compare_kbs`.
        languages, under, not_under, max_bad_share: as for :func:`medlink.kb.build_kb`; all but the last only with
            ``inputs``.
        threads, progress: as for :func:`medlink.index.build_bundle`.
        say: called, when all is done, with a sentence on what the bundle leaves out; else it is logged.

    Raises:
        BundleError: the bundle or its encoder cannot be used.
        ConfigError: an option is unknown or needs inputs, the folder or the changes cannot be written, or there are no
            names.
        InputError: an input cannot be used.
        KnowledgeBaseError: a knowledge base is damaged, or cannot be written.
    """
    began = time.perf_counter()
    given, folder = folder, Path(folder).absolute()
    # refused before anything is made
    named = {"languages": languages is not None, "under": under, "not-under": not_under}
    if not inputs and (unused := [f"--{name}" for name, given_one in named.items() if given_one]):
        raise ConfigError(
            f"{', '.join(unused)} is for files of a release, and there are none", remedy="name them, or leave it out"
        )
    parts.read_state(folder, BundleManifest)
    check_targets({"the output": changes}, [folder, *(one.path for one in inputs)])
    with parts.writing(folder) as work:
        old = present(folder, work)
        bundle = reopened(folder, parts.read_state(folder, BundleManifest))  # what those wrote that this one waited for
        encoder, main = bundle.encoder, bundle.index.parts[0]  # refused before the work where it cannot be used
        report: BuildReport | None = None
        if inputs:
            (work / "kb").mkdir()
            report = build_kb(
                work / "kb" / KB_FILE,
                inputs,
                languages=languages,
                under=under,
                not_under=not_under,
                max_bad_share=max_bad_share,
            )
            own = parts.place(folder, work / "kb", "kb", work)
        else:
            own = take(folder, work, None, old)
        kind, memory = main.manifest["kind"], main.manifest.get("memory")
        with KnowledgeBase(folder / own["folder"] / KB_FILE) as store:
            doubted = fill_index(
                work,
                store,
                encoder,
                bundle.index.forms,
                # one that a build chose is chosen again, for the size may ask for another
                kind=None if kind == choose(len(main.names), encoder.dimension, memory) else kind,
                memory=memory,
                threads=threads,
                progress=progress,
                known=bundle.index.parts,
            )
            described = facts(store)
        new = _embedded(bundle, Part(work / "index"))
        manifest = {
            **bundle.manifest,
            "medlink": __version__,
            "kb": described,
            "doubted": doubted,
            "parts": {
                "kb": own,
                "index": parts.place(folder, work / "index", "index", work),
                "encoder": bundle.manifest["parts"]["encoder"],
            },
        }
        differs = compare_kbs(bundle.kb.path, folder / own["folder"] / KB_FILE, changes)
        left_out = lost_names(folder, old, folder / own["folder"])
        bundle.release()
        finish(folder, work, manifest)
    say_left_out(Path(given), doubted, left_out, say)
    made = reopened(folder, manifest)
    if report is not None:
        report = replace(report, path=str(made.kb.path))
    seconds = round(time.perf_counter() - began, 3)
    return UpdateReport(str(Path(given)), report, differs, len(made.index), new, seconds)


def _embedded(bundle: Bundle, index: Part) -> int:
    """How many names of a new index no part of the bundle's own has."""
    new = np.ones(len(index.names), dtype=bool)
    for part in bundle.index.parts:
        new &= same_rows(index.names, part.names) < 0
    return int(np.count_nonzero(new))
