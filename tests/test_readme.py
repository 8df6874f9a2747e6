"""README and tour: every block runs, and prints what stands there. The examples run."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import medlink
from medlink.curation.decisions import NEW_ID, term_hash
from medlink.index import Bundle
from medlink.kb.readers.delimited import read_table
from medlink.linking.demo import demo_folder, demo_notes
from tests.documents import run_blocks, without_times
from tests.kb.writers import terms_of, write_rf2, write_rrf

ROOT = Path(medlink.__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_readme_prints_what_it_says(tmp_path: Path) -> None:
    assert without_times(run_blocks(README, tmp_path)) == without_times(README), (
        "python -m tests.documents README.md fills in what is printed now"
    )


@pytest.mark.parametrize("name", ["clustering", "finding", "lexicon", "mapping", "notes", "review", "status"])
def test_a_document_prints_what_it_says(name: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    assert run_blocks(text, tmp_path) == text, f"python -m tests.documents docs/{name}.md fills in what is printed now"


def test_readme_is_short_and_installs_what_there_is() -> None:
    assert len(README.splitlines()) <= 105
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = set(setup["options.extras_require"])
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = document.read_text("utf-8")
        for named in re.findall(r"(?:medlink|\.)\[([a-z,]+)\]", text):
            assert set(named.split(",")) <= extras, f"{document.name}: [{named}]"


def test_pictures_are_those_of_the_linked_demo_note(demo: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    import make

    note = make.linked(demo)
    for kind, path in make.PICTURES.items():
        picture = path.read_bytes()
        assert make.made_of(note, kind) in picture, "python docs/pictures/make.py takes it anew"
        assert len(picture) < 250_000
    assert sys.modules.pop("make") is make


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the tour does not print: releases, filled from the demo terminology, and the demo's notes."""
    folder = tmp_path_factory.mktemp("tour")
    terms = terms_of(list(read_table(demo_folder() / "terminology.tsv")))
    write_rrf(folder / "umls" / "META", terms)
    write_rf2(folder / "SnomedCT_InternationalRF2", terms)
    write_rf2(folder / "SnomedCT_National", terms[:5])
    (folder / "notes").mkdir()
    for language, note in demo_notes().items():
        (folder / "notes" / f"{language}.txt").write_text(note, encoding="utf-8")
    return folder


def test_tour_from_top_to_bottom(workplace: Path) -> None:
    tour = (ROOT / "docs" / "tour.md").read_text("utf-8")
    commands = re.findall(r"^\$ (.+)$", tour, re.MULTILINE)
    assert len(commands) >= 10
    printed = run_blocks(tour, workplace)
    after = {block.partition("\n")[0]: block for block in re.split(r"^\$ ", printed, flags=re.MULTILINE)[1:]}
    assert after["medlink demo -o demo | sed -n 5,7p"] in tour
    assert '"text": "Herzinfarkt"' in next(text for command, text in after.items() if command.startswith("echo"))
    new = f"{NEW_ID}{term_hash('left arm')}"
    (added,) = (command for command in after if "--add-to" in command)
    assert after[added] in tour
    assert f"\n{new}  left arm  (" in after[f"medlink kb show local {new}"]
    assert after[f"medlink kb show local {new}"] in tour
    # whatever stands under a command is what it prints; of releases, encoders and clusters the tour prints nothing
    shown = re.split(r"^\$ ", tour, flags=re.MULTILINE)[1:]
    told = {block.partition("\n")[0]: block.partition("```")[0] for block in shown}
    told = {command: block for command, block in told.items() if block.rstrip("\n") != command}
    assert len(told) >= 8
    for command, block in told.items():
        assert without_times(after[command]).startswith(without_times(block)), command
    assert "de: Herzinfarkt*" in told["medlink kb show local H:1 --language de"]
    assert re.search(r"^Herzinfarkt \S+ Myokardinfarkt ", printed, re.MULTILINE)
    assert re.search(r"^Gartenzaun None ", printed, re.MULTILINE)
    assert re.search(r"^3 notes, \d+ mentions, \d+ linked$", printed, re.MULTILINE)
    assert re.search(r"^MS \S+ .* Mitralklappenstenose$", printed, re.MULTILINE)
    assert printed.count("```text") == tour.count("```text") == 3
    for block in re.findall(r"^```text\n.*?^```", printed, re.MULTILINE | re.DOTALL):
        assert block in tour


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
            path = document.parent / target if target else document
            assert path.exists(), f"{document.name}: {target}"
            if anchor:
                heads = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
                assert anchor[1:] in {_anchor(head) for head in heads}, f"{document.name}: {target}{anchor}"


def _anchor(heading: str) -> str:
    """The link that GitHub gives a heading.

    >>> _anchor("CODER++"), _anchor("`medlink train static`")
    ('coder', 'medlink-train-static')
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_make_targets_and_versions_that_the_documents_name() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for document in ("README.md", "CONTRIBUTING.md", "docs/benchmarks.md"):
        for target in re.findall(r"`?make ([a-z]+)\b", (ROOT / document).read_text("utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert f"## {medlink.__version__} (" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_a_users_own_table_has_one_name() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py"), ROOT / "setup.cfg"]:
        if document.name != "CHANGELOG.md":
            assert not re.search(r"house[ -]list", document.read_text("utf-8"), re.IGNORECASE), document.name


# what an example is there to show
SHOWN = {
    "link_mentions.py": ("pnuemonia DEMO:0039 pneumonia", "MS ambiguous", "MS DEMO:0113", "garden furniture nil"),
    "map_codes.py": ("K2 Hb g/dl DEMO:0447 hemoglobin", "K3 MS ambiguous", "K1 Z.n. Herzinfarkt DEMO:0016"),
    "own_terminology.py": ("Migraene H:2 Migräne", "cefalea H:1 Kopfschmerz"),
    "spacy_pipeline.py": ("Herzinfarkt DEMO:0016", "MS DEMO:0026"),
}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for shown in SHOWN[path.name]:
        assert any(line.startswith(shown) for line in lines), (shown, lines)


def test_installed_commands() -> None:
    assert shutil.which("medlink", path=str(Path(sys.executable).parent))
