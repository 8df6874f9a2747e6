"""``map_codes``: map a list of local codes to concepts."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, cast

from medlink.errors import ConfigError, InputError
from medlink.files.atomic import check_output_paths, format_of_ending, rows_format, standard_output
from medlink.files.json import json_line
from medlink.files.problems import pluralize
from medlink.files.workbooks import is_workbook, table_writer
from medlink.index import Bundle
from medlink.mapping.carry_over import (
    GONE,
    KEPT,
    RESULTS,
    SOURCE,
    CarryResult,
    EarlierMaps,
    annotate_proposal,
    decision_of,
    description_of,
)
from medlink.mapping.codes import MAPS_TO_UNIT, MAPS_TO_VALUE, WIDER, CodeMapping
from medlink.mapping.options import Columns, Shape
from medlink.mapping.proposals import BY_CODE, Mapper
from medlink.mapping.reading import CodeList, read_codes, read_decided
from medlink.mapping.targets import Targets
from medlink.mapping.writers import NUMBERS, WRITERS, WriterContext, clean_text
from medlink.processes import MIN_FORKED, gc_disabled, map_in_two
from medlink.records import AMBIGUOUS, LINKED

_BATCH = 1_000
_SHAPES_BY_ENDING = {
    ".csv": "usagi", ".xlsx": "usagi", ".jsonl": "jsonl", ".sssom.tsv": "sssom", ".sssom": "sssom",
}  # fmt: skip
CHANGES = (
    "result", "reason", "code", "name", "frequency", "before_status", "before_concept_id", "before_concept_name",
    "concept_id", "concept_name", "score",
)  # fmt: skip
"""Columns of the table of changes."""


@dataclass(slots=True)
class MapReport:
    """Counts of a run.

    ``descriptions`` counts distinct ones. ``kept`` are codes with a decision that still holds, ``proposed`` those with
    a proposal; of these, ``by_code`` mean the concept by themselves, and ``broader`` have a concept of a wider meaning.
    ``ambiguous`` codes have several equally probable concepts, or a description that disagrees; ``nothing`` counts
    codes without a concept above the threshold, ``units`` and ``values`` targets of these kinds. ``domains`` are the
    semantic types that the list is about, as estimated. ``changes`` counts maps of an earlier release by result.
    ``notes`` are messages about rows left out of the lists, and about unanswered questions to the re-ranker.
    """

    codes: int = 0
    descriptions: int = 0
    kept: int = 0
    proposed: int = 0
    by_code: int = 0
    broader: int = 0
    ambiguous: int = 0
    nothing: int = 0
    units: int = 0
    values: int = 0
    domains: list[str] = field(default_factory=list)
    changes: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, proposal: CodeMapping) -> None:
        """Count a proposal."""
        kinds = Counter(target.kind for target in proposal.targets)
        self.units += kinds[MAPS_TO_UNIT]
        self.values += kinds[MAPS_TO_VALUE]
        routes = [candidate.route for candidate in proposal.candidates[:1]]
        self.proposed += proposal.link == LINKED
        self.by_code += proposal.link == LINKED and routes == [BY_CODE]
        self.broader += proposal.link == LINKED and proposal.equivalence == WIDER
        self.ambiguous += proposal.link == AMBIGUOUS
        self.nothing += proposal.link not in (LINKED, AMBIGUOUS)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield from self.notes
        yield f"{pluralize(self.codes, 'code')}, {pluralize(self.descriptions, 'distinct description')} linked"
        if self.domains:
            yield f"the list is about {', '.join(self.domains)}; such concepts were preferred"
        if self.kept:
            yield f"{self.kept:,} decided before, kept"
        by_code = f", {self.by_code:,} of them by the code" if self.by_code else ""
        by_code += f", {self.broader:,} broader" if self.broader else ""
        yield f"{self.proposed:,} proposed{by_code}; {self.ambiguous:,} ambiguous, {self.nothing:,} without a proposal"
        if self.units or self.values:
            yield f"{pluralize(self.units, 'unit')} and {pluralize(self.values, 'value')} with a concept"
        for result, count in self.changes.items():
            yield f"  {result}: {count:,}"


@gc_disabled()
def map_codes(
    bundle: Bundle | str | Path, codes: str | Path, *, out: str | Path | None = None, shape: Shape | None = None,
    before: str | Path | Sequence[str | Path] | None = None, changes: str | Path | None = None,
    columns: Columns | None = None,
    encoding: str = "utf-8", max_bad_share: float = 0.01, progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> MapReport:  # fmt: skip
    """Map a list of local codes to the concepts of a bundle.

    The work list is sorted by descending frequency, then as in the list. Decisions in the list, as Usagi's files have
    them, are never changed. Memory grows with the list.

    Args:
        bundle: an opened bundle, or its folder.
        codes: a table with a header, Usagi's save file, a ``source_to_concept_map``, or decisions of a review; see
            :func:`~medlink.mapping.reading.read_codes` for its ``columns``, ``encoding`` and ``max_bad_share``.
        out: file to write atomically; ``None`` for standard output.
        shape: format of the maps; by default that of the ending of ``out``, Usagi's without one. Usagi's and OMOP's
            tables become a workbook in a file ``.xlsx``.
        before: maps of an earlier release, the decisions of a review, or several such files, of which the last that
            decided about a code counts; what they decided stays if it still holds.
        changes: file for the results of these maps: ``.tsv``, ``.jsonl`` or ``.xlsx``.
        progress: called with the number of codes done and their total.
        options: fields of :class:`~medlink.mapping.options.MapOptions`.

    Raises:
        InputError: a list cannot be read, or a decision in it is for a concept that the bundle does not have.
        ConfigError: an option is unknown or out of range; or an output cannot be written, or would replace decisions of
            a person.
        BundleError: the bundle cannot be opened.
    """
    folder = bundle.folder if isinstance(bundle, Bundle) else Path(bundle)
    before = [before] if isinstance(before, str | Path) else before or ()
    read = [codes, *before, folder]
    check_output_paths({"the output": out, "the table of changes": changes}, read)
    shape = _detect_shape(out, shape)
    changes_format = "" if changes is None else "tsv" if is_workbook(changes) else rows_format(changes)
    mapper = Mapper(bundle, **options)
    listed = read_codes(codes, mapper.targets, columns=columns, encoding=encoding, max_bad_share=max_bad_share)
    _check_decided(codes, listed, mapper)
    earlier = [read_codes(path, mapper.targets) for path in before]
    _check_overwritten(out, [one for some in (listed, *earlier) for one in some.maps], mapper.targets)
    of_files = [some.maps for some in earlier]
    carry = EarlierMaps(of_files, mapper.bundle.kb, mapper.among, mapper.targets) if earlier else None
    report = MapReport(codes=len(listed.maps), notes=[note for some in (listed, *earlier) for note in some.notes])
    system = mapper.options.code_system
    if system is not None and not mapper.code_evidence.knows(mapping.source.code for mapping in listed.maps):
        report.notes.append(f"no code of the list is known in the system {system!r}")
    in_order = sorted(listed.maps, key=lambda mapping: -(mapping.source.frequency or 0))
    work = [_WorkItem(mapping, None if carry is None else carry.carry_over(mapping.source)) for mapping in in_order]
    if contradictions := sum(item.contradicts for item in work):
        verb = "decision of the list differs" if contradictions == 1 else "decisions of the list differ"
        report.notes.append(f"{contradictions:,} {verb} from the earlier one: that of the list stays")
    if carry is not None and carry.contradictions:
        what = pluralize(carry.contradictions, "code")
        report.notes.append(f"the earlier files decided differently about {what}: the last file counts")
    sources = [(mapping.source.code, mapping.source.name) for mapping in listed.maps]
    facts = json.dumps([mapper.bundle.versions, mapper.options.to_dict(), sources], sort_keys=True)
    set_id = hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    context = WriterContext(mapper.targets, mapper.options, listed.added, carry is not None, set_id)
    results = Counter[str]()
    with ExitStack() as stack:
        table: TextIO | None = None
        if changes is not None:
            table = stack.enter_context(table_writer(changes, delimiter="\t", numbers=("frequency", "score")))
        write = _change_writer(table, mapper.targets, is_json=changes_format == "jsonl")
        opened = standard_output("name a file") if out is None else table_writer(out, numbers=NUMBERS)

        def maps() -> Iterator[CodeMapping]:
            for now, row in _maps(mapper, work, report, progress):
                if row.carried is not None and not row.map.decided:
                    results[row.carried.result] += 1
                    write(now, row.carried)
                yield now

        WRITERS[shape](stack.enter_context(opened), context, maps())
        for gone in () if carry is None else carry.iter_gone():
            results[GONE] += 1
            write(gone, CarryResult(GONE, "the list does not have the code", gone))
    report.changes = {result: results[result] for result in RESULTS if results[result]}
    report.notes += mapper.linker.linker.ranker_warnings()
    report.domains = mapper.linker.domains
    return report


@dataclass(frozen=True, slots=True)
class _WorkItem:
    """A row of the work list, with the result for its map of an earlier release, if any."""

    map: CodeMapping
    carried: CarryResult | None

    @property
    def before(self) -> CodeMapping | None:
        return None if self.carried is None else self.carried.before

    @property
    def contradicts(self) -> bool:
        """Whether list and earlier release decided otherwise about the same description."""
        same = self.before if self.carried is not None and self.carried.result != SOURCE else None
        return self.map.decided and same is not None and same.decided and decision_of(same) != decision_of(self.map)

    @property
    def holds(self) -> bool:
        """Whether a decision holds, which rules out a proposal."""
        return self.map.decided or (self.carried is not None and self.carried.result == KEPT)

    def keep(self) -> CodeMapping:
        if self.map.decided or self.before is None:
            return self.map
        source = replace(self.map.source, assigned=self.map.source.assigned or self.before.source.assigned)
        return replace(self.before, source=source, change=KEPT)

    def propose(self, proposal: CodeMapping) -> CodeMapping:
        if self.before is None:
            proposal = replace(proposal, comment=self.map.comment, reviewer=self.map.reviewer)
        return proposal if self.carried is None else annotate_proposal(self.carried, proposal)


def _maps(
    mapper: Mapper, rows: Sequence[_WorkItem], report: MapReport, progress: Callable[[int, int], object] | None
) -> Iterator[tuple[CodeMapping, _WorkItem]]:
    report.descriptions = mapper.expect(row.map.source for row in rows if not row.holds)
    parts = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
    open_codes = [[row.map.source for row in part if not row.holds] for part in parts]
    wanted = sum(map(len, open_codes)) >= MIN_FORKED and mapper.linker.reranker is None
    mapper.bundle.index.prepare()
    done = 0
    for part, proposed in zip(parts, map_in_two(mapper.propose, open_codes, wanted=wanted), strict=True):
        proposals = iter(proposed)
        for row in part:
            now = row.keep() if row.holds else row.propose(next(proposals))
            if row.holds or not now.candidates:
                now = mapper.qualify(now)
            if row.holds:
                report.kept += 1
            else:
                report.add(now)
            yield now, row
        done += len(part)
        if progress is not None:
            progress(done, len(rows))


def _check_decided(path: str | Path, listed: CodeList, mapper: Mapper) -> None:
    """Raise for decisions about concepts that the bundle does not have."""
    decided = [(mapping, target) for mapping in listed.maps if mapping.decided for target in mapping.targets]
    known = mapper.bundle.kb.sources_of({target.concept_id for _, target in decided})
    unknown = [(mapping, target) for mapping, target in decided if target.concept_id not in known]
    for mapping, target in unknown[:1]:
        concept = f"{mapper.targets.format_id(target.concept_id)} {target.name}".rstrip()
        message = (
            f"the code {mapping.source.code} is {mapping.status} with the concept {concept}, which the bundle does "
        )
        message += f"not have ({pluralize(len(unknown), 'such target')} in the list)"
        remedy = "correct the concept; if it was decided with an earlier bundle, give the file with before=..., and a "
        raise InputError(message, path=path, remedy=f"{remedy}list without decisions")


def _check_overwritten(out: str | Path | None, kept: Iterable[CodeMapping], targets: Targets) -> None:
    """Raise if the output would replace decisions of a person that neither the list nor ``before`` has."""
    if out is None or not Path(out).is_file():
        return

    def key(mapping: CodeMapping) -> tuple[object, ...]:
        return *description_of(mapping.source), *decision_of(mapping), mapping.equivalence

    try:
        decided = read_decided(out, targets)
    except InputError as error:
        message = f"may have decisions of a person, but line {error.line} cannot be read: {error.message}"
        raise ConfigError(message, path=out, remedy="name another output") from error
    known = {key(mapping) for mapping in kept if mapping.decided}
    if lost := sum(key(mapping) not in known for mapping in decided):
        message = f"has {pluralize(lost, 'decision')} of a person, which the output would replace"
        raise ConfigError(message, path=out, remedy="name another output, and give this file with before=...")


def _detect_shape(out: str | Path | None, shape: Shape | None) -> Shape:
    if out is not None and is_workbook(out) and shape in ("sssom", "jsonl"):
        raise ConfigError(f"a workbook cannot hold {shape}", path=out, remedy="name another file, or another format")
    if out is None or shape is not None:
        return shape or "usagi"
    if not Path(out).suffix:
        remedy = f"end the name in one of {', '.join(_SHAPES_BY_ENDING)}, or name the format"
        raise ConfigError("the name has no ending, which chooses the format", path=out, remedy=remedy)
    return cast("Shape", format_of_ending(out, _SHAPES_BY_ENDING, "usagi"))


def _change_writer(
    file: TextIO | None, targets: Targets, *, is_json: bool
) -> Callable[[CodeMapping, CarryResult], object]:
    """Return a function that writes the result for a map of an earlier release."""
    if file is None:
        return lambda mapping, carried: None
    table = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
    if not is_json:
        table.writerow(CHANGES)

    def write(mapping: CodeMapping, carried: CarryResult) -> None:
        before, source, is_gone = carried.before, mapping.source, carried.result == GONE
        concepts = []
        for target in (before and before.target, None if is_gone else mapping.target):
            concepts += [targets.format_id(target.concept_id), target.name] if target else ["", ""]
        cells = (
            carried.result, carried.reason, source.code, source.name, source.frequency,
            before.status if before is not None else "", *concepts, None if is_gone else mapping.score,
        )  # fmt: skip
        if is_json:
            file.write(json_line(dict(zip(CHANGES, cells, strict=True))))
        else:
            table.writerow(["" if value is None else clean_text(str(value)) for value in cells])

    return write
