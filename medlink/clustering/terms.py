"""Term lists: millions of short texts in a few arrays, how they are read, and which rows are one form."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, overload

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.graph import components, numbered
from medlink.errors import InputError
from medlink.files.escapes import from_cell
from medlink.files.problems import GRACE, Problems
from medlink.files.streams import LineFile
from medlink.files.tables import SWALLOWED, Table, found_columns, open_table
from medlink.language.exact import normalise_all
from medlink.language.languages import languages
from medlink.language.tags import base, language_tag
from medlink.language.text import Inflector, is_inflection, same_letters

LONGEST = 2_000
"""Characters of the longest line that is taken for a term."""
_TERM, _FREQUENCY, _ID, _LANGUAGE = ("term", "name", "text", "mention"), ("frequency", "count"), ("id",), ("language",)
_DIGITS = 12
_LANGUAGES = (1 << 15) - 1  # a place in the list of languages is a number of 16 bits
# What mends a list of which nothing is left, by what is said of its lines.
_REMEDIES = {
    "encoding=...": "give it as UTF-8, or name its encoding with encoding=... (latin-1)",
    "empty": "put one term on each line",
    "column count": "give each line as many cells as the first",
    "frequency": "give whole numbers, or name their column with frequency_column=...",
    "language is": "give tags such as de, or name their column with language_column=...",
    "longer": "put one term on each line",
}

_Row = tuple[int, str, int, str, str]  # line, text, frequency, language, id
_STEP = 4096  # rows between two calls of progress


class Texts(Sequence[str]):
    """Texts in one block of bytes: some 30 bytes for a term where a ``str`` takes 80 and its place in a list 8."""

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
        """The same rows by text, language and id, so that nothing made from them depends on the order of the list."""
        tags = ("", *sorted(self.languages[1:]))
        language = np.array([tags.index(tag) for tag in self.languages], dtype=np.int16)[self.language]
        ids = self.ids or [""] * len(self)
        order = sorted(range(len(self)), key=lambda row: (self.texts[row], language[row], ids[row]))
        texts, named = Texts(self.texts[row] for row in order), Texts(ids[row] for row in order if self.ids)
        return Terms(texts, self.frequency[order], language[order], tags, named, self.notes)


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

    A file whose name ends in ``.tsv`` or ``.csv`` is a table, as is any input for which a column is named (see
    :func:`~medlink.files.tables.open_table`). A line that cannot be used is left out and noted by its number, unless
    quotes swallow more than 1 % of all.
    Files, ``stream`` and ``encoding`` are treated as :class:`~medlink.files.streams.LineFile` says; ``progress`` is
    told the bytes taken in since the last call.

    Raises:
        InputError: the file cannot be read, has no usable line, lacks a column or has it twice, a quoted cell of it
            does not end, or too many lines are swallowed by a quote.
        ConfigError: the encoding is not known, or none of lines of text.
    """
    columns = columns or Columns()
    table = columns.named() or str(path).lower().removesuffix(".gz").endswith((".tsv", ".csv"))
    lines = LineFile(
        path,
        Problems(1.0, progress),
        stream=stream,
        encoding=encoding,
        pipes=True,
        universal=not table,
        may_be_empty=True,
    )
    problems = lines.problems
    rows = _table(lines, columns) if table else ((number, text, 1, "", "") for number, text in lines)
    terms = Terms.of(_usable(rows, lines))
    swallowed, share = problems.bad[SWALLOWED], Problems().max_bad_share
    if swallowed >= GRACE and swallowed > share * problems.rows:
        raise InputError(
            f"quotes swallow {swallowed} of {problems.rows} lines",
            path=lines.path,
            line=problems.lines[SWALLOWED][0],
            remedy="mend the quote, or give the table as TSV, which has no quoting",
        )
    terms.notes = (*(_note(lines, reason, count) for reason, count in sorted(problems.bad.items())), *problems.notes)
    if not len(terms):
        most = min(problems.bad, key=lambda reason: (-problems.bad[reason], reason), default="")
        remedy = next((remedy for part, remedy in _REMEDIES.items() if part in most), "mend the lines that are named")
        raise InputError(
            "no usable line" + (f"; {terms.notes[0].removeprefix(f'{lines.path}: ')}" if terms.notes else ""),
            path=lines.path,
            remedy=remedy if most else "put one term on each line" + (" below the header" if table else ""),
        )
    return terms


def _note(lines: LineFile, reason: str, count: int) -> str:
    shown = lines.problems.lines[reason]
    more = " ..." * (count > len(shown))
    return f"{lines.path}: lines left out: {count}, {reason} (line {', '.join(map(str, shown))}{more})"


def _usable(rows: Iterable[_Row], lines: LineFile) -> Iterator[tuple[str, int, str, str]]:
    languages: set[str] = set()
    for line, text, count, language, identifier in rows:
        term = " ".join(text.replace("\x00", " ").split())
        languages.add(language)
        if not term:
            lines.bad("empty", line)
        elif len(term) > LONGEST:
            lines.bad(f"longer than {LONGEST:,} characters", line)
        elif len(languages) > _LANGUAGES:
            languages.discard(language)
            lines.bad(f"more than {_LANGUAGES:,} languages", line)
        else:
            yield term, count, language, identifier


def _table(lines: LineFile, columns: Columns) -> Iterator[_Row]:
    table = open_table(lines)
    term = _place(table, columns.term, _TERM)
    if term is None:
        raise table.error(
            f"no column {' or '.join(_TERM)}; found {found_columns(table.header)}",
            "name the column of the terms with column=...",
        )
    frequency = _place(table, columns.frequency, _FREQUENCY)
    identifier = _place(table, columns.id, _ID)
    language = _place(table, columns.language, _LANGUAGE)
    plain = from_cell if table.has(("cluster", "joined_by")) else str  # what the command of clusters wrote
    for line, row in table.rows:
        count = row[frequency].strip().lstrip("0") if frequency is not None else "1"
        # a number of thousands of digits is not even looked at
        if not count.isdecimal() or len(count) > _DIGITS:
            lines.bad(f"the frequency is no number from 1 to {_DIGITS} digits", line)
            continue
        code = row[language].strip() if language is not None else ""
        tag = language_tag(code) if code else ""
        if tag is None:
            lines.bad("the language is no BCP 47 tag", line)
            continue
        yield line, plain(row[term]), int(count), tag, plain(row[identifier].strip()) if identifier is not None else ""


def _place(table: Table, wanted: str | None, usual: Sequence[str]) -> int | None:
    name = next((one for one in usual if one in table.header), None) if wanted is None else wanted.strip().lower()
    if name is None or name in table.header:
        return None if name is None else table.places([name])[0]
    raise table.error(f"no column {wanted!r}; found {found_columns(table.header)}", "name a column of the first line")


@dataclass(frozen=True, slots=True)
class Forms:
    """Nodes of a term list.

    ``node (n,)`` of each row; ``row (m,)`` is the row that represents each node. ``rank (n,)`` orders the rows: by the
    frequency of the exact form, then by letters with marks, since whoever writes *nausea* for *náusea* leaves something
    out, then by frequency, length and the order of characters.
    """

    node: NDArray[np.int64]
    row: NDArray[np.int64]
    rank: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def find_forms(terms: Terms, progress: Callable[[int], object] | None = None) -> Forms:
    """Group the rows of a term list by exact form, then by inflection.

    Two forms are joined as inflections where they are in one language (any that has a folder, where a row names none)
    and :func:`medlink.language.text.is_inflection` and :func:`medlink.language.text.same_letters` hold. Nodes are
    numbered by their first row; ``progress`` is called with the number of rows done.

    >>> find_forms(Terms.of([(t, 1, "", "") for t in ("Niere", "Zyste", "Zysten", "NIERE")])).node.tolist()
    [0, 1, 1, 0]
    """
    count = len(terms)
    rank, by_text = np.empty((2, count), dtype=np.int64)
    by_text[sorted(range(count), key=lambda row: terms.texts[row])] = np.arange(count)
    length = np.fromiter((len(text) for text in terms.texts), dtype=np.int64, count=count)
    marked = np.fromiter((sum(not one.isascii() for one in text) for text in terms.texts), dtype=np.int64, count=count)

    # 64 bits: two of ten million forms share a hash once in 370,000 lists
    keys = np.empty(count, dtype=np.int64)
    for start in range(0, count, _STEP):
        texts = terms.texts[start : start + _STEP]
        # what has no letter has no form: such terms are the same only to the letter
        keys[start : start + _STEP] = [
            hash(form or f"\x00{text}") for form, text in zip(normalise_all(texts), texts, strict=True)
        ]
        if progress:
            progress(min(start + _STEP, count))
    form = numbered(keys)
    frequency = np.bincount(form, weights=terms.frequency)[form] if count else np.zeros(0)
    rank[np.lexsort((by_text, length, -terms.frequency, -marked, -frequency))] = np.arange(count)
    row = _first_by_rank(form, rank)
    joined = components(len(row), *_inflections(terms, row))
    node = joined[form]
    return Forms(node, _first_by_rank(node, rank), rank)


def _first_by_rank(group: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.lexsort((rank, group))
    first = np.r_[True, np.diff(group[order]) > 0] if len(order) else np.zeros(0, dtype=bool)
    return np.asarray(order[first])


def _inflections(terms: Terms, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places: list[tuple[int, int]] = []
    for tongue in languages():
        inflector = Inflector(tongue)
        spoken = [base(tag) in ("", tongue) for tag in terms.languages]
        fits = np.flatnonzero(np.array(spoken, dtype=bool)[terms.language[rows]])
        shapes = (inflector.form(terms.texts[row]) for row in rows[fits].tolist())
        # two terms without a word are no inflections of each other
        keys = np.array([hash(shape or f"\x00{place}") for place, shape in enumerate(shapes)], dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        for one, other in zip(fits[order[same]].tolist(), fits[order[same + 1]].tolist(), strict=True):
            texts = terms.texts[int(rows[one])], terms.texts[int(rows[other])]
            if is_inflection(*texts, tongue) and same_letters(*texts, tongue):
                places.append((one, other))
    pairs = np.array(places, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
