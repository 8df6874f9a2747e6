"""What a ranker said is kept under hashes, and a file that is no cache is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.linking.rankers.common import FILE, RankerCache, Shown, key_of


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    cache = RankerCache(tmp_path / "new" / "folder")
    cache.put({b"a": [1.5, -2.0], b"b": []})
    cache.put({b"a": [3.0]})
    assert RankerCache(tmp_path / "new" / "folder").get([b"b", b"c", b"a"]) == [[], None, [3.0]]
    with closing(sqlite3.connect(cache.path)) as file, file:
        assert file.execute("SELECT count(*) FROM said").fetchone() == (2,)


def test_a_key_is_of_all_that_decides() -> None:
    one = [Shown("X:1", "fever", "Fieber"), Shown("X:2", "cough", "cough")]
    asked = ("bundle", "ranker", "mention", "de", "context", one)
    others = [
        ("bundle_", "ranker", "mention", "de", "context", one),
        ("bundle", "ranker_", "mention", "de", "context", one),
        ("bundle", "ranker", "mention_", "de", "context", one),
        ("bundle", "ranker", "mention", None, "context", one),
        ("bundle", "ranker", "mention", "de", "", one),
        ("bundle", "ranker", "mention", "de", "context", one[::-1]),
        ("bundle", "ranker", "mention", "de", "context", [Shown("X:1", "fever", "Fieber", "Hot."), one[1]]),
        ("bundle", "ranker", "mention\ud800", "de", "context", one),
    ]
    keys = {key_of(*some) for some in (asked, *others)}
    assert len(keys) == 9
    assert key_of(*asked) == key_of(*asked)


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database, but long enough to be read as one" * 20, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{FILE}: the cache of the ranker cannot be used: file is not a database"):
        RankerCache(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be written: .*Remedy: name a folder that can be written to"):
        RankerCache(tmp_path / "file")
    cache = RankerCache(tmp_path / "damaged")
    with closing(sqlite3.connect(cache.path)) as file, file:
        file.execute("INSERT INTO said VALUES (?, ?)", (b"a", "{"))
    with pytest.raises(ConfigError, match=r"a value is no list of numbers. Remedy: delete the file"):
        cache.get([b"a"])
