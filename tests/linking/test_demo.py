"""The cached demo bundle is built once, and again if its inputs change."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.files.folders import scratch_folder
from medlink.linking import demo
from medlink.linking.ranking import FittedRanker
from medlink.models import ngrams


@pytest.mark.slow
def test_the_cached_bundle_is_rebuilt_if_encoder_or_weights_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "manifest.json").write_text("{}")

    monkeypatch.setattr(demo, "build_demo_bundle", build)
    before = demo.demo_bundle()
    with scratch_folder(before) as used:
        assert demo.demo_bundle() == before
        assert used.is_dir()
    used.mkdir()  # left by a killed process
    assert demo.demo_bundle() == before
    assert not used.exists()
    assert len(built) == 1
    with monkeypatch.context() as renamed:  # a bundle has the weights of features by name
        renamed.setattr(FittedRanker, "to_dict", lambda self: {"weights": {"of another name": 1.0}})
        assert demo.demo_bundle() != before
    assert len(built) == 2
    monkeypatch.setattr(ngrams, "_WORD_SALT", 0x52)
    ngrams.rules_digest.cache_clear()
    try:
        assert demo.demo_bundle() != before
    finally:
        monkeypatch.undo()
        ngrams.rules_digest.cache_clear()
    assert len(built) == 3
