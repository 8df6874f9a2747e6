"""Term lists: millions of short texts in a few arrays, and how they are read."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, overload

import numpy as np
from numpy.typing import NDArray

from medlink.errors import InputError
from medlink.files.intake import found_columns
from medlink.files.lines import Left, Lines, text_encoding
from medlink.language.tags import language_tag

LONGEST = 2_000
"""Characters of the longest line that is taken for a term."""
_TERM, _FREQUENCY, _ID, _LANGUAGE = ("term", "name", "text", "mention"), ("frequency", "count"), ("id",), ("language",)
_DIGITS = 12
_LANGUAGES = (1 << 15) - 1  # a place in the list of languages is a number of 16 bits
# What mends a list of which nothing is left, by what is said of its lines.
_REMEDIES = {
    "--encoding": "give it as UTF-8, or name its encoding with --encoding (latin-1)",
    "empty": "put one term on each line",
    "columns": "give each line as many cells as the first",
    "frequency": "give whole numbers, or name their column with --frequency-column",
    "language is": "give tags such as de, or name their column with --language-column",
    "longer": "put one term on each line",
}

_Row = tuple[int, str, int, str, str]  # line, text, frequency, language, id


class Texts(Sequence[str]):
    """Texts in one block of bytes: some 30 bytes for a term where a ``str`` takes 80 and its place in a list 8.

    >>> list(Texts(["Fieber", "fiebre"])), Texts(["a", "b"])[1]
    (['Fieber', 'fiebre'], 'b')
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._block = bytearray()
        self._ends = array("q")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._block += text.encode("utf-8")
        self._ends.append(len(self._block))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        return self._block[self._ends[place - 1] if place else 0 : self._ends[place]].decode("utf-8")


@dataclass(slots=True)
class Terms:
    """Distinct rows of a term list.

    ``frequency (n,)`` adds up equal rows; ``language`` holds places in ``languages``, whose first is ``""``. ``ids`` is
    empty where the list has none. ``notes`` say what was left out, by line number and without a word of the list.
    """

    texts: Texts
    frequency: NDArray[np.int64]
    language: NDArray[np.int16]
    languages: tuple[str, ...] = ("",)
    ids: Texts = field(default_factory=Texts)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, str, str]], notes: Sequence[str] = ()) -> Terms:
        """Terms from rows of text, frequency, language and id; equal rows become one.

        >>> terms = Terms.of([("Fieber", 2, "de", ""), ("Fieber", 3, "de", ""), ("fever", 1, "en", "")])
        >>> list(terms.texts), terms.frequency.tolist()
        (['Fieber', 'fever'], [5, 1])
        """
        texts, ids, frequency, language = Texts(), Texts(), array("q"), array("h")
        places: dict[str, int] = {"": 0}
        seen: dict[bytes, int] = {}
        any_id = False
        for text, count, tag, identifier in rows:
            key = blake2b(f"{len(text)} {text}{tag} {identifier}".encode(), digest_size=12).digest()
            place = seen.setdefault(key, len(texts))
            if place < len(texts):
                frequency[place] += count
                continue
            texts.append(text)
            ids.append(identifier)
            any_id = any_id or bool(identifier)
            frequency.append(count)
            language.append(places.setdefault(tag, len(places)))
        return cls(
            texts,
            np.array(frequency, dtype=np.int64),
            np.array(language, dtype=np.int16),
            tuple(places),
            ids if any_id else Texts(),
            tuple(notes),
        )

    def ordered(self) -> Terms:
        """The same rows by text, language and id, so that nothing made from them depends on the order of the list.

        >>> list(Terms.of([("b", 1, "", ""), ("a", 1, "", "")]).ordered().texts)
        ['a', 'b']
        """
        tags = sorted(self.languages[1:])
        place = np.array([0, *(1 + tags.index(tag) for tag in self.languages[1:])], dtype=np.int16)
        language = place[self.language]
        named = len(self.ids) > 0
        order = sorted(
            range(len(self)), key=lambda row: (self.texts[row], language[row], self.ids[row] if named else "")
        )
        return Terms(
            Texts(self.texts[row] for row in order),
            self.frequency[order],
            language[order],
            ("", *tags),
            Texts(self.ids[row] for row in order) if named else Texts(),
            self.notes,
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a table; where one is ``None`` the usual names are looked for."""

    term: str | None = None
    frequency: str | None = None
    id: str | None = None
    language: str | None = None

    def named(self) -> bool:
        """Whether any column is named, which makes any input a table."""
        return any((self.term, self.frequency, self.id, self.language))


def read_terms(
    path: str | Path,
    *,
    stream: BinaryIO | None = None,
    columns: Columns | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int], object] | None = None,
) -> Terms:
    """Read a term list: one term a line, or a table with a header.

    A file whose name ends in ``.tsv`` or ``.csv`` is a table, as is any input for which a column is named: TSV without
    quoting where the header has a tab, else CSV with ``,`` or ``;``. A line that cannot be used is left out and noted
    by its number. A file is read as long as it was when it was opened. Lines end as :class:`Lines` says.

    Args:
        path: the file, or what to call ``stream``.
        stream: where to read instead of opening ``path``.
        columns: names of the columns.
        encoding: of the text.
        progress: called with the bytes taken in since the last call.

    Returns:
        Distinct terms.

    Raises:
        InputError: the file cannot be read, has no usable line, lacks a column or has it twice, or a quoted cell of
            it does not end.
        ConfigError: the encoding is not known, or none of lines of text.
    """
    columns = columns or Columns()
    known = text_encoding(encoding)
    table = columns.named() or str(path).lower().endswith((".tsv", ".csv"))
    try:
        if stream is not None:
            return _read(Lines(stream, str(path), known, table, progress), columns)
        with open(path, "rb") as file:
            return _read(Lines(file, str(path), known, table, progress), columns)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path, remedy="name a text file") from error


def _read(lines: Lines, columns: Columns) -> Terms:
    """Terms of a list or a table."""
    rows = _table(lines, columns) if lines.table else ((lines.line, text, 1, "", "") for text in lines)
    terms = Terms.of(_usable(rows, lines.left))
    terms.notes = tuple(lines.notes())
    if not len(terms):
        counts = lines.left.counts
        most = min(counts, key=lambda reason: (-counts[reason], reason), default="")
        raise InputError(
            "no usable line" + (f"; {terms.notes[0].removeprefix(lines.path + ': ')}" if terms.notes else ""),
            path=lines.path,
            remedy=next((remedy for part, remedy in _REMEDIES.items() if part in most), "mend the lines that are named")
            if counts
            else "put one term on each line" + (" below the header" if lines.table else ""),
        )
    return terms


def _usable(rows: Iterable[_Row], left: Left) -> Iterator[tuple[str, int, str, str]]:
    """Rows with a term of a length that terms have."""
    languages: set[str] = set()
    for line, text, count, language, identifier in rows:
        term = " ".join(text.replace("\x00", " ").split())
        languages.add(language)
        if not term:
            left.out("empty", line)
        elif len(term) > LONGEST:
            left.out(f"longer than {LONGEST:,} characters", line)
        elif len(languages) > _LANGUAGES:
            languages.discard(language)
            left.out(f"more than {_LANGUAGES:,} languages", line)
        else:
            yield term, count, language, identifier


def _table(lines: Lines, columns: Columns) -> Iterator[_Row]:
    """Rows of a table."""
    texts = iter(lines)
    first = next(texts, "")
    cells: Iterable[tuple[list[int], list[str]]]
    if "\t" in first or lines.path.lower().endswith(".tsv"):
        header, cells = first.split("\t"), (([lines.line], text.split("\t")) for text in texts)
    else:
        separator = ";" if first.count(";") > first.count(",") else ","
        try:
            header = next(csv.reader([first], delimiter=separator, strict=True), [])
        except csv.Error as error:
            raise InputError(f"is no CSV: {error}", path=lines.path, line=1, remedy="mend the first line") from error
        cells = _quoted(texts, lines, separator)
    names = [name.strip().lower() for name in header]
    term = _place(names, columns.term, _TERM, lines.path)
    if term is None:
        raise InputError(
            f"no column {' or '.join(_TERM)}; found {found_columns(names)}",
            path=lines.path,
            line=1,
            remedy="name the column of the terms with --column",
        )
    frequency = _place(names, columns.frequency, _FREQUENCY, lines.path)
    identifier = _place(names, columns.id, _ID, lines.path)
    language = _place(names, columns.language, _LANGUAGE, lines.path)
    for span, row in cells:
        if len(row) != len(header):
            for line in span:
                lines.left.out("empty" if not any(row) else f"not {len(header)} columns", line)
            continue
        count = row[frequency].strip().lstrip("0") if frequency is not None else "1"
        # a number of thousands of digits is not even looked at
        if not count.isdecimal() or len(count) > _DIGITS:
            lines.left.out(f"the frequency is no number from 1 to {_DIGITS} digits", span[0])
            continue
        code = row[language].strip() if language is not None else ""
        tag = language_tag(code) if code else ""
        if tag is None:
            lines.left.out("the language is no BCP 47 tag", span[0])
            continue
        yield span[0], row[term], int(count), tag, row[identifier].strip() if identifier is not None else ""


def _quoted(texts: Iterable[str], lines: Lines, separator: str) -> Iterator[tuple[list[int], list[str]]]:
    """Rows of a CSV with the numbers of their lines."""
    span: list[int] = []

    def numbered() -> Iterator[str]:
        """Lines as the csv module wants them, with their numbers noted."""
        for text in texts:
            span.append(lines.line)
            yield text + "\n"

    rows = csv.reader(numbered(), delimiter=separator, strict=True)
    while True:
        span.clear()
        try:
            cells = next(rows, None)
        except csv.Error as error:
            large = "field larger" in str(error)
            if "unexpected end" in str(error) or (large and len(span) > 1):
                raise InputError(
                    "a quoted cell does not end",
                    path=lines.path,
                    line=span[0],
                    remedy="close the quote, or give the list as TSV, which has no quoting",
                ) from error
            for line in span:
                lines.left.out(
                    f"a cell of more than {csv.field_size_limit():,} characters" if large else "broken quoting", line
                )
            continue
        if cells is None:
            return
        yield list(span), cells


def _place(header: Sequence[str], wanted: str | None, usual: Sequence[str], path: str) -> int | None:
    """Place of a column; one that was asked for by name must be there."""
    name = next((one for one in usual if one in header), None) if wanted is None else wanted.strip().lower()
    if name is None:
        return None
    if name not in header:
        raise InputError(
            f"no column {wanted!r}; found {found_columns(header)}",
            path=path,
            line=1,
            remedy="name a column of the first line",
        )
    if header.count(name) > 1:
        raise InputError(f"the column {name} is there twice", path=path, line=1, remedy="rename one of them")
    return list(header).index(name)
