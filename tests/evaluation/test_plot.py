"""The picture: that it is one, that it says what was measured, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.evaluation import Sweep, sweep
from medlink.evaluation.plot import check_plot, write_plot

pytest.importorskip("matplotlib")


def found(seed: int) -> Sweep:
    x = np.random.default_rng(seed).standard_normal((40, 4)).astype(np.float32)
    return sweep([f"C{i % 8}" for i in range(40)], x / np.linalg.norm(x, axis=1, keepdims=True))


def test_svg_names_the_best_threshold_of_each_curve(tmp_path: Path) -> None:
    one, other = found(0), found(1)
    write_plot(tmp_path / "a.svg", {"first": one, "second": other})
    text = (tmp_path / "a.svg").read_text("utf-8")
    for label, result in (("first", one), ("second", other)):
        assert f"{label}: F1 {result.f1[result.best]:.3f} at {result.thresholds[result.best]:.2f}" in text
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]


@pytest.mark.parametrize("name", ["a.svg", "a.PNG"])
def test_equal_results_give_equal_files(tmp_path: Path, name: str) -> None:
    for folder in ("1", "2"):
        (tmp_path / folder).mkdir()
        write_plot(tmp_path / folder / name, {"one": found(0)})
    write_plot(tmp_path / name, {"one": found(1)})
    same = (tmp_path / "1" / name).read_bytes()
    assert same == (tmp_path / "2" / name).read_bytes()
    assert same != (tmp_path / name).read_bytes()
    assert same.startswith(b"\x89PNG" if name == "a.PNG" else b"<?xml")


def test_nothing_predicted_is_no_point(tmp_path: Path) -> None:
    none = sweep(["A", "A"], np.eye(2, dtype=np.float32), thresholds=[0.5])
    write_plot(tmp_path / "a.svg", {"none": none})
    assert "none: F1 0.000 at 0.50" in (tmp_path / "a.svg").read_text("utf-8")


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"a\.gif: unknown format of a picture\. Remedy: end it in \.png or \.svg"):
        write_plot(tmp_path / "a.gif", {})
    with pytest.raises(ConfigError, match=r"a\.png: the folder of the picture does not exist\. Remedy: make it"):
        write_plot(tmp_path / "nowhere" / "a.png", {})
    (tmp_path / "a.svg").mkdir()
    with pytest.raises(ConfigError, match=r"a\.svg: the picture is a folder\. Remedy: name a file"):
        write_plot(tmp_path / "a.svg", {"one": found(0)})
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ConfigError, match=r"b\.svg: the picture cannot be written: No space left"):
        write_plot(tmp_path / "b.svg", {"one": found(0)})
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs? matplotlib.*Remedy: pip install .medlink\[plot\]"):
        check_plot(tmp_path / "b.png")
