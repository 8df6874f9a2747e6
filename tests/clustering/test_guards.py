"""Guards: words a reader of each language can check, and pairs that must and must not be parted."""

from __future__ import annotations

import json
import re
from importlib import resources

import numpy as np
import pytest

from medlink.clustering.guards import COMPARED, KINDS, NEGATION, OVERLAP, SAME, Guards, guard_values, negated_words
from medlink.text import LANGUAGES


def parted(one: str, other: str, language: str = "", second: str | None = None) -> str:
    guards = Guards([one, other], [language, language if second is None else second])
    there, back = guards.apart(np.array([0, 1]), np.array([1, 0]))
    assert there == back
    return KINDS[there]


@pytest.mark.parametrize(
    ("kind", "one", "other", "language"),
    [
        ("number", "type 1 diabetes", "type 2 diabetes", "en"),
        ("number", "Diabetes mellitus Typ I", "Typ-2-Diabetes", "de"),
        ("number", "Astrozytom Grad II", "Astrozytom Grad III", "de"),
        ("number", "carcinoma estadio II", "carcinoma estadio III", "es"),
        ("number", "asthma grade 2", "asthma grade III", "en"),
        ("number", "erste Rippe", "zweite Rippe", "de"),
        ("number", "segunda costilla", "tercera costilla", "es"),
        ("letter", "Karzinom, Stadium IIa", "Karzinom, Stadium IIb", "de"),
        ("letter", "hepatitis A", "hepatitis B", "en"),
        ("letter", "vitamin a", "vitamin d", "en"),
        ("laterality", "linksseitige Lähmung", "rechtsseitige Lähmung", "de"),
        ("laterality", "brazo izquierdo", "brazo derecho", "es"),
        ("laterality", "left arm", "arm", "en"),
        ("laterality", "unilateral hearing loss", "bilateral hearing loss", "en"),
        ("onset", "early onset", "late onset", "en"),
        ("onset", "inicio precoz", "inicio tardío", "es"),
        ("course", "akute Bronchitis", "chronische Bronchitis", "de"),
        ("course", "bronquitis aguda", "bronquitis crónica", "es"),
        ("amount", "Hypertonie", "Hypotonie", "de"),
        ("amount", "hipertensión", "hipotensión", "es"),
        ("amount", "increased appetite", "decreased appetite", "en"),
        ("rate", "tachycardia", "bradycardia", "en"),
        ("size", "Makrozephalie", "Mikrozephalie", "de"),
        ("severity", "dolor leve", "dolor grave", "es"),
        (NEGATION, "nicht-kleinzelliges Karzinom", "kleinzelliges Karzinom", "de"),
        (NEGATION, "non-small cell carcinoma", "small cell carcinoma", "en"),
        (NEGATION, "afebrile", "febrile", "en"),
        (NEGATION, "asymptomatisch", "symptomatisch", "de"),
        (NEGATION, "fractura sin desplazamiento", "fractura con desplazamiento", "es"),
        (NEGATION, "no evidence of metastasis", "metastasis", "en"),
    ],
)
def test_parts(kind: str, one: str, other: str, language: str) -> None:
    assert parted(one, other, language) == kind
    # without a language the rules of all hold; "grave" is then no Spanish word
    assert parted(one, other) == ("" if "grave" in other else kind)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("type 2 diabetes", "diabetes mellitus tipo II"),
        ("Typ-2-Diabetes", "diabetes mellitus type II"),
        ("linksseitig", "left"),
        ("brazo izquierdo", "left arm"),
        ("akut", "aguda"),
        ("afebrile", "no fever"),
        ("anemia", "anaemia"),
        ("inflammation", "infection"),
        ("hypothyroidism", "underactive thyroid"),
        ("Hypophyse", "hyperactive"),
        ("second rib", "2nd rib"),
        ("edema a tensión", "edema"),
        ("non-small cell carcinoma", "carcinoma, non-small cell"),
    ],
)
def test_leaves_together(one: str, other: str) -> None:
    assert parted(one, other) == ""


def test_words_of_another_language_count_only_there() -> None:
    assert guard_values("dolor grave", "es") == {("severity", "severe")}
    assert guard_values("Grave's disease") == frozenset()
    assert ("number", "11") in guard_values("elf Rippen", "de")
    assert guard_values("elf") == frozenset()
    assert guard_values("links", "fr") == guard_values("links")


def test_ways_to_compare() -> None:
    """``same`` parts {1, 2} from {1}, ``overlap`` does not part what shares a value, ``equal`` minds a missing one."""
    assert COMPARED["number"] == SAME
    assert COMPARED["course"] == OVERLAP
    assert parted("grade 1 stage 2", "stage 2") == "number"
    assert parted("type 1 diabetes", "diabetes") == ""
    assert parted("acute and chronic pain", "chronic pain") == ""
    assert parted("right arm", "arm") == "laterality"


def test_one_sided_numbers() -> None:
    guards = Guards(["type 1 diabetes", "diabetes", "type 2 diabetes"], [""] * 3)
    assert guards.one_sided(np.array([0, 0]), np.array([1, 2])).tolist() == [True, False]


def test_negated_words_worked_by_hand() -> None:
    negated, said = negated_words("carcinoma sin metástasis", "es")
    assert (sorted(negated), sorted(said)) == (["metastasis"], ["carcinom"])
    assert negated_words("", "en") == (frozenset(), frozenset())


def test_many_pairs_against_each_pair_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = ["left arm", "right arm", "arm", "no fever", "fever", "type 1", "type 2", "afebrile", "febrile", "type 1 b"]
    guards = Guards(terms, [""] * len(terms))
    rows, cols = (places.ravel() for places in np.meshgrid(np.arange(len(terms)), np.arange(len(terms))))
    alone = [KINDS.index(parted(terms[i], terms[j])) if i != j else 0 for i, j in zip(rows, cols, strict=True)]
    assert guards.apart(rows, cols).tolist() == alone
    monkeypatch.setattr("medlink.clustering.guards._PAIRS", 7)
    assert guards.apart(rows, cols).tolist() == alone
    assert Guards([], []).apart(rows[:0], cols[:0]).tolist() == []


def test_every_rule_has_a_source_and_the_same_values_in_all_languages() -> None:
    folder = resources.files("medlink").joinpath("resources/language")
    files = {tag: json.loads(folder.joinpath(f"guards.{tag}.json").read_text("utf-8")) for tag in LANGUAGES}
    for raw in files.values():
        assert raw.keys() == files["en"].keys()
        assert raw.keys() - {NEGATION, "only_here", "small_words"} == COMPARED.keys() - {"letter"}
        for kind, entry in raw.items():
            assert entry["source"]
            if kind in COMPARED:
                assert entry["value"].keys() == files["en"][kind]["value"].keys()
                assert all(re.compile(pattern) for pattern in entry["value"].values())
