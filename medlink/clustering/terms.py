"""Term lists: read them, and group rows of one form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.graph import components
from medlink.errors import InputError
from medlink.files.escapes import unescape_cell
from medlink.files.problems import MAX_EXAMPLES, Problems
from medlink.files.streams import LineFile
from medlink.files.tables import describe_header, open_table, parse_count, usual_titles
from medlink.language.exact import normalise_all
from medlink.language.languages import languages
from medlink.language.tags import base, language_tag
from medlink.language.text import Inflector, is_inflection, same_letters
from medlink.processes import MIN_FORKED, map_in_two

LONGEST = 2_000
"""Characters of the longest term."""
_DIGITS = 12
_LANGUAGES = (1 << 15) - 1  # of a list: their numbers have 16 bits
_STEP = 4096  # rows between two calls of progress
# remedies for a list without a usable line, by a part of the most frequent problem
_REMEDIES = {
    "empty": "put one term on each line",
    "column count": "give each line as many cells as the first",
    "frequency": "give whole numbers, or name their column with frequency_column=...",
    "language is": "give tags such as de, or name their column with language_column=...",
    "longer": "put one term on each line",
}
_Row = tuple[int, str, int, str, str]  # line, text, frequency, language, id


@dataclass(slots=True)
class Terms:
    """Distinct rows of a term list.

    ``frequency (n,)`` sums equal rows. ``language`` holds indices of ``languages``, whose first is ``""``. ``ids`` is
    empty if the list has none. ``notes`` are messages about lines left out, with their numbers and without a word of
    the list.
    """

    texts: Sequence[str]
    frequency: NDArray[np.int64]
    language: NDArray[np.int16]
    languages: tuple[str, ...] = ("",)
    ids: Sequence[str] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, int, str, str]]) -> Terms:
        """Build terms from rows of text, frequency, language and id, and merge equal rows."""
        counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        for text, count, tag, identifier in rows:
            counts[text, tag, identifier] += count
        number = {tag: at for at, tag in enumerate(dict.fromkeys(["", *(tag for _, tag, _ in counts)]))}
        texts, ids = [text for text, _, _ in counts], [identifier for _, _, identifier in counts]
        frequency = np.fromiter(counts.values(), np.int64, len(counts))
        language = np.array([number[tag] for _, tag, _ in counts], dtype=np.int16)
        return cls(texts, frequency, language, tuple(number), ids if any(ids) else ())

    def ordered(self) -> Terms:
        """Sort the rows by text, language and id, so results do not depend on the order of the list."""
        tags = ("", *sorted(self.languages[1:]))
        language = np.array([tags.index(tag) for tag in self.languages], dtype=np.int16)[self.language]
        keys = list(zip(self.texts, language.tolist(), self.ids or repeat(""), strict=False))
        order = sorted(range(len(self)), key=keys.__getitem__)
        texts, ids = [self.texts[row] for row in order], [self.ids[row] for row in order if self.ids]
        return Terms(texts, self.frequency[order], language[order], tags, ids, self.notes)


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a table; ``None`` looks for the usual names."""

    term: str | None = None
    frequency: str | None = None
    id: str | None = None
    language: str | None = None


def read_terms(
    path: str | Path, *, stream: BinaryIO | None = None, columns: Columns | None = None, encoding: str = "utf-8",
    max_bad_share: float = 0.01, progress: Callable[[int], object] | None = None,
) -> Terms:  # fmt: skip
    """Read a term list: one term a line, or a table with a header.

    A file that ends in ``.tsv``, ``.csv`` or ``.xlsx`` is a table, and so is any input with a named column (see
    :func:`~medlink.files.tables.open_table`). Unusable lines are left out and reported by number.
    :class:`~medlink.files.streams.LineFile` explains ``path``, ``stream`` and ``encoding``. ``progress`` is called with
    the number of bytes read since the last call.

    Raises:
        InputError: the file cannot be read, has no usable line or a larger share of unusable lines than
            ``max_bad_share``, lacks a column or has it twice, or has a quoted cell that does not end.
        ConfigError: the encoding is unknown, or no text encoding.
    """
    columns = columns or Columns()
    table = columns != Columns() or str(path).lower().removesuffix(".gz").endswith((".tsv", ".csv", ".xlsx"))
    problems = Problems(1.0, progress, max_odd_rows=0)
    lines = LineFile(
        path, problems, stream=stream, encoding=encoding, allow_pipes=True, universal_newlines=not table,
        allow_empty=True,
    )  # fmt: skip
    rows = _table(lines, columns) if table else ((number, text, 1, "", "") for number, text in lines)
    terms = Terms.from_rows(_usable(rows, lines))
    left_out = sorted((problems.bad + problems.skipped).items())
    notes = []
    for reason, count in left_out:
        numbers = problems.lines[reason]
        some = ", ".join(map(str, numbers)) + " ..." * (count > len(numbers))
        notes.append(f"{lines.path}: lines left out: {count}, {reason} (line {some})")
    terms.notes = (*notes, *problems.notes)
    if not len(terms):
        message, remedy = "no usable line", "put one term on each line" + (" below the header" if table else "")
        if left_out:
            most = min(left_out, key=lambda item: (-item[1], item[0]))[0]
            named = next((given for part, given in _REMEDIES.items() if part in most), "mend the lines that are named")
            remedy = problems.encoding_remedy or named
        if terms.notes:
            message += f"; {terms.notes[0].removeprefix(f'{lines.path}: ')}"
        raise InputError(message, path=lines.path, remedy=remedy)
    problems.max_bad_share = max_bad_share
    problems.check_bad_share(lines.path, lines.rows - lines.lines_without_row)
    return terms


def _usable(rows: Iterable[_Row], lines: LineFile) -> Iterator[tuple[str, int, str, str]]:
    languages: set[str] = set()
    for line, text, count, language, identifier in rows:
        term = " ".join(text.replace("\x00", " ").split())
        languages.add(language)
        if not term:
            lines.lines_without_row += 1
            lines.problems.skipped["empty"] += 1
            numbers = lines.problems.lines.setdefault("empty", [])
            numbers += [line] * (len(numbers) < MAX_EXAMPLES)
        elif len(term) > LONGEST:
            lines.bad_row(f"longer than {LONGEST:,} characters", line)
        elif len(languages) > _LANGUAGES:
            languages.discard(language)
            lines.bad_row(f"more than {_LANGUAGES:,} languages", line)
        else:
            yield term, count, language, identifier


def _table(lines: LineFile, columns: Columns) -> Iterator[_Row]:
    table = open_table(lines)
    term, frequency, identifier, language = (
        table.find_column(kind, getattr(columns, kind)) for kind in ("term", "frequency", "id", "language")
    )
    if term is None:
        raise table.error(
            f"no column {', '.join(usual_titles('term')[:4])} or the like; found {describe_header(table.first)}",
            "name the column of the terms with column=...",
        )
    plain = unescape_cell if table.has_columns(("cluster", "joined_by")) else str  # medlink's own output
    for line, row in table.rows:
        count = parse_count(row[frequency].strip()) if frequency is not None else 1
        if not count or count >= 10**_DIGITS:
            lines.bad_row(f"the frequency is not a number of 1 to {_DIGITS} digits", line)
            continue
        code = row[language].strip() if language is not None else ""
        tag = language_tag(code) if code else ""
        if tag is None:
            lines.bad_row("the language is no BCP 47 tag", line)
            continue
        yield line, plain(row[term]), count, tag, plain(row[identifier].strip()) if identifier is not None else ""


@dataclass(frozen=True, slots=True)
class TermForms:
    """Nodes of a term list: groups of rows of one form.

    ``node (n,)`` is the node of each row, and ``row (m,)`` is the row that represents each node. ``rank (n,)`` orders
    the rows: by the frequency of the exact form, then by the number of letters with marks (*nausea* for *náusea* lacks
    one), then by frequency, length and text.
    """

    node: NDArray[np.int64]
    row: NDArray[np.int64]
    rank: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def find_forms(terms: Terms, progress: Callable[[int], object] | None = None) -> TermForms:
    """Group the rows of a term list by exact form, then by inflection.

    Two forms are inflections if :func:`medlink.language.text.is_inflection` and
    :func:`medlink.language.text.same_letters` hold in their language, or in any known language if a row names none.
    Nodes are numbered by their first row. ``progress`` is called with the number of rows done.

    >>> find_forms(Terms.from_rows([(t, 1, "", "") for t in ("Niere", "Zyste", "Zysten", "NIERE")])).node.tolist()
    [0, 1, 1, 0]
    """
    count, texts = len(terms), terms.texts
    rank, by_text = np.empty((2, count), dtype=np.int64)
    by_text[sorted(range(count), key=texts.__getitem__)] = np.arange(count)
    length = np.fromiter(map(len, texts), np.int64, count)
    marked = np.array([0 if text.isascii() else sum(not c.isascii() for c in text) for text in texts], np.int64)
    norms: list[str] = []
    for start in range(0, count, _STEP):
        norms += normalise_all(texts[start : start + _STEP])
        if progress:
            progress(len(norms))
    # a term without letters has no form, and equals only itself
    number: dict[str, int] = {}
    keys = (norm or f"\x00{text}" for norm, text in zip(norms, texts, strict=True))
    form = np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
    frequency = np.bincount(form, weights=terms.frequency)[form] if count else np.zeros(0)
    rank[np.lexsort((by_text, length, -terms.frequency, -marked, -frequency))] = np.arange(count)
    row = _first_by_rank(form, rank)
    joined = components(len(row), *_inflections(terms, row, norms))
    node = joined[form]
    return TermForms(node, _first_by_rank(node, rank), rank)


def _first_by_rank(group: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.lexsort((rank, group))
    return np.asarray(order[np.unique(group[order], return_index=True)[1]])


def _inflections(
    terms: Terms, rows: NDArray[np.int64], norms: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    def find(tag: str) -> list[tuple[int, int]]:
        usable = np.array([base(own) in ("", tag) for own in terms.languages], dtype=bool)
        places = np.flatnonzero(usable[terms.language[rows]]).tolist()
        some = rows[places].tolist()
        forms = Inflector(tag).forms([terms.texts[row] for row in some], [norms[row] for row in some])
        last, ends = dict[str, int](), list[tuple[int, int]]()  # place of the last form with this inflected form
        for second, form in zip(places, forms, strict=True):
            # terms without a word are not inflections of each other
            first = last.get(form) if form else None
            last[form] = second
            if first is not None:
                texts = terms.texts[int(rows[first])], terms.texts[int(rows[second])]
                if is_inflection(*texts, tag) and same_letters(*texts, tag):
                    ends.append((first, second))
        return ends

    ends = list(chain(*map_in_two(find, list(languages()), wanted=len(rows) >= MIN_FORKED)))
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
