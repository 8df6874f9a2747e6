"""Notes with difficult offsets, and files of notes as other programs write them."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

NOTES = [
    ("1", "😀 Seen today 🫀: fever, cough.\r\nNo asthma.", "en"),
    ("2", "Z. n. Herzinfarkt.\r\nO\u0308deme; Fieber\u0301 und Husten", "de"),
    ("3", "Paciente con fie\u0301bre, \u200fdisnea\u200e y tos.\nAntes: asma", "es"),
    ("4", "Mr. [**Asthma**] of [**Fever Hospital 2**] denies <COUGH> and XXX; has gout.", "en"),
    ("5", "heart\nfailure, myocardial\r\n  infarction", "en"),
    ("6", 'Diagnosis|Since\nfever|"2 days"\ncough,"asthma";gout\t', "en"),
    ("7", "Patient mit fever und Husten, fiebre.", "de"),
    ("8", "=1+1 fever", "en"),
    ("9", "", "en"),
]
"""Emoji, both line ends, combining accents, direction marks, placeholders, broken lines, tables, mixed languages, a
spreadsheet formula, and an empty note."""


def write_jsonl(path: Path) -> None:
    rows = [json.dumps({"id": id_, "text": text, "language": la}) for id_, text, la in NOTES]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_csv(path: Path) -> None:
    """Write as Python's csv module does."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        table.writerows([("id", "language", "text"), *((id_, la, text) for id_, text, la in NOTES)])


def write_pandas(path: Path) -> None:
    import pandas as pd

    table = pd.DataFrame(NOTES, columns=["id", "text", "language"])
    table.to_csv(path, index=False, sep=";", encoding="utf-8-sig", quoting=csv.QUOTE_ALL)


def write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids, texts, languages = zip(*NOTES, strict=True)
    table = pa.table({"other": [1.5] * len(ids), "text": texts, "id": pa.array(map(int, ids)), "language": languages})
    pq.write_table(table, path, row_group_size=2)


def write_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as base, base:
        base.execute('create table "note" (id integer, text text, language text)')
        base.executemany("insert into note values (?, ?, ?)", reversed([(int(one), *rest) for one, *rest in NOTES]))


FILES: dict[str, Callable[[Path], None]] = {
    "n.jsonl": write_jsonl,
    "n.csv": write_csv,
    "n.tsv": write_csv,
    "pandas.csv": write_pandas,
    "n.parquet": write_parquet,
}
"""Writers of files by name."""
