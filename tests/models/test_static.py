"""The static encoder: its arithmetic, its files, and the module that sentence-transformers loads."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from medlink.errors import EncoderError
from medlink.language.lexicon.forms import shipped_forms
from medlink.models import StaticConfig, StaticEncoder, load_encoder
from medlink.models.file_hashes import write_hashes
from medlink.models.ngrams import buckets, hash_markers, hash_ngrams, rules_digest
from medlink.models.static import feature_sums
from medlink.models.static.encoder import Features, features, gelu, is_static, quantise
from medlink.models.static.feature_sums import MeaningHasher

CONFIG = StaticConfig(families=False, rows=97, dimension=6, hidden=5)
TEXTS = ["Herzinfarkt", "", "dolor torácico", "β-Blocker", "…", "Typ IIb"]


def random_encoder(config: StaticConfig = CONFIG, seed: int = 0) -> StaticEncoder:
    rng = np.random.default_rng(seed)
    d, h = config.dimension, config.hidden
    codes, scale = quantise(rng.standard_normal((config.rows, d)).astype(np.float32))
    shapes = {"norm.weight": (d,), "norm.bias": (d,), "up.weight": (h, d), "up.bias": (h,)}
    shapes |= {"down.weight": (d, h), "down.bias": (d,)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return StaticEncoder(config, {"table": codes, "scale": scale, **weights})


@pytest.fixture(scope="module")
def read() -> StaticEncoder:
    """An encoder of random weights with word families and two own words."""
    config = CONFIG.replace(families=True, rows=4001)
    tensors = random_encoder(CONFIG.replace(rows=4001)).tensors
    return StaticEncoder(config, tensors, forms=shipped_forms().with_words(["bartter", "xylobarth"]))


def naive(encoder: StaticEncoder, text: str) -> np.ndarray:
    """The formula of the module's docstring for one name."""
    w = {k: np.asarray(v, dtype=np.float64) for k, v in encoder.tensors.items()}
    c = encoder.config

    def vector(one: np.uint64) -> np.ndarray:
        rows = [int(buckets(np.array([one]), c.rows, probe)[0]) for probe in range(c.probes)]
        return sum(w["table"][row] * w["scale"][row] for row in rows)

    def unit(v: np.ndarray) -> np.ndarray:
        return v / (np.linalg.norm(v) or 1)

    ngrams = hash_ngrams([text], c.sizes).values
    if not len(ngrams):
        return np.zeros(c.dimension)
    x = np.mean([vector(one) for one in ngrams], axis=0)
    normed = (x - x.mean()) / math.sqrt(x.var() + 1e-5) * w["norm.weight"] + w["norm.bias"]
    up = w["up.weight"] @ normed + w["up.bias"]
    act = 0.5 * up * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
    y = unit(x + w["down.weight"] @ act + w["down.bias"])
    m = sum((vector(one) for one in hash_markers([text]).values), np.zeros(c.dimension))
    return unit(y + c.marker_weight * unit(m))


@pytest.mark.parametrize("marker_weight", [0.5, 0.0, 2.0])
def test_same_numbers_as_the_formula(marker_weight: float) -> None:
    encoder = random_encoder(CONFIG.replace(marker_weight=marker_weight))
    texts = ["Herzinfarkt", "", "type 2 diabetes", "x", "…", "Grad IIb"]
    got = encoder.encode(texts)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, [naive(encoder, text) for text in texts], atol=1e-5)
    assert encoder.encode([]).shape == (0, 6)


@pytest.mark.slow
def test_embeddings_depend_on_neither_batch_nor_cache(read: StaticEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, *(f"Nierenzyste Typ {i} der Leber {i % 7}" for i in range(300)), "KHK", "cervical carcinoma"]
    expected = read.encode(texts)
    np.testing.assert_array_equal(read.encode(texts[::-1])[::-1], expected)
    np.testing.assert_array_equal(np.concatenate([read.encode([text]) for text in texts[:40]]), expected[:40])
    monkeypatch.setattr(feature_sums, "_CACHED", 3)  # nearly each word is computed again
    new = StaticEncoder(read.config, read.tensors, forms=read.forms)
    np.testing.assert_array_equal(np.concatenate([new.encode([text]) for text in texts[:40]]), expected[:40])
    copy = pickle.loads(pickle.dumps(new))  # noqa: S301  # our own
    monkeypatch.undo()
    with ThreadPoolExecutor(4) as pool:  # threads share the cache
        for found in pool.map(copy.encode, [texts] * 8):
            np.testing.assert_array_equal(found, expected)


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
    # a configuration of a version without markers
    raw = {name: value for name, value in CONFIG.to_dict().items() if name != "marker_weight"}
    assert StaticConfig.from_dict(raw) == CONFIG.replace(marker_weight=0.0)


@pytest.mark.slow
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


@pytest.mark.slow
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
        used = np.unique(np.concatenate([bags.values for bags in found]))
        local = (bags._replace(values=np.searchsorted(used, bags.values)) for bags in found)
        read, ones = as_tensors(Features(*local)), [torch.ones(len(bags.values)) for bags in found]
        of_rows = module.compose(module.table.weight[torch.from_numpy(used)], read, ones).numpy()
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    np.testing.assert_array_equal(of_rows, whole)
    assert module.encoder().fingerprint == encoder.fingerprint


def test_folder_of_version_0_1(tmp_path: Path) -> None:
    encoder = random_encoder()
    encoder.save(tmp_path)
    modules = (tmp_path / "modules.json").read_text("utf-8")
    assert "medlink.models.static.module.StaticEmbedding" in modules
    old = modules.replace("medlink.models.static.module.", "medlink.models.static_module.")
    (tmp_path / "modules.json").write_text(old, encoding="utf-8")
    write_hashes(tmp_path)
    assert is_static(tmp_path)
    np.testing.assert_array_equal(load_encoder(tmp_path).encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        # markers without their first rule: each word with a digit; normalisation that does not remove accents
        ("medlink.models.ngrams.markers", lambda form: [word for word in form.split() if any(map(str.isdigit, word))]),
        ("medlink.models.ngrams.normalise_all", lambda texts: [text.casefold() for text in texts]),
        ("medlink.models.ngrams._WORD_SALT", 0x52),
        ("medlink.models.ngrams._MARKER_SALT", 0x3B << 32),
        ("medlink.models.ngrams._PRIME", np.uint64(0x9E3779B97F4A7C17)),
    ],
)
def test_a_change_of_a_rule_is_another_encoder(
    place: str, rule: object, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.addfinalizer(rules_digest.cache_clear)
    before = random_encoder().fingerprint
    monkeypatch.setattr(place, rule)
    rules_digest.cache_clear()
    assert random_encoder().fingerprint != before


def test_wrong_tensors_are_refused() -> None:
    encoder = random_encoder()
    with pytest.raises(EncoderError, match=r"weights are missing: up\.bias"):
        StaticEncoder(CONFIG, {k: v for k, v in encoder.tensors.items() if k != "up.bias"})
    with pytest.raises(EncoderError, match="table of shape"):
        StaticEncoder(StaticConfig(families=False, rows=50, dimension=6, hidden=5), encoder.tensors)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_meanings_are_features(read: StaticEncoder) -> None:
    def rows(*texts: str) -> list[set[int]]:
        found = features(texts, read.config, MeaningHasher(read.forms)).families  # type: ignore[arg-type]  # it has forms
        return [set(part.tolist()) for part in np.split(found.values, found.offsets[1:-1])]

    one, other, wrong, nothing, own, like = rows("hepatisch", "liver", "Pneumnoie", "zzyxqv", "Bartter", "Barttner")
    assert one <= other
    assert wrong <= rows("Pneumonie")[0]  # one typing error
    assert wrong
    assert not nothing
    assert own == like
