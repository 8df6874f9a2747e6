"""Compile the tables of the lexicon into the files by which names are read.

    python benchmarks/compile_lexicon.py

It writes ``families.marisa`` and ``families.json`` beside the tables, in ``medlink/resources/lexicon``: wanted after
any change of a table there, or of the rules of :mod:`medlink.language.lexicon.forms`.
"""

from __future__ import annotations

from medlink.language.lexicon import Lexicon
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.lexicon import SHIPPED

if __name__ == "__main__":
    LexiconForms.compile(Lexicon()).save(SHIPPED)
