"""The small valid files that the fuzzer changes (``benchmarks/fuzz.py``)."""

from __future__ import annotations

from pathlib import Path

from medlink.kb.readers import formats
from tests.scripts import benchmark

SEEDS = benchmark("fuzz").seeds()


def test_every_reader_begins_with_a_file_that_it_reads(tmp_path: Path) -> None:
    assert SEEDS.keys() == formats().keys()
    for name, seed in SEEDS.items():
        folder = tmp_path / name
        for path, content in seed.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        assert list(formats()[name].read(folder if seed.whole else folder / seed.changed)), name
