"""``medlink train coderpp``: its options, its defaults, its errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import medlink
from medlink.cli.main import app, main
from medlink.cli.options import given
from medlink.cli.train import static
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.language.lexicon.reading import FamilyReader
from medlink.models import StaticConfig, StaticEncoder
from medlink.models.encoders import builtin_folder
from medlink.training.recipes import StaticRecipe
from medlink.training.static.trainer import StaticTrainer

WORDS = (("kidney", "en"), ("renal", "en"), ("nephros", "en"), ("Niere", "de"))
SHORT = ("--epochs", "1", "--anchors", "8", "--positives", "2", "--neighbours", "3")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of 24 names."""
    folder = tmp_path_factory.mktemp("kb")
    rows = "".join(f"C:{i}\t{word} {i}\t{language}\n" for i in range(6) for word, language in WORDS)
    (folder / "names.tsv").write_text(f"concept_id\tname\tlanguage\n{rows}", encoding="utf-8")
    path = folder / "kb.sqlite"
    command = ["kb", "build", str(path), "--table", str(folder / "names.tsv")]
    CliRunner().invoke(app, command, catch_exceptions=False)
    return path


@pytest.fixture(scope="module")
def start(kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small static encoder."""
    with KnowledgeBase(kb) as store:
        names = list(store.iter_names())
    config = StaticConfig(families=False, rows=256, dimension=16, hidden=8)
    out = tmp_path_factory.mktemp("start") / "encoder"
    StaticTrainer(names, config, StaticRecipe(epochs=1, batch_size=8)).train(out)
    return out


def train(kb: Path, start: Path, out: Path, *options: str) -> str:
    command = ["train", "coderpp", str(kb), "-o", str(out), "--start", str(start), *SHORT, *options]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    encoder = StaticEncoder.load(out)
    assert f"{out}: encoder {encoder.fingerprint}, trained on 24 names" in result.stdout
    assert "round 1: neighbours of 24 terms" in result.stderr
    return encoder.fingerprint


def test_train_coderpp(kb: Path, start: Path, tmp_path: Path) -> None:
    base = train(kb, start, tmp_path / "base")
    assert train(kb, start, tmp_path / "again", "--checkpoint-steps", "1") == base
    other = ("--refresh", "2", "--learning-rate", "0.01", "--seed", "2", "--alpha", "1", "--precision", "bf16")
    assert train(kb, start, tmp_path / "other", *other) != base
    card = (tmp_path / "other" / "README.md").read_text("utf-8")
    for fact in ('"refresh": 2', '"learning_rate": 0.01', '"seed": 2', '"alpha": 1.0', '"precision": "bf16"'):
        assert fact in card
    assert '"anchors": 8' in card


def test_an_unfinished_run_is_resumed(kb: Path, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medlink.training.coderpp import loop as coderpp_loop

    step = coderpp_loop.CoderPlusPlusLoop.training_step

    def stop_at_three(self: coderpp_loop.CoderPlusPlusLoop, *args: object, **kwargs: object) -> object:
        if self.state.global_step == 2:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    alone = train(kb, start, tmp_path / "alone")
    monkeypatch.setattr(coderpp_loop.CoderPlusPlusLoop, "training_step", stop_at_three)
    command = ["train", "coderpp", str(kb), "-o", str(tmp_path / "out"), "--start", str(start), *SHORT]
    assert CliRunner().invoke(app, [*command, "--checkpoint-steps", "1"]).exit_code
    monkeypatch.undo()
    with pytest.raises(medlink.MedlinkError, match=r"holds an unfinished run\. Remedy: resume it with resume="):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert train_resumed(kb, start, tmp_path / "out") == alone


def train_resumed(kb: Path, start: Path, out: Path) -> str:
    command = ["train", "coderpp", str(kb), "-o", str(out), "--start", str(start), *SHORT, "--resume"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "step 3/3" in result.stderr
    assert "step 1/3" not in result.stderr
    return StaticEncoder.load(out).fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--refresh", "often"), "--refresh is 'often', a whole number or 'epoch' or 'never' expected"),
        (("--positives", "0"), "--positives is 0, at least 1 expected"),
        (("--start", "./nowhere"), "no such encoder folder"),
        (("--alpha", "1e308"), "--alpha is 1e+308, at least 1e-06 and at most 1e+06 expected"),
        (("--threshold", "nan"), "--threshold is nan, at least -1 and at most 1 expected"),
        (("--learning-rate", "inf"), "--learning-rate is inf, above 0 and at most 1e+06 expected"),
        (("--seed", "-1"), "--seed is -1, at least 0 and below 4294967296 expected"),
    ],
)
def test_errors_are_one_line(
    options: tuple[str, ...], message: str, kb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "coderpp", str(kb), "-o", str(tmp_path / "out"), *options])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["static", "average"])
def test_a_file_in_the_place_of_the_encoder(command: str, kb: Path, start: Path, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    arguments = ["train", command, str(kb if command == "static" else start), "-o", str(tmp_path / "out")]
    with pytest.raises(medlink.MedlinkError, match=r"out: there is a file of that name\. Remedy: name another folder"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", "-1"), "seed is -1, at least 0 and below 4294967296 expected"),
        (("--seed", str(2**32)), "seed is 4294967296, at least 0"),
        (("--epochs", "2", "--hard-epochs", "3"), "hard_epochs is 3, at most the 2 epochs expected"),
        (("--rows", "0"), "rows is 0, at least 1 expected"),
        (("--marker-weight", "-1"), "marker_weight is -1.0, at least 0 expected"),
        (("--coarse-share", "1"), "coarse_share is 1.0 and there are no coarse names. Remedy: name a knowledge base"),
        (("--coarse-temperature", "1"), "coarse_temperature is 1.0 and there are no coarse names"),
        (("--coarse", "nowhere.sqlite"), "nowhere.sqlite"),
        (("--lexicon", "words", "--no-families"), "--lexicon and --no-families exclude each other. Remedy: leave one"),
        (("--lexicon", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_options_of_the_static_encoder_that_make_no_sense(
    options: tuple[str, ...], message: str, kb: Path, tmp_path: Path
) -> None:
    with pytest.raises(medlink.MedlinkError, match=re.escape(message)):
        CliRunner().invoke(
            app, ["train", "static", str(kb), "-o", str(tmp_path / "out"), *options], catch_exceptions=False
        )
    assert not any(tmp_path.iterdir())


def test_the_recipe_of_the_builtin_encoder(kb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Path(__file__).parents[2] / "benchmarks" / "builtin_encoder.sh").read_text("utf-8")
    lines = script.replace("\\\n", "").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("medlink train ")]
    card = (builtin_folder() / "README.md").read_text("utf-8")
    stated = json.loads(card.split("```json")[1].split("```")[0])
    monkeypatch.chdir(tmp_path)
    shutil.copy(kb, "names.sqlite")
    shutil.copy(kb, "all.sqlite")
    shutil.copy(kb, "siblings.sqlite")
    assert [command[1] for command in commands] == ["names", "static", "average"]
    for command in commands:
        tiny = ["--epochs", "1", "--hard-epochs", "0"] if command[1] == "static" else []
        CliRunner().invoke(app, [*command, *tiny], catch_exceptions=False)
    assert (tmp_path / "encoder" / "config.json").read_text() == (builtin_folder() / "config.json").read_text()
    # the commands, or the defaults of what they leave out, say what the card says
    runs = []
    for command in commands[1:-1]:
        options = static.make_context("static", command[2:]).params
        recipe, shape = StaticRecipe(**given(options, StaticRecipe)), StaticConfig(**given(options, StaticConfig))
        assert {**shape.to_dict(), **stated["shape"]} == shape.to_dict()
        assert stated["loss"].endswith(f"temperature {recipe.temperature}")
        for name in ("batch_size", "learning_rate", "warmup", "coarse_share", "coarse_temperature", "seed"):
            assert getattr(recipe, name) == stated[name]
        runs.append({name: getattr(recipe, name) for name in stated["runs"][0] if name != "minutes"})
    assert runs == [{name: value for name, value in run.items() if name != "minutes"} for run in stated["runs"]]


def test_coarse_names_are_of_another_knowledge_base(kb: Path, tmp_path: Path) -> None:
    rows = "".join(f"K{i % 2}\tterm {i}\tde\n" for i in range(6))
    (tmp_path / "codes.tsv").write_text(f"concept_id\tname\tlanguage\n{rows}", encoding="utf-8")
    codes = str(tmp_path / "codes.sqlite")
    build = ["kb", "build", codes, "--table", str(tmp_path / "codes.tsv")]
    CliRunner().invoke(app, build, catch_exceptions=False)
    command = ["train", "static", str(kb), "--rows", "300", "--epochs", "1", "-o", str(tmp_path / "out")]
    command += ["--coarse", codes, "--coarse-share", "0.5"]
    CliRunner().invoke(app, command, catch_exceptions=False)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for fact in ("- names: 24", "- coarse names: 6", "- coarse concepts: 2", '"coarse_share": 0.5'):
        assert fact in card


def test_every_option_of_the_shape_changes_it(kb: Path, tmp_path: Path) -> None:
    changes = "", "--dimension 16", "--hidden 16", "--probes 1", "--sizes 3 --sizes 4", "--no-words", "--max-chars 5"
    seen = set()
    for i, options in enumerate((*changes, "--marker-weight 0")):
        command = ["train", "static", str(kb), "-o", str(tmp_path / str(i)), "--rows", "300", "--epochs", "1"]
        CliRunner().invoke(app, [*command, *options.split()], catch_exceptions=False)
        seen.add((tmp_path / str(i) / "config.json").read_text())
    assert len(seen) == len(changes) + 1


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A house's lexicon of one word."""
    folder = tmp_path_factory.mktemp("words")
    families = "family\ten\tde\nglimmerstone\tglimmerstone {pl=glimmerstones}\tFunkelkies {m,pl=Funkelkiese}\n"
    (folder / "families.tsv").write_text(families, encoding="utf-8")
    return folder


def test_names_are_made(words: Path, tmp_path: Path) -> None:
    table, kb = tmp_path / "t.tsv", tmp_path / "kb.sqlite"
    rows = ["X:1\tchronic renal failure\ten", "X:2\tpain of the glimmerstone\ten", "X:2\tglimmerstone pain\ten"]
    table.write_text("\n".join(["concept_id\tname\tlanguage", *rows, "X:3\tFieber\tde"]) + "\n", encoding="utf-8")
    CliRunner().invoke(app, ["kb", "build", str(kb), "--table", str(table)], catch_exceptions=False)

    def made(name: str, *options: str) -> list[list[str]]:
        out = tmp_path / name
        done = CliRunner().invoke(app, ["train", "names", str(kb), "-o", str(out), *options], catch_exceptions=False)
        header, *lines = out.read_text("utf-8").splitlines()
        assert header == "concept_id\tname\tlanguage"
        own = sum(line.startswith("LEX:") for line in lines)
        parted = f"{len(lines) - own:,} made of those of {kb} and {own:,} of the lexicon"
        assert done.stdout == f"{out}: {len(lines):,} names, {parted}\n"
        assert "50,000 names\n" in done.stderr
        return [line.split("\t") for line in lines]

    plain = made("plain.tsv")
    of_kb = [row for row in plain if not row[0].startswith("LEX:")]
    assert {row[0] for row in of_kb} == {"X:1"}  # nobody knows what a glimmerstone is
    assert {row[2] for row in of_kb} == {"de", "es"}
    assert any(row[1:] == ["Leber", "de"] for row in plain)
    # what is written is read as it stands, without one bad row
    build_kb(tmp_path / "made.sqlite", [Input("table", tmp_path / "plain.tsv")], max_bad_share=0)
    with KnowledgeBase(tmp_path / "made.sqlite") as read:
        assert {name.concept_id for name in read.iter_names()} == {row[0] for row in plain}
    own = made("own.tsv", "--language", "de", "--lexicon", str(words), "--per-concept", "1", "--seed", "3")
    of_kb = [row for row in own if not row[0].startswith("LEX:")]
    assert [(concept, language) for concept, _, language in of_kb] == [("X:1", "de"), ("X:2", "de")]
    assert "unkelkies" in of_kb[1][1]
    with pytest.raises(medlink.MedlinkError, match=r"plain\.tsv"):
        made("plain.tsv/below")


def test_a_static_encoder_reads_the_words_of_a_house(kb: Path, words: Path, tmp_path: Path) -> None:
    small = ("--epochs", "1", "--hard-epochs", "0", "--batch-size", "8", "--rows", "256", "--dimension", "16")
    command = ["train", "static", str(kb), "-o", str(tmp_path / "e"), *small, "--lexicon", str(words)]
    CliRunner().invoke(app, command, catch_exceptions=False)
    encoder = StaticEncoder.load(tmp_path / "e")
    assert encoder.forms is not None
    reader = FamilyReader(encoder.forms)
    one, other = (reader.read(text).words[0].meanings for text in ("Funkelkiese", "glimmerstones"))
    assert one == other != ()
    # a word that the names have and the lexicon lacks
    assert encoder.forms.is_own("3")
