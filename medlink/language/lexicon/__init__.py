"""The lexicon: clinical words in three languages, in tables that a site can extend.

``docs/reference/lexicon.md`` describes the columns of the shipped tables (``resources/lexicon``) and their sources. A
site's tables may have columns of further languages.
"""

from medlink.language.lexicon.lexicon import Lexicon
from medlink.language.lexicon.tables import Abbreviation, LexiconEntry, Member, Opposite, to_dict

__all__ = ["Abbreviation", "Lexicon", "LexiconEntry", "Member", "Opposite", "to_dict"]
