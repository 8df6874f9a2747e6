"""Queries of each layout, looked up by an encoder that counts letters, with cosines by hand; leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from medlink.errors import ConfigError, InputError
from medlink.evaluation import task
from medlink.evaluation.retrieval import Answer, Dictionary, Query, measure_answers, read_leaves, read_queries, retrieve
from medlink.evaluation.task import embed
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from tests.evaluation.commands import write


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """Counts of a, b and c, of unit length."""
    counts = np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float64)
    found: NDArray[np.float32] = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)
    return found


ENTRIES = Dictionary.from_entries([(("A",), "a"), (("A",), "aab"), (("B",), "b"), (("C", "X"), "c")])


def ranks(*queries: Query, **options: object) -> list[int]:
    return [answer.rank for answer in retrieve(letters, ENTRIES, queries, **options)]  # type: ignore[arg-type]


def test_ranks_by_hand() -> None:
    # of "ab": aab has cosine 3 / sqrt(10), a and b 1 / sqrt(2), c 0
    assert ranks(Query(("ab",), ("A",)), Query(("ab",), ("B",)), Query(("ab",), ("X",))) == [1, 2, 3]
    assert ranks(Query(("ab",), ("B",)), Query(("ab",), ("X",)), rank_by="names") == [3, 4]
    assert ranks(Query(("ab",), ("X",)), depth=3) == [0]
    # several ids are all right; one of the dictionary's ids is enough
    assert ranks(Query(("ab",), ("X", "B")), Query(("c",), ("C",)), Query(("c",), ("X",))) == [2, 1, 1]


def test_answers() -> None:
    found = retrieve(letters, ENTRIES, [Query(("c",), ("C",)), Query(("b",), ("nowhere",))])
    assert [(one.known, one.rank, one.concept) for one in found] == [(True, 1, (("C", "X"),)), (False, 0, (("B",),))]
    assert found[0].cosine == pytest.approx(1)
    assert retrieve(letters, ENTRIES, []) == []


def test_composite_mentions() -> None:
    both, worst, lost = Query(("a", "b"), ("A", "B")), Query(("a", "c"), ("B",)), Query(("a", "c"), ("A",))
    found = retrieve(letters, ENTRIES, [both, worst, lost])
    assert [one.rank for one in found] == [1, 3, 2]
    assert retrieve(letters, ENTRIES, [lost], depth=1)[0].rank == 0
    assert found[0].concept == (("A",), ("B",))
    assert found[1].cosine == pytest.approx(1)


def test_each_text_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_CHUNK", 2)
    seen, steps = list[str](), list[tuple[str, int, int]]()
    queries = [Query((text,), ("A",)) for text in ("a", "ab", "ab", "b", "ac")]
    found = retrieve(
        lambda texts: (seen.extend(texts), letters(texts))[1], ENTRIES, queries,
        progress=lambda *reported: steps.append(reported),
    )  # fmt: skip
    assert seen == ["a", "aab", "b", "c", "ab", "ac"]
    assert steps == [*(("texts embedded", done, 6) for done in (2, 4, 6)), ("queries ranked", 5, 5)]
    assert found == retrieve(letters, ENTRIES, queries)


def test_measures_by_language() -> None:
    kinds = (("de", 1), ("es", 0), ("es", 2))
    answers = [Answer(Query(("a",), ("A",), tag), True, rank, (("A",),), 1.0) for tag, rank in kinds]
    found = measure_answers(answers)
    assert list(found) == ["de", "es", "all"]
    assert (found["es"].queries, found["es"].mrr, found["all"].acc1) == (2, 0.25, pytest.approx(1 / 3))
    assert list(measure_answers(answers[:1])) == ["de"]
    with pytest.raises(ConfigError, match="no queries to measure"):
        measure_answers([])


def test_refusals() -> None:
    with pytest.raises(ConfigError, match=r"the dictionary has no names\. Remedy: give a dictionary with names"):
        retrieve(letters, Dictionary.from_entries([]), [Query(("a",), ("A",))])
    with pytest.raises(ConfigError, match=r"no texts to embed\. Remedy: give one or more"):
        embed(letters, [])
    with pytest.raises(ConfigError, match="rank_by is 'rows'"):
        ranks(Query(("a",), ("A",)), rank_by="rows")


def test_queries_of_biosyn(tmp_path: Path) -> None:
    folder = tmp_path / "dev"
    write(
        folder,
        "2.concept",
        "2||0|9||DiseaseClass||left  arm||D1\n\n2||9|12||CompositeMention||breast cancer|ovarian cancer||D2|D3\n"
        "2||12|19||Modifier||cd4+ cells||D4\n2||20|29||Modifier||one+two||D5+D6\n2||3|4||Modifier||no||CUI-less\n",
    )
    write(folder, "1.concept", "1||0|6||Disease||asthma||D5|D6\n")
    write(folder, "notes.txt", "left alone")
    problems = Problems()
    found = read_queries([folder], problems)
    assert problems.skipped == {"query without a concept": 1}
    assert found == (
        Query(("asthma",), ("D5", "D6"), "", "1.concept", 1),
        Query(("left arm",), ("D1",), "", "2.concept", 1),
        Query(("breast cancer", "ovarian cancer"), ("D2", "D3"), "", "2.concept", 3),
        Query(("cd4+ cells",), ("D4",), "", "2.concept", 4),
        Query(("one", "two"), ("D5", "D6"), "", "2.concept", 5),
    )
    assert read_queries([folder / "1.concept"], Problems(), language="en")[0].language == "en"


def test_queries_of_xl_bel(tmp_path: Path) -> None:
    german = write(tmp_path, "de_1k_test_query.txt", 'C1|C2||"Armeria"\nC3||Fuß+Knie\n')
    context = write(tmp_path, "xx_context.txt", "C1||asma||Tiene <tgt>asma</tgt> || hoy.\n")
    found = read_queries([german, context], Problems(), language="es")
    assert found == (
        Query(('"Armeria"',), ("C1", "C2"), "de", "de_1k_test_query.txt", 1),
        Query(("Fuß+Knie",), ("C3",), "de", "de_1k_test_query.txt", 2),
        Query(("asma",), ("C1",), "es", "xx_context.txt", 1),
    )


def test_queries_of_a_table(tmp_path: Path) -> None:
    text = "mention\tconcept_id\tlanguage\nleft  arm\tA|B\tGER\nfever\tC+D\t\ncough\t-1\ten\n"
    problems = Problems()
    found = read_queries([write(tmp_path, "queries.tsv", text)], problems, language="en")
    assert problems.skipped == {"query without a concept": 1}
    assert found == (
        Query(("left arm",), ("A", "B"), "de", "queries.tsv", 2),
        Query(("fever",), ("C", "D"), "en", "queries.tsv", 3),
    )
    for column in ("name", "text"):
        table = write(tmp_path, "queries.csv", f'id,{column}\nA,"left, arm"\n')
        assert read_queries([table], Problems()) == (Query(("left, arm",), ("A",), "", "queries.csv", 2),)


def test_bad_queries_are_counted(tmp_path: Path) -> None:
    problems = Problems(adjustable=False)
    marked = write(tmp_path, "q.concept", "1||0|1||D||a||D1\n1||0|1||D||||D1\nD1||a\n1||0|1||D||b||D2\n")
    two = write(tmp_path, "q.txt", "D1||a\nD1||\nD2||b\nno mark\n")
    table = write(tmp_path, "q.tsv", "id\tname\tlanguage\nA\ta\t\nA\t\t\nA\ta\tklingon\nB\tb\t\n")
    assert len(read_queries([marked, two, table], problems)) == 6
    assert problems.bad == {"no mention between ||": 4, "empty name": 1, "unknown language": 1}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("", "", r"there is no \*\.concept file or annotated note in the folder\. Remedy: name a file"),
        (
            "q.tsv",
            "Erika Mustermann\tfever\n",
            r"q\.tsv:1: looked for the columns concept_id and name, or lines with \|\|",
        ),
        ("q.txt", "-1||fever\n", r"q\.txt: there is no query with a concept in it\. Remedy: give other"),
        ("q.tsv", "id\tname\tname\nA\ta\tb\n", "the column name occurs twice"),
    ],
)
def test_refusals_of_queries(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_queries([write(tmp_path, name, text) if name else tmp_path], Problems())


TREE = """\
concept_id\tname\tlanguage\ttype\tparent
T:1\tdisease\ten\tpreferred\t
T:1\tKrankheit\tde\tpreferred\t
T:2\tlung disease\ten\tpreferred\tT:1
T:2\tpulmonary disease\ten\tsynonym\t
T:2\tlung disease (disorder)\ten\tfsn\t
T:3\theart disease\ten\tpreferred\tT:1
T:4\tasthma\ten\tpreferred\tT:2|T:4
T:4\tasthma (disorder)\ten\tfsn\t
T:4\tAsthma\tde\tpreferred\t
T:5\tcor  pulmonale\ten\tpreferred\tT:2|T:3
T:6\tfever\ten\tpreferred\t
"""


def store(folder: Path, table: str = TREE) -> KnowledgeBase:
    (folder / "tree.tsv").write_text(table, "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "tree.tsv")])
    return KnowledgeBase(folder)


def test_leaves_by_hand(tmp_path: Path) -> None:
    with store(tmp_path) as kb:
        task = read_leaves(kb)
        german = read_leaves(kb, languages=frozenset({"de"}))
    names = {"disease": 1, "Krankheit": 1, "lung disease": 2, "pulmonary disease": 2, "heart disease": 3}
    assert task.dictionary == Dictionary.from_entries(((f"T:{concept}",), name) for name, concept in names.items())
    assert task.queries == (
        Query(("Asthma",), ("T:2",), "de", "T:4"),
        Query(("asthma",), ("T:2",), "en", "T:4"),
        Query(("cor pulmonale",), ("T:2", "T:3"), "en", "T:5"),
    )
    assert task.nameless == 0
    assert german.dictionary.texts == ("Krankheit",)
    assert german.queries == (Query(("Asthma",), ("T:2",), "de", "T:4"),)
    assert german.nameless == 1


@pytest.mark.parametrize(
    ("table", "language", "message"),
    [
        ("concept_id\tname\nA\tasthma\nB\tcough\n", None,
         r"no concept with a parent and without a child\. Remedy: build it from a source"),
        (TREE, "es", r"leaves have no name of es\. Remedy: name other languages"),
        ("concept_id\tname\tlanguage\tparent\nA\tasthma\ten\tB\nB\tKrankheit\tde\t\n", "en",
         "concepts with a child have no name of en"),
    ],
)  # fmt: skip
def test_refusals_of_leaves(table: str, language: str | None, message: str, tmp_path: Path) -> None:
    with store(tmp_path, table) as kb, pytest.raises(InputError, match=message):
        read_leaves(kb, languages=None if language is None else frozenset({language}))
