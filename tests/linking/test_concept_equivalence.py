"""One name in several sources: one concept with several ids, or different concepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medlink
from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.kb import Input
from medlink.linking import Linker, Mention
from medlink.records import AMBIGUOUS, LINKED, NIL, Link

_HEAD = "concept_id\tname\tlanguage\ttype\tsemantic_type\n"
_OBO = "format-version: 1.2\nontology: {}\n\n"


def build(folder: Path, **sources: str) -> Bundle:
    """A bundle of tables (rows by source) and OBO files (stanzas by name), loaded in the given order."""
    inputs = []
    for source, content in sources.items():
        if content.startswith("[Term]"):
            path = folder / f"{source}.obo"
            path.write_text(_OBO.format(source) + content, encoding="utf-8")
            inputs.append(Input("obo", path))
        else:
            path = folder / f"{source}.tsv"
            path.write_text(_HEAD + content.replace(" | ", "\t"), encoding="utf-8")
            inputs.append(Input("table", path, {"source": source}))
    medlink.build_kb(folder / "kb.sqlite", inputs)
    return medlink.build_bundle(folder / "bundle", kb=folder / "kb.sqlite")


def rows(concept_id: object, language: str, preferred: str, *synonyms: str, kind: str = "") -> str:
    names = [(preferred, "preferred"), *((name, "synonym") for name in synonyms)]
    return "".join(f"{concept_id} | {name} | {language} | {type_} | {kind}\n" for name, type_ in names)


def term(concept_id: str, name: str, *lines: str) -> str:
    return "\n".join(["[Term]", f"id: {concept_id}", f"name: {name}", *lines, "", ""])


def link(bundle: Bundle, mention: str, language: str = "de", **options: Any) -> Link:
    return Linker(bundle, **options).link([Mention(mention, language)])[0]


def shape(found: Link) -> tuple[str, str | None, list[tuple[str, tuple[str, ...]]]]:
    return found.status, found.concept_id, [(c.concept_id, c.same_as) for c in found.candidates if c.route == "exact"]


TYPED = [  # rows of A and of B, and whether the concepts are equivalent
    ("Gicht", "de", "Disease", "GICHT", "de", "Disease", True),
    ("Asthma", "de", "Disease", "Asthma", "de", "", True),
    ("Ekzem", "de", "Disease|Finding", "Ekzem", "de", "Finding", True),
    ("Niere", "de", "Disease", "Niere", "de", "Anatomy", False),
    ("Struma", "de", "Disease", "Struma", "en", "Disease", False),  # preferred in one language each
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Three sources; the number after A, B and C tells which rows belong together."""
    a = [
        rows("A:1", "de", "Hypothyreose", kind="Disease"),
        rows("A:2", "de", "Hypothyreose im Kindesalter", kind="Disease"),
        rows("A:3", "de", "Hypokortisolismus", "Unterfunktion") + rows("A:3", "en", "hypocortisolism"),
        rows("A:4", "de", "Multiple Sklerose", "MS"),
        rows("A:5", "de", "Polyarthritis", "Encephalitis disseminata"),
        rows("A:60", "de", "Gelbsucht") + rows("A:61", "de", "Gelbsucht"),
        rows("A:70", "de", "Krupp") + rows("A:71", "de", "Krupp"),
        rows("A:80", "de", "Nagel") + rows("A:81", "de", "Nägel"),
        rows("A:82", "es", "Ano") + rows("A:83", "es", "Periodo anual", "Año"),
        rows("A:9", "de", "Chorea", "CH"),
        *(rows(f"A:2{at}", case[1], case[0], kind=case[2]) for at, case in enumerate(TYPED)),
    ]
    b = [
        rows("B:1", "de", "Hypothyreose", kind="Disease"),
        rows("B:3", "de", "Kortisolmangel", "Unterfunktion") + rows("B:3", "en", "hypocortisolism"),
        rows("B:4", "de", "Mitralstenose", "MS"),
        rows("B:5", "de", "Enzephalitis", "Encephalitis disseminata"),
        rows("B:7", "de", "Krupp"),
        rows("B:80", "de", "Nagel") + rows("B:81", "de", "Nägel"),
        rows("B:9", "de", "Chorea", "CH"),
        *(rows(f"B:2{at}", case[4], case[3], kind=case[5]) for at, case in enumerate(TYPED)),
    ]
    c = [rows("C:1", "de", "Hypothyreose", kind="Disease"), rows("C:9", "de", "Cholelithiasis", "CH")]
    return build(tmp_path_factory.mktemp("tables"), A="".join(a), B="".join(b), C="".join(c))


@pytest.mark.slow
def test_a_name_of_several_sources_is_one_concept(tables: Bundle) -> None:
    found = link(tables, "Hypothyreose")
    assert shape(found) == ("linked", "A:1", [("A:1", ("B:1", "C:1"))])
    assert found.to_dict()["candidates"][0]["same_as"] == ["B:1", "C:1"]
    assert (found.nil, found.to_dict()["status"]) == (False, "linked")
    # it has the whole score of the name, and lower ranks are not limited by a share
    alone = link(tables, "Hypothyreose", sources=["A"])
    assert alone.candidates[0].score == found.candidates[0].score > 0.9
    assert alone.candidates[0].same_as == ()
    low, single = ({c.concept_id: c.score for c in each.candidates} for each in (found, alone))
    assert low["A:2"] == single["A:2"]
    # equally if the mention only resembles the name
    misspelt = link(tables, "Hypothyrreose").candidates[0]
    assert (misspelt.route, misspelt.same_as) == ("words", ("B:1", "C:1"))
    assert misspelt.score == link(tables, "Hypothyrreose", sources=["A"]).candidates[0].score


@pytest.mark.parametrize(("prefer", "ids"), [
    ((), ("A:1", "B:1", "C:1")), (("B",), ("B:1", "A:1", "C:1")), (("C", "B"), ("C:1", "B:1", "A:1")),
    (("C,B",), ("C:1", "B:1", "A:1")),
])  # fmt: skip
def test_sources_are_ordered_by_preference_then_loading(tables: Bundle, prefer: Any, ids: tuple[str, ...]) -> None:
    candidate = link(tables, "Hypothyreose", prefer=prefer).candidates[0]
    assert (candidate.concept_id, *candidate.same_as) == ids
    assert candidate.source == ids[0][0]


def test_an_unknown_preference_is_refused(tables: Bundle) -> None:
    with pytest.raises(ConfigError, match=r"no source, semantic type or kind 'HPO' .*known: A, B, C, abs.*finding"):
        Linker(tables, prefer=["A,HPO"])


@pytest.mark.parametrize("case", TYPED)
def test_preferred_names_and_types_decide(tables: Bundle, case: tuple[Any, ...]) -> None:
    found = link(tables, case[0])
    assert found.status == (LINKED if case[-1] else AMBIGUOUS)
    assert len(found.candidates[0].same_as) == case[-1]


def test_a_shared_synonym_needs_a_shared_preferred_name(tables: Bundle) -> None:
    assert shape(link(tables, "Unterfunktion")) == ("linked", "A:3", [("A:3", ("B:3",))])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "status"), [(100, LINKED), (99, AMBIGUOUS)])
def test_types_of_different_vocabularies_are_ignored(count: int, status: str, tmp_path: Path) -> None:
    def source(name: str, own: str, kind: str) -> str:
        more = (rows(f"{name}:{i}", "de", f"{name} Befund {i}", kind=kind) for i in range(9, count + 8))
        return rows(f"{name}:1", "de", "Hypothyreose", kind=own) + "".join(more)

    bundle = build(tmp_path, A=source("A", "Leiden", "disorder"), B=source("B", "Malaise", "Phenotype"))
    assert link(bundle, "Hypothyreose").status == status


def test_a_homonym_is_ambiguous(tables: Bundle, linker: Linker) -> None:
    for found in (link(tables, "MS"), link(tables, "MS", k=1), link(tables, "MS", threshold=0.2)):
        assert (found.status, found.nil, found.concept_id) == ("ambiguous", True, None)
        assert found.candidates[0].score < 0.5
    assert shape(link(tables, "MS"))[2] == [("A:4", ()), ("B:4", ())]
    assert linker.link([Mention("MS", "en")])[0].status == AMBIGUOUS  # in one source as in two


def test_a_low_score_is_nil_and_not_ambiguous(tables: Bundle, linker: Linker) -> None:
    low = link(tables, "Dissens")
    assert (low.status, low.concept_id) == (NIL, None)
    assert link(tables, "Encephalitis disseminata", threshold=0.99).status == NIL
    assert linker.link(["qwrtz", ""])[0].status == linker.link([""])[0].status == NIL


def test_concepts_of_one_source_are_never_equivalent(tables: Bundle) -> None:
    assert shape(link(tables, "Gelbsucht")) == ("ambiguous", None, [("A:60", ()), ("A:61", ())])
    # one of another source may be either of them
    found = link(tables, "Krupp")
    assert found.status == AMBIGUOUS
    assert all(candidate.same_as == () for candidate in found.candidates)


def test_equivalent_concepts_share_with_a_homonym_as_one(tables: Bundle) -> None:
    found = link(tables, "CH")
    assert shape(found) == ("ambiguous", None, [("A:9", ("B:9",)), ("C:9", ())])
    assert found.candidates[0].score == found.candidates[1].score
    context = ["Cholelithiasis mit Steinen in der Gallenblase, CH"]
    decided = Linker(tables, prefer=["B"], k=1).link([Mention("CH", "de")], context)[0]
    assert (decided.status, decided.concept_id) == (LINKED, "C:9")


@pytest.mark.parametrize(("mention", "language", "ids"), [
    ("Nagel", "de", ("A:80", "B:80")), ("NAGEL", "de", ("A:80", "B:80")), ("Nägel", "de", ("A:81", "B:81")),
    ("Na\u0308gel", "de", ("A:81", "B:81")), ("año", "es", ("A:83",)), ("ano", "es", ("A:82",)),
])  # fmt: skip
def test_accents_of_the_mention_decide(tables: Bundle, mention: str, language: str, ids: tuple[str, ...]) -> None:
    found = link(tables, mention, language)
    assert (found.status, found.candidates[0].concept_id, *found.candidates[0].same_as) == ("linked", *ids)
    assert found.candidates[0].score > 0.8


MAPPED = {  # words with the mapping in AB and in DB or SNOMEDCT, and whether the concepts are equivalent
    "fever": ("DB:0", "", True),
    "cough": ("", "AB:1", True),
    "nausea": ("UMLS:C0020676", "UMLS_CUI:C0020676", True),
    "vertigo": ("ICD10CM:E03.9", "ICD10CM:E03.9", False),
    "asthma": ("OMIM:218700", "OMIM:218700", False),
    "eczema": ("DB:99", "", False),
    "gout": ("XY:6", "", False),
    "goiter": ("", "", False),
    # codes without a prefix need their system
    "mumps": ("SNOMEDCT_US_2018_03_01:408", "", True),
    "measles": ("MSH:409", "", False),
}


@pytest.fixture(scope="module")
def ontologies(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    def terms(source: str, side: int, kind: str) -> str:
        found = ""
        for at, (word, case) in enumerate(MAPPED.items()):
            codes = [f"xref: {case[side]}"] if case[side] else []
            if source == "AB" or at < 8:
                found += term(f"{source}:{at}", f"{word} {kind}", f'synonym: "{word} sign" EXACT []', *codes)
        return found

    ab, db = terms("AB", 0, "state"), terms("DB", 1, "picture") + term("DB:99", "hiccups")
    # two concepts of one source map to one code or CUI, which is neither of them
    for at, code in ((20, "xref: DB:20"), (30, "xref: UMLS:C0020677")):
        shared = f'synonym: "shared {at}" EXACT []'
        ab += term(f"AB:{at}", f"first {at}", shared, code) + term(f"AB:{at + 1}", f"other {at}", code)
        db += term(f"DB:{at}", f"third {at}", shared, "xref: UMLS:C0020677")
    # equal names, but a mapping to another concept of the source, and one to a concept that it does not have
    ab += term("AB:40", "hypothyroidism", "xref: DB:40") + term("AB:50", "myxedema", "xref: DB:5000")
    db += term("DB:40", "thyroid insufficiency") + term("DB:41", "hypothyroidism") + term("DB:50", "myxedema")
    # of two concepts with one code only one matches it exactly
    ab += term("AB:60", "large 60", 'synonym: "shared 60" EXACT []', "property_value: skos:exactMatch DB:60")
    ab += term("AB:61", "small 60", "xref: DB:60")
    db += term("DB:60", "third 60", 'synonym: "shared 60" EXACT []')
    # another name of a known system
    ab += term("AB:70", "first 70", 'synonym: "shared 70" EXACT []', "xref: ORDO:70")
    orphanet = term("Orphanet:70", "third 70", 'synonym: "shared 70" EXACT []')
    bare = "".join(
        rows(code, "en", f"{word} picture", f"{word} sign") for code, word in ((408, "mumps"), (409, "measles"))
    )
    return build(tmp_path_factory.mktemp("ontologies"), ab=ab, db=db, orphanet=orphanet, SNOMEDCT=bare)


@pytest.mark.slow
@pytest.mark.parametrize(("mention", "same"), [
    *((f"{word} sign", case[-1]) for word, case in MAPPED.items()), ("shared 20", False), ("shared 30", False),
    ("hypothyroidism", False), ("myxedema", True), ("shared 60", True), ("shared 70", True),
])  # fmt: skip
def test_mappings_decide(ontologies: Bundle, mention: str, same: bool) -> None:
    assert link(ontologies, mention, "en").status == (LINKED if same else AMBIGUOUS)
