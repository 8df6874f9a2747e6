"""Rooms import only from lower floors, not from their own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import medlink

ROOT = Path(medlink.__file__).parent
MOST_LINES = 450  # of a file: what grows past it has a second subject
FLOORS = {
    "lazy": 0,
    "records": 0,
    "errors": 0,
    "files": 0,
    "bundles": 1,
    "processes": 0,
    "settings": 0,
    "language": 1,
    "web": 1,
    "kb": 2,
    "models": 2,
    "index": 3,
    "linking": 4,
    "clustering": 4,
    "reading": 5,
    "training": 6,
    "mapping": 6,
    "notes": 6,
    "curation": 7,
    "spark": 7,
    "spacy_components": 7,
    "evaluation": 8,
    "service": 8,
    "cli": 9,
    "__main__": 10,
}
# within floor 0 the others need the errors
WITHIN_FLOOR_0 = {("files", "errors"), ("settings", "errors")}


def _room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "medlink" and len(parts) > 1 else None


def broken_floors(source: str, room: str) -> list[tuple[int, str]]:
    """Lines of a file of ``room`` that import from its own floor or a higher one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the floor"
            modules = [node.module or ""]
            if node.module == "medlink":
                modules = [f"medlink.{alias.name}" for alias in node.names]
        for module in modules:
            other = _room(module)
            if other is None or other.startswith("__") or other == room:
                continue
            assert other in FLOORS, f"{other} has no floor"
            if FLOORS[other] >= FLOORS[room] and (room, other) not in WITHIN_FLOOR_0:
                found.append((node.lineno, module))
    return found


def imported(source: str, modules: set[str]) -> set[str]:
    """The files of the package that a file imports, by module name.

    An import inside a function counts, as it only delays a circle, and so does one for type checking: who reads a file
    needs the other. Only the lazy names of a package are no import of it.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree) if "__getattr__ = " in source else ():
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names.update(inside & modules or {node.module})
    return names & modules


def circle(imports: dict[str, set[str]]) -> list[str]:
    """The files of one circle of imports, empty where there is none."""
    left = {module: set(others) for module, others in imports.items()}
    while done := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in done}
    path: list[str] = []
    while left and len(path) == len(set(path)):
        path.append(min(left[path[-1]] & left.keys()) if path else min(left))
    return path[path.index(path[-1]) :] if path else []


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle() -> None:
    sources = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8")
    found = circle({module: imported(text, set(sources)) - {module} for module, text in sources.items()})
    assert not found, " imports ".join(found)


def test_no_file_is_long() -> None:
    lines = {str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n") for path in ROOT.rglob("*.py")}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    modules = {"m", "m.a", "m.b"}
    assert imported("from m import a, x\ndef f():\n    import m.b\n", modules) == {"m.a", "m.b"}
    for_types = "if TYPE_CHECKING:\n    from m.a import x\nfrom m import y\n"
    assert imported(for_types, modules) == {"m", "m.a"}
    assert imported(f"{for_types}__getattr__ = lazy_getattr(__name__)\n", modules) == {"m"}


@pytest.mark.slow
def test_imports_go_down() -> None:
    broken = [
        f"{path}:{line} imports {module}"
        for path in ROOT.rglob("*.py")
        if (room := path.relative_to(ROOT).parts[0].removesuffix(".py")) != "__init__"
        for line, module in broken_floors(path.read_text("utf-8"), room)
    ]
    assert not broken, "\n".join(broken)


def test_a_broken_floor_is_found() -> None:
    assert broken_floors("def f():\n    from medlink.cli import main\n", "kb") == [(2, "medlink.cli")]
    assert broken_floors("from medlink import models\n", "kb") == [(1, "medlink.models")]
    assert broken_floors("from medlink import __version__\nimport medlink.language.text\n", "kb") == []
