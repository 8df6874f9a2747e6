"""What a house teaches: learned from annotated notes, written, merged, read, and used."""

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
    "b": "Rumpfkrise und RK 😀, Husten. rk?",
    "c": "Keine Rumpfkrise. RK bei schwerer Rumpfkrise.",
}
CONCEPTS = {"Rumpfkrise": FEVER, "RK": COUGH}


def brat(folder: Path, notes: dict[str, str], concepts: dict[str, str]) -> Path:
    """Notes as brat standoff in which some words are always annotated, the longest of those that overlap."""
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
    learn(demo, [brat(folder / "gold", NOTES, CONCEPTS)], folder / "house.jsonl")
    return folder / "house.jsonl"


def found(bundle: Bundle, text: str, learned: Path | None, **options: Any) -> list[LinkedMention]:
    path = None if learned is None else str(learned)
    return list(NotePipeline(bundle, language="de", learned=path, **options).link([Note("n", text)])[0].mentions)


def said(mentions: list[LinkedMention]) -> list[tuple[str, str | None]]:
    return [(one.link.mention, one.link.concept_id) for one in mentions]


def test_what_is_learned(learned: Path, demo: Bundle) -> None:
    head, entries = read_learned(learned)
    assert (head.kb, head.sources, head.notes) == (demo.versions["kb"], {"DEMO": ""}, 3)
    assert {at: (entry.notes, {k: dict(v) for k, v in entry.seen.items()}) for at, entry in entries.items()} == {
        ("rumpfkrise", "de"): (3, {"": {FEVER: 4}}),
        # "rk" in small letters is another mention, and nothing is said of it
        ("RK", "de"): (3, {"": {COUGH: 3}}),
        # a name of the bundle that is nowhere annotated
        ("husten", "de"): (2, {"": {NO_MENTION: 2}}),
    }


def test_what_is_learned_is_found(learned: Path, demo: Bundle) -> None:
    text = "Rumpfkrise, RK; keine Rumpfkrise. rk, Husten und Fieber"
    assert said(found(demo, text, None)) == [("Husten", COUGH), ("Fieber", FEVER)]
    mentions = found(demo, text, learned)
    assert said(mentions) == [("Rumpfkrise", FEVER), ("RK", COUGH), ("Rumpfkrise", FEVER), ("Fieber", FEVER)]
    first, second, third, _ = mentions
    assert [one.qualifiers and one.qualifiers.presence for one in (first, third)] == ["present", "absent"]
    best, other, *_ = first.link.candidates
    assert (best.score, best.route) == (round(5 / 6, 6), "learned")  # four of four, and one of each kind
    assert other.score <= 1 / 6
    assert second.link.candidates[0].score == 0.8


def test_the_threshold_and_filters_hold(learned: Path, demo: Bundle) -> None:
    one = found(demo, "Rumpfkrise", learned, threshold=0.9)[0].link
    assert (one.status, one.concept_id, one.candidates[0].concept_id) == ("nil", None, FEVER)
    own = {one.semantic_type for one in demo.kb.semantic_types(FEVER)}
    others = [name for name in demo.index.semantic_types if name not in own]
    assert found(demo, "Rumpfkrise", learned, semantic_types=others) == []
    assert said(found(demo, "Rumpfkrise", learned, languages=("en",))) == [("Rumpfkrise", FEVER)]
    verbatim = found(demo, "Rumpfkrise", learned, semantic_types=others, verbatim=True)
    assert FEVER not in {concept for _, concept in said(verbatim)}


def test_what_the_note_explains_goes_before(learned: Path, demo: Bundle) -> None:
    mentions = found(demo, "Rechtsseitiger Kopfschmerz (RK). RK seit gestern.", learned)
    assert {one.link.expanded for one in mentions if one.link.mention == "RK"} == {"Rechtsseitiger Kopfschmerz"}


def test_of_two_that_lie_in_each_other_the_longer_counts(demo: Bundle, tmp_path: Path) -> None:
    concepts = {"gelbe Krise": COUGH, "Krise": FEVER}
    notes = {"a": "Krise, gelbe Krise", "b": "Krise, gelbe Krise"}
    learn(demo, [brat(tmp_path / "gold", notes, concepts)], tmp_path / "house.jsonl")
    assert rows(tmp_path / "house.jsonl")["krise", "de"]["seen"] == {"": {FEVER: 2}}
    assert said(found(demo, "gelbe Krise. Krise", tmp_path / "house.jsonl")) == [
        ("gelbe Krise", COUGH),
        ("Krise", FEVER),
    ]


def test_the_section_goes_before_all_sections(demo: Bundle, tmp_path: Path) -> None:
    text = "Diagnosen:\nGZ\n\nTherapie:\nGZ\n"
    for name in ("a", "b"):
        brat(tmp_path / "gold", {name: text}, {"GZ": FEVER})
        path = tmp_path / "gold" / f"{name}.ann"
        path.write_text(path.read_text("utf-8").replace(f"T1 {FEVER}", f"T1 {COUGH}"), "utf-8")
    learn(demo, [tmp_path / "gold"], tmp_path / "house.jsonl")
    seen = rows(tmp_path / "house.jsonl")["GZ", "de"]["seen"]
    assert sorted(map(str, seen.values())) == sorted([str({FEVER: 2}), str({COUGH: 2})])
    assert len(seen) == 2
    assert said(found(demo, text, tmp_path / "house.jsonl")) == [("GZ", FEVER), ("GZ", COUGH)]
    assert found(demo, "Heute GZ.", tmp_path / "house.jsonl") == []  # each is as often as the other
    learn(demo, [tmp_path / "gold"], tmp_path / "house.jsonl", least_share=0.8)
    assert found(demo, text, tmp_path / "house.jsonl") == []


def test_a_denied_place_says_nothing_and_others_speak_against(demo: Bundle, tmp_path: Path) -> None:
    notes = {"a": "Krise.", "b": "Krise."}
    gold = brat(tmp_path / "gold", notes, {"Krise": FEVER})
    for name, text in (("a", "Krise. Krise."), ("c", "Keine Krise."), ("d", "Krise.")):
        brat(gold, {name: text}, {"nichts": FEVER})
    # some annotate a mention once in a note
    (gold / "a.ann").write_text(f"T0\tX 0 5\tKrise\nN0\tReference T0 {FEVER}\n", "utf-8")
    learn(demo, [gold], tmp_path / "house.jsonl", language="de")
    assert rows(tmp_path / "house.jsonl")["krise", "de"]["seen"] == {"": {FEVER: 2, NO_MENTION: 1}}


def test_mentions_without_a_concept_are_nil(demo: Bundle, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Husten stark.", "utf-8")
        (tmp_path / f"{name}.ann").write_text("T1\tX 0 6\tHusten\n", "utf-8")
    gold = [tmp_path / "a.ann", tmp_path / "b.ann"]
    learn(demo, gold, tmp_path / "house.jsonl", language="de")
    for verbatim in (False, True):
        (mention,) = found(demo, "Husten", tmp_path / "house.jsonl", verbatim=verbatim)
        assert (mention.link.mention, mention.link.status) == ("Husten", "nil")


def test_links_that_were_looked_through(demo: Bundle, tmp_path: Path) -> None:
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
    report = learn(demo, [tmp_path / "links.jsonl"], tmp_path / "house.jsonl")
    assert (report.notes, report.mentions, report.counted, dict(report.unknown)) == (2, 6, 4, {"X:1": 2})
    assert report.learned == {"concept": 1, "no concept": 1, "no mention": 1}
    assert {mention: row["seen"] for (mention, _), row in rows(tmp_path / "house.jsonl").items()} == {
        "rumpfkrise": {"history": {FEVER: 2}},
        "husten": {"": {"no mention": 2}},
        "fieber": {"": {"no concept": 2}},
    }


def test_what_stands_in_few_notes_stays_out(demo: Bundle, tmp_path: Path) -> None:
    """However often a name stands in the letter of its patient."""
    notes = {"a": f"Krise. {SECRET}, {SECRET}", "b": "Krise", "c": "gestern"}
    gold = brat(tmp_path / "gold", notes, {"Krise": FEVER, SECRET: COUGH})
    report = learn(demo, [gold], tmp_path / "house.jsonl", language="de")
    assert (report.learned, report.rare) == ({"concept": 1}, 1)
    assert SECRET.casefold() not in (tmp_path / "house.jsonl").read_text("utf-8").casefold()
    learn(demo, [gold], tmp_path / "all.jsonl", language="de", least_seen=1)
    assert (SECRET.casefold(), "de") in rows(tmp_path / "all.jsonl")


def test_pieces_and_parts_of_words_are_counted(demo: Bundle, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Leber- und Nierenkrise, Krise", "utf-8")
        rows_ = ["T1\tX 0 6;11 22\tLeber- Nierenkrise", "T2\tX 17 22\tkrise", f"T3\tX 24 29\tKrise\nN3\tR T3 {FEVER}"]
        (tmp_path / f"{name}.ann").write_text("\n".join(rows_) + "\n", "utf-8")
    gold = [tmp_path / "a.ann", tmp_path / "b.ann"]
    report = learn(demo, gold, tmp_path / "house.jsonl", language="de")
    assert (report.parted, report.inside, report.learned) == (2, 2, {"concept": 1})


def test_the_same_notes_give_the_same_bytes_and_parts_the_whole(learned: Path, demo: Bundle, tmp_path: Path) -> None:
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
    ("lines", "at", "message"),
    [
        ([ROW], 1, "is no file of learned mentions. Remedy: write it anew with learn()."),
        ([HEAD | {"version": 2}], 1, "is no file of learned mentions."),
        ([HEAD | {"notes": "2"}], 1, "is no file of learned mentions."),
        ([HEAD | {"least_share": 2}], 1, "is no file of learned mentions."),
        ([{**HEAD, "more": 1}], 1, "is no file of learned mentions."),
        ([HEAD, SECRET], 2, "1 of 2 rows cannot be used (no JSON object: 1)"),
        ([HEAD, ROW, ROW], 3, "is no learned mention, or there twice. Remedy: write it anew with learn()."),
        *(
            ([HEAD, ROW | wrong], 2, "is no learned mention, or there twice.")
            for wrong in (
                {"mention": " "}, {"mention": 3}, {"notes": 0}, {"notes": True}, {"seen": []}, {"seen": {"": []}},
                {"seen": {"": {FEVER: -1}}}, {"more": SECRET},
            )
        ),
    ],
)  # fmt: skip
def test_what_is_no_learned_file(lines: list[object], at: int, message: str, demo: Bundle, tmp_path: Path) -> None:
    path = write(tmp_path / "house.jsonl", *lines)
    with pytest.raises(InputError) as caught:
        NotePipeline(demo, learned=str(path))
    assert str(caught.value).startswith(f"{path}:{at}: {message}")
    assert " Remedy: " in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_cut_off_or_not_there(demo: Bundle, tmp_path: Path, learned: Path) -> None:
    (tmp_path / "cut.jsonl").write_bytes(learned.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"cut\.jsonl:4: the last line is cut off"):
        NotePipeline(demo, learned=str(tmp_path / "cut.jsonl"))
    with pytest.raises(InputError, match=r"no\.jsonl: no such file. Remedy: check the path"):
        NotePipeline(demo, learned=str(tmp_path / "no.jsonl"))
    with pytest.raises(ConfigError, match=r"learned is empty\. Remedy: change it, or leave it out"):
        NotePipeline(demo, learned="")


def test_concepts_that_the_bundle_does_not_have(demo: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = ROW | {"mention": "karies", "seen": {"": {"X:1": 3}}}
    path = write(tmp_path / "house.jsonl", HEAD, other, ROW)
    told: list[str] = []
    link_notes(
        demo, [Note("a", "Krise")], out=tmp_path / "out.jsonl", learned=str(path), language="de", say=told.append
    )
    said_of_it = f"{path}: 1 learned mention left out, of concepts that the bundle does not have; learned with HPO 1"
    assert told == [said_of_it]
    with caplog.at_level(logging.WARNING, "medlink"):
        config = {"bundle": str(demo.folder), "learned": str(path)}
        spacy.blank("de").add_pipe("medlink_mentions", config=config)
    assert said_of_it in caplog.text
    with pytest.raises(InputError, match=r"the bundle has none of its 1 concept. Remedy: learn from the notes again"):
        NotePipeline(demo, learned=str(write(tmp_path / "none.jsonl", HEAD, other)))


def test_links_say_what_they_depend_on(learned: Path, demo: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    link_notes(demo, [Note("a", "Rumpfkrise")], out=out, learned=str(learned), language="de")
    (line,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert line["versions"] == {
        **demo.versions,
        "learned": NotePipeline(demo, learned=str(learned)).versions["learned"],
    }
    with pytest.raises(ConfigError, match="the output is the input"):
        link_notes(demo, [Note("a", "Rumpfkrise")], out=learned, learned=str(learned))


def test_a_taught_mention_of_the_linker(demo: Bundle) -> None:
    linker = Linker(demo)
    taught, plain, unknown = linker.link(
        [
            Mention("Rumpfkrise", "de", likely=0.7, taught=FEVER),
            Mention("Rumpfkrise", "de"),
            Mention("Husten", "de", likely=0.9, taught="X:1"),
        ]
    )
    assert (taught.concept_id, taught.candidates[0].score, plain.concept_id) == (FEVER, 0.7, None)
    assert FEVER not in [one.concept_id for one in taught.candidates[1:]]
    assert unknown == linker.link([Mention("Husten", "de")])[0]


@pytest.mark.parametrize(
    ("notes", "concepts", "message"),
    [
        ({"n": SECRET}, {"nichts": FEVER}, r"n\.ann: no mention is annotated. Remedy: name files in which mentions"),
        (
            NOTES,
            {"Rumpfkrise": "X:1", "RK": "X:2"},
            r"none of the 2 concepts that are annotated\. Remedy: give a bundle",
        ),
        ({"a": "Rumpfkrise"}, CONCEPTS, r"none of its 1 mention is in 2 notes\. Remedy: name more notes, or lower"),
    ],
)
def test_nothing_to_learn(
    notes: dict[str, str], concepts: dict[str, str], message: str, demo: Bundle, tmp_path: Path
) -> None:
    gold, house = brat(tmp_path / "gold", notes, concepts), tmp_path / "house.jsonl"
    with pytest.raises(InputError, match=message):
        learn(demo, [gold], house)
    with pytest.raises(InputError, match=r"none of the 1 concept that are annotated"):
        learn(demo, [write(tmp_path / "old.jsonl", HEAD, ROW | {"seen": {"": {"X:1": 2}}})], house)
    assert not house.exists()
    with pytest.raises(ConfigError, match="the learned mentions is the input"):
        learn(demo, [gold], next(gold.glob("*.ann")))
