"""Tables of names that mean the same, such as national names of drugs and earlier names of species."""

from __future__ import annotations

from functools import cache

from medlink.files.resources import RESOURCES
from medlink.language.languages import rows
from medlink.language.text import normalise


@cache
def equal_names(table: str) -> dict[str, tuple[str, ...]]:
    """Return the other names of each name of a table in ``resources/mapping``, by its exact form.

    >>> equal_names("organism_names.tsv")["candida krusei"]
    ('Issatchenkia orientalis', 'Pichia kudriavzevii')
    """
    found = dict[str, tuple[str, ...]]()
    for row in rows(RESOURCES / "mapping" / table, "names", "source"):
        names = row["names"].split(" | ")
        found.update((normalise(name), tuple(other for other in names if other != name)) for name in names)
    return found
