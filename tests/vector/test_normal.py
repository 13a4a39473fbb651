import hashlib

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from scipy import stats

from streamk.features.counter import fill_bits
from streamk.vector.lanes import LANES, at, data, load, store
from streamk.vector.random_numbers import GROUP, fill_normals, log_unit

KEY = np.uint64(0x0123456789ABCDEF)


@njit
def normals(keys):
    out = np.empty((keys.shape[0], GROUP), dtype=np.float32)
    for i in range(keys.shape[0]):
        fill_normals(keys[i], out, i, 0)
    return out


def test_golden_normals():
    out = normals(np.array([KEY]))[0]
    assert out.view(np.uint32)[[0, 1, 31, 32, 63]].tolist() == [
        3198127905,
        3210001489,
        3180803131,
        1060826489,
        1067800617,
    ]
    assert hashlib.sha256(out.tobytes()).hexdigest() == (
        "3abbbd47d8f21bff3714a59c5001f62513f5f723137d657027e1489dbd0a4b19"
    )


def test_normals_are_box_muller_of_the_bits():
    words = np.empty(32, dtype=np.uint32)
    fill_bits(KEY, words)
    u = ((words >> 16) + 0.5) * 2.0**-16
    v = ((words & 0x7FFF) + 0.5) * 2.0**-16
    r = np.sqrt(-2.0 * np.log(u))
    sign = np.where(words & 0x8000, -1.0, 1.0)
    exact = np.concatenate([r * np.cos(2 * np.pi * v), sign * r * np.sin(2 * np.pi * v)])
    np.testing.assert_allclose(normals(np.array([KEY]))[0], exact, atol=3e-6)


def test_normals_are_standard_normal():
    out = normals(np.arange(20_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    assert stats.kstest(out.ravel()[:200_000], "norm").pvalue > 1e-3
    moments = [(out.astype(np.float64) ** k).mean() for k in (1, 2, 3, 4)]
    deviations = np.sqrt(np.array([1.0, 2.0, 15.0, 96.0]) / out.size)
    assert (np.abs(np.array(moments) - [0.0, 1.0, 0.0, 3.0]) < 5 * deviations + 1e-4).all()
    correlation = np.corrcoef(out.T) - np.eye(GROUP)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(len(out))


@intrinsic
def _logs(typing_context, numbers, place):
    def generate(context, b, signature, arguments):
        pointer = at(b, data(context, b, signature, arguments, 0), arguments[1])
        store(b, log_unit(b, load(b, pointer)), pointer)
        return context.get_dummy_value()

    return types.void(numbers, types.intp), generate


@njit
def logs(numbers):
    out = numbers.copy()
    for place in range(0, out.size, LANES):
        _logs(out, place)
    return out


def test_logarithm():
    u = ((np.arange(2**16) + 0.5) * 2.0**-16).astype(np.float32)
    exact = np.log(u.astype(np.float64))
    assert (np.abs(logs(u) / exact - 1.0) <= 5e-7).all()
