"""One name in several sources: the same concept twice, or two concepts."""

from __future__ import annotations

from collections.abc import Callable
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

Make = Callable[..., Bundle]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A bundle of tables (rows by source) and OBO files (stanzas by name), in the order in which they are given."""

    def build(**sources: str) -> Bundle:
        inputs = []
        for source, content in sources.items():
            if content.startswith("[Term]"):
                path = tmp_path / f"{source}.obo"
                path.write_text(_OBO.format(source) + content, encoding="utf-8")
                inputs.append(Input("obo", path))
            else:
                path = tmp_path / f"{source}.tsv"
                path.write_text(_HEAD + content.replace(" | ", "\t"), encoding="utf-8")
                inputs.append(Input("table", path, {"source": source}))
        medlink.build_kb(tmp_path / "kb.sqlite", inputs)
        return medlink.build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite")

    return build


def term(concept_id: str, name: str, *more: str) -> str:
    return "\n".join(["[Term]", f"id: {concept_id}", f"name: {name}", *more, "", ""])


def one(bundle: Bundle, mention: str, language: str = "de", **options: Any) -> Link:
    return Linker(bundle, **options).link([Mention(mention, language)])[0]


def shape(link: Link) -> tuple[str, str | None, list[tuple[str, tuple[str, ...]]]]:
    return link.status, link.concept_id, [(c.concept_id, c.same_as) for c in link.candidates if c.route == "exact"]


A, B = "A:1 | Hypothyreose | de | preferred | Disease\n", "B:1 | Hypothyreose | de | preferred | Disease\n"


def test_a_name_that_two_sources_have_is_one_concept_with_two_ids(make: Make) -> None:
    link = one(make(B=B, A=A), "Hypothyreose")
    assert shape(link) == ("linked", "B:1", [("B:1", ("A:1",))])
    assert link.to_dict()["candidates"][0]["same_as"] == ["A:1"]
    assert (link.nil, link.to_dict()["status"]) == (False, "linked")


def test_the_score_is_that_of_the_name(make: Make) -> None:
    bundle = make(A=A + "A:2 | Hypothyreose im Kindesalter | de | preferred | Disease\n", B=B)
    both, alone = one(bundle, "Hypothyreose"), one(bundle, "Hypothyreose", sources=["A"])
    assert alone.candidates[0].score == both.candidates[0].score > 0.9
    assert alone.candidates[0].same_as == ()
    # what ranks lower is not held down by a share
    low, single = ({c.concept_id: c.score for c in link.candidates} for link in (both, alone))
    assert low["A:2"] == single["A:2"]


def test_the_order_of_sources_is_that_of_loading_or_as_preferred(make: Make) -> None:
    bundle = make(A=A, B=B, C=A.replace("A:1", "C:1"))
    for prefer, ids in {
        (): ("A:1", "B:1", "C:1"),
        ("B",): ("B:1", "A:1", "C:1"),
        ("C", "B"): ("C:1", "B:1", "A:1"),
        ("C,B",): ("C:1", "B:1", "A:1"),
    }.items():
        candidate = one(bundle, "Hypothyreose", prefer=prefer).candidates[0]
        assert (candidate.concept_id, *candidate.same_as) == ids
        assert candidate.source == ids[0][0]
    with pytest.raises(ConfigError, match=r"no source, semantic type or kind 'HPO' in this .*known: A, B, C, abs"):
        Linker(bundle, prefer=["A,HPO"])


def test_preferred_names_and_types(make: Make) -> None:
    cases = [
        ("Gicht | de | preferred | Disease", "GICHT | de | preferred | Disease", True),
        ("Asthma | de | preferred | Disease", "Asthma | de | preferred | ", True),
        ("Ekzem | de | preferred | Disease|Finding", "Ekzem | de | preferred | Finding", True),
        ("Niere | de | preferred | Disease", "Niere | de | preferred | Anatomy", False),
        # preferred in one language each
        ("Struma | de | preferred | Disease", "Struma | en | preferred | Disease", False),
    ]
    mine, theirs = (
        "".join(f"{source}:{at} | {case[side]}\n" for at, case in enumerate(cases)) for side, source in enumerate("AB")
    )
    bundle = make(A=mine, B=theirs)
    for row, _, same in cases:
        link = one(bundle, row.partition(" ")[0])
        assert link.status == (LINKED if same else AMBIGUOUS), row
        assert len(link.candidates[0].same_as) == same


def test_types_of_other_words_say_nothing(make: Make) -> None:
    def rows(source: str, kind: str, count: int) -> str:
        return "".join(f"{source}:{i} | {source} Befund {i} | de | preferred | {kind}\n" for i in range(9, count + 8))

    for count, kinds, status in ((100, ("disorder", "Phenotype"), LINKED), (99, ("disorder", "Phenotype"), AMBIGUOUS)):
        mine = A.replace("Disease", "Leiden") + rows("A", kinds[0], count)
        theirs = B.replace("Disease", "Malaise") + rows("B", kinds[1], count)
        assert one(make(A=mine, B=theirs), "Hypothyreose").status == status


def test_the_preferred_name_decides_where_a_synonym_is_shared(make: Make) -> None:
    rows = "A:1 | Hypothyreose | de | preferred | \nA:1 | hypothyroidism | en | preferred | \n"
    extra = "A:1 | Unterfunktion | de | synonym | \n"
    bundle = make(A=rows + extra, B=(rows + extra).replace("A:1", "B:1").replace("Hypothyreose", "Hypothyreoidismus"))
    assert shape(one(bundle, "Unterfunktion")) == ("linked", "A:1", [("A:1", ("B:1",))])


def test_a_homonym_is_ambiguous_with_its_candidates(make: Make, linker: Linker) -> None:
    rows = "A:1 | Multiple Sklerose | de | preferred | \nA:1 | MS | de | synonym | \n"
    bundle = make(A=rows, B=rows.replace("A:1", "B:1").replace("Multiple Sklerose", "Mitralstenose"))
    for link in (one(bundle, "MS"), one(bundle, "MS", k=1), one(bundle, "MS", threshold=0.2)):
        assert (link.status, link.nil, link.concept_id) == ("ambiguous", True, None)
        assert link.candidates[0].score < 0.5
    assert shape(one(bundle, "MS"))[2] == [("A:1", ()), ("B:1", ())]
    # in one source as in two
    assert linker.link([Mention("MS", "en")])[0].status == AMBIGUOUS
    context = "MS: relapsing demyelination, neurology, lesions in brain and spinal cord, optic neuritis"
    assert linker.link([Mention("MS", "en")], [context])[0].status == LINKED


def test_a_low_score_is_nil_and_not_ambiguous(make: Make, linker: Linker) -> None:
    rows = "A:1 | Multiple Sklerose | de | preferred | \nA:1 | Encephalitis disseminata | de | synonym | \n"
    bundle = make(A=rows, B=rows.replace("A:1", "B:1").replace("Multiple Sklerose", "Enzephalitis"))
    low = one(bundle, "Dissens")
    assert (low.status, low.concept_id) == (NIL, None)
    assert one(bundle, "Encephalitis disseminata", threshold=0.99).status == NIL
    assert linker.link(["qwrtz", ""])[0].status == linker.link([""])[0].status == NIL


def test_two_concepts_of_one_source_are_never_one(make: Make) -> None:
    link = one(make(A=A + A.replace("A:1", "A:2")), "Hypothyreose")
    assert shape(link) == ("ambiguous", None, [("A:1", ()), ("A:2", ())])
    # the third may be either of them
    link = one(make(A=A + A.replace("A:1", "A:2"), B=B), "Hypothyreose")
    assert link.status == AMBIGUOUS
    assert all(candidate.same_as == () for candidate in link.candidates)


def test_mapped_concepts_are_one(make: Make) -> None:
    cases = {
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

    def terms(source: str, side: int, kind: str) -> str:
        found = ""
        for at, (word, case) in enumerate(cases.items()):
            codes = [f"xref: {case[side]}"] if case[side] else []
            if source == "AB" or at < 8:
                found += term(f"{source}:{at}", f"{word} {kind}", f'synonym: "{word} sign" EXACT []', *codes)
        return found

    row = "{0} | {1} picture | en | preferred | \n{0} | {1} sign | en | synonym | \n"
    bare = row.format(408, "mumps") + row.format(409, "measles")
    bundle = make(ab=terms("AB", 0, "state"), db=terms("DB", 1, "picture") + term("DB:99", "hiccups"), SNOMEDCT=bare)
    for word, (*_, same) in cases.items():
        assert one(bundle, f"{word} sign", "en").status == (LINKED if same else AMBIGUOUS), word


def test_a_code_of_several_concepts_is_a_class(make: Make) -> None:
    """Two concepts of one source map to the same id, so that neither is it."""
    shared, cui = 'synonym: "underactive thyroid" EXACT []', "xref: UMLS:C0020676"
    for code in ("xref: DB:7", cui):
        both = term("AB:1", "hypothyroidism", shared, code) + term("AB:2", "myxedema", code)
        bundle = make(ab=both, db=term("DB:7", "thyroid insufficiency", shared, cui))
        assert one(bundle, "underactive thyroid", "en").status == AMBIGUOUS


def test_equals_share_with_a_homonym_as_one(make: Make) -> None:
    rows = "{0}:1 | Multiple Sklerose | de | preferred | \n{0}:1 | MS | de | synonym | \n"
    other = "C:9 | Mitralstenose | de | preferred | \nC:9 | MS | de | synonym | \n"
    bundle = make(A=rows.format("A"), B=rows.format("B"), C=other)
    link = one(bundle, "MS")
    assert shape(link) == ("ambiguous", None, [("A:1", ("B:1",)), ("C:9", ())])
    assert link.candidates[0].score == link.candidates[1].score
    context = ["Mitralstenose mit Klappenöffnungsfläche 1,2 cm2, MS"]
    decided = Linker(bundle, prefer=["B"], k=1).link([Mention("MS", "de")], context)[0]
    assert (decided.status, decided.concept_id) == (LINKED, "C:9")


def test_equals_with_the_best_name_by_likeness_are_one(make: Make) -> None:
    link = one(make(A=A, B=B), "Hypothyrreose")
    assert (link.candidates[0].route, link.candidates[0].same_as) == ("words", ("B:1",))
    assert link.candidates[0].score == one(make(A=A), "Hypothyrreose").candidates[0].score


def test_the_letters_of_the_mention_decide_between_names_that_differ_by_a_mark(make: Make) -> None:
    rows = "A:1 | Nagel | de | preferred | \nA:2 | Nägel | de | preferred | \n"
    spanish = "A:3 | Ano | es | preferred | \nA:4 | Año | es | {} | \nA:4 | Periodo anual | es | preferred | \n"
    bundle = make(A=rows + spanish.format("synonym"), B=rows.replace("A:", "B:"))
    for mention, language, ids in (
        ("Nagel", "de", ("A:1", "B:1")),
        ("NAGEL", "de", ("A:1", "B:1")),
        ("Nägel", "de", ("A:2", "B:2")),
        ("Na\u0308gel", "de", ("A:2", "B:2")),
        ("año", "es", ("A:4",)),
        ("ano", "es", ("A:3",)),
    ):
        link = one(bundle, mention, language)
        assert (link.status, link.candidates[0].concept_id, *link.candidates[0].same_as) == ("linked", *ids)
        assert link.candidates[0].score > 0.8


def test_a_mapping_to_another_concept_of_a_source_outweighs_an_equal_name(make: Make) -> None:
    bundle = make(
        ab=term("AB:1", "hypothyroidism", "xref: DB:7"),
        db=term("DB:7", "thyroid insufficiency") + term("DB:8", "hypothyroidism"),
    )
    assert one(bundle, "hypothyroidism", "en").status == AMBIGUOUS
    gone = make(ab=term("AB:1", "hypothyroidism", "xref: DB:9"), db=term("DB:8", "hypothyroidism"))
    assert one(gone, "hypothyroidism", "en").status == LINKED
