"""Linking: a mention to ranked concepts with a score and NIL."""

from medlink.linking.linker import Linker, Mention

__all__ = ["Linker", "Mention"]
