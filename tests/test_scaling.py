import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamk.encoding.scaling import observe, spread, standardise

VALUES = st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=30)


def observed(values):
    statistics = np.zeros(3)
    for value in values:
        observe(value, statistics, 0)
    return statistics


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_statistics_are_those_of_numpy(values):
    statistics = observed(values)
    scale = max(1.0, np.abs(values).max())
    np.testing.assert_allclose(statistics[1], np.mean(values), atol=1e-9 * scale)
    np.testing.assert_allclose(statistics[2] / len(values), np.var(values), atol=1e-8 * scale**2)


@given(VALUES, st.floats(-1e100, 1e100))
def test_scaled_values_are_finite_and_clipped(values, value):
    z = standardise(value, observed(values), 0, 4.0)
    assert -4.0 <= z <= 4.0


@given(st.floats(-1e100, 1e100), st.integers(1, 300))
def test_a_constant_has_no_spread(value, count):
    statistics = observed([value] * count)
    assert spread(statistics, 0) == 0.0
    assert standardise(value, statistics, 0, 4.0) == 0.0


def test_a_small_variation_on_a_large_mean_is_seen():
    values = 1.7e9 + np.arange(100.0)
    z = standardise(values[-1], observed(values), 0, 4.0)
    np.testing.assert_allclose(z, (values[-1] - values.mean()) / values.std(), rtol=1e-6)
