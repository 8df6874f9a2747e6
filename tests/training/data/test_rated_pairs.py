"""Rated pairs and triplets in their published layouts."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.training.data.rated_pairs import RatedPair, Triplet, has_triplets, read_pairs, read_triplets


def write(tmp_path: Path, text: str, name: str = "pairs.tsv") -> Path:
    (tmp_path / name).write_text(text, "utf-8")
    return tmp_path / name


def pairs(tmp_path: Path, text: str) -> list[RatedPair]:
    return read_pairs(write(tmp_path, text), Problems(adjustable=False))


WANTED = [RatedPair("fever", "cough", 1.5, ("1", "2"), 2)]


@pytest.mark.parametrize(
    "text",
    [
        "snomed_id_1\tsnomed_label_1\tsnomed_id_2\tsnomed_label_2\trater_A\tmean_rating\tCUI_1\tCUI_2\n"
        "1\tfever\t2\tcough\t2.0\t1.5\tC1\tC2\n",
        'Mean,Stdev,Term1,Term2,CUI1,CUI2\n1.5,80.1,"fever","cough","1","2"\n',
        "Mean,CUI1,CUI2,TERM1,TERM2\n1.5,1,2,fever,cough\n",
        "Physicians,Coders,CUI1,CUI2,TERM1,TERM2\n1,2,1,2,fever,cough\n",
        "id_1;id_2;text_1;text_2;score\n1;2;fever;cough;1.5\n",
        "index\tsentence1\tsentence2\tid1\tid2\tscore\n0\tfever\tcough\t1\t2\t1.5\n",
        "id_a\tid_b\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "1\t2\tfever\tcough\t1.5\tNEUTRAL\n",
    ],
    ids=["EHR-Rel", "UMNSRS", "MayoSRS", "MiniMayoSRS", "plain", "STS-B", "SICK"],
)
def test_published_layouts(tmp_path: Path, text: str) -> None:
    assert pairs(tmp_path, text) == WANTED
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_pairs(packed, Problems()) == WANTED


def test_three_columns_without_a_header(tmp_path: Path) -> None:
    text = '"A man, dancing",A woman  sings.,2.5\nOne.,"Two\nlines.",0\n'
    assert pairs(tmp_path, text) == [
        RatedPair("A man, dancing", "A woman sings.", 2.5, ("", ""), 1),
        RatedPair("One.", "Two lines.", 0.0, ("", ""), 2),
    ]
    assert pairs(tmp_path, 'say "a"\tb\t5\n') == [RatedPair('say "a"', "b", 5.0, ("", ""), 1)]


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    problems = Problems(adjustable=False)
    good = "fever\tcough\t1\n"
    rows = f"{good}\tcough\t1\nfever\tcough\tmuch\nfever\tcough\tnan\nfever\tcough\n{good * 3}"
    assert len(read_pairs(write(tmp_path, "text_1\ttext_2\tscore\n" + rows), problems)) == 4
    assert problems.bad == {"empty text": 1, "rating that is not a number": 2, "column count": 1}
    assert str(problems.examples[0]).endswith("pairs.tsv:3: empty text")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Erika Mustermann\tfever\n1\t2\n", r":1: looked for the columns of rated pairs; found 2 columns"),
        ("a\tb\tc\n1\t2\t3\n", r"Remedy: name the columns in the first line as docs/reference/evaluation\.md lists"),
        ("text_1\ttext_2\tscore\tscore\na\tb\t1\t2\n", r":1: the column score occurs twice"),
        ("text_1\ttext_2\tscore\n", r": there is no pair or triplet in it\. Remedy: give a file with"),
        ("text_1\ttext_2\tscore\n\tb\t1\n", r":2: 1 of 1 rows cannot be used \(empty text: 1\)"),
    ],
)
def test_refusals_of_pairs(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        pairs(tmp_path, text)


LABELLED = [
    {"sentence1": "He has fever.", "sentence2": "He is ill.", "gold_label": "entailment"},
    {"sentence1": "He has fever.", "sentence2": "He may cough.", "gold_label": "neutral"},
    {"sentence1": "He has fever.", "sentence2": "He is well.", "gold_label": "contradiction"},
    {"sentence1": "She coughs.", "sentence2": "She is ill.", "gold_label": "entailment"},
    {"sentence1": "He has fever.", "sentence2": "He is hot.", "gold_label": "entailment"},
]
TRIPLETS = [
    Triplet("He has fever.", "He is ill.", "He is well.", 1),
    Triplet("He has fever.", "He is hot.", "He is well.", 1),
]


def test_triplets_from_labelled_pairs(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(json.dumps(row) + "\n" for row in LABELLED), "mli.jsonl")
    assert has_triplets(path)
    assert read_triplets(path, Problems()) == TRIPLETS
    rows = ["\t".join(reversed(row.values())) for row in LABELLED]
    path = write(tmp_path, "\n".join(["gold_label\tsentence2\tsentence1", *rows, ""]))
    assert has_triplets(path)
    assert read_triplets(path, Problems()) == [replace(triplet, row=2) for triplet in TRIPLETS]


def test_triplets_from_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, "contradicted,premise,entailed\nc,p,e\n,p,e\n", "triplets.csv")
    problems = Problems(adjustable=False)
    assert has_triplets(path)
    assert read_triplets(path, problems) == [Triplet("p", "e", "c", 2)]
    assert problems.bad == {"empty text": 1}
    assert not has_triplets(write(tmp_path, "text_1\ttext_2\tscore\na\tb\t1\n"))


def test_bad_json_is_counted(tmp_path: Path) -> None:
    problems = Problems(adjustable=False)
    lines = [json.dumps(row) for row in LABELLED] + ["{", "[1]", '{"sentence1": 1}', '{"sentence1": "a"}', ""]
    path = write(tmp_path, "\n".join(lines) + "\n", "mli.jsonl")
    assert read_triplets(path, problems) == TRIPLETS
    assert problems.bad == {"no JSON object": 2, "no text under sentence1, sentence2, gold_label": 2}


def test_refusals_of_triplets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="looked for the columns of triplets; found 3 columns"):
        read_triplets(write(tmp_path, "a\tb\tc\n"), Problems())
    with pytest.raises(InputError, match="there is no pair or triplet in it"):
        read_triplets(write(tmp_path, json.dumps(LABELLED[0]) + "\n", "mli.jsonl"), Problems())
