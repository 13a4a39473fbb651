import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError

from streamk.experts.vectors import inner_product


@njit
def product(a, i, b, j):
    return inner_product(a, i, b, j)


def specified(a, b):
    """The order of summation of the module's docstring, in NumPy."""
    lanes = np.zeros(32, dtype=np.float32)
    for x, y in zip(a.reshape(-1, 32), b.reshape(-1, 32), strict=True):
        # a fused multiply-add: in float64 the product is exact and the sum nearly always
        lanes = (lanes.astype(np.float64) + x.astype(np.float64) * y).astype(np.float32)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_order_of_summation_is_as_specified(blocks, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 100, (2, 3, 32 * blocks)).astype(np.float32)
    for i, j in ((0, 0), (2, 1)):
        assert np.float32(product(a, i, b, j)).tobytes() == specified(a[i], b[j]).tobytes()


def test_other_types_are_refused():
    with pytest.raises(TypingError):
        product(np.zeros((1, 32)), 0, np.zeros((1, 32)), 0)
