"""Newton steps of three sets of weights side by side: the bits of one set after the other."""

import numpy as np
import pytest
from numba import njit

from streamk.vector.newton import (
    SETS,
    add_products,
    by_set,
    fade,
    newton_steps,
    scratch_of,
    side_by_side,
)


@njit
def moved(weights, curvature, slopes, work):
    newton_steps(weights, curvature, slopes, work)


@njit
def faded(curvature, forgetting, penalty, weight):
    fade(curvature, forgetting, penalty, weight)


@njit
def added(curvature, scores, k, means, factors, deviations):
    add_products(curvature, scores, k, means, factors, deviations)


def step(weights, curvature, slopes):
    """Move the weights; return the curvature afterwards."""
    _, _, work = scratch_of(weights.shape[1])
    work[..., :SETS] = np.nan  # what an earlier event left there does not matter
    lanes = side_by_side(curvature)
    moved(weights, lanes, side_by_side(slopes), work)
    return by_set(lanes)


@njit(error_model="numpy")
def by_itself(weights, curvature, slope):
    size = weights.shape[0]
    lower = np.empty((size, size))
    for e in range(size):
        for d in range(e + 1):
            rest = curvature[e, d]
            for k in range(d):
                rest -= lower[e, k] * lower[d, k]
            lower[e, d] = rest / lower[d, d] if d < e else np.sqrt(max(rest, 1e-9))
            curvature[d, e] = curvature[e, d]
    for e in range(size):
        for k in range(e):
            slope[e] -= lower[e, k] * slope[k]
        slope[e] /= lower[e, e]
    for e in range(size - 1, -1, -1):
        for k in range(e + 1, size):
            slope[e] -= lower[k, e] * slope[k]
        slope[e] /= lower[e, e]
        weights[e] = min(max(weights[e] - slope[e], -1e3), 1e3)


def problem(size, seed, rank=60):
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(SETS, size, rank))
    curvature = np.tril(parts @ parts.transpose(0, 2, 1))
    return rng.normal(size=(SETS, size)), curvature, rng.normal(size=(SETS, size))


@pytest.mark.parametrize("rank", [60, 2])  # with 2 most pivots are held at the least one
@pytest.mark.parametrize("size", [*range(1, 20), 24, 31])
def test_sets_side_by_side_find_the_bits_of_one_by_itself(size, rank):
    weights, curvature, slopes = problem(size, size, rank)
    expected = weights.copy(), curvature.copy(), slopes.copy()
    for own in zip(*expected, strict=True):
        by_itself(*own)
    found = step(weights, curvature, slopes)
    assert weights.tobytes() == expected[0].tobytes()
    assert found.tobytes() == expected[1].tobytes()


def test_a_step_solves_for_the_slope():
    weights, curvature, slopes = problem(7, 1)
    whole = curvature + np.tril(curvature, -1).transpose(0, 2, 1)
    expected = weights - np.linalg.solve(whole, slopes[:, :, None])[:, :, 0]
    found = step(weights, curvature, slopes)
    np.testing.assert_allclose(weights, expected, rtol=1e-9)
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_curvatures_fade_towards_the_penalty(weight):
    _, curvature, _ = problem(9, 2)
    forgetting, lanes = np.array([1.0, 0.9995, 0.99]), side_by_side(curvature)
    faded(lanes, forgetting, 10.0, weight)
    kept = (forgetting**weight)[:, None, None]
    np.testing.assert_array_equal(by_set(lanes), curvature * kept + (1.0 - kept) * 10.0 * np.eye(9))


def test_products_are_added_to_the_lower_triangle():
    _, curvature, means = problem(9, 3)
    scores, lanes = np.random.default_rng(4).normal(size=(3, 9)), side_by_side(curvature)
    factors = 0.5, 0.0, 2.0
    added(lanes, scores, 1, side_by_side(means), factors, scratch_of(9)[1])
    expected = curvature.copy()
    for own, mean, factor in zip(expected, means, factors, strict=True):
        deviation = scores[1] - mean
        own += np.tril((factor * deviation)[:, None] * deviation)
    assert by_set(lanes).tobytes() == expected.tobytes()
