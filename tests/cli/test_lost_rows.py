"""Lists in another encoding than UTF-8: a loss of rows stops a command, which names the likely encoding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import runner

OPTION, CONVERT = "--encoding cp1252", "iconv -f CP1252 -t UTF-8 FILE"


@pytest.mark.parametrize(
    ("command", "head", "exit_code", "remedy"),
    [
        ("kb build {out} --table {list}", "id,name", 1, CONVERT),
        ("kb build {out} {list}", "id,name", 1, CONVERT),
        ("index add {bundle} --table {list}", "id,name", 1, CONVERT),
        ("map {bundle} {list} -o {out}", "code,name", 1, OPTION),
        ("map {bundle} {list} -o {out}", "code,name,Größe", 1, OPTION),
        ("map {bundle} {list} -o {out}", "Schlüssel,name", 1, OPTION),
        ("cluster {list}", "id,term", 1, OPTION),
        ("cluster {list}", "id,Begriff für Größe", 1, OPTION),
        ("link {bundle} {list} -o {out}", "id,text", 3, OPTION),
    ],
)
def test_rows_that_cannot_be_decoded(
    command: str, head: str, exit_code: int, remedy: str, demo_path: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    names = [*("Fieber",) * 40, *("Müdigkeit",) * 5]
    more = "," * (head.count(",") - 1)
    rows = [head, *(f"{number},{name}{more}" for number, name in enumerate(names)), ""]
    (tmp_path / "list.csv").write_text("\n".join(rows), encoding="cp1252")
    names_in = {"bundle": demo_path, "list": tmp_path / "list.csv", "out": tmp_path / "out.csv"}
    printed = runner.error_of(capsys, *command.format(**names_in).split(), exit_code=exit_code)
    assert remedy in printed
    assert "gkeit" not in printed
    assert (tmp_path / "out.csv").exists() == (exit_code == 3)
