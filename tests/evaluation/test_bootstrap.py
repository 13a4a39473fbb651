from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from streamk.evaluation.bootstrap import MOST, BatchMeans, interval, spread
from tests.evaluation.streams import cuts, same_state

SIMULATIONS, EVENTS = 1000, 20_000


def units_of(values):
    units = BatchMeans()
    units.add(values)
    return units


def independent(rng):
    """Whether events are wrong, one in five."""
    return (rng.random((SIMULATIONS, EVENTS)) < 0.2).astype(np.float32), 0.2


def rare(rng):
    """Whether events are wrong, two in a thousand."""
    return (rng.random((SIMULATIONS, EVENTS)) < 0.002).astype(np.float32), 0.002


def autocorrelated(rng, carried=0.5):
    """Losses each of which carries on half of the one before."""
    new = rng.standard_normal((SIMULATIONS, EVENTS), np.float32)
    new[:, 0] /= np.sqrt(1.0 - carried**2)
    return lfilter([1.0], [1.0, -carried], new, axis=1) + 3.0, 3.0


def regimes(rng):
    """Whether events are wrong: one in ten, or one in two for regimes of 50 to 200 events."""
    lengths = rng.integers(50, 201, (SIMULATIONS, EVENTS // 50 + 4))
    chances = np.where(rng.random(lengths.shape) < 0.3, 0.5, 0.1).astype(np.float32)
    starts = rng.integers(0, 200, SIMULATIONS)
    rows = [np.repeat(c, n)[s : s + EVENTS] for c, n, s in zip(chances, lengths, starts, strict=True)]
    return (rng.random((SIMULATIONS, EVENTS), np.float32) < np.array(rows)).astype(np.float32), 0.22


@pytest.mark.parametrize("kind", [independent, rare, autocorrelated, regimes])
def test_intervals_of_90_percent_hold_the_mean_in_90_percent_of_streams(kind):
    streams, mean = kind(np.random.default_rng(11))
    found = [interval(units_of(values)) for values in streams]
    below = sum(each.high < mean for each in found)
    above = sum(each.low > mean for each in found)
    assert 0.87 <= 1.0 - (below + above) / SIMULATIONS <= 0.93
    assert max(below, above) <= 0.085 * SIMULATIONS  # on both sides


def test_a_tenth_of_the_events_is_enough():
    streams, mean = independent(np.random.default_rng(12))
    found = [interval(units_of(values[:2000])) for values in streams]
    assert 0.87 <= np.mean([each.low <= mean <= each.high for each in found]) <= 0.93


def test_alike_neighbours_make_intervals_wider():
    streams, _ = regimes(np.random.default_rng(13))
    rng = np.random.default_rng(14)
    apart = [interval(units_of(values)) for values in streams[:50]]
    mixed = [interval(units_of(rng.permutation(values))) for values in streams[:50]]
    # √(1 + between/all · (E[n²]/E[n] − 1)) of such regimes, between/all = 0.0336/0.1716, is 5.3
    ratio = np.mean([e.high - e.low for e in apart]) / np.mean([e.high - e.low for e in mixed])
    assert 4.8 < ratio < 5.8


def test_an_interval_is_the_same_to_the_bit():
    values = np.random.default_rng(1).random(5000)
    one, two = interval(units_of(values)), interval(units_of(values))
    assert one == two
    assert one.mean == pytest.approx(values.mean(), rel=1e-12)
    assert interval(units_of(values), 0.5).low > one.low
    assert interval(units_of(values), 0.5).high < one.high
    assert interval(units_of(-values)).low == pytest.approx(-one.high, abs=2e-3)
    pinned = (0.4974648343452542, 0.49080280442084506, 0.5047019011417708)
    assert one[:3] == pytest.approx(pinned, rel=1e-12)


def test_the_spread_of_independent_units_is_the_textbook_one():
    means = np.random.default_rng(3).normal(size=(200, 200))
    errors = np.array([spread(row).error for row in means])
    assert np.sqrt((errors**2).mean()) == pytest.approx(1.0 / np.sqrt(200), rel=0.06)


def test_the_spread_where_units_are_alike():
    new = np.random.default_rng(3).normal(size=(200, 700))
    means = lfilter([1.0], [1.0, -0.7], new, axis=1)[:, 500:]
    errors = np.array([spread(row).error for row in means])
    assert np.median(errors) == pytest.approx(1.0 / 0.3 / np.sqrt(200), rel=0.1)


@pytest.mark.parametrize("count", [16, 40, 150])
def test_the_spread_step_by_step(count):
    """As the module says it, in loops."""
    new = np.random.default_rng(count).normal(size=count)
    means = lfilter([1.0], [1.0, -0.8], new)
    means[0] += 5.0
    d = [float(x) for x in means - means.mean()]
    rho = sum(d[t] * d[t - 1] for t in range(1, count)) / sum(x * x for x in d)
    rho = rho + (1 + 3 * rho) / count
    assert 0.0 < rho < 0.95
    e = [d[0] * (1 - rho**2) ** 0.5] + [d[t] - rho * d[t - 1] for t in range(1, count)]
    e = [x - sum(e) / count for x in e]
    size = round(count ** (1 / 3))
    sums = [sum(e[(t + k) % count] for k in range(size)) for t in range(count)]
    variance = sum(x * x / size for x in sums) / count / (count - size)
    found = spread(means)
    assert found.error == pytest.approx(variance**0.5 / (1 - rho), rel=1e-9)
    assert found.drawn == count // size
    assert found.blocks == pytest.approx([x / size**0.5 for x in sums], abs=1e-9)


def test_too_few_or_infinite_values_have_no_interval():
    assert interval(BatchMeans()) is None
    assert interval(units_of(np.arange(15.0))) is None
    assert interval(units_of(np.arange(16.0))) is not None
    assert interval(units_of(np.array([np.nan, *np.arange(99.0)]))) is None
    assert interval(units_of(np.array([np.inf, -np.inf] * 500))) is None
    with pytest.raises(ValueError, match="level is 1"):
        interval(BatchMeans(), 1)


def test_what_never_varies_is_certain():
    assert interval(units_of(np.ones(1000)))[:3] == (1.0, 1.0, 1.0)


def test_an_interval_stays_within_what_can_be():
    values = np.ones(300)
    values[:2] = 0.0
    assert interval(units_of(values)).high > 1.0
    assert interval(units_of(values), within=(0.0, 1.0)).high == 1.0
    assert interval(units_of(1.0 - values), within=(0.0, 1.0)).low == 0.0


@given(st.data(), st.sampled_from([10, 255, 256, 257, 600, 1300]))
def test_chunks_do_not_show(data, events):
    values = np.random.default_rng(events).normal(size=events) * 1e3
    whole, parts = units_of(values), BatchMeans()
    for start, end in pairwise(cuts(data, events)):
        parts.add(values[start:end])
        parts = BatchMeans.restored(parts.state())
    assert same_state(whole.state(), parts.state())


@pytest.mark.parametrize("events", [0, 1, 255, 256, 257, 511, 512, 5000, 20_000])
def test_units_are_the_sums_of_their_events(events):
    values = np.random.default_rng(events).integers(0, 9, events).astype(float)
    units = units_of(values)
    length = 1
    while events >= MOST * length:
        length *= 2
    assert units.length == length
    full = events // length
    expected = values[: full * length].reshape(full, length).mean(axis=1)
    assert (units.means() == expected).all()
    assert units.mean() == (values.mean() if events else 0.0)


def test_a_state_is_independent_of_later_events():
    units = units_of(np.ones(10))
    state = units.state()
    units.add(np.ones(10))
    again = BatchMeans.restored(state)
    again.add(np.ones(3))
    assert BatchMeans.restored(state).events == 10
    assert state[1]["sums"].sum() == 10.0
    assert again.mean() == 1.0
