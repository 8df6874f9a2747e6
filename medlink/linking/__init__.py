"""Linking: mentions to ranked concepts with scores and NIL. Importing the options alone loads no library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazy_getattr
from medlink.linking.options import LinkOptions

if TYPE_CHECKING:
    from medlink.linking.candidates import Mention
    from medlink.linking.linker import Linker

__all__ = ["LinkOptions", "Linker", "Mention"]
__getattr__ = lazy_getattr(__name__, {"linker": "Linker", "candidates": "Mention"})
