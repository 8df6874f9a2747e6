"""Which concept a mention goes to: by its neighbours, in another order, misspelt, in lower case, at another site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reading.bundles import bundle_of, mentions

NAMES = {
    "en": (
        "Pulmonary embolism", "Pleural effusion", "Pericardial effusion", "Hypertension", "Chronic renal failure",
        "Renal failure", "Hemolytic anemia", "Anemia", "Febrile seizures", "Seizures", "Fever", "Myocardial infarction",
        "Pulmonary opacity", "Mitral stenosis", "Atrial fibrillation", "Computed tomography", "Electrocardiogram",
        "Symptom", "Gastroesophageal reflux", "Skin rash", "Complication", "Chest X-ray", "Colonoscopy", "Gastroscopy",
        "Echocardiography", "Spirometry",
    ),
    "de": ("Hinterwandinfarkt",),
}  # fmt: skip
IDS = {name: f"X:{number}" for number, name in enumerate([*NAMES["en"], *NAMES["de"]])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = (f"{IDS[name]}\t{name}\t{language}" for language, names in NAMES.items() for name in names)
    return bundle_of(tmp_path_factory.mktemp("meanings"), *table)


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        # an exact name before a longer wording that only resembles one
        ("de", "Z. n. Hinterwandinfarkt 2019.", {"Hinterwandinfarkt": "Hinterwandinfarkt"}),
        # words beside an abbreviation tell its meaning
        ("en", "CTPA negative for PE.", {"PE": "Pulmonary embolism"}),
        ("en", "Left PE, thoracentesis today.", {"PE": "Pleural effusion"}),
        ("en", "Small PE without tamponade on echo.", {"PE": "Pericardial effusion"}),
        ("en", "PE: HEENT normal.", {}),
        ("de", "PE links punktiert.", {"PE": "Pleural effusion"}),
        ("de", "PE bei TVT rechts.", {"PE": "Pulmonary embolism"}),
        ("de", "PE aus dem Antrum entnommen.", {}),
        ("es", "ECG con FA a 110 lpm.", {"ECG": "Electrocardiogram", "FA": "Atrial fibrillation"}),
        ("es", "GGT 30 U/L, FA 80 U/L.", {}),
        # in lower case, where the language has no such word
        ("en", "Known htn.", {"htn": "Hypertension"}),
        ("es", "Antecedentes de hta.", {"hta": "Hypertension"}),
        ("en", "She gave birth in 2001.", {}),
        # inverted
        ("en", "Renal failure, chronic.", {"Renal failure, chronic": "Chronic renal failure"}),
        ("en", "Anemia, hemolytic", {"Anemia, hemolytic": "Hemolytic anemia"}),
        ("de", "Niereninsuffizienz, chronisch", {"Niereninsuffizienz, chronisch": "Chronic renal failure"}),
        ("es", "Insuficiencia renal, crónica.", {"Insuficiencia renal, crónica": "Chronic renal failure"}),
        ("en", "Seizures, fever.", {"Seizures": "Seizures", "fever": "Fever"}),
        # a typing error in a compound
        ("de", "Z. n. Myokardinfakt.", {"Myokardinfakt": "Myocardial infarction"}),
        ("en", "She has hypertenssion.", {"hypertenssion": "Hypertension"}),
        # an examination in a heading, if its result follows
        ("en", "CT: pleural effusion", {"CT": "Computed tomography", "pleural effusion": "Pleural effusion"}),
        ("de", "EKG:\nVorhofflimmern", {"EKG": "Electrocardiogram", "Vorhofflimmern": "Atrial fibrillation"}),
        ("es", "TAC: derrame pleural", {"TAC": "Computed tomography", "derrame pleural": "Pleural effusion"}),
        ("de", "EKG:\n\nLabor:\nunauffällig", {}),
        # a short word is about the body part beside it
        ("en", "There is an opacity in the left lung.", {"opacity": "Pulmonary opacity"}),
        ("en", "There was opacity of the ear drum.", {}),
        ("es", "Reflujo vesicoureteral.", {}),
        # everything is denied, and nothing in particular
        ("de", "Der Patient ist beschwerdefrei, der Verlauf komplikationslos.", {}),
        ("en", "She is free of symptoms.", {}),
        ("es", "Alta sin complicaciones.", {}),
    ],
)
def test_the_concept_of_a_mention(folder: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    read = [mention for mention in mentions(folder, text, language) if mention.link.status == "linked"]
    assert {text[m.start : m.end]: m.link.concept_id for m in read} == {
        words: IDS[name] for words, name in wanted.items()
    }


@pytest.mark.parametrize(
    ("language", "text", "done"),
    [
        ("de", "Röntgen-Thorax: Pleuraerguß", {"Röntgen-Thorax": "Chest X-ray"}),
        ("de", "Koloskopie: unauffällig.", {"Koloskopie": "Colonoscopy"}),
        ("de", "Gastroskopie:\nkein Ulkus", {"Gastroskopie": "Gastroscopy"}),
        ("de", "CT: V. a. Lungenembolie.", {"CT": "Computed tomography"}),
        ("de", "Echokardiographie: keine Vitien.", {"Echokardiographie": "Echocardiography"}),
        ("en", "Chest X-ray: pleural effusion.", {"Chest X-ray": "Chest X-ray"}),
        ("en", "ECG: AF", {"ECG": "Electrocardiogram"}),
        ("en", "Colonoscopy: normal.", {"Colonoscopy": "Colonoscopy"}),
        ("en", "Echocardiography: no effusion.", {"Echocardiography": "Echocardiography"}),
        ("en", "CT:\n- pulmonary embolism", {"CT": "Computed tomography"}),
        ("es", "Radiografía de tórax: derrame pleural.", {"Radiografía de tórax": "Chest X-ray"}),
        ("es", "Colonoscopia: normal.", {"Colonoscopia": "Colonoscopy"}),
        ("es", "Gastroscopia: sin hallazgos.", {"Gastroscopia": "Gastroscopy"}),
        ("es", "TAC:\n- derrame pleural", {"TAC": "Computed tomography"}),
        ("es", "ECG: ritmo sinusal.", {"ECG": "Electrocardiogram"}),
    ],
)
def test_an_examination_with_its_result_is_done(folder: Path, language: str, text: str, done: dict[str, str]) -> None:
    examined = {IDS[name] for name in done.values()}
    read = [mention for mention in mentions(folder, text, language) if mention.link.concept_id in examined]
    assert {text[m.start : m.end]: m.link.concept_id for m in read} == {
        words: IDS[name] for words, name in done.items()
    }
    assert [m.qualifiers and m.qualifiers.presence for m in read] == ["present"]
    (alone,) = done
    assert mentions(folder, f"{alone}:\n\nBefund:\n", language) == []
