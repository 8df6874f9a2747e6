"""Linking: a mention to ranked concepts with a score and NIL. The options alone load no library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medlink.lazy import lazily
from medlink.linking.options import LinkOptions

if TYPE_CHECKING:
    from pathlib import Path

    from medlink.linking.linker import Linker
    from medlink.linking.mention import Mention

__all__ = ["LinkOptions", "Linker", "Mention", "load"]
__getattr__ = lazily(__name__, {"linker": "Linker", "mention": "Mention"})


def load(bundle: str | Path, **options: Any) -> Linker:
    """Open a bundle for linking: memory-mapped, read-only, in well under a second.

    Args:
        bundle: a folder made by ``medlink index build``.
        options: fields of :class:`medlink.LinkOptions`, such as ``threshold``, ``language`` and ``ranker``.

    Raises:
        BundleError: the parts of the bundle are missing or do not belong together.
        ConfigError: an option is unknown or out of range, or names what the bundle does not have.
    """
    from medlink.linking.linker import Linker

    return Linker(bundle, **options)
