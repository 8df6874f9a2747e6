"""Linking: a mention to ranked concepts with a score and NIL."""

from medlink.linking.linker import Linker, Mention
from medlink.linking.options import LinkOptions

__all__ = ["LinkOptions", "Linker", "Mention"]
