"""Notes from end to end: what is found, linked and affirmed in texts, beside what people annotated in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from medlink.errors import InputError
from medlink.evaluation.calibration import calibration_error
from medlink.evaluation.findings import GoldText, count, judged, links, rates, read_findings, read_texts, status_tables
from medlink.evaluation.names import as_known
from medlink.evaluation.resampling import Scores
from medlink.evaluation.task import Report, Row, Run, Task, by_language
from medlink.notes.options import NoteOptions

if TYPE_CHECKING:
    from medlink.notes.pipeline import NotePipeline

_BATCH = 32
SHARES = {"touched": "annotated", "exact": "annotated", "right": "coded"}
"""Counts of findings that are shares, and of which counts."""
_F1 = {"F1": "documents", "mention F1": "mentions"}
_KINDS = ("right", "wrong", "missed")
_Row = tuple[GoldText, list[tuple[float, bool]], Counter[str]]


class NotesTask(NoteOptions, Task):
    """Precision, recall and F1 of the findings that texts affirm, by documents and by mentions, and of their status.

    BUNDLE is what the texts are linked to. GOLD are annotated texts: JSON lines with the status of findings, brat or
    PubTator without; the options are those of 'medlink link'.
    """

    inputs: ClassVar = ("bundle", "gold...")
    encodes: ClassVar[bool] = False
    systems: ClassVar = ("bundles",)

    def measure(self, run: Run) -> Report:
        """Link the texts, and count what is right; tables by language."""
        from medlink.notes.pipeline import NotePipeline
        from medlink.notes.reading import Note
        from medlink.reading.status import status_reader

        options = {name: getattr(self, name) for name in NoteOptions.model_fields}
        pipeline = NotePipeline(Path(run.paths[0]), **options)
        texts = [_known(text, pipeline) for text in read_texts(run.paths[1:], run.problems)]
        if not any(concept in pipeline.bundle.kb for text in texts for concept in text.concepts):
            remedy = "give a bundle of the terminology whose ids were annotated"
            raise InputError(f"none of its concepts is in {run.paths[0]}", path=run.paths[1], remedy=remedy)
        rows, status = list[_Row](), defaultdict[tuple[str, str], Counter[tuple[str, str]]](Counter)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            notes = pipeline.link([Note(text.name, text.text, text.language or None) for text in batch])
            for text, note in zip(batch, notes, strict=True):
                if note.note.problem is not None:
                    run.problems.skipped["note that cannot be read"] += 1
                    continue
                known = replace(text, language=note.language)
                found = links(known, note)
                rows.append((known, judged(known, found), count(known, found)))
                reader = status_reader(note.language) if text.told and text.findings else None
                read = [] if reader is None else read_findings(reader, text)
                for finding, said in zip(text.findings, read, strict=bool(read)):
                    for field in text.told:
                        status[note.language, field][getattr(finding.said, field), said[field][0]] += 1
            if run.progress is not None:
                run.progress("texts linked", min(start + _BATCH, len(texts)), len(texts))
        if not rows:
            remedy = "give texts of notes in a language that medlink reads"
            raise InputError("none of its texts could be read", path=run.paths[1], remedy=remedy)
        table, scores = list[Row](), list[Scores]()
        for tag, at in by_language([text.language for text, *_ in rows]).items():
            own = [rows[one] for one in at]
            table.append(_row(tag, own))
            for measure, name in _F1.items():
                columns = np.array([[counts[f"{name} {kind}"] for *_, counts in own] for kind in _KINDS], dtype=float)
                scores.append(Scores(measure, tag, tuple(columns), "f1"))
        kept = [f"{name} {kind}" for name in _F1.values() for kind in _KINDS]
        items = [
            {"note": text.name, "language": text.language} | {name: counts[name] for name in kept}
            for text, _, counts in rows
        ]
        head = f"{len(rows)} texts with {sum(len(text.findings) for text, *_ in rows)} findings at their places"
        return Report(head, table, items, run.problems, further=status_tables(status), scores=scores)


def _known(text: GoldText, pipeline: NotePipeline) -> GoldText:
    """A text with the ids of its concepts as the bundle writes them."""

    def spelt(ids: frozenset[str]) -> frozenset[str]:
        return frozenset(as_known(ids, pipeline.bundle.kb))

    findings = tuple(replace(one, concepts=spelt(one.concepts)) for one in text.findings)
    return replace(text, findings=findings, concepts=spelt(text.concepts), affirmed=spelt(text.affirmed))


def _row(tag: str, found: Sequence[_Row]) -> Row:
    """The measures of the texts of one language."""
    total = sum((counts for *_, counts in found), Counter[str]())
    scored = np.array([one for _, each, _ in found for one in each], dtype=float).reshape(-1, 2)
    documents, mentions = (rates(total, name) for name in _F1.values())
    return {
        "language": tag,
        "texts": len(found),
        **dict(zip(("P", "R", "F1"), documents, strict=True)),
        "status not read": rates(total, "regardless")[2],
        **dict(zip(("mention P", "mention R", "mention F1"), mentions, strict=True)),
        **{name: total[name] / max(total[of], 1) for name, of in SHARES.items()},
        "calibration": calibration_error(scored[:, 0], scored[:, 1] > 0) if len(scored) else None,
    }
