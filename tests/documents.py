"""The blocks of a document, run as a reader would run them.

    python -m tests.documents README.md docs/tutorial/notes.md

runs every block of a document and writes what it printed behind it: for use after a change of what medlink prints.
``tests/test_readme.py`` demands that nothing changes.

- A block ``console`` holds commands behind ``$`` and, under each, what it prints.
- A block ``python`` is a script of its own; a block ``text`` right behind it is what it prints.
- A block whose language is followed by a file name is that file.
- Any other block, such as ``sh``, is not run.

The README runs in an empty folder. A page of the site finds what it takes as given (:func:`prepare`). Times, which
differ from run to run, are compared as if they were equal.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from medlink.kb.readers.delimited import read_table
from medlink.linking.demo import demo_bundle, demo_folder, demo_notes
from tests.fork_server import SERVER
from tests.kb.public_files import CLAML, write_icd, write_public_files
from tests.kb.writers import terms_of, write_rf2, write_rrf

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_RUNS = re.compile(r"^```(?:console|python)$", re.MULTILINE)
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")

UMLS, SNOMED = "2026AA/META", "SnomedCT_InternationalRF2_PRODUCTION_20260901"
PUBLIC = " downloads\n"


def without_times(text: str) -> str:
    """The text with every duration as ``0 s``.

    >>> without_times("wrote kb.sqlite in 1.3 s")
    'wrote kb.sqlite in 0 s'
    """
    return _SECONDS.sub("0 s", text)


def needs_demo(text: str) -> bool:
    """Whether a page takes the demo bundle as given."""
    return "demo/bundle" in text and "$ medlink demo" not in text


def prepare(text: str, folder: Path, bundle: Path | None) -> None:
    """Put into the folder what a page takes as given: the demo bundle, and small releases made by the tests."""
    if bundle is not None:
        shutil.copytree(bundle, folder / "demo" / "bundle")
    terms = terms_of(list(read_table(demo_folder() / "terminology.tsv")))
    if UMLS in text:
        write_rrf(folder / UMLS, terms)
    if SNOMED in text:
        write_rf2(folder / SNOMED, terms)
    if PUBLIC in text:
        write_public_files(folder / "downloads")
    elif CLAML in text:
        write_icd(folder)
    if " notes/ " in text:
        (folder / "notes").mkdir()
        for language, note in demo_notes().items():
            (folder / "notes" / f"{language}.txt").write_text(note, encoding="utf-8")


def run_blocks(document: str, folder: Path) -> str:
    """The document with what its blocks print now; the parts without blocks stay."""
    parts, end, printed = [], 0, None
    for block in _BLOCK.finditer(document):
        kind, name, body = block.groups()
        between = document[end : block.start()]
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(body, encoding="utf-8")
        elif kind == "console":
            commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            body = "".join(f"$ {command}\n{_run(command, folder)}" for command in commands)
        elif kind == "text" and printed is not None and not between.strip():
            body = printed
        printed = None
        if kind == "python" and not name:
            (folder / "example.py").write_text(body, encoding="utf-8")
            printed = _run("python example.py", folder)
        titled = f'{kind} title="{name}"' if name else kind
        parts += [between, f"```{titled}\n{body}```"]
        end = block.end()
    return "".join([*parts, document[end:]])


def runs(page: Path) -> bool:
    """Whether a page has blocks to run."""
    return _RUNS.search(page.read_text("utf-8")) is not None


def assert_prints(page: Path, folder: Path, bundle: Callable[[], Path]) -> None:
    """Fail where a page of the site prints something else than stands there; ``bundle`` gives the demo bundle."""
    text = page.read_text("utf-8")
    prepare(text, folder, bundle() if needs_demo(text) else None)
    assert without_times(run_blocks(text, folder)) == without_times(text), (
        f"python -m tests.documents {page.relative_to(ROOT)} fills in what is printed now"
    )


def _run(command: str, folder: Path) -> str:
    programs = [SERVER.programs(), Path(sys.executable).parent, os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(map(str, programs))}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    # a pipe that "head" closed is no failure of the command
    if done.returncode not in (0, 120, 141):
        raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> None:
    """Run the blocks of the documents that the command line names, and fill in what they print."""
    for name in sys.argv[1:]:
        path = Path(name)
        text = path.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            if path.resolve().is_relative_to(ROOT / "docs"):
                prepare(text, Path(folder), demo_bundle() if needs_demo(text) else None)
            filled = run_blocks(text, Path(folder))
        path.write_text(filled, encoding="utf-8")
    SERVER.stop()


if __name__ == "__main__":
    main()
