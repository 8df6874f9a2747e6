"""One terminology, written out in every format, comes back the same through every reader."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers.delimited import read_table

from . import writers
from .writers import Term

ODD = Term(
    "DEMO:9999",
    names=[
        ("en", 'odd "quoted" name, {braces} [brackets] ! mark; type 1', True),
        ("en", "back\\slash and\u2028separator", False),
        ("de", "Gefäßverschluß, α-Typ", True),
        ("es", "niño con señal", True),
    ],
    definitions=[("en", 'It is "odd", very; much.'), ("es", "Es raro.")],
    parents=["DEMO:0001", "DEMO:0002"],
    semantic_types=["Disease", "Oddity"],
)


@pytest.fixture(scope="module")
def terms() -> list[Term]:
    with resources.as_file(resources.files("medlink") / "resources" / "demo" / "terminology.tsv") as path:
        return [*writers.terms_of(list(read_table(path))), ODD]


def _facts(folder: Path, *inputs: Input) -> dict[str, object]:
    report = build_kb(folder / "kb.sqlite", inputs)
    assert all(not given.bad for given in report.inputs)
    with KnowledgeBase(folder / "kb.sqlite") as kb:
        return writers.facts(kb)


WRITERS: dict[str, Callable[[Path, list[Term]], list[Input]]] = {
    "rrf": lambda folder, terms: [Input("rrf", writers.write_rrf(folder / "META", terms))],
    "rf2": lambda folder, terms: [Input("rf2", writers.write_rf2(folder / "rf2", terms))],
    "obo": lambda folder, terms: [
        Input("obo", writers.write_obo(folder / "demo.obo", terms)),
        Input("babelon", writers.write_babelon(folder / "demo-de-es.babelon.tsv", terms)),
    ],
    "obograph": lambda folder, terms: [
        Input("babelon", writers.write_babelon(folder / "demo-de-es.babelon.tsv", terms)),
        Input("obograph", writers.write_obograph(folder / "demo.json", terms)),
    ],
    "table": lambda folder, terms: [Input("table", writers.write_table(folder / "demo.tsv", terms))],
    "csv": lambda folder, terms: [Input("table", writers.write_table(folder / "demo.csv", terms))],
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_concepts_back(kind: str, terms: list[Term], tmp_path: Path) -> None:
    expected = {
        "names": sorted({(t.concept_id, *name) for t in terms for name in t.names}),
        "definitions": sorted({(t.concept_id, *definition) for t in terms for definition in t.definitions}),
        "types": sorted({(t.concept_id, kind) for t in terms for kind in t.semantic_types}),
        "parents": sorted({(t.concept_id, parent) for t in terms for parent in t.parents}),
    }
    assert len(expected["names"]) > 4000
    assert _facts(tmp_path, *WRITERS[kind](tmp_path, terms)) == expected


@pytest.mark.parametrize("kind", ["rrf", "rf2", "obo", "obograph", "table"])
def test_gzip_makes_no_difference(kind: str, terms: list[Term], tmp_path: Path) -> None:
    some = [term for term in terms if term.concept_id < "DEMO:0020" or term is ODD]
    inputs = WRITERS[kind](tmp_path, some)
    plain = _facts(tmp_path, *inputs)
    packed = []
    for given in inputs:
        path = Path(given.path)
        for found in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
            found.with_name(found.name + ".gz").write_bytes(gzip.compress(found.read_bytes()))
            found.unlink()
        packed.append(Input(given.format, path if path.is_dir() else path.with_name(path.name + ".gz")))
    assert _facts(tmp_path, *packed) == plain
