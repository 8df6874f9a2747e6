"""Linking: a mention to ranked concepts with a score and NIL. The options alone load no library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medlink.linking.options import LinkOptions

if TYPE_CHECKING:
    from medlink.linking.linker import Linker, Mention

__all__ = ["LinkOptions", "Linker", "Mention"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from medlink.linking import linker

    return getattr(linker, name)
