"""Phrases whose words are no finding: every example of the tables, and rows that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.language.cues.matcher import Text, words
from medlink.language.cues.tables import no_mentions
from medlink.language.languages import language_data
from medlink.language.rows import rows


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_the_marked_words_of_every_example_are_no_mention_and_no_others(language: str) -> None:
    path = language_data(language).table("no_mentions")
    assert path is not None
    phrases = [row["phrase"] for row in rows(path)]
    assert phrases == sorted(set(phrases))
    for row in rows(path):
        before, marked, behind = row["example"].replace(">", "<").split("<")
        text = before + marked + behind
        is_none = no_mentions(language).inside(Text(words(text)))
        assert is_none(len(before), len(before) + len(marked)), row
        assert not is_none(0, len(text)), row


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Das Becken ist klein, HRST bekannt, schlechter Ernährungszustand"),
        ("en", "She was flushed, the patient aspirated, pain in the clinic"),
        ("es", "Encarnación ungueal y pica"),
        ("fr", "Buenos Aires"),
        ("de", ""),
    ],
)
def test_other_texts(language: str, text: str) -> None:
    assert no_mentions(language).found(Text(words(text))) == []


def test_a_phrase_inside_a_longer_one() -> None:
    text = "It was irrigated and aspirated from the bag"
    is_none = no_mentions("en").inside(Text(words(text)))
    assert [is_none(*place) for place in ((21, 30), (0, 6), (31, 43), (7, 30), (7, 43))] == [
        True, False, False, True, False
    ]  # fmt: skip


@pytest.mark.parametrize("row", ["\tuso\tx", "parola\t\tx"])
def test_a_wrong_row_is_named(row: str, italian: Path) -> None:
    (italian / "no_mentions.tsv").write_text(f"phrase\tsource\texample\n{row}\n", "utf-8")
    with pytest.raises(InputError, match=r"no_mentions\.tsv:2: a phrase and its source expected"):
        no_mentions("it")
