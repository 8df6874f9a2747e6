"""Synonym retrieval: queries and their names, by an encoder with known cosines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from medlink import Input, build_kb
from medlink.evaluation.synonyms import SynonymsTask
from medlink.evaluation.task import Report
from medlink.training.grounding.synonyms import read_sets, split

GROUPS = {f"C{i}": [f"{i}x{j}" for j in range(1 + i % 3)] for i in range(12)}


class ByConcept:
    """Embeds a name by the number of its concept, so that synonyms are first; records the texts."""

    dimension, fingerprint = 12, "by concept"

    def __init__(self) -> None:
        self.read: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        return np.eye(12, dtype=np.float32)[[int(text.partition("x")[0]) for text in texts]]

    def save(self, folder: str | Path) -> Path:
        raise NotImplementedError


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kb")
    rows = "".join(f"{concept}\t{text}\ten\n" for concept, texts in GROUPS.items() for text in texts)
    (folder / "names.tsv").write_text(f"concept_id\tname\tlanguage\n{rows}", encoding="utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "names.tsv")])
    return folder / "kb.sqlite"


def run(kb: Path, encoder: ByConcept | None = None, **options: object) -> Report:
    return SynonymsTask(zero_shot=0.25, **options).run([kb], encoder or ByConcept())  # type: ignore[arg-type]


def test_a_perfect_encoder_is_measured_as_one(kb: Path) -> None:
    found = run(kb, trained=True)
    task = SynonymsTask(zero_shot=0.25)
    train, test, zero_shot = split(read_sets(kb, task), task)
    trained, apart = (sum(len(names) for names in sets.values() if len(names) > 1) for sets in (train, zero_shot))
    rows = {row["kind"]: row for row in found.table}
    queries = [(kind, row["queries"]) for kind, row in rows.items()]
    assert queries == [("train", trained), ("test", len(test)), ("zero-shot", apart)]
    assert all(row["mAP"] == row["Acc"] == row["MRR"] == 1 for row in rows.values())
    assert rows["train"]["names"] == rows["test"]["names"] == sum(map(len, train.values()))
    assert found.head.startswith(f"{rows['test']['names']} names of 9 concepts, {len(test)} kept of these, ")
    assert len(found.items) == sum(int(str(row["queries"])) for row in rows.values())
    assert not {"text", "name"} & found.items[0].keys()


def test_test_names_are_ranked_among_those_trained_on_alone(kb: Path) -> None:
    encoder, task = ByConcept(), SynonymsTask(zero_shot=0.25)
    run(kb, encoder)
    train, test, zero_shot = split(read_sets(kb, task), task)
    trained = [text for names in train.values() for text in names]
    assert encoder.read[: len(trained) + len(test)] == [*trained, *(text for text, _ in test)]
    apart = {text for names in zero_shot.values() for text in names}
    assert set(encoder.read[len(trained) + len(test) :]) == apart


def test_every_option_changes_the_measures(kb: Path) -> None:
    base = run(kb).to_dict()
    for option in ({"rounds": 2}, {"split_seed": 2}, {"trained": True}, {"sample": 2}):
        assert run(kb, **option).to_dict() != base, option
    assert SynonymsTask(zero_shot=0.5).run([kb], ByConcept()).to_dict() != base
    one, other = ([item["concept"] for item in run(kb, sample=2, seed=seed).items] for seed in (1, 5))
    assert one != other
    found = SynonymsTask(zero_shot=0.0).run([kb], ByConcept())
    assert found.table[1] == {"kind": "zero-shot", "names": 0, "queries": 0, "mAP": None, "Acc": None, "MRR": None}
