"""UMLS RRF."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import ConfigError, InputError
from medlink.files import streams
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers import formats
from medlink.kb.readers.common import Batch
from medlink.kb.readers.rrf import read_rrf, read_rrf_batches
from medlink.records import Concept, Definition, Mapping, Name, Relation, SemanticType, Source
from tests.kb.writers import conso, opened_kb, read_all, rel, write_lines
from tests.scripts import benchmark


def release(folder: Path, **files: list[str]) -> Path:
    for name, lines in files.items():
        write_lines(folder / f"{name}.RRF", lines)
    return folder


def sab(name: str, version: str, first_in: str, current: str = "Y") -> str:
    cells = {2: name + version, 3: name, 4: f"{name} title", 6: version, 9: first_in, 21: current}
    return "|".join(cells.get(column, "") for column in range(25)) + "|"


def names(folder: Path, **options: Any) -> list[tuple[str, str, str, bool]]:
    found = [r for r in read_rrf(folder, **options) if isinstance(r, Name)]
    return [(name.concept_id, name.text, name.language, name.preferred) for name in found]


def test_every_file(tmp_path: Path) -> None:
    release(
        tmp_path,
        MRCONSO=[
            conso("C1", "Renal cyst", SAB="HPO", CODE="HP:1"),
            conso("C1", "Nierenzyste", SAB="MSHGER", LAT="GER", CODE="D1", TTY="MH"),
            conso("C1", "renal cyst", SAB="HPO", CODE="HP:1", TTY="SY", TS="S"),
        ],
        MRSTY=["C1|T047|B2.2|Disease or Syndrome|AT1|256|"],
        MRDEF=["C1|A1|AT1||HPO|A sac.|N||", "C1|A2|AT2||MSHGER|Ein Sack.|N||", "C1|A2|AT2||HPO|Old.|O||"],
        MRREL=[rel("C2", "CHD", "C1", "isa", "HPO")],
        MRSAB=[sab("HPO", "2024", "2025AA"), sab("MSHGER", "2023", "2024AB"), sab("OLD", "1", "2026AA", "N")],
    )
    assert [r for r in read_rrf(tmp_path) if not isinstance(r, Name)] == [
        Source("UMLS", "2025AA", "Unified Medical Language System"),
        Source("HPO", "2024", "HPO title"),
        Source("MSHGER", "2023", "MSHGER title"),
        Concept("C1", "UMLS"),
        Mapping("C1", "HPO", "HP:1", "code", "HPO"),
        Mapping("C1", "MSHGER", "D1", "code", "MSHGER"),
        SemanticType("C1", "Disease or Syndrome", "T047", "UMLS"),
        Definition("C1", "A sac.", "en", "HPO"),
        Definition("C1", "Ein Sack.", "de", "MSHGER"),
        Relation("C1", "isa", "C2", "HPO"),
    ]
    assert names(tmp_path) == [
        ("C1", "Renal cyst", "en", True), ("C1", "Nierenzyste", "de", True), ("C1", "renal cyst", "en", False),
    ]  # fmt: skip
    types = [(r.type, r.source) for r in read_rrf(tmp_path) if isinstance(r, Name)]
    assert types == [("PT", "HPO"), ("MH", "MSHGER"), ("SY", "HPO")]


def test_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "MRCONSO.RRF")
    with pytest.raises(InputError, match=r"MRCONSO\.RRF: is not a regular file\. Remedy: save its content in a file"):
        list(read_rrf(tmp_path))


def test_parent_folder_and_missing_files(tmp_path: Path) -> None:
    release(tmp_path / "META", MRCONSO=[conso("C1", "a")])
    problems = Problems()
    assert len(list(read_rrf(tmp_path, problems=problems))) == 4
    missing = [note.rsplit("/", 1)[1] for note in problems.notes]
    assert missing == [
        "MRFILES.RRF: is not there, the length of the files is not checked",
        *(f"{name}.RRF: is not there" for name in ("MRSAB", "MRRANK", "MRSTY", "MRDEF", "MRREL")),
    ]


def write_mrfiles(folder: Path) -> Path:
    """MRFILES of what lies in a folder, as a release has it."""
    rows = []
    for path in sorted(set(folder.glob("*.RRF")) - {folder / "MRFILES.RRF"}):
        text = path.read_bytes()
        columns = {"MRCONSO": 18, "MRSTY": 6, "MRREL": 16, "MRRANK": 4}[path.stem]
        rows.append(f"{path.name}|{path.stem}|A,B|{columns}|{text.count(bytes([10]))}|{len(text)}|")
    return write_lines(folder / "MRFILES.RRF", rows)


def whole(folder: Path) -> Path:
    """A release of three files that MRFILES lists, and an empty one."""
    release(
        folder,
        MRCONSO=[conso("C1", "a"), conso("C2", "ä")],
        MRREL=[rel("C1", "RO", "C2", "x")] * 100,
        MRSTY=["C1|T047|B2.2|Disease or Syndrome|AT1|256|", "C2|T047|B2.2|Disease or Syndrome|AT1|256|"],
        MRRANK=[],
    )
    write_mrfiles(folder)
    return folder


def test_complete_release(tmp_path: Path) -> None:
    problems = Problems()
    assert len(list(read_rrf(whole(tmp_path), problems=problems))) == 2 + 4 + 2 + 100
    assert problems.bad == {}
    assert [note.rsplit("/", 1)[1] for note in problems.notes] == [
        "MRSAB.RRF: is not there", "MRRANK.RRF: is empty", "MRDEF.RRF: is not there",
    ]  # fmt: skip
    # line ends that were converted are no damage
    for path in tmp_path.glob("MR[CRS]*.RRF"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(list(read_rrf(tmp_path))) == 108
    write_mrfiles(tmp_path)
    for path in tmp_path.glob("MR[CRS]*.RRF"):
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    assert len(list(read_rrf(tmp_path))) == 108


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "keep", "found", "listed"),
    [("MRREL", 50, "50 rows", "100"), ("MRSTY", 0, "0 rows", "2"), ("MRCONSO", 1, "1 rows", "2")],
)
def test_file_truncated_at_a_line_end(
    name: str, keep: int, found: str, listed: str, packed: bool, tmp_path: Path
) -> None:
    path = whole(tmp_path) / f"{name}.RRF"
    before = path.stat().st_size
    cut = b"".join(path.read_bytes().splitlines(keepends=True)[:keep])
    path.write_bytes(cut)
    if packed:
        path.with_name(f"{name}.RRF.gz").write_bytes(gzip.compress(cut))
        path.unlink()
    else:
        found, listed = f"{len(cut):,} bytes", f"{before:,}"
    with pytest.raises(InputError) as caught:
        list(read_rrf(tmp_path))
    assert str(caught.value) == (
        f"{path}: has {found}, {listed} are listed in MRFILES.RRF. Remedy: unpack the release again; "
        "where you cut files down yourself, take MRFILES.RRF away."
    )
    _, problems = read_all(read_rrf, tmp_path, share=1.0)
    assert f"{path}: has {found}, {listed} are listed in MRFILES.RRF" in problems.notes
    (tmp_path / "MRFILES.RRF").unlink()
    _, problems = read_all(read_rrf, tmp_path)
    assert any("the length of the files is not checked" in note for note in problems.notes)


def test_listed_file_is_missing(tmp_path: Path) -> None:
    (whole(tmp_path) / "MRSTY.RRF").unlink()
    with pytest.raises(InputError, match=r"MRSTY\.RRF: has 0 rows, 2 are listed in MRFILES\.RRF"):
        list(read_rrf(tmp_path))


def test_incomplete_mrfiles(tmp_path: Path) -> None:
    whole(tmp_path)
    rows = (tmp_path / "MRFILES.RRF").read_text().splitlines()
    write_lines(tmp_path / "MRFILES.RRF", [rows[0], "MRREL.RRF|x|A|16|many|1|", "MRX.RRF|x|A|1|1|1|"])
    _, problems = read_all(read_rrf, tmp_path)
    assert problems.bad == {"no number of columns, rows or bytes": 1}
    assert f"{tmp_path}/MRREL.RRF: MRFILES.RRF does not list it, its length is not checked" in problems.notes
    write_lines(tmp_path / "MRFILES.RRF", [rows[0].replace("|18|", "|19|")])
    with pytest.raises(InputError, match=r"MRCONSO\.RRF: has 18 columns, 19 are listed in"):
        list(read_rrf(tmp_path))


def test_relations_read_backwards(tmp_path: Path) -> None:
    """The file says what CUI2 is to CUI1; a hierarchy stands there twice and is one statement."""
    release(
        tmp_path,
        MRCONSO=[conso(cui, cui) for cui in ("KIND", "PARENT", "SITE")],
        MRREL=[
            rel("PARENT", "CHD", "KIND", "isa"),
            rel("KIND", "PAR", "PARENT", "inverse_isa"),
            rel("PARENT", "CHD", "SITE"),
            rel("SITE", "PAR", "PARENT"),
            rel("KIND", "RO", "SITE", "finding_site_of"),
            rel("KIND", "RB", "PARENT"),
            rel("KIND", "SY", "KIND"),
            rel("KIND", "RO", "GONE"),
            rel("KIND", "RO", "SITE", "old", suppress="Y"),
        ],
    )
    report = build_kb(tmp_path / "kb", [Input("rrf", tmp_path)])
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert list(kb.iter_relations()) == [
            Relation("KIND", "isa", "PARENT", "DEMO"),
            Relation("PARENT", "RB", "KIND", "DEMO"),
            Relation("SITE", "CHD", "PARENT", "DEMO"),
            Relation("SITE", "finding_site_of", "KIND", "DEMO"),
        ]
        assert kb.parents("KIND") == ["PARENT"]
        assert kb.children("PARENT") == ["KIND", "SITE"]
    assert report.inputs[0].skipped == {
        "relation repeated, kept once": 2,
        "relation of a concept that is not loaded": 1,
        "relation of a concept with itself": 1,
        "suppressed row": 1,
    }


@pytest.mark.parametrize(
    ("ranks", "preferred"),
    [
        (["0002|A|PT|N|", "0001|B|PT|N|"], "of A"),
        (["0001|A|PT|N|", "0002|B|PT|N|"], "of B"),  # the rank beats TS, STT and ISPREF
        ([], "of A"),
        (["0009|A|XX|N|", "0001|B|PT|N|"], "of B"),  # the rank is of source and term type together
    ],
)
def test_preferred_by_rank(ranks: list[str], preferred: str, tmp_path: Path) -> None:
    release(tmp_path, MRCONSO=[conso("C1", "of A", SAB="A"), conso("C1", "of B", SAB="B", TS="S")], MRRANK=ranks)
    assert [text for _, text, _, chosen in names(tmp_path) if chosen] == [preferred]


def test_preferred_in_unsorted_rows(tmp_path: Path) -> None:
    rows = [conso("C1", "second", STT="VO"), conso("C2", "other"), conso("C1", "first")]
    release(tmp_path, MRCONSO=rows)
    with opened_kb(tmp_path / "kb", Input("rrf", tmp_path)) as kb:
        assert kb.preferred_names(["C1", "C2"]) == {"C1": "first", "C2": "other"}


def test_filters(tmp_path: Path) -> None:
    release(
        tmp_path,
        MRCONSO=[
            conso("C1", "english", SAB="A", CODE="1"),
            conso("C1", "deutsch", SAB="B", LAT="GER", TTY="SY", CODE="2"),
            conso("C1", "suppressed", SAB="A", SUPPRESS="O"),
            conso("C2", "español", SAB="C", LAT="SPA"),
        ],
        MRDEF=["C1|A1|AT1||A|English.|N||", "C1|A1|AT1||B|Deutsch.|N||"],
        MRREL=[rel("C1", "RO", "C2", "x", "A"), rel("C1", "RO", "C2", "y", "B")],
    )

    def texts(**options: Any) -> tuple[set[str], set[str], set[str], dict[str, int]]:
        problems = Problems()
        records = list(read_rrf(tmp_path, problems=problems, **options))
        return (
            {r.text for r in records if isinstance(r, Name)},
            {r.text for r in records if isinstance(r, Definition)},
            {r.type for r in records if isinstance(r, Relation)},
            problems.skipped,
        )

    everything = ({"english", "deutsch", "español"}, {"English.", "Deutsch."}, {"x", "y"}, {"suppressed row": 1})
    assert texts() == everything
    found = texts(include_suppressed=True)
    assert (found[0], found[3]) == (everything[0] | {"suppressed"}, {})
    assert texts(languages=["de"]) == (
        {"deutsch"}, {"Deutsch."}, {"x", "y"},
        {"suppressed row": 1, "name in another language": 2, "definition in another language": 1},
    )  # fmt: skip
    assert texts(sources=["A"]) == (
        {"english"}, {"English."}, {"x"}, {"suppressed row": 1, "row of another source": 4},
    )  # fmt: skip
    assert texts(term_types=["SY"]) == (
        {"deutsch"}, everything[1], {"x", "y"}, {"suppressed row": 1, "name of another term type": 2},
    )  # fmt: skip
    with pytest.raises(ConfigError, match="unknown language"):
        texts(languages=["klingon"])
    # Codes do not depend on the language; a concept that no filter but the language leaves is counted.
    report = build_kb(tmp_path / "kb", [Input("rrf", tmp_path)], languages=["de"])
    assert report.inputs[0].skipped["concept without a name"] == 1
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert [mapping.code for mapping in kb.mappings("C1")] == ["1", "2"]
        assert kb.get("C2") is None


def test_term_types(tmp_path: Path) -> None:
    """Fully specified names are as in RF2, and what is no name of the concept is left out and counted."""
    release(
        tmp_path,
        MRCONSO=[
            conso("C1", "Asthma (disorder)", SAB="SNOMEDCT_US", TTY="FN", CODE="1"),
            conso("C1", "Asthma", SAB="SNOMEDCT_US", TTY="SY", TS="S", STT="VO", ISPREF="N"),
            conso("C1", "Asma (trastorno)", SAB="SCTSPA", TTY="FN", LAT="SPA"),
            conso("C1", "asma", SAB="SCTSPA", TTY="SY", LAT="SPA"),
            conso("C1", "BA", SAB="NCI", TTY="ACR"),
            conso("C1", "Asthma, Bronchial", SAB="MSH", TTY="PM"),
            conso("C1", "Wheezy bronchitis", SAB="X", TTY="OAP"),
            conso("C1", "Lung diseases", SAB="X", TTY="RT"),
            conso("C2", "SNOMED CT to ICD-10 map", SAB="SNOMEDCT_US", TTY="XM"),
            conso("C3", "Sole (disorder)", SAB="SNOMEDCT_US", TTY="FN"),
        ],
        MRRANK=["9|SNOMEDCT_US|FN|N|", "8|SNOMEDCT_US|SY|N|", "7|SCTSPA|FN|N|", "6|NCI|ACR|N|"],
    )
    report = build_kb(tmp_path / "kb", [Input("rrf", tmp_path)])
    assert report.inputs[0].skipped == {
        "form made for sorting, entering or permuting": 1,
        "name of a set of maps or of a subset": 1,
        "obsolete name": 1,
        "term that is only related": 1,
        "concept without a name": 1,
    }
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert [(name.text, name.type, name.preferred) for name in kb.names("C1")] == [
            ("Asthma", "SY", True),
            ("Asthma (disorder)", "fsn", False),
            ("BA", "ACR", False),
            ("asma", "SY", True),
            ("Asma (trastorno)", "fsn", False),
        ]
        assert kb.names("C3")[0].preferred  # a concept has to be called something
    # asked for by name it is taken in
    assert [name[:2] for name in names(tmp_path, term_types=["OAP"])] == [("C1", "Wheezy bronchitis")]
    assert [r.type for r in read_rrf(tmp_path, term_types=["FN"]) if isinstance(r, Name)] == ["fsn"] * 3


def test_wrong_folder(tmp_path: Path) -> None:
    for name in [f"f{number:02}" for number in range(12)]:
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"looked for MRCONSO.RRF .* found f00, f01, .* f09 and 2 more"):
        list(read_rrf(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="found no files"):
        list(read_rrf(tmp_path / "empty"))
    with pytest.raises(InputError, match="no such folder"):
        list(read_rrf(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="is not a folder"):
        list(read_rrf(tmp_path / "f00"))


def test_marks_of_sources_are_counted(tmp_path: Path) -> None:
    texts = ["Fever", "Fever (finding)", "Fever, NOS", "Pain NOS", "[D]Fever", "Fever, CTCAE 5.0", "Grade 2 Fever"]
    release(tmp_path, MRCONSO=[conso("C1", text) for text in texts])
    problems = Problems()
    assert len(names(tmp_path, problems=problems)) == len(texts)
    assert (
        "names kept that a source marks: 2 with NOS, 2 with CTCAE or its grade, "
        "1 with the tag of a fully specified name, 1 with a prefix such as [D]" in problems.notes
    )


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic release of 150 concepts."""
    folder = tmp_path_factory.mktemp("synthetic")
    benchmark("made_release").make_release(folder, 150)
    return folder


def built(folder: Path, out: Path, **given: Any) -> tuple[bytes, dict[str, int]]:
    """The knowledge base of a release, and what was left out."""
    report = build_kb(out, [Input("rrf", folder, given)])
    assert report.inputs[0].bad == {}
    return out.read_bytes(), report.inputs[0].skipped


@pytest.mark.slow
def test_batches_equal_single_records_and_small_blocks(
    synthetic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = built(synthetic, tmp_path / "kb")
    kinds = {record.kind.__name__ for record in read_rrf_batches(synthetic) if isinstance(record, Batch)}
    assert kinds == {"Concept", "RankedName", "Mapping", "SemanticType", "Relation"}
    monkeypatch.setattr(streams, "_BLOCK_BYTES", 50)
    assert built(synthetic, tmp_path / "kb") == batches
    monkeypatch.setitem(formats(), "rrf", replace(formats()["rrf"], read_batches=None))
    assert built(synthetic, tmp_path / "kb") == batches


@pytest.mark.slow
def test_preferred_names_against_an_oracle(synthetic: Path) -> None:
    """Of each concept and language the name of the highest rank, by TS, STT and ISPREF where ranks are equal."""
    ranks = {}
    for line in (synthetic / "MRRANK.RRF").read_text("utf-8").splitlines():
        rank, source, kind, *_ = line.split("|")
        ranks[source, kind] = int(rank)
    best: dict[tuple[str, str], tuple[tuple[int, bool, bool, bool], str]] = {}
    left_out = {"PM", "IS", "FN"}  # machines made the first, the second is obsolete, the third is fully specified
    for line in (synthetic / "MRCONSO.RRF").read_text("utf-8").splitlines():
        cui, lat, ts, _, stt, _, flag, _, _, _, _, source, kind, _, text, _, state, *_ = line.split("|")
        if state == "N" and kind not in left_out:
            order = (-ranks.get((source, kind), 0), ts != "P", stt != "PF", flag != "Y")
            known = best.setdefault((cui, lat), (order, text))
            best[cui, lat] = known if known[0] <= order else (order, text)
    found = [name for name in read_rrf(synthetic) if isinstance(name, Name) and name.preferred]
    expected = sorted((cui, text) for (cui, _), (_, text) in best.items())
    assert sorted((name.concept_id, name.text) for name in found) == expected
    assert len(expected) > 200


def test_bad_rows(tmp_path: Path) -> None:
    rows = [conso("C1", "a", LAT="XXX"), conso("", "c"), "C1|short|", conso("C1", "ok"), conso("C1", "", LAT="YYY")]
    problems = Problems(1)
    assert names(release(tmp_path, MRCONSO=rows), problems=problems) == [("C1", "ok", "en", True)]
    assert [(one.line, one.kind) for one in problems.examples] == [
        (1, "unknown language"), (2, "empty id or name"), (3, "column count"), (5, "empty id or name"),
    ]  # fmt: skip
