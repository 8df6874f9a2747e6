"""What the commands import, imported once: every process of these tests is forked from one that has it."""

from threading import RLock

import faiss  # noqa: F401
import hypothesis  # noqa: F401
import pytest  # noqa: F401
from tqdm import tqdm

import medlink.cli.cluster
import medlink.cli.demo
import medlink.cli.evaluate
import medlink.cli.index
import medlink.cli.kb
import medlink.cli.link
import medlink.cli.main
import medlink.cli.train
import medlink.clustering
import medlink.curation
import medlink.curation.page
import medlink.evaluation
import medlink.index
import medlink.kb
import medlink.linking
import medlink.linking.demo
import medlink.notes.link

from . import children, states  # noqa: F401
from .faults import FULL

if FULL:
    # several seconds, for the writers that only the full run has
    import medlink.training.coderpp.trainer
    import medlink.training.static.trainer  # noqa: F401

# a lock of threads: its own is shared by processes, and those that are killed leave it behind
tqdm.set_lock(RLock())
