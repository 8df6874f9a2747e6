"""Translations."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.records import Definition, Name, Source
from tests.kb.writers import read_all, read_babelon, write_lines


def test_babelon_columns_in_any_order(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "hp-de.babelon.tsv",
        [
            "translation_value\tpredicate_id\tsubject_id\ttranslation_language",
            'Nieren"zyste\trdfs:label\tHP:1\tde',
            "Zyste der Niere\toboInOwl:hasRelatedSynonym\tHP:1\tde",
            "Ein Sack.\tIAO:0000115\tHP:1\tde",
            "\trdfs:label\tHP:2\tde",
            "x\trdfs:comment\tHP:2\tde",
            "y\trdfs:label\tHP:3\tzz",
            "y\trdfs:label\t\tde",
        ],
    )
    problems = Problems()
    name = "hp-de.babelon"
    assert list(read_babelon(path, problems=problems)) == [
        Source(name, "", f"{name} (translation)"),
        Name("HP:1", 'Nieren"zyste', "de", "preferred", name, True),
        Name("HP:1", "Zyste der Niere", "de", "related", name),
        Definition("HP:1", "Ein Sack.", "de", name),
    ]
    assert problems.skipped == {"row without a translation": 1, "row of another predicate": 1}
    assert problems.bad == {"unknown language": 1, "empty id": 1}


def test_disease_ontology_layout_is_quoted(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "es.tsv",
        [
            "source_id\tpredicate\tsource_text\ttranslation_text\ttranslation_lang\treview_notes",
            'DOID:1\toboInOwl:hasExactSynonym\tx\t"perfil ""raro"""\tes\t"[A]',
            'two lines"',
            "DOID:2\tIAO:0000115\tx\tUna enfermedad.\tes\t",
        ],
    )
    assert list(read_babelon(path))[1:] == [
        Name("DOID:1", 'perfil "raro"', "es", "exact", "es"),
        Definition("DOID:2", "Una enfermedad.", "es", "es"),
    ]


def test_template_of_synonyms(tmp_path: Path) -> None:
    lines = [
        "subject_id\ttranslation_value\tsynonym_type",
        "ID\tAL oboInOwl:hasExactSynonym@de SPLIT=|\t>AI x",
        "HP:1\tNierenzyste|Zyste der Niere\t",
        "HP:2\tHusten\t",
    ]
    path = write_lines(tmp_path / "s.synonyms.tsv", lines)
    assert list(read_babelon(path))[1:] == [
        Name("HP:1", "Nierenzyste", "de", "exact", "s.synonyms"),
        Name("HP:1", "Zyste der Niere", "de", "exact", "s.synonyms"),
        Name("HP:2", "Husten", "de", "exact", "s.synonyms"),
    ]
    write_lines(path, [lines[0], lines[1].replace(" SPLIT=|", ""), lines[2]])
    assert [r.text for r in read_babelon(path) if isinstance(r, Name)] == ["Nierenzyste|Zyste der Niere"]
    write_lines(path, [lines[0], *lines[2:]])
    with pytest.raises(InputError, match=r"second header row with a directive .* found 'Nierenzyste"):
        list(read_babelon(path))
    write_lines(path, lines[:1])
    with pytest.raises(InputError, match="there is no second header row"):
        list(read_babelon(path))


def test_what_is_deprecated(tmp_path: Path) -> None:
    """The translation says so; whether its concept is obsolete the ontology knows better than an older label."""
    header = "source_value\tsubject_id\tpredicate_id\ttranslation_language\ttranslation_value"
    rows = [
        "obsolete Cyst\tX:1\trdfs:label\tde\tZyste",
        "Cyst\tX:2\trdfs:label\tde\tobsolete Zyste",
        "Cyst\tX:3\trdfs:label\tde\tZyste",
    ]
    records, problems = read_all(read_babelon, write_lines(tmp_path / "x.tsv", [header, *rows]))
    assert [record.concept_id for record in records if isinstance(record, Name)] == ["X:1", "X:3"]
    assert problems.skipped == {"obsolete term": 1}
