"""``map_codes``: a list of local codes in, their maps out: what ``medlink map`` does."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from medlink.files.atomic import check_targets, standard_output, whole_text
from medlink.files.escapes import visible
from medlink.files.json import json_line
from medlink.files.problems import counted
from medlink.index import Bundle
from medlink.mapping.carry_over import GONE, KEPT, RESULTS, Before, Carried, kept_map, proposed_map
from medlink.mapping.codes import MAPS_TO_UNIT, MAPS_TO_VALUE, CodeMapping
from medlink.mapping.options import Columns, Shape
from medlink.mapping.proposals import BY_CODE, Mapper
from medlink.mapping.reading import CodeList, read_codes
from medlink.mapping.targets import Targets
from medlink.mapping.writers import WRITERS, Context, as_text
from medlink.records import AMBIGUOUS, LINKED

_BATCH = 1_000
CHANGES = (
    "result", "reason", "code", "name", "frequency", "before_status", "before_concept_id", "before_concept_name",
    "concept_id", "concept_name", "score",
)  # fmt: skip
"""Columns of the table of what became of the maps of an earlier release."""


@dataclass(slots=True)
class MapReport:
    """What a run did.

    Attributes:
        codes: rows of the work list.
        descriptions: distinct descriptions that were linked.
        kept: codes of the list that a person had decided on, which stay as they are.
        proposed: codes with a proposal; ``by_code`` those of them whose code means the concept.
        ambiguous: codes for which several concepts are as likely, or code and description disagree.
        nothing: codes for which nothing reaches the threshold.
        units, values: targets of these kinds among the proposals.
        missing: decided targets that the bundle does not have.
        changes: what became of the maps of an earlier release, by result.
        notes: what was left out of the lists, and what the re-ranker did not answer.
    """

    codes: int = 0
    descriptions: int = 0
    kept: int = 0
    proposed: int = 0
    by_code: int = 0
    ambiguous: int = 0
    nothing: int = 0
    units: int = 0
    values: int = 0
    missing: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, one: CodeMapping) -> None:
        """Count a proposal."""
        kinds = Counter(target.kind for target in one.targets)
        self.units += kinds[MAPS_TO_UNIT]
        self.values += kinds[MAPS_TO_VALUE]
        self.proposed += one.link == LINKED
        self.by_code += one.link == LINKED and bool(one.candidates) and one.candidates[0].route == BY_CODE
        self.ambiguous += one.link == AMBIGUOUS
        self.nothing += one.link not in (LINKED, AMBIGUOUS)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield from self.notes
        yield f"{counted(self.codes, 'code')}, {counted(self.descriptions, 'distinct description')} linked"
        if self.kept:
            yield f"{self.kept:,} decided before, kept"
        if self.missing:
            yield f"{self.missing:,} of them with a target that the bundle does not have"
        by_code = f", {self.by_code:,} of them by the code" if self.by_code else ""
        yield f"{self.proposed:,} proposed{by_code}; {self.ambiguous:,} ambiguous, {self.nothing:,} without a proposal"
        if self.units or self.values:
            yield f"{counted(self.units, 'unit')} and {counted(self.values, 'value')} with a concept"
        for result, count in self.changes.items():
            yield f"  {result}: {count:,}"


def map_codes(
    bundle: Bundle | str | Path,
    codes: str | Path,
    *,
    out: str | Path | None = None,
    shape: Shape | None = None,
    before: str | Path | None = None,
    changes: str | Path | None = None,
    columns: Columns | None = None,
    encoding: str = "utf-8",
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> MapReport:
    """Map a list of local codes to the concepts of a bundle.

    The work list is written by frequency, the highest first, then as the list has it. What a person decided in a list
    that has decisions, as Usagi's file does, is never changed. Memory grows with the list.

    Args:
        bundle: an opened bundle, or its folder.
        codes: a table with a header, Usagi's save file, or a ``source_to_concept_map``.
        out: a file, which appears whole; ``None`` for standard output.
        shape: how maps are written; by the ending of ``out`` when left out, and Usagi's file where that says nothing.
        before: maps of an earlier release: decisions that still hold are kept, others are proposed anew.
        changes: a file for what became of each of these: JSON lines if it ends in ``.jsonl``, else TSV.
        columns: names of the columns; see :func:`~medlink.mapping.reading.read_codes`.
        encoding: that of ``codes``.
        progress: called with the number of codes that are done, and how many there are.
        options: fields of :class:`~medlink.mapping.options.MapOptions`.

    Returns:
        Counts.

    Raises:
        InputError: a list cannot be read.
        ConfigError: an option is unknown or out of range, or an output cannot be written.
        BundleError: the bundle cannot be opened.
    """
    folder = bundle.folder if isinstance(bundle, Bundle) else Path(bundle)
    read = [path for path in (codes, before, folder) if path is not None]
    check_targets({"the output": out, "the table of changes": changes}, read)
    mapper = Mapper(bundle, **options)
    listed = read_codes(codes, mapper.targets, columns=columns, encoding=encoding)
    earlier = None if before is None else read_codes(before, mapper.targets)
    carry = None if earlier is None else Before(earlier.maps, mapper.bundle.kb, mapper.among, mapper.targets)
    report = MapReport(codes=len(listed.maps), notes=[*listed.notes, *(() if earlier is None else earlier.notes)])
    in_order = sorted(listed.maps, key=lambda one: -(one.source.frequency or 0))
    work = [_Row.of(one, carry) for one in in_order]
    context = Context(mapper.targets, mapper.options, listed.added, carry is not None, _set_id(mapper, listed))
    results = Counter[str]()
    with ExitStack() as stack:
        table = None if changes is None else _Changes(stack.enter_context(whole_text(changes)), changes, mapper.targets)
        opened: AbstractContextManager[TextIO] = standard_output("name a file") if out is None else whole_text(out)

        def maps() -> Iterator[CodeMapping]:
            for now, row in _maps(mapper, work, report, progress):
                if row.fate is not None:
                    results[row.fate.result] += 1
                    if table is not None:
                        table.write(now, row.fate)
                yield now

        WRITERS[shape or _shape(out)](stack.enter_context(opened), context, maps())
        for gone in () if carry is None else carry.gone():
            results[GONE] += 1
            if table is not None:
                table.write(gone, Carried(GONE, "the list does not have the code", gone))
    report.changes = {result: results[result] for result in RESULTS if results[result]}
    report.notes += mapper.linker.ranker_said()
    return report


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the work list, with what becomes of its map of an earlier release, if any."""

    one: CodeMapping
    fate: Carried | None = None

    @classmethod
    def of(cls, one: CodeMapping, carry: Before | None) -> _Row:
        fate = None if carry is None else carry.of(one.source)
        return cls(one, None if one.decided else fate)

    @property
    def holds(self) -> bool:
        """Whether a decision holds, so that nothing is proposed."""
        return self.one.decided or (self.fate is not None and self.fate.result == KEPT)

    def kept(self) -> CodeMapping:
        before = None if self.fate is None else self.fate.before
        return self.one if before is None else kept_map(before, self.one.source)

    def proposed(self, proposal: CodeMapping) -> CodeMapping:
        if self.fate is None or self.fate.before is None:
            proposal = replace(proposal, comment=self.one.comment, reviewer=self.one.reviewer)
        return proposal if self.fate is None else proposed_map(self.fate, proposal)


def _maps(
    mapper: Mapper, rows: Sequence[_Row], report: MapReport, progress: Callable[[int, int], object] | None
) -> Iterator[tuple[CodeMapping, _Row]]:
    report.descriptions = mapper.expect(row.one.source for row in rows if not row.holds)
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        proposals = iter(mapper.propose([row.one.source for row in part if not row.holds]))
        for row in part:
            now = row.kept() if row.holds else row.proposed(next(proposals))
            if row.holds:
                report.kept += 1
                report.missing += any(target.concept_id not in mapper.bundle.kb for target in now.targets)
            else:
                report.add(now)
            yield now, row
        if progress is not None:
            progress(start + len(part), len(rows))


def _shape(out: str | Path | None) -> Shape:
    name = "" if out is None else Path(out).name.lower()
    return "jsonl" if name.endswith(".jsonl") else "sssom" if name.endswith((".sssom.tsv", ".sssom")) else "usagi"


def _set_id(mapper: Mapper, listed: CodeList) -> str:
    facts = [
        mapper.bundle.versions,
        mapper.options.to_dict(),
        [(one.source.code, one.source.name) for one in listed.maps],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Changes:
    """Writes what became of maps of an earlier release."""

    def __init__(self, file: TextIO, path: str | Path, targets: Targets) -> None:
        self._file, self._targets, self._is_json = file, targets, Path(path).suffix == ".jsonl"
        self._table = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
        if not self._is_json:
            self._table.writerow(CHANGES)

    def write(self, one: CodeMapping, what: Carried) -> None:
        before = what.before
        then = before.target if before is not None else None
        now = None if what.result == GONE else one.target
        cells = (
            what.result,
            what.reason,
            one.source.code,
            one.source.name,
            one.source.frequency,
            before.status if before is not None else "",
            self._targets.written(then.concept_id) if then else "",
            then.name if then else "",
            self._targets.written(now.concept_id) if now else "",
            now.name if now else "",
            None if what.result == GONE else one.score,
        )
        if self._is_json:
            self._file.write(visible(json_line(dict(zip(CHANGES, cells, strict=True))).rstrip("\n")) + "\n")
        else:
            self._table.writerow(["" if value is None else as_text(str(value)) for value in cells])
