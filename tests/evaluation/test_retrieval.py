"""Looking queries up in a dictionary with an encoder of letters, whose cosines can be counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.evaluation import task
from medlink.evaluation.retrieval import Answer, Dictionary, Query, measure_answers, retrieve
from medlink.evaluation.task import draw, embed


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """Counts of a, b and c, of unit length."""
    counts = np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float64)
    found: NDArray[np.float32] = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)
    return found


ENTRIES = Dictionary.of([(("A",), "a"), (("A",), "aab"), (("B",), "b"), (("C", "X"), "c")])


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
    assert [(one.known, one.rank, one.concept) for one in found] == [
        (True, 1, (("C", "X"),)),
        (False, 0, (("B",),)),
    ]
    assert found[0].cosine == pytest.approx(1)
    assert retrieve(letters, ENTRIES, []) == []


def test_all_parts_of_a_composite_mention_must_be_right() -> None:
    both = Query(("a", "b"), ("A", "B"))
    worst = Query(("a", "c"), ("B",))
    lost = Query(("a", "c"), ("A",))
    found = retrieve(letters, ENTRIES, [both, worst, lost])
    assert [one.rank for one in found] == [1, 3, 2]
    assert retrieve(letters, ENTRIES, [lost], depth=1)[0].rank == 0
    assert found[0].concept == (("A",), ("B",))
    assert found[1].cosine == pytest.approx(1)


def test_each_text_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_CHUNK", 2)
    seen: list[str] = []
    steps: list[tuple[str, int, int]] = []

    def counting(texts: Sequence[str]) -> NDArray[np.float32]:
        """The encoder, with what it was given noted."""
        seen.extend(texts)
        return letters(texts)

    queries = [Query((text,), ("A",)) for text in ("a", "ab", "ab", "b", "ac")]
    found = retrieve(counting, ENTRIES, queries, progress=lambda *reported: steps.append(reported))
    assert seen == ["a", "aab", "b", "c", "ab", "ac"]
    embedded = [("texts embedded", done, 6) for done in (2, 4, 6)]
    assert steps == [*embedded, ("queries ranked", 5, 5)]
    assert found == retrieve(letters, ENTRIES, queries)


def test_a_dictionary_wider_than_the_gold_and_many_owners() -> None:
    entries = Dictionary.of([((f"C{i:02}",), text) for i in range(12) for text in ("a", "b")])
    found = retrieve(letters, entries, [Query(("a",), ("C03",)), Query(("b",), ("C11",))])
    # all concepts share both names: ties go by id
    assert [one.rank for one in found] == [4, 12]


def test_measures_by_language() -> None:
    answers = [
        Answer(Query(("a",), ("A",), tag), True, rank, (("A",),), 1.0)
        for tag, rank in (("de", 1), ("es", 0), ("es", 2))
    ]
    found = measure_answers(answers)
    assert list(found) == ["de", "es", "all"]
    assert (found["es"].queries, found["es"].mrr, found["all"].acc1) == (2, 0.25, pytest.approx(1 / 3))
    assert list(measure_answers(answers[:1])) == ["de"]
    with pytest.raises(ConfigError, match="no queries to measure"):
        measure_answers([])


def test_samples() -> None:
    queries = [Query((str(i),), ("A",)) for i in range(50)]
    drawn = draw(queries, 10, seed=1)
    assert len(set(drawn)) == 10
    assert list(drawn) == sorted(drawn, key=queries.index)
    assert draw(queries, 10, seed=1) == drawn
    assert draw(queries, 10, seed=2) != drawn
    assert draw(queries, 50, seed=1) == tuple(queries)
    with pytest.raises(ConfigError, match="a sample of 0, 1 or more expected"):
        draw(queries, 0, seed=1)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match=r"there are no names to look among\. Remedy: give a dictionary with names"):
        retrieve(letters, Dictionary.of([]), [Query(("a",), ("A",))])
    with pytest.raises(ConfigError, match=r"no texts to embed\. Remedy: give one or more"):
        embed(letters, [])
    with pytest.raises(ConfigError, match="rank_by is 'rows'"):
        ranks(Query(("a",), ("A",)), rank_by="rows")
