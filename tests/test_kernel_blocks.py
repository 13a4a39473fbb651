"""Blocks in single precision are the exact kernels, however they are tiled and on any number of threads."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.kernels import kernel

TEXTS = (
    "gaussian", "laplace", "laplacian", "matern", "matern:2.5", "matern:0.8", "rational-quadratic:2",
    "exponential-power:1.3", "arc-cosine", "arc-cosine:0", "polynomial", "polynomial:4:0",
)  # fmt: skip


def rows(count, width, seed, centre=0.0):
    return (np.random.default_rng(seed).normal(size=(count, width)) + centre).astype(np.float32)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
def test_blocks_are_exact(text, count):
    X, Z = rows(count, 7, 1), rows(130, 7, 2)
    exact = kernel(text)(X.astype(np.float64), Z.astype(np.float64), 1.7)
    block = kernel(text).block(X, Z, 1.7)
    assert block.dtype == np.float32
    assert block.shape == exact.shape
    np.testing.assert_allclose(block, exact, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("text", ["gaussian", "laplace", "matern", "laplacian"])
@pytest.mark.parametrize("centre", [0.0, 1000.0])
def test_rows_that_nearly_meet_are_exact(text, centre):
    """Where lengths are far above distances, the difference of sums would be noise."""
    X = rows(60, 5, 1, centre)
    Z = np.vstack([X[:30], X[30:] + np.float32(2e-3 if centre else 1e-5)])
    exact = kernel(text)(X.astype(np.float64), Z.astype(np.float64), 0.05)
    np.testing.assert_allclose(kernel(text).block(X, Z, 0.05), exact, atol=3e-6)
    assert (kernel(text).block(X, X, 0.05).diagonal() == 1.0).all()


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 5))
def test_any_shape(count, others, width):
    X, Z = rows(count, width, 3), rows(others, width, 4)
    exact = (
        kernel("laplace")(X.astype(np.float64), Z.astype(np.float64)) if width else np.ones((count, others))
    )
    np.testing.assert_allclose(kernel("laplace").block(X, Z), exact, atol=3e-6)


@pytest.mark.parametrize("text", ["laplace", "polynomial:3", "laplacian"])
def test_threads_never_show(text):
    X, Z = rows(1500, 20, 5), rows(700, 20, 6)
    before, found = numba.get_num_threads(), []
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            found.append(kernel(text).block(X, Z, 2.0).tobytes())
    finally:
        numba.set_num_threads(before)
    assert found[0] == found[-1]


def test_nothing_gives_nothing():
    for text in ("gaussian", "laplacian", "polynomial"):
        assert kernel(text).block(rows(0, 3, 1), rows(2, 3, 1)).shape == (0, 2)
        assert kernel(text).block(rows(2, 3, 1), rows(0, 3, 1)).shape == (2, 0)
