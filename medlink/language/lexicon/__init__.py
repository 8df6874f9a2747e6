"""The lexicon: what clinicians write in three languages, as tables that a house may add to.

The tables of ``resources/lexicon`` are data of medlink's own; ``docs/reference/lexicon.md`` says what each column holds
and how they were read. Columns of other languages may be added.
"""

from medlink.language.lexicon.lexicon import Lexicon
from medlink.language.lexicon.tables import Abbreviation, Entry, Member, Opposite, to_dict

__all__ = ["Abbreviation", "Entry", "Lexicon", "Member", "Opposite", "to_dict"]
