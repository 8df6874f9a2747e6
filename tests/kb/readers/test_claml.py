"""Classifications in ClaML."""

from __future__ import annotations

import gzip
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import MAX_LINE_BYTES
from medlink.kb.readers.claml import read_claml
from medlink.records import Concept, Definition, Mapping, Name, Relation, SemanticType, Source
from tests.kb.writers import names_of, read_all

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE ClaML SYSTEM "ClaML.dtd">\n<ClaML version="2.0.0">\n'
TITLE = '<Meta name="lang" value="de"/><Title name="ICD-10-GM" date="2023-09-15" version="2024">ICD der Tests</Title>\n'


def preferred(text: str, kind: str = "preferred") -> str:
    return f'<Rubric kind="{kind}"><Label xml:lang="de">{text}</Label></Rubric>'


CLASSES = f"""
<Modifier code="S4"><SubClass code=".0"/><SubClass code=".7"/></Modifier>
<ModifierClass modifier="S4" code=".0"><SuperClass code="S4"/>{preferred("Mit Koma")}</ModifierClass>
<ModifierClass modifier="S4" code=".7"><SuperClass code="S4"/>{preferred("Mit Fuß")}</ModifierClass>
<ModifierClass modifier="S5" code="0">{preferred("nicht entgleist")}</ModifierClass>
<ModifierClass modifier="S5" code="5"><Meta name="excludeOnPrecedingModifier" value="S4 .0"/>
  {preferred("entgleist")}</ModifierClass>
<Class code="IV" kind="chapter"><SubClass code="E10-E14"/>{preferred("Stoffwechsel")}</Class>
<Class code="E10-E14" kind="block"><SuperClass code="IV"/>{preferred("Diabetes mellitus")}</Class>
<Class code="E10" kind="category"><SuperClass code="E10-E14"/><ModifiedBy code="S4"/><ModifiedBy code="S5"/>
  {preferred("Diabetes Typ 1")}
  <Rubric kind="inclusion"><Label xml:lang="de">Jugendlicher Diabetes <Term class="italic">(Exkl.: Fuß</Term>
    <Reference class="in brackets">E11</Reference><Term class="italic">)</Term></Label></Rubric>
  <Rubric kind="exclusion"><Label xml:lang="de">Schwangerschaft</Label></Rubric></Class>
<Class code="E11" kind="category"><SuperClass code="E10-E14"/><ModifiedBy code="S4" all="false">
  <ValidModifierClass code=".7"/></ModifiedBy>{preferred("Typ 2")}{preferred("Diabetes Typ 2", "preferredLong")}
  {preferred("Ein Mangel.", "definition")}
  <Rubric kind="inclusion"><Label xml:lang="en"><Fragment class="synlist" type="list">Sweet</Fragment>
    <Fragment type="list">Adult</Fragment></Label></Rubric>
  <Rubric kind="inclusion"><Label xml:lang="de"><Fragment type="list">Haut von</Fragment>
    <Fragment type="list">Kinn</Fragment></Label></Rubric></Class>
<Class code="E10.7" kind="category"><SuperClass code="E10"/>{preferred("Ausgeschrieben")}</Class>
"""


def write(path: Path, classes: str = CLASSES, head: str = HEAD, title: str = TITLE) -> Path:
    path.write_text(f"{head}{title}{classes}</ClaML>\n", "utf-8")
    return path


def test_everything(tmp_path: Path) -> None:
    records, problems = read_all(read_claml, write(tmp_path / "x.xml"))
    assert records[:4] == [
        Source("ICD-10-GM", "2024", "ICD der Tests"),
        Concept("ICD10GM:IV", "ICD-10-GM"),
        Name("ICD10GM:IV", "Stoffwechsel", "de", "preferred", "ICD-10-GM", True),
        Mapping("ICD10GM:IV", "ICD-10-GM", "IV", "code", "ICD-10-GM"),
    ]
    found = names_of(records)
    assert found["ICD10GM:E10"] == [("Diabetes Typ 1", "de", "preferred"), ("Jugendlicher Diabetes", "de", "narrow")]
    assert found["ICD10GM:E11"] == [
        ("Diabetes Typ 2", "de", "preferred"),
        ("Sweet", "en", "narrow"),
        ("Adult", "en", "narrow"),
        ("Haut von Kinn", "de", "narrow"),
    ]
    assert [one for one in records if isinstance(one, Definition)] == [
        Definition("ICD10GM:E11", "Ein Mangel.", "de", "ICD-10-GM")
    ]
    assert Relation("ICD10GM:E10", "isa", "ICD10GM:E10-E14", "ICD-10-GM") in records
    assert SemanticType("ICD10GM:E11", "Stoffwechsel", "", "ICD-10-GM") in records
    assert (problems.rows, problems.bad) == (9, {})
    assert problems.skipped == {
        "modifier, which is part of other codes": 4,
        "rubric of kind exclusion": 1,
        "short title beside a long one": 1,
    }


def test_codes_of_modifiers(tmp_path: Path) -> None:
    """E10 with .0 and .7, each with 0 and 5, but for .05, which is excluded; E10.7 has a class of its own."""
    records = list(read_claml(write(tmp_path / "x.xml")))
    found = names_of(records)
    made = {
        key.partition(":")[2]: found[key][0][0] for key in found if key.startswith(("ICD10GM:E10.", "ICD10GM:E11."))
    }
    assert made == {
        "E10.0": "Diabetes Typ 1: Mit Koma",
        "E10.00": "Diabetes Typ 1: Mit Koma: nicht entgleist",
        "E10.7": "Ausgeschrieben",
        "E10.70": "Diabetes Typ 1: Mit Fuß: nicht entgleist",
        "E10.75": "Diabetes Typ 1: Mit Fuß: entgleist",
        "E11.7": "Diabetes Typ 2: Mit Fuß",
    }
    assert Relation("ICD10GM:E10.75", "isa", "ICD10GM:E10.7", "ICD-10-GM") in records
    assert SemanticType("ICD10GM:E10.75", "Stoffwechsel", "", "ICD-10-GM") in records


def test_options(tmp_path: Path) -> None:
    path = write(tmp_path / "x.xml", CLASSES.replace(' xml:lang="de"', ""))
    records = list(read_claml(path, source="WARD", version="3", language="es"))
    assert records[:2] == [Source("WARD", "3", "ICD der Tests"), Concept("ICD10GM:IV", "WARD")]
    assert {one.language for one in records if isinstance(one, Name)} == {"es", "en"}
    (tmp_path / "x.xml.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert list(read_claml(path, source="WARD", version="3", language="es")) == records


def test_the_year_is_no_part_of_the_name(tmp_path: Path) -> None:
    title = TITLE.replace('name="ICD-10-GM"', 'name="OPS 2024"')
    records = list(read_claml(write(tmp_path / "x.xml", title=title)))
    assert records[:2] == [Source("OPS", "2024", "ICD der Tests"), Concept("OPS:IV", "OPS")]


def test_bad_classes(tmp_path: Path) -> None:
    more = (
        f'<Class kind="category">{preferred("x")}</Class><Class code="F1"/><Class code="E10">{preferred("x")}</Class>'
    )
    more += f'<ModifierClass modifier="S4">{preferred("x")}</ModifierClass>'
    _, problems = read_all(read_claml, write(tmp_path / "x.xml", CLASSES + more))
    assert problems.bad == {"class without a code or a title": 2, "modifier without a code or a title": 1}
    assert problems.skipped["class repeated, kept once"] == 1
    assert problems.rows == 13
    with pytest.raises(InputError, match=r"x\.xml:27: 1 of 10 rows cannot be used"):
        list(read_claml(tmp_path / "x.xml", problems=Problems(0)))


def test_an_unqualified_term_is_a_name_too(tmp_path: Path) -> None:
    inclusions = ("Faserkrebs o.n.A", "Fibrom, weich, o.n.A. [obs.]", "Zelltyp (Hinw.: Alle (auch große))", "NOS")
    titles = preferred("Fibrosarkom o.n.A.") + preferred("Sarcoma, NOS").replace('"de"', '"en"')
    rubrics = "".join(preferred(text, "inclusion") for text in (*inclusions, "Fibrosarkom"))
    made = f"""<Class code="881-883" kind="block">{preferred("Neoplasien o.n.A.")}</Class>
        <Class code="8810" kind="category">{titles}{rubrics}</Class>"""
    found = names_of(list(read_claml(write(tmp_path / "x.xml", made))))
    assert found["ICD10GM:881-883"] == [("Neoplasien o.n.A.", "de", "preferred")]  # no code: nothing is assigned to it
    assert found["ICD10GM:8810"] == [
        ("Fibrosarkom o.n.A.", "de", "preferred"),
        ("Sarcoma, NOS", "en", "preferred"),
        ("Faserkrebs o.n.A", "de", "narrow"),
        ("Fibrom, weich, o.n.A. [obs.]", "de", "narrow"),
        ("Zelltyp", "de", "narrow"),
        ("NOS", "de", "narrow"),
        ("Fibrosarkom", "de", "narrow"),
        ("Faserkrebs", "de", "unqualified"),
        ("Fibrom, weich", "de", "unqualified"),
        ("Sarcoma", "en", "unqualified"),
    ]


def test_several_titles(tmp_path: Path) -> None:
    """The first of a language counts, and the first of all names the codes that are made of it."""
    titles = preferred("Lang", "preferredLong") + preferred("Long", "preferredLong").replace('"de"', '"en"')
    made = f"""<ModifierClass modifier="M" code=".0">{preferred("Mit Koma")}</ModifierClass>
        <Class code="A"><ModifiedBy code="M"/>{titles}{preferred("kurz")}</Class>"""
    found = names_of(list(read_claml(write(tmp_path / "x.xml", made))))
    assert found["ICD10GM:A"] == [("Lang", "de", "preferred"), ("Long", "en", "preferred")]
    assert found["ICD10GM:A.0"] == [("Lang: Mit Koma", "de", "preferred")]


@pytest.mark.slow
def test_modifiers_without_end(tmp_path: Path) -> None:
    """A few lines can speak of more codes than there are atoms; codes with blanks are none."""
    codes = "".join(f'<ModifierClass modifier="M" code="{n}">{preferred("x")}</ModifierClass>' for n in range(10))
    blank = f'<ModifierClass modifier="M" code="a b">{preferred("x")}</ModifierClass>'
    many = (
        f'\n<Class code="E">{preferred("x")}{chr(60)}ModifiedBy code="M"/>' + 80 * '<ModifiedBy code="M"/>' + "</Class>"
    )
    records, problems = read_all(read_claml, write(tmp_path / "x.xml", codes + blank + many), share=1)
    assert problems.bad == {"modifier without a code or a title": 1, "class with more than 10,000 modified codes": 1}
    assert str(problems.examples[-1]).startswith(f"{tmp_path / 'x.xml'}:6: ")
    # E, and what one to four digits behind it make
    assert sum(isinstance(one, Concept) for one in records) == 1 + 10 + 100 + 1_000 + 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{HEAD}<!-- cut off -->{TITLE}<Class code="A', "is not XML, or is cut off: "),
        ("<a/>", "looked for ClaML; found a"),
        (f"{HEAD}</ClaML>", "looked for a Title and classes; found none"),
        (f'<!DOCTYPE ClaML [<!ENTITY a "aaaa">]><ClaML>{TITLE}</ClaML>', "has entities of its own"),
        (f'<!DOCTYPE ClaML [<!ENTITY a SYSTEM "/etc/passwd">]><ClaML>{TITLE}&a;</ClaML>', "has entities of its own"),
        (f"{HEAD}{TITLE}<Class>{'<a>' * 200}{'</a>' * 200}</Class></ClaML>", "is nested more than 100 deep"),
        (
            f"{HEAD}{TITLE}<Class>{'a' * 2 * MAX_LINE_BYTES}</Class></ClaML>",
            "an element is longer than 1,048,576 bytes",
        ),
        (f'{HEAD}{TITLE}<Class a="{"a" * 2 * MAX_LINE_BYTES}"/></ClaML>', "an element is longer than 1,048,576 bytes"),
        (
            f"{HEAD}{TITLE}<Class>" + ("<" + "a" * 60 + "/>") * (MAX_LINE_BYTES // 60) + "</Class></ClaML>",
            "an element is longer than 1,048,576 bytes",
        ),
        ('<?xml version="1.0" encoding="klingon"?><ClaML/>', "its encoding is not known|unknown encoding"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_claml(tmp_path / "x.xml"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8"])
@pytest.mark.parametrize("packed", [False, True])
def test_utf_16(encoding: str, packed: bool, tmp_path: Path) -> None:
    """As it is, and as iconv leaves it, which does not change what the file declares."""
    text = write(tmp_path / "x.xml").read_text("utf-8")
    expected = list(read_claml(tmp_path / "x.xml"))
    data = text.replace('encoding="UTF-8"', 'encoding="UTF-16"').encode(encoding)
    data = b"\xfe\xff" * (encoding == "utf-16-be") + data
    path = tmp_path / ("y.xml.gz" if packed else "y.xml")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert list(read_claml(path)) == expected


@pytest.mark.slow
def test_oncology_of_bfarm(shared: Path) -> None:
    """Counts are those of another parser."""
    path = shared / "data" / "terminologies" / "icd_de" / "icdo32019.xml"
    records, problems = read_all(read_claml, path)
    tree = ElementTree.parse(path).getroot()
    classes = list(tree.iter("Class"))
    assert {one.concept_id for one in records if isinstance(one, Concept)} == {
        f"ICDO3:{c.get('code').replace(':', '/')}" for c in classes
    }
    # every registry writes a slash
    assert Relation("ICDO3:8140/0", "isa", "ICDO3:814-838", "ICD-O-3") in records
    assert Mapping("ICDO3:8140/3", "ICD-O-3", "8140/3", "code", "ICD-O-3") in records
    assert Name("ICDO3:8810/3", "Fibrosarkom", "de", "unqualified", "ICD-O-3") in records
    assert sum(isinstance(one, Relation) for one in records) == sum(1 for _ in tree.iter("SuperClass")) == 1_620
    inclusions = [rubric for rubric in tree.iter("Rubric") if rubric.get("kind") == "inclusion"]
    assert len(inclusions) == 2_597
    lists = [list(one.iter("Fragment")) for one in inclusions]
    several = [parts for parts in lists if any(part.get("class") == "synlist" for part in parts)]
    texts = sum("".join(part.itertext()).strip() != "" for parts in several for part in parts)
    narrow = sum(isinstance(one, Name) and one.type == "narrow" for one in records)
    assert narrow == len(inclusions) - len(several) + texts == 2_819
    assert problems.rows == len(classes) == 1_622
    assert not problems.bad
    assert {one.semantic_type for one in records if isinstance(one, SemanticType)} == {"Topographie", "Morphologie"}
