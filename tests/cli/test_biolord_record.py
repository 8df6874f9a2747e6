"""What a run was made of: what is done is held to it, what is not may change."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from medlink.errors import ConfigError, InputError
from medlink.kb import Input, extend_kb
from medlink.models import load_encoder
from medlink.training.biolord.recipe_run import FOLDERS, RECORD, bind, read_recipe
from medlink.training.common.run import work_folder
from medlink.training.recipes import RunOptions
from tests.training.small_bert import small_bert

from .biolord_folder import TOML, copy_of, rewrite, train

SECTION = {
    "sts": ('loss = "cosent"', "[sts]\n"),
    "contrastive": ("temperature = 0.1", "[contrastive]\n"),
    "sts-again": ('loss = "cosent"', "[sts-again]\n"),
    "distill": ("seed = 2", "[distill]\n"),
    "multilingual": ("seed = 2", "[multilingual]\n"),
}
"""A line for each section and where it goes."""


@pytest.fixture
def begun(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder with the record of a run that has done nothing yet."""
    copied = copy_of(folder, tmp_path / "begun")
    bind(read_recipe(copied / "recipe.toml"))
    return copied


def done(folder: Path, *names: str) -> None:
    """As if phases were done."""
    for name in names:
        (folder / "run" / name).mkdir()


def rebind(folder: Path, *changes: tuple[str, str]) -> None:
    bind(read_recipe(rewrite(folder, *changes)))


def record(folder: Path) -> dict[str, dict[str, object]]:
    read: dict[str, dict[str, object]] = json.loads((folder / "run" / RECORD).read_text("utf-8"))
    return read


def test_the_record_is_plain(folder: Path, complete: tuple[Path, str]) -> None:
    found = record(folder)
    assert list(found) == ["base", "sts", "contrastive", "sts-again", "distill", "multilingual"]
    assert found["base"] == {"name": "base", "fingerprint": load_encoder(folder / "base").fingerprint}
    assert {name: found["distill"][name] for name in ("dimension", "runs", "batch_size")} == {
        "dimension": 8,
        "runs": 2,
        "batch_size": 64,
    }
    read = {phase: {name[11:] for name in part if name.startswith("content of ")} for phase, part in found.items()}
    assert read == {
        "base": set(),
        "sts": {"sts.tsv"},
        "contrastive": {"kb", "glossary.tsv", "held_out.txt"},
        "sts-again": {"sts.tsv"},
        "distill": {"kb", "glossary.tsv", "held_out.txt"},
        "multilingual": {"kb", "held_out.txt"},
    }
    assert "checkpoint_steps" not in json.dumps(found)


@pytest.mark.parametrize("last", [None, "sts", "contrastive", "soup", "multilingual"])
@pytest.mark.parametrize("changed", SECTION)
def test_a_section_may_change_until_its_phase_or_a_later_one_is_done(
    begun: Path, last: str | None, changed: str
) -> None:
    order = list(FOLDERS)
    if last is not None:
        # that of a later phase says enough
        done(begun, FOLDERS[last])
    line, at = SECTION[changed]
    before = record(begun)
    if last is not None and order.index(changed) <= order.index(last):
        name = line.split(" ")[0]
        remedy = f"put it back as it was, name another folder for out, or delete {FOLDERS[last]} in {begun / 'run'} to"
        message = f"[{changed}] changed ({name}) after {FOLDERS[last]} was made. Remedy: {remedy} have them made anew."
        with pytest.raises(ConfigError) as error:
            rebind(begun, (at, f"{at}{line}\n"))
        assert str(error.value) == f"{begun / 'recipe.toml'}: {message}"
        assert record(begun) == before
    else:
        rebind(begun, (at, f"{at}{line}\n"))
        assert record(begun) != before
        # which is what it is held to from now on
        done(begun, FOLDERS[changed])
        with pytest.raises(ConfigError, match=re.escape(f"[{changed}] changed")):
            rebind(begun)


def test_a_section_that_was_added_or_left_out(begun: Path) -> None:
    again = TOML[TOML.index("[sts-again]") : TOML.index("[distill]")]
    done(begun, "1-sts", "2-contrastive")
    rebind(begun, (again, ""))
    assert "sts-again" not in record(begun)
    rebind(begun)
    done(begun, "2-sts-again", "3-distill")
    with pytest.raises(
        ConfigError, match=r"\[sts-again\] was left out after 2-sts-again was made\..* delete 2-sts-again, 3"
    ):
        rebind(begun, (again, ""))
    (begun / "run" / "2-sts-again").rmdir()
    (begun / "run" / "3-distill").rmdir()
    rebind(begun, (again, ""))
    done(begun, "3-distill")
    with pytest.raises(
        ConfigError, match=r"\[sts-again\] was added after 3-distill was made\..* or delete 3-distill in"
    ):
        rebind(begun)


FILES = {
    "sts.tsv": ("1-sts", "[sts] changed (content of sts.tsv)"),
    "glossary.tsv": ("2-contrastive", "[contrastive] changed (content of glossary.tsv)"),
    "held_out.txt": ("2-contrastive", "[contrastive] changed (content of held_out.txt)"),
}


@pytest.mark.parametrize("name", FILES)
def test_tables_are_bound_by_their_content(begun: Path, name: str) -> None:
    folder, message = FILES[name]
    with (begun / name).open("a") as file:
        file.write("a\tb\t3\n")
    rebind(begun)
    done(begun, folder)
    with (begun / name).open("a") as file:
        file.write("c\td\t3\n")
    with pytest.raises(ConfigError, match=re.escape(message)):
        rebind(begun)


def test_each_phase_has_data_of_its_own(begun: Path) -> None:
    done(begun, "1-sts")
    # the STS phase does not read the knowledge base, and the contrastive one is yet to come
    extend_kb(begun / "kb.sqlite", begun / "kb.sqlite", [Input("table", added(begun, "X:1"))])
    rebind(begun, ('languages = ["en"]', 'languages = ["en", "de"]'))
    done(begun, "2-contrastive")
    with pytest.raises(ConfigError, match=re.escape("[contrastive] changed (languages in [data])")):
        rebind(begun)
    extend_kb(begun / "kb.sqlite", begun / "kb.sqlite", [Input("table", added(begun, "X:2"))])
    with pytest.raises(ConfigError, match=re.escape("[contrastive] changed (content of kb) after 2-contrastive")):
        rebind(begun, ('languages = ["en"]', 'languages = ["en", "de"]'))


def added(folder: Path, concept: str) -> Path:
    (folder / "added.tsv").write_text(f"id\tname\tlanguage\n{concept}\tadded {concept}\ten\n", encoding="utf-8")
    return folder / "added.tsv"


def replace_encoder(folder: Path, temporary: Path) -> None:
    """Train an encoder anew in place: the same name, other weights."""
    shutil.rmtree(folder)
    shutil.copytree(small_bert(temporary, seed=7), folder)


def test_the_base_is_bound_by_its_weights(begun: Path, tmp_path: Path) -> None:
    replace_encoder(begun / "base", tmp_path / "one")
    # nothing was made of the other yet; the student of this recipe is the same folder
    rebind(begun)
    done(begun, "2-contrastive")
    replace_encoder(begun / "base", tmp_path / "one")
    rebind(begun)
    shutil.rmtree(begun / "base")
    shutil.copytree(small_bert(tmp_path / "two", seed=8), begun / "base")
    with pytest.raises(ConfigError, match=re.escape("base changed (fingerprint) after 2-contrastive was made")):
        rebind(begun)


def test_the_student_is_bound_by_its_weights(begun: Path, tmp_path: Path) -> None:
    shutil.copytree(begun / "base", begun / "student")
    change = ('student = "base"', 'student = "student"')
    rebind(begun, change)
    done(begun, "4-soup")
    replace_encoder(begun / "student", tmp_path / "one")
    rebind(begun, change)
    done(begun, "5-multilingual")
    shutil.rmtree(begun / "student")
    shutil.copytree(begun / "base", begun / "student")
    with pytest.raises(ConfigError, match=re.escape("[multilingual] changed (fingerprint of student) after 5-multi")):
        rebind(begun, change)


def test_an_encoder_elsewhere_is_bound_by_its_weights(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is no folder beside the recipe may be one in the working folder
    (tmp_path / "elsewhere" / "someone").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    shutil.copytree(begun / "base", "someone/model")
    change = ('base = "base"', 'base = "someone/model"')
    rebind(begun, change)
    done(begun, "1-sts")
    rebind(begun, change)
    replace_encoder(Path("someone/model"), tmp_path / "one")
    with pytest.raises(ConfigError, match=re.escape("base changed (fingerprint) after 1-sts was made")):
        rebind(begun, change)


def test_another_base_by_name(begun: Path) -> None:
    done(begun, "1-sts")
    shutil.copytree(begun / "base", begun / "other")
    with pytest.raises(ConfigError, match=r"base changed \(name\) after 1-sts was made"):
        rebind(begun, ('base = "base"', 'base = "other"'))


def test_how_it_is_run_may_change(folder: Path, complete: tuple[Path, str], tmp_path: Path) -> None:
    copied = copy_of(folder, tmp_path / "copy", run=True)
    said = train("run", rewrite(copied, ("checkpoint_steps = 2", "workers = 0")))
    assert "begins" not in said


def test_nothing_changes_under_a_process_that_is_at_work(begun: Path) -> None:
    work = begun / "run" / "1-sts.checkpoints"
    before = record(begun)
    with work_folder(work, RunOptions()):
        rebind(begun)
        with pytest.raises(ConfigError, match=r"1-sts\.checkpoints: another process is writing the .*Remedy: wait"):
            rebind(begun, ("runs = 2", "runs = 3"))
    assert record(begun) == before
    rebind(begun, ("runs = 2", "runs = 3"))
    assert record(begun)["distill"]["runs"] == 3


@pytest.mark.parametrize("text", ["{", '{"kb": "kb.sqlite"}', "[]", "\udcff"])
def test_a_record_that_cannot_be_read(begun: Path, text: str) -> None:
    (begun / "run" / RECORD).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(
        ConfigError, match=r"recipe\.json: the record of the run cannot be read: .*Remedy: name another"
    ):
        rebind(begun)


def test_folders_that_cannot_be_used(begun: Path) -> None:
    (begun / "run" / RECORD).unlink()
    done(begun, "1-sts")
    with pytest.raises(ConfigError, match="the folder is not empty and holds no run"):
        rebind(begun)
    (begun / "file").touch()
    with pytest.raises(ConfigError, match="run: the folder cannot be written: "):
        rebind(begun, ('out = "run"', 'out = "file/run"'))
    (begun / "sts.tsv").unlink()
    with pytest.raises(InputError, match=r"sts\.tsv: cannot be read: .*Remedy: mend the recipe, or bring"):
        rebind(begun)
