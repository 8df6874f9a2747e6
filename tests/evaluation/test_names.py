"""Dictionaries from a knowledge base, a bundle, a table; samples; clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError, KnowledgeBaseError
from medlink.evaluation.names import Dictionary, read_clusters, read_dictionary, split_ids
from medlink.files.problems import Problems
from medlink.kb import Input, build_kb
from tests.evaluation.commands import write

NAMES = (
    "concept_id\tname\tlanguage\ttype\nA:1\tasthma\ten\t\nA:1\tasthma (disorder)\ten\tfsn\nA:1\tAsthma\tde\t\n"
    "A:2\tcough\t\t\n"
)


def test_ids() -> None:
    assert split_ids("D1|D2") == ("D1", "D2")
    assert split_ids(" D1 + D2|D1") == ("D1", "D2")
    for none in ("", "-1", "-", "None", "CUI-less", "cui-less"):
        assert split_ids(none) == ()
    assert split_ids("D1|-1") == ("D1",)


def test_dictionaries_of_a_table_and_of_a_knowledge_base_are_the_same(tmp_path: Path) -> None:
    table = write(tmp_path, "names.tsv", NAMES)
    found = read_dictionary(table, Problems())
    assert found == Dictionary(("Asthma", "asthma", "cough"), ((0,), (0,), (1,)), (("A:1",), ("A:2",)))
    assert found.languages == (("de",), ("en",), ("",))
    build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    for path in (tmp_path / "kb.sqlite", tmp_path):
        same = read_dictionary(path, Problems())
        assert (same, same.languages) == (found, found.languages)
    german = Dictionary(("Asthma", "cough"), ((0,), (1,)), (("A:1",), ("A:2",)))
    for path in (table, tmp_path):
        assert read_dictionary(path, Problems(), languages=frozenset({"de"})) == german


def test_dictionary_of_biosyn(tmp_path: Path) -> None:
    text = "D1|OMIM:5||breast cancer\nD2||asthma\nD2||asthma\n\ncui-less||nothing\nD3||\nD4\n"
    problems = Problems(adjustable=False)
    found = read_dictionary(write(tmp_path, "dictionary.txt", text), problems)
    assert found == Dictionary(("asthma", "breast cancer"), ((1,), (0,)), (("D1", "OMIM:5"), ("D2",)))
    assert problems.bad == {"no id||name": 2}
    assert problems.skipped == {"name without a concept": 1}


@pytest.mark.parametrize(
    ("name", "text", "language", "message"),
    [
        (
            "n.tsv",
            "concept_id\tname\tlanguage\nA\tb\ten\n",
            "de",
            r"n\.tsv: there are no names of de in it\. Remedy: give a s",
        ),
        ("n.tsv", "concept_id\tname\n", None, r"n\.tsv: there are no names in it"),
        ("d.txt", "D1||asthma\n", "de", r"d\.txt: its names have no language to choose by\. Remedy: leave"),
        ("", "", None, "there is no knowledge base"),
        ("missing.txt", "", None, "no such file"),
    ],
)
def test_refusals_of_dictionaries(name: str, text: str, language: str | None, message: str, tmp_path: Path) -> None:
    if text:
        write(tmp_path, name, text)
    with pytest.raises((InputError, KnowledgeBaseError), match=message):
        read_dictionary(tmp_path / name, Problems(), languages=None if language is None else frozenset({language}))


def test_a_sample_is_of_whole_concepts() -> None:
    names = Dictionary.from_entries(((f"C{i % 40}",), f"name {i}", "en") for i in range(200))
    sample = names.sample(52, seed=1)
    assert (len(sample), len(set().union(*sample.owners)), len(sample.languages)) == (55, 11, 55)
    assert list(sample.texts) == sorted(sample.texts)
    assert names.sample(52, seed=1) == sample
    assert names.sample(52, seed=2) != sample
    assert names.sample(1000, seed=1) == names


HEAD = "cluster\tterm\tlanguage\n1\tgift\tGER\n2\tcough\t\n"


@pytest.mark.parametrize(
    ("text", "clusters"),
    [
        ("cluster\tterm\tscore\n1\tasthma\t0.9\n2\tleft  arm\t\n1\tasthma\t0.9\n",
         {("asthma", ""): "1", ("left arm", ""): "2"}),
        (HEAD, {("gift", ""): "1", ("cough", ""): "2"}),
        (HEAD + "3\tgift\ten\n", {("gift", "de"): "1", ("cough", ""): "2", ("gift", "en"): "3"}),
    ],
)  # fmt: skip
def test_clusters(text: str, clusters: dict[tuple[str, str], str], tmp_path: Path) -> None:
    assert read_clusters(write(tmp_path, "clusters.tsv", text)) == clusters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster\tterm\n1\tasthma\n2\tasthma\n",
         r"clusters\.tsv:3: this term is in a cluster and was in another before. Remedy: give"),
        (HEAD + "3\tgift\tde\n", r"clusters\.tsv:4: this term is in a cluster and was in another before"),
        ("cluster\tname\n1\tasthma\n", "looked for the columns term, cluster"),
        ("cluster\tterm\n\tasthma\n", "empty term or cluster"),
        ("cluster\tterm\tlanguage\n1\tgift\tklingon\n", r"clusters\.tsv:2: .*unknown language"),
        ("term\tterm\tcluster\n", r"clusters\.tsv:1: the column term occurs twice"),
        ("cluster\tlanguage\tterm\tlanguage\n", r"clusters\.tsv:1: the column language occurs twice"),
    ],
)  # fmt: skip
def test_refusals_of_clusters(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_clusters(write(tmp_path, "clusters.tsv", text))
    assert "max_bad_share" not in str(caught.value)


def test_blanks_and_languages_of_names() -> None:
    names = [(("A",), "left  arm", "en"), (("B",), "left arm", "en"), (("C",), "left arm", "de")]
    found, parted = Dictionary.from_entries(names), Dictionary.from_entries(names, by_language=True)
    assert (found.texts, found.owners, found.languages) == (("left arm",), ((0, 1, 2),), (("de", "en"),))
    assert (parted.texts, parted.owners, parted.languages) == (("left arm",) * 2, ((2,), (0, 1)), (("de",), ("en",)))
