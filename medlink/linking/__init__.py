"""Linking: a mention to ranked concepts with a score and NIL. The options alone load no library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazily
from medlink.linking.options import LinkOptions

if TYPE_CHECKING:
    from medlink.linking.candidates import Mention
    from medlink.linking.linker import Linker

__all__ = ["LinkOptions", "Linker", "Mention"]
__getattr__ = lazily(__name__, {"linker": "Linker", "candidates": "Mention"})
