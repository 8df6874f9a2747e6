"""The readers of the terminologies of hospitals on damaged files, as :mod:`tests.test_damaged_inputs` does it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.errors import MedlinkError
from medlink.files.problems import Problems
from medlink.kb import Input, build_kb
from medlink.kb.readers.claml import read_claml
from medlink.kb.readers.fhir import read_fhir
from medlink.kb.readers.omop import read_omop
from medlink.records import Concept, Mapping, Name, Record, Relation
from tests.damage import damaged, in_time, lines_of, text_of, tried, with_text, wrong_json
from tests.kb.readers import (
    test_alphaid,
    test_atc,
    test_claml,
    test_fhir,
    test_icd_metadata,
    test_loinc,
    test_omop,
    test_sssom,
)
from tests.kb.writers import read_alphaid, read_atc, read_cie10, read_icd_metadata, read_loinc, read_sssom
from tests.test_damaged_inputs import EXAMPLES, SHARES, count, read, read_damaged, unread, written

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Generating overly large repr")]
CLAML = written("x.xml", test_claml.write)
ALPHA_ID = "".join(f"{line}\n" for line in test_alphaid.ALPHA_ID_SE * 3).encode()
ALPHABET = "".join(f"{line}\n" for line in test_alphaid.ALPHABET * 3).encode()
KODES = "".join(f"{line}\n" for line in test_icd_metadata.KODES).encode()
LOINC_ROW = ["8", "Glucose", "MCnc", "Zeitpunkt", "Blut", "Qn", "", "Chemie", "", "Glucose, Blut", "", "BZ"]
LOINC = written(
    "x.csv", lambda path: test_loinc.write(path, test_loinc.VARIANT, *[[f"{n}-{n}", *LOINC_ROW[1:]] for n in range(9)])
)
ATC_CODES = ("A", "A01", "A01A", "A01AA", *(f"A01AA0{n}" for n in range(9)))
ATC = "".join(f"{line}\n" for line in (test_atc.HEADER, *(f"{code}\t\tä {code}\t\t" for code in ATC_CODES))).encode()
SSSOM = "".join(f"{line}\n" for line in test_sssom.LINES[2:7]).encode()
CIE10 = "".join(f"{line}\n" for line in ("Código;Descripción", *(f"I2{n};ä {n}" for n in range(9)))).encode()
OMOP = {
    f"{name}.csv": "".join(f"{line}\n" for line in [test_omop.HEADS[name], *rows]).encode()
    for name, rows in test_omop.ROWS.items()
}


@tried(2 * EXAMPLES)
@given(damaged(CLAML), SHARES)
def test_claml_files(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_claml, "x.xml", data, share)
    if found is not None:
        try:
            root = ElementTree.fromstring(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        except ElementTree.ParseError as error:
            assert "unbound prefix" in str(error)  # noqa: PT017
            return
        classes = [one for tag in ("Class", "ModifierClass") for one in root.findall(tag)]
        assert problems.rows == len(classes)
        codes = [one.get("code", "").strip() for one in root.findall("Class")]
        written_out = sum(one.concept_id.partition(":")[2] in codes for one in found if isinstance(one, Concept))
        left = problems.skipped["class repeated, kept once"]
        left += problems.bad["class without a code or a title"] + problems.bad["class before the title"]
        assert written_out + left >= len(codes)


@pytest.mark.parametrize("layout", [ALPHA_ID, ALPHABET])
@tried(EXAMPLES)
@given(st.data(), SHARES)
def test_alpha_id(layout: bytes, data: st.DataObject, share: float) -> None:
    content = data.draw(damaged(layout))
    found, problems = read_damaged(read_alphaid, "x.txt", content, share)
    if found is not None:
        assert count(found, Name) + unread(problems) == problems.rows
        assert problems.rows == sum(line not in (b"", b"\r", b"\xef\xbb\xbf") for line in lines_of(content))


@tried(EXAMPLES)
@given(damaged(KODES), SHARES)
def test_icd_metadata_files(data: bytes, share: float) -> None:
    problems = Problems(share)
    with in_time() as folder:
        test_icd_metadata.write(folder)
        (folder / "icd10gm2024syst_kodes.txt").write_bytes(data)
        found = read(read_icd_metadata(folder, problems=problems))
    if found is not None:
        assert count(found, Concept) + unread(problems) == problems.rows


@tried(EXAMPLES)
@given(damaged(SSSOM), SHARES)
def test_sssom_files(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_sssom, "x.tsv", data, share)
    if found is not None:
        assert count(found, Mapping) + unread(problems) >= problems.rows


@pytest.mark.parametrize(("read_one", "table"), [(read_loinc, LOINC), (read_cie10, CIE10)])
@tried(EXAMPLES)
@given(st.data(), SHARES)
def test_tables(read_one: Callable[..., Iterator[Record]], table: bytes, data: st.DataObject, share: float) -> None:
    content = data.draw(damaged(table))
    found, problems = read_damaged(read_one, "x.csv", content, share)
    if found is not None:  # a row of a code that stood before brings further names, and no concept
        assert count(found, Concept) + unread(problems) <= problems.rows <= count(found, Name) + unread(problems)


@tried(2 * EXAMPLES)
@given(damaged(ATC), SHARES)
def test_atc_files(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_atc, "x.csv", data, share)
    if found is not None:
        assert count(found, Concept) + unread(problems) == problems.rows
        # a line without a code goes on with the row before it
        texts = [text_of(line, first=not at) for at, line in enumerate(lines_of(data))]
        assert problems.rows <= sum(text is None or text.strip() != "" for text in texts) - 1


@tried(3 * EXAMPLES)
@given(st.sampled_from(sorted(OMOP)), st.data(), SHARES)
def test_omop_files(name: str, data: st.DataObject, share: float) -> None:
    content, problems = data.draw(damaged(OMOP[name])), Problems(share)
    with in_time() as folder:
        for other, whole in OMOP.items():
            (folder / other).write_bytes(content if other == name else whole)
        found = read(read_omop(folder, problems=problems))
    if found is not None:
        others = sum(with_text(whole) - 1 for other, whole in OMOP.items() if other != name)
        assert problems.rows == others + with_text(content) - 1
        assert count(found, Name, Relation) + unread(problems) == problems.rows


def check_fhir(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_fhir, "x.json", data, share)
    if found is not None:
        assert count(found, Concept) <= problems.rows


BUNDLE = {
    "resourceType": "Bundle",
    "entry": [{"resource": one} for one in (test_fhir.CODE_SYSTEM, test_fhir.VALUE_SET, test_fhir.CONCEPT_MAP)],
}


@tried(EXAMPLES)
@given(damaged(json.dumps(BUNDLE, indent=1).encode()), SHARES)
def test_fhir_files(data: bytes, share: float) -> None:
    check_fhir(data, share)


@pytest.mark.parametrize("resource", [test_fhir.CODE_SYSTEM, test_fhir.VALUE_SET, test_fhir.CONCEPT_MAP, BUNDLE])
@tried(2 * EXAMPLES)
@given(st.data(), SHARES)
def test_fhir_of_wrong_types(resource: Any, data: st.DataObject, share: float) -> None:
    check_fhir(json.dumps(data.draw(wrong_json(resource))).encode(), share)


@tried(EXAMPLES // 5)
@given(st.data())
def test_a_knowledge_base_of_damaged_files(data: st.DataObject) -> None:
    """What a reader lets through can be stored."""
    files = {"claml": CLAML, "alphaid": ALPHA_ID, "loinc": LOINC, "atc": ATC, "cie10": CIE10}
    with in_time() as folder:
        for kind, content in files.items():
            (folder / kind).write_bytes(data.draw(damaged(content)))
        (folder / "fhir").write_text(json.dumps(data.draw(wrong_json(BUNDLE))))
        for kind in (*files, "fhir"):
            with suppress(MedlinkError):
                build_kb(folder / "kb", [Input(kind, folder / kind)], max_bad_share=1)
