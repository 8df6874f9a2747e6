"""Descriptions of code lists: their parts, their domain, names of laboratory tests, routes of drugs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.index import Bundle, build_bundle
from medlink.index.word_coverage import WordKinds
from medlink.kb import Input, build_kb
from medlink.language.lexicon.forms import shipped_forms
from medlink.linking.candidates import QueryBatch
from medlink.linking.drugs import codes_of_route
from medlink.linking.features import compute_features
from medlink.linking.ranking import default_ranker
from medlink.mapping import Mapper, SourceCode, map_codes
from medlink.mapping.abbreviations import DRUG, TEST, expand
from medlink.mapping.laboratory import full_names
from medlink.mapping.linkers import estimate_priors, priors_of
from medlink.mapping.ranking import FEATURES, KINDS, DescriptionRanker, MainPartRanker, columns, main_part
from medlink.records import Candidate, Link
from tests.tables import cases


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of drugs, procedures, laboratory tests and organisms, with one English name each."""
    folder = tmp_path_factory.mktemp("lists")
    build_kb(folder / "kb.sqlite", [Input("table", Path(__file__).with_name("lists.tsv"))])
    return Bundle(build_bundle(folder / "bundle", kb=folder / "kb.sqlite", encoder="builtin").folder)


def first(bundle: Bundle, name: str, *, unit: str = "", language: str = "en") -> str:
    """The first candidate of a description."""
    found = Mapper(bundle).propose([SourceCode("1", name, unit=unit, language=language)])
    return found[0].candidates[0].concept_id


@pytest.mark.parametrize(("name", "unit", "language", "concept"), cases(__file__, "first_candidates.tsv"))
def test_first_candidates(lists: Bundle, name: str, unit: str, language: str, concept: str) -> None:
    """The word that names a concept outweighs the rest; unit and specimen decide between tests."""
    assert first(lists, name, unit=unit, language=language) == concept


def test_another_property_is_another_test(lists: Bundle) -> None:
    names = ["Sodium", "Natrium"]
    for unit, right, wrong in (("mmol/l", "L:1", "L:3"), ("mg/dl", "L:3", "L:1")):
        codes = [SourceCode("1", name, unit=unit, language="en") for name in names]
        for found in Mapper(lists).propose(codes):
            scores = {candidate.concept_id: candidate.score for candidate in found.candidates}
            assert scores[right] > 0.5 > 10 * scores[wrong]


@pytest.mark.parametrize("name", ["Cholesterin", "Krea i.S.", "Kreatinin", "Harnstoff", "Laktat", "Eisen"])
def test_another_component_is_never_proposed(lists: Bundle, name: str) -> None:
    """Neither another substance of the same property and specimen, nor one more, nor a ratio, nor a drug."""
    found = Mapper(lists).propose([SourceCode("1", name, unit="mg/dl", language="de")])[0]
    assert found.link == "nil"
    assert found.candidates
    assert "Drug" not in {kind for candidate in found.candidates for kind in candidate.semantic_types}


def test_a_drug_is_no_test(lists: Bundle) -> None:
    codes = [SourceCode("1", "Natrium", unit="mg", language="de"), SourceCode("2", "Cholesterin-Teststreifen")]
    assert [one.candidates[0].concept_id for one in Mapper(lists).propose(codes)] == ["D:1", "D:3"]


def test_property_and_specimen_alone_are_no_evidence(lists: Bundle) -> None:
    found = Mapper(lists).propose([SourceCode("1", "Zoltan", unit="mmol/l", language="de")])[0]
    assert found.link == "nil"


def test_units_are_those_of_an_enzyme_or_arbitrary() -> None:
    assert [name for name, _ in full_names("Zoltan", "mU/l", "de")] == [
        "Zoltan [Enzymaktivität/Volumen] in Serum oder Plasma",
        "Zoltan [Einheiten/Volumen] in Serum oder Plasma",
    ]


@pytest.mark.parametrize(
    ("description", "unit", "language"),
    [
        ("Appendektomie", "", "de"),
        ("S-förmige Skoliose", "", "fr"),
        ("Suturing", "", "en"),
        ("Pulso", "lpm", "es"),
        ("Hkt", "%", "de"),
        ("Ramipril/HCT", "", "de"),
        ("nüchtern", "", "de"),
        ("", "", "de"),
    ],
)
def test_other_descriptions_have_no_full_name(description: str, unit: str, language: str) -> None:
    assert list(full_names(description, unit, language)) == []


@pytest.mark.parametrize(
    ("description", "codes", "route"),
    [
        ("Prednisolon 20 mg Tbl.", {"ATC:H02AB06"}, "systemic"),
        ("Prednisolon-AT 1 %", {"ATC:S01BA04"}, "eye"),
        ("prednisolona colirio", {"ATC:S01BA04"}, "eye"),
        ("Prednisolon Salbe", {"ATC:D07AA03"}, "skin"),
        ("prednisolone cream", {"ATC:D07AA03"}, "skin"),
        # no code for this route, and certainly no systemic use
        ("Prednisolon Nasenspray", set(), ""),
        ("prednisolone nasal spray", set(), ""),
        ("prednisolona óvulos vaginales", set(), ""),
        ("take at night", {"ATC:H02AB06"}, "systemic"),
    ],
)
def test_routes(description: str, codes: set[str], route: str) -> None:
    assert codes_of_route(description, ["ATC:H02AB06", "ATC:S01BA04", "ATC:D07AA03"]) == (codes, route)
    assert codes_of_route(description, ["ATC:H02AB06", "HP:0001250"]) == (set(), "")


def test_a_route_decides_between_the_codes_of_a_substance(lists: Bundle) -> None:
    rows = [SourceCode(str(at), name, language="de") for at, name in enumerate(("Prednisolon", "Prednisolon AT"))]
    systemic, eye = Mapper(lists, semantic_types=["Group"]).propose(rows)
    assert [one.targets[0].concept_id for one in (systemic, eye)] == ["ATC:H02AB06", "ATC:S01BA04"]
    assert (systemic.evidence, eye.evidence) == ("exact: Prednisolon; systemic", "words: Prednisolon; eye")
    assert sum(candidate.score for candidate in systemic.candidates[1:3]) == 0


@pytest.mark.parametrize(
    ("text", "language", "kind", "longs"),
    [
        ("Ramipril/HCT 5/25", "de", DRUG, ["Ramipril/Hydrochlorothiazid 5/25", "Ramipril/hydrochlorothiazide 5/25"]),
        ("ASS 100", "de", DRUG, ["Acetylsalicylsäure 100", "aspirin 100"]),
        ("GPT", "de", TEST, ["Glutamat-Pyruvat-Transaminase", "alanine aminotransferase"]),
        ("Herzinfarkt", "de", DRUG, []),
        ("ASS", "fr", DRUG, []),
        ("MS", "en", DRUG, []),  # rarely morphine
    ],
)
def test_abbreviations_in_full(text: str, language: str, kind: str, longs: list[str]) -> None:
    assert list(expand(text, language, kind)) == list(zip(longs, (language, "en"), strict=False))


def link(kind: str, score: float = 0.9) -> Link:
    """A link to a concept of a semantic type."""
    return Link("x", (Candidate("C", "c", score, "c", "en", "exact", "S", (kind,)),), "linked")


def test_priors_by_hand() -> None:
    # 30 drugs: share 35 / 35 smoothed by 5 codes half of which are drugs, over .5; procedures 2.5 / 35 over .5
    priors, domains = estimate_priors([link("Drug")] * 30, {"Drug": 50, "Procedure": 50})
    assert domains == ["Drug"]
    assert priors["Drug"] == 0
    assert priors["Procedure"] == pytest.approx(np.log(2.5 / 32.5))
    # one code of a type with few concepts proves little: it counts as 2 % of the concepts
    concepts = {"Drug": 300, "Procedure": 690, "Side": 10}
    priors, domains = estimate_priors([*[link("Drug")] * 30, link("Side")], concepts)
    assert domains == ["Drug"]
    assert priors["Side"] == pytest.approx(np.log((1.1 / 0.02) / (31.5 / 0.3)))
    # too few, too uncertain
    assert estimate_priors([link("Drug")] * 19, {"Drug": 1, "Procedure": 1}) == ({}, [])
    assert estimate_priors([link("Drug", 0.7)] * 50, {"Drug": 1, "Procedure": 1}) == ({}, [])
    assert priors_of(["drug"], {"Drug": 1, "Procedure": 1}) == {"Drug": 0.0, "Procedure": -5.0}


def test_the_domain_of_a_list(lists: Bundle, tmp_path: Path) -> None:
    names = ["becaplermin", "fomivirsen", "nesiritide", "prednisolone", "amoxicillin", "defibrotide"]
    rows = [f"{at},{name}{' ' * (at // 6)}{at // 6 or ''}" for at, name in enumerate(names * 5)]
    (tmp_path / "list.csv").write_text("\n".join(["code,name", *rows, "99,mouth"]) + "\n", "utf-8")
    found = {}
    for name, options in {"inferred": {}, "off": {"infer_domain": False}, "given": {"domain": ["Procedure"]}}.items():
        report = map_codes(lists, tmp_path / "list.csv", out=tmp_path / f"{name}.csv", **options)
        found[name] = (report.domains, "the list is about" in "\n".join(report.lines()))
    assert found["off"] == found["given"] == ([], False)
    assert found["inferred"] == (["Drug"], True)
    with pytest.raises(ConfigError, match=r"no concept has the semantic type 'Drugs'.*most frequent are: Drug, "):
        Mapper(lists, domain=["Drugs"])


def test_the_name_of_a_drug_is_a_test_in_a_list_of_tests(lists: Bundle) -> None:
    code = [SourceCode("1", "Natrium", language="de")]
    scores = [Mapper(lists, domain=[kind]).propose(code)[0].score for kind in ("Drug", "Measurement")]
    assert scores[0] > 0.8
    assert scores[1] < 0.3
    names = [f"{of}-{name}" for of in ("S", "P", "Se", "Pl", "Ser", "U", "Ur") for name in ("Natrium", "Na", "NA+")]
    tests = [SourceCode(name, name, unit="mmol/l", language="de") for name in names]
    mapper = Mapper(lists)
    mapper.expect([*code, *tests])
    assert mapper.linker.domains == ["Measurement"]
    assert mapper.propose(code)[0].link == "nil"


def test_concepts_with_one_name_share_its_score_by_the_types_of_the_list(lists: Bundle) -> None:
    linker = Mapper(lists, domain=["Procedure"]).linker
    named = [
        Candidate(id_, "Ward", 0.45, "Ward", "en", "exact", "S", (kind,))
        for id_, kind in (("1", "Drug"), ("2", "Procedure"))
    ]
    link = linker._weigh_sharing(Link("ward", tuple(named), "ambiguous"))
    # the priors of a list whose domain is given are 0 and -5: odds of e ** 5
    assert [one.concept_id for one in link.candidates] == ["2", "1"]
    assert link.candidates[0].score == pytest.approx(0.9 / (1 + np.exp(-5)), abs=1e-6)
    assert link.status == "linked"
    # codes of one drug are told apart by the route
    drugs = tuple(replace(one, concept_id=f"ATC:A0{at}AA01") for at, one in enumerate(named, 1))
    assert linker._weigh_sharing(Link("ward", drugs, "ambiguous")).candidates == drugs


def test_a_domain_counts_with_weights_of_a_site(lists: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = default_ranker()
    curves = replace(fitted.calibration, rival=fitted.calibration.rival - 1)
    monkeypatch.setitem(lists.manifest, "calibration", replace(fitted, calibration=curves).to_dict())
    code = [SourceCode("1", "defibrotide; ophthalmic, local oral", language="en")]
    kinds = [
        Mapper(lists, domain=[domain]).propose(code)[0].candidates[0].semantic_types
        for domain in ("Drug", "Procedure", "organism")
    ]
    assert kinds == [("Drug",), ("Procedure",), ("Organism",)]


def test_main_part() -> None:
    parts = {"x; oral": "x", "[U] x": "x", "(a) x, y": "x", "adenoma /cerv": "adenoma", "a/b": "a/b", "; x": "; x"}
    assert {text: main_part(text) for text in parts} == parts


def test_a_best_name_that_equals_the_main_part_is_raised(lists: Bundle) -> None:
    texts = ["becaplermin; local oral", "becaplermin and other drugs", "becaplermin [Presence] in Urine", "becaplermin"]
    found = compute_features(QueryBatch(lists.index, lists.encoder, texts, ["en"] * len(texts)))
    ranker = DescriptionRanker(default_ranker().ranker)
    before, after = (one.rank([], None, found) for one in (ranker, MainPartRanker(ranker)))
    assert found.mention[after > before].tolist() == [0, 1]
    assert (after >= before).all()


def test_columns_by_hand(lists: Bundle) -> None:
    text = "becaplermin; local oral"
    found = compute_features(QueryBatch(lists.index, lists.encoder, [text], ["en"]))
    table = columns(found, default_ranker().ranker)
    ids = lists.index.concept_ids(lists.index.entries(found.name).concept)
    own = dict(zip(FEATURES, table[ids.index("R:1")].tolist(), strict=True))
    other = dict(zip(FEATURES, table[ids.index("P:1")].tolist(), strict=True))
    assert (own["name_covered"], own["part_covered"], own["part_is_name"], own["part_cosine"]) == pytest.approx(
        (1, 1, 1, 1)
    )
    assert own["mention_first_word"] == own["part_rarest"] == 1
    assert own["mention_last_word"] == own["mention_uncovered_unknown"] == 0
    assert (other["mention_first_word"], other["mention_last_word"], other["part_covered"]) == (0, 1, 0)
    assert other["mention_uncovered_unknown"] > 0


def test_coverage_of_a_composed_word(lists: Bundle) -> None:
    index, kinds = lists.index, WordKinds(shipped_forms(), KINDS)
    mentions = index.read(["Mandibulectomy", "Excision of kidney"], ["en", "en"])
    names = np.array(
        [next(iter(index.lookup(name, "en"))) for name in ("Excision of mandible", "Partial mandibulectomy")]
    )
    at = np.array([0, 0, 1])
    of_mention, of_name = index.coverage(mentions, at, names, np.array([0, 1, 0]), kinds)
    assert of_mention.covered.tolist() == pytest.approx([1, 1, mentions.weight[1] / mentions.weight[1:].sum()])
    assert of_name.covered[0] == pytest.approx(1)
    # the kidney lacks, of the words of a body
    assert of_mention.uncovered_kinds[2].tolist() == pytest.approx(
        [0, mentions.weight[2], *[0] * (len(KINDS) - 2)], rel=1e-3
    )
    assert of_name.uncovered_kinds[1][list(KINDS).index("quality")] > 0


@pytest.mark.parametrize(("name", "language", "unit", "link", "concepts"), [
    # the unit is not given: mass and amount of substance are both possible
    ("S -Sodium", "en", "", "ambiguous", {"L:1", "L:3"}), ("Natrium i.S.", "de", "", "ambiguous", {"L:1", "L:3"}),
    ("sodio en suero", "es", "", "ambiguous", {"L:1", "L:3"}), ("U -Sodium", "en", "", "linked", {"L:2"}),
    ("dU-IgG", "en", "", "nil", set()), ("S -Sodium", "en", "mmol/l", "linked", {"L:1"}),
    ("AST im Serum", "de", "", "linked", {"L:4"}), ("B -Leucocytes", "en", "", "linked", {"L:5"}),
    ("leucocitos en sangre", "es", "", "linked", {"L:5"}), ("P -Becaplermin", "en", "", "nil", set()),
    ("Nitrit i.U. (Stix)", "de", "", "linked", {"L:9"}), ("nitritos en orina (tira)", "es", "", "linked", {"L:9"}),
    # letters before a hyphen are not always a specimen
    ("L-Becaplermin", "de", "", "linked", {"R:1"}), ("Capillary becaplermin", "en", "", "linked", {"R:1"}),
    # renamed species; the genus is no answer
    ("Streptococcus faecalis", "en", "", "linked", {"O:1"}), ("Enterococcus casseliflavus", "en", "", "nil", set()),
    ("Enterococcus sp.", "en", "", "linked", {"O:4"}), ("Streptococcus faecalis", "es", "", "linked", {"O:1"}),
    # operations by their parts
    ("Tracheotomie", "de", "", "linked", {"P:6"}), ("Traqueotomía", "es", "", "linked", {"P:6"}),
    ("Pneumonektomie", "de", "", "linked", {"P:12"}),
    # the subheading says what
    ("Malignant neoplasm of eye, choroid", "en", "", "linked", {"M:5"}),
    ("Bösartige Neubildung des Auges, Aderhaut", "de", "", "linked", {"M:5"}),
    ("Malignant neoplasm of eye, unspecified", "en", "", "linked", {"M:6"}),
])  # fmt: skip
def test_parts_of_descriptions(
    lists: Bundle, name: str, language: str, unit: str, link: str, concepts: set[str]
) -> None:
    (found,) = Mapper(lists).propose([SourceCode("1", name, unit=unit, language=language)])
    assert found.link == link
    if concepts:
        assert {candidate.concept_id for candidate in found.candidates[: len(concepts)]} == concepts


def test_a_procedure_without_its_approach_is_wider(lists: Bundle) -> None:
    names = ["Endoscopic incision of the trachea", "Trachea incision"]
    wider, same = Mapper(lists).propose([SourceCode(name, name, language="en") for name in names])
    assert (wider.link, wider.candidates[0].concept_id, wider.equivalence) == ("linked", "P:6", "WIDER")
    assert (same.link, same.candidates[0].concept_id, same.equivalence) == ("linked", "P:6", "UNREVIEWED")


def test_tests_without_a_unit_share_the_score(lists: Bundle) -> None:
    (found,) = Mapper(lists).propose([SourceCode("1", "S -Sodium", language="en")])
    first, second = found.candidates[:2]
    assert first.name == "Sodium [Moles/volume] in Serum or Plasma"
    assert first.score == second.score <= 0.5
    (wider,) = Mapper(lists, broader=True).propose([SourceCode("1", "Enterococcus casseliflavus", language="en")])
    assert (wider.link, wider.candidates[0].concept_id, wider.equivalence) == ("linked", "O:4", "WIDER")
    # a renamed species is no class above
    (same,) = Mapper(lists, broader=True).propose([SourceCode("1", "Streptococcus faecalis", language="en")])
    assert (same.link, same.candidates[0].concept_id, same.equivalence) == ("linked", "O:1", "UNREVIEWED")


def test_a_salt_is_no_other_drug_than_a_diagnostic(tmp_path: Path) -> None:
    """ATC has levothyroxine as a test of the thyroid, and its sodium as the drug."""
    names = tmp_path / "names.tsv"
    rows = [
        "V04CJ03\tLevothyroxin",
        "H03AA01\tLevothyroxin-Natrium",
        "A11CA01\tRetinol (Vitamin A)",
        "D10AD02\tRetinol",
    ]
    text = "".join(f"ATC:{row}\tde\n" for row in rows)
    names.write_text(f"concept_id\tname\tlanguage\n{text}", "utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", names, {"source": "ATC"})])
    bundle = Bundle(build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite", encoder="builtin").folder)
    expected = {
        "Levothyroxin 50 µg": "H03AA01", "L-Thyroxin 100": "H03AA01", "Retinol": "A11CA01", "Retinol Salbe": "D10AD02",
    }  # fmt: skip
    found = Mapper(bundle).propose([SourceCode(name, name, language="de") for name in expected])
    assert [(one.link, one.candidates[0].concept_id[4:]) for one in found] == [
        ("linked", id_) for id_ in expected.values()
    ]
