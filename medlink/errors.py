"""The errors of medlink; every error that a user can cause is a :class:`MedlinkError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import PurePath
from traceback import walk_tb


class MedlinkError(Exception):
    """An error with its place and its remedy.

    Args:
        message, remedy: one sentence each, without a full stop.
        path: a file or folder.
        line: number of a line of the file, from 1.

    Examples:
        >>> str(MedlinkError("3 columns, 18 expected", path="MRCONSO.RRF", line=7, remedy="fetch it again"))
        'MRCONSO.RRF:7: 3 columns, 18 expected. Remedy: fetch it again.'
    """

    def __init__(
        self, message: str, *,
        path: str | PathLike[str] | None = None, line: int | None = None, remedy: str | None = None,
    ) -> None:  # fmt: skip
        self.message, self.line, self.remedy = message, line, remedy
        self.path = None if path is None else fspath(path)
        super().__init__(message)

    def __str__(self) -> str:
        where = (self.path or "") + ("" if self.line is None else f":{self.line}")
        remedy = f". Remedy: {self.remedy}." if self.remedy else ""
        return f"{where}{': ' * bool(where)}{self.message}{remedy}"


class InputError(MedlinkError):
    """A file or text of the user cannot be used."""


class ConfigError(MedlinkError):
    """An option is unknown, misspelt, or out of range."""


class MissingLibraryError(ConfigError):
    """A library of an extra is not installed, or medlink has none for a database."""


class BundleError(MedlinkError):
    """Parts of a bundle are missing, damaged, or do not belong together."""


class KnowledgeBaseError(MedlinkError):
    """A knowledge base file is missing, damaged, or of another schema version."""


class EncoderError(MedlinkError):
    """An encoder folder is missing, damaged, or does not fit where it is used."""


def describe_unexpected(error: BaseException) -> str:
    """Return the type of an error and the place in the code, without the message, which may contain text of a note."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    return f"unexpected {type(error).__qualname__} at {PurePath(frame.f_code.co_filename).name}:{line}"


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn a failed import in the block into a :class:`MissingLibraryError` that names the extra of ``setup.cfg``.

    ``what`` is the feature that needs the library.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "medlink":
            raise
        clone = ",".join(dict.fromkeys(("cpu", extra)))
        remedy = f'pip install "medlink[{extra}]", in a clone pip install -c constraints.txt ".[{clone}]"'
        raise MissingLibraryError(f"{what} needs {error.name}, which is not installed", remedy=remedy) from error
