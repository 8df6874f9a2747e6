"""Learned mentions: learned from annotated notes, written, merged, read, and used."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import spacy

from medlink import link_notes
from medlink.errors import ConfigError, InputError
from medlink.index import Bundle
from medlink.linking import Linker, Mention
from medlink.notes.learned import read_learned
from medlink.notes.learning import learn
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.notes.writers import LinkedMention
from medlink.reading.learned import NO_MENTION

FEVER, COUGH = "DEMO:0209", "DEMO:0226"
SECRET = "Quartermainitis"
NOTES = {
    "a": "Seit gestern Rumpfkrise. RK, Husten.",
    "b": "Rumpfkrise und RK 😀, Husten. Auch rk?",
    "c": "Keine Rumpfkrise. RK bei schwerer Rumpfkrise.",
}
CONCEPTS = {"Rumpfkrise": FEVER, "RK": COUGH}


def brat(folder: Path, notes: dict[str, str], concepts: dict[str, str]) -> Path:
    """Notes as brat standoff with all occurrences of some words annotated, the longest first."""
    folder.mkdir(exist_ok=True)
    words = "|".join(rf"\b{word}\b" for word in sorted(concepts, key=len, reverse=True))
    for name, text in notes.items():
        lines = [
            f"T{n}\tX {one.start()} {one.end()}\t{one[0]}\nN{n}\tReference T{n} {concepts[one[0]]}\n"
            for n, one in enumerate(re.finditer(words, text))
        ]
        (folder / f"{name}.txt").write_bytes(text.encode())
        (folder / f"{name}.ann").write_text("".join(lines), "utf-8")
    return folder


def rows(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {(row["mention"], row["language"]): row for row in lines[1:]}


@pytest.fixture(scope="module")
def learned(demo: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned")
    learn(demo, [brat(folder / "gold", NOTES, CONCEPTS)], folder / "learned.jsonl")
    return folder / "learned.jsonl"


def found(bundle: Bundle, text: str, learned: Path | None, **options: Any) -> list[LinkedMention]:
    path = None if learned is None else str(learned)
    return list(NotePipeline(bundle, language="de", learned=path, **options).link([Note("n", text)])[0].mentions)


def linked_concepts(mentions: list[LinkedMention]) -> list[tuple[str, str | None]]:
    return [(one.link.mention, one.link.concept_id) for one in mentions]


def test_entries(learned: Path, demo: Bundle) -> None:
    head, entries = read_learned(learned)
    assert (head.kb, head.sources, head.notes) == (demo.versions["kb"], {"DEMO": ""}, 3)
    assert {at: (entry.notes, {k: dict(v) for k, v in entry.seen.items()}) for at, entry in entries.items()} == {
        ("rumpfkrise", "de"): (3, {"": {FEVER: 4}}),
        # "rk" in lower case is another mention, without annotations
        ("RK", "de"): (3, {"": {COUGH: 3}}),
        # a name of the bundle that is never annotated
        ("husten", "de"): (2, {"": {NO_MENTION: 2}}),
    }


def test_learned_mentions_are_found(learned: Path, demo: Bundle) -> None:
    text = "Rumpfkrise, RK; keine Rumpfkrise. rk, Husten und Fieber"
    assert linked_concepts(found(demo, text, None)) == [("Husten", COUGH), ("Fieber", FEVER)]
    mentions = found(demo, text, learned)
    assert linked_concepts(mentions) == [("Rumpfkrise", FEVER), ("RK", COUGH), ("Rumpfkrise", FEVER), ("Fieber", FEVER)]
    first, second, third, _ = mentions
    assert [one.qualifiers and one.qualifiers.presence for one in (first, third)] == ["present", "absent"]
    best, other, *_ = first.link.candidates
    assert (best.score, best.route) == (round(5 / 6, 6), "learned")  # four of four, with Laplace smoothing
    assert other.score <= 1 / 6
    assert second.link.candidates[0].score == 0.8


def test_threshold_and_filters(learned: Path, demo: Bundle) -> None:
    one = found(demo, "Rumpfkrise", learned, threshold=0.9)[0].link
    assert (one.status, one.concept_id, one.candidates[0].concept_id) == ("nil", None, FEVER)
    own = {one.semantic_type for one in demo.kb.semantic_types(FEVER)}
    others = [name for name in demo.index.semantic_types if name not in own]
    assert found(demo, "Rumpfkrise", learned, semantic_types=others) == []
    assert linked_concepts(found(demo, "Rumpfkrise", learned, languages=("en",))) == [("Rumpfkrise", FEVER)]
    verbatim = found(demo, "Rumpfkrise", learned, semantic_types=others, verbatim=True)
    assert FEVER not in {concept for _, concept in linked_concepts(verbatim)}


def test_abbreviations_of_the_note_have_priority(learned: Path, demo: Bundle) -> None:
    mentions = found(demo, "Rechtsseitiger Kopfschmerz (RK). RK seit gestern.", learned)
    assert {one.link.expanded for one in mentions if one.link.mention == "RK"} == {"Rechtsseitiger Kopfschmerz"}


def test_the_longer_of_nested_mentions(demo: Bundle, tmp_path: Path) -> None:
    concepts = {"gelbe Krise": COUGH, "Krise": FEVER}
    notes = {"a": "Krise, gelbe Krise", "b": "Krise, gelbe Krise"}
    learn(demo, [brat(tmp_path / "gold", notes, concepts)], tmp_path / "learned.jsonl")
    assert rows(tmp_path / "learned.jsonl")["krise", "de"]["seen"] == {"": {FEVER: 2}}
    assert linked_concepts(found(demo, "gelbe Krise. Krise", tmp_path / "learned.jsonl")) == [
        ("gelbe Krise", COUGH),
        ("Krise", FEVER),
    ]


def test_the_section_has_priority(demo: Bundle, tmp_path: Path) -> None:
    text = "Diagnosen:\nGZ\n\nTherapie:\nGZ\n"
    for name in ("a", "b"):
        brat(tmp_path / "gold", {name: text}, {"GZ": FEVER})
        path = tmp_path / "gold" / f"{name}.ann"
        path.write_text(path.read_text("utf-8").replace(f"T1 {FEVER}", f"T1 {COUGH}"), "utf-8")
    learn(demo, [tmp_path / "gold"], tmp_path / "learned.jsonl")
    seen = rows(tmp_path / "learned.jsonl")["GZ", "de"]["seen"]
    assert sorted(map(str, seen.values())) == sorted([str({FEVER: 2}), str({COUGH: 2})])
    assert len(seen) == 2
    assert linked_concepts(found(demo, text, tmp_path / "learned.jsonl")) == [("GZ", FEVER), ("GZ", COUGH)]
    assert found(demo, "Heute GZ.", tmp_path / "learned.jsonl") == []  # both are equally frequent
    learn(demo, [tmp_path / "gold"], tmp_path / "learned.jsonl", least_share=0.8)
    assert found(demo, text, tmp_path / "learned.jsonl") == []


def test_negated_and_unannotated_occurrences(demo: Bundle, tmp_path: Path) -> None:
    notes = {"a": "Krise.", "b": "Krise."}
    gold = brat(tmp_path / "gold", notes, {"Krise": FEVER})
    for name, text in (("a", "Krise. Krise."), ("c", "Keine Krise."), ("d", "Krise.")):
        brat(gold, {name: text}, {"nichts": FEVER})
    # some annotators mark a mention only once in a note
    (gold / "a.ann").write_text(f"T0\tX 0 5\tKrise\nN0\tReference T0 {FEVER}\n", "utf-8")
    learn(demo, [gold], tmp_path / "learned.jsonl", language="de")
    assert rows(tmp_path / "learned.jsonl")["krise", "de"]["seen"] == {"": {FEVER: 2, NO_MENTION: 1}}


def test_mentions_without_a_concept_are_nil(demo: Bundle, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Husten stark.", "utf-8")
        (tmp_path / f"{name}.ann").write_text("T1\tX 0 6\tHusten\n", "utf-8")
    gold = [tmp_path / "a.ann", tmp_path / "b.ann"]
    learn(demo, gold, tmp_path / "learned.jsonl", language="de")
    for verbatim in (False, True):
        (mention,) = found(demo, "Husten", tmp_path / "learned.jsonl", verbatim=verbatim)
        assert (mention.link.mention, mention.link.status) == ("Husten", "nil")


def test_reviewed_links(demo: Bundle, tmp_path: Path) -> None:
    links = [
        {"note": note, "text": text, "language": "de", "concept_id": concept, "section": section, **decision}
        for note in ("a", "b")
        for text, concept, section, decision in (
            ("Rumpfkrise", f"DEMO:{FEVER}", "history", {}),
            ("Husten", COUGH, None, {"decision": "reject"}),
            ("Fieber", None, None, {"decision": "accept"}),
            (SECRET, "X:1", None, {}),
        )
    ]
    (tmp_path / "links.jsonl").write_text("".join(json.dumps(one) + "\n" for one in links), "utf-8")
    report = learn(demo, [tmp_path / "links.jsonl"], tmp_path / "learned.jsonl")
    assert (report.notes, report.mentions, report.counted, dict(report.unknown)) == (2, 6, 4, {"X:1": 2})
    assert report.learned == {"concept": 1, "no concept": 1, "no mention": 1}
    assert {mention: row["seen"] for (mention, _), row in rows(tmp_path / "learned.jsonl").items()} == {
        "rumpfkrise": {"history": {FEVER: 2}},
        "husten": {"": {"no mention": 2}},
        "fieber": {"": {"no concept": 2}},
    }


def test_rare_mentions_are_left_out(demo: Bundle, tmp_path: Path) -> None:
    """Such as the name of a patient, however frequent in one note."""
    notes = {"a": f"Krise. {SECRET}, {SECRET}", "b": "Krise", "c": "gestern"}
    gold = brat(tmp_path / "gold", notes, {"Krise": FEVER, SECRET: COUGH})
    report = learn(demo, [gold], tmp_path / "learned.jsonl", language="de")
    assert (report.learned, report.rare) == ({"concept": 1}, 1)
    assert SECRET.casefold() not in (tmp_path / "learned.jsonl").read_text("utf-8").casefold()
    learn(demo, [gold], tmp_path / "all.jsonl", language="de", least_seen=1)
    assert (SECRET.casefold(), "de") in rows(tmp_path / "all.jsonl")


def test_discontinuous_mentions_and_parts_of_words(demo: Bundle, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Leber- und Nierenkrise, Krise", "utf-8")
        rows_ = ["T1\tX 0 6;11 22\tLeber- Nierenkrise", "T2\tX 17 22\tkrise", f"T3\tX 24 29\tKrise\nN3\tR T3 {FEVER}"]
        (tmp_path / f"{name}.ann").write_text("\n".join(rows_) + "\n", "utf-8")
    gold = [tmp_path / "a.ann", tmp_path / "b.ann"]
    report = learn(demo, gold, tmp_path / "learned.jsonl", language="de")
    assert (report.discontinuous, report.partial_words, report.learned) == (2, 2, {"concept": 1})


def test_output_is_reproducible_and_can_be_merged(learned: Path, demo: Bundle, tmp_path: Path) -> None:
    gold = learned.parent / "gold"
    learn(demo, [gold], tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == learned.read_bytes()
    assert learned.stat().st_mode & 0o777 == 0o600
    for name in NOTES:
        learn(demo, [gold / f"{name}.txt"], tmp_path / f"{name}.jsonl", least_seen=1, language="de")
    report = learn(demo, [tmp_path / f"{name}.jsonl" for name in NOTES], tmp_path / "whole.jsonl")
    assert report.notes == 3
    assert (tmp_path / "whole.jsonl").read_bytes() == learned.read_bytes()


HEAD = {
    "medlink": "learned mentions", "version": 1, "kb": "k", "sources": {"HPO": "1"}, "notes": 2, "least_seen": 2,
    "least_share": 0.5,
}  # fmt: skip
ROW = {"mention": "krise", "language": "de", "notes": 2, "seen": {"": {FEVER: 2}}}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        ([ROW], 1, "not a file of learned mentions"),
        *(
            ([HEAD | wrong], 1, "not a file of learned mentions")
            for wrong in ({"version": 2}, {"notes": "2"}, {"least_share": 2}, {"more": 1})
        ),
        ([HEAD, SECRET], 2, "1 of 2 rows cannot be used"),
        ([HEAD, ROW, ROW], 3, "not a learned mention, or a duplicate"),
        *(
            ([HEAD, ROW | wrong], 2, "not a learned mention, or a duplicate")
            for wrong in (
                {"mention": " "}, {"mention": 3}, {"notes": 0}, {"notes": True}, {"seen": []}, {"seen": {"": []}},
                {"seen": {"": {FEVER: -1}}}, {"more": SECRET},
            )
        ),
    ],
)  # fmt: skip
def test_an_invalid_file(lines: list[object], number: int, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "learned.jsonl", *lines)
    with pytest.raises(InputError, match=" Remedy: ") as caught:
        read_learned(path)
    assert str(caught.value).startswith(f"{path}:{number}: {message}")
    assert SECRET not in str(caught.value)


def test_a_truncated_or_missing_file(demo: Bundle, tmp_path: Path, learned: Path) -> None:
    (tmp_path / "cut.jsonl").write_bytes(learned.read_bytes()[:-9])
    for path, error, message in (
        (str(tmp_path / "cut.jsonl"), InputError, r"cut\.jsonl:4: the last line is cut off"),
        (str(tmp_path / "no.jsonl"), InputError, r"no\.jsonl: no such file"),
        ("", ConfigError, "learned is empty"),
    ):
        with pytest.raises(error, match=message):
            NotePipeline(demo, learned=path)


@pytest.mark.slow
def test_unknown_concepts(demo: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = ROW | {"mention": "karies", "seen": {"": {"X:1": 3}}}
    path = write(tmp_path / "learned.jsonl", HEAD, other, ROW)
    messages: list[str] = []
    options: dict[str, Any] = {"learned": str(path), "language": "de", "on_message": messages.append}
    link_notes(demo, [Note("a", "Krise")], out=tmp_path / "out.jsonl", **options)
    (message,) = messages
    assert message.startswith(f"{path}: 1 learned mention left out")
    assert message.endswith("HPO 1")
    with caplog.at_level(logging.WARNING, "medlink"):
        config = {"bundle": str(demo.folder), "learned": str(path)}
        spacy.blank("de").add_pipe("medlink_mentions", config=config)
    assert message in caplog.text
    with pytest.raises(InputError, match="the bundle has none of its 1 concept"):
        NotePipeline(demo, learned=str(write(tmp_path / "none.jsonl", HEAD, other)))


def test_versions_of_links(learned: Path, demo: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    link_notes(demo, [Note("a", "Rumpfkrise")], out=out, learned=str(learned), language="de")
    (line,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert line["versions"] == NotePipeline(demo, learned=str(learned)).versions != demo.versions
    with pytest.raises(ConfigError, match="the output is the input"):
        link_notes(demo, [Note("a", "Rumpfkrise")], out=learned, learned=str(learned))


def test_a_learned_mention_of_the_linker(demo: Bundle) -> None:
    linker = Linker(demo)
    found, plain, unknown = linker.link(
        [
            Mention("Rumpfkrise", "de", confidence=0.7, learned_id=FEVER),
            Mention("Rumpfkrise", "de"),
            Mention("Husten", "de", confidence=0.9, learned_id="X:1"),
        ]
    )
    assert (found.concept_id, found.candidates[0].score, plain.concept_id) == (FEVER, 0.7, None)
    assert FEVER not in [one.concept_id for one in found.candidates[1:]]
    assert unknown == linker.link([Mention("Husten", "de")])[0]


@pytest.mark.parametrize(
    ("notes", "concepts", "message"),
    [
        ({"n": SECRET}, {"nichts": FEVER}, r"n\.ann: no mention is annotated"),
        (NOTES, {"Rumpfkrise": "X:1", "RK": "X:2"}, "none of the 2 concepts that are annotated"),
        ({"a": "Rumpfkrise"}, CONCEPTS, "none of its 1 mention is in 2 notes"),
    ],
)
def test_nothing_to_learn(
    notes: dict[str, str], concepts: dict[str, str], message: str, demo: Bundle, tmp_path: Path
) -> None:
    gold, out = brat(tmp_path / "gold", notes, concepts), tmp_path / "learned.jsonl"
    with pytest.raises(InputError, match=message):
        learn(demo, [gold], out)
    with pytest.raises(InputError, match=r"none of the 1 concept that are annotated"):
        learn(demo, [write(tmp_path / "old.jsonl", HEAD, ROW | {"seen": {"": {"X:1": 2}}})], out)
    assert not out.exists()
    with pytest.raises(ConfigError, match="the learned mentions is the input"):
        learn(demo, [gold], next(gold.glob("*.ann")))
