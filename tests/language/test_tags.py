"""Language codes."""

from __future__ import annotations

import pytest

from medlink.errors import ConfigError
from medlink.language.tags import language_filter, language_tag, wanted


@pytest.mark.parametrize(("code", "tag"), [
    ("en", "en"), ("EN", "en"), ("en-US", "en-us"), ("es_MX", "es-mx"), ("ENG", "en"), ("GER", "de"), ("deu", "de"),
    ("SPA", "es"), ("SCR", "hr"), ("BAQ", "eu"), (" de ", "de"), ("zh-Hant-TW", "zh-hant-tw"),
    ("", None), ("xx", None), ("english", None), ("de-", None), ("d", None), ("ZZZ", None), ("e n", None),
])  # fmt: skip
def test_language_tag(code: str, tag: str | None) -> None:
    assert language_tag(code) == tag


def test_filter() -> None:
    assert language_filter(None) is None
    assert language_filter("en, GER") == {"en", "de"}
    assert language_filter(["es-MX"]) == {"es-mx"}
    for bad in (["en", "english"], []):
        with pytest.raises(ConfigError, match="language"):
            language_filter(bad)


def test_wanted() -> None:
    assert wanted("fr", None)
    assert wanted("de-at", frozenset({"de"}))
    assert wanted("de", frozenset({"de-at"}))
    assert not wanted("de-ch", frozenset({"de-at"}))
    assert not wanted("den", frozenset({"de"}))
    assert not wanted("de", frozenset({"den"}))
    assert wanted("", ["fr"])
    assert wanted("fr", [])
