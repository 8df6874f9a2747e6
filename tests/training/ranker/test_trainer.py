"""The trainer of the cross-encoder, and the ranker that it writes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import medlink
from medlink.errors import ConfigError, EncoderError
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.linking.candidates import DENSE, EXACT
from medlink.linking.demo import demo_notes
from medlink.linking.fit import Group, weigh
from medlink.linking.rankers.cross_encoder import HOLDS, MODEL, CrossEncoderRanker, logits, mention_text
from medlink.linking.ranking import parse_curves
from medlink.records import Definition
from medlink.training.ranker.trainer import RankerTrainer, mean_loss
from medlink.training.recipes import RankerRecipe
from tests.cli.runner import json_lines, run
from tests.training.ranker.conftest import RECIPE

MENTIONS = [
    Mention("Lungenentzündungen", "de"),
    Mention("shortnes of breath", "en"),
    Mention("bajada azúcar", "es"),
    Mention("MS", "en"),
    Mention("qwrtzuiop", "en"),
]


def group(*, right: int | None, read: int, name: str) -> tuple[Group, np.ndarray]:
    """Three candidates of the rank scores 3, 2, 1, of which the model likes one."""
    flags = np.array([at == right for at in range(3)])
    keys = np.arange(3, dtype=float)
    routes = np.full(3, DENSE)
    found = Group(name, "en", ("a", "b", "c"), np.array([3.0, 2.0, 1.0]), keys, keys, routes, flags)
    return found, np.where(np.arange(3) == read, 5.0, 0.0)


def copy_ranker(folder: Path, target: Path, **changes: object) -> Path:
    """Copy a ranker with other settings."""
    shutil.copytree(folder, target, dirs_exist_ok=True)
    settings = json.loads((folder / HOLDS).read_text("utf-8"))
    (target / HOLDS).write_text(json.dumps({**settings, **changes}), encoding="utf-8")
    return target


def test_weights_follow_the_better_score() -> None:
    # the model is right, and the rank before is not
    groups, read = zip(*[group(right=at % 3, read=at % 3, name=str(at)) for at in range(30)], strict=True)
    trusted = weigh(groups, read)
    assert trusted.read > 0.5
    assert trusted.first < 0.05
    # the model points away from what is right: it does not count, and never against a candidate
    groups, read = zip(*[group(right=0, read=1 + at % 2, name=str(at)) for at in range(30)], strict=True)
    passed_over = weigh(groups, read)
    assert passed_over.read == 0
    assert passed_over.first > 0.5
    with pytest.raises(ConfigError, match="none of the mentions held back has a right candidate"):
        weigh(*zip(*[group(right=None, read=1, name="a")], strict=True))


def test_the_calibration_gives_the_probability_of_the_first() -> None:
    pairs = [group(right=0 if at % 4 else 1, read=0, name=str(at)) for at in range(80)]
    groups, read = zip(*pairs, strict=True)
    found = weigh(groups, read)
    rank = found.first * 3 + found.read * 5
    margin = np.array([found.first + found.read * 5])
    score = found.calibration.score(np.array([rank]), margin, np.zeros(1, bool), ["en"])
    assert score[0] == pytest.approx(0.75, abs=0.01)
    # no mention was a name: their curve is the one that ships, on this scale
    exact = [replace(one, routes=np.full(3, EXACT)) for one in groups]
    assert weigh(exact, read).calibration.named != found.calibration.named


def test_the_loss_by_hand() -> None:
    class Fixed(torch.nn.Module):
        def preprocess(self, pairs: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
            return {"pairs": pairs}

        def forward(self, features: dict[str, list[tuple[str, str]]]) -> dict[str, torch.Tensor]:
            return {"scores": torch.tensor([[float(other)] for _, other in features["pairs"]])}

    # softmax of 1 against 0 and 2, and of 3 against 3
    one = -np.log(np.e / (np.e + 1 + np.e**2))
    loss = mean_loss(Fixed(), [("m", ["1", "0", "2"]), ("n", ["3", "3"])])  # type: ignore[arg-type]
    assert loss.item() == pytest.approx((one + np.log(2)) / 2)


@pytest.mark.slow
def test_a_run_is_reproducible_and_no_text_is_on_both_sides(
    groups: list[Group], bert: Path, folder: Path, tmp_path: Path
) -> None:
    trainer = RankerTrainer(groups[::-1], bert, RECIPE)
    assert not {one.text for one in trainer.training} & {one.text for one in trainer.held_out}
    assert len(trainer.held_out) / len(groups) == pytest.approx(RECIPE.held_share, abs=0.15)
    figures = trainer.train(tmp_path / "again")
    assert json.loads((tmp_path / "again" / HOLDS).read_text("utf-8"))["record"]["figures"] == figures
    mine, again = (load_file(one / MODEL / "model.safetensors") for one in (folder, tmp_path / "again"))
    assert all(np.array_equal(mine[name], again[name]) for name in mine)
    assert (folder / HOLDS).read_text("utf-8") == (tmp_path / "again" / HOLDS).read_text("utf-8")
    other = RankerTrainer(groups, bert, RECIPE.replace(seed=2))
    assert [one.text for one in other.held_out] != [one.text for one in trainer.held_out]


def test_too_little_to_train_on(groups: list[Group], bert: Path, tmp_path: Path) -> None:
    for some in ([], groups[:10]):
        with pytest.raises(ConfigError, match=r"too few mentions: \d+ mentions to train on and \d+ held back"):
            RankerTrainer(some, bert, RECIPE)
    trainer = RankerTrainer(groups, tmp_path / "no", RECIPE)
    with pytest.raises(EncoderError, match=r"no transformer to start from: no config.json in it. Remedy: name the"):
        trainer.train(tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match="the folder is not empty and holds no ranker"):
        trainer.train(tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


def test_the_sum_of_both_scores_orders(folder: Path, demo: Bundle, tmp_path: Path) -> None:
    linker = Linker(demo, ranker=copy_ranker(folder, tmp_path / "ranker", weights={"first": 0.0, "read": 1.0}))
    mention = MENTIONS[1]
    plain = Linker(demo, k=20).rank([mention])[0]
    reranker = linker.reranker
    assert isinstance(reranker, CrossEncoderRanker)
    found = reranker.rerank([mention], None, [plain])[0]
    assert [one.concept for one in found] != [one.concept for one in plain]
    # as the model says by itself, the rest behind in the old order
    names = demo.index.describe(np.array([one.entry for one in plain[:4]]))[0]
    preferred = demo.kb.preferred_names(demo.index.concept_ids(np.array([one.concept for one in plain[:4]])), "en")
    texts = [text if text == name else f"{text} ({name})" for text, name in zip(names, preferred.values(), strict=True)]
    scores = logits(reranker.model, "shortnes of breath", texts)
    assert found[0].rank == pytest.approx(scores.max())
    assert [one.concept for one in found[:4]] == [plain[at].concept for at in np.argsort(-scores, kind="stable")]
    assert [one.concept for one in found[4:]] == [one.concept for one in plain[4:]]
    # a model that does not count leaves the order
    unread = copy_ranker(folder, tmp_path / "ranker", weights={"first": 2.0, "read": 0.0})
    same = Linker(demo, ranker=unread).link(MENTIONS)
    assert [[c.concept_id for c in link.candidates] for link in same] == [
        [c.concept_id for c in link.candidates] for link in Linker(demo).link(MENTIONS)
    ]


@pytest.mark.slow
def test_scores_are_calibrated(folder: Path, demo: Bundle) -> None:
    linker = medlink.load(demo.folder, ranker=str(folder))
    curves = parse_curves(json.loads((folder / HOLDS).read_text("utf-8"))["calibration"])
    assert linker.reranker.calibration == curves
    found = linker.reranker.rerank(MENTIONS[1:2], None, linker.rank(MENTIONS[1:2]))[0][0]
    score = curves.score(np.array([found.rank]), np.array([found.margin]), np.zeros(1, bool), ["en"])[0]
    assert linker.link(MENTIONS[1:2])[0].candidates[0].score == pytest.approx(score, abs=1e-6)


@pytest.mark.slow
def test_context_and_definitions_are_read(
    folder: Path, demo: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(demo.kb), "definitions", lambda _, one: [Definition(one, f"definition of {one}", "en")])

    def scores(**changes: bool) -> list[float]:
        ranker = copy_ranker(folder, tmp_path / "ranker", weights={"first": 1.0, "read": 50.0}, **changes)
        linker = Linker(demo, ranker=ranker)
        links = linker.link([Mention("asthmx", "en")] * 2, ["it was bad", "none of it"])
        return [candidate.score for link in links for candidate in link.candidates]

    plain = scores()
    assert plain[:5] == plain[5:]
    assert scores(definitions=True) != plain
    around = scores(context=True)
    assert around[:5] != around[5:]
    assert mention_text("a", "b") == "a | b"


def test_a_damaged_folder_is_refused(folder: Path, demo: Bundle, tmp_path: Path) -> None:
    remedy = r"is not a ranker: no ranker.json in it. Remedy: name the folder of a trained"
    with pytest.raises(EncoderError, match=remedy):
        Linker(demo, ranker=tmp_path)
    ranker = copy_ranker(folder, tmp_path / "ranker")
    settings = json.loads((ranker / HOLDS).read_text("utf-8"))
    for wrong in ("{", "[]", "{}", *(json.dumps({**settings, **c}) for c in ({"candidates": 0}, {"weights": 3}))):
        (ranker / HOLDS).write_text(wrong, encoding="utf-8")
        with pytest.raises(EncoderError, match=r"ranker.json: the ranker cannot be read"):
            Linker(demo, ranker=ranker)
    copy_ranker(folder, ranker)
    (tmp_path / "ranker" / MODEL / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(EncoderError, match="no cross-encoder could be loaded"):
        Linker(demo, ranker=tmp_path / "ranker").link(MENTIONS)
    for none in ("nosuch", str(folder / HOLDS / "x"), "x" * 5000):
        with pytest.raises(ConfigError, match=r"is not a ranker. Remedy: name the folder of a trained ranker, a URL"):
            Linker(demo, ranker=none)


@pytest.mark.slow
def test_the_training_command(demo: Bundle, bert: Path, tmp_path: Path) -> None:
    names = sorted({(name.text, name.language, name.concept_id) for name in demo.kb.iter_names()})[::20]
    rows = [f"{text[:-1]}x\t{concept_id}\t{language}" for text, language, concept_id in names]
    gold = tmp_path / "gold.tsv"
    gold.write_text("\n".join(["mention\tconcept_id\tlanguage", *rows, "away\tX:1\ten"]) + "\n", encoding="utf-8")
    out = tmp_path / "ranker"
    options = ["--epochs", "1", "--candidates", "4", "--negatives", "2", "--held-share", "0.5"]
    options += ["--batch-size", "16", "--max-tokens", "24"]
    done = run("train", "ranker", demo.folder, gold, "-o", out, "--start", bert, *options)
    assert "1 mention left out: the bundle has none of their concepts" in done.stderr
    settings = json.loads((out / HOLDS).read_text("utf-8"))
    recipe = RankerRecipe(epochs=1, candidates=4, negatives=2, held_share=0.5, batch_size=16, max_tokens=24)
    assert settings["record"]["recipe"] == recipe.to_dict()
    figures = settings["record"]["figures"]
    assert figures["trained"] + figures["held"] <= len(names)
    assert done.stdout.startswith(f"{out}: ranker trained on {figures['trained']} mentions; of {figures['held']} ")


@pytest.mark.slow
def test_link_with_a_ranker(folder: Path, demo: Bundle, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text(demo_notes()["de"], encoding="utf-8")
    cache = ["--ranker", folder, "--ranker-cache", tmp_path / "cache"]
    lines = {}
    for name, options in (("plain", []), ("ranked", cache)):
        run("link", demo.folder, tmp_path / "note.txt", "-o", tmp_path / name, *options)
        lines[name] = json_lines(tmp_path / name)
    versions = {row["versions"].get("ranker") for row in lines["ranked"]}
    assert versions == {CrossEncoderRanker(folder, demo).fingerprint}
    assert "ranker" not in lines["plain"][0]["versions"]
    assert lines["ranked"] != lines["plain"]
    assert (tmp_path / "cache" / "rankings.sqlite").exists()
