"""Extending a knowledge base: the same content as a build from all inputs."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from medlink.errors import ConfigError, InputError, KnowledgeBaseError
from medlink.kb import ExtendReport, Input, KnowledgeBase, build_kb, extend_kb
from medlink.records import Name

from .writers import write_lines

HEAD = "concept_id\tname\tlanguage\ttype\tdefinition\tparent\tsemantic_type"
MORE = [
    HEAD,
    "H:2\tGelegenheitskrampf\tde\tpreferred\tEin Krampf.\tH:9\tFinding",
    "H:2\tseizure\ten\tpreferred\t\tH:1\tDisease",
    "H:2\tcrise\tfr\tsynonym\t\t\t",
    "H:7\tabsence\ten\tpreferred\tA short one.\tH:2|H:1|H:7\tSymptom",
    "H:7\tabsence\ten\tpreferred\t\t\tSymptom",
    "H:7\tAbsence\tde\tsynonym\t\t\t",
]


@pytest.fixture
def path(house_kb: Path, tmp_path: Path) -> Path:
    """A copy of the shared knowledge base, to add to."""
    return Path(shutil.copy(house_kb, tmp_path / "kb.sqlite"))


def add(path: Path, lines: list[str], out: Path | None = None, name: str = "house") -> ExtendReport:
    table = write_lines(path.parent / "more" / f"{name}.tsv", lines)
    return extend_kb(path, out or path, [Input("table", table)])


def test_metadata_of_additions(path: Path) -> None:
    def state() -> tuple[bool, bool, int]:
        with KnowledgeBase(path) as kb:
            return kb.extended, kb.has_added_facts, len(list(kb.iter_added()))

    header = "id\tname\tlanguage\tdefinition"
    add(path, ["id\tname\tlanguage", "H:9\tnew\ten"], name="first")
    assert state() == (True, False, 1)
    add(path, ["id\tname\tlanguage", "H:9\tnew\ten"], name="first")
    assert state() == (True, False, 1)
    add(path, [header, "H:9\tnew\ten\tWhat it is."], name="first")
    assert state() == (True, True, 1)


def test_new_and_existing_records(path: Path) -> None:
    with KnowledgeBase(path) as kb:
        before, old_hash = kb.counts(), kb.content_hash
        assert not kb.extended
    report = add(path, MORE)
    assert (report.concepts, report.names) == (1, 4)
    [entry] = report.added
    assert (entry.names, entry.definitions) == ({"de": 2, "en": 1, "fr": 1}, 2)
    assert (entry.semantic_types, entry.relations) == (2, 2)
    assert report.inputs[0].skipped == {
        "name repeated, kept once": 2,  # seizure is there already, absence stands twice
        "relation repeated, kept once": 1,
        "relation of a concept that is not loaded": 1,
        "relation of a concept with itself": 1,
        "semantic type repeated, kept once": 2,
    }
    with KnowledgeBase(path) as kb:
        assert kb.extended
        assert kb.content_hash == report.content_hash != old_hash
        after = kb.counts()
        kinds = ("concepts", "names", "definitions", "relations")
        assert [after[kind] - before[kind] for kind in kinds] == [1, 4, 2, 2]
        assert kb.sources()[0].languages == ("de", "de-at", "en", "es", "fr")
        assert [(n.language, n.text, n.preferred) for n in kb.names("H:2")] == [
            ("de", "Krampfanfälle", True),  # the preferred name that was there stays
            ("de", "Gelegenheitskrampf", False),
            ("de-at", "Fraisen", True),
            ("en", "seizure", True),
            ("en", "epileptic fit", False),
            ("es", "crisis convulsiva", True),
            ("fr", "crise", True),
        ]
        assert kb.preferred_name("H:7", "de") == "Absence"
        assert kb.parents("H:7") == ["H:1", "H:2"]
        assert [name.text for name in kb.search("abs")] == ["Absence", "absence"]
        assert [name.concept_id for name in kb.lookup("gelegenheitskrampf", "de")] == ["H:2"]
        new = {name.text for name in kb.iter_names(after=report.marks["name"])}
        assert new == {"Absence", "absence", "crise", "Gelegenheitskrampf"}
        assert len(list(kb.iter_semantic_types(after=report.marks["semantic_type"]))) == 2
        assert report.to_dict()["added"][0]["names"] == entry.names


def lines_of(numbers: range, known: int, rng: random.Random) -> list[str]:
    """Rows of random concepts; ``known`` concepts may be parents."""
    rows = []
    for _ in range(150):
        number = rng.choice(numbers)
        cells = [
            f"R:{number}",
            rng.choice(["heart", "Herz", "cor", "liver"]) + f" {rng.randrange(12)}",
            rng.choice(["de", "en", ""]),
            "synonym",
            rng.choice(["", "", f"text {rng.randrange(5)}"]),
            rng.choice(["", f"R:{rng.randrange(known)}"]),
            rng.choice(["", "A", "B|C"]),
        ]
        rows.append("\t".join(cells))
    return [HEAD, *(f"R:{number}\tname of {number}\ten\tsynonym\t\t\t" for number in numbers), *rows]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_same_content_as_a_build_from_all_inputs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    first = write_lines(tmp_path / "first.tsv", lines_of(range(20), 20, rng))
    second = write_lines(tmp_path / "second.tsv", lines_of(range(10, 30), 30, rng))
    third = write_lines(tmp_path / "third.tsv", lines_of(range(40), 40, rng))
    inputs = [Input("table", first), Input("table", second, {"source": "first"}), Input("table", third)]
    build_kb(tmp_path / "whole", inputs)
    build_kb(tmp_path / "part", inputs[:1])
    extend_kb(tmp_path / "part", tmp_path / "part", inputs[1:2])
    extend_kb(tmp_path / "part", tmp_path / "part", inputs[2:])
    with KnowledgeBase(tmp_path / "whole") as whole, KnowledgeBase(tmp_path / "part") as part:
        for kind in ("names", "concepts", "relations", "definitions", "semantic_types", "mappings"):
            assert list(getattr(part, f"iter_{kind}")()) == list(getattr(whole, f"iter_{kind}")()), kind
        assert part.counts() == whole.counts()
        assert part.sources() == whole.sources()
        for number in range(40):
            assert part.get(f"R:{number}") == whole.get(f"R:{number}")
            assert part.relations(f"R:{number}") == whole.relations(f"R:{number}")
        for text in ("heart", "herz 1", "liv", "cor 3"):
            assert part.search(text, 50) == whole.search(text, 50)
            assert part.lookup(text) == whole.lookup(text)


def test_search_index_integrity(path: Path) -> None:
    add(path, MORE)
    connection = sqlite3.connect(path)
    # the first compares the search index with the names, row by row
    connection.execute("INSERT INTO name_search(name_search, rank) VALUES('integrity-check', 1)")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_new_source(path: Path, tmp_path: Path) -> None:
    report = add(path, [HEAD, "N:1\tnew\ten\t\t\t\t", "H:1\tmorbus\tde\t\t\t\t"], name="clinic")
    assert [entry.source.name for entry in report.added] == ["clinic"]
    with KnowledgeBase(path) as kb:
        assert [source.name for source in kb.sources()] == ["house", "clinic"]
        assert [(c.concept_id, c.source) for c in kb.iter_concepts(sources=["clinic"])] == [("N:1", "clinic")]
        assert kb.names("H:1")[1] == Name("H:1", "morbus", "de", "synonym", "clinic", False)


def test_names_of_unknown_concepts_and_concepts_without_a_name(path: Path, tmp_path: Path) -> None:
    columns = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value"
    babelon = write_lines(tmp_path / "x.tsv", [columns, "H:9\trdfs:label\tde\tx", "H:1\trdfs:label\tes\tenfermedad"])
    obo = write_lines(tmp_path / "x.obo", ["format-version: 1.2", "", "[Term]", "id: O:1", "", "[Term]", "id: H:1"])
    report = extend_kb(path, path, [Input("babelon", babelon), Input("obo", obo)])
    assert report.inputs[0].skipped == {"name of a concept that is not loaded": 1}
    assert report.names == 1
    with KnowledgeBase(path) as kb:
        assert kb.preferred_name("H:1", "es") == "enfermedad"
        assert "O:1" not in kb


def test_bad_rows_and_wrong_inputs_leave_the_file(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    bad = write_lines(tmp_path / "bad.tsv", [*MORE, "H:8\tx\tklingon\t\t\t\t"])
    with pytest.raises(InputError, match=r"bad\.tsv:8: 1 of 7 rows cannot be used \(unknown language: 1\)"):
        extend_kb(path, path, [Input("table", bad)], max_bad_share=0)
    with pytest.raises(InputError, match="no such file"):
        extend_kb(path, path, [Input("table", tmp_path / "missing.tsv")])
    with pytest.raises(ConfigError, match="0 inputs"):
        extend_kb(path, path, [])
    with pytest.raises(KnowledgeBaseError, match="there is no knowledge base"):
        extend_kb(tmp_path / "none", path, [Input("table", bad)])
    (tmp_path / "notes").write_text("my notes")
    with pytest.raises(KnowledgeBaseError, match="is not a medlink knowledge base, so it is not replaced"):
        extend_kb(path, tmp_path / "notes", [Input("table", bad)])
    assert path.read_bytes() == before
    report = extend_kb(path, path, [Input("table", bad)], max_bad_share=0.2)
    assert report.inputs[0].bad == {"unknown language": 1}
    assert any(line.endswith("bad.tsv:8: unknown language ('klingon')") for line in report.inputs[0].lines())
    assert sorted(found.name for found in tmp_path.iterdir() if found.name.startswith(".")) == []
