"""Damaged arrays of an index: whatever they raise becomes one error that says what helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from medlink.errors import BundleError

_DAMAGE = (LookupError, ValueError, ArithmeticError, RuntimeError, MemoryError)
"""What arrays raise, at whatever is done with them, that do not hold what was written."""

T = TypeVar("T")


def damage_is_named(kind: type[T]) -> type[T]:
    """Let the methods of a class with a ``folder`` raise :class:`BundleError` for what damaged arrays raise."""
    for name, method in list(vars(kind).items()):
        if callable(method) and (name == "__init__" or name[0] != "_"):
            setattr(kind, name, _named(method))
    return kind


def _named(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def named(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except _DAMAGE as error:
            # its text may be that of a note
            raise BundleError(
                f"what the index holds does not fit together ({type(error).__name__})",
                path=self.folder,
                remedy="run verify_bundle(), which names the damaged file",
            ) from error

    return named
