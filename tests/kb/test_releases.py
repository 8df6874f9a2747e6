"""Real releases: counts in the knowledge base against counts that only use ``split``."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medlink.kb import BuildReport, Input, KnowledgeBase, build_kb

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DATA.is_dir(), reason=f"real releases are not at hand ({DATA})")]


def rows(path: Path, separator: str) -> Iterator[list[str]]:
    with open(path, encoding="utf-8", newline="\n") as handle:
        for line in handle:
            yield line.rstrip("\r\n").split(separator)


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(DATA / "releases" / name) as archive:
        archive.extractall(folder, filter="data")
    return folder


def totals(report: BuildReport) -> dict[str, Any]:
    with KnowledgeBase(report.path) as kb:
        stored = {
            "concepts": sum(1 for _ in kb.iter_concepts()),
            "names_by_language": dict(sorted(Counter(name.language for name in kb.iter_names()).items())),
            "definitions": sum(1 for _ in kb.iter_definitions()),
            "semantic_types": sum(1 for _ in kb.iter_semantic_types()),
            "relations": sum(1 for _ in kb.iter_relations()),
            "mappings": sum(1 for _ in kb.iter_mappings()),
        }
        counts = kb.counts()
        assert {key: counts[key] for key in stored} == stored
    return stored


def differ(left: Any, right: Any) -> list[Any]:
    """Return a few members of the symmetric difference; pytest would compare the sets for minutes."""
    return sorted(set(left) ^ set(right))[:5]


def by_language(names: set[tuple[str, ...]]) -> dict[str, int]:
    return dict(sorted(Counter(name[1] for name in names).items()))


@pytest.mark.slow
def test_umls(tmp_path: Path) -> None:
    meta = unpack("umls.tar.xz", tmp_path) / "umls" / "META"
    tags = {"ENG": "en", "GER": "de", "SPA": "es"}
    language_of: dict[str, str] = {}
    names, codes, best = set(), set(), {}
    ranks = {(sab, tty): int(rank) for rank, sab, tty, *_ in rows(meta / "MRRANK.RRF", "|")}
    for row in rows(meta / "MRCONSO.RRF", "|"):
        cui, lat, sab, tty, code, text, suppress = row[0], row[1], row[11], row[12], row[13], row[14], row[16]
        language_of[sab] = tags[lat]
        if suppress == "N":
            names.add((cui, tags[lat], text.strip(), sab))
            codes.add((cui, sab, code))
            best[cui, tags[lat]] = max(best.get((cui, tags[lat]), 0), ranks[sab, tty])
    concepts = {name[0] for name in names}
    definitions = {(r[0], r[4], r[5]) for r in rows(meta / "MRDEF.RRF", "|") if r[6] == "N" and r[0] in concepts}
    types = {(r[0], r[1], r[3]) for r in rows(meta / "MRSTY.RRF", "|") if r[0] in concepts}
    relations = set()
    for row in rows(meta / "MRREL.RRF", "|"):
        cui1, cui2, rela, sab = row[0], row[4], row[7], row[10]
        if row[14] == "N" and cui1 != cui2 and {cui1, cui2} <= concepts:
            assert rela in ("isa", "inverse_isa")
            relations.add((cui2, cui1, sab) if rela == "isa" else (cui1, cui2, sab))

    report = build_kb(tmp_path / "kb.sqlite", [Input("rrf", meta)])
    assert totals(report) == {
        "concepts": len(concepts),
        "names_by_language": by_language(names),
        "definitions": len(definitions),
        "semantic_types": len(types),
        "relations": len(relations),
        "mappings": len(codes),
    }
    assert report.inputs[0].bad == {}
    with KnowledgeBase(report.path) as kb:
        assert differ({(n.concept_id, n.language, n.text, n.source) for n in kb.iter_names()}, names) == []
        assert differ({(r.head, r.tail, r.source) for r in kb.iter_relations()}, relations) == []
        preferred = [name for name in kb.iter_names() if name.preferred]
        chosen = {(n.concept_id, n.language, ranks[n.source, n.type]) for n in preferred}
        assert differ(chosen, {(*key, rank) for key, rank in best.items()}) == []
        assert len(preferred) == len(best)

    # Filtered: the same independent count over fewer rows.
    german = {name for name in names if name[1] == "de"}
    report = build_kb(tmp_path / "kb.sqlite", [Input("rrf", meta, {"sources": ["HPOGER", "NCI"]})], languages=["de"])
    assert totals(report)["names_by_language"] == by_language({name for name in german if name[3] == "HPOGER"})


def active(folder: Path, pattern: str) -> list[list[str]]:
    return [row for path in sorted(folder.rglob(pattern)) for row in rows(path, "\t") if row[2] == "1"]


@pytest.mark.slow
def test_snomed(tmp_path: Path) -> None:
    folder = unpack("snomed.tar.xz", tmp_path / "release")
    concepts = {row[0] for row in active(folder, "sct2_Concept_*")}
    described = [row for row in active(folder, "sct2_Description_*") if row[4] in concepts]
    names = {(row[4], row[5], row[7].strip()) for row in described}
    fsn = [(row[4], row[7]) for row in described if row[6] == "900000000000003001"]
    types = {(concept, term.rsplit("(", 1)[1].rstrip(")")) for concept, term in fsn}
    definitions = {(row[4], row[5], row[7]) for row in active(folder, "sct2_TextDefinition_*") if row[4] in concepts}
    relations = {
        (row[4], row[7], row[5]) for row in active(folder, "sct2_Relationship_*") if {row[4], row[5]} <= concepts
    }
    maps = {
        (row[5], row[10]) for row in active(folder, "der2_iisssccRefset_ExtendedMap*") if row[5] in concepts and row[10]
    }
    flagged = {row[5] for row in active(folder, "der2_cRefset_Language*") if row[6] == "900000000000548007"}
    preferred = {
        (row[4], row[5], row[7].strip()) for row in described if row[0] in flagged and row[6] != "900000000000003001"
    }

    report = build_kb(tmp_path / "kb.sqlite", [Input("rf2", folder)])
    assert totals(report) == {
        "concepts": len({name[0] for name in names}),
        "names_by_language": by_language(names),
        "definitions": len(definitions),
        "semantic_types": len(types),
        "relations": len(relations),
        "mappings": len(maps),
    }
    assert report.inputs[0].bad == {}
    with KnowledgeBase(report.path) as kb:
        chosen = {(n.concept_id, n.language, n.text) for n in kb.iter_names() if n.preferred}
    assert len({name[:2] for name in chosen}) == len(chosen)  # one in each language
    decided = {name[:2] for name in preferred}
    assert sorted({name for name in chosen if name[:2] in decided} - preferred)[:5] == []


@pytest.mark.slow
def test_hpo_with_translations(tmp_path: Path) -> None:
    folder = DATA / "terminologies" / "hpo"
    release = folder / "hp.v2024-08-13.json.gz"
    with gzip.open(release) as handle:
        graph = json.load(handle)["graphs"][0]
    classes = {
        node["id"].rsplit("/", 1)[1].replace("_", ":"): node
        for node in graph["nodes"]
        if "/HP_" in node["id"] and node.get("type") == "CLASS" and not node.get("meta", {}).get("deprecated")
    }
    names, maps = set(), set()
    for concept_id, node in classes.items():
        synonyms = [
            synonym["val"]
            for synonym in node.get("meta", {}).get("synonyms", [])
            if "obsolete" not in synonym.get("synonymType", "")
        ]
        names |= {(concept_id, "en", text.strip()) for text in [node["lbl"], *synonyms]}
        maps |= {(concept_id, xref["val"]) for xref in node.get("meta", {}).get("xrefs", []) if ":" in xref["val"]}
    translated = {(row[2], "es", row[5].strip(), "es") for row in rows(folder / "hp-es.babelon.tsv", "\t")}
    translated |= {(row[2], "de", row[5].strip(), "de") for row in rows(folder / "hp-de.babelon.tsv", "\t")}
    for row in rows(folder / "hp-de.synonyms.tsv", "\t"):
        translated |= {(row[0], "de", text.strip(), "syn") for text in row[1].split("|")}
    names |= {name for name in translated if name[0] in classes}

    inputs = [Input("obograph", release)]
    inputs += [
        Input("babelon", folder / name) for name in ("hp-es.babelon.tsv", "hp-de.babelon.tsv", "hp-de.synonyms.tsv")
    ]
    report = build_kb(tmp_path / "kb.sqlite", inputs)
    found = totals(report)
    assert found["concepts"] == len(classes) == 18_988
    assert found["names_by_language"] == by_language(names)
    assert found["definitions"] == sum("definition" in node.get("meta", {}) for node in classes.values()) == 16_393
    assert found["relations"] == sum(edge["pred"] == "is_a" for edge in graph["edges"]) == 23_409
    assert found["mappings"] == len(maps)
    with KnowledgeBase(report.path) as kb:
        umls = {(m.concept_id, m.code) for m in kb.iter_mappings(systems=["UMLS"])}
        assert len({code for _, code in umls}) == 12_791
        assert kb.preferred_names(["HP:0000107"], "de") == {"HP:0000107": "Nierenzyste"}


@pytest.mark.slow
def test_other_ontologies(tmp_path: Path) -> None:
    """Every ontology at hand loads without a bad row, with the counts of its own text."""
    folder = DATA / "terminologies"
    for path in [folder / "symp" / "symp.obo", *sorted((folder / "doid" / "subsets").glob("DO_*.obo"))]:
        stanzas = path.read_text("utf-8").split("\n[Term]\n")[1:]
        terms = [stanza.split("\n\n[")[0] for stanza in stanzas if "\nis_obsolete: true" not in stanza.split("\n\n")[0]]
        report = build_kb(tmp_path / "kb.sqlite", [Input("obo", path)])
        assert report.inputs[0].bad == {}
        with KnowledgeBase(report.path) as kb:
            assert len(kb) == len(terms)
            assert sum(1 for _ in kb.iter_definitions()) == sum("\ndef: " in term for term in terms)
