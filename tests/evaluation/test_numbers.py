import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import metrics
from sklearn import metrics as sk

from streamk.evaluation.numbers import NumberSums
from tests.evaluation.streams import cuts, same_state


def numbers(seed, events=500, middle=0.0, scale=1.0):
    """Return targets, predictions, and ends of intervals."""
    rng = np.random.default_rng(seed)
    targets = middle + scale * rng.normal(size=events)
    predictions = targets + scale * rng.normal(size=events) * rng.uniform(0.1, 2.0)
    width = scale * rng.uniform(0.0, 3.0, events)
    return targets, predictions, predictions - width, predictions + 0.5 * width


def sums_of(*arrays, **options):
    sums = NumberSums(**options)
    sums.add(*arrays)
    return sums


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("middle", "scale"), [(0.0, 1.0), (1e6, 1.0), (-3.0, 1e-8), (0.0, 1e40)])
def test_values_are_those_of_scikit_learn_and_river(seed, middle, scale):
    targets, predictions, lower, upper = numbers(seed, middle=middle, scale=scale)
    values = sums_of(targets, predictions, lower, upper, level=0.8).values()
    assert values["mae"] == pytest.approx(sk.mean_absolute_error(targets, predictions), rel=1e-12)
    assert values["rmse"] == pytest.approx(sk.root_mean_squared_error(targets, predictions), rel=1e-12)
    assert values["r2"] == pytest.approx(sk.r2_score(targets, predictions), rel=1e-9)
    low = sk.mean_pinball_loss(targets, lower, alpha=0.1)
    high = sk.mean_pinball_loss(targets, upper, alpha=0.9)
    assert values["pinball"] == pytest.approx((low + high) / 2.0, rel=1e-9)
    inside = [a <= y <= b for y, a, b in zip(targets, lower, upper, strict=True)]
    assert values["coverage"] == sum(inside) / len(inside)
    assert values["width"] == pytest.approx(math.fsum(upper - lower) / len(targets), rel=1e-12)
    found = {"mae": metrics.MAE(), "rmse": metrics.RMSE(), "r2": metrics.R2()}
    for y, p in zip(targets.tolist(), predictions.tolist(), strict=True):
        for metric in found.values():
            metric.update(y, p)
    for name, metric in found.items():
        assert values[name] == pytest.approx(metric.get(), rel=1e-6), name


def test_targets_far_from_0_lose_no_digit():
    near, predictions = np.arange(10.0), np.arange(10.0) + 0.5
    far = sums_of(near + 1e15, predictions + 1e15).values()
    assert far == sums_of(near, predictions).values()
    assert far["r2"] == pytest.approx(1.0 - 2.5 / 82.5)


def test_targets_that_do_not_vary():
    assert sums_of(np.full(7, 0.1), np.full(7, 0.2)).values()["r2"] == 0.0
    assert sums_of(np.full(7, 0.1), np.full(7, 0.1)).values() == {"mae": 0.0, "rmse": 0.0, "r2": 0.0}
    assert NumberSums().values() == {"mae": 0.0, "rmse": 0.0, "r2": 0.0}


@given(st.data(), st.integers(0, 30))
def test_chunks_do_not_show(data, seed):
    arrays = numbers(seed, 80, middle=1e9)
    whole = sums_of(*arrays)
    parts, apart, kept = NumberSums(), NumberSums(), NumberSums()
    for start, end in pairwise(cuts(data, 80)):
        cut = [array[start:end] for array in arrays]
        parts.add(*cut)
        apart += sums_of(*cut)
        kept = NumberSums.restored(kept.state())
        kept.add(*cut)
    for other in (parts, apart, kept):
        assert same_state(other.state(), whole.state())
        assert other.values() == whole.values()


def test_intervals_for_some_events():
    sums = sums_of(np.arange(3.0), np.arange(3.0))
    sums.add(
        np.arange(4.0), np.arange(4.0),
        np.array([0.0, 1.5, -np.inf, np.nan]), np.array([0.0, 2.0, 5.0, 9.0]),
    )  # fmt: skip
    assert (sums.events, sums.bounded, sums.covered) == (7, 2, 1)
    values = sums.values()
    assert (values["coverage"], values["width"]) == (0.5, 0.25)
    assert tuple(values) == NumberSums.columns()
    # the second: 0.5 below its lower end, 1 below its upper, as quantiles of 0.05 and 0.95
    assert values["pinball"] == pytest.approx((0.95 * 0.5 + 0.05 * 1.0) / 4)


def test_a_learner_that_diverges():
    values = sums_of(np.array([1.0, 2.0]), np.array([1e200, 0.0])).values()
    assert values["rmse"] == math.inf
    assert values["r2"] == -math.inf
    assert values["mae"] == pytest.approx(5e199)
    values = sums_of(np.array([1.0, 2.0]), np.array([np.nan, 0.0])).values()
    assert all(math.isnan(value) for value in values.values())
    assert sums_of(np.array([1.0, 2.0]), np.array([np.inf, 0.0])).values()["mae"] == math.inf


def test_copied_sums_are_independent():
    sums = sums_of(*numbers(1))
    before = sums.values()
    other = sums.copy()
    other.add(*numbers(2))
    merged = sums + sums.fresh()
    merged.add(*numbers(2))
    assert sums.values() == before
    assert same_state(merged.state(), other.state())


def test_refused():
    with pytest.raises(ValueError, match=r"level is 1\.0"):
        NumberSums(1.0)
    with pytest.raises(ValueError, match="do not add up"):
        NumberSums(0.9).merge(NumberSums(0.8))
    with pytest.raises(ValueError, match="has two ends"):
        NumberSums().add(np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="arrays of 1, 2 events"):
        NumberSums().add(np.ones(1), np.ones(2))
    with pytest.raises(ValueError, match="arrays of 1, 2 events"):
        NumberSums().add(np.ones(1), np.ones(1), np.ones(2), np.ones(1))
    assert NumberSums(0.8).fresh().level == 0.8
