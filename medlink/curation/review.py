"""``Review``: links of notes, codes or clusters on one page, and what a reader decides about them in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from medlink.curation.concepts import concept_row
from medlink.curation.exported import write_gold, write_pairs
from medlink.curation.kept import HEADER, Kept, check_places
from medlink.curation.page import page_parts, write_page
from medlink.curation.review_page import SCRIPTS, review_data
from medlink.curation.server import ReviewServer
from medlink.curation.work import gaps, read_work
from medlink.errors import ConfigError
from medlink.files.folders import StrPath
from medlink.files.whole import check_targets
from medlink.index import Bundle
from medlink.linking import Linker
from medlink.notes.reading import Fields

_FOLDER = "review"


class Review:
    """A review of one file, with the decisions so far.

    Args:
        bundle: an opened bundle, or its folder: whose concepts are shown and searched.
        links: links of ``medlink link``, codes, or clusters of ``medlink cluster --format jsonl``.
        notes: the notes of links, as they were given to ``medlink link``.
        decisions: the table of decisions; it need not be there.
        fields: names of the JSONL fields of notes.
        encoding: that of the notes.

    Raises:
        BundleError: the bundle cannot be used.
        ConfigError: the table cannot be written.
        InputError: see :func:`~medlink.curation.work.read_work`; the table cannot be read, or is of other notes.
    """

    def __init__(
        self,
        bundle: Bundle | StrPath,
        links: StrPath,
        *,
        notes: Sequence[str] = (),
        decisions: StrPath | None = None,
        fields: Fields | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(Path(bundle))
        self._reads = [links, *notes, self.bundle.folder]
        check_targets({"the decisions": decisions}, self._reads)
        self.kept = None if decisions is None else Kept(decisions)
        self.work = read_work(links, notes, fields, encoding)
        if self.kept is not None:
            texts = {item: note.text for item, note in self.work.items.items()}
            check_places(self.kept.rows, self.kept.path, texts)

    def gaps(self) -> Iterator[str]:
        """Sentences on what the file has and the bundle lacks."""
        yield from gaps(self.work, self.bundle.kb)

    def write_report(self, path: StrPath) -> None:
        """Write the page as one file, with the decisions so far; what is decided there is kept in it until it is saved.

        Raises:
            ConfigError: the file cannot be written.
        """
        check_targets({"the page": path, "the decisions": None if self.kept is None else self.kept.path}, self._reads)
        decided = "" if self.kept is None else self.kept.content()[0].decode()
        rows = (concept_row(self.bundle.kb, *one) for one in self.work.concepts())
        decisions = "" if decided == HEADER else decided
        data = self._data(concepts=(row for row in rows if row is not None), decisions=decisions)
        write_page(path, _FOLDER, SCRIPTS, self._title(), data)

    def write_pairs(self, path: StrPath) -> int:
        """Write training pairs, see :func:`~medlink.curation.exported.write_pairs`."""
        kept = self._needed(path, "the pairs")
        return write_pairs(path, kept.rows, self.work, self.bundle.kb)

    def write_gold(self, path: StrPath) -> int:
        """Write annotated notes, see :func:`~medlink.curation.exported.write_gold`."""
        kept = self._needed(path, "the gold")
        return write_gold(path, kept.rows, self.work)

    def server(self, port: int = 0) -> ReviewServer:
        """The server of the page, which listens; ``serve_forever`` answers until it is shut down.

        Raises:
            ConfigError: there is no table for the decisions, or the port cannot be used.
        """
        kept = self._needed(None, "")
        page = "".join(page_parts(_FOLDER, SCRIPTS, self._title(), self._data(served=True), served=True))
        return ReviewServer(page.encode("utf-8", "replace"), kept, Linker(self.bundle), port)

    def _data(self, **more: Any) -> Iterator[str]:
        rows, notes = self.work.page_rows(self.bundle.kb), self.work.note_rows()
        return review_data(self.work.kind, self.work.fields, rows, self._summary(), notes=notes, **more)

    def _needed(self, path: StrPath | None, what: str) -> Kept:
        if self.kept is None:
            raise ConfigError("there is no table of decisions", remedy="name one, with -o on the command line")
        if path is not None:
            check_targets({what: path, "the decisions": self.kept.path}, self._reads)
        return self.kept

    def _title(self) -> str:
        return Path(self.work.path).name

    def _summary(self) -> dict[str, int | str]:
        sources = ", ".join(source.release for source in self.bundle.kb.sources())
        notes = {} if not self.work.notes else {"notes": len(self.work.notes)}
        return {**notes, f"{self.work.kind}s": len(self.work.rows), "sources": sources}
