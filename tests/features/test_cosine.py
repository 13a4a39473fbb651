import numpy as np
from numba import njit

from streamk.features.tiles import cosines as in_place


@njit
def _cosines(padded):
    for place in range(0, padded.shape[1], 16):
        in_place(padded, 0, place, np.float32(1.0))


def cosines(p):
    padded = np.zeros((1, p.size + -p.size % 16), dtype=np.float32)
    padded[0, : p.size] = p
    _cosines(padded)
    return padded[0, : p.size]


def test_cosine_is_exact_to_float32():
    p = np.linspace(-40.0, 40.0, 1_000_003).astype(np.float32)
    exact = np.cos(2.0 * np.pi * p.astype(np.float64))
    assert np.abs(cosines(p) - exact).max() < 2.0e-7


def test_cosine_is_exact_over_the_whole_range():
    """A float32 of any size is a number; its cosine is that of its exact value, to 2·10⁻⁷."""
    bits = np.random.default_rng(0).integers(0, 2**32, size=2_000_000, dtype=np.uint32)
    p = bits.view(np.float32)
    p = p[np.isfinite(p)]
    turns = p.astype(np.float64)
    exact = np.cos(2.0 * np.pi * (turns - np.rint(turns)))
    assert np.abs(cosines(p) - exact).max() < 2.0e-7


def test_cosine_has_period_one_and_is_bounded():
    p = np.array([0.0, 0.25, 0.5, 0.75, 1.0, -1.0, 1e6, 1e30, -3e38], dtype=np.float32)
    out = cosines(p)
    np.testing.assert_allclose(out, [1, 0, -1, 0, 1, 1, 1, 1, 1], atol=2e-7)
    assert np.abs(out).max() <= 1.0 + 2e-7


def test_lanes_do_not_matter():
    p = np.random.default_rng(0).normal(0, 20, 103).astype(np.float32)
    one_by_one = np.concatenate([cosines(p[i : i + 1]) for i in range(len(p))])
    assert cosines(p).tobytes() == one_by_one.tobytes()
