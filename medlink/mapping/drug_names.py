"""Other names of the drug in a description: national names, acid and salt, molecule of a radiopharmaceutical."""

from __future__ import annotations

import re
from collections.abc import Iterator

from medlink.language.text import normalise
from medlink.linking.drugs import first_member, without_cation
from medlink.mapping.equal_names import equal_names
from medlink.mapping.ranking import main_name

_TABLE = "drug_names.tsv"
_ACID, _ANION = re.compile(r"(?i)(\w{3,})ic acid"), re.compile(r"(?i)(\w{4,})ate")
_LABELLED = re.compile(r"\w+ \(\d{2,3}m?[A-Z][a-z]?\) (?=\S)")  # technetium (99mTc) succimer
_COMBINED = re.compile(r"(?i)[ck]ombin")


def is_combination(description: str) -> bool:
    """Return whether a description names several drugs, or combinations of one.

    >>> is_combination("betamethasone and antibiotics"), is_combination("Oxedrin, Kombinationen")
    (True, True)
    """
    return first_member(description) != description or _COMBINED.search(description) is not None


def other_names(description: str) -> Iterator[str]:
    """Yield other English names of the first drug of a description.

    >>> list(other_names("oxedrine, combinations; ophthalmic")), list(other_names("iodine (131I) omburtamab"))
    (['synephrine'], ['omburtamab'])
    >>> list(other_names("calcium citrate; oral"))
    ['citrate', 'citric acid']
    """
    given = main_name(description)
    plain = without_cation(_LABELLED.sub("", given))
    names = [plain] if plain != given else []
    names += [other for name in dict.fromkeys((given, plain)) for other in equal_names(_TABLE).get(normalise(name), ())]
    if acid := _ACID.fullmatch(plain):
        names.append(f"{acid[1]}ate")
    elif anion := _ANION.fullmatch(plain):
        names.append(f"{anion[1]}ic acid")
    yield from names
