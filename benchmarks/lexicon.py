"""How much of what is written the lexicon knows: words of concept names and of clinical notes.

    python benchmarks/lexicon.py NAMES

NAMES is the table of ``open_names.py``; the notes are those of the data folder beside the repository. A word is two or
more letters in a row, and no Roman numeral. Function words and names of people and places are counted apart. A word is
known when a family, term, affix or abbreviation has it, in another inflection too, or when it is made of two parts that
families have (*Leberabszess*, *hepatosplenic*). The last column leaves out unknown words that no note of the language
writes in lower case: most are names of people, places and products, but in German nouns as well.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
from open_data import DATA

from medlink.language.lexicon import Lexicon
from medlink.language.lexicon.tables import FIRST, LAST, WHOLE
from medlink.language.text import ROMAN, Inflector, normalise

_WORD = re.compile(r"[^\W\d_]{2,}")
_SHORTEST = 3  # letters of a part of a word


class Known:
    """What the lexicon knows of the words of one language."""

    def __init__(self, lexicon: Lexicon, language: str) -> None:
        self.form = Inflector(language).form
        self.inflected = set(lexicon.inflected[language])
        self.function = {normalise(word) for word in lexicon.function_words[language]}
        self.names = {normalise(name) for name in lexicon.names}
        self.whole: set[str] = set()
        self.first: set[str] = set()
        self.last: set[str] = set()
        for entry in lexicon.entries:
            for member in entry.members:
                # Latin and Greek forms are written in every language
                if member.language == language or "lat" in member.marks:
                    for form in (member.form, *member.plurals):
                        self._take(normalise(form).split(), member.place, alone=entry.table == "family")
        for one in lexicon.abbreviations:
            if one.language == language:
                self.whole.update(normalise(form) for form in one.forms)

    def _take(self, words: list[str], place: str, *, alone: bool) -> None:
        if place == WHOLE:
            self.whole.update(words)
            self.whole.update(map(self.form, words))
        if alone and len(words) == 1:
            if place != LAST:
                self.first.add(words[0])
            if place != FIRST:
                self.last.update((words[0], self.form(words[0])))

    def kind(self, word: str) -> str:
        """``function``, ``name``, ``known`` or ``unknown``."""
        plain = normalise(word)
        if plain in self.function:
            return "function"
        if plain in self.whole or plain in self.inflected or self.form(plain) in self.whole or self._composed(plain):
            return "known"
        return "name" if plain in self.names or plain.removesuffix("s") in self.names else "unknown"

    def _composed(self, word: str) -> bool:
        for at in range(_SHORTEST, len(word) - _SHORTEST + 1):
            head, tail = word[:at], word[at:]
            if (tail in self.last or self.form(tail) in self.last) and (
                head in self.first or head.removesuffix("s") in self.first or head.removesuffix("n") in self.first
            ):
                return True
        return False


def coverage(known: Known, texts: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Words by kind, and those that are unknown."""
    words = Counter(word for text in texts for word in _WORD.findall(text) if word.lower() not in ROMAN)
    kinds: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for word, count in words.items():
        kind = known.kind(word)
        kinds[kind] += count
        if kind == "unknown":
            unknown[word] += count
    return kinds, unknown


@click.command()
@click.argument("names", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--unknown", type=click.Path(path_type=Path), help="File for the unknown words by frequency.")
def main(names: Path, unknown: Path | None) -> None:
    """Print the table."""
    lexicon = Lexicon()
    csv.field_size_limit(1 << 30)
    by_language: dict[str, list[str]] = {"en": [], "de": [], "es": []}
    with names.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["language"] in by_language:
                by_language[row["language"]].append(row["name"])
    click.echo(
        "| texts | words | function words | names of people and places | known of the rest | not only capitalised |\n"
        "|---|---:|---:|---:|---:|---:|"
    )
    left: list[str] = []
    for language, texts in by_language.items():
        known = Known(lexicon, language)
        notes = [
            path.read_text("utf-8-sig") for path in sorted((DATA / "notes" / language).iterdir()) if path.is_file()
        ]
        for name, content in {f"concept names, {language}": texts, f"notes, {language}": notes}.items():
            kinds, missing = coverage(known, content)
            rest = kinds["known"] + kinds["unknown"]
            plain = kinds["known"] + sum(count for word, count in missing.items() if word.lower() in missing)
            shares = f"{kinds['known'] / rest:.3f} | {kinds['known'] / plain:.3f}"
            click.echo(f"| {name} | {kinds.total():,} | {kinds['function']:,} | {kinds['name']:,} | {shares} |")
            left += [f"{name}\t{word}\t{count}" for word, count in missing.most_common()]
    if unknown is not None:
        unknown.write_text("\n".join(left) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
