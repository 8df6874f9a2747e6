"""``benchmarks/open_names.py``: what the built-in encoder is trained on holds nothing deprecated or held out."""

from __future__ import annotations

import doctest
import gzip
import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def open_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with ``tmp_path`` as the data folder beside the repository."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import open_data  # type: ignore[import-not-found]  # not a package: scripts
    import open_names  # type: ignore[import-not-found]

    for module in (open_data, open_names):
        monkeypatch.setattr(module, "BENCHMARKS", tmp_path / "benchmarks")
    module: ModuleType = open_names
    return module


@pytest.fixture
def terminologies(tmp_path: Path) -> Path:
    """A small copy of the folder of open terminologies, with deprecated classes in each source."""
    folder = tmp_path / "terminologies"
    for name in ("names", "hpo", "doid", "mesh", "mappings", "icd_de", "atc_de", "icd10cm"):
        (folder / name).mkdir(parents=True)
    rows = [
        ("fever", "uberon:1", "rdfs:label"),
        ("obsolete cellular lens", "uberon:2", "rdfs:label"),
        ("cell lens", "uberon:2", "oboInOwl:hasExactSynonym"),
        ("culture condition:acetate-grown cell", "bto:3", "rdfs:label"),
    ]
    for name, some in (("phenotype", rows), ("anatomy", [])):
        with gzip.open(folder / f"names/{name}.ssslm.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("text\tcurie\tpredicate\n" + "".join("\t".join(row) + "\n" for row in some))
    nodes = [
        {"id": "x/HP_1", "lbl": "Cough", "type": "CLASS"},
        {"id": "x/HP_2", "lbl": "Strabism", "type": "CLASS", "meta": {"deprecated": True}},
        {"id": "x/ORDO_3", "lbl": "OBSOLETE: Old syndrome", "type": "CLASS"},
        {"id": "x/ORDO_4", "lbl": "Neoplasm by Obsolete Classification", "type": "CLASS"},
    ]
    with gzip.open(folder / "hpo/hp.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"graphs": [{"nodes": nodes}]}, file)
    header = "subject_id\tpredicate_id\ttranslation_value\n"
    for name in ("hp-es.babelon.tsv", "hp-de.babelon.tsv", "hp-de.synonyms.tsv"):
        (folder / "hpo" / name).write_text(header, encoding="utf-8")
    spanish = "HP:1\trdfs:label\tTos\nHP:2\trdfs:label\tEstrabismo\nHP:1\trdfs:label\tobsoleto tos\n"
    (folder / "hpo/hp-es.babelon.tsv").write_text(header + spanish, encoding="utf-8")
    (folder / "doid/doid-es-translated.tsv").write_text("source_id\tpredicate\ttranslation_text\n", encoding="utf-8")
    (folder / "mesh/mesh2020_dui2canonical.json").write_text("{}", encoding="utf-8")
    (folder / "mesh/gilda_mesh_mappings.tsv").write_text("", encoding="utf-8")
    for name in ("doid", "mesh"):
        path = folder / f"mappings/mondo_exactmatch_{name}.sssom.tsv"
        path.write_text("subject_id\tsubject_label\tobject_id\n", encoding="utf-8")
    return folder


def written(path: Path) -> set[tuple[str, ...]]:
    header, *rows = path.read_text("utf-8").splitlines()
    assert header == "concept_id\tname\tlanguage"
    assert len(rows) == len(set(rows))
    return {tuple(row.split("\t")) for row in rows}


def test_deprecated_classes_are_left_out(open_names: ModuleType, terminologies: Path, tmp_path: Path) -> None:
    out = tmp_path / "names.tsv"
    CliRunner().invoke(open_names.main, [str(terminologies), str(out)], catch_exceptions=False)
    assert {name for _, name, _ in written(out)} == {"fever", "Cough", "Tos", "Neoplasm by Obsolete Classification"}


@pytest.fixture
def further(terminologies: Path) -> Path:
    """The same with coded terms and benchmarks: ORPHA 1 and 2 are trained on, 3 is held out."""
    nodes = [{"id": f"x/Orphanet_{i}", "lbl": f"syndrome {i}", "type": "CLASS"} for i in (1, 2, 3)]
    (terminologies / "ordo").mkdir()
    with gzip.open(terminologies / "ordo/ordo.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"graphs": [{"nodes": nodes}]}, file)
    german = "subject_id\tpredicate_id\ttranslation_value\n"
    german += "ORPHANET:3\trdfs:label\tDrittes Syndrom\nHP:1\trdfs:label\tHusten\nHP:1\trdfs:label\tTertiose\n"
    (terminologies / "hpo/hp-de.babelon.tsv").write_text(german, encoding="utf-8")
    alpha = ["1|I1|A00||||1|Primose [Erstkrankheit] a.n.k.", "0|I2|A00||||1|Ungültig", "1|I3|A00||||3|Tertiose"]
    alpha += ["1|I4|A00||||2|Tertiose", "1|I5|A00||||2|ZW [Zweitkrankheit]-Syndrom", "1|I6|A00|||||Cholera"]
    alpha += ["1|I7|A00||||9|In keiner Ontologie"]
    (terminologies / "icd_de/icd10gm2020_alphaid_se_x.txt").write_text("\n".join(alpha), encoding="utf-8")
    icd = ["1;7;1;A00.9;;;Brechruhr a.n.k.;", "1;8;1;A00.9;;;Große Cholera;", "0;9;1;;;;Ruhr - s. Dysenterie;"]
    icd += ["2;9;1;A87.8+;G02.0*;;Hirnhautfieber;", "1;9;1;A00.9;;;Tertiose;", "1;9;1;A00.9;;;Ruhr - s.a. Dysenterie;"]
    (terminologies / "icd_de/icd10gm2010alpha_edv_x.txt").write_bytes("\n".join(icd).encode("iso-8859-1"))
    label = '<Rubric kind="{}"><Label>{}</Label></Rubric>'
    claml = label.format("preferred", "Adenom o.n.A.") + label.format("inclusion", "Bronchialadenom")
    claml += label.format("inclusion", '<Fragment class="synlist"/><Fragment>Drüsentumor<Reference/></Fragment>')
    claml += label.format("exclusion", "Adenokarzinom")
    (terminologies / "icd_de/icdo32019.xml").write_text(
        f'<ClaML><Class code="8140:0">{claml}</Class><Class code="C50"/></ClaML>', encoding="utf-8"
    )
    drugs = "ATC-Code\t\tATC-Bedeutung\nN01BB02\t\tLidocain\t\t1 g\nN01BB\t\tAmid\nA01AA01\t\tUnbekannt\n\n"
    (terminologies / "atc_de/ATC_2026.csv").write_text(drugs, encoding="utf-8")
    mesh = {"D1": "Lidocaine", "D2": "Amide"}
    (terminologies / "mesh/mesh2020_dui2canonical.json").write_text(json.dumps(mesh), encoding="utf-8")
    titles = 'R52,"Pain, unspecified"\nA010,Typhoid fever\nA01,Typhoid and others\n'
    (terminologies / "icd10cm/categories.csv").write_text(titles, encoding="utf-8")
    for name in ("cantemist", "codiesp/train", "distemist", "ncbi_disease", "bc5cdr"):
        (terminologies.parent / "benchmarks" / name).mkdir(parents=True)
    written = {
        "cantemist/valid-codes.tsv": "8140/0\tAdenoma, SAI\tAdenoma\n8140/31\tAdenoma - G1\tG1\n8140/0/H\n",
        "codiesp/train/trainX.tsv": "S1\tDIAGNOSTICO\tr52\tdolores\t1 2\nS1\tDIAGNOSTICO\ta01.09\ttifus\t1 2\n"
        "S2\tDIAGNOSTICO\tr52\tdolencia\t1 2\nS1\tPROCEDIMIENTO\tr52\tcorte\t1 2\n",
        "distemist/distemist_subtrack2_training1_linking_crossmappings.tsv": "filename\tspan\nes-S2\tdolencia\n",
        "ncbi_disease/NCBItrainset_corpus.txt": "1\t0\t1\tamidosis\tDisease\tD2\n1\t0\t1\tseen\tDisease\tD2\n"
        "1\t0\t1\ttwo of them\tDisease\tD1|D2\n1\t0\t1\tof no ontology\tDisease\tD3\n",
        "ncbi_disease/NCBIdevelopset_corpus.txt": "2\t0\t1\tSeen\tDisease\tD2\n",
        "bc5cdr/CDR_TrainingSet.PubTator.txt": "3\t0\t1\tlignosis\tDisease\tD1\n",
        "bc5cdr/CDR_DevelopmentSet.PubTator.txt": "",
    }
    for name, text in written.items():
        (terminologies.parent / "benchmarks" / name).write_text(text, encoding="utf-8")
    return terminologies


def test_further_tables(open_names: ModuleType, further: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_names, "held_out_orpha", lambda concept: concept == "ORPHANET:3")
    out, folder = tmp_path / "names.tsv", tmp_path / "further"
    arguments = [str(further), str(out), "--further", str(folder)]
    CliRunner().invoke(open_names.main, arguments, catch_exceptions=False)
    # a German name of a held-out concept is in no table, nor is its term, as another concept's name either
    german = {name for _, name, language in written(out) if language == "de"}
    assert german == {"Husten"}
    assert ("ORPHANET:3", "syndrome 3", "en") in written(out)
    assert written(folder / "held_out_alpha.tsv") == {("ORPHANET:3", "Tertiose", "de")}
    assert written(folder / "alpha.tsv") == {
        ("ORPHANET:1", "Primose [Erstkrankheit]", "de"),
        ("ORPHANET:1", "Primose", "de"),
        ("ORPHANET:2", "ZW [Zweitkrankheit]-Syndrom", "de"),
        ("ORPHANET:2", "ZW-Syndrom", "de"),
        ("ORPHANET:2", "Zweitkrankheit-Syndrom", "de"),
    }
    assert written(folder / "oncology.tsv") == {
        ("ICDO:8140/0", "Adenom", "de"),
        ("ICDO:8140/0", "Drüsentumor", "de"),
        ("ICDO:8140/0", "Adenoma", "es"),
    }
    assert written(folder / "drugs.tsv") == {("MESH:D1", "Lidocain", "de")}
    assert written(folder / "siblings.tsv") == {
        ("ICD10:A00.9", "Brechruhr", "de"),
        ("ICD10:A00.9", "Große Cholera", "de"),
        ("ICD10GM:A87.8+G02.0", "Hirnhautfieber", "de"),
        ("ICDO:8140/0", "Adenom", "de"),
        ("ICDO:8140/0", "Drüsentumor", "de"),
        ("ICDO:8140/0", "Bronchialadenom", "de"),
        ("ICDO:8140/0", "Adenoma", "es"),
        ("ICD10:R52", "dolores", "es"),
        ("ICD10:R52", "Pain, unspecified", "en"),
        ("ICD10CM:A01.09", "tifus", "es"),
        ("ICD10CM:A01.09", "Typhoid fever", "en"),
    }
    assert written(folder / "mentions.tsv") == {("MESH:D2", "amidosis", "en"), ("MESH:D1", "lignosis", "en")}


def test_held_out_labels_are_in_no_table(
    open_names: ModuleType, further: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # HP:1 is held out in German: another source's row of the same name goes too
    monkeypatch.setattr(open_names, "held_out_label", lambda concept, language: (concept, language) == ("HP:1", "de"))
    with open(further / "icd_de/icd10gm2020_alphaid_se_x.txt", "a", encoding="utf-8") as file:
        file.write("\n1|I8|A00||||1|husten")
    label = {"id": "x/Orphanet_1", "lbl": "Cough", "type": "CLASS"}
    with gzip.open(further / "ordo/ordo.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"graphs": [{"nodes": [label]}]}, file)
    out, held, folder = tmp_path / "names.tsv", tmp_path / "held.tsv", tmp_path / "further"
    arguments = [str(further), str(out), "--held-out", str(held), "--further", str(folder)]
    CliRunner().invoke(open_names.main, arguments, catch_exceptions=False)
    assert ("HP:1", "Husten", "de") in written(held)
    assert all(name.lower() != "husten" for path in (out, *folder.glob("*.tsv")) for _, name, _ in written(path))


@pytest.mark.parametrize("name", ["classifications", "open_sources"])
def test_examples_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert doctest.testmod(importlib.import_module(name)) == (0, 5 if name == "classifications" else 1)
