"""Draw sentences of the documentation and docstrings of the package at random, for a reader who judges their English.

    python docs/draw_sentences.py --seed 1 --count 100

prints so many sentences of README, CONTRIBUTING and ``docs/``, then so many public docstrings, each with its file. The
same seed draws the same ones as long as the texts stay. A reader marks each that must be read twice.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from count_words import ROOT, documents, prose

_REPORT = re.compile(r"<!-- report: .*?<!-- end -->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARK = re.compile(r"^\s*(?:#+|[-*]|\d+\.)\s+", re.MULTILINE)
# a full stop, question mark or closing sign, then white space, then the beginning of a sentence
_END = re.compile(r"(?<=[.!?])[*_)\"']*\s+(?=[*_(\"'`]*(?:[A-ZÄÖÜ`]|medlink))")
_LEAST = 5  # words; what is shorter is mostly a heading


def sentences(text: str) -> list[str]:
    """The sentences of a text of Markdown; reports, tables, code and headings are left out.

    >>> sentences("# A title\\n\\nOne sentence with five words. Here is [another one](b.md), two\\nlines long.\\n")
    ['One sentence with five words.', 'Here is another one, two lines long.']
    """
    drawn = []
    text = prose(_LINK.sub(r"\1", _REPORT.sub("", text)))
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", text):
        if block.lstrip().startswith("#"):
            continue
        plain = " ".join(_MARK.sub("", block).split())
        drawn += [sentence for sentence in _END.split(plain) if len(sentence.split()) >= _LEAST]
    return drawn


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Name and docstring of each public module, class, function and method of a file."""

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith(
                "_"
            ):
                inner = f"{name}.{child.name}".lstrip(".")
                if text := ast.get_docstring(child):
                    yield inner, text
                if isinstance(child, ast.ClassDef):
                    yield from walk(child, inner)

    tree = ast.parse(path.read_text("utf-8"))
    if text := ast.get_docstring(tree):
        yield "", text
    yield from walk(tree, "")


def draw(seed: int, count: int) -> tuple[list[str], list[str]]:
    """So many sentences of the documents and so many docstrings of the package, with their places."""
    written = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in documents()
        if path.name != "CHANGELOG.md"
        for sentence in sentences(path.read_text("utf-8"))
    ]
    modules = [path for path in sorted((ROOT / "medlink").rglob("*.py")) if not path.name.startswith("_")]
    described = [
        f"{path.relative_to(ROOT)}{f', {name}' if name else ''}: {text}"
        for path in modules
        for name, text in docstrings(path)
    ]
    rng = random.Random(seed)
    return rng.sample(written, min(count, len(written))), rng.sample(described, min(count, len(described)))


def main() -> None:
    """Print the drawn sentences and docstrings with numbers."""
    parser = argparse.ArgumentParser(description="Draw sentences of the documents and docstrings of the package.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="sentences, and docstrings")
    given = parser.parse_args()
    for title, texts in zip(("Sentences", "Docstrings"), draw(given.seed, given.count), strict=True):
        print(f"# {title}\n")
        for number, text in enumerate(texts, 1):
            print(f"{number}. {text}\n")


if __name__ == "__main__":
    main()
