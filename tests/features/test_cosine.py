import numpy as np
from numba import njit

from streamk.features.cosine import cosine_turns


@njit
def cosines(p):
    out = np.empty_like(p)
    for i in range(p.shape[0]):
        out[i] = cosine_turns(p[i])
    return out


def test_cosine_is_exact_to_float32():
    p = np.linspace(-40.0, 40.0, 1_000_003).astype(np.float32)
    exact = np.cos(2.0 * np.pi * p.astype(np.float64))
    assert np.abs(cosines(p) - exact).max() < 2.1e-7


def test_cosine_has_period_one_and_is_bounded():
    p = np.array([0.0, 0.25, 0.5, 0.75, 1.0, -1.0, 1e6, 1e30, -3e38], dtype=np.float32)
    out = cosines(p)
    np.testing.assert_allclose(out[:6], [1, 0, -1, 0, 1, 1], atol=3e-7)
    assert np.abs(out).max() <= 1.0 + 3e-7


def test_scalar_and_vector_code_agree_to_the_bit():
    p = np.random.default_rng(0).normal(0, 20, 1003).astype(np.float32)
    one_by_one = np.concatenate([cosines(p[i : i + 1]) for i in range(len(p))])
    assert cosines(p).tobytes() == one_by_one.tobytes()
