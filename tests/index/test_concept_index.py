"""The index as a whole on a small table of names."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.index import ConceptIndex, Filter
from medlink.index.vectors import vector_index
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner
from medlink.linking.candidates import QueryBatch
from medlink.linking.features import FEATURES, compute_features
from medlink.models import load_encoder
from medlink.records import Name, SemanticType

NAMES = [
    Name("C:1", "Diabetes mellitus Typ 2", "de", "preferred", "HOUSE", True),
    Name("C:1", "type 2 diabetes mellitus", "en", "preferred", "HOUSE", True),
    Name("C:1", "T2DM", "en", "abbreviation", "HOUSE"),
    Name("C:2", "Diabetes mellitus Typ 1", "de", "preferred", "HOUSE", True),
    Name("C:2", "type 1 diabetes mellitus", "en", "preferred", "OTHER", True),
    Name("C:3", "multiple sclerosis", "en", "preferred", "HOUSE", True),
    Name("C:3", "MS", "en", "abbreviation", "HOUSE"),
    Name("C:4", "mitral stenosis", "en", "preferred", "OTHER", True),
    Name("C:4", "MS", "en", "abbreviation", "OTHER"),
    Name("C:4", "Mitralklappenstenosen", "de", "preferred", "HOUSE", True),
    Name("C:5", "…", "en", "preferred", "HOUSE", True),
]
TYPES = [SemanticType("C:1", "Disease"), SemanticType("C:4", "Heart"), SemanticType("C:4", "Disease")]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ConceptIndex:
    return ConceptIndex.build(
        tmp_path_factory.mktemp("index"), NAMES, load_encoder(), semantic_types=TYPES, kind="flat"
    )


def keys_of(index: ConceptIndex, *texts: str) -> set[float]:
    names = dict(zip(index.norms(index.keys()), index.keys().tolist(), strict=True))
    return {names[text] for text in texts}


@pytest.mark.slow
def test_one_row_for_each_distinct_name(index: ConceptIndex) -> None:
    assert len(index) == 9  # MS is one row, the name without a letter is none
    shared = next(iter(keys_of(index, "ms")))
    assert [entry.concept_id for entry in index.entries_of(shared)] == ["C:3", "C:4"]
    assert index.manifest["names"] == 10
    assert index.manifest["concepts"] == 4


def test_nearest_other_names_are_kept(index: ConceptIndex) -> None:
    vectors = index.vectors(index.keys())
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    expected = np.argsort(-cosines, axis=1, kind="stable")
    assert index.segments[0].near[:, : len(index) - 1].tolist() == expected[:, : len(index) - 1].tolist()
    names = np.array([2.0, 0.0])
    position, near = index.near(names, 3)
    assert (position.tolist(), near.tolist()) == ([0] * 3 + [1] * 3, expected[[2, 0], :3].ravel().tolist())
    # more than are kept are searched for, which finds the name itself as well
    assert index.near(names, 9)[1][:9].tolist() == [2, *expected[2, :8].tolist()]
    german = index.select(Filter(languages=("de",)))
    assert german is not None
    assert set(index.near(names, 3, german)[1].tolist()) <= set(np.flatnonzero(german[0].rows).tolist())


def test_a_pickled_index_is_opened_from_its_folder(index: ConceptIndex) -> None:
    again = pickle.loads(pickle.dumps(index))  # noqa: S301 # its own bytes
    assert again.folder == index.folder.absolute()
    assert len(pickle.dumps(index)) < 1000


def test_lookup_exact_and_inflected(index: ConceptIndex) -> None:
    lookup = index.lookup
    assert lookup("diabetes mellitus TYP 2", "de") == dict.fromkeys(keys_of(index, "diabetes mellitus typ 2"), "exact")
    assert lookup("Diabetes mellitus Typ II", "de") == dict.fromkeys(
        keys_of(index, "diabetes mellitus typ 2"), "inflected"
    )
    assert lookup("Mitralklappenstenose", "de") == dict.fromkeys(keys_of(index, "mitralklappenstenosen"), "inflected")
    assert lookup("Mitralklappenstenose", "en") == {}  # inflected by German rules only
    assert lookup("multiple sclerosis", "de") == dict.fromkeys(keys_of(index, "multiple sclerosis"), "exact")
    assert lookup("multiple sclerosis") == dict.fromkeys(keys_of(index, "multiple sclerosis"), "exact")
    assert lookup("", "en") == lookup("nothing like it", "en") == {}


def test_longest_match_in_running_text(index: ConceptIndex) -> None:
    text = "Bek. Diabetes mellitus, Typ II; Mitralklappenstenose. Diabetes\n\nmellitus Typ 2"
    scanned = Scanner("de", shared_analyser(index.forms)).scan(text)
    found = [scanned.written(span.place) for span in index.find(scanned, "de")]
    assert found == ["Diabetes mellitus, Typ II", "Mitralklappenstenose"]
    wrapped = Scanner("en", shared_analyser(index.forms)).scan("type 2\ndiabetes mellitus and T2DM, T2DMX")
    assert [wrapped.span(span.place) for span in index.find(wrapped, "en")] == [(0, 24), (29, 33)]
    assert index.find(wrapped, "fr") == []


@pytest.mark.slow
def test_filters_act_inside_the_search(index: ConceptIndex) -> None:
    query = load_encoder().encode(["Diabetes mellitus Typ 2"])
    for wanted, norms in (
        (
            Filter(languages=("en",), semantic_types=("Disease",)),
            {"t2dm", "type 2 diabetes mellitus", "ms", "mitral stenosis"},
        ),
        (Filter(sources=("OTHER",)), {"type 1 diabetes mellitus", "mitral stenosis", "ms"}),
        (Filter(semantic_types=("Heart",), languages=("de",)), {"mitralklappenstenosen"}),
    ):
        names, _ = index.search(query, 10, wanted)
        assert set(index.norms(names[names >= 0])) == norms
        asked = index.read(["mitral type"], ["en"])
        assert set(index.norms(index.by_words(asked, np.array([0]), 10, index.select(wanted))[1])) <= norms
    chosen = index.select(Filter(sources=("OTHER",)))
    assert chosen is not None
    shared = next(iter(keys_of(index, "ms")))
    assert [entry.concept_id for entry in index.entries_of(shared, chosen)] == ["C:4"]
    assert index.selected(shared, chosen)
    assert not index.selected(next(iter(keys_of(index, "t2dm"))), chosen)
    assert index.select(Filter()) is None
    with pytest.raises(ConfigError, match=r"no language 'fr' in this index\. Remedy: known: de, en"):
        index.select(Filter(languages=("fr",)))
    with pytest.raises(ConfigError, match="no semantic type 'Diseases'"):
        index.select(Filter(semantic_types=("Diseases",)))


@pytest.mark.slow
def test_a_filter_by_what_the_bundle_has_none_of(tmp_path: Path) -> None:
    bare = ConceptIndex.build(tmp_path, NAMES, load_encoder(), kind="flat")
    with pytest.raises(ConfigError, match=r"Remedy: the bundle has none at all, leave semantic_types out\."):
        bare.select(Filter(semantic_types=("Disease",)))


def test_concept_cosines_are_those_of_the_mean_name(index: ConceptIndex) -> None:
    encoder = load_encoder()
    query = encoder.encode(["sclerosis"])
    name = next(iter(keys_of(index, "ms")))

    def mean(*texts: str) -> np.ndarray:
        total = encoder.encode(texts).sum(axis=0)
        return total / np.linalg.norm(total)

    both = [
        query[0] @ mean("multiple sclerosis", "MS"),
        query[0] @ mean("mitral stenosis", "MS", "Mitralklappenstenosen"),
    ]
    for wanted, cosine in ((Filter(), max(both)), (Filter(sources=("OTHER",)), both[1])):
        found = compute_features(QueryBatch(index, encoder, ["sclerosis"], ["en"], index.select(wanted)))
        row = found.name.tolist().index(name)
        assert float(found.features[row, FEATURES.index("concept_cosine")]) == pytest.approx(cosine, abs=2e-3)


@pytest.mark.slow
def test_same_input_same_files(tmp_path: Path) -> None:
    for name, given in (("a", NAMES), ("b", NAMES[::-1])):
        ConceptIndex.build(tmp_path / name, given, load_encoder(), semantic_types=TYPES, kind="hnsw")
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_cells_keep_no_near_names_and_search_for_them(tmp_path: Path) -> None:
    given = [
        Name(f"T:{i}", f"{word} {part}", "en") for i, word in enumerate(("cyst", "fever", "pain")) for part in "abc"
    ]
    flat, cells = (ConceptIndex.build(tmp_path / kind, given, load_encoder(), kind=kind) for kind in ("flat", "ivfpq"))
    assert cells.segments[0].near.shape == (9, 0)
    assert vector_index("ivfpq").embedding_type == np.float16  # half the room on the disk during a build
    assert (cells.manifest["kind"], cells.manifest["bytes_per_name"]) == ("ivfpq", 72)
    names = np.array([0.0, 5.0])
    for i, name in enumerate(names):
        wanted, found = (set(one[1][one[0] == i].tolist()) for one in (flat.near(names, 3), cells.near(names, 3)))
        assert wanted == found - {name}
