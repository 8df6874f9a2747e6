"""A made-up release of the UMLS in which a string is a name of several concepts, as in the real one.

Each of a hundred findings has its own concept, with names of three sources; a concept of a grade that has the plain
string as a synonym; an answer of a questionnaire; and one more concept of a single source that is the same finding.
Each of twenty words has two senses.
"""

from __future__ import annotations

from pathlib import Path

from tests.kb.writers import conso, write_lines

_FINDINGS = """
Headache Fever Cough Nausea Vomiting Diarrhea Constipation Fatigue Dizziness Dyspnea Edema Jaundice Pruritus Rash
Anemia Ascites Hematuria Proteinuria Syncope Palpitations Insomnia Anxiety Tremor Ataxia Seizure Vertigo Tinnitus
Epistaxis Hemoptysis Hematemesis Melena Dysphagia Dyspepsia Flatulence Hiccups Hoarseness Wheezing Stridor Apnea
Tachycardia Bradycardia Hypertension Hypotension Cyanosis Pallor Urticaria Alopecia Acne Eczema Psoriasis
Cellulitis Abscess Ulcer Infarction Hemorrhage Thrombosis Embolism Aneurysm Stenosis Stroke Migraine Epilepsy
Dementia Delirium Psychosis Autism Arthritis Gout Osteoporosis Scoliosis Myalgia Arthralgia Fracture Hernia
Pancreatitis Hepatitis Cirrhosis Cholecystitis Appendicitis Colitis Gastritis Esophagitis Pneumonia Bronchitis
Asthma Emphysema Sinusitis Pharyngitis Tonsillitis Otitis Conjunctivitis Glaucoma Cataract Uveitis Myopia
Nephritis Cystitis Prostatitis Hydronephrosis Infertility
"""
FINDINGS = _FINDINGS.split()

SENSES = {
    "MS": (("Multiple sclerosis", "T047"), ("Mitral valve stenosis", "T047")),
    "MI": (("Myocardial infarct", "T047"), ("Mitral valve insufficiency", "T047")),
    "RA": (("Rheumatoid arthritis", "T047"), ("Right atrium", "T023")),
    "PE": (("Pulmonary embolus", "T047"), ("Pleural effusion", "T047")),
    "CP": (("Chest pain", "T184"), ("Cerebral palsy", "T047")),
    "AS": (("Aortic valve stenosis", "T047"), ("Ankylosing spondylitis", "T047")),
    "CF": (("Cystic fibrosis", "T047"), ("Cardiac failure", "T047")),
    "UC": (("Ulcerative colitis", "T047"), ("Urothelial carcinoma", "T191")),
    "PD": (("Parkinson disease", "T047"), ("Peritoneal dialysis", "T061")),
    "HD": (("Huntington disease", "T047"), ("Hemodialysis", "T061")),
    "DM": (("Diabetes mellitus", "T047"), ("Dermatomyositis", "T047")),
    "AD": (("Alzheimer disease", "T047"), ("Atopic dermatitis", "T047")),
    "PCP": (("Pneumocystis pneumonia", "T047"), ("Phencyclidine", "T109")),
    "BS": (("Bowel sounds", "T033"), ("Blood sugar", "T201")),
    "ALL": (("Acute lymphoblastic leukemia", "T191"), ("Allergy", "T046")),
    "Hb": (("Hemoglobin", "T116"), ("Hemoglobin measurement", "T059")),
    "cold": (("Common cold", "T047"), ("Cold temperature", "T070")),
    "iron": (("Iron substance", "T196"), ("Iron measurement", "T059")),
    "discharge": (("Patient discharge", "T058"), ("Body fluid discharge", "T031")),
    "sugar": (("Dietary sugar", "T168"), ("Blood glucose level", "T034")),
}
"""Words with the preferred name and the type of each of their two senses."""

_TYPES = {
    "T023": "Body Part, Organ, or Organ Component", "T031": "Body Substance", "T033": "Finding", "T034":
    "Laboratory or Test Result", "T046": "Pathologic Function", "T047": "Disease or Syndrome", "T058":
    "Health Care Activity", "T059": "Laboratory Procedure", "T061": "Therapeutic or Preventive Procedure", "T070":
    "Natural Phenomenon or Process", "T109": "Organic Chemical", "T116": "Amino Acid, Peptide, or Protein", "T168":
    "Food", "T170": "Intellectual Product", "T184": "Sign or Symptom", "T191": "Neoplastic Process", "T196":
    "Element, Ion, or Isotope", "T201": "Clinical Attribute",
}  # fmt: skip


def write_synthetic_umls(folder: Path) -> Path:
    """Write the release; returns the folder. Findings are ``C1...``, grades ``C2...``, answers ``C3...``, second
    concepts of a finding ``C4...``; the senses of a word ``C5...`` and ``C6...``, in the order of :data:`SENSES`."""
    names: list[str] = []
    types: list[str] = []

    def concept(cui: str, tui: str, *rows: tuple[str, str, str]) -> None:
        types.append(f"{cui}|{tui}|A1|{_TYPES[tui]}|AT||")
        for place, (source, term_type, text) in enumerate(rows):
            standing = {"TS": "P" if place == 0 else "S", "ISPREF": "Y" if place == 0 else "N"}
            names.append(conso(cui, text, SAB=source, TTY=term_type, CODE=f"{cui}{place}", **standing))

    for number, text in enumerate(FINDINGS):
        code = f"{number:06}"
        own = [
            ("SNOMEDCT_US", "PT", text),
            ("MSH", "MH", text),
            ("HPO", "PT", text),
            ("SNOMEDCT_US", "FN", f"{text} (finding)"),
        ]
        concept(f"C1{code}", "T184", *own, ("ICD10", "PT", f"{text}, NOS"), ("MSH", "ET", f"{text} symptom"))
        concept(f"C2{code}", "T033", ("NCI_CTCAE", "PT", f"{text}, CTCAE 5.0"), ("NCI_CTCAE", "SY", text))
        concept(f"C3{code}", "T170", ("LNC", "PT", text))
        concept(f"C4{code}", "T184", ("NCI", "PT", text))
    for number, (word, senses) in enumerate(SENSES.items()):
        for first, (text, tui) in zip("56", senses, strict=True):
            concept(
                f"C{first}{number:06}",
                tui,
                ("SNOMEDCT_US", "PT", text),
                ("SNOMEDCT_US", "SY", word),
                ("MSH", "MH", text),
            )
    write_lines(folder / "MRCONSO.RRF", names)
    write_lines(folder / "MRSTY.RRF", types)
    return folder
