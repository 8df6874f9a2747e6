"""Terms that people wrote: what must not be one cluster, and synonyms that must be."""

from __future__ import annotations

import pytest

from medlink.clustering import Clustering, TermClusterer
from medlink.models import load_encoder

ENCODER = load_encoder()


def cluster(*terms: str) -> Clustering:
    return TermClusterer(ENCODER).cluster(terms)


@pytest.mark.parametrize(
    "terms",
    [
        ("Vorhofflimmern", "Vorhofflattern"),
        ("Migräne", "Kopfschmerz"),
        ("Anämie", "Eisenmangelanämie"),
        ("Nierenversagen", "chronische Niereninsuffizienz"),
        ("Übelkeit", "Erbrechen"),
        ("erección", "impotencia"),
        ("amenaza de parto", "accidente laboral"),
        ("Luft", "Atemnot"),
        ("Medikamente", "Pharmakokinetik"),
        ("aplastische Anämie", "perniziöse Anämie"),
        ("fumador", "ex fumador", "fumador de marihuana"),
        ("HPC", "HPCL"),
        ("PAP", "APAP"),
        ("PAP", "paracetamol"),
        ("CM", "VCM"),
        ("clonidine", "guanethidine", "quinidine"),
        ("methylprednisolone", "prednisolone"),
        ("hepatitis crónicas", "virus A de la hepatitis"),
        ("infecciones respiratorias altas", "infecciones respiratorias bajas"),
        ("Magensäure", "Magenschleimhaut", "Erkrankung des Magens"),
    ],
    ids=" - ".join,
)
def test_different_things_are_not_one_cluster(terms: tuple[str, ...]) -> None:
    found = cluster(*terms)
    assert sorted(one.representative for one in found.clusters) == sorted(terms)


@pytest.mark.parametrize(
    "terms",
    [
        ("fever", "Fieber", "fiebre", "pyrexia"),
        ("Herzinfarkt", "myocardial infarction", "infarto de miocardio"),
        ("COPD", "chronic obstructive pulmonary disease"),
        ("Hypertonie", "hypertension"),
        ("type 2 diabetes mellitus", "Diabetes mellitus Typ II", "diabetes mellitus tipo 2"),
        ("náusea", "nausea", "Náuseas"),
        ("KHK", "koronare Herzkrankheit (KHK)", "koronare Herzkrankheit"),
    ],
    ids=" - ".join,
)
def test_synonyms_are_one_cluster(terms: tuple[str, ...]) -> None:
    (only,) = cluster(*terms, "wrist").clusters[:-1]
    assert {member.term for member in only.members} == set(terms)


@pytest.mark.parametrize(
    "terms", [("Anämie", "Eisenmangelanämie"), ("Nierenversagen", "chronische Niereninsuffizienz")]
)
def test_what_is_near_asks_a_reader(terms: tuple[str, str]) -> None:
    """What may be one concept, or is narrower, is shown with the other."""
    one, other = cluster(*terms).clusters
    assert [[near.term for near in each.neighbours if near.maybe] for each in (one, other)] == [
        [other.representative],
        [one.representative],
    ]
