"""Warnings on an encoding or a language that most notes contradict."""

from __future__ import annotations

import pytest

from medlink.files.problems import is_utf8, likely_encoding
from medlink.notes.checks import InputChecks

TEXTS = {
    "de": "Der Patient hat seit gestern Fieber und keine Dyspnoe, aber eine Rötung über dem rechten Knöchel.",
    "en": "The patient has had a fever since yesterday and there is no rash, but she was given a naïve dose.",
    "es": "El paciente presenta fiebre desde ayer y no tiene disnea, pero sí una lesión en la región lumbar.",
}


def warnings(texts: list[str], encoding: str = "utf-8", language: str | None = None) -> list[str]:
    checks = InputChecks(encoding, language)
    for text in texts:
        checks.add(text)
    return list(checks.warnings())


@pytest.mark.parametrize("written", TEXTS)
@pytest.mark.parametrize("given", [*TEXTS, "de-AT", "fr", None])
def test_a_language_that_most_notes_are_not_in(written: str, given: str | None) -> None:
    found = warnings([TEXTS[written]] * 2 + ["EF 55 %"], language=given)
    is_right = given is None or given == "fr" or given.startswith(written)
    tag = (given or "")[:2]
    sentence = f'2 of 3 notes probably in {written!r}, not in {tag!r}: give language="{written}"'
    assert found == ([] if is_right else [sentence])
    assert warnings([TEXTS[written], TEXTS["de"], "Husten"], language="de") == []  # not most of them


@pytest.mark.parametrize("encoding", ["cp1252", "iso8859-1", "cp850", "iso8859-15", "mac-roman"])
def test_an_encoding_that_most_notes_are_not_in(encoding: str) -> None:
    garbled = [text.encode().decode(encoding, "ignore") for text in TEXTS.values()]
    assert warnings([*garbled, "fever"], encoding) == [
        f'3 notes read as {encoding.upper()}, but probably UTF-8: give encoding="utf-8"'
    ]
    assert warnings([*TEXTS.values(), "fever", "→ ↓"], encoding) == []
    assert warnings(garbled, "utf-8") == []


@pytest.mark.parametrize("text", ["Menü", "Müdigkeit", "año ñ", "fiebre", ""])
def test_likely_encodings(text: str) -> None:
    assert is_utf8(text.encode("latin-1")) is False
    assert likely_encoding(text.encode("latin-1") + b" ") == "cp1252"
    assert is_utf8(text.encode() + "Ödem Ö".encode()[:-1])
