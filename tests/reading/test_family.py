"""Which relative has a finding, and since what age."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.language.relatives import relatives
from medlink.reading.qualifiers import qualifier_reader


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Vater mit 54 J. an <Herzinfarkt> verstorben.", [("FTH", 54)]),
        ("de", "Mutter: <Diabetes>, <Migräne>. Schwester <Asthma>.", [("MTH", None), ("MTH", None), ("SIS", None)]),
        ("de", "<Infarkt> beim Vater, <Schlaganfall> bei der Mutter mit 71 Jahren.", [("FTH", None), ("MTH", 71)]),
        ("de", "Großmutter mütterlicherseits mit <Demenz>.", [("MGRMTH", None)]),
        ("de", "Bruder verstarb 45-jährig an <Herzinfarkt>.", [("BRO", 45)]),
        ("de", "Mutter 58-jährig an <Brustkrebs> verstorben.", [("MTH", 58)]),
        ("de", "<Herzinfarkt> mit 50 J. (Vater), <Gicht> (Onkel).", [("FTH", 50), ("UNCLE", None)]),
        ("de", "<Gicht>, <Asthma> (Mutter).", [("", None), ("MTH", None)]),
        ("es", "Murió a los 45 años de <infarto> (padre).", [("FTH", 45)]),
        ("es", "Falleció a los 60 años por <ictus> (madre).", [("MTH", 60)]),
        ("es", "Hermano muerto a los 30 años por <leucemia>.", [("BRO", 30)]),
        ("en", "Brother died at age 45 of <myocardial infarction>.", [("BRO", 45)]),
        ("en", "Died at age 60 of <MI> (father).", [("FTH", 60)]),
        ("en", "Grandfather, dead at 71 from <leukemia>.", [("GRFTH", 71)]),
        ("en", "<Colon cancer> (maternal uncle), <gout>.", [("MUNCLE", None), ("", None)]),
        ("es", "Madre con <cáncer de colon> a los 60.", [("MTH", 60)]),
        ("es", "Padre con <infarto> a los 50 años, hermana con <asma>.", [("FTH", 50), ("SIS", None)]),
        ("es", "Tía paterna con <lupus>.", [("PAUNT", None)]),
        ("en", "Father had a <stroke> at age 54 and her maternal aunt had <cancer>.", [("FTH", 54), ("MAUNT", None)]),
        ("en", "Brother died at 31 of <cardiac arrest>.", [("BRO", 31)]),
        ("en", "Family history: <gout> (mother), <asthma>.", [("MTH", None), ("", None)]),
        ("de", "<Herzinfarkt> (Vater, 49 J.), <Gicht> (Onkel).", [("FTH", 49), ("UNCLE", None)]),
        ("en", "<MI> (father, 49), <stroke> (mother, aged 70).", [("FTH", 49), ("MTH", 70)]),
        ("es", "<IAM> (padre, 49 años).", [("FTH", 49)]),
        ("en", "Family history of <glaucoma>.", [("", None)]),
        ("en", "He has <asthma>, lives with his mother.", [("", None)]),
    ],
)
def test_relatives_and_ages(language: str, text: str, wanted: list[tuple[str, int | None]]) -> None:
    reader = qualifier_reader(language)
    assert reader is not None
    plain, spans = "", list[tuple[int, int]]()
    for part in text.split("<"):
        words, closed, rest = part.partition(">")
        if closed:
            spans.append((len(plain), len(plain) + len(words)))
        plain += words + rest
    found = reader.read(plain).qualifiers(spans)
    assert [(one.relative, one.onset_age) for one in found] == wanted


def test_an_unknown_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "relatives.tsv").write_text("phrase\tcode\tsource\nmater\tMUM\tusage\n", "utf-8")
    monkeypatch.setenv("MEDLINK_LANGUAGES", str(tmp_path))
    with pytest.raises(InputError, match="'MUM' is not a code of a relative"):
        relatives("it")
