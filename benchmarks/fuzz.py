"""Every reader of terminologies under a fuzzer that follows what its code does: atheris (libFuzzer).

    python benchmarks/fuzz.py --seconds 60

Each reader has a process of its own, which begins with the small valid file of its tests and changes its bytes so that
new lines of code are run. It may give records or a ``MedlinkError``; another exception, more than 2 GB of memory or 20
seconds for one file are a finding. The file of a finding is stored in ``--work``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import click

_MEMORY, _TIMEOUT, _LONGEST = 2048, 20, 8192


class Seed(NamedTuple):
    """Small valid files by path, which of them is changed, and whether a reader is given the folder of all."""

    files: dict[str, bytes]
    changed: str
    whole: bool = False


def _of_folder(write: Callable[[Path], object], changed: str) -> Seed:
    """Files that a writer of the tests makes in a folder; ``changed`` is a part of the name of one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return Seed(files, next(path for path in files if changed in path), whole=True)


def _of_file(name: str, content: bytes) -> Seed:
    return Seed({name: content}, name)


def seeds() -> dict[str, Seed]:
    """What each reader begins with, by format."""
    from tests import test_damaged_inputs as small
    from tests.kb import writers
    from tests.kb.readers import (
        test_alphaid,
        test_atc,
        test_cie10,
        test_claml,
        test_fhir,
        test_icd_metadata,
        test_loinc,
        test_omop,
        test_sssom,
    )

    loinc = [test_loinc.VARIANT, ["1234-5", *("x" for _ in test_loinc.VARIANT[1:])]]
    system = {"resourceType": "CodeSystem", "url": "http://x", "concept": [{"code": "A", "display": "a"}]}
    atc = f"{test_atc.HEADER}\nA\t\tAlimentäres System\t\t\nA01\t\tStomatologika\t\t\n"
    return {
        "table": _of_file("x.tsv", small.TABLE),
        "obo": _of_file("x.obo", small.OBO),
        "obograph": _of_file("x.json", small.OBOGRAPH),
        "babelon": _of_file("x.tsv", small.BABELON),
        "scispacy": _of_file("x.jsonl", "".join(f"{json.dumps(one)}\n" for one in small.SCISPACY).encode()),
        "rrf": _of_folder(lambda folder: writers.write_rrf(folder, small.TERMS), "MRCONSO"),
        "rf2": _of_folder(lambda folder: writers.write_rf2(folder, small.TERMS), "Description"),
        "claml": Seed(_of_folder(lambda folder: test_claml.write(folder / "x.xml"), "x.xml").files, "x.xml"),
        "fhir": Seed(_of_folder(lambda folder: test_fhir.write(folder / "x.json", system), "x.json").files, "x.json"),
        "alphaid": _of_file("x.txt", "\n".join(test_alphaid.ALPHA_ID_SE).encode()),
        "atc": _of_file("x.csv", atc.encode()),
        "cie10": _of_file("x.csv", "\n".join(test_cie10.ROWS).encode()),
        "loinc": _of_file("deDE15LinguisticVariant.csv", "\n".join(",".join(row) for row in loinc).encode()),
        "icd_metadata": _of_folder(test_icd_metadata.write, "kodes"),
        "omop": _of_folder(test_omop.write, "CONCEPT.csv"),
        "sssom": _of_file("x.sssom.tsv", "\n".join(test_sssom.LINES[:6]).encode()),
    }


def fuzz(name: str, corpus: Path, seconds: int) -> None:
    """Fuzz one reader in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["medlink"]):
        from medlink.errors import MedlinkError
        from medlink.kb.readers import formats

        read = formats()[name].read
    seed, folder = seeds()[name], Path(tempfile.mkdtemp())
    for path, content in seed.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (corpus / "seed").write_bytes(seed.files[seed.changed])
    target = folder if seed.whole else folder / seed.changed

    def one(data: bytes) -> None:
        (folder / seed.changed).write_bytes(data)
        try:
            records: Iterable[Any] = read(target)
            for record in records:
                "".join(str(part) for part in astuple(record)).encode("utf-8")
        except MedlinkError:
            pass

    arguments = [
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={_MEMORY}",
        f"-timeout={_TIMEOUT}",
        f"-max_len={_LONGEST}",
    ]
    atheris.Setup(
        [sys.argv[0], *arguments, "-print_final_stats=1", f"-artifact_prefix={corpus}/found-", str(corpus)], one
    )
    atheris.Fuzz()


@click.command()
@click.option("--seconds", default=60, show_default=True, help="For each reader.")
@click.option("--work", type=click.Path(path_type=Path), help="Folder for the files that were found.")
@click.option("--only", help="One reader, in this process.")
def main(seconds: int, work: Path | None, only: str | None) -> None:
    """Print the table; the exit code says whether anything was found."""
    work = work or Path(tempfile.mkdtemp())
    if only is not None:
        fuzz(only, work, seconds)
        return
    click.echo("| reader | files tried | lines and branches reached at first | in the end | findings |")
    click.echo("|---|---:|---:|---:|---:|")
    every = 0
    for name in seeds():
        corpus = work / name
        corpus.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, __file__, "--only", name, "--work", str(corpus), "--seconds", str(seconds)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        reached = re.findall(r"cov: (\d+)", done.stderr) or ["0"]
        found = len(list(corpus.glob("found-*")))
        if found or done.returncode or runs is None:
            click.echo(done.stderr[-3000:], err=True)
            found = max(found, 1)
        every += found
        click.echo(f"| `{name}` | {int(runs[1]) if runs else 0:,} | {reached[0]} | {reached[-1]} | {found} |")
    sys.exit(bool(every))


if __name__ == "__main__":
    main()
