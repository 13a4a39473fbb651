import hashlib

import numpy as np
from numba import njit
from scipy import stats

from streamk.features.counter import fill_bits
from streamk.features.normal import GROUP, fill_normals, log_unit

KEY = np.uint64(0x0123456789ABCDEF)


@njit
def normals(keys):
    out = np.empty((keys.shape[0], GROUP), dtype=np.float32)
    for i in range(keys.shape[0]):
        fill_normals(keys[i], out[i])
    return out


def test_golden_normals():
    out = normals(np.array([KEY]))[0]
    assert out.view(np.uint32)[[0, 1, 15, 16, 31]].tolist() == [
        3213063913,
        3217203339,
        3224310058,
        1068605369,
        1053362959,
    ]
    assert hashlib.sha256(out.tobytes()).hexdigest() == (
        "722de5b9e35de328cfcb2b3984fdc5f43630f505b4065949c9bce8b53dfba326"
    )


def test_normals_are_box_muller_of_the_bits():
    words = np.empty(GROUP, dtype=np.uint32)
    fill_bits(KEY, words)
    u = ((words[:16] >> 9) + 0.5) * 2.0**-23
    v = (words[16:] >> 9) * 2.0**-23 - 0.5
    r = np.sqrt(-2.0 * np.log(u))
    exact = np.concatenate([r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)])
    np.testing.assert_allclose(normals(np.array([KEY]))[0], exact, atol=3e-6)


def test_normals_are_standard_normal():
    out = normals(np.arange(20_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    assert stats.kstest(out.ravel()[:200_000], "norm").pvalue > 1e-3
    correlation = np.corrcoef(out.T) - np.eye(GROUP)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(len(out))


def test_logarithm():
    @njit
    def logs(u):
        return np.array([log_unit(x) for x in u])

    u = ((np.arange(0, 2**23, 31) + 0.5) * 2.0**-23).astype(np.float32)
    exact = np.log(u.astype(np.float64))
    assert (np.abs(logs(u) - exact) <= 2e-7 * np.maximum(1.0, np.abs(exact))).all()
