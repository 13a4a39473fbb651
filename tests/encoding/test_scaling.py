import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from streamk.encoding.rows import EncodedRows
from streamk.encoding.scaling import (
    FIXED,
    FOLLOWING,
    horizon_of,
    is_stray,
    kept_numbers,
    observe,
    pooled,
    scale_rows,
    scaled,
    spread,
    standardise,
)

VALUES = st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=30)
FAST = horizon_of(100)


@njit
def observe_all(values, statistics, horizon, counts):
    for i in range(values.size):
        observe(values[i], statistics, 0, horizon, 1.0)
        counts[i] = statistics[0, 0]


@njit
def on_scale(value, statistics, most, cautious):
    return scaled(value, statistics, 0, most, cautious)


def observed(values, horizon=np.inf, statistics=None):
    if statistics is None:
        statistics = np.zeros((1, kept_numbers(horizon)))
    observe_all(np.asarray(values, float), statistics, horizon, np.empty(len(values)))
    return statistics


def counts_of(values):
    """The count after each of the values, where statistics follow the stream."""
    counts = np.empty(len(values))
    observe_all(np.asarray(values, float), np.zeros((1, FOLLOWING)), FAST, counts)
    return counts


def specified(values, share=0.5):
    """The values that count, each where its bound leaves it, and the one held: the rule on plain lists.

    No value moves the variance by more than its ``share``, or by sixteen variances.
    """
    if len(values) < 3:
        return values[:1], values[1] if len(values) > 1 else None
    low, middle, high = sorted(values[:3])
    counted, held = ([middle, high], low) if middle - low > high - middle else ([low, middle], high)
    for value in values[3:]:
        mean, variance = np.mean(counted), np.var(counted)
        if abs(value - mean) > abs(held - mean):
            value, held = held, value
        if variance > 0.0:
            bound = np.sqrt(variance * max(16.0, share * len(counted)))
            value = mean + np.clip(value - mean, -bound, bound)
        counted.append(value)
    return counted, held


@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.floats(0.0, 6.0))
def test_statistics_are_those_of_numpy(seed, count, heavy):
    rng = np.random.default_rng(seed)
    values = (5.0 + rng.normal(size=count) * np.exp(heavy * rng.normal(size=count))).tolist()
    counted, held = specified(values)
    n, mean, squares, kept = observed(values)[0]
    assert n == len(counted)
    np.testing.assert_allclose(mean, np.mean(counted), rtol=1e-6, atol=1e-6 * np.std(counted))
    np.testing.assert_allclose(squares / n, np.var(counted), rtol=1e-6, atol=1e-12)
    np.testing.assert_equal(kept, np.nan if held is None else held)


@given(VALUES, st.floats(-1e100, 1e100), st.sampled_from([np.inf, FAST]))
def test_scaled_values_are_finite_and_clipped(values, value, horizon):
    statistics = observed(values, horizon)
    assert -4.0 <= standardise(value, statistics, 0, 4.0) <= 4.0
    assert np.isfinite(spread(statistics, 0))


@given(st.floats(-1e100, 1e100), st.integers(1, 300), st.sampled_from([np.inf, FAST]))
def test_a_constant_has_no_spread(value, count, horizon):
    statistics = observed([value] * count, horizon)
    assert spread(statistics, 0) == 0.0
    assert standardise(value, statistics, 0, 4.0) == 0.0


@pytest.mark.parametrize("mean", [-5.0, -1.7e9, 1.7e9, 3e-7])
def test_what_differs_by_rounding_has_no_spread(mean):
    values = mean * (1.0 + 1e-15 * np.arange(-50, 50))
    statistics = observed(values)
    assert spread(statistics, 0) == 0.0
    assert standardise(2.0 * mean, statistics, 0, 4.0) == 0.0
    assert spread(observed(mean * (1.0 + 1e-9 * np.arange(-50, 50))), 0) > 0.0


def test_a_small_variation_on_a_large_mean_is_seen():
    values = 1.7e9 + np.random.default_rng(0).permutation(100.0 * np.arange(100.0))
    counted, _ = specified(values.tolist())
    z = standardise(values[3], observed(values), 0, 4.0)
    np.testing.assert_allclose(z, (values[3] - np.mean(counted)) / np.std(counted), rtol=1e-6)


@pytest.mark.parametrize("absurd", [1e6, -1e30, 1e100])
@pytest.mark.parametrize("place", [0, 1, 2, 1000, 2000])
@pytest.mark.parametrize("horizon", [np.inf, FAST])
def test_one_absurd_value_spoils_nothing(absurd, place, horizon):
    values = np.random.default_rng(place).normal(3.0, 2.0, 2000)
    statistics = observed(np.insert(values, place, absurd), horizon)
    assert statistics[0, 0] == 2000
    assert abs(statistics[0, 1] - values.mean()) < 0.01 * values.std()
    assert abs(spread(statistics, 0) / values.std() - 1.0) < 0.01


@pytest.mark.parametrize("horizon", [np.inf, FAST])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_statistics_pool(parts, horizon):
    """What the parts counted, and all that they held but the farthest."""
    values = np.random.default_rng(parts).normal(7.0, 3.0, 2000)
    pieces = np.array_split(values, parts)
    whole = pooled([observed(piece, horizon)[0] for piece in pieces], horizon)
    reference = [specified(piece.tolist(), 1 / 16 if horizon < np.inf else 0.5) for piece in pieces]
    every = np.concatenate([counted for counted, _ in reference])
    held = sorted((h for _, h in reference), key=lambda h: abs(h - every.mean()))
    every = np.append(every, held[:-1])
    assert whole[0] == len(values) - 1 == len(every)
    assert whole[3] == held[-1]
    np.testing.assert_allclose(whole[1], every.mean(), rtol=1e-9)
    np.testing.assert_allclose(whole[2] / whole[0], every.var(), rtol=1e-9)
    alone = observed(values, horizon)[0]
    assert whole[3] == alone[3] == values[np.abs(values - values.mean()).argmax()]
    assert abs(whole[1] - alone[1]) < 0.01 * values.std()
    assert abs(whole[2] / alone[2] - 1.0) < 0.01


def test_pooling_of_little():
    assert pooled([], np.inf).tolist() == [0.0] * FIXED
    one = observed([2.0, 3.0, 5.0])[0]
    assert pooled([np.zeros(FIXED), one], np.inf).tolist() == one.tolist()
    two = pooled([observed([2.0])[0], observed([4.0])[0]], np.inf)
    assert two[:3].tolist() == [2.0, 3.0, 2.0]
    large = pooled([observed(np.random.default_rng(k).normal(size=9000), FAST)[0] for k in range(3)], FAST)
    assert large[0] == FAST
    assert abs(np.sqrt(large[2] / large[0]) - 1.0) < 0.03


@pytest.mark.parametrize("before", [500, 5000, 30_000])
@pytest.mark.parametrize(("factor", "shift"), [(1.0, 100.0), (1.0, -100.0), (0.01, 0.0), (0.01, 3.0)])
def test_scales_follow_a_stream_that_changed(before, factor, shift):
    rng = np.random.default_rng(before)
    statistics = observed(rng.normal(size=before), FAST)
    observed(shift + factor * rng.normal(size=1000), FAST, statistics)
    assert abs(statistics[0, 1] - shift) < 0.3 * factor
    assert 1 / 1.5 < spread(statistics, 0) / factor < 1.5
    unending = observed(rng.normal(size=before))
    observed(shift + factor * rng.normal(size=1000), np.inf, unending)
    assert unending[0, 0] == before + 999


def runs(length, levels, count=60_000):
    rng = np.random.default_rng(length)
    values = []
    while len(values) < count:
        values += [float(rng.choice(levels))] * int(rng.geometric(1 / length))
    return np.array(values[:count])


STEADY = {
    "binary": runs(2, [0, 1]),
    "binary in runs": runs(300, [0, 1]),
    "binary in long runs": runs(8000, [0, 1]),
    "once in a while": (np.arange(60_000) % 5000 == 77).astype(float),
    "late": (np.arange(60_000) > 30_000).astype(float),
    "integers": np.random.default_rng(0).poisson(3, 60_000).astype(float),
    "rare integers": np.random.default_rng(1).poisson(0.01, 60_000).astype(float),
    "integers in runs": runs(50, [1, 2, 3, 10]),
    "slow ramp": np.arange(60_000) / 1000,
    "slow stairs": np.arange(60_000) // 500 * 1.0,
    "falling ramp": -0.3 * np.arange(60_000),
    "noisy ramp": np.arange(60_000) / 1000 + np.random.default_rng(2).normal(size=60_000),
    "normal": np.random.default_rng(3).normal(size=60_000),
    "walk": np.random.default_rng(4).normal(size=60_000).cumsum(),
    "seasons": np.sin(np.arange(60_000) / 800),
    "heavy tails": np.random.default_rng(5).standard_t(2, 60_000),
}


@pytest.mark.parametrize("name", STEADY)
def test_steady_inputs_never_restart(name):
    counts = counts_of(STEADY[name])
    assert (np.diff(counts) >= 0).all()
    assert counts[-1] == FAST


def test_an_outlier_is_farther_than_any_precedent():
    values = np.random.default_rng(0).normal(size=1000)
    statistics = observed(values)
    farthest, deviation = statistics[0, 3], spread(statistics, 0)
    assert not is_stray(9.0 * deviation, statistics, 0)
    assert is_stray(20.0 * deviation, statistics, 0)
    assert abs(farthest) == np.abs(values).max()
    statistics = observed(np.append(values, 12.0))
    assert not is_stray(30.0, statistics, 0)
    assert is_stray(40.0, statistics, 0)
    assert not is_stray(1e9, observed(values[:15]), 0)


def rows_of(*fields):
    """One row of fields (slot, key, value)."""
    slots, keys, values = zip(*fields, strict=True)
    return EncodedRows(np.array([slots], np.int32), np.array([keys], np.uint64), np.array([values], float))


def test_inputs_say_that_they_are_there():
    """Slot 0 has mean 3 and deviation 2, slot 1 was never learned, slot 2 has no spread."""
    statistics = np.array([[9, 3.0, 36.0, 9.0], [0, 0, 0, 0], [5, 1.0, 0.0, 1.0]], dtype=float)
    fields = [
        (0, 90, 4.0),
        (-1, 80, 1.0),
        (1, 70, 5.0),
        (2, 60, 1.0),
        (-1, 0, 9.0),
        (-2, 50, 0.0),
        (-1, 40, 0.0),
    ]
    scaled, found, counts = scale_rows(rows_of(*fields), statistics, (0.0,))
    assert counts.tolist() == [4]
    assert found[0, :4].tolist() == [50, 60, 80, 90]
    assert scaled[0, 0, :4].tolist() == [1.0, 1.0, 1.0, 1.5]
    assert not scaled[0, 0, 4:].any()
    backwards = scale_rows(rows_of(*fields[::-1]), statistics, (0.0,))
    assert backwards[0].tobytes() == scaled.tobytes()
    assert backwards[1].tobytes() == found.tobytes()
    far = scale_rows(rows_of((0, 90, 1e9), (0, 91, -1e9)), statistics, (0.0,))[0]
    assert far.tolist() == [[[5.0, -3.0]]]
    gone = scale_rows(rows_of((-3, 90, 0.0)), statistics, (0.0,))
    assert gone[2].tolist() == [0]


def scaled_input(value, statistics):
    return float(scale_rows(rows_of((0, 90, value)), statistics, (0.0,))[0][0, 0, 0]) - 1.0


def test_an_input_goes_hardly_beyond_the_farthest_value():
    """Of values from 1 to 16, once more, the mean is 8 and the farthest is 16 (it is held)."""
    statistics = observed([*range(1, 17), 8.0])
    mean, deviation = statistics[0, 1], float(spread(statistics, 0))
    farthest = (16.0 - mean) / deviation
    assert statistics[0, 0] == 16.0
    for value in (9.5, 16.0, 16.0 + 0.4 * deviation):
        assert scaled_input(value, statistics) == pytest.approx((value - mean) / deviation, abs=1e-6)
    for far in (16.0 + 0.6 * deviation, 1e9):
        assert scaled_input(far, statistics) == pytest.approx(farthest + 0.5, abs=1e-6)
        assert scaled_input(2.0 * mean - far, statistics) == pytest.approx(-farthest - 0.5, abs=1e-6)
    few = statistics.copy()
    few[0, [0, 2]] *= 0.9  # fewer than 16 events say little about the range
    assert scaled_input(1e9, few) == 4.0
    given = statistics.copy()
    given[0, 3] = np.inf
    assert scaled_input(1e9, given) == 4.0
    apart = observed([*range(1, 17), 1e4, 1e4])
    assert scaled_input(1e9, apart) == 4.0


def test_inputs_are_divided_by_how_many_are_there():
    """Five are there, of which one is 0 and adds nothing; each family has its own power."""
    statistics = np.zeros((0, 4))
    fields = [(-1, k, v) for k, v in ((9, 1.0), (3, -2.0), (5, 0.0), (2, 4.0), (8, 3.0))]
    scaled, found, counts = scale_rows(rows_of(*fields), statistics, (-0.5, -1.0))
    assert counts.tolist() == [4]
    assert found[0, :4].tolist() == [2, 3, 8, 9]
    values = np.array([4.0, -2.0, 3.0, 1.0])
    np.testing.assert_allclose(scaled[0, 0, :4], values / np.sqrt(5), rtol=1e-6)
    np.testing.assert_allclose(scaled[1, 0, :4], values / 5, rtol=1e-6)
    alone = scale_rows(rows_of((-1, 7, 3.0)), statistics, (-0.5, -1.0))[0]
    assert alone.ravel().tolist() == [3.0, 3.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(-1e6, 1e6))
def test_cautious_scales_count_the_held_value_and_trust_few_values_little(values, value):
    counted, held = specified(values)
    whole = list(counted)
    if held is not None:
        farthest = 4.0 * np.std(counted) or np.inf
        whole.append(np.mean(counted) + np.clip(held - np.mean(counted), -farthest, farthest))
    mean, deviation, n = np.mean(whole), np.std(whole), len(whole)
    statistics = observed(values)
    found = on_scale(value, statistics, 32.0, True)
    if deviation <= 1e-7 * max(abs(value), np.abs(whole).max()):
        assert abs(found) <= min(32.0, 1.001 * np.sqrt(n + 1.0))  # a spread of little more than rounding
        return
    z = (value - mean) / deviation
    expected = z / np.sqrt(1.0 + max(z * z - 3.0, 0.0) / (n + 1.0))
    clip = 4.0 if statistics[0, 0] < 16.0 else 0.5 + abs(held - statistics[0, 1]) / spread(statistics, 0)
    np.testing.assert_allclose(
        found, np.clip(expected, -min(clip, 32.0), min(clip, 32.0)), rtol=1e-5, atol=1e-6
    )
    assert abs(found) <= (1.0 + 1e-9) * np.sqrt(n + 1.0)


def test_many_values_make_cautious_scales_the_others():
    statistics = observed(np.random.default_rng(0).normal(size=20_000))
    for value in (-3.0, 0.2, 1.0, 3.9):
        plain, cautious = (on_scale(value, statistics, 4.0, which) for which in (False, True))
        assert cautious == pytest.approx(plain, rel=1e-3)
    given_ones = statistics.copy()
    given_ones[0, 3] = np.inf
    assert on_scale(1.5, given_ones, 4.0, True) == on_scale(1.5, given_ones, 4.0, False)


def test_one_absurd_value_changes_cautious_scales_little():
    values = np.random.default_rng(1).normal(size=100)
    before, after = observed(values), observed([*values, 1e30])
    for value in (-1.0, 0.5, 2.0):
        assert on_scale(value, after, 4.0, True) == pytest.approx(on_scale(value, before, 4.0, True), abs=0.2)
