"""Round trip of one terminology through all formats."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
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
        terms = [term for term in writers.terms_of(list(read_table(path))) if term.concept_id < "DEMO:0200"]
    ids = {term.concept_id for term in terms}
    return [*(replace(term, parents=[one for one in term.parents if one in ids]) for term in terms), ODD]


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


def compress(given: Input) -> Input:
    path = Path(given.path)
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    return Input(given.format, path if path.is_dir() else path.with_name(path.name + ".gz"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
def test_round_trip(kind: str, terms: list[Term], tmp_path: Path) -> None:
    expected = {
        "names": sorted({(t.concept_id, *name) for t in terms for name in t.names}),
        "definitions": sorted({(t.concept_id, *definition) for t in terms for definition in t.definitions}),
        "types": sorted({(t.concept_id, kind) for t in terms for kind in t.semantic_types}),
        "parents": sorted({(t.concept_id, parent) for t in terms for parent in t.parents}),
    }
    assert len(expected["names"]) > 500
    inputs = WRITERS[kind](tmp_path, terms)
    assert _facts(tmp_path, *inputs) == expected
    assert _facts(tmp_path, *map(compress, inputs)) == expected
