"""Report damaged arrays of an index as one error."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from medlink.errors import BundleError

# errors of operations on damaged arrays
_DAMAGE = (LookupError, ValueError, ArithmeticError, RuntimeError, MemoryError)
_T = TypeVar("_T")


def reporting_damage(cls: type[_T]) -> type[_T]:
    """Make the methods of a class with a ``folder`` raise :class:`BundleError` for damaged arrays."""
    for name, method in list(vars(cls).items()):
        if callable(method) and (name == "__init__" or name[0] != "_"):
            setattr(cls, name, _wrapped(method))
    return cls


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def wrapped(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except _DAMAGE as error:
            # without its text, which may quote a note
            raise BundleError(
                f"the files of the index do not fit together ({type(error).__name__})",
                path=self.folder,
                remedy="run verify_bundle(), which names the damaged file",
            ) from error

    return wrapped
