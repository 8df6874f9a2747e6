"""What medlink imports is what setup.cfg requires: the base by itself, the rest by the extra that its error names."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import medlink

PACKAGE = Path(medlink.__file__).parent
ROOT = PACKAGE.parent
# Modules that are imported only where training or a transformer was asked for.
BEHIND_AN_EXTRA = (
    "training/",
    "models/static/module.py",
    "models/static/net.py",
    "models/static/torch_",
)


def requirements() -> dict[str, set[str]]:
    """Distributions by extra, normalised; the base under ``""``. An extra that names others holds theirs too."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = dict(parser["options.extras_require"]) | {"": parser["options"]["install_requires"]}
    return {
        name: {found for line in text.split("\n") for found in _distributions(line, extras)}
        for name, text in extras.items()
    }


def _distributions(line: str, extras: dict[str, str]) -> Iterator[str]:
    own = re.match(r"medlink\[(.*)\]", line)
    if own:
        for extra in own[1].split(","):
            for inner in extras[extra].split("\n"):
                yield from _distributions(inner, extras)
    elif line.strip():
        name = re.split(r"[\s<>=!\[;~]", line.strip())[0]
        yield _normalised(name)
        # what a distribution's own extra brings, such as sentence-transformers[train]
        for extra in re.findall(r"\[(.*)\]", line):
            for needed in _requires(name):
                if f'extra == "{extra}"' in needed:
                    yield _normalised(re.split(r"[\s<>=!\[;~(]", needed)[0])


def _requires(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # make test installs nothing for the documents
        return []


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imports(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Library and extra (None outside of ``needs_extra``) of each import that runs."""
    extra = None
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        return
    if isinstance(tree, ast.With):
        for item in tree.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "needs_extra":
                extra = str(ast.literal_eval(call.args[0]))
    if isinstance(tree, ast.Import):
        yield from ((alias.name.partition(".")[0], None) for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom) and not tree.level:
        yield str(tree.module).partition(".")[0], None
    for child in ast.iter_child_nodes(tree):
        yield from ((library, inner or extra) for library, inner in imports(child))


def libraries() -> Iterator[tuple[str, str, str | None]]:
    """File, library and extra of each import of the package that is neither Python's nor medlink's."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for library, extra in imports(ast.parse(path.read_text("utf-8"))):
            if library not in sys.stdlib_module_names and library != "medlink":
                yield path.relative_to(PACKAGE).as_posix(), library, extra


# Python 3.13 does not have scispaCy, and the development set not Spark
DISTRIBUTIONS = {"scispacy": {"scispacy"}, "pyspark": {"pyspark"}} | {
    name: {_normalised(one) for one in found} for name, found in metadata.packages_distributions().items()
}


@pytest.mark.slow
def test_base_imports_are_required() -> None:
    base = requirements()[""] | {"faiss-cpu", "faiss-gpu"}
    for file, library, extra in libraries():
        if extra is None and not file.startswith(BEHIND_AN_EXTRA):
            assert DISTRIBUTIONS[library] & base, f"{file} imports {library}, which setup.cfg does not require"


@pytest.mark.slow
def test_requirements_are_imported() -> None:
    imported = set().union(*(DISTRIBUTIONS[library] for _, library, _ in libraries()))
    assert requirements()[""] <= imported
    assert {"sentence-transformers", "scispacy"} <= imported


@pytest.mark.slow
def test_imports_of_extras_are_in_the_extra_that_is_named() -> None:
    known = requirements()
    # what comes with sentence-transformers
    brought = {"huggingface-hub", "torch", "transformers"}
    for file, library, extra in libraries():
        if extra is not None:
            with_it = known[extra] | (brought if "sentence-transformers" in known[extra] else set())
            assert DISTRIBUTIONS[library] & with_it, f"{file}: medlink[{extra}] does not bring {library}"
        elif file.startswith("training/"):
            needed = known["train"] | known[""] | brought | {"faiss-cpu"}
            assert DISTRIBUTIONS[library] & needed, f"{file}: medlink[train] does not bring {library}"


def test_constraints_name_every_package_of_the_development_set() -> None:
    pinned = {
        _normalised(line.split("==")[0])
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if "==" in line
    }
    assert set().union(*requirements().values()) - {"faiss-gpu"} <= pinned


def test_faiss_is_never_required_twice() -> None:
    holders = {name for name, found in requirements().items() if found & {"faiss-cpu", "faiss-gpu"}}
    assert holders == {"cpu", "gpu"}
