import numpy as np
from numba import njit

from streamk.features.spectra import COSINE, activate
from streamk.vector.sweeps import cosines as in_place


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


GOLDEN = {
    0.0: 0x3F7FFFFF, 0.125: 0x3F3504F3, -0.125: 0x3F3504F3, 0.2: 0x3E9E3779, 0.25: 0, 1 / 3: 0xBF000001,
    0.5: 0xBF7FFFFF, 0.6180339887: 0xBF3CC433, 0.75: 0, 1.1: 0x3F4F1BBA, -2.7: 0xBE9E3770,
    1234.5677: 0xBF692773, 1e-5: 0x3F7FFFFF, -99.99: 0x3F7F7E9E, 0.49999: 0xBF800000, 3e-20: 0x3F7FFFFF,
}  # fmt: skip


def test_golden_cosines():
    """Pinned: a change here changes every saved model."""
    p = np.array(list(GOLDEN), dtype=np.float32)
    assert cosines(p).view(np.uint32).tolist() == list(GOLDEN.values())
    angles = np.zeros((1, 64), dtype=np.float32)
    angles[0, : len(p)] = p
    activate(COSINE, np.float32(1.0), angles, 1, len(p))
    assert angles[0].view(np.uint32).tolist() == [*GOLDEN.values(), *[0] * (64 - len(p))]
