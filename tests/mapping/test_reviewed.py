"""Decisions of a review become approved maps, which the next release carries over."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from medlink.curation.decisions import HEADER
from medlink.curation.review import Review
from medlink.errors import ConfigError, InputError
from medlink.index import Bundle
from medlink.kb.decision_table import ACCEPT, CODE, NONE, REJECT, Decision, format_cells
from medlink.mapping import map_codes
from medlink.mapping.options import Shape
from medlink.mapping.reading import USAGI, read_codes
from medlink.mapping.targets import Targets

CODES = "code,name,language\nK1,Fieber,de\nK2,Herzanfall,de\nK3,Grund,de\nK4,MS,\nK5,,\nK6,Hb,de\n"
DECIDED = [
    ("K1", "Fieber", ACCEPT, "OMOP:9"),
    ("K2", "Herzanfall", ACCEPT, "OMOP:1"),  # another concept than the proposed one
    ("K3", "Grund", NONE, ""),
    ("K4", "MS", REJECT, ""),
    ("K5", "K5", ACCEPT, "OMOP:12"),  # a code without a description
]


@pytest.fixture
def reviewed(omop: Bundle, tmp_path: Path) -> Path:
    """A list of codes, and the decisions of a review about it."""
    (tmp_path / "codes.csv").write_text(CODES, "utf-8")
    map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "work.jsonl")
    review = Review(omop, tmp_path / "work.jsonl", decisions=tmp_path / "decisions.tsv")
    assert review.store is not None
    rows = [
        format_cells(Decision(concept, name, "", False, "", decision, 0, CODE, code))
        for code, name, decision, concept in DECIDED
    ]
    table = HEADER + "".join("\t".join(row) + "\n" for row in rows)
    review.store.write(table.encode(), review.store.read()[1])
    return tmp_path


def mapped(bundle: Bundle, folder: Path, before: str, name: str, shape: Shape | None = None) -> list[list[str]]:
    map_codes(
        bundle, folder / "codes.csv", before=folder / before, out=folder / name, shape=shape, changes=folder / "c.tsv"
    )
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t" if name.endswith("tsv") else ","))


def decided(rows: list[list[str]]) -> dict[str, tuple[str, ...]]:
    columns = [rows[0].index(name) for name in ("mappingStatus", "conceptId", "conceptName", "equivalence")]
    return {row[0]: tuple(row[column] for column in columns) for row in rows[1:]}


def test_decisions_become_maps_in_every_format(omop: Bundle, reviewed: Path) -> None:
    expected = {
        "K1": ("APPROVED", "9", "Fever", "UNREVIEWED"),
        "K2": ("APPROVED", "1", "Disease", "UNREVIEWED"),
        "K3": ("IGNORED", "0", "", "UNMATCHED"),
        "K4": ("IGNORED", "0", "", "UNREVIEWED"),
        "K5": ("APPROVED", "12", "Pneumonia", "UNREVIEWED"),
        "K6": ("UNCHECKED", "10", "Haemoglobin", "UNREVIEWED"),
    }
    for before, name in (("decisions.tsv", "reviewed.csv"), ("reviewed.csv", "next.csv")):
        assert decided(mapped(omop, reviewed, before, name)) == expected
        results = [line.split("\t")[0] for line in (reviewed / "c.tsv").read_text("utf-8").splitlines()[1:]]
        assert results == ["kept"] * 5 + ["new" if before == "decisions.tsv" else "undecided"]
    of_omop = mapped(omop, reviewed, "decisions.tsv", "stcm.csv", "source-to-concept-map")
    assert [(row[0], row[4]) for row in of_omop[1:]] == [("K1", "9"), ("K2", "1"), ("K5", "12")]
    sssom = [row for row in mapped(omop, reviewed, "decisions.tsv", "m.sssom.tsv") if not row[0].startswith("#")]
    by_hand = [row[0] for row in sssom[1:] if "semapv:ManualMappingCuration" in row]
    assert by_hand == ["LOCAL:K1", "LOCAL:K2", "LOCAL:K5"]


@pytest.mark.parametrize("columns", [12, 6])
def test_decisions_about_something_else_are_refused(columns: int, omop: Bundle, tmp_path: Path) -> None:
    """About mentions, or about terms of a list, whose tables have six columns."""
    row = format_cells(Decision("OMOP:9", "fever", "", False, "", ACCEPT, 0, "mention", "1.txt", 0, 5))
    lines = [HEADER.rstrip("\n").split("\t"), row]
    (tmp_path / "d.tsv").write_text("".join("\t".join(line[:columns]) + "\n" for line in lines), "utf-8")
    with pytest.raises(InputError, match=r"has no decision about a code\. Remedy: give the decisions of a review of"):
        read_codes(tmp_path / "d.tsv", Targets(omop.kb))


def test_a_list_that_decides_otherwise_stays_and_is_counted(omop: Bundle, reviewed: Path) -> None:
    rows = mapped(omop, reviewed, "decisions.tsv", "reviewed.csv")
    text = (reviewed / "reviewed.csv").read_text("utf-8").replace(",9,Fever,", ",1,Disease,")
    assert len(rows) == 7
    (reviewed / "other.csv").write_text(text, "utf-8")
    report = map_codes(omop, reviewed / "other.csv", before=reviewed / "decisions.tsv", out=reviewed / "o.csv")
    assert report.notes == ["1 decision of the list differs from the earlier one: that of the list stays"]


def test_a_code_with_several_descriptions_units_and_languages(omop: Bundle, tmp_path: Path) -> None:
    """A review decides about each description and unit, and the decisions come back to the same rows."""
    rows = ["K,Fieber,,de", "K,Herzanfall,,de", "K,Hb,g/dl,de", "K,Hb,mmol/l,de", "L,Fieber,,de", "L,Fieber,,en"]
    (tmp_path / "codes.csv").write_text("\n".join(["code,name,unit,language", *rows, ""]), "utf-8")
    report = map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "work.jsonl")
    assert report.notes == ["codes with several descriptions: 2"]
    review = Review(omop, tmp_path / "work.jsonl", decisions=tmp_path / "decisions.tsv")
    items = [(row["item"], row["text"]) for _, row in review.items.rows]
    assert items == [("K", "Fieber"), ("K", "Herzanfall"), ("K", "Hb [g/dl]"), ("K", "Hb [mmol/l]"), ("L", "Fieber")]
    assert review.store is not None
    decisions = [(ACCEPT, "OMOP:9"), (REJECT, ""), (ACCEPT, "OMOP:10"), (NONE, ""), (ACCEPT, "OMOP:1")]
    for (code, text), (decision, concept) in zip(items, decisions, strict=True):
        review.store.decide(Decision(concept, text, "de", False, "", decision, 0, CODE, code))
    assert len(review.store.rows) == 5
    assert review.write_pairs(tmp_path / "pairs.tsv") > 3
    out = tmp_path / "o.csv"
    assert map_codes(omop, tmp_path / "codes.csv", out=out, before=tmp_path / "decisions.tsv").kept == 6
    with out.open(encoding="utf-8", newline="") as file:
        found = [(row["ADD_INFO:unit"], row["mappingStatus"], row["conceptId"]) for row in csv.DictReader(file)]
    assert found == [
        ("", "APPROVED", "9"), ("", "IGNORED", "0"), ("g/dl", "APPROVED", "10"), ("mmol/l", "IGNORED", "0"),
        ("", "APPROVED", "1"), ("", "APPROVED", "1"),
    ]  # fmt: skip
    line = (tmp_path / "work.jsonl").read_text("utf-8").splitlines()[0]
    (tmp_path / "work.jsonl").write_text(f"{line}\n{line}\n", "utf-8")
    with pytest.raises(InputError, match=r":2: this code is also in line 1\. Remedy: delete one of the two"):
        Review(omop, tmp_path / "work.jsonl")


def test_several_earlier_files(omop: Bundle, reviewed: Path) -> None:
    """A table of a review beside the work list: a proposal hides no decision, and of two decisions the last counts."""
    work = reviewed / "work.csv"
    map_codes(omop, reviewed / "codes.csv", out=work)
    lines = work.read_text("utf-8").splitlines()
    k6 = next(number for number, line in enumerate(lines) if line.startswith("K6,"))
    lines[k6] = lines[k6].replace("UNCHECKED", "APPROVED")
    work.write_text("\n".join([*lines, ""]), "utf-8")
    for before in (["work.csv", "decisions.tsv"], ["decisions.tsv", "work.csv"]):
        report = map_codes(
            omop, reviewed / "codes.csv", before=[reviewed / name for name in before], out=reviewed / "both.csv"
        )
        assert (report.kept, report.changes) == (6, {"kept": 6})
        assert report.notes == []
    (reviewed / "other.csv").write_text(
        f"{HEAD}\n{usagi_row('K1', '0', 'IGNORED').replace(',x,', ',Fieber,')}\n", "utf-8"
    )
    for before, status in ((["decisions.tsv", "other.csv"], "IGNORED"), (["other.csv", "decisions.tsv"], "APPROVED")):
        out = reviewed / f"{status}.csv"
        report = map_codes(omop, reviewed / "codes.csv", before=[reviewed / name for name in before], out=out)
        with out.open(encoding="utf-8", newline="") as file:
            assert decided(list(csv.reader(file)))["K1"][0] == status
        assert report.notes == ["the earlier files decided differently about 1 code: the last file counts"]


@pytest.mark.parametrize("status", ["APPROVED", "IGNORED", "FLAGGED"])
@pytest.mark.parametrize("mark", [",", ";"])
def test_an_output_replaces_no_decision(status: str, mark: str, omop: Bundle, reviewed: Path) -> None:
    out = reviewed / "save.csv"
    map_codes(omop, reviewed / "codes.csv", out=out)
    map_codes(omop, reviewed / "codes.csv", out=out)  # proposals are renewed
    saved = out.read_text("utf-8").replace("UNCHECKED", status, 1).replace(",", mark)
    out.write_text(saved, "utf-8")
    message = (
        r"save\.csv: has 1 decision of a person, which the output would replace\. "
        r"Remedy: name another output, and give this file with before="
    )
    with pytest.raises(ConfigError, match=message):
        map_codes(omop, reviewed / "codes.csv", out=out)
    assert out.read_text("utf-8") == saved
    (reviewed / "copy.csv").write_text(saved, "utf-8")
    # the decision is in the earlier file, then in the list
    for codes, before in (("codes.csv", reviewed / "copy.csv"), ("copy.csv", None)):
        assert map_codes(omop, reviewed / codes, out=out, before=before).kept == 1
        assert status in out.read_text("utf-8")


def test_a_table_of_decisions_is_not_replaced(omop: Bundle, reviewed: Path) -> None:
    with pytest.raises(ConfigError, match=r"decisions\.tsv: has 5 decisions of a person"):
        map_codes(omop, reviewed / "codes.csv", out=reviewed / "decisions.tsv", shape="usagi")
    (reviewed / "o.csv").write_text(f"{HEAD}\n{usagi_row('K', '2', 'MAYBE')}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"may have decisions of a person, but line 2 cannot be read: mappingStatus"):
        map_codes(omop, reviewed / "codes.csv", out=reviewed / "o.csv")
    for text in ("", "just text\n", '{"a": 1}\n', "code,name\nK1,x\n"):
        (reviewed / "o.csv").write_text(text, "utf-8")
        assert map_codes(omop, reviewed / "codes.csv", out=reviewed / "o.csv").codes == 6


HEAD = ",".join(USAGI)


def usagi_row(code: str, concept: str, status: str, equivalence: str = "EQUAL", kind: str = "MAPS_TO") -> str:
    return f"{code},x,1,,0.9,{status},{equivalence},ana,1,{concept},y,Condition,{kind},,,0,"


@pytest.mark.parametrize(
    ("rows", "concepts"),
    [
        ([usagi_row("K", "9", "UNCHECKED"), usagi_row("K", "2", "APPROVED")], ["2"]),
        ([usagi_row("K", "2", "APPROVED"), usagi_row("K", "9", "UNCHECKED")], ["2"]),
        ([usagi_row("K", "2", "APPROVED"), usagi_row("K", "20", "APPROVED", kind="MAPS_TO_UNIT")], ["2", "20"]),
        ([usagi_row("K", "0", "IGNORED"), usagi_row("K", "9", "UNCHECKED")], []),
        ([usagi_row("K", "0", "UNCHECKED"), usagi_row("K", "2", "FLAGGED")], ["2"]),
        ([usagi_row("K", "2", "APPROVED"), usagi_row("K", "2", "IGNORED")], None),
        ([usagi_row("K", "2", "APPROVED"), usagi_row("K", "9", "APPROVED", "WIDER")], None),
    ],
)
def test_rows_of_one_code(rows: list[str], concepts: list[str] | None, omop: Bundle, tmp_path: Path) -> None:
    """A decision is not lost beside a proposal, whichever row is first, and approves no proposal."""
    (tmp_path / "u.csv").write_text("\n".join([HEAD, *rows, ""]), "utf-8")
    if concepts is None:
        with pytest.raises(InputError, match=r"u\.csv:3: decided otherwise in an earlier row of the code"):
            read_codes(tmp_path / "u.csv", Targets(omop.kb))
        return
    (one,) = read_codes(tmp_path / "u.csv", Targets(omop.kb)).maps
    assert one.decided
    assert [Targets.format_id(target.concept_id) for target in one.targets] == concepts


@pytest.mark.parametrize("left", ["mappingStatus", "mappingStatus,equivalence"])
def test_a_reviewed_list_without_its_status_is_refused(left: str, omop: Bundle, tmp_path: Path) -> None:
    names = [name for name in USAGI if name not in left.split(",")]
    (tmp_path / "u.csv").write_text(f"{','.join(names)}\n{'K,' * (len(names) - 1)}\n", "utf-8")
    with pytest.raises(InputError, match=r"Usagi without mappingStatus, .* Remedy: keep the column, or name the col"):
        read_codes(tmp_path / "u.csv", Targets(omop.kb))
