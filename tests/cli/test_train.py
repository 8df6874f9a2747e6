"""``medlink train`` but for BioLORD: options reach the recipe, what is printed, what is refused."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import medlink
from medlink.cli.options import make_settings
from medlink.cli.train import average, static
from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.kb import Input, build_kb
from medlink.kb.readers.delimited import read_table
from medlink.language.lexicon.name_analysis import LexicalAnalyser
from medlink.models import StaticConfig, StaticEncoder, load_encoder
from medlink.models.encoders import builtin_folder
from medlink.records import Name
from medlink.training.coderpp.trainer import CoderPlusPlusLoop
from medlink.training.recipes import StaticRecipe
from tests.cli.runner import run, write
from tests.training.trained import card, fingerprint, missing, recipe_on_card

pytestmark = pytest.mark.slow

WORDS = (("kidney", "en"), ("renal", "en"), ("nephros", "en"), ("Niere", "de"))
CODERPP = ("--epochs", 1, "--anchors", 8, "--positives", 2, "--neighbours", 3)
STATIC = ("--epochs", 1, "--hard-epochs", 0, "--batch-size", 8, "--rows", 256, "--dimension", 16, "--hidden", 8)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of 24 names."""
    folder = tmp_path_factory.mktemp("kb")
    rows = [f"C:{i}\t{word} {i}\t{language}" for i in range(6) for word, language in WORDS]
    build_kb(folder / "kb.sqlite", [Input("table", write(folder / "names.tsv", *rows))])
    return folder / "kb.sqlite"


@pytest.fixture(scope="module")
def start(kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small static encoder."""
    out = tmp_path_factory.mktemp("start") / "encoder"
    run("train", "static", kb, "-o", out, *STATIC, "--no-families")
    return out


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lexicon folder of one word."""
    folder = tmp_path_factory.mktemp("words")
    row = "glimmerstone\tglimmerstone {pl=glimmerstones}\tFunkelkies {m,pl=Funkelkiese}"
    write(folder / "families.tsv", row, header="family\ten\tde")
    return folder


def test_coderpp(kb: Path, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options reach the recipe; an interrupted run has to be resumed, and ends in the same weights."""
    values = {"refresh": 2, "learning_rate": 0.01, "seed": 2, "alpha": 1.0, "precision": "bf16"}
    flags = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", value)]

    def train(name: str, *options: object) -> tuple[str, str]:
        result = run("train", "coderpp", kb, "-o", tmp_path / name, "--start", start, *CODERPP, *flags, *options)
        weights = fingerprint(tmp_path / name)
        assert f"{tmp_path / name}: encoder {weights}, trained on 24 names" in result.stdout
        return weights, result.stderr

    whole, printed = train("whole")
    assert "round 1: neighbours of 24 terms" in printed
    recipe = recipe_on_card(tmp_path / "whole")
    assert recipe | values | {"anchors": 8} == recipe
    step = CoderPlusPlusLoop.training_step

    def stop_at_three(self: CoderPlusPlusLoop, *args: object, **kwargs: object) -> object:
        if self.state.global_step == 2:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(CoderPlusPlusLoop, "training_step", stop_at_three)
        with pytest.raises(AssertionError):
            train("out", "--checkpoint-steps", 1)
    with pytest.raises(ConfigError, match=r"holds an unfinished run\. Remedy: resume it with resume="):
        train("out")
    resumed, printed = train("out", "--resume")
    assert "step 3/3" in printed
    assert "step 1/3" not in printed
    assert resumed == whole


def test_refusals(kb: Path, tmp_path: Path) -> None:
    for words, message in (
        ("coderpp --refresh often", "refresh is 'often', a whole number or 'epoch' or 'never' expected"),
        ("coderpp --start ./nowhere", "no such encoder folder"),
        ("static --epochs 2 --hard-epochs 3", "hard_epochs is 3, at most the 2 epochs expected"),
        ("static --coarse-share 1", "coarse_share is 1.0 and there are no coarse names. Remedy: name a knowledge base"),
        ("static --coarse-temperature 1", "coarse_temperature is 1.0 and there are no coarse names"),
        ("static --coarse nowhere.sqlite", "nowhere.sqlite"),
        ("static --lexicon words --no-families", "--lexicon and --no-families exclude each other. Remedy: leave one"),
        ("static --lexicon nowhere", "nowhere: no such folder"),
        ("map --rounds 2", "rounds is given and nothing is held out. Remedy: add --hold-out"),
    ):
        command, *options = words.split()
        with pytest.raises(medlink.MedlinkError, match=re.escape(message)):
            run("train", command, kb, "-o", tmp_path / "out", *options)
    assert not any(tmp_path.iterdir())


def test_output_folders_that_are_refused(kb: Path, start: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("mine")
    is_file = r"file: there is a file of that name\. Remedy: name another folder"
    for words, message in (
        (("static", kb, "-o", tmp_path / "file"), is_file),
        (("average", start, "-o", tmp_path / "file"), is_file),
        (("static", kb, "-o", tmp_path / "full"), "not empty and holds no encoder"),
    ):
        with pytest.raises(medlink.MedlinkError, match=message):
            run("train", *words)


def test_options_of_the_static_encoder(kb: Path, start: Path, tmp_path: Path) -> None:
    """Each reaches the recipe on the card or the shape in the configuration; the same options give the same weights."""
    other = write(tmp_path / "codes.tsv", *(f"K{i % 2}\tterm {i}\tde" for i in range(6)))
    build_kb(tmp_path / "codes.sqlite", [Input("table", other)])
    options = (
        "--seed", 2, "--feature-dropout", 0.5, "--language-boost", 1, "--coarse", tmp_path / "codes.sqlite",
        "--coarse-share", 0.5, "--probes", 1, "--sizes", 3, "--sizes", 4, "--no-words", "--max-chars", 5,
        "--marker-weight", 0, "--no-families",
    )  # fmt: skip
    for name in ("one", "two"):
        run("train", "static", kb, "-o", tmp_path / name, *STATIC, *options)
    assert fingerprint(tmp_path / "one") == fingerprint(tmp_path / "two")
    facts = ('"seed": 2', '"feature_dropout": 0.5', '"language_boost": 1,', '"batch_size": 8', '"coarse_share": 0.5')
    assert not missing(tmp_path / "one", *facts, "- names: 24", "- coarse names: 6", "- coarse concepts: 2")
    config = json.loads((tmp_path / "one" / "config.json").read_text("utf-8"))
    shape = {"rows": 256, "dimension": 16, "hidden": 8, "probes": 1, "sizes": [3, 4], "max_chars": 5}
    assert config | shape | {"words": False, "marker_weight": 0.0, "families": False} == config
    run("train", "static", kb, "-o", tmp_path / "other", *STATIC, "--no-families", "--seed", 3)
    result = run("train", "average", start, tmp_path / "other", "-o", tmp_path / "mean", "--marker-weight", 0.5)
    assert "the mean of 2" in result.output
    mean = StaticEncoder.load(tmp_path / "mean")
    assert mean.config.marker_weight == 0.5
    assert mean.fingerprint not in (fingerprint(start), fingerprint(tmp_path / "other"))


@pytest.mark.usefixtures("small_lexicon")
def test_a_static_encoder_with_the_words_of_a_lexicon_folder(kb: Path, words: Path, tmp_path: Path) -> None:
    run("train", "static", kb, "-o", tmp_path / "e", *STATIC, "--lexicon", words)
    encoder = StaticEncoder.load(tmp_path / "e")
    assert encoder.forms is not None
    reader = LexicalAnalyser(encoder.forms)
    one, other = (reader.read(text).words[0].meanings for text in ("Funkelkiese", "glimmerstones"))
    assert one == other != ()
    # a word that the names have and the lexicon lacks
    assert encoder.forms.is_own("3")


def test_the_recipe_of_the_builtin_encoder() -> None:
    """The commands of its script, and their defaults, are the recipe on its card."""
    script = (Path(__file__).parents[2] / "benchmarks" / "builtin_encoder.sh").read_text("utf-8")
    lines = script.replace("\\\n", "").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("medlink train ")]
    stated = recipe_on_card(builtin_folder())
    assert [command[1] for command in commands] == ["names", "static", "average"]
    built = json.loads((builtin_folder() / "config.json").read_text("utf-8"))
    markers = average.make_context("average", commands[-1][2:]).params["marker_weight"]
    runs = []
    for command in commands[1:-1]:
        options = static.make_context("static", command[2:]).params
        recipe, shape = make_settings(StaticRecipe, options), make_settings(StaticConfig, options)
        assert {**shape.to_dict(), **stated["shape"]} == shape.to_dict()
        assert shape.replace(marker_weight=markers) == StaticConfig.from_dict(built)
        assert stated["loss"].endswith(f"temperature {recipe.temperature}")
        for name in ("batch_size", "learning_rate", "warmup", "coarse_share", "coarse_temperature", "seed"):
            assert getattr(recipe, name) == stated[name]
        runs.append({name: getattr(recipe, name) for name in stated["runs"][0] if name != "minutes"})
    assert runs == [{name: value for name, value in run.items() if name != "minutes"} for run in stated["runs"]]


@pytest.mark.usefixtures("small_lexicon")
def test_names(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.cli.train._PROGRESS_STEP", 10)
    rows = ["X:1\tchronic renal failure\ten", "X:2\tpain of the glimmerstone\ten", "X:2\tglimmerstone pain\ten"]
    table, kb = write(tmp_path / "t.tsv", *rows, "X:3\tFieber\tde"), tmp_path / "kb.sqlite"
    build_kb(kb, [Input("table", table)])

    def generate(name: str, *options: object) -> list[list[str]]:
        out = tmp_path / name
        result = run("train", "names", kb, "-o", out, *options)
        header, *lines = out.read_text("utf-8").splitlines()
        assert header == "concept_id\tname\tlanguage"
        own = sum(line.startswith("LEX:") for line in lines)
        counts = f"{len(lines) - own:,} made of those of {kb} and {own:,} of the lexicon"
        assert result.stdout == f"{out}: {len(lines):,} names, {counts}\n"
        assert "10 names\n" in result.stderr
        return [line.split("\t") for line in lines]

    plain = generate("plain.tsv")
    of_kb = [row for row in plain if not row[0].startswith("LEX:")]
    assert {row[0] for row in of_kb} == {"X:1"}  # the lexicon does not know a glimmerstone
    assert {row[2] for row in of_kb} == {"de", "es"}
    assert any(row[1:] == ["Leber", "de"] for row in plain)
    # the table is read without a bad row
    read = [name for name in read_table(tmp_path / "plain.tsv", problems=Problems(0)) if isinstance(name, Name)]
    assert [name.concept_id for name in read] == [row[0] for row in plain]
    own = generate("own.tsv", "--language", "de", "--lexicon", words, "--per-concept", 1, "--seed", 3)
    of_kb = [row for row in own if not row[0].startswith("LEX:")]
    assert [(concept, language) for concept, _, language in of_kb] == [("X:1", "de"), ("X:2", "de")]
    assert "unkelkies" in of_kb[1][1]
    with pytest.raises(medlink.MedlinkError, match=r"plain\.tsv"):
        generate("plain.tsv/below")


def counts(text: str, *patterns: str) -> list[int]:
    """The number that each pattern matches first."""
    return [int(found[1].replace(",", "")) for pattern in patterns if (found := re.search(pattern, text))]


def test_map_holds_out_what_evaluate_measures(demo_path: Path, tmp_path: Path) -> None:
    split = ("--rounds", 2, "--zero-shot", 0.3, "--languages", "en,de")
    printed = run("train", "map", demo_path, "-o", tmp_path / "map", "--hold-out", *split).output
    assert printed.startswith(f"{tmp_path / 'map'}: encoder {fingerprint(tmp_path / 'map')}, trained on ")
    names = counts(card(tmp_path / "map"), r"- names: ([\d,]+)", r"- concepts: ([\d,]+)")
    measured = run("evaluate", "synonyms", demo_path, "--encoder", tmp_path / "map", "--sample", 20, *split).output
    assert names == counts(measured, r"(\d+) names of", r"of (\d+) concepts")
    assert [line.split()[0] for line in measured.splitlines()[1:]] == ["kind", "test", "zero-shot"]
    run("train", "map", demo_path, "-o", tmp_path / "whole", "--languages", "en,de")
    assert counts(card(tmp_path / "whole"), r"- names: ([\d,]+)") > names[:1]


def test_grounding(demo_path: Path, tmp_path: Path) -> None:
    options = ("--hidden", 8, "--epochs", 1, "--languages", "de", "--no-cca", "--checkpoint-steps", 5)
    assert ", trained on " in run("train", "grounding", demo_path, "-o", tmp_path / "out", *options).output
    assert not missing(tmp_path / "out", '"hidden": 8', '"cca": false')
    assert load_encoder(tmp_path / "out").encode(["Fieber"]).shape == (1, 256)
