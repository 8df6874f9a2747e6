"""The static encoder: its arithmetic, its files, and the module that sentence-transformers loads."""

from __future__ import annotations

import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from medlink.errors import BundleError, EncoderError
from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.lexicon.forms import shipped_forms
from medlink.models import StaticConfig, StaticEncoder, load_encoder
from medlink.models.ngrams import buckets, hash_markers, hash_ngrams, rules_digest
from medlink.models.static import pieces
from medlink.models.static.encoder import features, gelu, is_static, quantise
from medlink.models.static.meanings import MeaningReader

CONFIG = StaticConfig(families=False, rows=97, dimension=6, hidden=5)
TEXTS = ["Herzinfarkt", "", "dolor torácico", "β-Blocker", "…", "Typ IIb"]


def random_encoder(config: StaticConfig = CONFIG, seed: int = 0) -> StaticEncoder:
    rng = np.random.default_rng(seed)
    d, h = config.dimension, config.hidden
    codes, scale = quantise(rng.standard_normal((config.rows, d)).astype(np.float32))
    shapes = {
        "norm.weight": (d,),
        "norm.bias": (d,),
        "up.weight": (h, d),
        "up.bias": (h,),
        "down.weight": (d, h),
        "down.bias": (d,),
    }
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return StaticEncoder(config, {"table": codes, "scale": scale, **weights})


@pytest.fixture(scope="module")
def read() -> StaticEncoder:
    """An encoder of random weights that reads word families, and two words of its own."""
    config = CONFIG.replace(families=True, rows=4001)
    tensors = random_encoder(CONFIG.replace(rows=4001)).tensors
    return StaticEncoder(config, tensors, forms=shipped_forms().with_words(["bartter", "xylobarth"]))


def naive(encoder: StaticEncoder, text: str) -> list[float]:
    """The formula of the module's docstring, one number at a time."""
    w = {k: np.asarray(v, dtype=np.float64) for k, v in encoder.tensors.items()}
    c = encoder.config
    bags = hash_ngrams([text], c.sizes)
    if not len(bags.hashes):
        return [0.0] * c.dimension

    def vector(one: np.uint64) -> list[float]:
        rows = [int(buckets(np.array([one]), c.rows, probe)[0]) for probe in range(c.probes)]
        return [sum(w["table"][row, j] * w["scale"][row] for row in rows) for j in range(c.dimension)]

    def unit(v: list[float]) -> list[float]:
        length = math.sqrt(sum(a * a for a in v))
        return [a / length if length else 0.0 for a in v]

    x = [0.0] * c.dimension
    for one in bags.hashes:
        x = [a + b / len(bags.hashes) for a, b in zip(x, vector(one), strict=True)]
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    normed = [(v - mean) / deviation * g + b for v, g, b in zip(x, w["norm.weight"], w["norm.bias"], strict=True)]
    up = [
        sum(a * v for a, v in zip(row, normed, strict=True)) + b
        for row, b in zip(w["up.weight"], w["up.bias"], strict=True)
    ]
    act = [0.5 * u * (1 + math.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))) for u in up]
    down = [
        sum(a * v for a, v in zip(row, act, strict=True)) + b
        for row, b in zip(w["down.weight"], w["down.bias"], strict=True)
    ]
    y = unit([a + b for a, b in zip(x, down, strict=True)])
    m = [0.0] * c.dimension
    for one in hash_markers([text])[1] if c.marker_weight else ():
        m = [a + b for a, b in zip(m, vector(one), strict=True)]
    return unit([a + c.marker_weight * b for a, b in zip(y, unit(m), strict=True)])


@pytest.mark.parametrize("marker_weight", [0.5, 0.0, 2.0])
def test_same_numbers_as_the_formula(marker_weight: float) -> None:
    encoder = random_encoder(CONFIG.replace(marker_weight=marker_weight))
    texts = ["Herzinfarkt", "", "type 2 diabetes", "x", "…", "Grad IIb"]
    got = encoder.encode(texts)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, [naive(encoder, text) for text in texts], atol=1e-5)
    assert encoder.encode([]).shape == (0, 6)


def test_the_batch_does_not_count() -> None:
    encoder = random_encoder()
    texts = [f"name {i}" for i in range(50)]
    np.testing.assert_allclose(encoder.encode(texts), np.concatenate([encoder.encode([t]) for t in texts]), atol=1e-6)


def test_the_batch_and_what_is_remembered_do_not_count_by_a_bit(
    read: StaticEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, *(f"Nierenzyste Typ {i} der Leber {i % 7}" for i in range(600)), "KHK", "cervical carcinoma"]
    expected = read.encode(texts)
    np.testing.assert_array_equal(read.encode(texts[::-1])[::-1], expected)
    np.testing.assert_array_equal(np.concatenate([read.encode([text]) for text in texts[:40]]), expected[:40])
    monkeypatch.setattr(pieces, "_MOST", 3)  # nearly each word is forgotten and met anew
    new = StaticEncoder(read.config, read.tensors, forms=read.forms)
    np.testing.assert_array_equal(np.concatenate([new.encode([text]) for text in texts[:40]]), expected[:40])
    assert max(len(new._pieces._words._numbers), len(new._pieces._codes._numbers)) < 10
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(new)).encode(texts), expected)  # noqa: S301  # our own


@pytest.mark.parametrize("sizes", [(1, 2), (2, 3), (3, 4, 5)])
@pytest.mark.parametrize("most", [5, 12, 256])
def test_names_are_the_sums_of_their_words(read: StaticEncoder, sizes: tuple[int, ...], most: int) -> None:
    """As their features are: also of a name that is cut, before or behind a letter that is spelt as several."""
    encoder = StaticEncoder(read.config.replace(sizes=sizes, max_chars=most), read.tensors, forms=read.forms)
    texts = [*TEXTS, "ßßß αβγ Niere 2", "Leber und Leber", "hepatitis a", "hepatitis a 2", "dolor de cabeza", "Niere"]
    found = features(texts, encoder.config, MeaningReader(shipped_forms()))
    table = encoder.tensors["table"] * encoder.tensors["scale"][:, None].astype(np.float64)

    def sums(indptr: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([table[rows[a:b]].sum(axis=0) for a, b in pairwise(indptr.tolist())])

    probes = encoder.config.probes
    mean = sums(found.indptr, found.rows) * probes / np.maximum(np.diff(found.indptr), 1)[:, None]
    mean += sums(found.family_indptr, found.family_rows) * probes / np.maximum(np.diff(found.family_indptr), 1)[:, None]
    summed = encoder._pieces.sums(texts)
    np.testing.assert_allclose(summed.mean, mean, atol=1e-5)
    assert summed.empty.tolist() == (np.diff(found.indptr) == 0).tolist()
    assert summed.marked.tolist() == np.flatnonzero(np.diff(found.marker_indptr)).tolist()
    np.testing.assert_allclose(summed.markers, sums(found.marker_indptr, found.marker_rows)[summed.marked], atol=1e-5)


def test_threads_share_what_is_remembered(read: StaticEncoder) -> None:
    texts = [f"Nierenzyste {i} leber{i}" for i in range(300)]
    expected = read.encode(texts)
    new = StaticEncoder(read.config, read.tensors, forms=read.forms)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(new.encode, [texts] * 8):
            np.testing.assert_array_equal(found, expected)


def test_features_pair_the_probes() -> None:
    indptr, rows, marker_indptr, marker_rows, *families = features(["ab", "", "ab 2"], CONFIG)
    assert [part.tolist() for part in families] == [[0, 0, 0, 0], []]
    hashes = hash_ngrams(["ab"], CONFIG.sizes).hashes
    assert indptr[:3].tolist() == [0, 2 * len(hashes), 2 * len(hashes)]
    rows = rows[: indptr[1]]
    assert rows[0::2].tolist() == buckets(hashes, 97, 0).tolist()
    assert rows[1::2].tolist() == buckets(hashes, 97, 1).tolist()
    assert marker_indptr.tolist() == [0, 0, 0, 2]
    markers = hash_markers(["ab 2"])[1]
    assert marker_rows.tolist() == [*buckets(markers, 97, 0), *buckets(markers, 97, 1)]


def test_the_weight_of_markers_does_not_depend_on_length() -> None:
    """A number that differs costs a long name as much similarity as a short one."""
    plain = random_encoder(CONFIG.replace(rows=50_000, dimension=300, marker_weight=0.0))
    marked = StaticEncoder(plain.config.replace(marker_weight=1.0), plain.tensors)
    for name in ("grade", "squamous cell carcinoma of the nasopharynx in adults grade"):
        one, other = f"{name} 1", f"{name} 2"
        before, after = (float(np.dot(*e.encode([one, other]))) for e in (plain, marked))
        assert after == pytest.approx(before / 2, abs=0.1)
        assert float(np.dot(*marked.encode([f"{name} II", other]))) > after + 0.2


def test_quantise_is_within_half_a_step() -> None:
    table = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    table[3] = 0
    codes, scale = quantise(table)
    assert np.abs(codes * scale[:, None] - table).max() <= scale.max() / 2 + 1e-7
    assert gelu(np.array([0.0], dtype=np.float32))[0] == 0


def test_round_trip_and_fingerprint(tmp_path: Path) -> None:
    encoder = random_encoder()
    encoder.save(tmp_path / "e")
    again = StaticEncoder.load(tmp_path / "e")
    assert again.fingerprint == encoder.fingerprint != random_encoder(seed=1).fingerprint
    np.testing.assert_array_equal(again.encode(["Fieber"]), encoder.encode(["Fieber"]))
    assert is_static(tmp_path / "e")
    assert not is_static(tmp_path)


def test_an_encoder_from_before_markers_has_none() -> None:
    raw = CONFIG.to_dict()
    del raw["marker_weight"]
    assert StaticConfig.from_dict(raw) == CONFIG.replace(marker_weight=0.0)


def test_sentence_transformers_computes_the_same(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = random_encoder()
    encoder.save(tmp_path / "e")
    # the library asks for the flag for any class that is not its own, although nothing remote is run
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(tmp_path / "e"))
    model = SentenceTransformer(str(tmp_path / "e"), trust_remote_code=True)
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    assert model.get_embedding_dimension() == 6
    assert model.max_seq_length == CONFIG.max_chars
    model.save(str(tmp_path / "again"))
    assert is_static(tmp_path / "again")
    np.testing.assert_allclose(load_encoder(tmp_path / "again").encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("marker_weight", [0.5, 0.0])
def test_one_forward_pass_in_numpy_and_one_in_torch(marker_weight: float) -> None:
    import torch

    from medlink.models.static.module import StaticEmbedding, as_tensors

    encoder = random_encoder(CONFIG.replace(marker_weight=marker_weight))
    module = StaticEmbedding.of(encoder, dropout=0.5).eval()
    expected = encoder.encode(TEXTS)
    with torch.no_grad():
        whole = module(module.preprocess(TEXTS))["sentence_embedding"].numpy()
        # as the trainer from nothing calls it: the rows in use alone, numbered anew
        found = features(TEXTS, encoder.config)
        used, local = np.unique(np.concatenate([found.rows, found.marker_rows]), return_inverse=True)
        rows, marker_rows = np.split(local, [len(found.rows)])
        read = as_tensors(found._replace(rows=rows, marker_rows=marker_rows))
        ones = [torch.ones(len(part)) for part in (rows, marker_rows, found.family_rows)]
        of_rows = module.compose(module.table.weight[torch.from_numpy(used)], read, *ones).numpy()
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    np.testing.assert_array_equal(of_rows, whole)
    assert module.encoder().fingerprint == encoder.fingerprint


def test_a_folder_of_an_older_medlink(tmp_path: Path) -> None:
    encoder = random_encoder()
    encoder.save(tmp_path)
    modules = (tmp_path / "modules.json").read_text("utf-8")
    assert "medlink.models.static.module.StaticEmbedding" in modules
    old = modules.replace("medlink.models.static.module.", "medlink.models.static_module.")
    (tmp_path / "modules.json").write_text(old, encoding="utf-8")
    assert is_static(tmp_path)
    np.testing.assert_array_equal(load_encoder(tmp_path).encode(TEXTS), encoder.encode(TEXTS))


def other_normalise(texts: list[str]) -> list[str]:
    """Normalisation that keeps accents."""
    return [text.casefold() for text in texts]


def other_markers(form: str) -> list[str]:
    """Markers without the first rule: each word with a digit."""
    return [word for word in form.split() if any(letter.isdigit() for letter in word)]


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ("medlink.models.ngrams.markers", other_markers),
        ("medlink.models.ngrams.normalise_all", other_normalise),
        ("medlink.models.ngrams._WORD_SALT", 0x52),
        ("medlink.models.ngrams._MARKER_SALT", 0x3B << 32),
        ("medlink.models.ngrams._PRIME", np.uint64(0x9E3779B97F4A7C17)),
    ],
)
def test_a_change_of_a_rule_refuses_bundles(
    place: str, rule: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "names.tsv"
    table.write_text("concept_id\tname\tlanguage\nX:1\tdiabetes type 2\ten\nX:2\tcough\ten\n", encoding="utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    random_encoder().save(tmp_path / "e")
    build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite", encoder=tmp_path / "e")
    before = Bundle(tmp_path / "bundle").encoder.fingerprint
    monkeypatch.setattr(place, rule)
    rules_digest.cache_clear()
    try:
        assert StaticEncoder.load(tmp_path / "e").fingerprint != before
        with pytest.raises(BundleError, match=r"the encoder is not the one.*Remedy: .*build_bundle"):
            _ = Bundle(tmp_path / "bundle").encoder
    finally:
        monkeypatch.undo()
        rules_digest.cache_clear()
    assert Bundle(tmp_path / "bundle").encoder.fingerprint == before


def test_damaged_folders(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="no such encoder folder"):
        load_encoder(tmp_path / "nothing")
    random_encoder().save(tmp_path / "e")
    weights = tmp_path / "e" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(EncoderError, match="cannot be read"):
        load_encoder(tmp_path / "e")
    weights.unlink()
    with pytest.raises(EncoderError, match="missing"):
        load_encoder(tmp_path / "e")
    (tmp_path / "e" / "config.json").write_text(json.dumps({"rows": 3}))
    with pytest.raises(EncoderError, match="not a configuration"):
        load_encoder(tmp_path / "e")


def test_wrong_tensors_are_refused() -> None:
    encoder = random_encoder()
    with pytest.raises(EncoderError, match=r"weights are missing: up\.bias"):
        StaticEncoder(CONFIG, {k: v for k, v in encoder.tensors.items() if k != "up.bias"})
    with pytest.raises(EncoderError, match="table of shape"):
        StaticEncoder(StaticConfig(families=False, rows=50, dimension=6, hidden=5), encoder.tensors)


def test_builtin_encoder_speaks_three_languages() -> None:
    encoder = load_encoder()
    folder = Path(str(getattr(encoder, "folder", "")))
    assert sum(p.stat().st_size for p in folder.iterdir()) < 25_000_000
    assert encoder.dimension == 256
    near, far = "myocardial infarction", "ingrown toenail"
    for mention in ("heart attack", "Herzinfarkt", "infarto de miocardio"):
        a, b, c = encoder.encode([mention, near, far])
        assert a @ b > a @ c + 0.3
    card = (folder / "README.md").read_text("utf-8")
    assert "Training data" in card
    assert f"Fingerprint `{encoder.fingerprint}`" in card


def test_families_are_features_in_numpy_and_in_torch(read: StaticEncoder, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from medlink.models.static.module import StaticEmbedding

    texts = [*TEXTS, "Unterschenkelödeme", "KHK", "Bartter syndrome", "zzyxq"]
    vectors = read.encode(texts)
    module = StaticEmbedding.of(read).eval()
    with torch.no_grad():
        found = module(module.preprocess(texts))["sentence_embedding"].numpy()
    np.testing.assert_allclose(found, vectors, atol=1e-6)
    assert module.encoder().fingerprint == read.fingerprint
    again = StaticEncoder.load(read.save(tmp_path))
    assert again.fingerprint == read.fingerprint
    np.testing.assert_array_equal(again.encode(texts), vectors)
    # other forms are another encoder, and none at all an error
    assert StaticEncoder(read.config, read.tensors, forms=shipped_forms()).fingerprint != read.fingerprint
    with pytest.raises(EncoderError, match="word families of the encoder are missing"):
        StaticEncoder(read.config, read.tensors)


def test_what_a_name_means_are_its_features(read: StaticEncoder) -> None:
    def rows(*texts: str) -> list[set[int]]:
        found = features(texts, read.config, MeaningReader(read.forms))  # type: ignore[arg-type]  # it has forms
        return [set(part.tolist()) for part in np.split(found.family_rows, found.family_indptr[1:-1])]

    one, other, wrong, nothing, own, like = rows("hepatisch", "liver", "Pneumnoie", "zzyxqv", "Bartter", "Barttner")
    assert one <= other
    assert wrong <= rows("Pneumonie")[0]  # one typing error
    assert wrong
    assert not nothing
    assert own == like
