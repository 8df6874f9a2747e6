"""One error family: every error a user can cause is a :class:`MedlinkError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath


class MedlinkError(Exception):
    """What went wrong, where (a file or folder, and a 1-based line in it), and what the user can do.

    Message and remedy are one sentence each, without a full stop.

    Examples:
        >>> str(MedlinkError("3 columns, 18 expected", path="MRCONSO.RRF", line=7, remedy="fetch it again"))
        'MRCONSO.RRF:7: 3 columns, 18 expected. Remedy: fetch it again.'
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else fspath(path)
        self.line = line
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        where = "" if self.path is None else self.path
        if self.line is not None:
            where += f":{self.line}"
        text = f"{where}: {self.message}" if where else self.message
        if self.remedy:
            text += f". Remedy: {self.remedy}."
        return text


class InputError(MedlinkError):
    """A file or text handed in by the user cannot be used."""


class ConfigError(MedlinkError):
    """An option is unknown, misspelt, or has a value outside its range."""


class BundleError(MedlinkError):
    """Parts of a bundle are missing, damaged, or do not belong together."""


class KnowledgeBaseError(MedlinkError):
    """A knowledge base file is missing, damaged, or of another schema version."""


class EncoderError(MedlinkError):
    """An encoder folder is missing, damaged, or does not fit where it is used."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Let a library that is imported in the block and not installed be a :class:`ConfigError`, which says what needs it
    and names the extra of ``setup.cfg`` that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "medlink":
            raise
        clone = ",".join(dict.fromkeys(("cpu", extra)))
        remedy = f'pip install "medlink[{extra}]", in a clone pip install -c constraints.txt ".[{clone}]"'
        raise ConfigError(f"{what} needs {error.name}, which is not installed", remedy=remedy) from error
