"""Names of organisms: renamed species, and a genus, which is no answer for one of its species."""

from __future__ import annotations

import re
from collections.abc import Iterator

from medlink.language.text import normalise
from medlink.mapping.equal_names import equal_names

_SPECIES = re.compile(
    r"[A-Z][a-z]{2,} (?!spp?\b|ssp\b|subsp\b|ser\b|spe[cz]ies\b|complex\b|gr[ou]{1,2}p|serovar)[a-z]{4,}\b"
)


def other_species_names(description: str) -> Iterator[str]:
    """Yield earlier and later names of the species with which a description begins.

    >>> list(other_species_names("Clostridium bifermentans, Isolat 3")), list(other_species_names("Candida sp."))
    (['Paraclostridium bifermentans'], [])
    """
    if species := _SPECIES.match(description):
        yield from equal_names("organism_names.tsv").get(normalise(species[0]), ())


def is_only_genus(description: str, name: str) -> bool:
    """Return whether a name is the genus alone of the species that a description names.

    >>> is_only_genus("Candida krusei", "Candida"), is_only_genus("Candida spp.", "Candida")
    (True, False)
    """
    return _SPECIES.match(description) is not None and normalise(name) == normalise(description).split()[0]
