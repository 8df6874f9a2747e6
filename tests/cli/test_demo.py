"""``medlink demo``: its page; its output is tested with the command line as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.index import Bundle

from .runner import run


def test_outputs_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    (tmp_path / "out" / "notes.html").mkdir(parents=True)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for folder, message in (
        (tmp_path / "out", r"notes\.html: the page is a folder. Remedy: name a file\."),
        (tmp_path / "file", r"file/bundle: the demo bundle cannot be written: Not a directory\. Remedy: name a place "),
    ):
        with pytest.raises(ConfigError, match=message):
            run("demo", "-o", folder)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.html"]
    assert (tmp_path / "file").read_text("utf-8") == "mine"


@pytest.mark.slow
def test_a_reader_that_goes_away_does_not_cost_the_page(
    demo: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medlink.linking.demo.build_demo_bundle", lambda _: demo)
    monkeypatch.setattr("medlink.linking.demo.demo_notes", lambda: {"en": "He has a fever."})
    monkeypatch.setattr("click.echo", lambda *_: (_ for _ in ()).throw(BrokenPipeError(32, "Broken pipe")))
    run("demo", "-o", tmp_path, exit_code=1)
    assert "fever" in (tmp_path / "notes.html").read_text("utf-8")
