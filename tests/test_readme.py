"""Every command and every line of Python in the README and of the examples runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import medlink
from medlink.kb.readers.table import read_table
from medlink.linking.demo import demo_folder, demo_notes
from tests.kb.writers import terms_of, write_rf2, write_rrf

ROOT = Path(medlink.__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")

HOUSE = "concept_id\tname\tlanguage\ttype\nH:1\tHausbegriff\tde\tpreferred\nH:1\thouse term\ten\tpreferred\n"
DECISIONS = "id\tname\tlanguage\ttype\tparent\tdecision\nNEW:1\tleft arm\ten\tpreferred\t\taccept\n"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the files that the README speaks of exist, filled from the demo terminology."""
    folder = tmp_path_factory.mktemp("readme")
    terms = terms_of(list(read_table(demo_folder() / "terminology.tsv")))
    write_rrf(folder / "umls" / "META", terms)
    write_rf2(folder / "SnomedCT_InternationalRF2", terms)
    write_rf2(folder / "SnomedCT_National", terms[:5])
    (folder / "house.tsv").write_text(HOUSE, encoding="utf-8")
    (folder / "notes").mkdir()
    for language, note in demo_notes().items():
        (folder / "notes" / f"{language}.txt").write_text(note, encoding="utf-8")
    (folder / "terms.txt").write_text("fever\nFieber\nleft arm\nright arm\n", encoding="utf-8")
    (folder / "decisions.tsv").write_text(DECISIONS, encoding="utf-8")
    return folder


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_readme_from_top_to_bottom(workplace: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 10
    printed = {}
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=workplace, capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed[command] = done.stdout
    assert any('"text": "Herzinfarkt"' in output for command, output in printed.items() if command.startswith("echo"))
    assert "left arm" in printed["medlink kb show house NEW:1"]
    assert "Hausbegriff" in printed["medlink kb show house H:1 --language de"]
    python = "\n".join(blocks("python"))
    # a script of its own: its worker processes and its working folder are not those of the tests
    (workplace / "readme.py").write_text(python, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "readme.py"], cwd=workplace, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Herzinfarkt \S+ Myokardinfarkt ", done.stdout, re.MULTILINE)
    assert re.search(r"^Gartenzaun None ", done.stdout, re.MULTILINE)
    assert re.search(r"^MS \S+ .* Mitralklappenstenose$", done.stdout, re.MULTILINE)


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_make_targets_and_versions_that_the_documents_name() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for document in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"`?make (\w+)`?", (ROOT / document).read_text("utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert f"## {medlink.__version__} (" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_tables_of_the_readme_are_filled() -> None:
    for name in ("accuracy", "speed"):
        found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", README, re.DOTALL)
        assert found is not None
        assert found[1].count("|") > 20, f"the {name} table is empty: run make bench"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 4


def test_installed_commands() -> None:
    assert shutil.which("medlink", path=str(Path(sys.executable).parent))
