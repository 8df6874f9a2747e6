"""``medlink demo``: where its page goes; what it says is tested with the command line as a whole."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.curation.note_page import write_notes
from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.kb import KnowledgeBase


def test_the_page_is_whole(demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "p.html"
    page.write_text("old", encoding="utf-8")
    page.chmod(0o600)
    (tmp_path / "link.html").symlink_to(page)
    with KnowledgeBase(demo_path) as kb:
        write_notes(tmp_path / "link.html", [], kb, title="t")
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        whole = page.read_text("utf-8")
        assert whole.endswith("</html>\n")
        monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(ConfigError, match=r"p\.html: the page cannot be written: No space left"):
            write_notes(page, [], kb, title="t")
    assert page.read_text("utf-8") == whole
    assert sorted(found.name for found in tmp_path.iterdir()) == ["link.html", "p.html"]


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "out" / "notes.html").mkdir(parents=True)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for folder, message in (
        (tmp_path / "out", r"notes\.html: the page is a folder. Remedy: name a file\."),
        (tmp_path / "file", r"file/bundle: the demo bundle cannot be written: Not a directory\. Remedy: name a place "),
    ):
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(app, ["demo", "-o", str(folder)], catch_exceptions=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.html"]
    assert (tmp_path / "file").read_text("utf-8") == "mine"


def test_a_reader_that_goes_away_does_not_cost_the_page(
    demo: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medlink.linking.demo.build_demo_bundle", lambda _: demo)
    monkeypatch.setattr("medlink.linking.demo.demo_notes", lambda: {"en": "He has a fever."})
    monkeypatch.setattr("click.echo", lambda *_: (_ for _ in ()).throw(BrokenPipeError(32, "Broken pipe")))
    assert CliRunner().invoke(app, ["demo", "-o", str(tmp_path)]).exit_code == 1
    assert "fever" in (tmp_path / "notes.html").read_text("utf-8")
