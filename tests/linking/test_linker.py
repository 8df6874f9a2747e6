"""From mentions to ranked concepts, on the demo bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

import medlink
from medlink.errors import BundleError, ConfigError
from medlink.index import Bundle
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner
from medlink.linking import Linker, LinkOptions, Mention
from medlink.linking.linker import MAX_SCORE_OF_OTHER_KIND
from tests.reading.bundles import bundle_of


@pytest.mark.parametrize(("text", "language", "preferred"), [
    ("heart attack", "en", "myocardial infarction"), ("Herzinfarkt", "de", "Myokardinfarkt"),
    ("ataque al corazón", "es", "infarto agudo de miocardio"),
    ("Type II diabetes mellitus", "en", "type 2 diabetes mellitus"), ("pleural effusions", "en", "pleural effusion"),
])  # fmt: skip
def test_synonyms_in_three_languages(linker: Linker, text: str, language: str, preferred: str) -> None:
    (link,) = linker.link([Mention(text, language)])
    assert not link.nil
    assert link.candidates[0].preferred_name == preferred
    assert link.concept_id == link.candidates[0].concept_id


@pytest.mark.parametrize(("text", "language", "name", "route"), [
    ("Herzinfarkt", "de", "Herzinfarkt", "exact"), ("HERZINFARKT", "de", "Herzinfarkt", "exact"),
    ("Lungenentzündungen", "de", "Lungenentzündung", "inflected"),
    ("Herzinfarct", "de", "Herzinfarkt", "inflected"),  # a German spelling variant
    ("Herzinfarrkt", "de", "Herzinfarkt", "words"), ("pneumnoia", "en", "pneumonia", "words"),
    ("Infarkt des Herzens", "de", "Herzinfarkt", "words"),  # a compound and its parts
])  # fmt: skip
def test_matched_name_and_route(linker: Linker, text: str, language: str, name: str, route: str) -> None:
    best = linker.link([Mention(text, language)])[0].candidates[0]
    assert (best.name, best.route) == (name, route)


def test_numbers_distinguish_concepts(linker: Linker) -> None:
    for pair in (("type 1 diabetes", "type 2 diabetes"), ("Diabetes mellitus Typ I", "Diabetes mellitus Typ II")):
        first, second = linker.link(pair)
        assert first.concept_id != second.concept_id


def test_links_are_in_the_order_of_mentions(linker: Linker) -> None:
    texts = ["Fieber", "Husten", "Fieber", "", "😀", "Fieber"]
    links = linker.link([Mention(text, "de") for text in texts])
    assert [link.mention for link in links] == texts
    assert links[0] == links[2] == links[5]
    assert links[3].nil
    assert links[3].candidates == ()
    assert links[4].nil
    assert linker.link([]) == []


def test_scores_are_ordered_and_bounded(linker: Linker) -> None:
    for link in linker.link(["chest pain", "qqqq", "MS", "left", "kidney disease"], k=8):
        scores = [c.score for c in link.candidates]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        ids = [c.concept_id for c in link.candidates]
        assert len(set(ids)) == len(ids) <= 8


def test_nonsense_and_unknown_acronyms_are_nil(linker: Linker) -> None:
    for link in linker.link(["qwrtz", "XKCD", "the weather was fine", "lorem ipsum dolor sit amet"]):
        assert link.nil, link
        assert link.concept_id is None


def test_a_batch_gives_what_single_calls_give(linker: Linker) -> None:
    texts = ["Herzinfarct", "MS", "dolor torácico", "T2DM", "x", "Fieber und Husten", "renal failure"]
    assert linker.link(texts * 60) == [linker.link([text])[0] for text in texts] * 60
    pairs = [
        (Mention("AD", "de"), "Demenz, Gedächtnis"),
        (Mention("AD", "es"), "piel y eccema"),
        (Mention("MS", "en"), "gait"),
    ]
    together = linker.link([mention for mention, _ in pairs], [context for _, context in pairs])
    assert together == [linker.link([mention], [context])[0] for mention, context in pairs]


def test_concepts_with_the_same_name_share_its_score(linker: Linker) -> None:
    (link,) = linker.link([Mention("MS", "en")])
    first, second = link.candidates[:2]
    assert {first.preferred_name, second.preferred_name} == {"multiple sclerosis", "mitral stenosis"}
    assert first.score == second.score < 0.5
    # the concept with more names comes first
    names = [list(linker.kb.names(concept.concept_id)) for concept in (first, second)]
    assert len(names[0]) > len(names[1])


@pytest.mark.parametrize(("context", "preferred"), [
    ("MS: relapsing demyelination, neurology, lesions in brain and spinal cord, optic neuritis", "multiple sclerosis"),
    ("MS with a diastolic murmur; echo: valve area 1.2 cm2, enlarged left atrium", "mitral stenosis"),
])  # fmt: skip
def test_context_decides_between_concepts_with_the_same_name(linker: Linker, context: str, preferred: str) -> None:
    (link,) = linker.link([Mention("MS", "en")], [context])
    assert link.candidates[0].preferred_name == preferred
    assert link.candidates[0].score > linker.link([Mention("MS", "en")])[0].candidates[0].score
    # an unambiguous mention does not change
    assert linker.link(["heart attack"], [context]) == linker.link(["heart attack"])


def test_an_abbreviation_links_as_its_long_form(linker: Linker) -> None:
    plain, expanded = linker.link([Mention("MS", "en"), Mention("MS", "en", "mitral stenosis")])
    assert plain.concept_id is None
    assert expanded.candidates[0].preferred_name == "mitral stenosis"
    assert (expanded.mention, expanded.expanded) == ("MS", "mitral stenosis")


def test_each_option_changes_the_result(demo: Bundle, linker: Linker) -> None:
    (base,) = linker.link(["Herzinfarkt"])
    assert Linker(demo, threshold=1.0).link(["Herzinfarkt"])[0].nil
    spanish = Linker(demo, language="es").link(["Herzinfarkt"])[0].candidates[0]
    assert spanish.preferred_name != base.candidates[0].preferred_name
    assert {c.language for c in Linker(demo, languages=["es"]).link(["Herzinfarkt"])[0].candidates} == {"es"}
    drugs = Linker(demo, semantic_types=["Drug"]).link(["Herzinfarkt"])[0].candidates
    assert {c.semantic_types for c in drugs} == {("Drug",)}
    assert len(linker.link(["Herzinfarkt"], k=1)[0].candidates) == 1
    with pytest.raises(ConfigError, match="no source 'HPO'"):
        Linker(demo, sources=["HPO"])
    assert Linker(demo, sources=["DEMO"]).link(["Herzinfarkt"]) == [base]


def test_invalid_arguments(linker: Linker) -> None:
    with pytest.raises(ConfigError, match="k is 0"):
        linker.link(["x"], k=0)
    with pytest.raises(ConfigError, match="1 contexts for 2 mentions"):
        linker.link(["x", "y"], ["z"])
    with pytest.raises(ConfigError, match="unknown language 'German'"):
        linker.link([Mention("x", "German")])
    with pytest.raises(ConfigError, match="a list of mentions is expected"):
        linker.link("Herzinfarkt")


@pytest.mark.parametrize(
    ("mention", "kind"),
    [(None, "NoneType"), (float("nan"), "float"), (("Fieber", "de"), "tuple"), (b"Fieber", "bytes")],
)
def test_an_invalid_mention_is_named_by_position_and_type(linker: Linker, mention: object, kind: str) -> None:
    for item in (mention, Mention(mention)):  # type: ignore[arg-type]  # as from a table
        with pytest.raises(ConfigError, match=rf"^mentions\[1\] is of type {kind}, a text or a Mention expected$"):
            linker.link(["Husten", item])  # type: ignore[list-item]  # as from a table


@pytest.mark.slow
def test_every_name_of_the_demo_links_to_its_concept(demo: Bundle, linker: Linker) -> None:
    entries = [demo.index.entries_of(name) for name in demo.index.keys().tolist()]
    own = [of[0] for of in entries if len({entry.concept_id for entry in of}) == 1]
    links = linker.link([Mention(entry.text, entry.language) for entry in own])
    assert len(own) > 4900
    assert [link.concept_id for link in links] == [entry.concept_id for entry in own]
    # a shared name has all of its concepts, and is matched exactly
    some = entries[::37]
    for of, link in zip(some, linker.link([of[0].text for of in some]), strict=True):
        assert link.candidates[0].route == "exact"
        assert link.candidates[0].concept_id in {entry.concept_id for entry in of}


def test_languages_in_any_spelling(linker: Linker) -> None:
    wanted = linker.link([Mention("Lungenentzündungen", "de")])[0].candidates
    for tag in ("DE", "de_AT", "ger"):
        best = linker.link([Mention("Lungenentzündungen", tag)])[0].candidates[0]
        assert (best.route, best.concept_id) == ("inflected", wanted[0].concept_id)


def test_among_is_applied_before_k(demo: Bundle) -> None:
    every = Linker(demo).link(["Gartenzaun"], k=5)[0].candidates
    chosen = Linker(demo, among={every[1].concept_id, "X:none"}).link(["Gartenzaun"], k=1)[0].candidates
    assert [candidate.concept_id for candidate in chosen] == [every[1].concept_id]
    assert Linker(demo, among=[]).link(["Gartenzaun"])[0].candidates == ()


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    rows = [
        "X:1\tZyste\tde-AT\tpreferred", "X:2\tquiste\tes-MX\tpreferred", "X:3\tPolyp\t\tpreferred",
        "X:4\tcyst II\t\tpreferred", "X:5\tgout\tfr\tpreferred", "X:6\tdrowsiness\ten\tpreferred",
        "X:6\tsomnolence\ten\tsynonym", "X:7\tsomnolence\ten\tpreferred",
    ]  # fmt: skip
    return Bundle(bundle_of(tmp_path_factory.mktemp("regions"), *rows, columns="concept_id\tname\tlanguage\ttype"))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "language", "concept_id", "route"), [
    ("Zysten", "de", "X:1", "inflected"), ("quistes", "es", "X:2", "inflected"), ("POLYP", "de", "X:3", "exact"),
    ("CYST II", "en", "X:4", "exact"),
])  # fmt: skip
def test_regions_and_untagged_names_belong_to_a_language(
    regions: Bundle, text: str, language: str, concept_id: str, route: str
) -> None:
    """A region counts as its language; a name without a language passes every filter and is found in every text."""
    reader = shared_analyser(regions.index.forms)
    found = [match.names for match in regions.index.find(Scanner(language, reader).scan(f"x {text}; y"), language)]
    assert found == [regions.index.lookup(text, language)]
    for options in ({}, {"languages": [language]}, {"language": language}):
        link = Linker(regions, **options).link([Mention(text, language)])[0]
        assert (link.concept_id, link.candidates[0].route) == (concept_id, route)
    other = {"de": "es", "es": "de", "en": "de"}[language]
    assert bool(regions.index.find(Scanner(other, reader).scan(f"x {text}; y"), other)) == (route == "exact")


def test_language_filters_include_regions(regions: Bundle) -> None:
    for tag in ("de", "DE-at"):
        candidates = Linker(regions, languages=[tag], threshold=0).link(["Polyp"], k=9)[0].candidates
        assert {candidate.concept_id for candidate in candidates} == {"X:1", "X:3", "X:4"}


def test_a_shared_name_belongs_first_to_the_concept_that_prefers_it(regions: Bundle) -> None:
    (link,) = Linker(regions, language="en").link(["somnolence"])
    assert [candidate.concept_id for candidate in link.candidates[:2]] == ["X:7", "X:6"]
    assert link.candidates[0].score > 2 * link.candidates[1].score


def test_a_missing_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such"):
        medlink.load(tmp_path / "none")


def test_default_options() -> None:
    assert all(field.description for field in LinkOptions.model_fields.values())
    assert LinkOptions().to_dict() == {
        "k": 5, "threshold": 0.5, "language": None, "languages": [], "sources": [], "semantic_types": [],
        "under": [], "not_under": [], "ecl": None,
        "ranker": None, "ranker_cache": None, "prefer": [], "presume": True, "resolve": "none",
    }  # fmt: skip
    assert LinkOptions(prefer=["B, A", "C"]).prefer == ("B", "A", "C")
    assert LinkOptions(languages=["es", "de"], sources={"B", "A"}).filter.sources == ("A", "B")


NAMES = [
    "X:1\tHemolytic anemia\ten", "X:1\tHämolytische Anämie\tde", "X:1\tAnemia hemolítica\tes",
    "X:2\tAtopic dermatitis\ten", "X:2\tAtopisches Ekzem\tde", "X:2\tEccema atópico\tes",
    "X:3\tProductive cough\ten", "X:4\tNonproductive cough\ten", "X:5\tAsthma\ten",
    "X:6\tAlergia a un medicamento\tes",
]  # fmt: skip


@pytest.fixture(scope="module")
def anaemia(tmp_path_factory: pytest.TempPathFactory) -> Linker:
    return Linker(bundle_of(tmp_path_factory.mktemp("negation"), *NAMES))


@pytest.mark.parametrize(("text", "language", "concept"), [
    ("non-hemolytic anemia", "en", "X:1"), ("nonhemolytic anemia", "en", "X:1"),
    ("nicht-hämolytische Anämie", "de", "X:1"), ("nichthämolytische Anämie", "de", "X:1"),
    ("anemia no hemolítica", "es", "X:1"), ("eczema, not atopic dermatitis", "en", "X:2"),
    ("nicht-atopisches Ekzem", "de", "X:2"), ("eccema no atópico", "es", "X:2"),
])  # fmt: skip
def test_a_name_that_asserts_the_negated_word_is_no_link(
    anaemia: Linker, text: str, language: str, concept: str
) -> None:
    (found,) = anaemia.link([Mention(text, language)])
    assert found.status == "nil"
    assert all(one.score <= MAX_SCORE_OF_OTHER_KIND for one in found.candidates if one.concept_id == concept)


@pytest.mark.parametrize(("text", "language", "concept"), [
    ("non-productive cough", "en", "X:4"),  # the name has the same negation
    ("non-allergic asthma", "en", "X:5"),  # the name says nothing of what is negated
    ("no asthma", "en", "X:5"),  # a denial names what it denies
    ("alergia a medicamentos ni a alimentos", "es", "X:6"),
])  # fmt: skip
def test_what_is_not_negated(anaemia: Linker, text: str, language: str, concept: str) -> None:
    (found,) = anaemia.link([Mention(text, language)])
    assert (found.status, found.candidates[0].concept_id) == ("linked", concept)
