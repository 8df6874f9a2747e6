"""Tables of a language: rows that cannot be read, and the order of the shipped rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from medlink.language.cues import absences, cues, headings, variants, words
from medlink.language.languages import language_data, rows
from medlink.language.lexicon.abbreviation_table import AbbreviationTable, body_sites
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.no_mentions import no_mentions
from medlink.language.relatives import relatives
from medlink.language.scan import Scanner
from medlink.language.values import value_words

TABLES: dict[str, tuple[Callable[[str], Any], str]] = {
    "cues": (cues, "cue reads side reach source example"),
    "sections": (headings, "heading kind source"),
    "absences": (absences, "word finding reads before source"),
    "no_mentions": (no_mentions, "phrase source example"),
    "relatives": (relatives, "phrase code source"),
    "values": (value_words, "kind name words source"),
    "abbreviations": (AbbreviationTable, "abbreviation long beside"),
    "laconic": (AbbreviationTable, "word organ long english weight"),
    "organs": (lambda tag: body_sites(Scanner(tag, shared_analyser(shipped_forms())).scan("x"), tag), "word organ"),
}


@pytest.mark.parametrize(("table", "row", "message"), [
    ("cues", "kein|lost|before||s|", "reads is 'lost', one of absent, "),
    ("cues", "kein||before||s|", "reads is empty"),
    ("cues", "kein|absent|left||s|", "side is 'left', one of before, after, both, around, beside expected"),
    ("cues", "aber|end|before||s|", "side is 'before', one of nothing expected"),
    ("cues", "kein|absent|before|few|s|", "the reach is 'few', a number of words or nothing expected"),
    ("cues", "kein|absent|around||s|", "'kein' is not a cue of that side"),
    ("cues", "a … b … c|absent|around||s|", "'a … b … c' is not a cue of that side"),
    ("cues", "|absent|before||s|", "'' is not a cue of that side"),
    ("sections", "Diagnosi|place|s", "kind is 'place', one of "),
    ("absences", "|febbre|absent||uso", "a word and a finding expected"),
    ("absences", "afebbrile||absent||uso", "a word and a finding expected"),
    ("absences", "afebbrile|febbre|present||uso", "reads is 'present', one of absent, uncertain expected"),
    ("no_mentions", "|uso|x", "a phrase and its source expected"),
    ("no_mentions", "parola||x", "a phrase and its source expected"),
    ("relatives", "madre|MOTHER|uso", "'MOTHER' is not a code of a relative"),
    ("values", "measure|mana|mana|usage", "'mana' is none of the measures"),
    ("values", "spell|hemoglobin|Hb|usage", "a kind (measure, symbol, "),
    ("values", "measure|hemoglobin||usage", "words and a source are expected"),
    ("values", "measure|hemoglobin|Hb|", "words and a source are expected"),
    ("abbreviations", "FA|fegato|dolore", "an abbreviation of the lexicon"),
    ("laconic", "x||y|z|much", "a share of its uses"), ("laconic", "x|||z|.5", "a share of its uses"),
    ("laconic", "x||y|z|2", "a share of its uses"), ("laconic", "x|toe|y|z|.5", "a share of its uses"),
    ("organs", "dito|toe", "one of the organs abdomen, back"),
])  # fmt: skip
def test_a_wrong_row_is_named(table: str, row: str, message: str, italian: Path) -> None:
    read, columns = TABLES[table]
    lines = [columns.replace(" ", "\t"), row.replace("|", "\t"), ""]
    (italian / f"{table}.tsv").write_text("\n".join(lines), "utf-8")
    with pytest.raises(InputError, match=rf"{table}\.tsv:2: .*{re.escape(message)}") as error:
        read("it")
    assert error.value.remedy


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es"])
@pytest.mark.parametrize("table", ["cues", "absences", "no_mentions"])
def test_shipped_rows_are_in_order_and_no_phrase_stands_twice(language: str, table: str) -> None:
    listed, seen = list(rows(language_data(language).table(table))), dict[tuple[str, ...], str]()
    cells = [next(iter(row.values())) for row in listed]
    assert cells == sorted(cells)
    assert all(row["source"] and row.get("before", "") in ("", "place") for row in listed)
    for cell in cells if table != "no_mentions" else ():
        for phrase in cell.split(" | "):
            for variant in variants(phrase):
                assert seen.setdefault(tuple(word.text for word in words(variant)), cell) == cell
