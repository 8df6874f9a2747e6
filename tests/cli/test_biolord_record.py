"""The record of a run: what a finished phase was made of may not change, the rest may."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from medlink.errors import ConfigError, InputError
from medlink.kb import Input, extend_kb
from medlink.models import load_encoder
from medlink.training.biolord.pipeline import FOLDERS, RECORD, bind, read_recipe
from medlink.training.common.run import open_run_folder
from medlink.training.recipes import RunOptions
from tests.training.small_bert import small_bert

from .biolord_folder import TOML, copy_of, rewrite
from .runner import write

pytestmark = pytest.mark.slow

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


def finish(folder: Path, *names: str) -> None:
    """Make the folders of phases, as if they were finished."""
    for name in names:
        (folder / "run" / name).mkdir()


def rebind(folder: Path, *changes: tuple[str, str]) -> None:
    bind(read_recipe(rewrite(folder, *changes)))


def record(folder: Path) -> dict[str, dict[str, object]]:
    read: dict[str, dict[str, object]] = json.loads((folder / "run" / RECORD).read_text("utf-8"))
    return read


def test_the_record_is_plain(folder: Path, complete: tuple[Path, str]) -> None:
    found = record(folder)
    assert found["base"] == {"name": "base", "fingerprint": load_encoder(folder / "base").fingerprint}
    stated = {"dimension": 8, "runs": 2, "batch_size": 64}
    assert found["distill"] | stated == found["distill"]
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


@pytest.mark.parametrize("last", [None, "contrastive", "soup"])
def test_a_section_may_change_until_its_phase_or_a_later_one_is_done(begun: Path, last: str | None) -> None:
    order, before = list(FOLDERS), record(begun)
    finished = order[: order.index(last) + 1] if last else []
    if last is not None:
        finish(begun, FOLDERS[last])
    for changed, (line, at) in SECTION.items():
        if changed in finished and last is not None:
            remedy = f"put it back as it was, name another folder for out, or delete {FOLDERS[last]} in {begun / 'run'}"
            reason = f"[{changed}] changed ({line.split(' ')[0]}) after {FOLDERS[last]} was made. Remedy: {remedy} to "
            with pytest.raises(ConfigError) as error:
                rebind(begun, (at, f"{at}{line}\n"))
            assert str(error.value) == f"{begun / 'recipe.toml'}: {reason}have them made again."
            assert record(begun) == before
        else:
            rebind(begun, (at, f"{at}{line}\n"))
            assert record(begun) != before
            rebind(begun)
            assert record(begun) == before


def test_a_section_that_was_added_or_left_out(begun: Path) -> None:
    again = TOML[TOML.index("[sts-again]") : TOML.index("[distill]")]
    finish(begun, "1-sts", "2-contrastive")
    rebind(begun, (again, ""))
    assert "sts-again" not in record(begun)
    rebind(begun)
    finish(begun, "2-sts-again", "3-distill")
    refused(begun, "[sts-again] was left out after 2-sts-again was made.", (again, ""))
    for name in ("2-sts-again", "3-distill"):
        (begun / "run" / name).rmdir()
    rebind(begun, (again, ""))
    finish(begun, "3-distill")
    refused(begun, "[sts-again] was added after 3-distill was made.")


def refused(folder: Path, message: str, *changes: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        rebind(folder, *changes)


@pytest.mark.parametrize(
    ("name", "phase", "section"), [("sts.tsv", "1-sts", "sts"), ("held_out.txt", "2-contrastive", "contrastive")]
)
def test_tables_are_bound_by_their_content(begun: Path, name: str, phase: str, section: str) -> None:
    for row in ("a\tb\t3\n", "c\td\t3\n"):
        with (begun / name).open("a") as file:
            file.write(row)
        if row[0] == "a":
            rebind(begun)
            finish(begun, phase)
    refused(begun, f"[{section}] changed (content of {name})")


def test_a_phase_is_bound_to_the_knowledge_base_it_read(begun: Path) -> None:
    def extend(concept: str) -> None:
        table = write(begun / "added.tsv", f"{concept}\tadded {concept}\ten")
        extend_kb(begun / "kb.sqlite", begun / "kb.sqlite", [Input("table", table)])

    german = ('languages = ["en"]', 'languages = ["en", "de"]')
    finish(begun, "1-sts")
    # the STS phase does not read the knowledge base, and the contrastive one is yet to come
    extend("X:1")
    rebind(begun, german)
    finish(begun, "2-contrastive")
    refused(begun, "[contrastive] changed (languages in [data])")
    extend("X:2")
    refused(begun, "[contrastive] changed (content of kb) after 2-contrastive", german)


@pytest.mark.parametrize(
    ("role", "encoder", "unbound", "bound", "message"),
    [
        ("base", "base", None, "2-contrastive", "base changed (fingerprint) after 2-contrastive was made"),
        ("student", "student", "4-soup", "5-multilingual", "[multilingual] changed (fingerprint of student) after 5"),
        # a folder that is not beside the recipe may be in the working folder
        ("base", "someone/model", None, "1-sts", "base changed (fingerprint) after 1-sts was made"),
    ],
)
def test_encoders_are_bound_by_their_weights(
    role: str, encoder: str, unbound: str | None, bound: str, message: str, begun: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = Path(encoder).absolute() if "/" in encoder else begun / encoder
    change = (f'{role} = "base"', f'{role} = "{encoder}"')
    if encoder != "base":
        shutil.copytree(begun / "base", folder)
    rebind(begun, change)
    if unbound:
        finish(begun, unbound)
    for seed, is_bound in ((7, False), (8, True)):
        shutil.rmtree(folder)
        shutil.copytree(small_bert(tmp_path / str(seed), seed=seed), folder)
        if is_bound:
            refused(begun, message, change)
        else:
            rebind(begun, change)
            finish(begun, bound)


def test_the_base_is_bound_by_its_name_and_options_of_the_run_may_change(begun: Path) -> None:
    finish(begun, "1-sts")
    before = record(begun)
    rebind(begun, ("checkpoint_steps = 2", "checkpoint_steps = 3"))
    assert record(begun) == before
    shutil.copytree(begun / "base", begun / "other")
    refused(begun, "base changed (name) after 1-sts was made", ('base = "base"', 'base = "other"'))


def test_the_record_does_not_change_while_a_process_works(begun: Path) -> None:
    work = begun / "run" / "1-sts.checkpoints"
    before = record(begun)
    with open_run_folder(work, RunOptions()):
        rebind(begun)
        with pytest.raises(ConfigError, match=r"1-sts\.checkpoints: another process is writing the .*Remedy: wait"):
            rebind(begun, ("runs = 2", "runs = 3"))
    assert record(begun) == before
    rebind(begun, ("runs = 2", "runs = 3"))
    assert record(begun)["distill"]["runs"] == 3


@pytest.mark.parametrize("text", ["{", '{"kb": "kb.sqlite"}', "[]", "\udcff"])
def test_a_record_that_cannot_be_read(begun: Path, text: str) -> None:
    (begun / "run" / RECORD).write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(begun, "recipe.json: the record of the run cannot be read: ")


def test_folders_that_cannot_be_used(begun: Path) -> None:
    (begun / "run" / RECORD).unlink()
    finish(begun, "1-sts")
    refused(begun, "the folder is not empty and holds no run")
    (begun / "file").touch()
    refused(begun, "run: the folder cannot be written: ", ('out = "run"', 'out = "file/run"'))
    (begun / "sts.tsv").unlink()
    with pytest.raises(InputError, match=r"sts\.tsv: cannot be read: .*Remedy: correct the recipe, or provide"):
        rebind(begun)
