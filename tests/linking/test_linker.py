"""From mentions to ranked concepts, on the demo bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

import medlink
from medlink import Linker, Mention
from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.kb import Input


@pytest.mark.parametrize(
    ("text", "language", "preferred"),
    [
        ("heart attack", "en", "myocardial infarction"),
        ("Herzinfarkt", "de", "Myokardinfarkt"),
        ("ataque al corazón", "es", "infarto agudo de miocardio"),
        ("Type II diabetes mellitus", "en", "type 2 diabetes mellitus"),
        ("pleural effusions", "en", "pleural effusion"),
    ],
)
def test_synonyms_in_three_languages(linker: Linker, text: str, language: str, preferred: str) -> None:
    (link,) = linker.link([Mention(text, language)])
    assert not link.nil
    assert link.candidates[0].preferred_name == preferred
    assert link.concept_id == link.candidates[0].concept_id


@pytest.mark.parametrize(
    ("text", "language", "wanted", "route"),
    [
        ("Herzinfarkt", "de", "Herzinfarkt", "exact"),
        ("HERZINFARKT", "de", "Herzinfarkt", "exact"),
        ("Lungenentzündungen", "de", "Lungenentzündung", "inflected"),
        ("Herzinfarct", "de", "Herzinfarkt", "inflected"),  # a spelling that German has
        ("Herzinfarrkt", "de", "Herzinfarkt", "words"),
        ("pneumnoia", "en", "pneumonia", "words"),
        ("Infarkt des Herzens", "de", "Herzinfarkt", "words"),  # a compound and its parts
    ],
)
def test_which_name_matched_and_how(linker: Linker, text: str, language: str, wanted: str, route: str) -> None:
    best = linker.link([Mention(text, language)])[0].candidates[0]
    assert (best.name, best.route) == (wanted, route)


def test_numbers_keep_concepts_apart(linker: Linker) -> None:
    for one, other in (("type 1 diabetes", "type 2 diabetes"), ("Diabetes mellitus Typ I", "Diabetes mellitus Typ II")):
        first, second = linker.link([one, other])
        assert first.concept_id != second.concept_id


def test_every_mention_gets_its_link_in_order(linker: Linker) -> None:
    texts = ["Fieber", "Husten", "Fieber", "", "😀", "Fieber"]
    links = linker.link([Mention(text, "de") for text in texts])
    assert [link.mention for link in links] == texts
    assert links[0] == links[2] == links[5]
    assert links[3].nil
    assert links[3].candidates == ()
    assert links[4].nil
    assert linker.link([]) == []


def test_scores_are_ordered_and_within_bounds(linker: Linker) -> None:
    for link in linker.link(["chest pain", "qqqq", "MS", "left", "kidney disease"], k=8):
        scores = [c.score for c in link.candidates]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= s <= 1 for s in scores)
        ids = [c.concept_id for c in link.candidates]
        assert len(set(ids)) == len(ids) <= 8


def test_nonsense_and_strange_acronyms_are_nil(linker: Linker) -> None:
    for link in linker.link(["qwrtz", "XKCD", "the weather was fine", "lorem ipsum dolor sit amet"]):
        assert link.nil, link
        assert link.concept_id is None


def test_a_batch_gives_what_single_calls_give(linker: Linker) -> None:
    texts = ["Herzinfarct", "MS", "dolor torácico", "T2DM", "x", "Fieber und Husten", "renal failure"] * 60
    assert linker.link(texts) == [linker.link([text])[0] for text in texts[:7]] * 60


def test_a_shared_name_shares_the_score(linker: Linker) -> None:
    (link,) = linker.link([Mention("MS", "en")])
    first, second = link.candidates[:2]
    assert {first.preferred_name, second.preferred_name} == {"multiple sclerosis", "mitral stenosis"}
    assert first.score == second.score < 0.5
    # the concept with more names comes first
    names = [list(linker.kb.names(concept.concept_id)) for concept in (first, second)]
    assert len(names[0]) > len(names[1])
    assert link.nil


def test_a_shared_name_is_first_of_all_its_preferred_concepts(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text(
        "concept_id\tname\tlanguage\ttype\nX:1\tdrowsiness\ten\tpreferred\nX:1\tsomnolence\ten\tsynonym\n"
        "X:2\tsomnolence\ten\tpreferred\n",
        encoding="utf-8",
    )
    medlink.build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    (link,) = Linker(medlink.build_bundle(tmp_path / "b", kb=tmp_path / "kb.sqlite"), language="en").link(
        ["somnolence"]
    )
    assert [c.concept_id for c in link.candidates[:2]] == ["X:2", "X:1"]
    assert link.candidates[0].score > 2 * link.candidates[1].score


@pytest.mark.parametrize(
    ("context", "preferred"),
    [
        (
            "MS: relapsing demyelination, neurology, lesions in brain and spinal cord, optic neuritis",
            "multiple sclerosis",
        ),
        ("MS with a diastolic murmur; echo: valve area 1.2 cm2, enlarged left atrium", "mitral stenosis"),
    ],
)
def test_context_decides_between_concepts_of_one_name(linker: Linker, context: str, preferred: str) -> None:
    (link,) = linker.link([Mention("MS", "en")], [context])
    assert link.candidates[0].preferred_name == preferred
    assert link.candidates[0].score > linker.link([Mention("MS", "en")])[0].candidates[0].score
    # a mention with one meaning does not change
    assert linker.link(["heart attack"], [context]) == linker.link(["heart attack"])


def test_an_abbreviation_links_as_its_long_form(linker: Linker) -> None:
    plain, expanded = linker.link([Mention("MS", "en"), Mention("MS", "en", "mitral stenosis")])
    assert plain.concept_id is None
    assert expanded.candidates[0].preferred_name == "mitral stenosis"
    assert (expanded.mention, expanded.expanded) == ("MS", "mitral stenosis")


def test_each_option_changes_the_result(demo: Bundle, linker: Linker) -> None:
    (base,) = linker.link(["Herzinfarkt"])
    assert Linker(demo, threshold=1.0).link(["Herzinfarkt"])[0].nil
    assert (
        Linker(demo, language="es").link(["Herzinfarkt"])[0].candidates[0].preferred_name
        != base.candidates[0].preferred_name
    )
    assert {c.language for c in Linker(demo, languages=["es"]).link(["Herzinfarkt"])[0].candidates} == {"es"}
    drugs = Linker(demo, semantic_types=["Drug"]).link(["Herzinfarkt"])[0].candidates
    assert {c.semantic_types for c in drugs} == {("Drug",)}
    assert len(linker.link(["Herzinfarkt"], k=1)[0].candidates) == 1
    with pytest.raises(ConfigError, match="no source 'HPO'"):
        Linker(demo, sources=["HPO"])
    assert Linker(demo, sources=["DEMO"]).link(["Herzinfarkt"]) == [base]


def test_wrong_values(demo: Bundle, linker: Linker) -> None:
    with pytest.raises(ConfigError, match=r"threshold is 1\.5, at least 0 and at most 1 expected"):
        Linker(demo, threshold=1.5)
    with pytest.raises(ConfigError, match="k is 0"):
        linker.link(["x"], k=0)
    with pytest.raises(ConfigError, match="1 contexts for 2 mentions"):
        linker.link(["x", "y"], ["z"])


def test_a_name_to_the_letter_beats_every_other(demo: Bundle) -> None:
    index = demo.index
    names = index.keys()[::37]
    entries = [index.entries_of(name) for name in names.tolist()]
    links = Linker(demo, threshold=0).link([of[0].text for of in entries])
    for of, link in zip(entries, links, strict=True):
        assert link.candidates[0].route == "exact"
        assert link.candidates[0].concept_id in {entry.concept_id for entry in of}


def test_every_name_of_one_concept_links_to_it(demo: Bundle, linker: Linker) -> None:
    entries = [demo.index.entries_of(name) for name in demo.index.keys().tolist()]
    own = [of[0] for of in entries if len({entry.concept_id for entry in of}) == 1]
    links = linker.link([Mention(entry.text, entry.language) for entry in own])
    assert len(own) > 4900
    assert [link.concept_id for link in links] == [entry.concept_id for entry in own]


def test_a_batch_of_languages_with_contexts_gives_what_single_calls_give(linker: Linker) -> None:
    asked = [
        (Mention("AD", "de"), "Demenz, Gedächtnis"),
        (Mention("AD", "es"), "piel y eccema"),
        (Mention("MS", "en"), "gait"),
    ]
    together = linker.link([m for m, _ in asked], [c for _, c in asked])
    assert together == [linker.link([m], [c])[0] for m, c in asked]


def test_languages_in_any_spelling(demo: Bundle) -> None:
    linker = Linker(demo)
    wanted = linker.link([Mention("Lungenentzündungen", "de")])[0].candidates
    for tag in ("DE", "de_AT", "ger"):
        assert linker.link([Mention("Lungenentzündungen", tag)])[0].candidates[0].route == "inflected"
        assert linker.link([Mention("Lungenentzündungen", tag)])[0].candidates[0].concept_id == wanted[0].concept_id
    with pytest.raises(ConfigError, match="unknown language 'German'"):
        linker.link([Mention("x", "German")])
    with pytest.raises(ConfigError, match="a list of mentions is expected"):
        linker.link("Herzinfarkt")


def test_regions_and_names_without_a_language(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("concept_id\tname\tlanguage\nX:1\tMarille\tde-AT\nX:2\tGicht\t\nX:3\tgout\ten\n", encoding="utf-8")
    medlink.build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    bundle = medlink.build_bundle(tmp_path / "b", kb=tmp_path / "kb.sqlite")
    german = Linker(bundle, language="de", languages=["de"], threshold=0)
    assert {c.concept_id for c in german.link(["Gicht"], k=9)[0].candidates} == {"X:1", "X:2"}
    assert {c.concept_id for c in Linker(bundle, languages=["DE-at"]).link(["x"], k=9)[0].candidates} == {"X:1", "X:2"}


@pytest.mark.parametrize(
    ("mention", "kind"),
    [(None, "NoneType"), (float("nan"), "float"), (("Fieber", "de"), "tuple"), (b"Fieber", "bytes")],
)
def test_what_is_no_mention_is_named_by_its_place_and_type(linker: Linker, mention: object, kind: str) -> None:
    for given in (mention, Mention(mention)):  # type: ignore[arg-type]  # what a table holds
        with pytest.raises(ConfigError) as error:
            linker.link(["Husten", given])  # type: ignore[list-item]  # the same
        assert str(error.value) == f"mentions[1] is of type {kind}, a text or a Mention expected"


def test_candidates_are_chosen_before_the_first_are_taken(demo: Bundle) -> None:
    every = Linker(demo).link(["Gartenzaun"], k=5)[0].candidates
    chosen = Linker(demo, among={every[1].concept_id, "X:none"}).link(["Gartenzaun"], k=1)[0].candidates
    assert [one.concept_id for one in chosen] == [every[1].concept_id]
    assert Linker(demo, among=[]).link(["Gartenzaun"])[0].candidates == ()
