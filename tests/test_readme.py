"""README, tutorial and examples run, and print what the pages show. How-to pages: ``test_docs.py``."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import medlink
from tests.documents import assert_prints, run_blocks, runs, without_times
from tests.fork_server import SERVER

ROOT = Path(medlink.__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = re.compile(r"/(?:reference/)?commands/medlink-[a-z]+\.md$|/(?:reference/)?python\.md$")


@pytest.mark.slow
def test_readme_prints_what_it_shows(tmp_path: Path) -> None:
    assert without_times(run_blocks(README, tmp_path)) == without_times(README), (
        "python -m tests.documents README.md fills in the output"
    )


FURTHER = [ROOT / "docs" / "reference" / "clusters.md", ROOT / "docs" / "explanation" / "qualifiers.md"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [*sorted((ROOT / "docs" / "tutorial").glob("*.md")), *FURTHER],
    ids=lambda page: f"{page.parent.name}/{page.stem}",
)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert runs(page)
    assert_prints(page, tmp_path, lambda: request.getfixturevalue("demo_path"))


def test_links_of_the_documents_resolve() -> None:
    further = [ROOT / name for name in ("CHANGELOG.md", "SECURITY.md")]
    for document in [*DOCUMENTS, *further]:
        text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
            path = document.parent / target if target else document
            if GENERATED.search(str(path)):
                continue  # 'mkdocs build --strict' and tests/test_docs.py know the generated pages
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


# lines that each example prints
EXPECTED = {
    "link_mentions.py": ("pnuemonia DEMO:0039 pneumonia", "MS ambiguous", "MS DEMO:0113", "garden furniture nil"),
    "map_codes.py": ("K2 Hb g/dl DEMO:0447 hemoglobin", "K3 MS ambiguous", "K1 Z.n. Herzinfarkt DEMO:0016"),
    "own_terminology.py": ("Migraene H:2 Migräne", "cefalea H:1 Kopfschmerz"),
    "spacy_pipeline.py": ("Herzinfarkt DEMO:0016", "MS DEMO:0026"),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [SERVER.programs() / "python", path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for expected in EXPECTED[path.name]:
        assert any(line.startswith(expected) for line in lines), (expected, lines)
