"""Reading a knowledge base."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from medlink.errors import ConfigError, KnowledgeBaseError
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.language.tags import wanted
from medlink.records import Concept, Definition, Mapping, Name, Relation, SemanticType

from .writers import opened_kb, write_lines


def texts(names: list[Name]) -> list[str]:
    return [name.text for name in names]


def test_about(kb: KnowledgeBase) -> None:
    assert kb.schema_version == 2
    assert len(kb.content_hash) == 64
    assert kb.languages() == ["", "de", "de-at", "en", "es"]
    assert [source.name for source in kb.sources()] == ["house"]
    counts = kb.counts()
    assert {key: value for key, value in counts.items() if key != "sources"} == {
        "concepts": 6, "names": 13, "definitions": 3, "semantic_types": 6, "relations": 5, "mappings": 0,
        "names_by_language": {"": 1, "de": 4, "de-at": 1, "en": 5, "es": 2},
    }  # fmt: skip
    assert len(kb) == 6
    assert "H:1" in kb
    assert "H:9" not in kb
    assert 1 not in kb
    assert "house" in repr(kb)


def test_get(kb: KnowledgeBase) -> None:
    view = kb.get("H:2")
    assert view is not None
    assert (view.concept_id, view.source, view.preferred_name) == ("H:2", "house", "seizure")
    assert texts(list(view.names)) == ["Krampfanfälle", "Fraisen", "seizure", "epileptic fit", "crisis convulsiva"]
    assert view.definitions == (Definition("H:2", "A burst of brain activity.", "en", "house"),)
    assert [item.semantic_type for item in view.semantic_types] == ["Disease", "Symptom"]
    assert view.mappings == ()
    assert kb.get("nothing") is None
    assert kb.get("H:6").preferred_name == "alfa"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("concept_id", "language", "expected"),
    [
        ("H:2", None, "seizure"),
        ("H:2", "de", "Krampfanfälle"),
        ("H:2", "de-AT", "Fraisen"),
        ("H:2", "de-CH", "Krampfanfälle"),  # another region
        ("H:2", "GER", "Krampfanfälle"),
        ("H:2", "fr", "seizure"),  # English
        ("H:5", "es", "Gefäßverschluß"),  # whatever there is
        ("H:4", "de", "Crohn's disease"),
        ("H:6", "de", "alfa"),
        ("H:9", "de", None),
    ],
)
def test_preferred_name(concept_id: str, language: str | None, expected: str | None, kb: KnowledgeBase) -> None:
    assert kb.preferred_name(concept_id, language) == expected


def test_preferred_names(kb: KnowledgeBase) -> None:
    many = ["H:5", "H:9", "H:2", "H:2", *(f"X:{number}" for number in range(50_000))]
    assert list(kb.preferred_names(many, "de").items()) == [("H:5", "Gefäßverschluß"), ("H:2", "Krampfanfälle")]
    assert kb.preferred_names([]) == {}


@pytest.mark.parametrize(
    ("name", "language", "found"),
    [
        ("seizure", None, ["H:2"]),
        ("SEIZURE", "en", ["H:2"]),
        ("seizure", "de", []),
        ("seizures", None, []),  # exact
        ("krampfanfalle", None, ["H:2"]),
        ("Krampfanfaelle", "de", ["H:2"]),
        ("Krampfanfaelle", None, ["H:2"]),
        ("Krampfanfaelle", "en", []),
        ("Fraisen", "de", ["H:2"]),  # a region of German
        ("Krampfanfälle", "de-AT", ["H:2"]),  # a region stands for its language
        ("Krampfanfälle", "en-GB", []),
        ("crohn disease", "en", ["H:4"]),
        ("Crohn\u2019s Disease", None, ["H:4"]),
        ("GEFÄSSVERSCHLUSS", None, ["H:5"]),
        ("", None, []),
        ("?!", None, []),
        ("'; DROP TABLE name; --", None, []),
    ],
)
def test_lookup(name: str, language: str | None, found: list[str], kb: KnowledgeBase) -> None:
    assert [hit.concept_id for hit in kb.lookup(name, language)] == found


def test_lookup_puts_the_plain_form_first(tmp_path: Path) -> None:
    table = write_lines(
        tmp_path / "x.tsv", ["id\tname\tlanguage", "H:1\tMaße\tde", "H:1\tfuesse\tde", "H:0\tfusse\tde"]
    )
    with opened_kb(tmp_path / "kb", Input("table", table)) as opened:
        assert texts(opened.lookup("fuesse", "de")) == ["fuesse", "fusse"]


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("sei", None, ["seizure", "febrile seizure"]),  # typing ahead; what begins with it comes first
        ("seizure", None, ["seizure", "febrile seizure"]),
        ("seizure feb", None, ["febrile seizure"]),  # words in any order
        ("febrile xyz", None, []),
        ("krampfanfaell", None, ["Krampfanfälle"]),
        ("fie", "de", ["Fieberkrampf"]),
        ("fie", "en", []),
        ("krampf", None, ["Krampfanfälle", "Fieberkrampf"]),  # inside a word
        ("anfae", "de", ["Krampfanfälle"]),
        ("eizu ebril", None, ["febrile seizure"]),
        ("rohn", "es", ["enfermedad de Crohn"]),
        ("fermed", None, ["enfermedad de Crohn"]),
        ("berkr", None, ["Fieberkrampf"]),
        ("eiz", "de", []),
        ("iz", None, []),  # too short for the inside of a word
        ("crohn", None, ["Crohn's disease", "enfermedad de Crohn"]),
        ("crohn", "es", ["enfermedad de Crohn"]),
        ("Crohn's", None, ["Crohn's disease", "enfermedad de Crohn"]),
        ("", None, []),
        ("***", None, []),
    ],
)
def test_search(text: str, language: str | None, found: list[str], kb: KnowledgeBase) -> None:
    assert texts(kb.search(text, language=language)) == found


@pytest.mark.parametrize(
    "text",
    ['"', "seizure AND", "NEAR(", "a OR b NOT", "normal:x", "^a", "a*b", "-", "{x}", "\x00", "1,5", "CD4+", "😀", "ا"],
)
def test_search_survives_any_text(text: str, kb: KnowledgeBase) -> None:
    assert isinstance(kb.search(text), list)


def test_search_limit(kb: KnowledgeBase) -> None:
    assert texts(kb.search("s", limit=1)) == ["seizure"]
    assert kb.search("s", limit=0) == []
    assert texts(kb.search("krampf", inside=False)) == ["Krampfanfälle"]


def test_hierarchy(kb: KnowledgeBase) -> None:
    assert kb.parents("H:5") == ["H:1", "H:4"]
    assert kb.children("H:1") == ["H:2", "H:4", "H:5"]
    assert kb.ancestors("H:3") == [("H:2", 1), ("H:1", 2)]
    assert kb.ancestors("H:5") == [("H:1", 1), ("H:4", 1)]  # the shortest way counts
    assert kb.ancestors("H:3", max_depth=1) == [("H:2", 1)]
    assert kb.parents("H:1") == kb.ancestors("H:1") == kb.children("H:3") == kb.parents("H:9") == []
    assert kb.relations("H:2") == [Relation("H:2", "isa", "H:1", "house"), Relation("H:3", "isa", "H:2", "house")]


def test_cycle(tmp_path: Path) -> None:
    table = write_lines(tmp_path / "x.tsv", ["id\tname\tparent", "A\ta\tB|C", "B\tb\tC", "C\tc\tA", "D\td\tC"])
    with opened_kb(tmp_path / "kb", Input("table", table)) as opened:
        assert opened.ancestors("A") == [("B", 1), ("C", 1)]
        assert opened.ancestors("D") == [("C", 1), ("A", 2), ("B", 3)]


def test_mappings(tmp_path: Path) -> None:
    obo = ["[Term]", "id: X:1", "name: a", "xref: UMLS:C1", "xref: MESH:D1"]
    obo += ["[Term]", "id: X:2", "name: b", "xref: UMLS:C1"]
    with opened_kb(tmp_path / "kb", Input("obo", write_lines(tmp_path / "x.obo", obo))) as opened:
        assert opened.mappings("X:1") == [
            Mapping("X:1", "MESH", "D1", "xref", "X"),
            Mapping("X:1", "UMLS", "C1", "xref", "X"),
        ]
        assert opened.concepts_mapped_to("UMLS", "C1") == ["X:1", "X:2"]
        assert opened.concepts_mapped_to("MESH", "C1") == []
        assert [m.concept_id for m in opened.iter_mappings(systems=["UMLS"])] == ["X:1", "X:2"]
        assert len(list(opened.iter_mappings())) == 3


def test_iterators(kb: KnowledgeBase) -> None:
    names = list(kb.iter_names())
    assert names == sorted(names, key=lambda n: (n.concept_id, n.language, not n.preferred, n.text))
    assert len(names) == 13
    assert texts(list(kb.iter_names(languages=["de"]))) == [
        "Krankheit", "Krampfanfälle", "Fraisen", "Fieberkrampf", "Gefäßverschluß", "alfa",
    ]  # fmt: skip
    assert texts(list(kb.iter_names(languages=""))) == ["alfa"]
    assert texts(list(kb.iter_names(languages="es", semantic_types=["Symptom"]))) == ["crisis convulsiva"]
    assert list(kb.iter_names(sources=["other"])) == []
    assert len(list(kb.iter_names(sources="house"))) == 13
    assert list(kb.iter_concepts(semantic_types=["Symptom"])) == [Concept("H:2", "house"), Concept("H:3", "house")]
    assert len(list(kb.iter_concepts(sources=["house"]))) == 6
    assert list(kb.iter_concepts(sources=[])) == []
    assert [r.head for r in kb.iter_relations(semantic_types=["Symptom"])] == ["H:2", "H:3"]
    assert len(list(kb.iter_relations(types=["isa"], sources=["house"]))) == 5
    assert list(kb.iter_relations(types=["part of"])) == []
    assert [d.text for d in kb.iter_definitions(languages=["de"])] == ["Ein Zustand, der schadet."]
    assert list(kb.iter_definitions(sources=["x"])) == []
    assert next(kb.iter_semantic_types()) == SemanticType("H:1", "Disease", "", "house")
    assert len(list(kb.iter_semantic_types(sources=["house"]))) == 6


TAGS = ["", "de", "de-at", "de-ch", "en", "zh", "zh-hant", "zh-hant-tw"]


@pytest.mark.slow
def test_language_filters_agree(tmp_path: Path) -> None:
    """Queries and builds filter as :func:`medlink.language.tags.wanted` does."""
    rows = [f"H:{number}\tname {number}\t{tag}" for number, tag in enumerate(TAGS)]
    table = write_lines(tmp_path / "x.tsv", ["id\tname\tlanguage", *rows])
    with opened_kb(tmp_path / "kb", Input("table", table)) as opened:
        names = list(opened.iter_names())
        for tags in [[tag] for tag in TAGS[1:]] + [["de-at", "zh-hant"], ["en", "de-ch"]]:
            expected = [name.concept_id for name in names if wanted(name.language, tags)]
            assert [name.concept_id for name in opened.iter_names(languages=tags)] == expected
            if len(tags) == 1:
                found = opened.search("name", limit=99, language=tags[0])
                assert sorted(name.concept_id for name in found) == expected
                one = [number for number in range(len(rows)) if opened.lookup(f"name {number}", tags[0])]
                assert [f"H:{number}" for number in one] == expected
                report = build_kb(tmp_path / "less", [Input("table", table)], languages=tags)
                assert sum(report.sources[0].names.values()) == len(expected)
        with pytest.raises(ConfigError, match=r"unknown language 'german'. Remedy: write de"):
            opened.search("name", language="german")
        with pytest.raises(ConfigError, match="unknown language 'den'"):
            list(opened.iter_names(languages=["den"]))


def test_semantic_type_by_code(tmp_path: Path) -> None:
    from .writers import conso

    write_lines(tmp_path / "MRCONSO.RRF", [conso("C1", "a"), conso("C2", "b")])
    write_lines(tmp_path / "MRSTY.RRF", ["C1|T047|B|Disease or Syndrome|A||"])
    with opened_kb(tmp_path / "kb", Input("rrf", tmp_path)) as opened:
        for semantic_type in ("T047", "Disease or Syndrome"):
            assert texts(list(opened.iter_names(semantic_types=[semantic_type]))) == ["a"]


def test_closed(house_kb: Path) -> None:
    with KnowledgeBase(house_kb) as opened:
        names = opened.iter_names()
    with pytest.raises(KnowledgeBaseError, match="is closed"):
        opened.lookup("seizure")
    with pytest.raises(KnowledgeBaseError, match="is closed"):
        next(names)


def test_read_only(house_kb: Path, kb: KnowledgeBase) -> None:
    before = house_kb.read_bytes()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        kb._reader.connection().connection.execute("DELETE FROM name")
    kb.search("seizure")
    assert house_kb.read_bytes() == before
    assert [path.name for path in house_kb.parent.iterdir() if "kb.sqlite" in path.name] == ["kb.sqlite"]


def test_replaced_while_open(house: Path, tmp_path: Path) -> None:
    with opened_kb(tmp_path / "kb", Input("table", house)) as opened:
        assert opened.preferred_name("H:2") == "seizure"
        house.write_text(house.read_text("utf-8").replace("seizure", "convulsion"), "utf-8")
        build_kb(tmp_path / "kb", [Input("table", house)])
        assert opened.preferred_name("H:2") == "seizure"
        with KnowledgeBase(tmp_path / "kb") as anew:
            assert anew.preferred_name("H:2") == "convulsion"


def test_replaced_file_in_another_thread(house: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    build_kb(path, [Input("table", house)])
    kb = KnowledgeBase(path)
    kb.sources()
    other = tmp_path / "other.sqlite"
    build_kb(other, [Input("table", house)])
    os.replace(other, path)
    failed: list[str] = []

    def read_sources() -> None:
        try:
            kb.sources()
        except KnowledgeBaseError as error:
            failed.append(str(error))

    thread = threading.Thread(target=read_sources)
    thread.start()
    thread.join()
    assert kb.sources()
    assert len(failed) == 1
    assert "was replaced while it was open" in failed[0]
    kb.close()


def _child(kb: KnowledgeBase, found: multiprocessing.Queue[object]) -> None:
    found.put((kb.preferred_name("H:2", "de"), len(list(kb.iter_names()))))
    kb.close()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes(method: str, kb: KnowledgeBase) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    context = multiprocessing.get_context(method)
    names = kb.iter_names()
    first = next(names)
    own = kb._reader.connection()
    found = context.Queue()
    children = [context.Process(target=_child, args=(kb, found)) for _ in range(2)]
    for child in children:
        child.start()
    assert [found.get(timeout=60) for _ in children] == [("Krampfanfälle", 13)] * 2
    for child in children:
        child.join()
        assert child.exitcode == 0
    # the connection and the iterator of this process are still usable
    assert kb._reader.connection() is own
    assert [first, *names] == list(kb.iter_names())


def test_threads_have_connections_of_their_own(kb: KnowledgeBase) -> None:
    barrier = threading.Barrier(4)

    def work(_: int) -> tuple[int, list[str]]:
        barrier.wait(timeout=30)
        found = texts([name for _ in range(20) for name in kb.lookup("seizure")])
        return id(kb._reader.connection()), found

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert len({connection for connection, _ in results}) == 4
    assert all(found == ["seizure"] * 20 for _, found in results)


def test_pickle(kb: KnowledgeBase) -> None:
    kb.counts()
    copy = pickle.loads(pickle.dumps(kb))  # noqa: S301
    assert copy.path == kb.path
    assert texts(copy.lookup("seizure")) == ["seizure"]
    assert copy._reader.connection() is not kb._reader.connection()
    copy.close()


@pytest.mark.parametrize("content", [b"", b"some text", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_other_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "kb").write_bytes(content)
    message = (
        "cannot be read .*build it again" if len(content) > 100 else "is not a medlink knowledge base.*name a file that"
    )
    with pytest.raises(KnowledgeBaseError, match=message):
        KnowledgeBase(tmp_path / "kb")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schema_version", "99", r"has schema version 99, this medlink reads 2.*Remedy: build it again"),
        ("application", "x", "is not a medlink knowledge base"),
        ("counts", "[", r"its counts are damaged.*build_kb"),
    ],
)
def test_changed_metadata(key: str, value: str, message: str, house_kb: Path, tmp_path: Path) -> None:
    shutil.copy(house_kb, tmp_path / "kb")
    with closing(sqlite3.connect(tmp_path / "kb")) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
        connection.commit()
    with pytest.raises(KnowledgeBaseError, match=message), KnowledgeBase(tmp_path / "kb") as opened:
        opened.counts()


@pytest.mark.parametrize("value", [None, b"en", 7])
def test_a_row_without_a_text(value: object, house_kb: Path, tmp_path: Path) -> None:
    path = shutil.copy(house_kb, tmp_path / "kb")
    with closing(sqlite3.connect(path)) as connection:
        # the columns as a damaged page has them: of any type
        connection.execute("PRAGMA writable_schema=ON")
        free = "UPDATE sqlite_master SET sql = replace(replace(sql, 'NOT NULL', ''), 'languages TEXT', 'languages')"
        connection.execute(f"{free} WHERE name = 'source'")
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE source SET languages = ?", (value,))
        connection.commit()
    with (
        KnowledgeBase(path) as opened,
        pytest.raises(KnowledgeBaseError, match=r"a row of it is damaged.*build it aga"),
    ):
        opened.sources()
