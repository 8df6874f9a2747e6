"""What releases say of concepts that they have withdrawn: the history files of UMLS and of SNOMED CT.

* ``MRCUI`` (UMLS): every CUI of an earlier release that is in none of the files of this one. REL says what became of
  it: ``SY`` it was merged into CUI2, ``RB``, ``RN`` and ``RO`` it is mapped to CUI2, which is broader, narrower or
  otherwise related, ``DEL`` nothing stands for it. ``SUBX`` rows tell that a concept is not in a subset that
  MetamorphoSys made: that is no retirement.
* Association reference sets (RF2), of which the historical ones say what an inactive concept is succeeded by. Their
  ids are those of the SNOMED CT Release File Specifications, 5.2.5.1 Historical Association Reference Sets, and of the
  two that came later (PARTIALLY EQUIVALENT TO, POSSIBLY REPLACED BY). An inactive concept that none speaks of is
  deleted as far as the release says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from medlink.files.streams import LineFile
from medlink.records import Record, Retired

CUI_HISTORY, CUI_COLUMNS = "MRCUI", 7
ASSOCIATION_COLUMNS = ("refsetId", "referencedComponentId", "targetComponentId")
_BY_REL = {"SY": "same_as", "RB": "broader", "RN": "narrower", "RO": "related", "DEL": "deleted"}
_OF_A_SUBSET = "SUBX"
_BY_REFSET = {
    "900000000000527005": "same_as",
    "900000000000526001": "replaced_by",
    "900000000000523009": "possibly_equivalent_to",
    "1186921001": "possibly_replaced_by",
    "1186924009": "partially_equivalent_to",
    "900000000000529008": "similar_to",
    "900000000000530003": "alternative",
    "900000000000528000": "was_a",
    "900000000000525002": "moved_from",
    "900000000000524003": "moved_to",
}


def retired_cuis(
    rows: Iterable[tuple[LineFile, int, list[str]]], source: str, skipped: Counter[str]
) -> Iterator[Record]:
    """Retired concepts of the rows of MRCUI, given with their file and line."""
    for lines, line, (cui, _, rel, _, _, successor, *_) in rows:
        if rel == _OF_A_SUBSET:
            skipped["concept outside the subset"] += 1
        elif not cui:
            lines.bad("empty id", line)
        elif rel not in _BY_REL:
            lines.bad("unknown kind of retirement", line, repr(rel)[:40])
        elif rel != "DEL" and not successor:
            lines.bad("no concept to which it is mapped", line)
        else:
            yield Retired(cui, _BY_REL[rel], successor, source)


def retired_sctids(
    rows: Iterable[tuple[LineFile, int, list[str]]], inactive: Collection[str], source: str, skipped: Counter[str]
) -> Iterator[Record]:
    """Retired concepts of the active rows of association refsets (``ASSOCIATION_COLUMNS``), then those without one.

    A refset may associate descriptions as well, or concepts that are not retired; these rows are counted.
    """
    told: set[str] = set()
    for lines, line, (refset, concept_id, target) in rows:
        if refset not in _BY_REFSET or concept_id not in inactive:
            skipped["association that is of no inactive concept"] += 1
        elif not target:
            lines.bad("no concept that succeeds it", line)
        else:
            told.add(concept_id)
            yield Retired(concept_id, _BY_REFSET[refset], target, source)
    for concept_id in sorted(inactive):
        if concept_id not in told:
            yield Retired(concept_id, "deleted", "", source)
