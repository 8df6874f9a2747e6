"""Names and mentions of any number, from open terminologies: what ``scale.py`` measures with.

The names are those of ``open_names.py``. Where more are asked for, every name of a concept is taken again with one or
two phrases before or behind it, as the large terminologies combine them: in the language of the name, and as a concept
of its own, so that concepts keep their number of names. The same names make the same table.
"""

from __future__ import annotations

import csv
import random
import zlib
from collections.abc import Iterator
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

from medlink.language.text import normalise

_HELD_OUT = 30  # of so many names in another language than English one is a mention and no name
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# each phrase in English, German and Spanish; "{}" is the name
_PHRASES = (
    ("acute {}", "{}, akut", "{} agudo"),
    ("chronic {}", "{}, chronisch", "{} crónico"),
    ("{}, left side", "{}, links", "{}, lado izquierdo"),
    ("{}, right side", "{}, rechts", "{}, lado derecho"),
    ("bilateral {}", "{}, beidseitig", "{} bilateral"),
    ("history of {}", "Z. n. {}", "antecedente de {}"),
    ("family history of {}", "{} in der Familienanamnese", "antecedente familiar de {}"),
    ("suspected {}", "Verdacht auf {}", "sospecha de {}"),
    ("{} in childhood", "{} im Kindesalter", "{} en la infancia"),
    ("{} during pregnancy", "{} in der Schwangerschaft", "{} durante el embarazo"),
    ("{} after surgery", "{} nach Operation", "{} tras cirugía"),
    ("{} due to infection", "{} durch Infektion", "{} por infección"),
    ("{} with complications", "{} mit Komplikationen", "{} con complicaciones"),
    ("severe {}", "{}, schwer", "{} grave"),
    ("{} stage II", "{}, Stadium II", "{} estadio II"),
    ("{} type 2", "{} Typ 2", "{} tipo 2"),
    ("recurrent {}", "{}, rezidivierend", "{} recurrente"),
    ("screening for {}", "Screening auf {}", "cribado de {}"),
    ("{}, initial encounter", "{}, Erstvorstellung", "{}, contacto inicial"),
    ("{}, sequela", "{}, Folgezustand", "{}, secuela"),
)
_LANGUAGES = ("en", "de", "es")


class Row(NamedTuple):
    """A name of a concept."""

    concept_id: str
    name: str
    language: str


class Mentioned(NamedTuple):
    """A mention, its language, the name that it stands for, and the concept."""

    mention: str
    language: str
    name: str
    concept_id: str


def read_rows(*tables: Path) -> list[Row]:
    """Names of the tables of ``open_names.py``, by concept; each name of a concept once."""
    found = set()
    for table in tables:
        with open(table, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            found.update(Row(row["concept_id"], row["name"], row["language"]) for row in rows)
    return sorted(row for row in found if row.language in _LANGUAGES)


def _is_held_out(row: Row) -> bool:
    return row.language != "en" and zlib.crc32(row.name.encode()) % _HELD_OUT == 0


def make_names(rows: list[Row], wanted: int) -> Iterator[Row]:
    """So many names with different exact forms, whole concepts in an order that no name says."""
    concepts = [list(names) for _, names in groupby(rows, key=lambda row: row.concept_id)]
    random.Random(1).shuffle(concepts)
    count, seen = 0, set[int]()
    for turn, phrases in enumerate(_turns()):
        for names in concepts:
            for row in names:
                if count == wanted:
                    return
                text = row.name
                for phrase in phrases:
                    text = phrase[_LANGUAGES.index(row.language)].format(text)
                key = hash(normalise(text))  # of 64 bits: 10 million names share none but by a chance of 3 in a million
                if not _is_held_out(row) and key not in seen:
                    seen.add(key)
                    count += 1
                    yield Row(f"{row.concept_id}~{turn}" if turn else row.concept_id, text, row.language)
    raise ValueError(f"only {count} names can be made")


def _turns() -> Iterator[tuple[tuple[str, ...], ...]]:
    yield ()
    yield from ((phrase,) for phrase in _PHRASES)
    yield from (pair for pair in product(_PHRASES, _PHRASES) if pair[0] != pair[1])


def write_table(rows: list[Row], wanted: int, path: Path) -> None:
    """A table for ``medlink kb build``; written beside and renamed."""
    draft = path.with_suffix(".draft")
    with open(draft, "w", encoding="utf-8") as file:
        file.write("concept_id\tname\tlanguage\n")
        file.writelines(f"{row.concept_id}\t{row.name}\t{row.language}\n" for row in make_names(rows, wanted))
    draft.rename(path)


def noisy(names: list[Row], count: int, seed: int = 1) -> list[Mentioned]:
    """So many names with one typing error each: a letter is left out, doubled, replaced or changes place with the next
    one."""
    rng, found = random.Random(seed), list[Mentioned]()
    for row in rng.sample(names, count):
        at = rng.randrange(1, max(len(row.name) - 1, 2))
        head, letter, rest = row.name[:at], row.name[at : at + 1], row.name[at + 1 :]
        edits = (rest, letter * 2 + rest, rng.choice(_LETTERS) + rest, rest[:1] + letter + rest[1:])
        found.append(Mentioned(head + rng.choice(edits), row.language, row.name, row.concept_id))
    return found


def other_languages(rows: list[Row]) -> list[Mentioned]:
    """German and Spanish names that no table of :func:`make_names` has."""
    return sorted({Mentioned(row.name, row.language, row.name, row.concept_id) for row in rows if _is_held_out(row)})
