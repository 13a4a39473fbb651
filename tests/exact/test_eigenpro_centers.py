"""Centers: random rows, means of clusters, and rows of a matrix that are held."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.exact.centers import centers, distinct, passes
from streamk.exact.gram import Similarities
from streamk.kernels import kernel

from .references import laplace

RNG = np.random.default_rng(3)
PLACES = RNG.normal(size=(12, 4)) * 4
X = (PLACES[RNG.integers(0, 12, size=5000)] + 0.3 * RNG.normal(size=(5000, 4))).astype(np.float32)


def error(Z):
    return np.mean(np.min(np.sum((X[:, None].astype(float) - Z[None]) ** 2, axis=2), axis=1))


def test_random_centers_are_different_rows():
    found = centers("random", X, 50, 7)
    assert len(np.unique(found.vectors, axis=0)) == 50
    assert {row.tobytes() for row in found.vectors} <= {row.tobytes() for row in X}
    assert (found.masses == 1.0).all()
    again, other = centers("random", X, 50, 7), centers("random", X, 50, 8)
    assert (again.vectors == found.vectors).all()
    assert (other.vectors != found.vectors).any()


@pytest.mark.parametrize("count", [12, 60, 300])
def test_means_are_nearer_than_rows(count):
    passed = []
    found = centers("k-means", X, count, 7, lambda: passed.append(1))
    assert 2 < len(passed) <= passes("k-means")
    assert found.vectors.shape == (count, 4)
    assert np.isfinite(found.vectors).all()
    assert len(np.unique(found.vectors, axis=0)) == count
    assert error(found.vectors) < 0.8 * error(centers("random", X, count, 7).vectors)
    assert (found.masses >= 1.0).all()
    assert found.masses.sum() == pytest.approx(5000, abs=count)


def test_a_mean_is_the_mean_of_its_cluster():
    """After the last pass every center is the mean of the rows that were nearest to it before it."""
    one = centers("k-means", X, 1, 7)
    np.testing.assert_allclose(one.vectors[0], X.mean(axis=0, dtype=np.float64), atol=1e-5)
    assert one.masses.tolist() == [5000.0]


@pytest.mark.parametrize("choose", ["random", "k-means"])
def test_there_are_no_more_centers_than_different_rows(choose):
    rows = np.repeat(X[:5], 40, axis=0)
    rows[0, 0], rows[1, 0] = 0.0, -0.0
    rows[0, 1:] = rows[1, 1:] = 1.0
    found = centers(choose, rows, 30, 7)
    assert len(found.vectors) == 6
    assert len(np.unique(found.vectors, axis=0)) == 6


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 5), st.integers(0, 9))
def test_means_are_always_finite_and_different(values, count, seed):
    rows = np.array(values, dtype=np.float32)[:, None]
    found = centers("k-means", rows, count, seed)
    assert 1 <= len(found.vectors) <= min(count, len(set(values)))
    assert np.isfinite(found.vectors).all()
    assert len(np.unique(found.vectors)) == len(found.vectors)


def test_the_first_different_rows_of_an_order():
    rows = np.array([[1.0], [2.0], [1.0], [3.0]], dtype=np.float32)
    assert distinct(rows, np.array([2, 0, 3, 1]), 2).tolist() == [2, 3]
    assert distinct(rows, np.array([2, 0, 3, 1]), 9).tolist() == [2, 3, 1]


@pytest.mark.parametrize("held", [0, 100, 20 * 77, 10**6])
def test_rows_that_are_held_are_those_that_would_be_made(held):
    Z, rows = X[:20], X[100:300]
    similar = Similarities(kernel("laplace"), 3.0, rows, Z, held)
    whole = laplace(rows, Z, 3.0)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(200)
        for start in range(0, 200, 33):
            places = order[start : start + 33]
            np.testing.assert_allclose(similar.rows(places), whole[places], atol=1e-5)
        for part in (slice(0, 50), slice(60, 90), slice(150, 200)):
            np.testing.assert_allclose(similar.part(part), whole[part], atol=1e-5)


def test_rows_are_made_once():
    made = []

    class Counting:
        def block(self, X, Z, bandwidth):
            made.append(len(X))
            return kernel("laplace").block(X, Z, bandwidth)

    similar = Similarities(Counting(), 3.0, X[:60], X[:10], 40 * 10)
    for _ in range(3):
        similar.rows(np.arange(60)[::-1])
    assert made == [60, 20, 20]
