"""A bundle with added names links like one built with all names."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import BundleError, ConfigError, InputError
from medlink.index import Bundle, ConceptIndex, Filter, build_bundle, extend_bundle
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner
from medlink.linking import Linker, Mention
from medlink.linking.demo import demo_folder
from medlink.linking.ranking import default_ranker
from medlink.models import StaticEncoder, load_encoder
from medlink.records import Link
from tests.index.test_bundle import part, parts, refer
from tests.models.test_static import CONFIG, random_encoder

pytestmark = pytest.mark.slow

_NOISE = 0.4
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def demo_rows() -> tuple[str, list[str]]:
    head, *rows = (demo_folder() / "terminology.tsv").read_text("utf-8").splitlines()
    return head, rows


def table(path: Path, keep: Callable[[str], bool]) -> Input:
    """The rows of the demo terminology whose concept passes."""
    head, rows = demo_rows()
    path.write_text("\n".join([head, *(row for row in rows if keep(row.split("\t")[0]))]) + "\n", encoding="utf-8")
    return Input("table", path, {"source": "DEMO"})


def parts_of_demo(folder: Path, shares: Iterable[int]) -> list[Input]:
    """The demo terminology in parts; the position of a concept among all ids decides its part."""
    place = {one: i for i, one in enumerate(sorted({row.split("\t")[0] for row in demo_rows()[1]}))}
    of = list(shares)
    return [
        table(folder / f"{part}.tsv", lambda one, part=part: of[place[one] % len(of)] == part)  # type: ignore[misc]  # a lambda with a default
        for part in range(max(of) + 1)
    ]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the demo concepts, every other one, and the other half added in two steps."""
    folder = tmp_path_factory.mktemp("extended")
    first, *later = parts_of_demo(folder, (0, 1, 0, 2))
    build_kb(folder / "bundle" / "kb.sqlite", [first])
    build_bundle(folder / "bundle", calibration=default_ranker().to_dict())
    for added in later:
        extend_bundle(folder / "bundle", [added])
    return folder / "bundle"


def mentions() -> list[Mention]:
    """Every third name of the demo terminology, and some hundred with one letter more, less, or another."""
    rng = random.Random(1)
    names = [Mention(row.split("\t")[1], row.split("\t")[2]) for row in demo_rows()[1]][::3]
    misspelt = []
    for name in rng.sample(names, 300):
        at, letter = rng.randrange(len(name.text)), rng.choice(LETTERS)
        end = name.text[at + rng.randrange(2) :]
        misspelt.append(Mention(name.text[:at] + rng.choice(["", letter]) + end, name.language))
    return [*names, *(mention for mention in misspelt if len(mention.text) > 4)]


def differing(links: list[Link], others: list[Link], within: float) -> list[tuple[str, str, str]]:
    """Mentions whose best concepts or scores differ."""
    found = []
    for link, other in zip(links, others, strict=True):
        best, wanted = (one.candidates[0] if one.candidates else None for one in (link, other))
        if best is None or wanted is None:
            same = best is wanted
        else:
            same = best.concept_id == wanted.concept_id and abs(best.score - wanted.score) <= within
            # word weights come from the main segment, so that dissimilar names may come from either alone
            same |= max(best.score, wanted.score) < _NOISE
        if not same:
            found.append((link.mention, str(best), str(wanted)))
    return found


def test_links_are_those_of_a_full_build(extended: Path, linker: Linker) -> None:
    asked = mentions()
    links, others = Linker(extended).link(asked), linker.link(asked)
    assert len(asked) > 1_800
    # word weights come from the main segment, a part of the names
    assert len(differing(links, others, 0.1)) < 4
    assert len(differing(links, others, 1e-4)) < len(asked) / 3


def test_segments_together_are_one_index(extended: Path, demo: Bundle) -> None:
    index, whole = Bundle(extended).index, demo.index
    assert index.added is not None
    alone = ConceptIndex(index.folder)
    assert alone.manifest == {key: value for key, value in alone.manifest.items() if key != "added"}
    assert len(alone) + index.manifest["added"]["rows"] == len(index) == len(whole)
    for key in ("rows", "names", "concepts"):
        assert index.manifest[key] == whole.manifest[key]
    names, others = index.keys(), whole.keys()
    assert index.norms(names) == whole.norms(others)
    for name, other in zip(names[::7].tolist(), others[::7].tolist(), strict=True):
        own, wanted = index.entries_of(name), whole.entries_of(other)
        assert sorted(own, key=str) == sorted(wanted, key=str)
    np.testing.assert_allclose(index.vectors(names), whole.vectors(others), atol=1e-6)


@pytest.mark.parametrize("of", ["main", "added"])
def test_nearest_names_of_both_segments(of: str, extended: Path) -> None:
    index = Bundle(extended).index
    names = index.segments[of == "added"].rows.keys(np.arange(300))
    every = index.keys()
    cosines = index.vectors(names) @ index.vectors(every).T
    cosines[every == names[:, None]] = -2
    best = np.sort(cosines, axis=1)[:, ::-1][:, :8]
    position, near = index.near(names, 8)
    for i in range(len(names)):
        found = cosines[i, np.searchsorted(every, np.unique(near[position == i]))]
        np.testing.assert_allclose(np.sort(found)[::-1][:8], best[i], atol=1e-5)


@pytest.mark.parametrize("wanted", [None, Filter(languages=("es",)), Filter(semantic_types=("Symptom",))], ids=str)
def test_search_merges_both_segments(wanted: Filter | None, extended: Path, demo: Bundle) -> None:
    queries = demo.encoder.encode(["Herzinfarrkt", "fiebre alta", "chest pian"])
    index = Bundle(extended).index
    (names, scores), (others, expected) = (one.search(queries, 12, wanted) for one in (index, demo.index))
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert [set(index.norms(row)) for row in names] == [set(demo.index.norms(row)) for row in others]


def test_adding_to_existing_names(tmp_path: Path) -> None:
    """A name in both segments is one name; a concept may get names, types and languages."""
    head = "concept_id\tname\tlanguage\ttype\tsemantic_type\n"
    first = head + "X:2\tMS\ten\tsynonym\tNerve\nX:2\tmultiple sclerosis\ten\tpreferred\tNerve\nX:4\tfever\ten\t\t\n"
    second = head + (
        "X:1\tMS\ten\tsynonym\tHeart\nX:1\tmitral stenosis\ten\tpreferred\tHeart\nX:3\tms\tde\tsynonym\tUnit\n"
        "X:4\tfever\ten\t\tSign\nX:4\tFieber\tde\tpreferred\t\nX:4\tfièvre\tfr\tpreferred\t\nX:0\tFEVER\ten\t\t\n"
    )
    for name, text in (("one", first), ("two", second)):
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    inputs = [Input("table", tmp_path / f"{name}.tsv", {"source": name}) for name in ("one", "two")]
    build_kb(tmp_path / "part" / "kb.sqlite", inputs[:1])
    build_kb(tmp_path / "whole" / "kb.sqlite", inputs)
    build_bundle(tmp_path / "part")
    build_bundle(tmp_path / "whole")
    report = extend_bundle(tmp_path / "part", inputs[1:])
    assert report.path == str(tmp_path / "part")
    assert KnowledgeBase(report.kb.path).content_hash == report.kb.content_hash
    assert (report.kb.names, report.kb.concepts, report.names, report.added) == (6 + 1, 3, 10, 7)
    assert report.to_dict()["kb"]["inputs"][0]["skipped"] == {"semantic type repeated, kept once": 1}
    part, whole = Linker(tmp_path / "part"), Linker(tmp_path / "whole")
    asked = [
        Mention(text, la) for text in ("MS", "ms", "Fever", "fiebre", "Fieber", "fièvre") for la in ("en", "de", "fr")
    ]
    contexts = ["a murmur of the heart, stenosis of a valve"] * len(asked)
    for around in (None, contexts):
        links, others = part.link(asked, around), whole.link(asked, around)
        assert differing(links, others, 0.1) == []
        assert [[c.concept_id for c in link.candidates[:3]] for link in links] == [
            [c.concept_id for c in link.candidates[:3]] for link in others
        ]
        assert [link.candidates[0].name for link in links] == [link.candidates[0].name for link in others]
    assert [c.concept_id for c in part.link([Mention("MS", "en")])[0].candidates[:3]] == ["X:3", "X:1", "X:2"]
    assert part.index.languages == ["de", "en", "fr"]
    for options in ({"languages": ["fr"]}, {"sources": ["two"]}, {"semantic_types": ["Sign"]}, {"languages": ["de"]}):
        one, other = Linker(tmp_path / "part", **options), Linker(tmp_path / "whole", **options)  # type: ignore[arg-type]  # options of several types
        assert differing(one.link(asked), other.link(asked), 0.1) == []
        assert {c.concept_id for link in one.link(asked) for c in link.candidates} == {
            c.concept_id for link in other.link(asked) for c in link.candidates
        }
    with pytest.raises(ConfigError, match=r"no semantic type 'Foot' in this index\. Remedy: known: Heart, Nerve, Sign"):
        part.index.select(Filter(semantic_types=("Foot",)))


def test_of_many_types_the_nearest_are_named() -> None:
    known = [*(f"GROUP {letter}" for letter in "ABCDEFGHIJKLMN"), "Disease of a person"]
    remedy = r"known: Disease of a person, .* and 3 more"
    with pytest.raises(ConfigError, match=rf"no semantic type 'diseas' in this index\. Remedy: {remedy}"):
        Filter(semantic_types=("diseas",)).check([], [], known)


def more(folder: Path, *rows: str, head: str = "concept_id\tname\tlanguage", name: str = "more") -> list[Input]:
    path = folder / f"{name}.tsv"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return [Input("table", path)]


def test_main_segment_is_neither_written_nor_embedded(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> dict[str, tuple[int, int]]:
        kept = [*part(bundle, "index").iterdir(), *part(bundle, "encoder").iterdir()]
        return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in kept}

    before = state()
    embedded: list[str] = []
    encode = StaticEncoder.encode

    def watched(self: StaticEncoder, texts: list[str]) -> np.ndarray:
        embedded.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(StaticEncoder, "encode", watched)
    done: list[tuple[str, int, int]] = []
    extend_bundle(bundle, more(bundle.parent, "X:3\tpain\ten", "X:1\tpyrexia\ten"), progress=lambda *n: done.append(n))
    extend_bundle(bundle, more(bundle.parent, "X:4\tnausea\ten"))
    assert state() == before
    assert embedded == ["pain", "pyrexia", "nausea", "pain", "pyrexia"]
    assert done == [("names embedded", 2, 2), ("nearest names", 2, 2)]
    found = Linker(bundle).link(["pain", "pyrexia", "nausea", "fever", "cough"])
    assert [link.concept_id for link in found] == ["X:3", "X:1", "X:4", "X:1", "X:2"]


def test_without_new_names_the_index_stays(bundle: Path) -> None:
    files = sorted(bundle.glob("index-*/*"))
    report = extend_bundle(
        bundle, more(bundle.parent, "X:1\tfever\ten\tA hot state.", head="id\tname\tlanguage\tdefinition", name="kb")
    )
    assert (report.kb.names, report.names, report.added) == (0, 2, 0)
    assert sorted(bundle.glob("index-*/*")) == files
    assert "added" not in parts(bundle)
    assert [d.text for d in Bundle(bundle).kb.definitions("X:1")] == ["A hot state."]
    typed = extend_bundle(
        bundle, more(bundle.parent, "X:1\tfever\ten\tSign", head="id\tname\tlanguage\tsemantic_type", name="kb")
    )
    assert (typed.kb.names, typed.added) == (0, 0)
    assert Linker(bundle, semantic_types=["Sign"]).link(["fever"])[0].candidates[0].semantic_types == ("Sign",)
    wordless = extend_bundle(bundle, more(bundle.parent, "X:3\t…\ten"))
    assert (wordless.kb.concepts, wordless.names) == (0, 2)
    assert Linker(bundle).link(["fever"])[0].concept_id == "X:1"


def test_further_entries_of_known_names(bundle: Path) -> None:
    report = extend_bundle(bundle, more(bundle.parent, "X:5\tFever\ten", "X:5\tcough\tde"))
    assert report.added == 2
    index = Bundle(bundle).index
    assert index.manifest["added"]["rows"] == 0
    (link,) = Linker(bundle).link(["fever"])
    assert [(c.concept_id, c.same_as) for c in link.candidates] == [("X:1", ("X:5",)), ("X:2", ())]
    text = Scanner("de", shared_analyser(index.forms)).scan("Husten: cough")
    assert {text.span(span.place)[0] for span in index.find(text, "de")} == {8}


def test_concept_without_an_indexed_name_gets_one(tmp_path: Path) -> None:
    head = "concept_id\tname\tlanguage\ttype\tsemantic_type"
    build_kb(
        tmp_path / "kb.sqlite", more(tmp_path, "X:1\tfever\ten\t\t", "X:2\tPain (finding)\ten\tfsn\tFinding", head=head)
    )
    build_bundle(tmp_path / "b", kb=tmp_path / "kb.sqlite")
    extend_bundle(tmp_path / "b", more(tmp_path, "X:2\tpain\ten\t\t", "X:3\tAll (tag)\ten\tfsn\tTag", head=head))
    assert Linker(tmp_path / "b").link(["pain"])[0].candidates[0].semantic_types == ("Finding",)
    assert Linker(tmp_path / "b").index.manifest["names"] == 2


def test_wrong_inputs_and_foreign_encoder(bundle: Path) -> None:
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    rows = [f"X:{n}\tname {n}\ten" for n in range(3, 9)]
    with pytest.raises(InputError, match=r"more\.tsv:8: 1 of 7 rows cannot be used \(unknown language: 1\)"):
        extend_bundle(bundle, more(bundle.parent, *rows, "X:9\tx\tklingon"), max_bad_share=0)
    with pytest.raises(InputError, match=r"missing\.tsv: no such file"):
        extend_bundle(bundle, [Input("table", bundle.parent / "missing.tsv")])
    with pytest.raises(BundleError, match="no such bundle"):
        extend_bundle(bundle.parent / "none", more(bundle.parent, *rows))
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before
    random_encoder(CONFIG.replace(dimension=load_encoder().dimension)).save(bundle.parent / "e")
    refer(bundle, "encoder", bundle.parent / "e")
    with pytest.raises(BundleError, match="the encoder is not the one the index was built with"):
        extend_bundle(bundle, more(bundle.parent, *rows))
    shutil.rmtree(part(bundle, "encoder"))
    with pytest.raises(BundleError, match="a part of the bundle is missing"):
        extend_bundle(bundle, more(bundle.parent, *rows))
