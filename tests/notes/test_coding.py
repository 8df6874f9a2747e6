"""Codes of notes as a whole, learned from annotated notes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medlink.errors import InputError
from medlink.index import Bundle
from medlink.notes.coding import COLUMNS, Candidate, NoteCoder, _logistic, fit_weights
from medlink.notes.learned import read_learned
from medlink.notes.learning import learn
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.reading.learned import Entry

FEVER, COUGH = "DEMO:0209", "DEMO:0226"
CONCEPTS = {"Rumpfkrise": FEVER, "schwere Rumpfkrise": COUGH, "Karies": COUGH}
RARELY = "RK"
TEXTS = ("Seit gestern schwere Rumpfkrise.", "Keine Rumpfkrise.", "Karies, Karies. Husten.", f"{RARELY} bei Karies.")


def brat(folder: Path, number: int) -> Path:
    """Notes in which annotators code a crisis inside a severe one too, denied or not, and *RK* once in five notes."""
    folder.mkdir()
    for at in range(number):
        text = TEXTS[at % len(TEXTS)]
        concepts = CONCEPTS | ({RARELY: FEVER} if at % 5 == 0 else {})
        spans = [(m.start(), m.end(), concepts[words]) for words in concepts for m in re.finditer(words, text)]
        lines = [f"T{n}\tX {s} {e}\t{text[s:e]}\nN{n}\tR T{n} {c}\n" for n, (s, e, c) in enumerate(spans)]
        (folder / f"{at:02}.txt").write_text(text, "utf-8")
        (folder / f"{at:02}.ann").write_text("".join(lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def learned(demo: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coding")
    learn(demo, [brat(folder / "gold", 60)], folder / "learned.jsonl", language="de")
    return folder / "learned.jsonl"


def codes(bundle: Bundle, text: str, learned: Path) -> dict[str, tuple[tuple[int, int], ...]]:
    (note,) = NotePipeline(bundle, language="de", learned=str(learned)).link([Note("n", text)])
    return {code.concept_id: code.spans for code in note.codes}


def test_a_code_inside_a_longer_mention(learned: Path, demo: Bundle) -> None:
    assert codes(demo, "Heute schwere Rumpfkrise.", learned) == {COUGH: ((6, 24),), FEVER: ((14, 24),)}
    # a negated mention, which these annotators code
    assert codes(demo, "Wohl keine Rumpfkrise.", learned) == {FEVER: ((11, 21),)}
    # a word that they seldom code, and none
    assert codes(demo, "RK seit gestern.", learned) == codes(demo, "Nichts.", learned) == {}


def test_mentions_do_not_depend_on_codes(learned: Path, demo: Bundle, tmp_path: Path) -> None:
    head, *rows = learned.read_text("utf-8").splitlines(keepends=True)
    plain = {name: value for name, value in json.loads(head).items() if name != "codes"}
    path = tmp_path / "plain.jsonl"
    path.write_text(json.dumps(plain) + "\n" + "".join(rows), "utf-8")
    notes = [Note("n", text) for text in TEXTS]
    with_codes, without = (NotePipeline(demo, language="de", learned=str(one)).link(notes) for one in (learned, path))
    assert [note.mentions for note in with_codes] == [note.mentions for note in without]
    assert not any(note.codes for note in without)


def test_few_notes_and_merged_files(learned: Path, demo: Bundle, tmp_path: Path) -> None:
    few = brat(tmp_path / "few", 6)
    learn(demo, [few], tmp_path / "few.jsonl", language="de")
    assert read_learned(tmp_path / "few.jsonl")[0].codes is None
    learn(demo, [learned, few], tmp_path / "both.jsonl", language="de")
    assert read_learned(tmp_path / "both.jsonl")[0].codes == read_learned(learned)[0].codes is not None


def test_equal_notes_give_equal_bytes(learned: Path, demo: Bundle, tmp_path: Path) -> None:
    learn(demo, [learned.parent / "gold"], tmp_path / "again.jsonl", language="de")
    assert (tmp_path / "again.jsonl").read_bytes() == learned.read_bytes()


@pytest.mark.parametrize("change", [{"more": [0.0, 0.0, 1.0]}, {COLUMNS[0]: None}, {COLUMNS[0]: [1.0]}])
def test_other_columns(change: dict[str, Any], learned: Path, tmp_path: Path) -> None:
    head, *rows = learned.read_text("utf-8").splitlines(keepends=True)
    raw = json.loads(head)
    raw["codes"]["columns"] = {n: v for n, v in (raw["codes"]["columns"] | change).items() if v is not None}
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(raw) + "\n" + "".join(rows), "utf-8")
    with pytest.raises(InputError, match="not a file of learned mentions"):
        read_learned(path)


def test_columns_by_hand() -> None:
    """*rk* was fever in three of four uses, and nothing in the fourth: (3 + 0.5) / (4 + 1) of its uses are fever."""
    entry = Entry(4)
    entry.seen[""].update({FEVER: 3, "no mention": 1})
    (one,) = NoteCoder({("rk", "de"): entry}).candidates("ab rk", "de", [])
    columns = dict(zip(COLUMNS, one.columns, strict=True))
    assert (one.concept_id, one.spans) == (FEVER, ((3, 5),))
    assert columns == pytest.approx(
        {
            "learned": 1, "share": np.log(0.7 / 0.3), "count": np.log(4), "linked": 0, "score": 0, "route": 0,
            "rate": np.log(4 / 2), "annotated": np.log(4), "rival": 0, "characters": np.log(2), "position": 0.6,
            "absent": 0, "present": 1,
        }
    )  # fmt: skip


def test_regression_is_at_the_minimum() -> None:
    """The gradient of the penalised loss is zero: (Z' (p - y) + w) with standardised columns Z."""
    random = np.random.default_rng(1)
    x = np.column_stack([random.normal(2, 3, 200), np.ones(200)])
    y = (random.random(200) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    weights, offset = _logistic(x, y)
    p = 1 / (1 + np.exp(-(x @ weights + offset)))
    z, deviation = (x[:, 0] - x[:, 0].mean()) / x[:, 0].std(), x[:, 0].std()
    assert z @ (p - y) + weights[0] * deviation == pytest.approx(0, abs=1e-6)
    assert (weights[1], p.mean()) == (0, pytest.approx(y.mean()))


def test_threshold_with_the_highest_f1() -> None:
    """The first column tells codes from others: the least probability keeps codes alone."""
    on, off = (Candidate(name, ((0, 1),), (float(name == "a"), *[0.0] * (len(COLUMNS) - 1))) for name in "ab")
    weights = fit_weights([(fold, [on, off], frozenset("a")) for fold in range(5)])
    assert weights is not None
    coder = NoteCoder({}, weights)
    assert coder._model is not None
    likely, unlikely = coder._model.predict_proba([on.columns, off.columns])
    assert unlikely < weights.least <= likely
    assert fit_weights([(0, [on], frozenset("a"))]) is fit_weights([]) is None
