"""Names to evaluate: from a knowledge base, a bundle, a table; samples; clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.evaluation.names import Dictionary, read_clusters


def test_a_sample_is_of_whole_concepts() -> None:
    names = Dictionary.of(((f"C{i % 40}",), f"name {i}", "en") for i in range(200))
    sample = names.sample(52, seed=1)
    assert (len(sample), len(set().union(*sample.owners)), len(sample.languages)) == (55, 11, 55)
    assert list(sample.texts) == sorted(sample.texts)
    assert names.sample(52, seed=1) == sample
    assert names.sample(52, seed=2) != sample
    assert names.sample(1000, seed=1) == names


def test_clusters(tmp_path: Path) -> None:
    path = tmp_path / "clusters.tsv"
    path.write_text("cluster\tterm\tscore\n1\tasthma\t0.9\n2\tleft  arm\t\n1\tasthma\t0.9\n", "utf-8")
    assert read_clusters(path) == {("asthma", ""): "1", ("left arm", ""): "2"}
    path.write_text("cluster\tterm\n1\tasthma\n2\tasthma\n", "utf-8")
    with pytest.raises(
        InputError, match=r"clusters\.tsv:3: this term is in a cluster and was in another before. Remedy: give"
    ):
        read_clusters(path)
    path.write_text("cluster\tname\n1\tasthma\n", "utf-8")
    with pytest.raises(InputError, match="looked for the columns term, cluster"):
        read_clusters(path)
    path.write_text("cluster\tterm\n\tasthma\n", "utf-8")
    with pytest.raises(InputError, match="empty term or cluster") as caught:
        read_clusters(path)
    assert "max_bad_share" not in str(caught.value)
    for head in ("term\tterm\tcluster", "cluster\tterm\tcluster", "cluster\tlanguage\tterm\tlanguage"):
        path.write_text(head + "\n", "utf-8")
        with pytest.raises(InputError, match=r"clusters\.tsv:1: the column \w+ is there twice"):
            read_clusters(path)


def test_clusters_that_a_language_parts(tmp_path: Path) -> None:
    path = tmp_path / "clusters.tsv"
    head, rows = "cluster\tterm\tlanguage\n", "1\tgift\tGER\n2\tcough\t\n"
    path.write_text(head + rows, "utf-8")
    assert read_clusters(path) == {("gift", ""): "1", ("cough", ""): "2"}
    path.write_text(head + rows + "3\tgift\ten\n", "utf-8")
    assert read_clusters(path) == {("gift", "de"): "1", ("cough", ""): "2", ("gift", "en"): "3"}
    path.write_text(head + rows + "3\tgift\tde\n", "utf-8")
    with pytest.raises(InputError, match=r"clusters\.tsv:4: this term is in a cluster and was in another before"):
        read_clusters(path)
    path.write_text(head + "1\tgift\tklingon\n", "utf-8")
    with pytest.raises(InputError, match=r"clusters\.tsv:2: .*unknown language"):
        read_clusters(path)


def test_blanks_and_languages_of_names() -> None:
    names = [(("A",), "left  arm", "en"), (("B",), "left arm", "en"), (("C",), "left arm", "de")]
    found, parted = Dictionary.of(names), Dictionary.of(names, by_language=True)
    assert (found.texts, found.owners, found.languages) == (("left arm",), ((0, 1, 2),), (("de", "en"),))
    assert (parted.texts, parted.owners, parted.languages) == (("left arm",) * 2, ((2,), (0, 1)), (("de",), ("en",)))
