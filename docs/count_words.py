"""Count the words of prose in the documentation: tables, code, comments and addresses of links aside.

    python docs/count_words.py

prints the words of each file and their sum. ``tests/test_docs.py`` holds the limit.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_CODE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TABLE = re.compile(r"^ *\|.*$", re.MULTILINE)
_ADDRESS = re.compile(r"\]\([^)]*\)|https?://\S+")


def documents() -> list[Path]:
    """README, CONTRIBUTING, CHANGELOG and every page of ``docs/``."""
    top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def prose(text: str) -> str:
    """A text of Markdown without tables, code, comments and addresses of links."""
    for pattern in (_CODE, _COMMENT, _TABLE, _ADDRESS):
        text = pattern.sub(" ", text)
    return text


def count_words(text: str) -> int:
    """The number of words of prose in a text of Markdown.

    >>> count_words("One [link](a.md), `--two`.\\n\\n| a table |\\n\\n```sh\\ncode\\n```\\n")
    3
    """
    return sum(any(sign.isalnum() for sign in word) for word in prose(text).split())


def main() -> None:
    """Print the words of each file, and their sum."""
    counts = {path: count_words(path.read_text("utf-8")) for path in documents()}
    for path, words in counts.items():
        print(f"{words:6,}  {path.relative_to(ROOT)}")
    print(f"{sum(counts.values()):6,}  all")


if __name__ == "__main__":
    main()
