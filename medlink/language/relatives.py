"""Phrases for relatives of the patient, and for the ages at which they fell ill (``relatives.tsv``).

The codes of relatives are those of FHIR's FamilyMemberHistory (HL7 v3 RoleCode, value set FamilyMember).
"""

from __future__ import annotations

from typing import Literal, get_args

from medlink.language.cues import Phrases
from medlink.language.languages import Language, alternatives, per_language, rows

DEATH = "death"
"""Code of phrases with an age of death, which is the onset of a transient finding alone."""
AGES = {"age": 1, DEATH: 1, "months": 12, "weeks": 52, "days": 365}
"""Codes of phrases with an age, each with how many of its units make a year."""
WHOSE = "whose"
"""Replaces the code of words between a relative and a relative of that relative: *Mutter …, deren Schwester*."""
_OF = """MTH SIS MAUNT, MTH BRO MUNCLE, MTH MTH MGRMTH, MTH FTH MGRFTH, FTH SIS PAUNT, FTH BRO PUNCLE, FTH MTH PGRMTH,
FTH FTH PGRFTH, SIS SONC NEPHEW, SIS DAUC NIECE, BRO SONC NEPHEW, BRO DAUC NIECE, AUNT SONC COUSN, AUNT DAUC COUSN,
UNCLE SONC COUSN, UNCLE DAUC COUSN, SONC SONC GRNDSON, SONC DAUC GRNDDAU, DAUC SONC GRNDSON, DAUC DAUC GRNDDAU"""
OF = {(who, own): code for who, own, code in map(str.split, _OF.split(","))}
"""The code of a relative of a relative."""
FamilyMember = Literal[
    "FAMMEMB", "PRN", "MTH", "FTH", "CHILD", "SONC", "DAUC", "SIB", "BRO", "SIS", "HBRO", "HSIS", "TWIN", "TWINBRO",
    "TWINSIS", "GRPRN", "GRMTH", "GRFTH", "MGRMTH", "MGRFTH", "PGRMTH", "PGRFTH", "GGRPRN", "GGRMTH", "GGRFTH",
    "GRNDCHILD", "GRNDSON", "GRNDDAU", "AUNT", "MAUNT", "PAUNT", "UNCLE", "MUNCLE", "PUNCLE", "COUSN", "MCOUSN",
    "PCOUSN", "NEPHEW", "NIECE", "SPS", "HUSB", "WIFE",
]  # fmt: skip
"""A relative, as a code of HL7 v3 RoleCode."""
_CODES = frozenset(get_args(FamilyMember))


@per_language
def relatives(data: Language) -> Phrases[str]:
    """Return the phrases of a language with their codes; raises InputError if a row cannot be read."""
    found = Phrases[str]()
    for row in rows(data.table("relatives"), "phrase", "code", "source"):
        if row["code"] not in _CODES and row["code"] not in (*AGES, WHOSE):
            raise row.error(
                f"{row['code']!r} is not a code of a relative",
                "take one of HL7 v3 FamilyMember, 'whose', or a unit of ages",
            )
        for phrase in alternatives(row["phrase"]):
            found.add(phrase, row["code"])
    return found
