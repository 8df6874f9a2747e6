"""An updated bundle links like one built with the new release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from medlink.cli.main import app
from medlink.errors import BundleError, ConfigError, InputError
from medlink.index import Bundle, build_bundle, extend_bundle, update_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker, Mention
from medlink.linking.ranking import default_ranker
from medlink.models import load_encoder
from medlink.records import Link
from tests.kb.writers import write_lines
from tests.models.test_static import CONFIG, random_encoder

pytestmark = pytest.mark.slow

HEADER = "concept_id\tname\tlanguage\tsemantic_type"
STEMS = ("cardio", "nephro", "hepato", "gastro", "neuro", "dermato", "osteo", "pneumo", "haemo", "arthro")
ENDS = ("pathia", "itis", "osis", "algia", "oma", "ectasia", "plegia", "stasis")


def table(path: Path, rows: list[str], head: str = HEADER) -> Input:
    return Input("table", write_lines(path, [head, *rows]), {"source": "T"})


def make_releases(folder: Path) -> list[Input]:
    """Two releases of some hundred names in two languages, of which about a tenth differ."""
    releases = []
    for name, skipped, suffix in (("old", 3, ""), ("new", 7, " nova")):
        rows = []
        for number, (stem, end) in enumerate((stem, end) for stem in STEMS for end in ENDS):
            if number % 11 == skipped:
                continue
            more = suffix if number % 13 == 0 else ""
            rows.append(f"T:{number}\t{stem}{end}{more}\ten\tDisease")
            rows.append(f"T:{number}\tchronische {stem.title()}{end}\tde\tDisease")
        releases.append(table(folder / f"{name}.tsv", rows))
    return releases


def make_mentions() -> list[Mention]:
    found = [Mention(f"{stem}{end}", "en") for stem in STEMS for end in ENDS]
    return [*found, *(Mention(f"schwere {one.text.title()}", "de") for one in found)]


def comparable(links: list[Link]) -> list[Any]:
    return [
        (link.status, [(one.concept_id, one.name, one.route, round(one.score, 4)) for one in link.candidates])
        for link in links
    ]


class Counting:
    """An encoder that records the texts it embeds."""

    def __init__(self, encoder: Any) -> None:
        self._encoder, self.texts = encoder, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.texts += texts
        vectors: NDArray[np.float32] = self._encoder.encode(texts)
        return vectors


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_links_are_those_of_a_build(kind: str, tmp_path: Path) -> None:
    old, new = make_releases(tmp_path)
    for name, release in (("updated", old), ("built", new)):
        build_kb(tmp_path / f"{name}.sqlite", [release])
        build_bundle(tmp_path / name, kb=tmp_path / f"{name}.sqlite", kind=kind, calibration=default_ranker().to_dict())
    report = update_bundle(tmp_path / "updated", [new], on_message=lambda _: None)
    updated, built = Bundle(tmp_path / "updated"), Bundle(tmp_path / "built")
    one, other = updated.index.segments[0], built.index.segments[0]
    assert {**one.manifest, "files": 0} == {**other.manifest, "files": 0}
    assert one.manifest["kind"] == kind
    assert [*one.names.texts] == [*other.names.texts]
    rows = np.arange(len(one.names))
    assert np.allclose(one.vectors.vectors(rows), other.vectors.vectors(rows), atol=1e-6 if kind == "flat" else 1e-3)
    assert updated.kb.content_hash == built.kb.content_hash == updated.manifest["kb"]["content_hash"]
    for key in ("calibration", "doubted", "lexicon", "encoder"):
        assert updated.manifest[key] == built.manifest[key]
    assert 0 < report.embedded < 0.3 * report.names == 0.3 * len(rows)
    links = [comparable(Linker(bundle).link(make_mentions())) for bundle in (updated, built)]
    if kind == "flat":
        assert links[0] == links[1]
    else:
        # vectors that stayed are rounded to 16 bits before the nearest names are sought
        assert [found and found[0][0] for _, found in links[0]] == [found and found[0][0] for _, found in links[1]]


def test_only_new_spellings_are_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = table(tmp_path / "old.tsv", ["T:1\tFever\ten\tSign", "T:2\tcough\ten\tSign", "T:3\tice\ten\tSign"])
    new = table(tmp_path / "new.tsv", ["T:1\tfever\ten\tSign", "T:9\tcough\ten\tSign", "T:4\titch\ten\tSign"])
    build_kb(tmp_path / "old.sqlite", [old])
    build_bundle(tmp_path / "house", kb=tmp_path / "old.sqlite")
    extend_bundle(tmp_path / "house", [table(tmp_path / "more.tsv", ["T:4\titch\ten\tSign"])])
    counting = Counting(load_encoder())
    monkeypatch.setattr(Bundle, "encoder", counting)
    messages = list[str]()
    report = update_bundle(tmp_path / "house", [new], on_message=messages.append)
    # a new spelling of the same exact form; added names are known
    assert counting.texts == ["fever"]
    assert (report.names, report.embedded) == (3, 1)
    assert messages == []
    assert "added" not in Bundle(tmp_path / "house").index.manifest


@pytest.mark.usefixtures("small_lexicon")
def test_settings_stay(tmp_path: Path) -> None:
    """Encoder, calibration, kind of index and lexicon folders."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "families.tsv").write_text("family\tde\nward round\tKurvenvisite {f}\n", "utf-8")
    random_encoder(CONFIG).save(tmp_path / "encoder")
    old, new = make_releases(tmp_path)
    build_kb(tmp_path / "old.sqlite", [old])
    weights = default_ranker().to_dict()
    before = build_bundle(
        tmp_path / "house", kb=tmp_path / "old.sqlite", encoder=tmp_path / "encoder", calibration=weights,
        lexicon=[tmp_path / "own"], kind="hnsw",
    )  # fmt: skip
    update_bundle(tmp_path / "house", [new])
    after = Bundle(tmp_path / "house")
    assert after.manifest["parts"]["encoder"] == before.manifest["parts"]["encoder"]
    assert after.manifest["calibration"] == weights
    assert after.manifest["lexicon"] == before.manifest["lexicon"] != []
    assert after.index.manifest["kind"] == "hnsw"
    assert after.index.forms.names == before.index.forms.names


@pytest.mark.usefixtures("house")
def test_pending_knowledge_base_is_used(tmp_path: Path) -> None:
    new = table(tmp_path / "new.tsv", ["T:1\tfever\ten\tSign"])
    build_kb(tmp_path / "house" / "kb.sqlite", [new])
    with pytest.raises(ConfigError, match="the new release has no names of: "):
        update_bundle(tmp_path / "house")
    assert (tmp_path / "house" / "kb.sqlite").exists()
    report = update_bundle(tmp_path / "house", changes=tmp_path / "out.jsonl", allow_loss=True)
    assert report.kb is None
    assert report.changes.changes["added"] == len((tmp_path / "out.jsonl").read_text("utf-8").split('"added"')) - 1 == 1
    assert not (tmp_path / "house" / "kb.sqlite").exists()
    assert "T:1" in Bundle(tmp_path / "house").kb
    # and again, from its own
    assert update_bundle(tmp_path / "house").embedded == 0


@pytest.mark.usefixtures("house")
def test_added_names_are_missed(tmp_path: Path) -> None:
    extend_bundle(tmp_path / "house", [table(tmp_path / "more.tsv", ["M:1\tspina ventosa\ten\tDisease"])])
    messages = list[str]()
    new = table(tmp_path / "new.tsv", ["T:1\tfever\ten\tSign"])
    update_bundle(tmp_path / "house", [new], allow_loss=True, on_message=messages.append)
    (message,) = messages
    assert message.startswith("1 of 1 names that were added to the bundle are not in the new knowledge base")
    assert f"extend_bundle({tmp_path / 'house'}, table=FILE)" in message


@pytest.mark.usefixtures("house")
def test_refusals(tmp_path: Path) -> None:
    new = table(tmp_path / "new.tsv", ["T:1\tfever\ten\tSign"])
    with pytest.raises(BundleError, match="no such bundle"):
        update_bundle(tmp_path / "none", [new])
    before = sorted(path.name for path in (tmp_path / "house").iterdir())
    manifest = (tmp_path / "house" / "manifest.json").read_bytes()
    for error, match, inputs, options in (
        (InputError, "no such file", [Input("table", tmp_path / "nothing.tsv")], {}),
        (ConfigError, "unknown format", [Input("nothing", tmp_path)], {}),
        (ConfigError, "the output is a folder", [new], {"changes": tmp_path}),
        (InputError, "no concept with a name", [new], {"languages": ["de"]}),
    ):
        with pytest.raises(error, match=match):
            update_bundle(tmp_path / "house", inputs, **options)
        assert sorted(path.name for path in (tmp_path / "house").iterdir()) == before
        assert (tmp_path / "house" / "manifest.json").read_bytes() == manifest
    with pytest.raises(BundleError, match="is a part of the bundle"):
        update_bundle(next((tmp_path / "house").glob("kb-*")), [new])


@pytest.mark.usefixtures("house")
def test_command(tmp_path: Path) -> None:
    new = table(tmp_path / "new.tsv", ["T:1\tfever\ten\tSign", "T:1\tFieber\tde\tSign", "T:2\tmelaena\ten\tSign"])
    words = ["index", "update", tmp_path / "house", "--table", new.path, "--languages", "en", "-o", tmp_path / "o.tsv"]
    words.append("--allow-loss")
    lines = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False).stdout.splitlines()
    assert lines[0] == f"table {new.path}: 3 rows"
    assert "  left out: name in another language: 1" in lines
    assert "added                  2" in lines
    assert lines[-1] == f"{tmp_path / 'house'}: 2 distinct names, 1 of them embedded"
    assert (tmp_path / "o.tsv").read_text("utf-8").count("\nadded\t") == 2


NEXT = {
    "the same names": (["T:1\tfever\ten", "T:2\tcough\ten"], ["T:1\tFieber\tde"], True),
    "another file name": (["T:1\tfever\ten", "T:2\tcough\ten"], None, True),
    "an extension that is missing": (["T:1\tfever\ten", "T:2\tcough\ten"], [], False),
    "a language that is missing": (["T:1\tfever\ten", "T:2\tcough\ten"], ["T:1\tfievre\tfr"], False),
    "only the extension": ([], ["T:1\tFieber\tde"], False),
}


@pytest.mark.usefixtures("small_lexicon")
@pytest.mark.parametrize("case", NEXT)
def test_a_forgotten_file_is_refused(case: str, tmp_path: Path) -> None:
    """FILES are recognised, as by a build; a language that is not wanted is no loss."""
    (tmp_path / "old").mkdir()
    head = "concept_id\tname\tlanguage"
    core = write_lines(tmp_path / "old" / "core.tsv", [head, "T:1\tfever\ten", "T:2\tcough\ten"])
    more = write_lines(tmp_path / "old" / "more.tsv", [head, "T:1\tFieber\tde"])
    build_kb(tmp_path / "old.sqlite", [Input("table", core), Input("table", more)])
    build_bundle(tmp_path / "house", kb=tmp_path / "old.sqlite")
    rows, further, is_taken = NEXT[case]
    files = [write_lines(tmp_path / "core.tsv", [head, *rows])] if rows else []
    if further is None:
        files.append(write_lines(tmp_path / "renamed.tsv", [head, "T:1\tFieber\tde", "T:1\theiß\tde"]))
    elif further:
        files.append(write_lines(tmp_path / "more.tsv", [head, *further]))
    words = ["update", str(tmp_path / "house"), *map(str, files)]
    if not is_taken:
        for group in ("kb", "index"):
            with pytest.raises(ConfigError, match="the new release has no names of: ") as caught:
                CliRunner().invoke(app, [group, *words], catch_exceptions=False)
            assert "allow_loss=..." in str(caught.value)
        assert not (tmp_path / "house" / "kb.sqlite").exists()
        words += ["--allow-loss"]
    done = CliRunner().invoke(app, ["index", *words], catch_exceptions=False)
    assert "taken for --table" in done.stdout
    assert done.exit_code == 0
    if case == "the same names":
        again = ["index", "update", str(tmp_path / "house"), str(core), "--languages", "en"]
        assert CliRunner().invoke(app, again, catch_exceptions=False).exit_code == 0
