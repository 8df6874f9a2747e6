"""Which concept a mention goes to: by its neighbours, in another order, misspelt, in lower case, at another site."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from tests.reading.bundles import bundle_of, cases, mentions, presence

NAMES = {
    "en": (
        "Pulmonary embolism", "Pleural effusion", "Pericardial effusion", "Hypertension", "Chronic renal failure",
        "Renal failure", "Hemolytic anemia", "Anemia", "Febrile seizures", "Seizures", "Fever", "Myocardial infarction",
        "Pulmonary opacity", "Mitral stenosis", "Atrial fibrillation", "Computed tomography", "Electrocardiogram",
        "Symptom", "Gastroesophageal reflux", "Skin rash", "Complication", "Chest X-ray", "Colonoscopy", "Gastroscopy",
        "Echocardiography", "Spirometry", "Reduced tendon reflexes", "Impairment of activities of daily living",
        "Right ventricular failure",
    ),
    "de": ("Hinterwandinfarkt",),
    "es": ("Paro cardíaco",),
}  # fmt: skip
IDS = {name: f"X:{number}" for number, name in enumerate(chain(*NAMES.values()))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = (f"{IDS[name]}\t{name}\t{language}" for language, names in NAMES.items() for name in names)
    return bundle_of(tmp_path_factory.mktemp("meanings"), *table)


@pytest.mark.parametrize(("language", "text", "wanted"), cases("the_concept_of_a_mention"))
def test_the_concept_of_a_mention(folder: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    read = [mention for mention in mentions(folder, text, language) if mention.link.status == "linked"]
    assert {text[m.start : m.end]: m.link.concept_id for m in read} == {
        words: IDS[name] for words, name in wanted.items()
    }


@pytest.mark.parametrize(("language", "text", "wanted"), cases("an_examination_with_its_result_is_done"))
def test_an_examination_with_its_result_is_done(folder: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    examined = {IDS[name] for name in wanted.values()}
    read = [mention for mention in mentions(folder, text, language) if mention.link.concept_id in examined]
    assert [(text[m.start : m.end], m.link.concept_id, presence([m])) for m in read] == [
        (words, IDS[name], ["present"]) for words, name in wanted.items()
    ]
    (alone,) = wanted
    assert mentions(folder, f"{alone}:\n\nBefund:\n", language) == []
