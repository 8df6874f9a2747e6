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
        ("es", "Madre con <cáncer de colon> a los 60.", [("MTH", 60)]),
        ("es", "Padre con <infarto> a los 50 años, hermana con <asma>.", [("FTH", 50), ("SIS", None)]),
        ("es", "Tía paterna con <lupus>.", [("PAUNT", None)]),
        ("en", "Father had a <stroke> at age 54 and her maternal aunt had <cancer>.", [("FTH", 54), ("MAUNT", None)]),
        ("en", "Brother died at 31 of <cardiac arrest>.", [("BRO", 31)]),
        ("en", "Family history: <gout> (mother), <asthma>.", [("MTH", None), ("", None)]),
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
    with pytest.raises(InputError, match="'MUM' is no code of a relative"):
        relatives("it")
