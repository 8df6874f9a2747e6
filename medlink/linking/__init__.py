"""Linking: a mention to ranked concepts with a score and NIL, in stages."""

from medlink.linking.linker import Linker
from medlink.linking.mention import Mention
from medlink.linking.options import LinkOptions

__all__ = ["LinkOptions", "Linker", "Mention"]
