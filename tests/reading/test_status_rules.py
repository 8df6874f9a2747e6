"""Rules of status, each by invented sentences of its own: time, lists, brackets, check boxes, answers, sections."""

from __future__ import annotations

import pytest

from tests.reading.test_status import LANGUAGES, READERS, parsed, said

PAST = {  # what is told of before is over only where it passes by
    "de": [
        "Relevante Vorerkrankungen: arterielle <Hypertonie>, <Asthma>, <Pneumonie|historical>.",
        "Vor 10 Jahren <Diabetes mellitus>, vor 3 Jahren <Schlaganfall|historical>.",
        "In der Vorgeschichte <Vorhofflimmern> und <Hüftfraktur|historical>.",
        "Vorgeschichte mit <Migräne>.",
        "Vorerkrankungen:\n- <Lungenembolie|historical>\n- <COPD>",
        "Vorerkrankungen: <chronische Sinusitis>, kein <Schlaganfall|absent>.",
        "Das <Fieber> klang rasch ab, der <Husten> sistierte.",
        "Z. n. <Thrombose|historical>, seit 2010 <Hypothyreose>.",
    ],
    "en": [
        "History of <hypertension>, <stroke|historical> and <asthma>.",
        "PAST MEDICAL HISTORY: <Diabetes>, <myocardial infarction|historical>, <COPD>.",
        "Diagnosed with <glaucoma> ten years ago, had a <hip fracture|historical> two years ago.",
        "60M h/o <GERD> presents with <dysphagia>.",
        "H/o <DVT|historical>, <recurrent DVT> on warfarin.",
        "No history of <stroke|absent>. Denies previous <pneumonia|absent>.",
        "The <rash> has resolved and her <fever> subsided.",
        "History of <pneumonia|historical>, presented with <pneumonia>.",
    ],
    "es": [
        "Antecedentes de <hipertensión arterial>, <ictus|historical> y <EPOC>.",
        "Antecedentes personales: <dislipemia>, <fractura de cadera|historical>.",
        "Historia previa de <depresión> y <neumonía|historical>.",
        "Hace años <pancreatitis|historical>; <diabetes> desde entonces.",
        "La <cefalea> remitió y la <fiebre> cedió.",
        "Con antecedentes de <migraña> acude por <cefalea>.",
        "Sin antecedentes de <ictus|absent> ni <infarto previo|absent>.",
        "En mayo fue intervenido de <hernia inguinal>; operado de <hernia umbilical|historical> en la infancia.",
    ],
}
YEARS = {
    "de": [
        "Aufnahme am 03.05.2021. 2010 <Herzinfarkt|historical>.",
        "Wien, 3.5.2021. <Appendizitis|historical> 1985, <Asthma> 1990.",
        "Vom 03.05.2021. <Pneumonie|historical> 2015. Seit 2012 <Nierensteine>. <Lungenembolie> 05/2021.",
        "Vom 03.05.2021. <Mammakarzinom>, ED 2015. <Melanom> (AJCC 2009).",
        "Wien, 3.5.2021. Cholezystektomie 2018 bei <Cholelithiasis|historical>.",
        "Im Jahr 2010 <Herzinfarkt>.",  # no date says when the note is from
        "Vom 03.05.2021. <Pneumonie> 2020.",  # may have begun before the turn of the year
    ],
    "en": [
        "Seen 04/12/2015. <Stroke|historical> in 2003.",
        "Seen 04/12/2015. Had a <hip fracture|historical> in 2010, <gout> in 2011.",
        "Seen 04/12/2015. <Kidney stones> since 2009.",
        "Seen 04/12/2015. <Breast cancer> diagnosed in 2012.",
        "Seen 04/12/2015. <Stroke> at 1900 hours, <bleeding> of 2000 ml.",
    ],
    "es": [
        "Ingreso: 19/03/2016. En 2005 <infarto|historical>.",
        "Ingreso: 19/03/2016. <Fractura de tibia|historical> en 1998, <asma> en 2001.",
        "Ingreso: 19/03/2016. <Litiasis renal> desde 2010.",
        "Ingreso: 19/03/2016. Diagnosticado en 2009 de <carcinoma>.",
        "Ingreso: 19/03/2016. <Neumonía> en marzo de 2016.",
    ],
}
CAUSES = {
    "de": [
        "Wien, 3.5.2021. Z. n. <Apoplex|historical> 2002 (<Hemiparese re.|historical>).",
        "Z. n. Hüftoperation bei <Coxarthrose|historical>.",
        "Z. n. <Apoplex|historical> bei <Hypertonie>.",
        "St. p. Amputation wegen <Gangrän|historical>.",
        "Kein <Fieber|absent> bei <Pneumonie>.",
        "Z. n. <Sturz|historical>, jetzt <Schmerzen>.",
    ],
    "en": [
        "Status post amputation due to <gangrene|historical>.",
        "S/p <stroke|historical> secondary to <hypertension>.",
        "S/p splenectomy because of <trauma|historical>.",
        "No <fever|absent> in the setting of <pneumonia>.",
        "History of <stroke|historical> due to <atrial fibrillation>.",
    ],
    "es": [
        "Status post amputación debido a <gangrena|historical>.",
        "Operado de <hernia|historical> debido a <dolor>.",
        "Sin <fiebre|absent> en el contexto de <neumonía>.",
        "Antecedentes de <ictus|historical> secundario a <fibrilación auricular>.",
        "No hay <derrame|absent> secundario a <neumonía>.",
    ],
}
LISTS = {
    "de": [
        "Kein <Fieber|absent>, 2 x <Erbrechen>.",
        "Keine <Defizite|absent>, <gedrückte Stimmung>.",
        "Kein <Fieber|absent> oder <Husten|absent>, <Struma>.",
        "Kein <Fieber|absent>, <Husten|absent> oder <Schnupfen|absent>, <Dyspnoe|absent> oder <Schwindel|absent>.",
        "Keine <Allergien|absent> bekannt, <Hypertonie>.",
        "Keine <Ödeme|absent>, <erweiterte Halsvenen>, <vergrößerte Lymphknoten>.",
        "<Übelkeit> ohne <Erbrechen|absent>, <Schwindel> und <Kopfschmerz>.",
        "Ohne <Erbrechen|absent>, <Schwindel|absent> und <Kopfschmerz|absent>.",
        "<Hernie> ohne <Einklemmung|absent>, <Zyste|absent> oder <Abszess|absent>.",
        "Keine <Ödeme|absent>, <Dyspnoe>, kein <Fieber|absent> oder <Husten|absent>.",
        "Keine Metastasen, Carboplatin macht <Übelkeit>.",
        "Ausgeschlossen wurde eine <Fraktur|absent>, diagnostiziert wurde eine <Prellung>.",
    ],
    "en": [
        "No <fever|absent>, 2 episodes of <emesis>.",
        "No <edema|absent>, <decreased breath sounds>.",
        "No <wheezing|absent>, <enlarged spleen>.",
        "No <fever|absent> or <cough|absent>, <rash>.",
        "<Nausea> without <emesis|absent>, <vertigo> and <headache>.",
        "<Nausea> without <emesis|absent>, <vertigo|absent> or <headache|absent>.",
        "The team ruled out <pneumonia|absent> and diagnosed <bronchitis>.",
        "The patient's <edema> is worse. <Edema|absent> absent. <Varicosities|absent> absent.",
    ],
    "es": [
        "Sin <fiebre|absent>, 2 episodios de <vómitos>.",
        "<Náuseas> sin <vómitos|absent>, <mareo> y <cefalea>.",
        "<Náuseas> sin <vómitos|absent>, <mareo|absent> ni <cefalea|absent>.",
        "No hay <fiebre|absent> ni <tos|absent>, <asma>.",
        "Abdomen sin <masas|absent>, <megalias|absent> ni <defensa|absent>.",
        "Se descartó <neumonía|absent> y se diagnosticó <bronquitis>.",
        "<Eritema>, test de esfuerzo negativo. <Hidatidosis|absent>, negativa.",
        "Sin <afectación ósea|absent>. Sin que mejoren las <lesiones>.",
        "No tenía <edemas|absent>, ni se le detectó <varicocele|absent> o <hidrocele|absent>.",
    ],
}
BRACKETS = {
    "de": [
        "Sturz (keine <Fraktur|absent>) mit <Hämatom>.",
        "CT (zum Ausschluss einer <Blutung|hypothetical>) mit <Hirnödem>.",
        "<Ödeme> (V. a. <Herzinsuffizienz|uncertain>) und <Dyspnoe>.",
        "<Husten> (kein <Auswurf|absent>) sowie <Fieber>.",
        "Labor (Mutter mit <Anämie|family>) zeigt <Leukozytose>.",
    ],
    "en": [
        "Films (done for a history of <stroke|historical>) showed <sinusitis>.",
        "<Pain> (no <swelling|absent>) and <redness>.",
        "CT (to rule out <bleeding|hypothetical>) with <edema>.",
        "<Edema> (possible <heart failure|uncertain>) and <dyspnea>.",
        "(No) <fever|absent>.",
    ],
    "es": [
        "Caída (sin <fractura|absent>) con <hematoma>.",
        "TC (para descartar <sangrado|hypothetical>) con <edema>.",
        "<Edemas> (probable <insuficiencia cardiaca|uncertain>) y <disnea>.",
        "<Tos> (sin <expectoración|absent>) y <fiebre>.",
        "Analítica (madre con <anemia|family>) con <leucocitosis>.",
    ],
}
BOXES = {
    "de": [
        "[ ] <Fieber|absent> [x] <Husten> [ ] <Dyspnoe|absent>",
        "☐ <Fieber|absent> ☒ <Husten>\n☑ <Dyspnoe>",
        "Symptome: (-) <Fieber|absent> (+) <Husten>",
        "<Fieber|absent> (-), <Husten> (+), <Dyspnoe|absent> (-)",
        "<Fieber>: ja. <Husten|absent>: nein. <Dyspnoe|uncertain>: nein / ja",
        "<Fieber|absent>: [ ] ja [x] nein\n<Husten>: [x] ja [ ] nein",
        "<Ödeme|absent>: keine. <Husten|absent>: keiner, <Fieber>: 39 Grad",
        "<Allergien|absent> keine. <Husten>",
    ],
    "en": [
        "[ ] <fever|absent> [x] <cough> [ ] <dyspnea|absent>",
        "☐ <fever|absent> ☑ <cough>",
        "(-) <fever|absent> (+) <cough> (-) <chills|absent>",
        "<fever> (+), <cough|absent> (-)",
        "<Fever|uncertain>: yes / no",
        "<Fever|absent>: [ ] yes [x] no\n<Cough>: [x] yes [ ] no",
        "<Edema|absent> none. <Cough>.",
    ],
    "es": [
        "[ ] <fiebre|absent> [x] <tos> [ ] <disnea|absent>",
        "☐ <fiebre|absent> ☒ <tos>",
        "(-) <fiebre|absent> (+) <tos>",
        "<fiebre|absent> (-), <tos> (+)",
        "<Fiebre|uncertain>: sí / no",
        "<Fiebre|absent>: [ ] sí [x] no\n<Tos>: [x] sí [ ] no",
    ],
}
FAMILY = {
    "de": [
        "Familienanamnese: unauffällig.\n<Husten> seit gestern.",
        "Familienanamnese: <Gicht|family>.\nDie Patientin hat <Asthma>.",
        "Mutter mit <Asthma|family>, der Patient hat <Husten>.",
        "Mutter der Patientin mit <Asthma|family>. Bruder des Pat. mit <Gicht|family>.",
        "Schwester der Patientin mit <Asthma|family>.",
        "Familienanamnese: <Gicht|family>.\n<Asthma|family>.",
    ],
    "en": [
        "Family history: Noncontributory.\n<Cough> since Monday.",
        "FAMILY HISTORY: <Gout|family>.\nThe patient has <asthma>.",
        "Mother with <gout|family>, the patient with <asthma>.",
        "The patient's mother has <gout|family>.",
        "The mother of the patient has <gout|family>. Sister of patient with <asthma|family>.",
    ],
    "es": [
        "Antecedentes familiares: sin interés.\n<Tos> desde ayer.",
        "Antecedentes familiares: <gota|family>.\nEl paciente tiene <asma>.",
        "Madre con <gota|family>, el paciente con <asma>.",
        "La madre del paciente tiene <gota|family>.",
        "Antecedentes familiares: <gota|family>.\n<Asma|family>.",
    ],
}
ABSENCES = {
    "de": [
        "Patient <afebril|absent>, <anikterisch|absent> und <acyanotisch|absent>.",
        "Nicht <afebril>.",
        "Keine <Ödeme|absent>, <afebril|absent>.",
        "Drei <tumorfreie Lymphknoten|absent>, sonst <schmerzfrei|absent>.",
        "<Schmerzlose Hämaturie>, <schmerzfrei|absent>.",
        "Die Mutter ist <fieberfrei|absent,family>.",
        "Bei <Fieber|hypothetical> Wiedervorstellung, derzeit <fieberfrei|absent>.",
    ],
    "en": [
        "<Afebrile|absent>, <anicteric|absent>, abdomen <nontender|absent>.",
        "She is not <afebrile>.",
        "No <edema|absent>, <afebrile|absent>.",
        "<Stone-free ureters|absent>, <painless hematuria>.",
        "Heart <no m/r/g|absent>.",
        "<NKDA|absent>.",
    ],
    "es": [
        "Paciente <afebril|absent>, <anictérico|absent> y <eupneico|absent>.",
        "No <afebril>.",
        "Sin <fiebre|absent>, <eupneica|absent>.",
        "Masa <indolora|absent>.",
        "Sin <edemas|absent>, <afebril|absent>.",
    ],
}
RULES = {
    "past": PAST,
    "years": YEARS,
    "causes": CAUSES,
    "lists": LISTS,
    "brackets": BRACKETS,
    "boxes": BOXES,
    "family": FAMILY,
    "absences": ABSENCES,
}


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        pytest.param(language, marked, id=f"{rule}-{language}-{number}")
        for rule, sentences in RULES.items()
        for language in LANGUAGES
        for number, marked in enumerate(sentences[language])
    ],
)
def test_a_rule_holds(language: str, marked: str) -> None:
    _, _, expected = parsed(marked)
    assert said(marked, language) == [(q.presence, q.temporality, q.experiencer) for q in expected]


def test_a_mention_says_by_which_cue_it_was_read() -> None:
    text, places, _ = parsed("No <fever>, possible <sepsis>. <Rash>.")
    note = READERS["en"].read(text)
    assert note.cues(places) == [{"presence": "no"}, {"presence": "possible"}, {}]
    assert READERS["en"].read("").cues([]) == []
