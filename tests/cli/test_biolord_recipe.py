"""The recipe of ``medlink train biolord run``: what is refused, and what the values may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import medlink
from medlink.errors import ConfigError, InputError
from medlink.training.biolord.recipe_run import read_recipe
from medlink.training.recipes import MultilingualRecipe, StsRecipe

from .biolord_folder import TOML, train


def write(folder: Path, old: str, new: str) -> Path:
    assert old in TOML
    (folder / "recipe.toml").write_text(TOML.replace(old, new, 1), encoding="utf-8")
    return folder / "recipe.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kb = "kb.sqlite"', "", "kb is missing"),
        (
            "[sts]",
            "[sst]",
            r"unknown option 'sst'\. Remedy: one of .*base, data, run, sts",
        ),
        ('kb = "kb.sqlite"', "kb = 3", "kb is 3, a text in quotes expected"),
        ("runs = 2", "run = 2", r"in \[distill\], unknown option 'run'"),
        ("runs = 2", 'runs = "two"', r"in \[distill\], runs is 'two', a whole number expected"),
        ("runs = 2", "runs = true", r"in \[distill\], runs is True, a whole number expected"),
        ("runs = 2", "runs = 0", r"in \[distill\], runs is 0, at least 1 expected\. Remedy: leave runs out for 3"),
        ("runs = 2", "descriptions = -1", r"in \[distill\], descriptions is -1, at least 0 expected"),
        ("runs = 2", "learning_rate = true", r"in \[distill\], learning_rate is True, a number expected"),
        ("pairs = 80", "pairz = 80", r"in \[contrastive\.pairs\], unknown option 'pairz'"),
        ("pairs = 80", "pairs = 0", r"in \[contrastive\.pairs\], pairs is 0, at least 1 expected"),
        ("pairs = 80", "pairs = 1e6", r"in \[contrastive\.pairs\], pairs is 1000000\.0, a whole number expected"),
        ("pairs = 80", 'pairs = "1000"', r"in \[contrastive\.pairs\], pairs is '1000', a whole number expected"),
        (
            "share = 0.3 }",
            "share = 0.7, name_share = 0.7 }",
            r"definition_share and name_share together are more than 1\.",
        ),
        ('filter = ""', 'low = "0.3"', r"in \[multilingual\], low is '0\.3', a number expected"),
        ('filter = ""', "project = 1", r"in \[multilingual\], project is 1, true or false expected"),
        ('student = "base"', "", r"in \[multilingual\], student is missing"),
        (
            'languages = ["de"]',
            "languages = []",
            r"in \[multilingual\], languages is \[\], ",
        ),
        (
            'tables = ["sts.tsv"]',
            'tables = "sts.tsv"',
            r"in \[sts\], tables is 'sts.tsv', a list exp",
        ),
        ('tables = ["sts.tsv"]', "tables = [1]", r"in \[sts\], tables is 1, a text in quotes expected"),
        (
            'tables = ["sts.tsv"]',
            'tables = ["a", "x/../a"]',
            r"in \[sts\], the table x/\.\./a is given twice\. Remedy: na",
        ),
        ('definitions = ["glossary.tsv"]', "definitions = [1]", r"in \[data\], definitions is 1, a text in quotes"),
        ("[contrastive]\n", "[contrastive]\nlow =\n", "is not TOML: "),
        (TOML[TOML.index("[contrastive]") : TOML.index("[sts-again]")], "", "come after the contrastive phase"),
        (TOML[TOML.index("[sts]") :], "", "there is no phase in it"),
        ('languages = ["en"]', 'language = ["en"]', r"in \[data\], unknown option 'language'"),
        ("checkpoint_steps = 2", "steps = 2", r"in \[run\], unknown option 'steps'"),
        ("checkpoint_steps = 2", "checkpoint_steps = 0", r"in \[run\], checkpoint_steps is 0, at least 1 expected"),
        ("checkpoint_steps = 2", "workers = -1", r"in \[run\], workers is -1, at least 0 expected"),
        ("checkpoint_steps = 2", "pair_workers = -1", r"in \[run\], pair_workers is -1, at least 0 expected"),
        ("checkpoint_steps = 2", "workers = 1.0", r"in \[run\], workers is 1\.0, a whole number expected"),
        (
            "runs = 2",
            "patience = 2",
            r"in \[distill\], patience is 2 and there is no dev\. Remedy: name rated pairs as dev, or leave pati",
        ),
        ("runs = 2", 'evaluate_steps = "epoch"', r"in \[distill\], evaluate_steps is 'epoch' and there is no dev"),
        (
            'dev = "sts.tsv"',
            'dev = "sts.tsv"\nevaluate_steps = 1.5',
            r"in \[sts\], evaluate_steps is 1\.5, a whole number or 'epoch' expected",
        ),
        (
            'dev = "sts.tsv"',
            'dev = "sts.tsv"\nevaluate_steps = "day"',
            r"in \[sts\], evaluate_steps is 'day', a whole number or 'epoch'",
        ),
        ('dev = "sts.tsv"', 'dev = "sts.tsv"\nloss = 1', r"in \[sts\], loss is 1, 'cosine' or 'cosent' expected"),
    ],
)
def test_recipes_that_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, old, new)
    with pytest.raises(medlink.MedlinkError, match=f"^{re.escape(str(path))}: .*{message}"):
        train("run", path)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # whole numbers are numbers
        ("learning_rate = 1e-2", "learning_rate = 1"),
        ('dev = "sts.tsv"', 'dev = "sts.tsv"\nevaluate_steps = 2\npatience = 1'),
        ('filter = ""', "low = 0.3\nhigh = 1\nproject = true"),
        ("[run]\ncheckpoint_steps = 2", "[run]\nworkers = 0\npair_workers = 0"),
        ("pairs = { pairs = 80, definition_share = 0.3 }", "pairs = { definition_share = 1 }"),
    ],
)
def test_recipes_that_are_not(old: str, new: str, tmp_path: Path) -> None:
    assert read_recipe(write(tmp_path, old, new)).phases == [
        "sts",
        "contrastive",
        "sts-again",
        "distill",
        "soup",
        "multilingual",
    ]


def test_what_is_not_said_is_the_default_of_the_phase(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, 'filter = ""\nepochs = 1', 'filter = ""'))
    assert recipe.sts_again is not None
    assert recipe.multilingual is not None
    assert recipe.sts_again.recipe(StsRecipe).to_dict() == StsRecipe(epochs=1, batch_size=8).to_dict()
    expected = MultilingualRecipe(batch_size=64, filter="").to_dict()
    assert recipe.multilingual.recipe(MultilingualRecipe).to_dict() == expected


def test_no_text(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"recipe\.toml: cannot be read: .*Remedy: name a TOML file in UTF-8"):
        read_recipe(tmp_path / "recipe.toml")


def test_paths_count_from_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'dev = "sts.tsv"', 'dev = "/data/dev.tsv"')
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path.parent)
    recipe = read_recipe(Path(tmp_path.name, "recipe.toml"))
    assert recipe.sts is not None
    assert recipe.folder_of("soup") == tmp_path / "run" / "4-soup"
    assert recipe.tables(recipe.sts) == {"sts.tsv": tmp_path / "sts.tsv"}
    assert recipe.place_or_none(recipe.sts.dev) == Path("/data/dev.tsv")
    assert recipe.training_data().definitions == (tmp_path / "glossary.tsv",)
    # a folder beside it, or the name of a hub model
    assert recipe.encoder("base") == str(tmp_path / "base")
    assert recipe.encoder("hf:someone/model") == "hf:someone/model"
    # a table twice is refused by the library as well
    with pytest.raises(ConfigError, match="the table a is given twice"):
        read_recipe(write(tmp_path, 'tables = ["sts.tsv"]', 'tables = ["a", "a"]'))
