"""Readers of coded terms: Alpha-ID-SE, the alphabet of ICD-10-GM, ICD-O-3, ATC and the train part of CodiEsp.

What is read of the files of the BfArM serves training and measuring. A product made with them says so in these words:
"Die Erstellung erfolgt unter Verwendung der maschinenlesbaren Fassung des Bundesinstituts für Arzneimittel und
Medizinprodukte (BfArM)".
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

Term = tuple[str, str, str]  # concept id, name, language

# "not elsewhere classified", "not otherwise specified", "obsolete": they say something of the code, nothing of the term
_OF_THE_CODE = re.compile(r",?\s*(?:\ba\.\s?n\.\s?k\.|\bo\.\s?n\.\s?A\.|\bSAI\b|\[obs\.\])")
_COMMENT = re.compile(r"\s*\[([^\[\]]*)\]\s*(-?)\s*")
# the part of a word in front of a comment that is an abbreviation: TBC, Augen-TBC, CLN9
_SHORT = re.compile(r"(?<![^\s-])(?=[^\s-]*[A-Z][^\s-]*[A-Z0-9])[A-Za-z0-9]{2,8}$")
_DRUG = re.compile(r"[A-Z]\d\d[A-Z]{2}\d\d")
_METALS = {
    "natrium": "sodium",
    "kalium": "potassium",
    **{metal: metal for metal in ("aluminium", "ammonium", "barium", "calcium", "lithium", "magnesium")},
}
# without endocrine and mental disorders, the appendix, injuries and causes from outside
_IN_COMMON = re.compile(r"ICD10(?:GM|CM):((?!K35)[A-DG-NQR]\d\d(?:\.\d)?)")
_SALT = re.compile(f"({'|'.join(_METALS)})(?=.*(?:at|id|it)$)")


def forms(term: str) -> list[str]:
    """A term of a German classification as people write it: without marks of the code, comments resolved.

    The first form is the term itself without such marks. A comment behind an abbreviation is its long form; others are
    left out, for they are synonyms here and wider concepts there.

    >>> forms("Augen-TBC [Tuberkulose] a.n.k.")
    ['Augen-TBC [Tuberkulose]', 'Augen-TBC', 'Augen-Tuberkulose']
    >>> forms("GDE [Glycogen debranching enzyme]- Mangel")[1:]
    ['GDE-Mangel', 'Glycogen debranching enzyme-Mangel']
    >>> forms("Andersen-Krankheit [Glykogenose]"), forms("Lipödem, Stadium I")
    (['Andersen-Krankheit [Glykogenose]', 'Andersen-Krankheit'], ['Lipödem, Stadium I'])
    """
    plain = " ".join(_OF_THE_CODE.sub("", term).split())
    found = [plain]
    if _COMMENT.search(plain):
        found.append(_COMMENT.sub(lambda comment: comment[2] or " ", plain).strip())
        comment = _COMMENT.search(plain)
        short = _SHORT.search(plain[: comment.start()])
        # "CLN7 [Zeroidlipofuszinose, neuronale Typ 7]-Krankheit" has no long form that one would write
        if short and not (comment[2] and "," in comment[1]) and len(comment[1]) > len(short[0]):
            rest = _COMMENT.sub(lambda comment: comment[2] or " ", plain[comment.end() :])
            found.append(f"{plain[: short.start()]}{comment[1]}{comment[2] or ' '}{rest}".strip())
    return [form for form in dict.fromkeys(found) if form]


def alpha_id(terminologies: Path) -> list[Term]:
    """German terms of Alpha-ID-SE by ORPHA code, as they stand there."""
    found = []
    for path in terminologies.glob("icd_de/*alphaid_se*.txt"):
        for line in path.read_text("utf-8").splitlines():
            valid, *_, code, text = line.split("|")
            if valid == "1" and code:
                found.append((f"ORPHANET:{code}", text, "de"))
    return found


def held_out_orpha(concept: str) -> bool:
    """Whether a concept is one of the tenth whose German terms no training table has, by a hash of its id."""
    return zlib.crc32(f"{concept} alpha".encode()) % 10 == 0


def icd_alphabet(terminologies: Path) -> Iterator[Term]:
    """German terms by code of ICD-10-GM, or by all codes that a term has; references to other terms are left out."""
    for path in terminologies.glob("icd_de/*alpha_edv*.txt"):
        for line in path.read_text("iso-8859-1").splitlines():
            _, _, _, primary, star, further, text = line.split(";")[:7]
            codes = "+".join(code.strip("+*!") for code in (primary, star, further) if code)
            if codes and " - s." not in text:
                yield f"ICD10GM:{codes}", text, "de"


def icd_o(terminologies: Path) -> Iterator[tuple[Term, bool]]:
    """German terms by morphology code of ICD-O-3, and whether one is the name of the code or a synonym of it."""
    for path in terminologies.glob("icd_de/icdo*.xml"):
        for described in ElementTree.parse(path).getroot().iter("Class"):
            code = described.get("code", "")
            if not re.fullmatch(r"\d{4}:\d", code):
                continue
            concept = f"ICDO:{code.replace(':', '/')}"
            for rubric in described.iter("Rubric"):
                for label in rubric.iter("Label"):
                    parts = label.findall("Fragment")
                    # an empty fragment in front of others: they are synonyms of the name
                    exact = rubric.get("kind") == "preferred" or (bool(parts) and not (parts[0].text or "").strip())
                    for text in [part.text for part in parts] or [label.text]:
                        if rubric.get("kind") in ("preferred", "inclusion") and (text or "").strip():
                            yield (concept, text, "de"), exact


def icd_o_spanish(benchmarks: Path) -> Iterator[Term]:
    """Spanish names of the morphology codes of ICD-O-3, from the dictionary of CANTEMIST; none with a grade."""
    for path in benchmarks.glob("cantemist/valid-codes.tsv"):
        for line in path.read_text("utf-8").splitlines():
            code, *names = line.split("\t")
            if re.fullmatch(r"\d{4}/\d", code) and names:
                yield f"ICDO:{code}", names[0], "es"


def atc(terminologies: Path) -> list[str]:
    """German names of single substances of ATC."""
    names = set()
    for path in terminologies.glob("atc_de/ATC_*.csv"):
        for line in path.read_text("utf-8").splitlines():
            code, _, name = (*line.split("\t"), "", "")[:3]
            if _DRUG.fullmatch(code.strip()):
                names.add(name.strip())
    return sorted(names)


def english_drug(name: str) -> str:
    """The English spelling of a German name of a substance, by endings alone.

    >>> english_drug("Lidocain"), english_drug("Salicylsäure"), english_drug("Natriumfluorid")
    ('lidocaine', 'salicylic acid', 'sodium fluoride')
    """
    spelt = name.lower()
    if spelt.endswith("säure"):
        return f"{spelt.removesuffix('säure')}ic acid"
    return _SALT.sub(lambda metal: f"{_METALS[metal[1]]} ", spelt) + "e"


def codiesp_train(terminologies: Path, benchmarks: Path, left_out: set[str]) -> Iterator[Term]:
    """Spanish phrases of the train part of CodiEsp by ICD-10-CM code, with the English titles of their codes.

    A code of five characters or more without a title of its own has that of the code above it. ``left_out`` names
    documents of which nothing is taken.
    """
    titles = {}
    for path in terminologies.glob("icd10cm/categories.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            titles = dict(row[:2] for row in csv.reader(file))
    for path in benchmarks.glob("codiesp/train/trainX.tsv"):
        for line in path.read_text("utf-8").splitlines():
            document, kind, code, phrase, _ = line.split("\t")
            if kind == "DIAGNOSTICO" and document not in left_out:
                concept = f"ICD10CM:{code.upper()}"
                yield concept, phrase, "es"
                plain = code.upper().replace(".", "")
                above = (titles.get(plain[:n]) for n in range(len(plain), min(len(plain), 4) - 1, -1))
                if title := next(filter(None, above), None):
                    yield concept, title, "en"


def one_code(term: Term) -> Term:
    """A term of ICD-10-GM or ICD-10-CM by the code that both have in common, where they divide a chapter alike.

    >>> one_code(("ICD10GM:A01.0", "Typhus", "de"))[0], one_code(("ICD10CM:S72.0", "fractura", "es"))[0]
    ('ICD10:A01.0', 'ICD10CM:S72.0')
    """
    code = _IN_COMMON.fullmatch(term[0])
    return (f"ICD10:{code[1]}", *term[1:]) if code else term


def in_all_forms(terms: Iterable[Term]) -> Iterator[Term]:
    """Each term in each of its :func:`forms`."""
    for concept, term, language in terms:
        for form in forms(term):
            yield concept, form, language
