"""Pairs from a knowledge base: content, numbers, and no false negative in a batch."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.language.text import normalise
from medlink.records import Definition
from medlink.training.data import pairs as pairs_module
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.pair_sources import PairSources
from medlink.training.data.pairs import KnowledgeBasePairs, iter_descriptions
from medlink.training.data.view import TrainingView

from .pairs_kb import Pair, build, random_kb, read_batches

RECIPE = PairRecipe(pairs=2000, seed=7)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with random_kb(tmp_path_factory.mktemp("pairs")) as opened:
        yield opened


@pytest.fixture(scope="module")
def view(kb: KnowledgeBase) -> TrainingView:
    return TrainingView(kb)


@pytest.fixture
def drugs(tmp_path: Path) -> KnowledgeBase:
    """A knowledge base of which every description can be listed."""
    return build(
        tmp_path / "drugs",
        names=[(f"C{i}", name, "ENG") for i, name in enumerate(["ranitidine", "drug", "peptic ulcer", "thing"], 1)],
        relations=[("C1", "may_treat", "C3"), ("C2", "isa", "C4"), ("C1", "isa", "C2"), ("C3", "XR", "C1")],
        definitions=[("C1", "A substance against ulcers.")],
        types=[("C1", "Pharmacologic_Substance")],
    )


def epoch_of(source: KnowledgeBasePairs, epoch: int = 0, size: int = 16) -> list[Pair]:
    return [pair for batch in read_batches(source, epoch, size) for pair in batch]


def test_descriptions_by_hand(drugs: KnowledgeBase) -> None:
    source = KnowledgeBasePairs(TrainingView(drugs), PairRecipe(pairs=600, definition_share=0.1, seed=1))
    texts: dict[str, set[str]] = defaultdict(set)
    for pair in epoch_of(source, size=2):
        texts[pair.name].add(pair.text)
    assert texts == {
        "ranitidine": {
            "A substance against ulcers.",
            "something which may treat peptic ulcer",
            "pharmacologic substance which may treat peptic ulcer",
            "drug which may treat peptic ulcer",
            "thing which may treat peptic ulcer",
            "something which is a kind of drug",
            "pharmacologic substance which is a kind of drug",
            # above "is a kind of drug" stands what is above drug
            "thing which is a kind of drug",
        },
        "drug": {"something which is a kind of thing"},
    }


@pytest.mark.slow
def test_concepts_without_a_definition_are_described(drugs: KnowledgeBase, kb: KnowledgeBase) -> None:
    # of the four one has a definition, and two have no relation that can be put into words
    of_drug = [Definition("C2", "something which is a kind of thing", "en")]
    assert list(iter_descriptions(TrainingView(drugs), 1, seed=1)) == of_drug
    assert list(iter_descriptions(TrainingView(drugs), 2, seed=1)) == of_drug * 2
    added = TrainingView(drugs, definitions=[Definition("C2", "What is taken.")])
    assert not list(iter_descriptions(added, 1, seed=1))
    view = TrainingView(kb)
    found = list(iter_descriptions(view, 1, seed=1))
    assert [each.concept_id for each in found] == sorted({each.concept_id for each in found})
    assert len(found) > 0.9 * len(PairSources(view).related_concepts) / 2
    assert not {each.concept_id for each in found} & {each.concept_id for each in kb.iter_definitions()}
    assert found == list(iter_descriptions(view, 1, seed=1)) != list(iter_descriptions(view, 1, seed=2))


@pytest.mark.slow
def test_pairs_agree_with_the_knowledge_base(kb: KnowledgeBase, view: TrainingView) -> None:
    triples, names, english = defaultdict(set), defaultdict(set), defaultdict(set)
    for name in kb.iter_names():
        names[name.concept_id].add(name.text)
        if name.language == "en":
            english[name.concept_id].add(name.text)
    for relation in kb.iter_relations():
        triples[relation.head].add((relation.type, relation.tail))
    phrases = {"is a kind of": "isa", "is finding site of": "finding_site_of", "is due to": "due_to"}
    phrases |= {"may treat": "may_treat"}
    drawn = set()
    pattern = re.compile(rf"(.*) which ({'|'.join(phrases)}) (.*)")
    openings = Counter()
    for pair in epoch_of(KnowledgeBasePairs(view, RECIPE.replace(name_share=0.1))):
        assert pair.name in names[pair.concept_id]
        if pair.kind == "definition":
            assert pair.text in {definition.text for definition in kb.definitions(pair.concept_id)}
        elif pair.kind == "name":
            assert pair.text in names[pair.concept_id]
            assert normalise(pair.text) != normalise(pair.name)
        else:
            found = pattern.fullmatch(pair.text)
            assert found is not None
            tails = {tail for kind, tail in triples[pair.concept_id] if kind == phrases[found[2]]}
            assert found[3] in set().union(*(english[tail] for tail in tails))
            above = {ancestor for start in (pair.concept_id, *tails) for ancestor, _ in kb.ancestors(start)}
            kinds = {kind.semantic_type.lower() for kind in kb.semantic_types(pair.concept_id)}
            opening = found[1] if found[1] == "something" else "type" if found[1] in kinds else "ancestor"
            openings[opening] += 1
            assert opening != "ancestor" or found[1] in set().union(*(english[ancestor] for ancestor in above))
            drawn.add(found[2])
    assert drawn == set(phrases)
    # a third each, but for the two thirds of concepts that have no semantic type
    total = sum(openings.values())
    assert openings["ancestor"] / total == pytest.approx(1 / 3, abs=0.05)
    assert openings["type"] / total == pytest.approx(1 / 9, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "name_share"), [(16, 0.0), (64, 0.3)])
def test_labels_are_the_pairs_that_are_no_negatives(
    kb: KnowledgeBase, view: TrainingView, size: int, name_share: float
) -> None:
    forms: dict[str, set[str]] = defaultdict(set)
    for name in kb.iter_names():
        forms[name.concept_id].add(normalise(name.text))
    source = KnowledgeBasePairs(view, RECIPE.replace(name_share=name_share))
    masked = 0
    for batch, pairs in zip(source.batches(size).epoch(0), read_batches(source, 0, size), strict=True):
        texts = [{normalise(text) for text in (pair.name, pair.text)} for pair in pairs]
        assert [len(both) for both in texts] == [2] * size
        for i, j in product(range(size), repeat=2):
            shared = texts[i] & texts[j] or forms[pairs[i].concept_id] & forms[pairs[j].concept_id]
            assert batch.labels[i, j] == bool(shared)
        masked += int(batch.labels.sum()) - size
    assert masked, "the test needs names that concepts share"


@pytest.mark.slow
def test_the_mix(view: TrainingView) -> None:
    kinds = Counter(pair.kind for pair in epoch_of(KnowledgeBasePairs(view, RECIPE.replace(pairs=8000))))
    assert kinds["definition"] / kinds.total() == pytest.approx(0.15, abs=0.01)
    assert kinds["name"] == 0
    mixed = RECIPE.replace(pairs=8000, definition_share=0.5, name_share=0.3)
    kinds = Counter(pair.kind for pair in epoch_of(KnowledgeBasePairs(view, mixed)))
    assert kinds["definition"] / kinds.total() == pytest.approx(0.5, abs=0.02)
    assert kinds["name"] / kinds.total() == pytest.approx(0.3, abs=0.02)


def test_definitions_occur_equally_often_and_with_all_names(kb: KnowledgeBase, view: TrainingView) -> None:
    source = KnowledgeBasePairs(view, PairRecipe(definition_share=1, definition_repeats=12))
    definitions = kb.counts()["definitions"]
    assert source.pairs_per_epoch == 12 * definitions
    pairs = epoch_of(source, size=2)
    seen = Counter(pair.concept_id for pair in pairs)
    assert set(seen) == {definition.concept_id for definition in kb.iter_definitions()}
    assert set(seen.values()) == {12}
    used = Counter((pair.concept_id, normalise(pair.name)) for pair in pairs)
    for concept in seen:
        # names come in turn
        forms = sorted({(normalise(name.text), name.language) for name in kb.names(concept)})
        if not 12 % len(forms):
            turns = Counter(form for form, _ in forms * (12 // len(forms)))
            assert {form: used[concept, form] for form in turns} == turns


def test_the_number_of_pairs(kb: KnowledgeBase, view: TrainingView) -> None:
    definitions, names = kb.counts()["definitions"], len(view.names.values)
    related = len(PairSources(view).related.values)
    count = {
        PairRecipe(): round(definitions * 50 / 0.15),
        PairRecipe(definition_repeats=3): round(definitions * 3 / 0.15),
        PairRecipe(definition_share=0): related,
        PairRecipe(definition_share=0, name_share=1): names,
        PairRecipe(pairs=77): 77,
    }
    for recipe, wanted in count.items():
        assert KnowledgeBasePairs(view, recipe).pairs_per_epoch == wanted
    source = KnowledgeBasePairs(view, PairRecipe(pairs=77))
    assert [len(batch) for batch in read_batches(source, 0, 10)] == [10] * 7
    assert source.batches(10).batches_per_epoch() == 7
    assert [len(batch) for batch in read_batches(source, 0, 200)] == [77]
    assert len({source.batches(size).digest for size in (10, 11, 10)}) == 2


@pytest.mark.slow
def test_batches_depend_only_on_seed_and_epoch(
    kb: KnowledgeBase, view: TrainingView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "_CHUNK", 160)
    source, again = (KnowledgeBasePairs(of, RECIPE.replace(pairs=1000)) for of in (view, TrainingView(kb)))
    first = read_batches(source, 3, 16)
    assert first == read_batches(again, 3, 16)
    assert again.digest == source.digest
    assert first != read_batches(source, 4, 16)
    for start in (1, 61):
        assert read_batches(source, 3, 16, start) == first[start:] != []


def test_excluded_concepts_do_not_occur(kb: KnowledgeBase) -> None:
    excluded = [f"C{number:04}" for number in range(1, 300, 5)]
    included = {name.text for name in kb.iter_names() if name.concept_id not in excluded}
    secret = {name.text for name in kb.iter_names() if name.concept_id in excluded} - included
    pairs = epoch_of(KnowledgeBasePairs(TrainingView(kb, without=excluded), RECIPE.replace(name_share=0.1)))
    assert not {pair.concept_id for pair in pairs} & set(excluded)
    assert {pair.name for pair in pairs} & included
    for text in secret:
        assert text not in {pair.name for pair in pairs} | {pair.text for pair in pairs}
        assert not any(pair.text.endswith(f" {text}") or pair.text.startswith(f"{text} which") for pair in pairs)


def test_a_generic_term_equal_to_the_name_is_left_open(tmp_path: Path) -> None:
    kb = build(
        tmp_path,
        names=[("C1", "fever", "ENG"), ("C2", "Finding", "ENG"), ("C3", "pain", "ENG"), ("C4", "FEVER", "ENG")],
        relations=[("C1", "isa", "C2"), ("C3", "isa", "C2"), ("C4", "isa", "C1"), ("C4", "isa", "C2")],
        types=[("C1", "Finding"), ("C3", "Finding"), ("C4", "Finding")],
    )
    recipe = PairRecipe(pairs=400, definition_share=0)
    pairs = epoch_of(KnowledgeBasePairs(TrainingView(kb), recipe), size=1)
    # C4 is a kind of fever, but fever is its own name
    assert {pair.text for pair in pairs} == {"something which is a kind of Finding"}


def refuse(kb: KnowledgeBase, message: str, recipe: PairRecipe = RECIPE, languages: list[str] | None = None) -> None:
    with pytest.raises(ConfigError, match=message):
        KnowledgeBasePairs(TrainingView(kb, languages=languages), recipe)


def test_missing_material_is_named(tmp_path: Path) -> None:
    names = [("C1", "one", "ENG"), ("C2", "two", "ENG"), ("C2", "zwei", "GER"), ("C1", "eins", "GER")]
    bare = build(tmp_path / "bare", names=names[:2])
    missing = r"has no definitions, 0\.15 of the pairs need one\. Remedy: add a table of definitions, or give "
    refuse(bare, missing + "definition_share=0")
    refuse(bare, r"has no relations, 1 of the pairs need one\. Remedy: build it with", PairRecipe(definition_share=0))
    refuse(bare, r"no concept .* has two names\. Remedy: build", PairRecipe(definition_share=0, name_share=1))
    related = build(tmp_path / "related", names=names, relations=[("C1", "isa", "C2")])
    recipe = PairRecipe(definition_share=0)
    refuse(related, r"descriptions are English .* no English names.*Remedy: add en to the languages", recipe, ["de"])
    assert KnowledgeBasePairs(TrainingView(related, languages=["de", "en"]), recipe).counts()["relations"] > 0


def test_a_batch_of_more_concepts_than_there_are(drugs: KnowledgeBase) -> None:
    source = KnowledgeBasePairs(TrainingView(drugs), PairRecipe(pairs=100))
    with pytest.raises(ConfigError, match=r"of 3 pairs .* made of 2 concepts\. Remedy: set the batch size to 2"):
        source.batches(3)


def test_empty_definitions_and_those_equal_to_a_name(tmp_path: Path) -> None:
    names = [(f"C{number}", f"name {number}", "ENG") for number in range(3)]
    kb = build(tmp_path / "some", names=names, definitions=[("C0", "..."), ("C1", "Name 1."), ("C2", "Something.")])
    pairs = epoch_of(KnowledgeBasePairs(TrainingView(kb), PairRecipe(definition_share=1)), size=1)
    assert {(pair.concept_id, pair.text) for pair in pairs} == {("C2", "Something.")}
    none = build(tmp_path / "none", names=names, definitions=[("C1", "Name 1.")])
    with pytest.raises(ConfigError, match=r"no pair can be made.*Remedy: add definitions"):
        epoch_of(KnowledgeBasePairs(TrainingView(none), PairRecipe(definition_share=1)), size=1)


def test_no_relations_are_needed_where_the_shares_leave_none(tmp_path: Path) -> None:
    names = [(f"C{number}", f"{word} {number}", "ENG") for number in range(3) for word in ("name", "term")]
    kb = build(tmp_path, names=names, definitions=[(f"C{number}", f"Text {number}.") for number in range(3)])
    source = KnowledgeBasePairs(TrainingView(kb), PairRecipe(definition_share=0.7, name_share=0.3, pairs=30))
    assert {pair.kind for pair in epoch_of(source, size=2)} == {"definition", "name"}
