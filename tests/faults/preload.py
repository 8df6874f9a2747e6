"""Imports of the commands, in the process that all processes of these tests are forked from."""

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
from medlink.language.lexicon.forms import load_shared_forms
from medlink.language.lexicon.lexicon import SHIPPED

from . import children, states  # noqa: F401
from .faults import FULL

if FULL:
    # several seconds, for writers of the full run only
    import medlink.training.coderpp.trainer
    import medlink.training.static.trainer  # noqa: F401

# a lock of threads: the default one is shared by processes, and a killed process never releases it
tqdm.set_lock(RLock())

FORMS = load_shared_forms(SHIPPED)
"""Open in each process, which need not read them."""
