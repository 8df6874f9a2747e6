"""``benchmarks/open_names.py``: the table that the built-in encoder is trained on holds nothing deprecated."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

OPEN_NAMES = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "open_names.py"))


@pytest.fixture
def terminologies(tmp_path: Path) -> Path:
    """A small copy of the folder of open terminologies, with deprecated classes in each source."""
    folder = tmp_path / "terminologies"
    for name in ("names", "hpo", "doid", "mesh", "mappings"):
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


def test_deprecated_classes_are_left_out(terminologies: Path, tmp_path: Path) -> None:
    out = tmp_path / "names.tsv"
    CliRunner().invoke(OPEN_NAMES["main"], [str(terminologies), str(out)], catch_exceptions=False)
    names = {line.split("\t")[1] for line in out.read_text("utf-8").splitlines()[1:]}
    assert names == {"fever", "Cough", "Tos", "Neoplasm by Obsolete Classification"}
