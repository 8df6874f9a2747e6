"""Kinds of the semantic types that tables have in German, English and Spanish."""

from __future__ import annotations

import pytest

from medlink.linking.kinds import DISORDER, DRUG, all_kinds_of

TYPES = {
    (DISORDER, "finding"): (
        "Disease; Genetic disease; Disease or Syndrome; Malformation syndrome; Group of disorders; Drug disorders; "
        "Krankheit; Krankheiten der Haut; Infektionskrankheiten; Verhaltensstörung; Seltene Erkrankung; Neubildungen; "
        "Enfermedad; ENFERMEDADES GENÉTICAS; Trastorno; Trastornos por medicamentos; Diagnósticos; Síndrome"
    ),
    ("finding",): (
        "Symptom; Signs/Symptoms; Phenotypic abnormality; Adverse drug reaction; Laborbefund; Leitsymptome; Zeichen; "
        "Síntoma; Signos y síntomas; Hallazgo clínico; Reacciones adversas a medicamentos"
    ),
    (DRUG, "substance"): (
        "Drug; Medications; Cancer drug; Drugs for cancer; Medicinal product; Arzneimittel; Arzneimittel gegen Gicht; "
        "Wirkstoffe; Krebsmedikament; Medikament; Fármaco; Medicamento para el cáncer; Principio activo; Vacunas"
    ),
    ("substance",): "Substance; Farbstoff; Sustancia química",
    ("measurement",): "Laboratory test; Drug test; Blutwert-Messung; Prueba de fármacos",
    ("procedure",): "Procedure; Drug therapy; Untersuchung der Haut; Procedimiento; Cirugía",
    (): "Zebra; Grouping; NERVENSYSTEM; Medizinprodukt; Producto sanitario",
}  # fmt: skip


@pytest.mark.parametrize(("kinds", "names"), TYPES.items())
def test_types_of_any_words(kinds: tuple[str, ...], names: str) -> None:
    for name in names.split("; "):
        assert all_kinds_of((name,)) == set(kinds), name


def test_several_types_and_a_system() -> None:
    assert all_kinds_of(("Fármaco", "Zebra", "Enfermedad")) == {"substance", DRUG, "finding", DISORDER}
    assert all_kinds_of(("NERVENSYSTEM",), "ATC") == all_kinds_of((), "RxNorm") == {"substance", DRUG}
    assert all_kinds_of(("Krankheit",), "ATC") == {"finding", DISORDER}
