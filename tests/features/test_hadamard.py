"""The fast transform against the matrices it stands for."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from streamk.features.hadamard import MOST_BITS, address, gap_of, groups_of, tile_size, transform
from streamk.vector.lanes import LANES


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
