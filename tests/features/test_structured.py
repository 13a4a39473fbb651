"""Structured directions against the explicit matrix that the seed stands for."""

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import hadamard

from streamk.encoding.rows import EncodedRows
from streamk.features.counter import fill_bits, mix64_int
from streamk.features.map import FeatureMap
from streamk.features.matrix import fill
from streamk.features.structured import (
    MOST_BITS,
    Segments,
    add_projections,
    address,
    chi,
    gap_of,
    groups_of,
    slots_of_first,
    tile_size,
    transform,
)
from streamk.kernels import kernel
from streamk.vector.lanes import LANES, aligned

NONE = np.zeros((0, 4))


def feature_map(slots, features=300, scales=(2.0, 1.0), name="gaussian", seed=9):
    return FeatureMap((kernel(name),), 2.0, scales, features, seed, slots)


def frequencies(e, sizes):
    """The matrix ``W`` of the docstring, ``(slots, width)`` float64, from Hadamard matrices."""
    copies, whole = 2 * len(e.scales), []
    p = np.arange(e.width) // (16 * copies) * 16 + np.arange(e.width) % 16
    for s, n in enumerate(sizes):
        blocks = -(-(p.max() + 1) // n)
        words = np.empty(3 * n * blocks // 32, dtype=np.uint32)
        fill_bits(np.uint64(mix64_int(e.seed ^ mix64_int(0x7365676D656E7473 + s))), words)
        bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & 1
        signs = 1.0 - 2.0 * bits.reshape(blocks, 3, n)
        H = hadamard(n).astype(np.float64)
        directions = np.concatenate([H @ (d1[:, None] * H) @ (d2[:, None] * H) * d3 for d3, d2, d1 in signs])
        whole.append((directions[p] * e.waves[2 + s][:, None]).T)
    return np.concatenate(whole)


def features_of(e, X):
    out = np.empty((len(X), e.width), dtype=np.float32)
    keys = np.arange(1, X.shape[1] + 1, dtype=np.uint64)[None]
    fill(e, EncodedRows(np.full(keys.shape, -1, np.int32), keys, X), NONE, np.float32(np.sqrt(2.0)), out)
    return out


@pytest.mark.parametrize(("slots", "more", "sizes"), [
    (1, 0, [64]), (64, 0, [64]), (65, 0, [128]), (300, 0, [512]), (64, 130, [64, 64, 128]), (100, 129, [128,
    128]),
])  # fmt: skip
@pytest.mark.parametrize("features", [16, 300, 4096])
def test_features_are_the_formula(slots, more, sizes, features):
    e = feature_map(slots, features)
    e.cover(more)
    assert slots_of_first(slots) == sizes[0]
    X = np.random.default_rng(0).normal(size=(20, max(slots, more)))
    W = frequencies(e, sizes)[: X.shape[1]]
    exact = np.sqrt(2) * np.cos(2 * np.pi * (X @ W + e.waves[0].astype(np.float64)))
    exact[:, features:] = 0.0
    np.testing.assert_allclose(features_of(e, X), exact, atol=5e-5)


def test_the_second_of_a_pair_is_the_sine():
    e = feature_map(20, 256)
    phi = (
        features_of(e, np.random.default_rng(1).normal(size=(7, 20))).reshape(7, -1, 2, 16).astype(np.float64)
    )
    np.testing.assert_allclose((phi**2).sum(axis=2), 2.0, atol=1e-5)


def test_lengths_are_those_of_gaussian_vectors():
    n = 128
    W = frequencies(feature_map(n, 2**14, scales=(1.0,)), [n]) * 2 * np.pi * 2.0
    W = W[:, np.arange(2**14) % 32 < 16]
    lengths = np.linalg.norm(W, axis=0)
    assert stats.kstest(lengths, stats.chi(n).cdf).pvalue > 1e-3
    block = W[:, :n] / lengths[:n]
    np.testing.assert_allclose(block.T @ block, np.eye(n), atol=1e-5)


@pytest.mark.parametrize("n", [64, 128, 1024, 65_536])
def test_lengths_are_quantiles(n):
    u = np.concatenate(
        [np.linspace(0, 1, 1001)[1:-1], 2.0 ** -np.arange(3, 34), 1 - 2.0 ** -np.arange(3, 34)]
    )
    np.testing.assert_allclose(chi(n, u), stats.chi(n).ppf(u), rtol=2e-9)


def test_golden_features():
    """Pinned: a change here changes every saved model with structured directions."""
    phi = features_of(feature_map(3, 64), np.array([[0.5, -1.0, 2.0]]))
    np.testing.assert_array_equal(phi[0, :4], np.array(GOLDEN, dtype=np.float32))


GOLDEN = [1.3412420749664307, 0.7952775359153748, 1.1821348667144775, -1.060392141342163]


@pytest.mark.parametrize("name", ["gaussian", "arc-cosine"])
def test_categories_are_added_to_the_angles(name):
    e = feature_map(10, 256, name=name)
    category = np.uint64(2**40)
    X = np.random.default_rng(2).normal(size=(33, 11))
    X[:, 10] = 1.0
    keys = np.append(np.arange(1, 11, dtype=np.uint64), category)[None]
    rows = EncodedRows(np.full(keys.shape, -1, np.int32), keys, X)
    out = np.empty((33, e.width), dtype=np.float32)
    fill(e, rows, NONE, np.float32(np.sqrt(2.0)), out)
    W = np.vstack([frequencies(e, [64])[:10], e.frequencies(keys[0, 10:], slice(None), slice(0, e.width))])
    angles = X @ W + e.waves[0].astype(np.float64)
    exact = np.cos(2 * np.pi * angles) if name == "gaussian" else np.maximum(0.0, angles)
    np.testing.assert_allclose(out, np.sqrt(2) * exact, atol=5e-5)


def test_rows_do_not_depend_on_their_neighbours():
    """Sixteen rows at once, one row in sixteen blocks at once, rows with other fields: the same bytes."""
    e = feature_map(70, 1024)
    source, waves = e.source, e.waves
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 70)).astype(np.float32)
    keys = np.tile(np.arange(1, 71, dtype=np.uint64), (50, 1))
    counts = np.full(50, 70)
    counts[40:] = rng.integers(0, 70, size=10)
    whole = np.zeros((50, e.width), dtype=np.float32)
    amplitude = np.float32(1.0)
    add_projections(source, X, keys, counts, True, waves, amplitude, whole)
    for start, stop in ((0, 1), (3, 5), (38, 42), (41, 50), (0, 17)):
        part = np.zeros((stop - start, e.width), dtype=np.float32)
        add_projections(
            source, X[start:stop], keys[start:stop], counts[start:stop], True, waves, amplitude, part
        )
        used = counts[start:stop] > 0
        assert part[used].tobytes() == whole[start:stop][used].tobytes()


def test_angles_stay_finite():
    e = FeatureMap((kernel("matern:0.01"),), 1e-9, (1e-6,), 4096, 1, 65_536)
    out = features_of(e, np.full((2, 65_536), 1e15))
    assert np.isfinite(out).all()


def test_segments_cover_the_requested_slots():
    segments = Segments(1, 0, np.ones(64), 2)
    assert segments.slots == 64
    segments.cover(1000)
    assert segments.slots == 1024
    assert segments.compiled().segments[:, 0].tolist() == [0, 64, 128, 256, 512]


def test_alignment():
    for size in (16, 33, 4096):
        copy = aligned(np.arange(size, dtype=np.float32))
        assert copy.ctypes.data % 64 == 0
        assert copy.tolist() == list(range(size))


def walsh(x):
    """``x`` times the Walsh–Hadamard matrix, level by level in float64."""
    n = x.shape[-1]
    half = 1
    while half < n:
        pairs = x.reshape(-1, n // (2 * half), 2, half)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        x, half = x.reshape(-1, n), 2 * half
    return x


def places(groups):
    return np.array([address(c, gap_of(groups)) for c in range(1 << groups.sum())])


def as_tile(groups, rows):
    tile = np.full(tile_size(groups), np.nan, dtype=np.float32)
    for lane, row in enumerate(rows):
        tile[places(groups) + lane] = row
    return tile


def of_tile(groups, tile):
    return np.array([tile[places(groups) + lane] for lane in range(LANES)])


def test_the_reference_is_the_matrix():
    x = np.random.default_rng(0).normal(size=(3, 64))
    np.testing.assert_allclose(walsh(x), x @ hadamard(64), atol=1e-12)


@pytest.mark.parametrize("bits", range(6, MOST_BITS + 1))
def test_three_signed_transforms(bits):
    n, groups, rng = 1 << bits, groups_of(bits), np.random.default_rng(bits)
    assert groups.sum() == bits
    assert set(groups) <= {3, 4, 5}
    x = rng.normal(size=(LANES, n)).astype(np.float32)
    signs = rng.choice(np.array([-1.0, 1.0], np.float32), size=5 + 3 * n)
    expected = x.astype(np.float64)
    for d in range(3):
        expected = walsh(expected * signs[5 + d * n : 5 + (d + 1) * n])
    tile = np.full(tile_size(groups), np.nan, dtype=np.float32)
    transform(groups, as_tile(groups, x), signs, 5, tile)
    found = of_tile(groups, tile)
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()
    # the same row in every lane, with a sign for every lane, is the same sum to the bit
    lanes = np.repeat(signs[:, None], LANES, axis=1)
    lanes[5 : 5 + n, 3] *= -1.0
    transform(groups, x[2], lanes, 5, tile)
    one = of_tile(groups, tile)
    assert one[0].tobytes() == found[2].tobytes() == one[15].tobytes()
    assert one[3].tobytes() == (-found[2]).tobytes()
