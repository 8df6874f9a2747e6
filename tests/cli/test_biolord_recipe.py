"""The recipe of ``medlink train biolord run``: values that are refused, defaults, paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import medlink
from medlink.errors import InputError
from medlink.training.biolord.pipeline import read_recipe
from medlink.training.recipes import MultilingualRecipe, StsRecipe

from .biolord_folder import TOML


def write(folder: Path, old: str, new: str) -> Path:
    assert old in TOML
    (folder / "recipe.toml").write_text(TOML.replace(old, new, 1), encoding="utf-8")
    return folder / "recipe.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kb = "kb.sqlite"', "", "kb is missing"),
        ("[sts]", "[sst]", r"unknown option 'sst'\. Remedy: one of .*base, data, run, sts"),
        ("runs = 2", "run = 2", r"in \[distill\], unknown option 'run'"),
        ("runs = 2", "runs = true", r"in \[distill\], runs is True, a whole number expected"),
        ("runs = 2", "runs = 0", r"in \[distill\], runs is 0, at least 1 expected\. Remedy: leave runs out for 3"),
        ("runs = 2", "patience = 2", r"in \[distill\], patience is 2 and there is no dev\. Remedy: name rated pairs"),
        ("pairs = 80", "pairz = 80", r"in \[contrastive\.pairs\], unknown option 'pairz'"),
        ("pairs = 80", "pairs = 1e6", r"in \[contrastive\.pairs\], pairs is 1000000\.0, a whole number expected"),
        (
            "share = 0.3 }",
            "share = 0.7, name_share = 0.7 }",
            "definition_share and name_share together are more than 1",
        ),
        ('student = "base"', "", r"in \[multilingual\], student is missing"),
        ('languages = ["de"]', "languages = []", r"in \[multilingual\], languages is \[\], "),
        ('tables = ["sts.tsv"]', 'tables = "sts.tsv"', r"in \[sts\], tables is 'sts.tsv', a list exp"),
        ('tables = ["sts.tsv"]', 'tables = ["a", "x/../a"]', r"in \[sts\], the table x/\.\./a is given twice\. Remedy"),
        ('definitions = ["glossary.tsv"]', "definitions = [1]", r"in \[data\], definitions is 1, a text in quotes"),
        ("[contrastive]\n", "[contrastive]\nlow =\n", "is not TOML: "),
        (TOML[TOML.index("[contrastive]") : TOML.index("[sts-again]")], "", "come after the contrastive phase"),
        (TOML[TOML.index("[sts]") :], "", "there is no phase in it"),
        ("checkpoint_steps = 2", "checkpoint_steps = 0", r"in \[run\], checkpoint_steps is 0, at least 1 expected"),
    ],
)
def test_recipes_that_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, old, new)
    with pytest.raises(medlink.MedlinkError, match=f"^{re.escape(str(path))}: .*{message}"):
        read_recipe(path)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


def test_values_that_are_accepted(tmp_path: Path) -> None:
    for old, new in (
        ("learning_rate = 1e-2", "learning_rate = 1"),  # a whole number is a number
        ('dev = "sts.tsv"', 'dev = "sts.tsv"\nevaluate_steps = 2\npatience = 1'),
        ('filter = ""', "low = 0.3\nhigh = 1\nproject = true"),
    ):
        phases = read_recipe(write(tmp_path, old, new)).phases
        assert phases == ["sts", "contrastive", "sts-again", "distill", "soup", "multilingual"]


def test_omitted_values_are_the_defaults_of_the_phase(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, 'filter = ""\nepochs = 1', 'filter = ""'))
    assert recipe.sts_again is not None
    assert recipe.multilingual is not None
    assert recipe.sts_again.recipe(StsRecipe).to_dict() == StsRecipe(epochs=1, batch_size=8).to_dict()
    expected = MultilingualRecipe(batch_size=64, filter="").to_dict()
    assert recipe.multilingual.recipe(MultilingualRecipe).to_dict() == expected


def test_a_recipe_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"recipe\.toml: cannot be read: .*Remedy: name a TOML file in UTF-8"):
        read_recipe(tmp_path / "recipe.toml")


def test_paths_are_relative_to_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'dev = "sts.tsv"', 'dev = "/data/dev.tsv"')
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path.parent)
    recipe = read_recipe(Path(tmp_path.name, "recipe.toml"))
    assert recipe.sts is not None
    assert recipe.folder_of("soup") == tmp_path / "run" / "4-soup"
    assert recipe.resolve(recipe.sts.dev or "") == Path("/data/dev.tsv")
    assert recipe.training_data().definitions == (tmp_path / "glossary.tsv",)
    # a folder beside it, or the name of a hub model
    assert recipe.resolve_encoder("base") == str(tmp_path / "base")
    assert recipe.resolve_encoder("hf:someone/model") == "hf:someone/model"
